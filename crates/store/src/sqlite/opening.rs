//! Opening a file, whatever became of it.
//!
//! The first page of a store is the same in every store of a schema, apart from counters: settings, and the list of tables. So
//! where it is damaged it can be made anew, and everything behind it is read as before. A damaged file that is opened to be
//! written is copied aside first; one that is opened to be read stays as it is, and a mended copy is read.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rusqlite::Connection;

use super::{
    failed,
    schema::{self, Opened, PAGE_BYTES},
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
    let copy = mended_copy(path)?;
    let opened = match open_as_it_is(&copy, Access::Read) {
        // What is no store does not become one because its first page says so.
        Ok(Opened::Writable(connection) | Opened::Readable(connection, _)) if has_entries(&connection) => {
            Opened::Readable(connection, String::from("its first page is damaged"))
        }
        _ => {
            remove(&copy);
            return Err(why);
        }
    };
    if access == Access::Read {
        found.push(damage(format!("the first page is damaged ({why}); a mended copy is read"), false));
        return Ok(Found { path: copy, opened, damage: found });
    }
    drop(opened);
    remove(&copy);
    // Without a copy nothing is touched.
    let kept = asides.keep_file("store", path)?;
    mend(path)?;
    let what = format!(
        "the first page was damaged ({why}) and was made anew; the file as it was is in {}",
        kept.display()
    );
    found.push(damage(what, false));
    let opened = open_as_it_is(path, access).map_err(|_| why)?;
    Ok(Found { path: path.to_owned(), opened, damage: found })
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
        "SELECT value FROM meta WHERE name = 'removed'",
    ] {
        let mut statement = connection.prepare(query).map_err(failed("looking for the tables"))?;
        let mut rows = statement.query([]).map_err(failed("looking for the tables"))?;
        if let Err(why) = rows.next() {
            // A damaged page further down is met again where it is read; one at the root is not got around.
            let root_is_damaged = why.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase);
            if root_is_damaged || query.contains("meta") {
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

/// The first page of a new store.
fn first_page() -> Result<Vec<u8>, StoreError> {
    let folder = std::env::temp_dir().join(format!("rejoin-model-{}", unique()));
    files::make_folder(&folder)?;
    let path = folder.join("model.db");
    let made = || -> Result<Vec<u8>, StoreError> {
        match schema::open_to_write(&path)? {
            Opened::Writable(connection) => drop(connection),
            Opened::Readable(_, why) => return Err(StoreError::ReadOnly(why)),
        }
        let mut page = vec![0; PAGE_BYTES];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut page));
        read.map_err(StoreError::io("making a first page"))?;
        Ok(page)
    };
    let page = made();
    let _ = fs::remove_dir_all(&folder);
    page
}

/// Where the counters of the first page are: they differ from store to store.
const COUNTERS: &[std::ops::Range<usize>] = &[24..28, 32..40, 92..96];

/// Makes the first page of a file anew.
fn mend(path: &Path) -> Result<(), StoreError> {
    let failed = || StoreError::io(format!("mending {}", path.display()));
    let mut page = first_page()?;
    let mut file = File::options().read(true).write(true).open(path).map_err(failed())?;
    let mut old = vec![0; PAGE_BYTES];
    file.read_exact(&mut old).map_err(failed())?;
    for counter in COUNTERS {
        page[counter.clone()].copy_from_slice(&old[counter.clone()]);
    }
    let pages = file.metadata().map_err(failed())?.len() / PAGE_BYTES as u64;
    page[28..32].copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&page)).map_err(failed())?;
    file.sync_all().map_err(failed())
}

/// A copy of a file with its first page made anew, where the system keeps what may go.
fn mended_copy(path: &Path) -> Result<PathBuf, StoreError> {
    let folder = std::env::temp_dir();
    let copy = folder.join(format!("rejoin-mended-{}.db", unique()));
    let failed = || StoreError::io(format!("copying to {}", copy.display()));
    let _ = fs::remove_file(&copy);
    files::make_file(&copy)?;
    fs::copy(path, &copy).map_err(failed())?;
    if log_of(path).exists() {
        fs::copy(log_of(path), log_of(&copy)).map_err(failed())?;
    }
    mend(&copy)?;
    Ok(copy)
}
