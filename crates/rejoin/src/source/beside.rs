//! Opens files that a session file refers to. It only opens files of the same agent near the session, because a transcript is
//! untrusted data: it may name any file of the machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_formats::input::Companions;

/// How many folders deep to look for sessions. Codex sorts them into folders by year, month and day.
const DEPTH: usize = 4;

/// Larger files beside a session are not read.
const LARGEST: u64 = 256 * 1024 * 1024;

#[derive(Debug)]
pub struct FilesBeside {
    session: PathBuf,
}

impl FilesBeside {
    pub fn new(session: &Path) -> Self {
        // The path may contain links; files beside the session are beside its real place.
        Self { session: fs::canonicalize(session).unwrap_or_else(|_| session.to_owned()) }
    }

    /// Finds the output of a tool that a transcript names by a path. Only the file name of that path counts: the file must be in
    /// the folder that belongs to the session.
    fn spilled(&self, path: &str) -> Option<PathBuf> {
        let name = path.rsplit(['/', '\\']).next().filter(|name| !name.is_empty() && *name != "..")?;
        let folder = self.session.parent()?;
        let stem = self.session.file_stem()?;
        [folder.join(stem).join("tool-results"), folder.join("tool-results")]
            .into_iter()
            .map(|folder| folder.join(name))
            .find(|file| file.is_file() && is_without_links(file))
    }

    /// Finds a rollout by the id at the end of its name: in the tree of sessions that contains this one, or else in or below
    /// its folder.
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

/// Whether no part of a path is a link. A link in the session's folder could lead out of it, and its target would be imported and
/// later sent to a provider.
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

impl Companions for FilesBeside {
    fn open(&self, name: &str) -> Option<Vec<u8>> {
        let path = if name.contains(['/', '\\', '.']) { self.spilled(name) } else { self.rollout(name) }?;
        let small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= LARGEST);
        if small { fs::read(path).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that a transcript names is read only from the folder of the session, and never through a link out of it.
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
        // A session that is reached through a link is read with the files beside its real place.
        symlink(folder.path().join("project"), folder.path().join("link")).unwrap();
        for session in [session, folder.path().join("link/s.jsonl")] {
            let beside = FilesBeside::new(&session);
            assert_eq!(beside.open("/elsewhere/a.txt").as_deref(), Some(&b"output"[..]));
            assert_eq!(beside.open("/elsewhere/b.txt"), None);
            assert_eq!(beside.open("/elsewhere/secret.txt"), None);
        }
    }
}
