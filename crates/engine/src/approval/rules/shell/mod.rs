//! Splits a shell command line into simple commands, for the rules.
//!
//! The parser never guesses in favour of a rule. Text that dash and bash could read differently, that expands to unknown words, or
//! that changes the meaning of later commands becomes a [`Doubt`], and no pattern allows a line with a doubt. The parser continues
//! after a doubt, because deny rules check every command it can find. `parser.rs` has the grammar, `word.rs` the quoting.

mod parser;
mod word;

use std::fmt;

pub(super) use parser::parse;
pub(super) use word::Word;

/// Longest command line that is examined, in bytes. A person cannot judge a longer one at a glance, so no rule should allow it
/// unseen.
pub(super) const MAX_LENGTH: usize = 16 * 1024;

/// Deepest nesting of groups, loops and substitutions. Lines that people write stay below five.
pub(super) const MAX_DEPTH: usize = 16;

/// A command line in parts.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    /// Every simple command that was found, including those inside groups, loops and substitutions.
    pub commands: Vec<SimpleCommand>,
    /// Everything that keeps the line from being fully understood.
    pub doubts: Vec<Doubt>,
}

/// A command with its arguments, after quote removal.
#[derive(Debug, Default, Clone)]
pub(super) struct SimpleCommand {
    /// Assignments before the command, then its name and its arguments.
    pub words: Vec<Word>,
    /// Number of assignments at the beginning of `words`.
    pub assignments: usize,
    /// Here-documents and here-strings that the command reads.
    pub input: Vec<String>,
}

impl SimpleCommand {
    /// The command as a person would read it: words separated by single spaces.
    pub fn text(&self) -> String {
        self.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// Why a command line cannot be fully understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// The output of another command becomes part of the line: `$(…)` or backquotes.
    Substitution,
    /// `<(…)` or `>(…)`.
    ProcessSubstitution,
    /// The value of a variable becomes part of the line; the variable as written.
    Variable(String),
    /// `$((…))` or `((…))`.
    Arithmetic,
    /// `$'…'` or `$"…"`, which shells read differently.
    DollarQuote,
    /// `{a,b}`, which shells read differently.
    Brace,
    /// The name of a command comes from a pattern or from `~`.
    NameExpands(String),
    /// `!` directly before other characters, which an interactive shell replaces by an earlier command.
    History,
    /// A here-document or here-string.
    HereDocument,
    /// Input from or output to a file other than `/dev/null`, or to an unusual descriptor.
    Redirection(String),
    /// `&>`, which dash reads as `&` and `>`.
    AmpersandRedirection,
    /// A function is defined.
    Function,
    /// A word of the shell's grammar that is not examined further.
    Keyword(String),
    /// A variable is set for the commands that follow.
    Assignment(String),
    /// A line continuation inside a word or an operator.
    Continuation,
    /// A character that cannot be seen, or that looks like a space.
    InvisibleCharacter(char),
    /// A quote, bracket or group that never ends.
    Unfinished(&'static str),
    /// The grammar of the shell does not allow this here.
    Unexpected(String),
    /// The line is longer than 16 KiB.
    TooLong,
    /// Groups, loops and substitutions are nested too deeply.
    TooDeep,
    /// The line contains no command.
    Empty,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Substitution => write!(f, "it contains `$(…)`"),
            Self::ProcessSubstitution => write!(f, "it contains `<(…)` or `>(…)`"),
            Self::Variable(name) => write!(f, "it contains the variable `{name}`"),
            Self::Arithmetic => write!(f, "it contains `((…))`"),
            Self::DollarQuote => write!(f, "it contains `$'…'` or `$\"…\"`"),
            Self::Brace => write!(f, "it contains `{{…}}` inside a word"),
            Self::NameExpands(name) => write!(f, "the command name `{name}` is a pattern"),
            Self::History => write!(f, "it contains `!` before other characters"),
            Self::HereDocument => write!(f, "it contains a here-document (`<<`)"),
            Self::Redirection(target) => write!(f, "it reads or writes `{target}` through `<` or `>`"),
            Self::AmpersandRedirection => write!(f, "it contains `&>`, which not every shell knows"),
            Self::Function => write!(f, "it defines a function"),
            Self::Keyword(word) => write!(f, "it contains `{word}`"),
            Self::Assignment(word) => write!(f, "it sets the variable `{word}`"),
            Self::Continuation => write!(f, "a line ends with `\\` inside a word"),
            Self::InvisibleCharacter(c) => write!(f, "it contains the character U+{:04X}", u32::from(*c)),
            Self::Unfinished(what) => write!(f, "{what} is not closed"),
            Self::Unexpected(what) => write!(f, "`{what}` is not expected there"),
            Self::TooLong => write!(f, "it is longer than {} KiB", MAX_LENGTH / 1024),
            Self::TooDeep => write!(f, "it is nested too deeply"),
            Self::Empty => write!(f, "it contains no command"),
        }
    }
}

/// Whether a character can hide part of a text from a reader: controls, blanks that are not ASCII, zero-width characters, and those
/// that change the direction of writing. Tab and newline are not deceptive.
pub(super) fn is_deceptive(c: char) -> bool {
    if c.is_ascii() {
        return c.is_control() && c != '\t' && c != '\n';
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0
            | 0xFFF0..=0xFFFF | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}
