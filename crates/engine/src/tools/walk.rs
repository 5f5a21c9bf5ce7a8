//! Walks the working folder for `find` and `grep`: by handles, in the order of names, skipping files that `.gitignore` and
//! `.ignore` name.
//!
//! Links are never followed, so the walk cannot leave the folder or go in circles. `.git` is skipped. Ignore files above the
//! working folder are not read, because they are outside. Names that begin with a dot are not skipped, because many files of a
//! project have such names.

use std::{ffi::OsStr, io::Read as _, path::PathBuf, time::Duration};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::{
    beneath::{Entry, EntryKind, Folder, HiddenNow, OpenFileBeneath},
    work::WorkLimit,
    workspace::{Workspace, refusal_of},
};

/// The time limit of a search.
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(30);
/// How deep folders are searched. Each level keeps one folder open.
const DEPTH: usize = 64;
/// The most bytes of an ignore file that are read.
const IGNORE_FILE: u64 = 1024 * 1024;
/// The most bytes of a pattern.
pub(super) const PATTERN: usize = 1_000;

/// A file or folder that a walk reached.
pub(super) struct WalkEntry<'w> {
    /// The path relative to the working folder, with `/`.
    pub(super) path: &'w str,
    /// The path relative to the folder in which the search began.
    pub(super) inner: &'w str,
    pub(super) entry: &'w Entry,
    folder: &'w Folder,
}

impl WalkEntry<'_> {
    /// Opens the file.
    pub(super) fn open(&self) -> Option<OpenFileBeneath> {
        self.folder.open_file(&self.entry.name).ok()
    }
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WalkEnd {
    /// Whether the walk stopped early, because it ran out of time or the call was cancelled.
    pub(super) early: bool,
    /// The number of folders that were not searched, because they are too deep or cannot be opened.
    pub(super) skipped: usize,
}

impl WalkEnd {
    /// A note for the model; `None` if everything was searched.
    pub(super) fn note(self) -> Option<String> {
        if self.early {
            let seconds = SEARCH_TIME.as_secs();
            return Some(format!(
                "[stopped after {seconds} seconds: the search is incomplete. Search a smaller folder with `path`]"
            ));
        }
        (self.skipped > 0).then(|| format!("[{} folders or files could not be searched]", self.skipped))
    }
}

/// A glob from the arguments of a tool.
#[derive(Debug)]
pub(super) struct Glob {
    matcher: GlobMatcher,
    /// Whether it is compared with whole paths, not only with names.
    paths: bool,
}

impl Glob {
    /// Parses a glob. One without `/` is compared with names in every folder; one with `/`, with paths from the start of the
    /// search.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        let trimmed = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(trimmed).literal_separator(true).backslash_escape(true).build();
        let glob = glob.map_err(|why| {
            // The errors of the library name the pattern and the fault, but not the position.
            let at = place(pattern, why.kind()).map_or_else(String::new, |at| format!(", at character {at}"));
            format!("the glob `{pattern}` is not valid{at}: {}", why.kind())
        })?;
        Ok(Self { matcher: glob.compile_matcher(), paths: trimmed.contains('/') })
    }

    pub(super) fn matches(&self, met: &WalkEntry<'_>) -> bool {
        self.matcher.is_match(if self.paths { OsStr::new(met.inner) } else { &met.entry.name })
    }
}

/// The position of the fault in a glob, in characters from 1.
fn place(pattern: &str, why: &globset::ErrorKind) -> Option<usize> {
    use globset::ErrorKind as Kind;
    let found = match why {
        Kind::UnclosedClass | Kind::InvalidRange(..) => pattern.rfind('['),
        Kind::UnclosedAlternates => pattern.rfind('{'),
        Kind::UnopenedAlternates => pattern.rfind('}'),
        Kind::DanglingEscape => pattern.rfind('\\'),
        Kind::InvalidRecursive => pattern.find("**"),
        _ => None,
    };
    found.map(|at| pattern[..at].chars().count() + 1)
}

/// The place where a search begins.
pub(super) enum Start {
    /// A folder. Its path is empty for the working folder.
    Folder(String),
    /// A single file.
    File(String, OpenFileBeneath),
}

