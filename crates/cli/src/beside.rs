//! Files beside a session file that it refers to. Only files of the same agent, near the session, are ever opened: what a
//! transcript names is data, not an order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin::Companions;

/// How many folders deep the sessions of an agent lie: year, month, day.
const DEPTH: usize = 4;

/// No file beside a session is larger than this.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What lies beside a session file.
#[derive(Debug)]
pub struct Beside {
    session: PathBuf,
}

impl Beside {
    /// What lies beside this file.
    pub fn new(session: &Path) -> Self {
        // However it is spelled, it lies where it lies.
        Self { session: fs::canonicalize(session).unwrap_or_else(|_| session.to_owned()) }
    }

    /// A tool's output that a transcript names by its path: in the folder that belongs to the session, whatever path it is.
    fn spilled(&self, path: &str) -> Option<PathBuf> {
        let name = path.rsplit(['/', '\\']).next().filter(|name| !name.is_empty() && *name != "..")?;
        let folder = self.session.parent()?;
        let stem = self.session.file_stem()?;
        [folder.join(stem).join("tool-results"), folder.join("tool-results")]
            .into_iter()
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    }

    /// A rollout by the id that its name ends with: in the tree of sessions that this one lies in, or beside it.
    fn rollout(&self, id: &str) -> Option<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || !id.chars().all(plain) {
            return None;
        }
        let folder = self.session.parent()?;
        let home = folder.ancestors().take(DEPTH + 1).find(|folder| {
            folder.file_name().is_some_and(|name| name == "sessions" || name == "archived_sessions")
        });
        let roots: Vec<PathBuf> = match home.and_then(Path::parent) {
            Some(home) => vec![home.join("sessions"), home.join("archived_sessions")],
            None => vec![folder.to_owned()],
        };
        let ends = [format!("-{id}.jsonl"), format!("_{id}.jsonl")];
        roots.iter().find_map(|root| find(root, &ends))
    }
}

/// The file under a folder whose name ends so.
fn find(root: &Path, ends: &[String]) -> Option<PathBuf> {
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() && depth < DEPTH {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && ends.iter().any(|end| name.ends_with(end.as_str())) {
                return Some(entry.path());
            }
        }
    }
    None
}

impl Companions for Beside {
    fn open(&self, name: &str) -> Option<Vec<u8>> {
        let path = if name.contains(['/', '\\', '.']) { self.spilled(name) } else { self.rollout(name) }?;
        let small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= LARGEST);
        if small { fs::read(path).ok() } else { None }
    }
}
