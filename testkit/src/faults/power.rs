//! Power cuts: the possible states of a disk, computed from a journal of a process's operations (`shim/fault.c`).
//!
//! A file has its content of the last sync. Later writes may be there, in any order, whole or in sectors; so may names that were
//! created, changed or removed since their folder was synced. POSIX allows all these states; real file systems leave fewer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{script::Dice, strike::Files};

/// The number of bytes that a disk writes at once.
const SECTOR: usize = 512;

/// One call.
#[derive(Debug, Clone)]
enum Act {
    Name(Naming),
    Data(usize, Change),
    Sync(usize),
    SyncFolder(PathBuf),
    Said(Vec<u8>),
}

/// A change of names.
#[derive(Debug, Clone)]
enum Naming {
    Make(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
    MakeFolder(PathBuf),
    RemoveFolder(PathBuf),
}

/// A change of a file.
#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

/// The operations of a process on a folder, in order.
#[derive(Debug)]
pub struct Journal {
    /// The names and the content of the files before.
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    before: Vec<Vec<u8>>,
    acts: Vec<Act>,
    under: PathBuf,
}

/// A moment at which the power may fail, and what happens to unsynced writes.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// This many calls were made.
    pub at: usize,
    /// How much of the unsynced rest is kept: all, none, names only, content only, or (from 4 on) a random part.
    pub way: u64,
}

/// The folder before the process begins.
#[derive(Debug)]
pub struct Before {
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    content: Vec<Vec<u8>>,
    inodes: HashMap<u64, usize>,
    under: PathBuf,
}

