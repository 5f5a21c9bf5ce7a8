//! Files beside a session file that it refers to. Only files of the same agent, near the session, are ever opened: what a
//! transcript names is data, not an order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_formats::input::Companions;

/// How many folders deep the sessions of an agent lie: year, month, day.
const DEPTH: usize = 4;

/// Larger files beside a session are not read.
const LARGEST: u64 = 256 * 1024 * 1024;

#[derive(Debug)]
pub struct Beside {
    session: PathBuf,
}

impl Beside {
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
            .find(|file| file.is_file() && is_without_links(file))
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

/// Whether a path is spelled as the system itself would: a link below the session's folder would lead out of it, and what it
/// leads to would be imported, and sent to a provider later.
fn is_without_links(file: &Path) -> bool {
    fs::canonicalize(file).is_ok_and(|found| found == file)
}

/// Finds a file below a folder by the end of its name.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a transcript names is read from the folder of its session, and through no link that leads out of it.
    #[cfg(unix)]
    #[test]
    fn a_link_beside_a_session_is_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("project/s.jsonl");
        let results = folder.path().join("project/s/tool-results");
        fs::create_dir_all(&results).unwrap();
        fs::write(&session, "").unwrap();
        fs::write(results.join("a.txt"), "output").unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        symlink(folder.path().join("secret.txt"), results.join("b.txt")).unwrap();
        symlink(folder.path(), folder.path().join("project/tool-results")).unwrap();
        // However the session is reached, its own folder is the real one.
        symlink(folder.path().join("project"), folder.path().join("link")).unwrap();
        for session in [session, folder.path().join("link/s.jsonl")] {
            let beside = Beside::new(&session);
            assert_eq!(beside.open("/elsewhere/a.txt").as_deref(), Some(&b"output"[..]));
            assert_eq!(beside.open("/elsewhere/b.txt"), None);
            assert_eq!(beside.open("/elsewhere/secret.txt"), None);
        }
    }
}
