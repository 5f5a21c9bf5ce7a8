//! Opening a file, whatever became of it.
//!
//! Where the database cannot read it, the rows are found page by page (`carve.rs`). A damaged file that is opened to be written is
//! copied aside first, and what was found takes its place; one that is opened to be read stays as it is.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rusqlite::Connection;

use super::{
    carve, failed,
    schema::{self, Opened},
    wal,
};
use crate::{
    aside::Asides,
    error::StoreError,
    files,
    open::Access,
    store::{Damage, Place},
};

/// What opening gave.
pub(super) struct Found {
    /// The file that was opened: the store's own, or a mended copy.
    pub(super) path: PathBuf,
    pub(super) opened: Opened,
    /// What was damaged.
    pub(super) damage: Vec<Damage>,
}

fn damage(why: String, torn: bool) -> Damage {
    Damage { place: Place::Store, why, bytes: Vec::new(), torn }
}

/// Opens a file.
pub(super) fn open(path: &Path, access: Access, asides: &Asides) -> Result<Found, StoreError> {
    let mut found = Vec::new();
    match fs::metadata(path) {
        // A store that was just made, or emptied.
        Ok(metadata) if metadata.len() == 0 && access == Access::Read && !log_of(path).exists() => {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Ok(_) => found.extend(look_at_log(path, asides)),
        Err(_) => {}
    }
    let opened = open_as_it_is(path, access);
    let why = match opened {
        Ok(opened) => return Ok(Found { path: path.to_owned(), opened, damage: found }),
        Err(why) => why,
    };
    // A file that is no database, or has no tables that can be read.
    let is_damaged = matches!(&why, StoreError::Database { unwritable: false, .. });
    if !is_damaged || !path.exists() {
        return Err(why);
    }
    let copy = carved_copy(path)?;
    let opened = schema::open_to_read(&copy);
    let opened = match opened {
        // What has no entries in it was no store.
        Ok(Opened::Writable(connection) | Opened::Readable(connection, _)) if has_entries(&connection) => {
            Opened::Readable(connection, String::from("the file is damaged"))
        }
        _ => {
            remove(&copy);
            return Err(why);
        }
    };
    if access == Access::Read {
        found.push(damage(format!("the file is damaged ({why}); what can be found in it is read"), false));
        return Ok(Found { path: copy, opened, damage: found });
    }
    drop(opened);
    let replaced = replace(path, &copy, asides);
    remove(&copy);
    let kept = replaced?;
    let what =
        format!("the file was damaged ({why}) and was made anew; as it was it is in {}", kept.display());
    found.push(damage(what, false));
    let opened = open_as_it_is(path, access)?;
    Ok(Found { path: path.to_owned(), opened, damage: found })
}

/// Puts what was found in a damaged file in its place; the file as it was is set aside.
fn replace(path: &Path, copy: &Path, asides: &Asides) -> Result<PathBuf, StoreError> {
    // Without a copy nothing is touched.
    let kept = asides.keep_file("store", path)?;
    if log_of(path).exists() {
        asides.keep_file("log", &log_of(path))?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    remove(&new);
    super::rebuild::rebuild(copy, &new)?;
    let failed = || StoreError::io(format!("putting the mended store in the place of {}", path.display()));
    let _ = fs::remove_file(log_of(path));
    fs::rename(&new, path).map_err(failed())?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    files::sync_folder(folder).map_err(failed())?;
    remove(&new);
    Ok(kept)
}

/// Removes a copy.
pub(super) fn remove(copy: &Path) {
    for end in ["", "-wal", "-shm", "-index", "-index-wal", "-index-shm"] {
        let mut name = copy.as_os_str().to_owned();
        name.push(end);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

/// Whether entries are found where they should be.
fn has_entries(connection: &Connection) -> bool {
    ["SELECT key FROM entry NOT INDEXED LIMIT 1", "SELECT seq FROM entry INDEXED BY entry_place LIMIT 1"]
        .iter()
        .any(|query| connection.query_row(query, [], |row| row.get::<_, i64>(0)).is_ok())
}

/// What the copies of this process begin with.
const MENDED: &str = "rejoin-mended-";

/// Removes copies of processes that were killed before they could do it themselves.
fn sweep() {
    for file in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = file.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(MENDED)?.split('-').next()?.parse::<u32>().ok());
        // Where processes cannot be looked up, the system clears the folder.
        let gone = |process: u32| {
            Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
        };
        if process.is_some_and(gone) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// A name that no other thread or process uses.
fn unique() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn open_as_it_is(path: &Path, access: Access) -> Result<Opened, StoreError> {
    let opened = match access {
        Access::Read => schema::open_to_read(path)?,
        Access::Write => schema::open_to_write(path)?,
    };
    let (Opened::Writable(connection) | Opened::Readable(connection, _)) = &opened;
    has_tables(connection)?;
    Ok(opened)
}

/// Whether the tables are where they should be.
fn has_tables(connection: &Connection) -> Result<(), StoreError> {
    for query in [
        "SELECT key, id FROM conversation NOT INDEXED LIMIT 1",
        "SELECT id FROM conversation ORDER BY id LIMIT 1",
        "SELECT key, conversation, seq, id, parent, at, kind, source_time, inner, hash, salt, body, envelope \
         FROM entry NOT INDEXED LIMIT 1",
        "SELECT conversation, seq FROM entry INDEXED BY entry_place ORDER BY conversation, seq LIMIT 1",
        "SELECT name, value FROM meta LIMIT 1",
    ] {
        let mut statement = connection.prepare(query).map_err(failed("looking for the tables"))?;
        let mut rows = statement.query([]).map_err(failed("looking for the tables"))?;
        if let Err(why) = rows.next() {
            // A damaged page is met again, and got around, where it is read.
            if why.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) {
                return Err(failed("looking for the tables")(why));
            }
        }
    }
    Ok(())
}

/// The log of a file.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Looks at the log that a killed process left, and sets it aside if the database would forget something of it.
fn look_at_log(path: &Path, asides: &Asides) -> Option<Damage> {
    let log = log_of(path);
    let lost = wal::lost(&log).ok().flatten()?;
    // Somebody may be writing to it just now; then it looks different a moment later.
    std::thread::sleep(Duration::from_millis(30));
    if wal::lost(&log).ok().flatten() != Some(lost) {
        return None;
    }
    let kept = asides.keep_file("log", &log);
    let kept = kept.map_or_else(|why| why.to_string(), |kept| kept.display().to_string());
    Some(damage(
        format!(
            "the log is damaged from frame {} on, and {} appends in it are lost; the log as it was is in {kept}",
            lost.frame, lost.commits
        ),
        false,
    ))
}

/// A file with everything that can be found in a damaged one, where the system keeps what may go.
pub(super) fn carved_copy(path: &Path) -> Result<PathBuf, StoreError> {
    sweep();
    let copy = std::env::temp_dir().join(format!("{MENDED}{}.db", unique()));
    if let Err(why) = carve::carve(path, &copy) {
        remove(&copy);
        return Err(why);
    }
    Ok(copy)
}
