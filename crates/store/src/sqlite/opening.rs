//! Opens a file, whether sound or damaged.

use std::{fs, path::Path, path::PathBuf, time::Duration};

use rejoin_record::text::plural;
use rusqlite::Connection;

use super::{
    ErrorContext as _, carve, feed,
    salvage::{self, Salvage, damage, found_in, log_of},
    schema::{self, OpenedConnection},
    scrub, wal,
};
use crate::{
    aside::Asides,
    error::{StoreError, StoreResult},
    files,
    open::Access,
    store::{Damage, StoragePlace},
};

/// The result of opening a file.
pub(super) struct OpenedFile {
    pub(super) opened: OpenedConnection,
    /// The copy that is read in place of a damaged file.
    pub(super) salvage: Option<Salvage>,
    pub(super) damage: Vec<Damage>,
}

pub(super) fn open(path: &Path, access: Access, asides: &Asides) -> StoreResult<OpenedFile> {
    let mut found = Vec::new();
    let log = if path.exists() { look_at_log(path, asides) } else { None };
    let opened = open_as_it_is(path, access).and_then(|opened| looked_over(path, opened));
    if let Some((lost, kept)) = log {
        let torn = lost.commits == 1
            && opened.as_ref().is_ok_and(|opened| {
                let (OpenedConnection::Writable(connection) | OpenedConnection::Readable(connection, _)) =
                    opened;
                // While a removal is in progress, the index is missing for a moment.
                feed::knows_no_more(&index_of(path), connection) || scrub::is_under_way(connection)
            });
        found.push(in_the_log(lost, &kept, torn));
    }
    let why = match opened {
        Ok(opened) => return Ok(OpenedFile { opened, salvage: None, damage: found }),
        Err(why) => why,
    };
    // The file is not a database, its tables cannot be read, or its pages were changed.
    let is_damaged =
        matches!(&why, StoreError::Damaged { .. } | StoreError::Database { unwritable: false, .. });
    if !is_damaged || !path.exists() {
        return Err(why);
    }
    if access == Access::Write {
        match salvage::mend(path, asides, &why) {
            Ok(mended) => {
                found.extend(mended);
                let opened = open_as_it_is(path, access)?;
                return Ok(OpenedFile { opened, salvage: None, damage: found });
            }
            Err(trouble) if trouble.is_damage() => return Err(why),
            Err(trouble) => tracing::warn!("the store is damaged and could not be mended: {trouble}"),
        }
    }
    let salvage = match Salvage::of(path, &why) {
        Ok(salvage) => salvage,
        Err(trouble) => {
            tracing::debug!("nothing could be found in the damaged file: {trouble}");
            return Err(why);
        }
    };
    let connection = schema::reconnect(&salvage.file)?;
    found.push(found_in(&why));
    let opened = OpenedConnection::Readable(connection, String::from("the file is damaged"));
    Ok(OpenedFile { opened, salvage: Some(salvage), damage: found })
}

fn open_as_it_is(path: &Path, access: Access) -> StoreResult<OpenedConnection> {
    // A new store gets its name only when it is complete, so an empty file is the remainder of a store.
    if is_empty(path) {
        let why = String::from("the file is empty, and whatever was in it is gone");
        return Err(StoreError::Damaged { place: StoragePlace::Store, why });
    }
    let opened = match access {
        Access::Read => schema::open_to_read(path)?,
        Access::Write => schema::open_to_write(path)?,
    };
    let (OpenedConnection::Writable(connection) | OpenedConnection::Readable(connection, _)) = &opened;
    has_tables(connection)?;
    Ok(opened)
}

pub(super) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0)
}

