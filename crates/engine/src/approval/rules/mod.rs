//! Rules that decide whether a tool call may run without asking a person.
//!
//! # Rules
//!
//! The settings have two lists. `allow` names calls that run without a question, `deny` names calls that never run. A call that neither
//! list matches is shown to a person. If both match, `deny` wins.
//!
//! ```toml
//! allow = ["run:cargo test*", "run:git status", "edit_file:src/**", "write_file:docs/*.md", "fetch:https://docs.rs/*"]
//! deny = ["run:git push", "edit_file:.github/**"]
//! ```
//!
//! A rule is `TOOL`, which matches every call of the tool, or `TOOL:PATTERN`. `*` as the tool matches every tool. A backslash makes the
//! next special character an ordinary one: `\*` is a star.
//!
//! # Files
//!
//! The pattern is compared with the path relative to the workspace. `*` and `?` match within a name, `**` matches across folders, and
//! `{a,b}` matches either. Paths are normalised first: `./src/../secret` is `secret`. No rule allows a path outside the workspace.
//!
//! | rule | allows | does not allow |
//! |---|---|---|
//! | `edit_file:src/**` | `src/a.rs`, `src/deep/b.rs` | `src`, `src/../Cargo.toml`, `SRC/a.rs` |
//! | `write_file:docs/*.md` | `docs/guide.md` | `docs/old/guide.md` |
//!
//! # Commands
//!
//! A command line may contain several simple commands (`a && b | c`), and every one of them needs a rule. Patterns are compared word by
//! word, after quotes are removed; words in a pattern are separated by one space.
//!
//! | rule | allows | does not allow |
//! |---|---|---|
//! | `run:git status` | `git status`, `git  "status"` | `git status -s` |
//! | `run:cargo test*` | `cargo test`, `cargo test -p view` | `cargo testfoo`, `cargo test; rm x` |
//! | `run:ls *` | `ls`, `ls -l src`, `ls *.rs` | `lsof`, `ls > list` |
//! | `run:npm run test:*` | `npm run test:unit`, `npm run test:unit -- -v` | `npm run deploy` |
//! | `run:cargo test --package=* --quiet` | `cargo test --package=view --quiet` | `cargo test --package=view` |
//!
//! - `*` at the end stands for "and any further words". After a letter or digit it does not extend the word: `cargo test*` and
//!   `cargo test *` mean the same. After another character it also matches the rest of the word.
//! - `*` elsewhere matches within one word. A `*` inside a word never matches a path with `..`.
//! - `run:=LINE` allows exactly one command line, character by character. "Always in this conversation" makes such a rule.
//! - Assignments are part of the command and must be written out: `run:RUST_BACKTRACE=1 cargo test*`.
//! - Commands that run other commands (`env`, `xargs`, `timeout`, `sudo`, shells, interpreters …) and options that do (`git -c`,
//!   `find -exec`, `python -c` …) must be written out too. `run:timeout *` allows `timeout 5 anything`, because it names `timeout`; rules do not
//!   look through `timeout`, so `run:cargo test*` does not allow `timeout 5 cargo test`. `run:*` allows neither.
//! - Some lines are never allowed by a pattern, because the words that the shell will use are not certain: those with `$(…)`, backquotes,
//!   variables, here-documents, functions, `case`, redirections (except to `/dev/null` and `2>&1`), or invisible characters. A person is
//!   asked. The rules `run` and `*`, without a pattern, allow these too, unless there are deny rules for commands.
//!
//! # Addresses
//!
//! The pattern is compared with the normalised address: lower-case scheme and host, no default port, `..` resolved. `*` matches any
//! characters of path and query; a host may begin with `*.`. An address with a user name is never allowed.
//!
//! | rule | allows | does not allow |
//! |---|---|---|
//! | `fetch:https://docs.rs/*` | `https://DOCS.rs:443/serde/` | `http://docs.rs/`, `https://docs.rs.evil.com/`, `https://docs.rs@evil.com/` |
//! | `fetch:https://*.rust-lang.org/*` | `https://doc.rust-lang.org/std/` | `https://rust-lang.org/` |
//!
//! # Deny rules
//!
//! A deny rule is read widely: `run:rm` also matches `rm -rf x`, `/bin/rm`, `sudo rm`, `sh -c "rm x"` and `$(rm x)`;
//! `edit_file:secrets` also matches `Secrets/key`; an address matches with either scheme and on any port. Deny rules guard against
//! mistakes and are no barrier: a program can delete files without a command called `rm`. The barrier is that every call that no
//! rule allows needs a person's approval.

mod address;
mod command;
mod error;
mod path;
mod risk;
mod shell;
#[cfg(test)]
mod tests;

use std::fmt;

