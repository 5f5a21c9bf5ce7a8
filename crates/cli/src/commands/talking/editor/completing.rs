//! The completions of Tab: commands, paths after `@`, and arguments such as conversations or models.

use std::path::{Path, PathBuf};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use crate::output::harmless;

/// The most completions that are offered at once.
const OFFERED: usize = 30;

/// How many names of a folder are examined.
const LOOKED_AT: usize = 5000;

/// Returns the arguments that may follow a command and begin with a text, each with a description.
pub type ArgumentOffers = Box<dyn Fn(&str, &str) -> Vec<(String, String)> + Send>;

/// The sources of completions.
pub struct Offers {
    /// The commands, with their slash, and their descriptions.
    pub commands: Vec<(String, &'static str)>,
    /// The folder for paths.
    pub folder: PathBuf,
    pub arguments: ArgumentOffers,
}

impl Offers {
    /// The completions of the word before the cursor, and where the word begins.
    fn offered(&self, before: &str) -> (usize, Vec<(String, String)>) {
        let start = before.rfind(char::is_whitespace).map_or(0, |at| {
            let space = before[at..].chars().next().map_or(0, char::len_utf8);
            at + space
        });
        let word = &before[start..];
        let first = before.split_whitespace().next().unwrap_or_default();
        let offers = if let Some(path) = word.strip_prefix('@') {
            self.paths(path)
        } else if start == 0 && word.starts_with('/') {
            let fitting = self.commands.iter().filter(|(name, _)| name.starts_with(word));
            fitting.map(|(name, about)| (name.clone(), (*about).to_owned())).collect()
        } else if start > 0 && first.starts_with('/') {
            (self.arguments)(first, word)
        } else {
            Vec::new()
        };
        (start, offers)
    }

    /// The names in the folder of a path that begin with its last part.
    fn paths(&self, typed: &str) -> Vec<(String, String)> {
        let (folder, beginning) = typed.rsplit_once('/').map_or(("", typed), |(folder, rest)| (folder, rest));
        let absolute = typed.starts_with('/');
        let place = if absolute { Path::new("/").join(folder) } else { self.folder.join(folder) };
        let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
        let mut names: Vec<(String, String)> = entries
            .take(LOOKED_AT)
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                // A name with a space or a control character would not be read back as one word.
                let fits =
                    !name.contains(|c: char| c.is_whitespace() || c.is_control()) && harmless(&name) == name;
                let hidden = name.starts_with('.') && !beginning.starts_with('.');
                if !fits || hidden || !name.starts_with(beginning) {
                    return None;
                }
                let end = if entry.path().is_dir() { "/" } else { "" };
                let before = &typed[..typed.len() - beginning.len()];
                Some((format!("@{before}{name}{end}"), String::new()))
            })
            .collect();
        names.sort();
        names
    }
}

impl Completer for Offers {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let Some(before) = line.get(..pos) else { return CompletionResult::fresh(Vec::new()) };
        let (start, offers) = self.offered(before);
        let suggestions: Vec<Suggestion> = offers
            .into_iter()
            .take(OFFERED)
            .map(|(value, about)| Suggestion {
                append_whitespace: !value.ends_with('/'),
                value,
                description: Some(about).filter(|about| !about.is_empty()),
                span: Span::new(start, pos),
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_where_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for name in ["src/main.rs", "src/map.rs", ".hidden", "two words", "bad\u{1b}[31m"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let offers = Offers {
            commands: vec![(String::from("/help"), "what there is"), (String::from("/history"), "all of it")],
            folder: folder.path().to_owned(),
            arguments: Box::new(|command, typed| vec![(format!("{command}:{typed}"), String::new())]),
        };
        for (line, start, names) in [
            ("/h", 0, &["/help", "/history"][..]),
            ("/hi", 0, &["/history"]),
            ("say /h", 4, &[]),
            ("look at @src/m", 8, &["@src/main.rs", "@src/map.rs"]),
            ("@", 0, &["@src/"]),
            ("@.h", 0, &["@.hidden"]),
            ("@nowhere/x", 0, &[]),
            ("/resume co", 8, &["/resume:co"]),
            ("/model ", 7, &["/model:"]),
            ("ü\u{3000}@src/d", 5, &["@src/deep/"]),
        ] {
            let (from, offered) = offers.offered(line);
            let offered: Vec<&str> = offered.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!((from, offered.as_slice()), (start, names), "{line}");
        }
    }
}