impl Workspace {
    /// Finds the place where a search in a path begins.
    pub(super) fn start(&self, path: &str) -> Result<Start, String> {
        let refused = refusal_of(path);
        let normal = self.folder.normal(path).map_err(&refused)?;
        match self.folder.folder(&normal) {
            Ok(_) => Ok(Start::Folder(normal)),
            Err(_) => self.open(&normal).map(|opened| Start::File(normal, opened)).map_err(refused),
        }
    }

    /// Walks a folder, and passes everything that is not ignored or hidden to `each`, in the order of names.
    pub(super) fn walk(
        &self,
        start: &str,
        until: &WorkLimit,
        each: &mut dyn FnMut(&WalkEntry<'_>, &HiddenNow<'_>),
    ) -> Result<WalkEnd, String> {
        let refused = refusal_of(if start.is_empty() { "." } else { start });
        let folder = self.folder.folder(start).map_err(refused)?;
        let hidden = self.hidden.now();
        let mut walk = Walk { until, hidden, ignored: Vec::new(), ended: WalkEnd::default(), each, inner: 0 };
        // Read the rules of the folders above, down from the working folder.
        let mut above = String::new();
        let names: Vec<&str> = start.split('/').filter(|name| !name.is_empty()).collect();
        let exclude = self.folder.open_file(".git/info/exclude").ok();
        walk.ignored.push(rules("", exclude.into_iter().collect()));
        for name in names {
            if let Ok(folder) = self.folder.folder(&above) {
                walk.ignored.push(rules_of(&above, &folder));
            }
            above = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        }
        walk.inner = if start.is_empty() { 0 } else { start.len() + 1 };
        walk.folder(start, &folder, 0);
        Ok(walk.ended)
    }
}

struct Walk<'w> {
    until: &'w WorkLimit,
    hidden: HiddenNow<'w>,
    /// The rules of each folder on the way, beginning with the working folder's.
    ignored: Vec<Gitignore>,
    ended: WalkEnd,
    each: &'w mut dyn FnMut(&WalkEntry<'_>, &HiddenNow<'_>),
    /// The position in a path where the part below the searched folder begins.
    inner: usize,
}

impl Walk<'_> {
    fn folder(&mut self, path: &str, folder: &Folder, depth: usize) {
        let Ok(mut entries) = folder.entries() else {
            self.ended.skipped += 1;
            return;
        };
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        self.ignored.push(rules_of(path, folder));
        for entry in &entries {
            if self.until.is_over() {
                self.ended.early = true;
                break;
            }
            let name = entry.name.to_string_lossy();
            let inside = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
            let is_folder = entry.kind == EntryKind::Folder;
            if entry.name == ".git" || self.is_ignored(&inside, is_folder) {
                continue;
            }
            let met = WalkEntry { path: &inside, inner: &inside[self.inner..], entry, folder };
            let is_hidden = self.hidden.may_have(entry)
                && entry.kind == EntryKind::File
                && met.open().is_none_or(|opened| self.hidden.has(&opened));
            if is_hidden {
                continue;
            }
            (self.each)(&met, &self.hidden);
            if is_folder {
                match folder.enter(&entry.name) {
                    Ok(below) if depth < DEPTH => self.folder(&inside, &below, depth + 1),
                    _ => self.ended.skipped += 1,
                }
            }
        }
        self.ignored.pop();
    }

    /// Applies the rule that is nearest to a file.
    fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        let path = rooted(path);
        for rules in self.ignored.iter().rev() {
            match rules.matched(&path, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// The rules in a folder; those in `.ignore` take precedence.
fn rules_of(path: &str, folder: &Folder) -> Gitignore {
    let open = |name: &str| folder.open_file(OsStr::new(name)).ok();
    rules(path, [open(".gitignore"), open(".ignore")].into_iter().flatten().collect())
}

/// The rules in some files of a folder. Lines that are not globs are skipped, as in git.
fn rules(path: &str, files: Vec<OpenFileBeneath>) -> Gitignore {
    if files.is_empty() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(rooted(path));
    for opened in files {
        let mut text = Vec::new();
        let _ = opened.file.take(IGNORE_FILE).read_to_end(&mut text);
        for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// A path in the form that the rules need: they compare whole paths only.
fn rooted(path: &str) -> PathBuf {
    PathBuf::from(format!("/{path}"))
}
