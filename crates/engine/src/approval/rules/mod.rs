//! Placeholder until the rules are merged.

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A command of `run`.
    Command(&'a str),
    /// A file.
    File {
        /// The tool.
        tool: &'a str,
        /// The path.
        path: &'a str,
    },
    /// An address.
    Url(&'a str),
    /// Anything else.
    Other {
        /// The tool.
        tool: &'a str,
    },
}

/// What the rules say.
#[derive(Debug)]
pub enum Verdict {
    /// Denied by this rule.
    Deny(String),
    /// Allowed by this rule.
    Allow(String),
    /// No rule decides, and why.
    Ask(String),
}

/// The rules.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<String>);

impl Rules {
    /// What the rules say.
    pub fn verdict(&self, subject: &Subject<'_>) -> Verdict {
        match rule_for(subject) {
            Some(rule) if self.0.contains(&rule) => Verdict::Allow(rule),
            _ => Verdict::Ask(String::from("no rule allows it")),
        }
    }

    /// Adds a rule.
    pub fn allow(&mut self, rule: &str) {
        self.0.push(rule.to_owned());
    }
}

/// The rule for exactly this.
pub fn rule_for(subject: &Subject<'_>) -> Option<String> {
    Some(match subject {
        Subject::Command(command) => format!("run:{command}"),
        Subject::File { tool, path } => format!("{tool}:{path}"),
        Subject::Url(url) => format!("fetch:{url}"),
        Subject::Other { tool } => (*tool).to_owned(),
    })
}
