//! Why a rule of the settings cannot be used.

use thiserror::Error;

/// An invalid rule: its text, what is wrong with it, and a correct form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the rule `{rule}` is not valid: {problem}")]
pub struct RuleError {
    /// The rule as it was written.
    pub rule: String,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

/// What is wrong with a rule. The error text names a correct form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleProblem {
    /// Nothing but blanks.
    #[error(
        "it is empty; write a tool, such as `read_file`, or a tool and a pattern, such as `run:cargo test*`"
    )]
    Empty,
    /// Nothing before the colon.
    #[error("the tool is missing before `:`; write it, as in `run:cargo test*`")]
    NoTool,
    /// Nothing after the colon.
    #[error("the pattern is missing after `:`; write `{0}` for every call of the tool, or `{0}:PATTERN`")]
    NoPattern(String),
    /// A tool name with blanks, `*` or other characters that tool names do not have.
    #[error(
        "`{0}` is not a tool name; use letters, digits, `_`, `-`, `.` and `/`, or `*` alone for every tool. A command \
         is written `run:COMMAND`"
    )]
    ToolName(String),
    /// `*:PATTERN`.
    #[error("`*` stands for every tool and takes no pattern; name the tool, as in `run:{0}`")]
    PatternForEveryTool(String),
    /// Too long.
    #[error("it is longer than {max} bytes; write a shorter pattern, with `*`", max = super::MAX_RULE_LENGTH)]
    TooLong,
    /// A backslash that escapes nothing.
    #[error(
        "`\\` must come before the special character that it escapes, as in `\\*`; write `\\\\` for a backslash"
    )]
    Escape,
    /// Blanks at the beginning or the end, or more than one in a row.
    #[error(
        "words are separated by one space, with none at the beginning or the end; write `\\ ` for a space inside a word"
    )]
    Spaces,
    /// Quotes in a command.
    #[error(
        "commands are compared after their quotes are removed; leave the quotes out, and write `\\ ` for a space inside a word"
    )]
    Quotes,
    /// An operator of the shell in a command.
    #[error(
        "`{0}` is not part of a simple command; write one rule for each command, `\\{0}` for the character itself, or \
         `run:=LINE` for exactly one command line"
    )]
    ShellSyntax(char),
    /// A control character, or one that cannot be seen.
    #[error("it contains the character U+{code:04X}, which cannot be seen; leave it out", code = u32::from(*.0))]
    Character(char),
    /// A path pattern that no path inside the workspace can match.
    #[error(
        "paths are relative to the workspace and have no `.`, `..`, `~` or empty parts; write for example `src/**`"
    )]
    Path,
    /// A path pattern that ends with a slash.
    #[error(
        "a pattern matches files, so it does not end with `/`; write `{0}**` for everything in the folder"
    )]
    Folder(String),
    /// A character class in a path pattern.
    #[error(
        "`[…]` is not supported in paths; write `?` for one character, `{{a,b}}` for alternatives, or `\\[` for the bracket itself"
    )]
    CharacterClass,
    /// A path pattern that is not a valid glob for another reason.
    #[error("the path pattern cannot be read ({0}); write for example `src/**/*.rs`")]
    Glob(String),
    /// An address that cannot be read.
    #[error("`{0}` is not an address; write for example `https://docs.rs/*`")]
    Url(String),
    /// A scheme other than http and https.
    #[error("only `http://` and `https://` can be fetched; write for example `https://docs.rs/*`")]
    Scheme,
    /// A `*` in the host that is not its first label.
    #[error(
        "`*` in a host is only allowed at its beginning, as in `https://*.example.com/*`; a path begins with `/`"
    )]
    Host,
    /// A user name or a fragment in an address.
    #[error("an address in a rule has no user name and no `#`; write for example `https://docs.rs/*`")]
    UrlPart,
}