impl Journal {
    /// Looks at a folder before a process changes it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn begin(under: &Path) -> io::Result<Before> {
        let mut before = Before {
            names: BTreeMap::new(),
            folders: BTreeSet::from([under.to_owned()]),
            content: Vec::new(),
            inodes: HashMap::new(),
            under: under.to_owned(),
        };
        let mut folders = vec![under.to_owned()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(folder)? {
                let path = item?.path();
                let metadata = fs::symlink_metadata(&path)?;
                if metadata.is_dir() {
                    before.folders.insert(path.clone());
                    folders.push(path);
                } else {
                    before.inodes.insert(metadata.ino(), before.content.len());
                    before.names.insert(path.clone(), before.content.len());
                    before.content.push(fs::read(&path)?);
                }
            }
        }
        Ok(before)
    }

    /// Every relevant moment: before and after each sync, and after each line of output.
    #[must_use]
    pub fn moments(&self) -> Vec<usize> {
        let mut moments = BTreeSet::from([self.acts.len()]);
        for (number, act) in self.acts.iter().enumerate() {
            match act {
                Act::Sync(_) | Act::SyncFolder(_) => moments.extend([number, number + 1]),
                Act::Said(_) => drop(moments.insert(number + 1)),
                _ => {}
            }
        }
        moments.into_iter().collect()
    }

    /// How many syncs there were.
    #[must_use]
    pub fn syncs(&self) -> usize {
        self.acts.iter().filter(|act| matches!(act, Act::Sync(_) | Act::SyncFolder(_))).count()
    }

    /// The whole lines that were printed up to a moment.
    #[must_use]
    pub fn said(&self, at: usize) -> Vec<String> {
        let mut text = Vec::new();
        for act in &self.acts[..at] {
            if let Act::Said(bytes) = act {
                text.extend_from_slice(bytes);
            }
        }
        String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| line.starts_with('@'))
            .map(str::to_owned)
            .collect()
    }

    /// The content of the disk after a cut: files by their paths in the folder, and the folders.
    #[must_use]
    pub fn after(&self, cut: Cut) -> (Files, BTreeSet<PathBuf>) {
        let kept = self.kept(cut);
        let (mut names, mut folders) = (self.names.clone(), self.folders.clone());
        let mut content = self.before.clone();
        for (act, kept) in self.acts[..cut.at].iter().zip(kept) {
            match act {
                // A file that was made has a place for its content, whether its name is kept or not.
                Act::Name(naming) => {
                    if let Naming::Make(_, file) = naming {
                        content.resize(content.len().max(file + 1), Vec::new());
                    }
                    if kept != Kept::No {
                        apply(naming, &mut names, &mut folders);
                    }
                }
                Act::Data(file, change) => {
                    content.resize(content.len().max(file + 1), Vec::new());
                    change.apply(&mut content[*file], &kept);
                }
                _ => {}
            }
        }
        let inside = |path: &Path| path.strip_prefix(&self.under).unwrap_or(path).to_owned();
        // Shared memory is nothing that a disk keeps.
        let is_kept = |path: &&PathBuf| {
            !path.to_string_lossy().ends_with("-shm") && path.parent().is_some_and(|on| folders.contains(on))
        };
        let files = names.iter().filter(|(path, _)| is_kept(path));
        let files = files.map(|(path, file)| (inside(path), content[*file].clone())).collect();
        (files, folders.iter().map(|folder| inside(folder)).collect())
    }

    /// What is kept of each call before a cut.
    fn kept(&self, cut: Cut) -> Vec<Kept> {
        let mut dice = Dice(cut.way.wrapping_mul(7919).wrapping_add(cut.at as u64));
        let mut kept: Vec<Option<Kept>> = vec![None; cut.at];
        for (number, act) in self.acts[..cut.at].iter().enumerate() {
            let reached = |earlier: &Act| match (act, earlier) {
                (Act::Sync(file), Act::Data(other, _)) => file == other,
                (Act::SyncFolder(folder), Act::Name(naming)) => naming.is_in(folder),
                _ => false,
            };
            for (place, earlier) in self.acts[..number].iter().enumerate() {
                if reached(earlier) {
                    kept[place] = Some(Kept::Yes);
                }
            }
        }
        let way = |act: &Act, dice: &mut Dice| match (cut.way, act) {
            (0, _) | (2, Act::Name(_)) | (3, Act::Data(..)) => Kept::Yes,
            (1, _) | (2 | 3, _) => Kept::No,
            (_, Act::Data(..)) => match dice.below(3) {
                0 => Kept::No,
                1 => Kept::Yes,
                _ => Kept::Sectors(dice.roll()),
            },
            _ => [Kept::No, Kept::Yes][dice.below(2) as usize].clone(),
        };
        let acts = self.acts[..cut.at].iter().zip(kept);
        acts.map(|(act, kept)| kept.unwrap_or_else(|| way(act, &mut dice))).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
    /// Some sectors of it.
    Sectors(u64),
}

impl Naming {
    fn is_in(&self, folder: &Path) -> bool {
        let is = |path: &Path| path.parent() == Some(folder);
        match self {
            Self::Make(path, _)
            | Self::Unlink(path)
            | Self::MakeFolder(path)
            | Self::RemoveFolder(path)
            | Self::Rename(_, path) => is(path),
        }
    }
}

fn apply(naming: &Naming, names: &mut BTreeMap<PathBuf, usize>, folders: &mut BTreeSet<PathBuf>) {
    match naming {
        Naming::Make(path, file) => drop(names.insert(path.clone(), *file)),
        Naming::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Naming::Unlink(path) => drop(names.remove(path)),
        Naming::MakeFolder(path) => drop(folders.insert(path.clone())),
        Naming::RemoveFolder(path) => drop(folders.remove(path)),
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>, kept: &Kept) {
        match (self, kept) {
            (_, Kept::No) => {}
            (Self::Resize(size), _) => content.resize(*size, 0),
            (Self::Write(at, bytes), kept) => {
                let mut dice = match kept {
                    Kept::Sectors(seed) => Some(Dice(*seed)),
                    _ => None,
                };
                let mut from = 0;
                while from < bytes.len() {
                    let end = (from + SECTOR - (at + from) % SECTOR).min(bytes.len());
                    if dice.as_mut().is_none_or(|dice| dice.below(2) == 0) {
                        content.resize(content.len().max(at + end), 0);
                        content[at + from..at + end].copy_from_slice(&bytes[from..end]);
                    }
                    from = end;
                }
            }
        }
    }
}

