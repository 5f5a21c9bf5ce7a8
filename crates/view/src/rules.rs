//! The rules: every kind of finding in a conversation, with its name, severity and page.
//!
//! Rule names are stable, because scripts match on them. The page that `rejoin explain` prints is `rules/<name>.md`.

use std::fmt;

use crate::finding::Severity;

macro_rules! rules {
    ($($variant:ident = $name:literal, $severity:ident, $summary:literal;)*) => {
        /// A kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $summary] $variant,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)*];

            /// The rule's name, as `rejoin explain` takes it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The severity of its findings, unless a finding sets another.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// A one-line description.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }

            /// The page that explains it.
            pub fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("rules/", $name, ".md")),)* }
            }
        }
    };
}

rules! {
    UnansweredCall = "unanswered-call", Error, "a tool call has no result";
    PartialBatch = "partial-batch", Error, "some results of a parallel batch of calls are missing";
    OrphanResult = "orphan-result", Error, "a tool result has no call";
    MissingCallId = "missing-call-id", Error, "a tool call or result has no id";
    ResultBeforeCall = "result-before-call", Error, "a tool result comes before its call";
    DetachedResult = "detached-result", Error, "a tool result does not directly follow its call";
    DuplicateResult = "duplicate-result", Error, "a tool call has more than one result";
    ReusedCallId = "reused-call-id", Error, "one id is used by more than one call";
    MalformedArguments = "malformed-arguments", Error, "the arguments of a call are not a JSON object";
    MisplacedBlock = "misplaced-block", Error, "a message with this role cannot hold this block";
    DamagedEntry = "damaged-entry", Error, "a part of the file could not be read";
    BrokenChain = "broken-chain", Error, "an entry's parent cannot be read";
    CannotBeOpened = "cannot-be-opened", Error, "the agent that wrote the session would refuse to open it";
    TooLarge = "too-large", Error, "something is larger than the provider accepts";
    UnknownRole = "unknown-role", Warning, "a message has a role that no provider knows";
    UnreadText = "unread-text", Warning, "text of the source was not understood and is not part of the conversation";
    UnusableMedia = "unusable-media", Warning, "an image or document cannot be read by the provider";
    InvalidUtf8 = "invalid-utf8", Warning, "bytes that are not text were replaced";
    DoubledEntry = "doubled-entry", Note, "the file has an entry twice";
    PrunedResult = "pruned-result", Note, "the agent sends a tool result without its content";
    TornTail = "torn-tail", Note, "the last write was cut off before it was acknowledged";
    AwaitingApproval = "awaiting-approval", Note, "a call waits for a person's approval";
    ResultOrder = "result-order", Note, "the results of a batch are not in the order of its calls";
    EmptyMessage = "empty-message", Note, "a message or block is empty";
    ForeignReasoning = "foreign-reasoning", Note, "reasoning cannot be sent with this request";
    IllegalId = "illegal-id", Note, "a call id is not allowed in this dialect";
    IllegalName = "illegal-name", Note, "a tool name is not allowed in this dialect";
    RoleOrder = "role-order", Note, "the dialect does not allow these roles in this order";
    LateSystem = "late-system", Note, "the dialect does not allow a system text here";
    BlankArguments = "blank-arguments", Note, "a call has no arguments";
    LoneSurrogate = "lone-surrogate", Note, "half of a surrogate pair cannot be sent";
    MovedMedia = "moved-media", Note, "the dialect does not allow an image or document here";
    ForeignBlock = "foreign-block", Note, "a block has no counterpart in this dialect";
    IrregularContent = "irregular-content", Note, "content is not in the form that the dialect expects";
    UnknownField = "unknown-field", Note, "a field that the dialect refuses was left out";
    ForeignField = "foreign-field", Note, "a setting of another dialect was left out";
    ForeignInstructions = "foreign-instructions", Note, "instructions of another agent were left out of a copy";
    StubTools = "stub-tools", Note, "tools of the history were declared because the dialect demands it";
    ThinkingOff = "thinking-off", Note, "thinking was turned off because the history does not allow it";
    SplitBatch = "split-batch", Note, "a batch has more calls than one message may have";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
