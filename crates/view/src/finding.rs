//! Findings: the fault, its place, its severity, and what was done about it. They are typed; the text is made when they are shown.

use std::fmt;

use rejoin_record::Text;

use crate::rules::Rule;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information; nothing is broken.
    Note,
    /// Something was guessed or replaced.
    Warning,
    /// A provider would refuse the unrepaired history.
    Error,
}

impl Severity {
    /// The severity's name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Position {
    /// The message, counted from 0; `None` for a place outside all messages.
    pub message: Option<usize>,
    /// The block of the message, counted from 0. In formats that keep calls apart from content, blocks count the parts of the
    /// content first and then the calls.
    pub block: Option<usize>,
    /// The line of the file, counted from 1.
    pub line: Option<usize>,
}

impl Position {
    /// A whole message.
    pub fn message(message: usize) -> Self {
        Self { message: Some(message), ..Self::default() }
    }

    /// A block of a message.
    pub fn block(message: usize, block: usize) -> Self {
        Self { message: Some(message), block: Some(block), line: None }
    }
}

macro_rules! actions {
    ($($variant:ident = $name:literal, $sentence:literal;)*) => {
        /// What was done about a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $sentence] $variant,)*
        }

        impl Action {
            /// The action's name, for programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What was done, in words for a person.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }
    };
}

actions! {
    Kept = "kept", "it stays as it is";
    Synthesized = "synthesized", "a result is added that says none was recorded; the call stays";
    LeftOut = "left-out", "it is left out of the request; the file keeps it";
    Moved = "moved", "it is moved to where it belongs";
    Labelled = "labelled", "it becomes a labelled text, so nothing of it is lost";
    Joined = "joined", "it is joined with the other result, in order";
    Renamed = "renamed", "it is renamed in the request, in calls and results alike";
    Wrapped = "wrapped", "the raw text is wrapped in an object; the result stays";
    Replaced = "replaced", "it is replaced by something the provider accepts";
    Inserted = "inserted", "what is missing is added";
    SetAside = "set-aside", "it is set aside; everything else can be used";
}

/// One fault, or one fact worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub rule: Rule,
    /// How bad it is. Usually the rule's own severity; a note if nothing needs repair any more, for example for a call that a sent
    /// request has already decided about.
    pub severity: Severity,
    /// The place of the fault.
    pub at: Position,
    /// What was done about it.
    pub action: Action,
    /// The thing that it concerns, in the source's spelling: a call id, a tool name, a field or a role.
    pub subject: Option<Text>,
    /// The name of the tool, if the finding concerns a tool with a name.
    pub tool: Option<Text>,
    /// More about it, if the rule's summary does not say enough. `Display` writes it after a colon, at the end of the sentence.
    pub detail: Option<Text>,
}

impl Finding {
    /// A finding with its rule's own severity.
    pub fn new(rule: Rule, at: Position, action: Action) -> Self {
        Self { rule, severity: rule.severity(), at, action, subject: None, tool: None, detail: None }
    }

    /// Sets the thing that the finding concerns.
    #[must_use]
    pub fn about(mut self, subject: impl Into<Text>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the tool that the finding concerns.
    #[must_use]
    pub fn of_tool(mut self, tool: &Text) -> Self {
        self.tool = (!tool.is_blank()).then(|| tool.clone());
        self
    }

    /// Sets the detail.
    #[must_use]
    pub fn because(mut self, detail: impl Into<Text>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// What was done about it, in words for a person.
    pub fn action_text(&self) -> &'static str {
        match (self.rule, self.action) {
            (Rule::PartialBatch, Action::Kept) => "what arrived stays, what is missing is added",
            _ => self.action.sentence(),
        }
    }

    /// Whether it keeps a conversation from being sound.
    pub fn is_problem(&self) -> bool {
        self.severity > Severity::Note
    }
}

/// The fault, in a sentence for a person.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule.summary())?;
        match (&self.subject, &self.tool) {
            (Some(subject), Some(tool)) => write!(f, " ({subject}, tool {tool})")?,
            (Some(subject), None) => write!(f, " ({subject})")?,
            (None, Some(tool)) => write!(f, " (tool {tool})")?,
            (None, None) => {}
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}