impl Before {
    /// Reads the journal of a process.
    ///
    /// # Errors
    /// If the journal cannot be read, or does not lead from the earlier to the current state of the folder: then the process
    /// changed files in a way that the shim does not see.
    pub fn journal(self, journal: &Path) -> Result<Journal, String> {
        let bytes = fs::read(journal).map_err(|why| format!("there is no journal: {why}"))?;
        let Self { names, folders, content, mut inodes, under } = self;
        let mut files = content.len();
        let mut acts = Vec::new();
        let mut rest = &bytes[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let bad = || format!("`{line}` is no line of a journal");
            let (what, tail) = line.split_once(' ').ok_or_else(bad)?;
            let number = |place: usize| tail.split(' ').nth(place)?.parse::<u64>().ok();
            let path = |place: usize| tail.splitn(place + 1, ' ').nth(place).map(PathBuf::from);
            let mut take = |size: Option<u64>| {
                let size = usize::try_from(size?).ok()?;
                let taken = rest.get(..size)?.to_vec();
                rest = &rest[size..];
                Some(taken)
            };
            // A file whose creation was not seen is created by its first use.
            let mut file_of = |inode: Option<u64>, path: Option<PathBuf>, new: bool, acts: &mut Vec<Act>| {
                let (inode, path) = (inode?, path?);
                if !new && let Some(file) = inodes.get(&inode) {
                    return Some(*file);
                }
                inodes.insert(inode, files);
                acts.push(Act::Name(Naming::Make(path, files)));
                files += 1;
                Some(files - 1)
            };
            match what {
                "C" => {
                    file_of(number(0), path(1), true, &mut acts).ok_or_else(bad)?;
                }
                "W" => {
                    let file = file_of(number(0), path(3), false, &mut acts).ok_or_else(bad)?;
                    let (at, data) = (number(1).ok_or_else(bad)?, take(number(2)).ok_or_else(bad)?);
                    acts.push(Act::Data(file, Change::Write(at as usize, data)));
                }
                "T" => {
                    let file = file_of(number(0), path(2), false, &mut acts).ok_or_else(bad)?;
                    acts.push(Act::Data(file, Change::Resize(number(1).ok_or_else(bad)? as usize)));
                }
                "S" => {
                    let file = file_of(number(0), path(1), false, &mut acts).ok_or_else(bad)?;
                    acts.push(Act::Sync(file));
                }
                "F" => acts.push(Act::SyncFolder(PathBuf::from(tail))),
                "R" => {
                    let (from, to) = tail.split_once('\t').ok_or_else(bad)?;
                    acts.push(Act::Name(Naming::Rename(from.into(), to.into())));
                }
                "U" => acts.push(Act::Name(Naming::Unlink(tail.into()))),
                "M" => acts.push(Act::Name(Naming::MakeFolder(tail.into()))),
                "D" => acts.push(Act::Name(Naming::RemoveFolder(tail.into()))),
                "A" => acts.push(Act::Said(take(number(0)).ok_or_else(bad)?)),
                _ => return Err(bad()),
            }
        }
        let journal = Journal { names, folders, before: content, acts, under };
        journal.leads_to_what_is_there().map(|()| journal)
    }
}

impl Journal {
    /// All recorded operations together give the current state of the folder.
    fn leads_to_what_is_there(&self) -> Result<(), String> {
        let (computed, _) = self.after(Cut { at: self.acts.len(), way: 0 });
        let mut there = super::strike::snapshot(&self.under).map_err(|why| why.to_string())?;
        there.retain(|path, _| !path.to_string_lossy().ends_with("-shm"));
        let differ = |path: &&PathBuf| computed.get(*path) != there.get(*path);
        match computed.keys().chain(there.keys()).find(differ) {
            None => Ok(()),
            Some(path) => Err(format!(
                "the journal says that {} has {:?} bytes, and it has {:?}: the shim does not see every call",
                path.display(),
                computed.get(path).map(Vec::len),
                there.get(path).map(Vec::len)
            )),
        }
    }
}
