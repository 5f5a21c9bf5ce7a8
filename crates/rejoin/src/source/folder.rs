//! Reads a folder whose files hold conversations only together.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Read as _,
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use rejoin_formats::{
    input::Files,
    sessions::{self, Format},
};
use rejoin_record::limits;

/// The most files that are listed. A folder with more files is not the storage of one program.
pub const MOST: usize = 100_000;

/// The files of a folder and of the folders in it. Links are not followed, because they may lead anywhere.
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
                // Skip a file whose name is not valid text: no format has such a name.
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

    /// A folder whose files are already known. `paths` is sorted.
    pub fn of(root: &Path, paths: Vec<String>) -> Self {
        Self { root: root.to_owned(), name: root.to_string_lossy().into_owned(), paths }
    }

    /// The files in it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().map(|path| self.root.join(path))
    }

    /// The tasks and storages of agents in it; one of them may be the folder itself.
    ///
    /// They are found by the names of their files, and only one file of each is read. So the cost grows only with the number of
    /// files.
    pub fn units(&self) -> Units {
        let marks = self.paths.iter().flat_map(|path| sessions::storages(path));
        let roots: BTreeMap<(&str, &str), &'static Format> =
            marks.map(|(format, root)| ((root, format.name), format)).collect();
        let mut units = HashMap::new();
        for ((root, _), format) in roots {
            // The list is sorted, so paths with the same beginning are neighbours.
            let from = self.paths.partition_point(|path| path.as_str() < root);
            let inside = self.paths[from..].iter().map_while(|path| path.strip_prefix(root));
            let own = inside.filter(|path| sessions::owns(format, path)).take(MOST + 1).map(str::to_owned);
            let files = Self::of(&self.inner(root), own.collect());
            let is_unit = files.paths.len() <= MOST && sessions::is_storage(&files, format);
            if is_unit && !units.contains_key(&files.root) {
                units.insert(files.root.clone(), Unit { files, format });
            }
        }
        Units(units)
    }

    /// The path of the folder that the beginning `root` of some paths names.
    fn inner(&self, root: &str) -> PathBuf {
        match root.trim_end_matches('/') {
            "" => self.root.clone(),
            root => self.root.join(root),
        }
    }
}

/// A folder that is a task or a storage of an agent, with the files that belong to it. Other files in it may be sessions
/// themselves.
pub struct Unit {
    pub files: Folder,
    pub format: &'static Format,
}

/// The tasks and storages of agents in a folder.
pub struct Units(HashMap<PathBuf, Unit>);

impl Units {
    /// The unit whose folder is at this path.
    pub fn at(&self, place: &Path) -> Option<&Unit> {
        self.0.get(place)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.0.values()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The folders of the units, in no particular order.
    pub fn into_folders(self) -> impl Iterator<Item = PathBuf> {
        self.0.into_keys()
    }

    /// Whether a path is inside the folder of a unit.
    pub fn surround(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.0.contains_key(folder))
    }

    /// Whether a file belongs to a unit, as one of its own files.
    pub fn own(&self, path: &Path) -> bool {
        path.ancestors().filter_map(|folder| self.at(folder)).any(|unit| {
            let inside = path.strip_prefix(&unit.files.root).ok().and_then(Path::to_str);
            inside.is_some_and(|inside| sessions::owns(unit.format, &inside.replace(MAIN_SEPARATOR, "/")))
        })
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
        // Read only files that were listed, so that no path leads out of the folder.
        self.paths.binary_search_by(|own| own.as_str().cmp(path)).ok()?;
        let path = self.root.join(path);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let mut bytes = Vec::new();
        let most = limits::BODY_BYTES as u64;
        File::open(path).ok().filter(|_| is_file)?.take(most + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }
}
