//! Folders and files that only their owner may read.

use std::{fs, path::Path};

use crate::error::StoreError;

/// Makes a folder that only its owner may enter, with those above it. One that is there stays as it is.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Makes an empty file that only its owner may read. One that is there stays as it is.
pub(crate) fn make_file(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(StoreError::io(format!("making {}", path.display())))
}
