//! Patterns for commands: how `run:cargo test*` is read and matched.
//!
//! A pattern is compared word by word, so a program called `cargo test` is not `cargo` with the argument `test`. Allow rules read a
//! pattern narrowly, deny rules widely; both readings are here, side by side.

use super::{
    error::RuleProblem,
    risk,
    shell::{self, CommandLine, SimpleCommand},
};

/// How many levels of nested scripts a deny rule looks into, as in `sh -c "sh -c '…'"`.
const SCRIPT_DEPTH: usize = 4;

/// A pattern for one simple command.
#[derive(Debug, Clone)]
pub(super) struct CommandPattern {
    words: Vec<WordPattern>,
    /// Whether further words may follow.
    rest: bool,
}

/// A pattern for one word: pieces of literal text, between which any characters may occur.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WordPattern {
    /// Literal pieces; between two of them, any characters may occur.
    pieces: Vec<String>,
    /// Whether a final `*` after a letter was removed. Such a `*` does not extend the word in an allow rule, but does in a deny
    /// rule.
    extends: bool,
}

impl CommandPattern {
    /// Reads a pattern, after `run:`.
    pub fn parse(pattern: &str) -> Result<Self, RuleProblem> {
        let mut words = vec![WordPattern::default()];
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            let word = words.last_mut().expect("BUG: there is always a word");
            match c {
                '\\' => match chars.next() {
                    Some(c) if !c.is_alphanumeric() => word.push(c),
                    _ => return Err(RuleProblem::Escape),
                },
                '*' => word.pieces.push(String::new()),
                ' ' if word.pieces == [""] || chars.peek().is_none() => return Err(RuleProblem::Spaces),
                ' ' => words.push(WordPattern::default()),
                '"' | '\'' => return Err(RuleProblem::Quotes),
                ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' => {
                    return Err(RuleProblem::ShellSyntax(c));
                }
                c if shell::is_deceptive(c) || c == '\t' => return Err(RuleProblem::Character(c)),
                c => word.push(c),
            }
        }
        let last = words.last_mut().expect("BUG: there is always a word");
        let rest = last.pieces.len() > 1 && last.pieces.last().is_some_and(String::is_empty);
        if rest {
            if last.pieces == ["", ""] {
                words.pop();
            } else if last.pieces[last.pieces.len() - 2].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                last.pieces.pop();
                last.extends = true;
            }
        }
        Ok(Self { words, rest })
    }

    /// Whether the pattern matches every command (`run:*`).
    pub fn matches_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// The narrow reading, used for allow rules. The pattern must spell out the words at the positions in `sensitive`.
    pub fn allows(&self, command: &SimpleCommand, sensitive: &[usize]) -> bool {
        let words = &command.words;
        if words.len() < self.words.len() || words.len() > self.words.len() && !self.rest {
            return false;
        }
        if sensitive.iter().any(|i| self.words.get(*i).is_none_or(|word| word.literal().is_none())) {
            return false;
        }
        // The pattern must name the command itself, not only its assignments.
        if !self.words.is_empty() && self.words.len() <= command.assignments {
            return false;
        }
        self.words.iter().zip(words).enumerate().all(|(i, (pattern, word))| {
            let assigns = pattern.literal().is_some_and(is_assignment) && pattern_assigns(&self.words, i);
            !word.expands
                && (i < command.assignments) == assigns
                && pattern.matches(&word.text)
                && (pattern.literal().is_some() || pattern.has_parent() || !has_parent(&word.text))
        })
    }

    /// The wide reading, used for deny rules: the program in any folder, in any case, with any further words.
    fn denies(&self, words: &[&str]) -> bool {
        words.len() >= self.words.len()
            && self.words.iter().zip(words).enumerate().all(|(i, (pattern, word))| {
                if i == 0 {
                    let pattern = pattern.lowercase();
                    let word = word.to_lowercase();
                    return pattern.matches_widely(&word) || pattern.matches_widely(&risk::program(&word));
                }
                pattern.matches_widely(word)
            })
    }

    /// Whether a deny rule matches a command anywhere in a line, including behind wrappers and in the scripts of other shells.
    pub fn denies_line(&self, line: &CommandLine) -> bool {
        self.matches_everything() || self.denied_within(line, SCRIPT_DEPTH)
    }

    fn denied_within(&self, line: &CommandLine, depth: usize) -> bool {
        let shells = line
            .commands
            .iter()
            .any(|command| command.words.iter().any(|word| risk::is_shell(&risk::program(&word.text))));
        line.commands.iter().any(|command| {
            let words: Vec<&str> =
                command.words[command.assignments..].iter().map(|word| word.text.as_str()).collect();
            self.denied_command(&words, depth)
                || shells && depth > 0 && command.input.iter().any(|text| self.denied_script(text, depth))
        })
    }

    fn denied_command(&self, words: &[&str], depth: usize) -> bool {
        let Some(name) = words.first() else { return false };
        let name = risk::program(name);
        if self.denies(words) || self.denies(&without_global_options(&name, words)) {
            return true;
        }
        let runs_script = |name: &str| risk::is_shell(&name.to_lowercase());
        let mut wrapped = risk::is_wrapper(&name);
        let mut script = runs_script(&name);
        for (i, word) in words.iter().enumerate().skip(1) {
            let suffix = &words[i..];
            if wrapped
                && (self.denies(suffix) || self.denies(&without_global_options(&risk::program(word), suffix)))
            {
                return true;
            }
            wrapped |= script;
            if wrapped {
                script |= runs_script(&risk::program(word));
            }
        }
        script
            && depth > 0
            && (words[1..].iter().any(|word| self.denied_script(word, depth))
                || self.denied_script(&words[1..].join(" "), depth))
    }

    fn denied_script(&self, script: &str, depth: usize) -> bool {
        self.denied_within(&shell::parse(script), depth - 1)
    }
}

