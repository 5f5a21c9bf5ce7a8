//! A folder whose files together hold conversations.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use rejoin::{Files, record::limits};

/// The most files that are listed. A folder with more is no storage of one program.
pub const MOST: usize = 100_000;

/// The files of a folder and of the folders in it. Links are not followed: they may lead anywhere.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    name: String,
    paths: Vec<String>,
}

impl Folder {
    /// Lists a folder. `None` if it cannot be read, or has too many files.
    pub fn list(root: &Path) -> Option<Self> {
        let mut paths = Vec::new();
        let mut folders = vec![(root.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in fs::read_dir(&folder).ok()?.flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                // A name that is not text is no name that a format knows.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = format!("{prefix}{name}");
                if kind.is_dir() {
                    folders.push((entry.path(), format!("{path}/")));
                } else if kind.is_file() {
                    paths.push(path);
                }
                if paths.len() + folders.len() > MOST {
                    return None;
                }
            }
        }
        paths.sort();
        Some(Self::of(root, paths))
    }

    /// A folder whose files are known already, in order.
    pub fn of(root: &Path, paths: Vec<String>) -> Self {
        Self { root: root.to_owned(), name: root.to_string_lossy().into_owned(), paths }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folders directly in it, each with its files.
    pub fn folders(&self) -> Vec<Self> {
        let mut folders: Vec<Self> = Vec::new();
        for path in &self.paths {
            let Some((folder, rest)) = path.split_once('/') else { continue };
            match folders.last_mut().filter(|last| last.root.ends_with(folder)) {
                Some(last) => last.paths.push(rest.to_owned()),
                None => folders.push(Self::of(&self.root.join(folder), vec![rest.to_owned()])),
            }
        }
        folders
    }
}

impl Files for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        // Only what was listed: no path leads out of the folder.
        self.paths.binary_search_by(|own| own.as_str().cmp(path)).ok()?;
        let path = self.root.join(path);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let mut bytes = Vec::new();
        let most = limits::BODY_BYTES as u64;
        File::open(path).ok().filter(|_| is_file)?.take(most + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }
}