use self::{
    address::{Address, AddressPattern},
    command::CommandPattern,
    path::{Location, PathPattern},
    shell::CommandLine,
};

pub use self::{
    address::AddressProblem,
    error::{RuleError, RuleProblem},
    shell::Doubt,
};

/// The tool that runs command lines; its patterns describe commands.
pub const COMMAND_TOOL: &str = "run";

/// The tool that fetches addresses; its patterns describe addresses.
pub const FETCH_TOOL: &str = "fetch";

/// Longest rule, in bytes: room for the exact rule of the longest command line that is examined.
pub const MAX_RULE_LENGTH: usize = 2 * shell::MAX_LENGTH;

/// The allow and deny rules of the settings.
///
/// ```
/// use rejoin_engine::approval::rules::{CallSubject, RuleVerdict, Rules};
///
/// let rules = Rules::parse(&["run:cargo test*", "run:git status"], &["run:git push"])?;
/// let verdict = |line| rules.verdict(&CallSubject::Command(line));
/// assert!(matches!(verdict("git status && cargo test -p view"), RuleVerdict::Allow(_)));
/// assert!(matches!(verdict("cargo test && git push --force"), RuleVerdict::Deny(rule) if rule == "run:git push"));
/// let RuleVerdict::Ask(reason) = verdict("cargo test; rm -rf build") else { panic!() };
/// assert_eq!(reason.to_string(), "no rule allows `rm -rf build`");
/// # Ok::<(), rejoin_engine::approval::rules::RuleError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rules {
    allow: Vec<ToolRule>,
    deny: Vec<ToolRule>,
}

/// The part of a tool call that rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallSubject<'c> {
    /// The tool `run` with a command line for `sh -c`.
    Command(&'c str),
    /// A tool that reads or changes one file or folder.
    File {
        /// The name of the tool.
        tool: &'c str,
        /// The path as the model gave it: absolute, or relative to the workspace.
        path: &'c str,
        /// The absolute path of the workspace.
        workspace: &'c str,
    },
    /// The tool `fetch` with an address.
    Url(&'c str),
    /// Any other tool; only rules without a pattern match it.
    Other {
        /// The name of the tool.
        tool: &'c str,
    },
}

/// The decision of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The call must not run. Holds the deny rule as it was written.
    Deny(String),
    /// The call may run without a question. Holds the allow rules that it needed, as they were written.
    Allow(Vec<String>),
    /// A person decides.
    Ask(AskReason),
}

/// Why a person is asked. The text is for that person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskReason {
    /// No rule matches. Holds the call, or the part of it that no rule matches.
    NoRule(String),
    /// The command runs other commands or changes the shell, and no rule names this word of it.
    NotNamed {
        /// The command.
        command: String,
        /// The word that a rule would have to contain.
        word: String,
    },
    /// The command line cannot be fully understood.
    Unclear(Doubt),
    /// The path leaves the workspace.
    OutsideWorkspace(String),
    /// The path contains a character that is invisible, or that systems read differently.
    UnclearPath(char),
    /// The address is of a kind that no pattern may allow.
    Address(AddressProblem),
}

#[derive(Debug, Clone)]
struct ToolRule {
    text: String,
    /// The name of the tool; `*` matches every tool.
    tool: String,
    pattern: Pattern,
}

#[derive(Debug, Clone)]
enum Pattern {
    Any,
    Command(CommandPattern),
    ExactLine(String),
    Path(PathPattern),
    Address(AddressPattern),
}

impl Rules {
    /// Reads the rules of the settings.
    ///
    /// # Errors
    /// The first invalid rule, with a correct form.
    pub fn parse<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, RuleError> {
        let parse = |rules: &[S]| -> Result<Vec<_>, RuleError> {
            rules.iter().map(|rule| ToolRule::parse(rule.as_ref())).collect()
        };
        Ok(Self { allow: parse(allow)?, deny: parse(deny)? })
    }

    /// Adds an allow rule, such as one that [`rule_for`] returned.
    ///
    /// # Errors
    /// The rule is not valid.
    pub fn allow(&mut self, rule: &str) -> Result<(), RuleError> {
        self.allow.push(ToolRule::parse(rule)?);
        Ok(())
    }

    /// Decides about a call.
    pub fn verdict(&self, subject: &CallSubject<'_>) -> RuleVerdict {
        match *subject {
            CallSubject::Command(line) => self.command(line),
            CallSubject::File { tool, path, workspace } => self.file(tool, path, workspace),
            CallSubject::Url(address) => self.address(address),
            CallSubject::Other { tool } => {
                let any = |rule: &&ToolRule| matches!(rule.pattern, Pattern::Any);
                judge(self.deny_for(tool).find(any), self.allow_for(tool).find(any), || {
                    AskReason::NoRule(tool.to_owned())
                })
            }
        }
    }