/// Checks a file that was changed since it was closed. Pages that no longer fit together can hide entries without an error, and
/// writing to them makes it worse.
fn looked_over(path: &Path, opened: OpenedConnection) -> StoreResult<OpenedConnection> {
    let (OpenedConnection::Writable(connection) | OpenedConnection::Readable(connection, _)) = &opened;
    if has_older_log(path, connection)? {
        let why = String::from("its log is older than the file, and hides what was written since");
        return Err(StoreError::Damaged { place: StoragePlace::Store, why });
    }
    let (index, seal) = (index_of(path), seal(path));
    if feed::seal_in(&index).as_ref() == Some(&seal) {
        return Ok(opened);
    }
    if !salvage::is_sound(connection)? {
        let why = String::from("another program changed it, and its pages no longer fit together");
        return Err(StoreError::Damaged { place: StoragePlace::Store, why });
    }
    feed::put_seal_in(&index, &seal);
    Ok(opened)
}

/// Whether the log is older than the file. The whole file is read only if the index has seen more than the database shows.
pub(super) fn has_older_log(path: &Path, connection: &Connection) -> StoreResult<bool> {
    let logged = fs::metadata(log_of(path)).map_or(0, |metadata| metadata.len());
    Ok(logged > 0 && feed::index_is_ahead(&index_of(path), connection) && carve::log_is_older(path)?)
}

/// The seal of a file, which changes with the file: its size, its time and its identity.
pub(super) fn seal(path: &Path) -> String {
    fs::metadata(path).map_or_else(
        |_| String::new(),
        |metadata| {
            let since = metadata.modified().ok();
            let since = since.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let nanos = since.map_or(0, |since| since.as_nanos());
            format!("{} {nanos} {:?}", metadata.len(), files::identity(&metadata))
        },
    )
}

pub(super) fn index_of(path: &Path) -> PathBuf {
    files::with_end(path, "-index")
}

/// Checks that the tables exist, and that there are no triggers or views.
pub(super) fn has_tables(connection: &Connection) -> StoreResult<()> {
    let mut strange = connection
        .prepare("SELECT type || ' ' || quote(name) FROM sqlite_schema WHERE type IN ('trigger', 'view')")
        .during("looking for the tables")?;
    let strange = strange.query_row([], |row| row.get::<_, String>(0));
    if let Ok(strange) = strange {
        // It could run on every read or write.
        return Err(StoreError::Refused(format!("it has a {strange}, and a store of ours has none")));
    }
    for query in [
        "SELECT key, id FROM conversation NOT INDEXED LIMIT 1",
        "SELECT id FROM conversation ORDER BY id LIMIT 1",
        "SELECT key, conversation, seq, id, parent, at, kind, source_time, inner, hash, salt, body, envelope \
         FROM entry NOT INDEXED LIMIT 1",
        "SELECT conversation, seq FROM entry INDEXED BY entry_place ORDER BY conversation, seq LIMIT 1",
        "SELECT name, value FROM meta LIMIT 1",
    ] {
        let mut statement = connection.prepare(query).during("looking for the tables")?;
        let mut rows = statement.query([]).during("looking for the tables")?;
        rows.next().during("looking for the tables")?;
    }
    Ok(())
}

/// Examines the log that a killed process left, and copies it if the database would ignore a part of it.
fn look_at_log(path: &Path, asides: &Asides) -> Option<(wal::LostFrames, String)> {
    let log = log_of(path);
    let lost = wal::lost(&log).ok().flatten()?;
    // Another process may be writing to it. In that case it differs a moment later.
    std::thread::sleep(Duration::from_millis(30));
    if wal::lost(&log).ok().flatten() != Some(lost) {
        return None;
    }
    let kept = asides.keep_file("log", &log);
    Some((lost, kept.map_or_else(|why| why.to_string(), |kept| kept.display().to_string())))
}

/// The damage of an incomplete log. An append is synced before the next one begins, so a power failure leaves at most one
/// incomplete append: the last one, which was not acknowledged.
fn in_the_log(lost: wal::LostFrames, kept: &str, torn: bool) -> Damage {
    let (frame, commits) = (lost.frame, lost.commits);
    let why = if torn {
        format!(
            "the last append in the log is not whole, as a power failure leaves it; a copy of the log is kept in {kept}"
        )
    } else {
        let appends = plural(commits, "append");
        format!(
            "the log is damaged from frame {frame} on ({appends} lost); a copy of the log is kept in {kept}"
        )
    };
    Damage { torn, ..damage(why) }
}