impl Default for WordPattern {
    fn default() -> Self {
        Self { pieces: vec![String::new()], extends: false }
    }
}

impl WordPattern {
    fn push(&mut self, c: char) {
        self.pieces.last_mut().expect("BUG: a word has a piece").push(c);
    }

    fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [literal] => Some(literal),
            _ => None,
        }
    }

    fn has_parent(&self) -> bool {
        self.pieces.iter().any(|piece| has_parent(piece))
    }

    fn lowercase(&self) -> Self {
        Self { pieces: self.pieces.iter().map(|piece| piece.to_lowercase()).collect(), extends: self.extends }
    }

    fn matches(&self, text: &str) -> bool {
        matches_pieces(&self.pieces, text)
    }

    fn matches_widely(&self, text: &str) -> bool {
        self.matches(text)
            || self.extends && {
                let mut pieces = self.pieces.clone();
                pieces.push(String::new());
                matches_pieces(&pieces, text)
            }
    }
}

/// Whether a text consists of the pieces in order, with any characters between them.
pub(super) fn matches_pieces(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_none_or(|only| only == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some(at) = rest.find(piece.as_str()) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last.as_str())
}

/// Whether a path or option contains the component `..`, with which a wildcard would leave the folder that the pattern names.
fn has_parent(text: &str) -> bool {
    text.split(['/', '=', ':', ',']).any(|part| part == "..")
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether all pattern words before a position are assignments too.
fn pattern_assigns(words: &[WordPattern], at: usize) -> bool {
    words[..at].iter().all(|word| word.literal().is_some_and(is_assignment))
}

/// `git -C folder push` is `git push` for a deny rule; so are `cargo +nightly publish` and `npm --silent publish`.
fn without_global_options<'w>(program: &str, words: &[&'w str]) -> Vec<&'w str> {
    let with_value: &[&str] = match program {
        "git" => &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"],
        "cargo" => &["--config", "-Z", "-C", "--color"],
        "docker" => &["-H", "--host", "-c", "--context", "--config", "-l", "--log-level"],
        "kubectl" => &["-n", "--namespace", "--context", "--kubeconfig", "--cluster", "-s", "--server"],
        _ => &[],
    };
    let mut kept: Vec<&str> = words[..1].to_vec();
    let mut rest = &words[1..];
    while let Some(word) = rest.first().filter(|word| word.starts_with(['-', '+'])) {
        let skipped = if with_value.contains(word) { 2 } else { 1 };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    kept.extend(rest);
    kept
}