    fn command(&self, line: &str) -> RuleVerdict {
        let parsed = shell::parse(line);
        if let Some(rule) = self.deny_for(COMMAND_TOOL).find(|rule| rule.denies_command(line, &parsed)) {
            return RuleVerdict::Deny(rule.text.clone());
        }
        let watched = self.deny_for(COMMAND_TOOL).next().is_some();
        let whole = self.allow_for(COMMAND_TOOL).find(|rule| match &rule.pattern {
            Pattern::Any => !watched || parsed.doubts.is_empty(),
            Pattern::ExactLine(exact) => exact == line,
            _ => false,
        });
        if let Some(rule) = whole {
            return RuleVerdict::Allow(vec![rule.text.clone()]);
        }
        if let Some(doubt) = parsed.doubts.first() {
            return RuleVerdict::Ask(AskReason::Unclear(doubt.clone()));
        }
        let mut used: Vec<String> = Vec::new();
        for command in &parsed.commands {
            let sensitive = risk::sensitive_words(command);
            let rule = self.allow_for(COMMAND_TOOL).find(
                |rule| matches!(&rule.pattern, Pattern::Command(pattern) if pattern.allows(command, &sensitive)),
            );
            match (rule, sensitive.first()) {
                (Some(rule), _) => used.push(rule.text.clone()),
                (None, Some(at)) => {
                    let word = command.words[*at].text.clone();
                    return RuleVerdict::Ask(AskReason::NotNamed { command: command.text(), word });
                }
                (None, None) => return RuleVerdict::Ask(AskReason::NoRule(command.text())),
            }
        }
        used.dedup();
        RuleVerdict::Allow(used)
    }

    fn file(&self, tool: &str, path: &str, workspace: &str) -> RuleVerdict {
        let location = path::locate(path, workspace);
        let denies = |rule: &&ToolRule| match &rule.pattern {
            Pattern::Any => true,
            Pattern::Path(pattern) => pattern.denies(&location),
            _ => false,
        };
        if let Some(rule) = self.deny_for(tool).find(denies) {
            return RuleVerdict::Deny(rule.text.clone());
        }
        if let Some(c) = path::unclear_character(path) {
            return RuleVerdict::Ask(AskReason::UnclearPath(c));
        }
        let Location::Inside(inside) = &location else {
            return RuleVerdict::Ask(AskReason::OutsideWorkspace(path.to_owned()));
        };
        let allows = |rule: &&ToolRule| match &rule.pattern {
            Pattern::Any => true,
            Pattern::Path(pattern) => pattern.allows(&location),
            _ => false,
        };
        judge(None, self.allow_for(tool).find(allows), || AskReason::NoRule(format!("{tool} {inside}")))
    }

    fn address(&self, text: &str) -> RuleVerdict {
        let address = Address::parse(text);
        let matching = |rule: &&ToolRule, wide: bool| match (&rule.pattern, &address) {
            (Pattern::Any, _) => true,
            (Pattern::Address(pattern), Ok(address)) if wide => pattern.denies(address),
            (Pattern::Address(pattern), Ok(address)) => {
                address.problem(text).is_none() && pattern.allows(address)
            }
            _ => false,
        };
        judge(
            self.deny_for(FETCH_TOOL).find(|rule| matching(rule, true)),
            self.allow_for(FETCH_TOOL).find(|rule| matching(rule, false)),
            || match &address {
                Ok(address) => address.problem(text).map_or_else(
                    || AskReason::NoRule(format!("fetch {}", address.text())),
                    AskReason::Address,
                ),
                Err(problem) => AskReason::Address(*problem),
            },
        )
    }

    fn allow_for(&self, tool: &str) -> impl Iterator<Item = &ToolRule> {
        self.allow.iter().filter(move |rule| rule.concerns(tool))
    }

    fn deny_for(&self, tool: &str) -> impl Iterator<Item = &ToolRule> {
        self.deny.iter().filter(move |rule| rule.concerns(tool))
    }
}

