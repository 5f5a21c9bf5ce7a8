//! The private temporary folder of a command. It has an unguessable name, only its owner can use it, and it is removed with all its
//! contents.
//!
//! rejoin and the supervisor both hold a shared lock on it, and each removes it if the other was killed. If both were killed, the
//! next sandbox finds it unlocked and removes it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The beginning of a folder's name. 16 random hexadecimal digits follow.
const PREFIX: &str = "rejoin-";

/// How old an unlocked folder must be to count as abandoned: a folder is created a moment before it is locked.
const SETTLED: Duration = Duration::from_secs(60);

/// The most names that are examined in the search for abandoned folders.
const NAMES: usize = 10_000;

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
    _held: Option<File>,
}

impl PrivateFolder {
    /// Creates a folder with mode 0700 in `parent`.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let random = getrandom::u64().map_err(io::Error::other)?;
        let path = parent.join(format!("{PREFIX}{random:016x}"));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        let held = hold(&path);
        Ok(Self { path, _held: held })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Marks a folder as in use until the handle is dropped or the process ends, even by a kill.
pub fn hold(folder: &Path) -> Option<File> {
    let handle = File::open(folder).ok()?;
    handle.try_lock_shared().ok()?;
    Some(handle)
}

/// Removes the folders of this user that commands left in `parent` because both rejoin and the supervisor were killed.
#[cfg(unix)]
pub fn remove_abandoned(parent: &Path) {
    remove_abandoned_after(parent, SETTLED);
}

#[cfg(not(unix))]
pub fn remove_abandoned(_: &Path) {}

#[cfg(unix)]
fn remove_abandoned_after(parent: &Path, settled: Duration) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().take(NAMES) {
        let is_ours =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|digits| {
                digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            });
        if is_ours && let Some(_lock) = lock_if_abandoned(&entry.path(), settled) {
            remove(&entry.path());
        }
    }
}

/// Locks a folder if it belongs to this user alone, is old enough, and is not locked by any process.
#[cfg(unix)]
fn lock_if_abandoned(folder: &Path, settled: Duration) -> Option<File> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NONBLOCK;
    let handle = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(folder).ok()?;
    let found = handle.metadata().ok()?;
    let is_private = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o7777 == 0o700;
    let is_settled = found.modified().ok()?.elapsed().is_ok_and(|age| age >= settled);
    (is_private && is_settled && handle.try_lock().is_ok()).then_some(handle)
}

/// Removes a folder with everything in it, without following links. Anything that cannot be removed stays.
pub fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
        return;
    }
    // A command can remove its own right to change a folder.
    make_writable(folder);
    let _ = fs::remove_dir_all(folder);
}

fn make_writable(folder: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(0o700);
        // No process is left that could replace the folder by a link.
        if fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
            let _ = fs::set_permissions(folder, mode);
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                make_writable(&entry.path());
            }
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_own_folders_that_nothing_holds_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let private = |name: &str| {
            fs::create_dir_all(at(name).join("tmp/deep")).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o700)).unwrap();
        };
        let used = PrivateFolder::create(parent.path()).unwrap();
        for name in ["rejoin-0123456789abcdef", "rejoin-0123456789abcde", "rejoin-0123456789abcdeg", "other"]
        {
            private(name);
        }
        private("rejoin-00000000000000aa");
        fs::set_permissions(at("rejoin-00000000000000aa"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink(at("other"), at("rejoin-00000000000000bb")).unwrap();
        fs::write(at("rejoin-00000000000000cc"), "a file").unwrap();

        remove_abandoned(parent.path());
        assert!(at("rejoin-0123456789abcdef").exists(), "it may have been made just now");
        remove_abandoned_after(parent.path(), Duration::ZERO);
        assert!(!at("rejoin-0123456789abcdef").exists());
        for name in ["rejoin-0123456789abcde", "rejoin-0123456789abcdeg", "other/tmp/deep"] {
            assert!(at(name).exists(), "{name}");
        }
        for name in ["rejoin-00000000000000aa", "rejoin-00000000000000bb", "rejoin-00000000000000cc"] {
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(used.path().exists(), "a folder in use");
        // The supervisor still runs although rejoin was killed.
        let (path, supervisor) = (used.path().to_owned(), hold(used.path()).unwrap());
        std::mem::forget(used);
        remove_abandoned_after(parent.path(), Duration::ZERO);
        assert!(path.exists());
        drop(supervisor);
    }
}
