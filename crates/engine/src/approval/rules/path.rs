//! Paths and path patterns: how `edit_file:src/**` is read and matched.
//!
//! Paths are compared as text, after `.`, `..`, `//` and trailing slashes are resolved. Links are not followed here: the file tools
//! refuse to leave the workspace through them.

use globset::{GlobBuilder, GlobMatcher};

use super::{error::RuleProblem, shell::is_deceptive};

/// A pattern for paths relative to the workspace.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    exact: GlobMatcher,
    any_case: GlobMatcher,
    /// Whether the pattern has no wildcards. As a deny rule, such a pattern also covers everything inside the folder that it names.
    literal: bool,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// Inside the workspace: the path relative to it, `.` for the workspace itself.
    Inside(String),
    /// Outside of it: the absolute path without its leading slashes and `..`.
    Outside(String),
}

impl PathPattern {
    /// Reads a pattern, after `TOOL:`.
    pub fn parse(pattern: &str) -> Result<Self, RuleProblem> {
        if let Some(c) = pattern.chars().find(|c| is_deceptive(*c) || matches!(c, '\n' | '\t')) {
            return Err(RuleProblem::Character(c));
        }
        let mut special = false;
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.next().is_none_or(|c| c.is_alphanumeric() || c == '/') => {
                    return Err(RuleProblem::Escape);
                }
                '[' => return Err(RuleProblem::CharacterClass),
                '*' | '?' | '{' | '}' => special = true,
                _ => {}
            }
        }
        if pattern.len() > 1 && pattern.ends_with('/') {
            return Err(RuleProblem::Folder(pattern.to_owned()));
        }
        let odd = |part: &str| matches!(part, "" | "." | ".." | "~");
        if pattern != "." && pattern.split('/').any(odd) {
            return Err(RuleProblem::Path);
        }
        let build = |any_case: bool| {
            GlobBuilder::new(pattern)
                .literal_separator(true)
                .backslash_escape(true)
                .case_insensitive(any_case)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| RuleProblem::Glob(error.kind().to_string()))
        };
        Ok(Self { exact: build(false)?, any_case: build(true)?, literal: !special })
    }

    /// The narrow reading, for allow rules.
    pub fn allows(&self, location: &Location) -> bool {
        matches!(location, Location::Inside(path) if self.exact.is_match(path))
    }

    /// The wide reading, used for deny rules: any case, and everything inside a folder that the rule names.
    pub fn denies(&self, location: &Location) -> bool {
        let (Location::Inside(path) | Location::Outside(path)) = location;
        let mut folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        self.any_case.is_match(path) || self.literal && folders.any(|f| self.any_case.is_match(f))
    }
}

/// Resolves a path against the workspace, without looking at the disk.
pub(super) fn locate(path: &str, workspace: &str) -> Location {
    let path = separators(path);
    let workspace = separators(workspace);
    let mut parts: Vec<&str> = Vec::new();
    let mut left = false;
    let relative = if is_absolute(&path) {
        let root = resolve(&workspace);
        let target = resolve(&path);
        match target.strip_prefix(root.as_slice()).filter(|_| is_absolute(&workspace)) {
            Some(inside) => inside.to_vec(),
            None => return Location::Outside(target.join("/")),
        }
    } else {
        path.split('/').collect()
    };
    for part in relative {
        match part {
            "" | "." => {}
            ".." => left |= parts.pop().is_none(),
            part => parts.push(part),
        }
    }
    let text = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
    // A path that leaves the workspace and comes back names the workspace's folder, which cannot be checked here.
    if left || cfg!(windows) && parts.iter().any(|part| part.contains(':') || part.ends_with(['.', ' '])) {
        return Location::Outside(text);
    }
    Location::Inside(text)
}

/// The first character in a path because of which no allow rule may match it.
pub(super) fn unclear_character(path: &str) -> Option<char> {
    path.chars().find(|c| is_deceptive(*c) || matches!(c, '\n' | '\t') || *c == '\\' && !cfg!(windows))
}

/// The pattern that matches exactly one path.
pub(super) fn escape(path: &str) -> String {
    let mut escaped = String::new();
    for c in path.chars() {
        if matches!(c, '*' | '?' | '{' | '}' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn separators(path: &str) -> String {
    if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || cfg!(windows) && path.as_bytes().get(1) == Some(&b':')
}

/// The parts of an absolute path, without `.` and `..`.
fn resolve(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}