/// The rule that allows exactly this call from now on. `None` if no rule can allow it: the path is outside the workspace, or no
/// pattern may allow the address.
///
/// ```
/// use rejoin_engine::approval::rules::{CallSubject, rule_for};
///
/// assert_eq!(rule_for(&CallSubject::Command("ls *.rs | wc -l")).as_deref(), Some("run:=ls *.rs | wc -l"));
/// let file = CallSubject::File { tool: "edit_file", path: "/home/me/app/./a*b.rs", workspace: "/home/me/app" };
/// assert_eq!(rule_for(&file).as_deref(), Some(r"edit_file:a\*b.rs"));
/// ```
pub fn rule_for(subject: &CallSubject<'_>) -> Option<String> {
    let rule = match *subject {
        CallSubject::Command(line) => format!("{COMMAND_TOOL}:={line}"),
        CallSubject::File { tool, path, workspace } => {
            let Location::Inside(inside) = path::locate(path, workspace) else { return None };
            format!("{tool}:{}", path::escape(&inside))
        }
        CallSubject::Url(text) => format!("{FETCH_TOOL}:{}", Address::parse(text).ok()?.escaped()),
        CallSubject::Other { tool } => tool.to_owned(),
    };
    // Offer a rule only if it allows this very call.
    let mut rules = Rules::default();
    rules.allow(&rule).ok()?;
    matches!(rules.verdict(subject), RuleVerdict::Allow(_)).then_some(rule)
}

fn judge(
    deny: Option<&ToolRule>,
    allow: Option<&ToolRule>,
    reason: impl FnOnce() -> AskReason,
) -> RuleVerdict {
    match (deny, allow) {
        (Some(rule), _) => RuleVerdict::Deny(rule.text.clone()),
        (None, Some(rule)) => RuleVerdict::Allow(vec![rule.text.clone()]),
        (None, None) => RuleVerdict::Ask(reason()),
    }
}

impl ToolRule {
    fn parse(rule: &str) -> Result<Self, RuleError> {
        let (tool, pattern) =
            Self::read(rule).map_err(|problem| RuleError { rule: rule.to_owned(), problem })?;
        Ok(Self { text: rule.to_owned(), tool, pattern })
    }

    fn read(rule: &str) -> Result<(String, Pattern), RuleProblem> {
        if rule.trim().is_empty() {
            return Err(RuleProblem::Empty);
        }
        if rule.len() > MAX_RULE_LENGTH {
            return Err(RuleProblem::TooLong);
        }
        let (tool, pattern) = rule.split_once(':').map_or((rule, None), |(tool, text)| (tool, Some(text)));
        let named = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        match (tool, pattern) {
            ("", _) => return Err(RuleProblem::NoTool),
            ("*", Some(pattern)) => return Err(RuleProblem::PatternForEveryTool(pattern.to_owned())),
            ("*", None) => {}
            _ if !tool.chars().all(named) => return Err(RuleProblem::ToolName(tool.to_owned())),
            _ => {}
        }
        let pattern = match (tool, pattern) {
            (_, None) => Pattern::Any,
            (COMMAND_TOOL, Some(text)) if text.starts_with('=') => Pattern::ExactLine(text[1..].to_owned()),
            (_, Some("")) => return Err(RuleProblem::NoPattern(tool.to_owned())),
            (COMMAND_TOOL, Some(text)) => Pattern::Command(CommandPattern::parse(text)?),
            (FETCH_TOOL, Some(text)) => Pattern::Address(AddressPattern::parse(text)?),
            (_, Some(text)) => Pattern::Path(PathPattern::parse(text)?),
        };
        Ok((tool.to_owned(), pattern))
    }

    fn concerns(&self, tool: &str) -> bool {
        self.tool == "*" || self.tool == tool
    }

    fn denies_command(&self, line: &str, parsed: &CommandLine) -> bool {
        match &self.pattern {
            Pattern::Any => true,
            Pattern::ExactLine(exact) => exact == line,
            Pattern::Command(pattern) => pattern.denies_line(parsed),
            Pattern::Path(_) | Pattern::Address(_) => false,
        }
    }
}

impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule(call) => write!(f, "no rule allows `{}`", shortened(call)),
            Self::NotNamed { command, word } if command.starts_with(word.as_str()) => {
                write!(f, "`{word}` can run other programs or change later commands, and no rule names it")
            }
            Self::NotNamed { command, word } => {
                write!(f, "`{}` contains `{}`, and no rule names that", shortened(command), shortened(word))
            }
            Self::Unclear(doubt) => write!(f, "the command cannot be fully understood: {doubt}"),
            Self::OutsideWorkspace(path) => write!(f, "`{}` is outside the workspace", shortened(path)),
            Self::UnclearPath(c) => write!(f, "the path contains the character U+{:04X}", u32::from(*c)),
            Self::Address(AddressProblem::NotAnAddress) => {
                write!(f, "the address is not a valid http or https address")
            }
            Self::Address(AddressProblem::UserInfo) => write!(f, "the address contains a user name"),
            Self::Address(AddressProblem::Character) => {
                write!(f, "the address contains blanks, backslashes or invisible characters")
            }
        }
    }
}

/// The beginning of a text, for a sentence.
fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).chain(['…']).collect()
    }
}
