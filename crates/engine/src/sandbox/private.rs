//! The private temporary folder of a command: made with an unguessable name for its owner alone, and removed whatever is in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    /// Creates a folder with mode 0700 in `parent`.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let random = getrandom::u64().map_err(io::Error::other)?;
        let path = parent.join(format!("rejoin-{random:016x}"));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Self { path })
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

/// Removes a folder with everything in it, and follows no link. What cannot be removed stays.
pub fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
        return;
    }
    // A command can take away its own right to change a folder.
    make_writable(folder);
    let _ = fs::remove_dir_all(folder);
}

fn make_writable(folder: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(0o700);
        // Nothing runs any more that could swap the folder for a link.
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
