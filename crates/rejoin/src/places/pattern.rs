//! Finds files below a root by a pattern. `table.rs` explains patterns.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::source;

/// Finds the files, and the folders that are read as a whole, that match a pattern. A folder that cannot be read is included, so
/// that the error is reported. Links to folders are not followed, so a loop of links ends.
pub fn find(root: &Path, pattern: &str, found: &mut Vec<PathBuf>) {
    if pattern.is_empty() {
        found.extend(root.is_file().then(|| root.to_owned()));
    } else if root.exists() {
        step(root, &pattern.split('/').collect::<Vec<_>>(), found);
    }
}

/// The folder that contains all matches of a pattern: the part before its first `*`.
pub fn beginning(root: &Path, pattern: &str) -> PathBuf {
    let parts = pattern.split('/').take_while(|part| !part.contains('*') && !part.is_empty());
    parts.fold(root.to_owned(), |path, part| path.join(part))
}

fn step(folder: &Path, parts: &[&str], found: &mut Vec<PathBuf>) {
    let [part, rest @ ..] = parts else { return };
    if part.is_empty() {
        found.extend(source::is_unit(folder).then(|| folder.to_owned()));
    } else if *part == "**" {
        step(folder, rest, found);
        entries(folder, found, |path, kind, found| {
            if kind == Kind::Folder {
                step(&path, parts, found);
            }
        });
    } else if part.contains('*') {
        entries(folder, found, |path, kind, found| {
            if path.file_name().is_some_and(|name| matches(&name.to_string_lossy(), part)) {
                take(path, kind, rest, found);
            }
        });
    } else {
        let path = folder.join(part);
        let kind = if path.is_dir() { Kind::Folder } else { Kind::File };
        if path.exists() {
            take(path, kind, rest, found);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
}

fn take(path: PathBuf, kind: Kind, rest: &[&str], found: &mut Vec<PathBuf>) {
    match kind {
        Kind::Folder => step(&path, rest, found),
        Kind::File if rest.is_empty() => found.push(path),
        Kind::File => {}
    }
}

fn entries(folder: &Path, found: &mut Vec<PathBuf>, mut each: impl FnMut(PathBuf, Kind, &mut Vec<PathBuf>)) {
    let Ok(entries) = fs::read_dir(folder) else {
        if !found.iter().any(|path| path == folder) {
            found.push(folder.to_owned());
        }
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => each(path, Kind::Folder, found),
            Ok(kind) if kind.is_file() || (kind.is_symlink() && path.is_file()) => {
                each(path, Kind::File, found)
            }
            _ => {}
        }
    }
}

/// Whether a name matches one part of a pattern, in which each `*` stands for any characters.
fn matches(name: &str, part: &str) -> bool {
    let (first, rest) = part.split_once('*').unwrap_or((part, ""));
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut rest = rest.split('*').peekable();
    while let Some(piece) = rest.next() {
        if rest.peek().is_none() {
            return name.ends_with(piece);
        }
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (name, part, expected) in [
            ("rollout-1.jsonl", "rollout-*.jsonl", true),
            ("rollout-1.json", "rollout-*.jsonl", false),
            ("my-rollout-1.jsonl", "rollout-*.jsonl", false),
            ("a.traj.json", "*.traj.json", true),
            ("anything", "*", true),
            ("a-b-c", "a*b*c", true),
            ("a-c-b", "a*b*c", false),
            ("x.jsonl", "x.jsonl", true),
        ] {
            assert_eq!(matches(name, part), expected, "{name} {part}");
        }
    }

    #[test]
    fn patterns_lead_to_files() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "s/2026/11/rollout-1.jsonl",
            "s/rollout-2.jsonl",
            "s/notes.txt",
            "t/a/chats/x.jsonl",
            "t/x.jsonl",
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| {
            let mut found = Vec::new();
            find(root.path(), pattern, &mut found);
            found.sort();
            let short = |path: &PathBuf| path.strip_prefix(root.path()).unwrap().display().to_string();
            found.iter().map(short).collect::<Vec<_>>()
        };
        assert_eq!(found("s/**/rollout-*.jsonl"), ["s/2026/11/rollout-1.jsonl", "s/rollout-2.jsonl"]);
        assert_eq!(found("t/*/chats/*.jsonl"), ["t/a/chats/x.jsonl"]);
        assert_eq!(found("t/x.jsonl"), ["t/x.jsonl"]);
        assert_eq!(found("missing/**/*.jsonl"), [""; 0]);
        assert_eq!(beginning(Path::new("/r"), "s/**/rollout-*.jsonl"), Path::new("/r/s"));
    }
}
