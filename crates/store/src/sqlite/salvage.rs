//! Rescues a damaged file.
//!
//! Any read may find a damaged page. A reader then continues in a copy with every row that can be found without the damaged pages
//! (`carve.rs`). A writer repairs the file first: it copies the file aside and replaces the file's content by the rescued rows, in
//! one transaction. No other write goes to a file that is known to be damaged.

use std::{
    collections::hash_map::RandomState,
    fs::{self, File},
    hash::{BuildHasher as _, Hasher as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
    config::DbConfig,
};

use super::{ErrorContext as _, Inner, carve, lock, opening, rebuild, schema};
use crate::{backend::*, sql};

/// A copy of the rows that can be found in a damaged file. Dropping it removes the copy.
pub(super) struct Salvage {
    #[allow(dead_code, reason = "what counts is that it goes with the copy")]
    folder: Private,
    pub(super) file: PathBuf,
}

impl Salvage {
    /// Copies all rows that can be found in a file. Fails with `nothing` if there is no entry.
    pub(super) fn of(path: &Path, nothing: &StoreError) -> StoreResult<Self> {
        let folder = Private::beside(path)?;
        let file = folder.path.join("found.db");
        carve::carve(path, &file)?;
        let found = schema::reconnect(&file)?;
        let any = found.query_row("SELECT count(*) FROM (SELECT 1 FROM entry LIMIT 1)", [], |row| row.get(0));
        // A file without entries may never have been a store.
        if any.unwrap_or(0i64) == 0 {
            return Err(StoreError::Damaged { place: StoragePlace::Store, why: nothing.to_string() });
        }
        Ok(Self { folder, file })
    }
}

/// How often an open store is rescued: once more for a page that is damaged later.
const RESCUES: u8 = 2;

impl Inner {
    /// Repairs the file, or makes a copy for reading. Returns whether the failed operation is worth repeating.
    pub(super) fn rescue(&self, why: &StoreError) -> bool {
        let mut times = lock(&self.rescues);
        if *times >= RESCUES || lock(&self.salvage).is_some() {
            return false;
        }
        *times += 1;
        let mended = match self.access {
            Access::Write => {
                *lock(&self.writer) = None;
                mend(&self.path, &self.asides, why)
            }
            Access::Read => Err(StoreError::ReadOnly(String::from("it was opened to be read"))),
        };
        let done = match mended {
            Ok(damage) => {
                if let Some(damage) = &damage {
                    tracing::warn!("{}", damage.why);
                }
                lock(&self.damage).extend(damage);
                true
            }
            Err(trouble) => match Salvage::of(&self.path, why) {
                Ok(salvage) => {
                    if self.access == Access::Write {
                        tracing::warn!("the store is damaged and could not be mended: {trouble}");
                    }
                    *lock(&self.salvage) = Some(salvage);
                    lock(&self.damage).push(found_in(why));
                    true
                }
                Err(trouble) => {
                    tracing::debug!("nothing could be saved of the damaged store: {trouble}");
                    false
                }
            },
        };
        self.reopen();
        done
    }

    /// Fails if only a copy is being read, so that nothing is written.
    pub(super) fn is_not_salvaged(&self) -> StoreResult<()> {
        if lock(&self.salvage).is_none() {
            return Ok(());
        }
        Err(StoreError::ReadOnly(String::from("the file is damaged, and could not be mended")))
    }
}

/// The damage to report for a file that is only read.
pub(super) fn found_in(why: &StoreError) -> Damage {
    let why = cause(why);
    damage(format!("the file is damaged ({why}); showing what can still be read"))
}

/// The cause in an error about a file, without the place.
fn cause(why: &StoreError) -> String {
    match why {
        StoreError::Damaged { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

pub(super) fn damage(why: String) -> Damage {
    Damage::at(StoragePlace::Store, why, Vec::new())
}

/// Whether the database finds a file sound.
pub(super) fn is_sound(connection: &Connection) -> StoreResult<bool> {
    let said = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    match said {
        Err(why) if super::is_damage(&why) => Ok(false),
        said => Ok(said.during("checking the file")? == "ok"),
    }
}

/// How long to wait for another process that repairs or writes the file.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repairs a damaged file, and returns its damage; `None` if another process repaired it first.
pub(super) fn mend(path: &Path, asides: &Asides, why: &StoreError) -> StoreResult<Option<Damage>> {
    let failed = || StoreError::io(format!("mending {}", path.display()));
    let one = files::open_to_append(&files::with_end(path, ".mending"), true).map_err(failed())?;
    files::lock(&one).map_err(failed())?;
    // The database discards the log of an empty file when it opens it, so rescue the rows before that.
    let emptied = opening::is_empty(path);
    let early = if emptied { Some((Salvage::of(path, why)?, set_aside(path, asides)?)) } else { None };
    if !emptied
        && let Ok(connection) = schema::reconnect(path)
        && opening::has_tables(&connection).is_ok()
        && is_sound(&connection).unwrap_or(false)
        && !opening::has_older_log(path, &connection)?
    {
        return Ok(None);
    }
    let folder = Private::beside(path)?;
    let mended = folder.path.join("mended.db");
    // Lock the file first, so that it cannot change while it is read.
    drop(schema::open_to_write(&mended)?);
    let open = |path: &Path| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let from = open(&mended).during("mending the store")?;
    let mut to = open(path).during("mending the store")?;
    // Overwrite the file whatever its header says.
    to.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true).during("mending the store")?;
    schema::empties_log(&to, false)?;
    let copying = Backup::new(&from, &mut to).during("mending the store")?;
    step(&copying, 0)?;
    let (salvage, kept) = match early {
        Some(early) => early,
        None => (Salvage::of(path, why)?, set_aside(path, asides)?),
    };
    rebuild::rebuild(&salvage.file, &mended)?;
    step(&copying, -1)?;
    drop(copying);
    drop(to);
    sql::empty_log(&schema::reconnect(path)?).during("mending the store")?;
    let why = cause(why);
    let what = format!(
        "the file was damaged ({why}); everything readable was saved, and the damaged file is kept as {}",
        kept.display()
    );
    drop(folder);
    Ok(Some(damage(what)))
}

/// Copies a damaged file and its log aside, and returns the path of the copy.
fn set_aside(path: &Path, asides: &Asides) -> StoreResult<PathBuf> {
    let log = log_of(path);
    let kept_log = if log.exists() { Some(asides.keep_file("log", &log)?) } else { None };
    let kept = asides.keep_file("store", path)?;
    Ok(if opening::is_empty(path) { kept_log.unwrap_or(kept) } else { kept })
}

/// Copies pages, or, with 0 pages, only locks the target.
fn step(copying: &Backup<'_, '_>, pages: i32) -> StoreResult<()> {
    let begun = Instant::now();
    loop {
        let done = copying.step(pages).during("mending the store")?;
        let busy = matches!(done, StepResult::Busy | StepResult::Locked);
        if !busy && (pages == 0 || done == StepResult::Done) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            let why = String::from("another process keeps it");
            return Err(StoreError::Database { what: "mending the store", why, unwritable: true });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder with an unguessable name that only this process uses. Dropping it removes the folder.
pub(super) struct Private {
    pub(super) path: PathBuf,
    /// Locked while the folder is in use, so that a folder left by a killed process can be recognised.
    used: File,
}

/// The middle of the names of such folders.
const PRIVATE: &str = ".salvage-";

impl Private {
    /// Creates one next to a file or, if that is not possible, in the system's temporary folder.
    pub(super) fn beside(path: &Path) -> StoreResult<Self> {
        sweep(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let random = || RandomState::new().build_hasher().finish();
        let name = format!("{name}{PRIVATE}{:016x}{:016x}", random(), random());
        let folder = path.parent().unwrap_or(Path::new("")).join(&name);
        Self::make(folder).or_else(|_| Self::make(std::env::temp_dir().join(format!("rejoin-{name}"))))
    }

    fn make(path: PathBuf) -> StoreResult<Self> {
        files::make_new_folder(&path)?;
        let failed = || StoreError::io(format!("making {}", path.display()));
        let used = files::make_new(&path.join("used")).map_err(failed())?;
        files::lock(&used).map_err(failed())?;
        Ok(Self { path, used })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = files::unlock(&self.used);
    }
}

/// Removes the folders that killed processes left next to a file.
pub(super) fn sweep(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let beginning = format!("{name}{PRIVATE}");
    for file in fs::read_dir(files::above(path)).into_iter().flatten().flatten() {
        if !file.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
            continue;
        }
        let used = files::open_to_append(&file.path().join("used"), false);
        if used.is_ok_and(|used| used.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(file.path());
        }
    }
}

pub(super) fn log_of(path: &Path) -> PathBuf {
    files::with_end(path, "-wal")
}
