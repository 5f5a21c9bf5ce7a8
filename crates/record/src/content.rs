//! The content of entries: one typed body per kind.
//!
//! Bodies are JSON objects with a fixed order of fields. A newer version's fields are not in
//! the typed form, but the entry keeps them in its exact bytes. A body that does not fit its
//! kind is [`Content::Unreadable`] and not an error: it is shown and verified like any other, and views skip it.

use crate::{
    entry::{Entry, Kind},
    ids::{ConversationId, EntryId},
    json::{self, Doc, Value, write},
    message::Message,
    message_body,
    text::{Raw, Text},
};

trait Item: Sized {
    fn write(&self, out: &mut String);
    fn read(value: Value<'_>) -> Option<Self>;
    /// Whether the field is left out when it has this value.
    fn is_absent(&self) -> bool {
        false
    }
    /// The value of a missing field; `None` if the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

impl Item for Text {
    fn write(&self, out: &mut String) {
        write::string(out, self);
    }
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_str().map(Text::new)
    }
}

impl<T: Item> Item for Option<T> {
    fn write(&self, out: &mut String) {
        self.iter().for_each(|value| value.write(out));
    }
    fn read(value: Value<'_>) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::read(value).map(Some) }
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Item for bool {
    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_bool()
    }
    fn is_absent(&self) -> bool {
        !self
    }
    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl Item for u64 {
    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_u64()
    }
}

impl Item for Raw {
    fn write(&self, out: &mut String) {
        // An entry is one line; between JSON tokens, a space is as good as a line break.
        out.push_str(&self.as_str().replace(['\n', '\r'], " "));
    }
    fn read(value: Value<'_>) -> Option<Self> {
        Some(Raw::new(value.raw()))
    }
}

macro_rules! ids {
    ($($id:ty)*) => {$(
        impl Item for $id {
            fn write(&self, out: &mut String) {
                write::string(out, &self.to_string());
            }
            fn read(value: Value<'_>) -> Option<Self> {
                value.as_str()?.parse().ok()
            }
        }
    )*};
}

ids!(EntryId ConversationId);

impl<T: Item> Item for Vec<T> {
    fn write(&self, out: &mut String) {
        write::list(out, self, |out, item| item.write(out));
    }
    fn read(value: Value<'_>) -> Option<Self> {
        (value.kind() == json::ValueKind::Array).then(|| value.items().map(T::read).collect())?
    }
}

macro_rules! body {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Item for $name {
            fn write(&self, out: &mut String) {
                out.push('{');
                $(if !self.$field.is_absent() {
                    write::key(out, stringify!($field));
                    self.$field.write(out);
                })*
                out.push('}');
            }
            fn read(value: Value<'_>) -> Option<Self> {
                Some(Self { $($field: value.get(stringify!($field)).map_or_else(Item::absent, Item::read)?,)* })
            }
        }
    };
}

body! {
    /// The header: metadata of the conversation.
    Metadata {
        /// The conversation's id.
        conversation: ConversationId,
        /// The provider it was started with.
        provider: Option<Text>,
        /// The model it was started with.
        model: Option<Text>,
        /// The working directory.
        directory: Option<Text>,
        /// The format it was imported from.
        format: Option<Text>,
    }
}

body! {
    /// A command that a person ran.
    Command {
        /// The command line, without secrets.
        command: Text,
        /// Its output.
        output: Text,
        /// Whether it failed.
        failed: bool,
    }
}

body! {
    /// The fields of a request around its messages.
    #[derive(Default)]
    RecordedContext {
        /// The system prompt.
        system: Option<Text>,
        /// The tool declarations, as JSON.
        tools: Option<Raw>,
        /// The dialect, provider and model of requests, as JSON.
        target: Option<Raw>,
        /// The part of the system prompt that a person wrote; absent if it is the default one.
        own_instructions: Option<Text>,
        /// The part of the system prompt that comes from files of the project.
        project_instructions: Option<Text>,
    }
}

body! {
    /// A call, by the entry of its message and the index of its block.
    CallAt {
        /// The message's entry.
        entry: EntryId,
        /// The block in it, from 0.
        block: u64,
    }
}

body! {
    /// The decision about one unanswered call.
    ClosedCall {
        /// The message's entry.
        entry: EntryId,
        /// The block in it, from 0.
        block: u64,
        /// The decision.
        decision: Decision,
    }
}

body! {
    /// Decisions about unanswered calls, made before a request was sent.
    Closed {
        /// One decision per call.
        calls: Vec<ClosedCall>,
    }
}

body! {
    /// An older message that a view shows before a summary.
    KeptMessage {
        /// The message's entry.
        entry: EntryId,
        /// The text that is shown in its place, if it is too long.
        text: Option<Text>,
    }
}

body! {
    /// Token counts, as a provider reported them.
    #[derive(Default, Copy)]
    TokenUsage {
        /// The tokens of the request, including cached ones.
        input: u64,
        /// The tokens of the answer, including its reasoning.
        output: u64,
        /// The tokens of the request that the provider had in its cache.
        cached: u64,
        /// The tokens of reasoning.
        reasoning: u64,
    }
}

body! {
    /// A summary of the messages before it.
    Compacted {
        /// The summary.
        summary: Text,
        /// The number of items that were cut before summarizing.
        truncated_count: u64,
        /// The first entry that is kept unchanged.
        keep_from: Option<EntryId>,
        /// Messages from before `keep_from` that stay in the view, before the summary.
        kept: Option<Vec<KeptMessage>>,
        /// The model that wrote the summary.
        model: Option<Text>,
        /// The tokens of the messages before the compaction, if they were counted.
        tokens_before: Option<u64>,
        /// The tokens of the messages after it.
        tokens_after: Option<u64>,
        /// The tokens that were used to write the summary.
        usage: Option<TokenUsage>,
        /// How many requests it took, if more than one.
        requests: Option<u64>,
        /// If another agent made it, the imported messages after it that came with it: its summary, and messages that it repeats. They
        /// are hidden when it is undone. Each is named by how many messages are between it and the compaction.
        came_with: Option<Vec<u64>>,
        /// Which of them is the summary.
        summary_at: Option<u64>,
        /// If the summary ends with a list of messages that was written without a model: the byte of the summary at which that begins.
        list_at: Option<u64>,
    }
}

impl Compacted {
    /// Whether it records an earlier compaction again. With earlier versions, a pin did so, to keep the pinned message as well.
    #[must_use]
    pub fn repeats(&self, earlier: &Self) -> bool {
        let bare = |compacted: &Self| Self {
            keep_from: None,
            kept: None,
            usage: None,
            came_with: None,
            summary_at: None,
            ..compacted.clone()
        };
        self.kept.is_some() && bare(self) == bare(earlier)
    }
}

body! {
    /// The cost of a summary that was not used.
    UnusedSummary {
        /// The model that was asked for the summary.
        model: Text,
        /// How many requests it answered.
        requests: u64,
    }
}

body! {
    /// Undoes a compaction, which no longer hides anything.
    Uncompacted {
        /// The compaction's entry.
        compaction: EntryId,
    }
}

body! {
    /// A result of which a view shows only the beginning and the end.
    ShortenedResult {
        /// The message's entry.
        entry: EntryId,
        /// The block in it, from 0.
        block: u64,
        /// How many bytes of its text a view shows.
        shown: u64,
    }
}

body! {
    /// Results that a view shows as tombstones, or without their middle.
    #[derive(Default)]
    Prune {
        /// The results that become tombstones.
        results: Vec<CallAt>,
        /// The results that lose their middle.
        shortened: Option<Vec<ShortenedResult>>,
    }
}

body! {
    /// Opaque state of a tool.
    Snapshot {
        /// The state, as JSON.
        data: Raw,
    }
}

body! {
    /// The head moved to this entry's parent.
    Branch {
        /// The reason.
        reason: Option<Text>,
    }
}

body! {
    /// Title, tags and scope.
    #[derive(Default)]
    Meta {
        /// The title that a person set.
        title: Option<Text>,
        /// Tags.
        tags: Option<Vec<Text>>,
        /// User, channel, thread and the like, as JSON.
        scope: Option<Raw>,
        /// The messages that stay in every view. The newest list counts.
        pinned: Option<Vec<EntryId>>,
    }
}

body! {
    /// A change of a turn's state.
    Turn {
        /// The new state.
        state: TurnState,
        /// The call that the state is about.
        call: Option<CallAt>,
        /// The tokens of the last request and its answer, if the provider counted them and no earlier entry has them.
        usage: Option<TokenUsage>,
        /// The cost of a summary that was not used. If it is set, the entry changes nothing else about the turn.
        unused_summary: Option<UnusedSummary>,
    }
}

body! {
    /// A step in the life of a change that a call makes. The first entry about a file contains its old content, so that the change
    /// can be shown and undone.
    Change {
        /// The step.
        state: ChangeState,
        /// The call that makes the change.
        call: CallAt,
        /// Who decided, for an approval or a denial: `person`, `program`, `rule` or `mode`.
        by: Option<Text>,
        /// The rule that decided, or the rule that a person added by answering "always in this conversation".
        rule: Option<Text>,
        /// Why it was denied.
        reason: Option<Text>,
        /// The arguments that the call runs with, if a person changed them.
        arguments: Option<Text>,
        /// The file that changes, relative to the workspace.
        path: Option<Text>,
        /// The content of the file before; absent if it did not exist or is not text.
        before: Option<Text>,
        /// The content of the file before, if it is not text.
        before_base64: Option<Text>,
        /// The BLAKE3 hash of the file after the change.
        after: Option<Text>,
        /// The conversation that works on a delegated task.
        child: Option<ConversationId>,
        /// The hash of the commit that was checked out in the workspace when the change was proposed.
        commit: Option<Text>,
        /// The model's confidence in the change, from 0 to 1.
        confidence: Option<Confidence>,
    }
}

/// A model's confidence in a change: a number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence(f64);

// The number is never NaN.
impl Eq for Confidence {}

impl Confidence {
    /// A confidence; `None` if the number is not from 0 to 1.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        // Adding 0 turns -0 into 0.
        (0.0..=1.0).contains(&number).then_some(Self(number + 0.0))
    }

    /// The number, from 0 to 1.
    #[must_use]
    pub fn number(self) -> f64 {
        self.0
    }
}

/// Writes the shortest decimal number that parses to the same value.
impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Item for Confidence {
    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
    fn read(value: Value<'_>) -> Option<Self> {
        (value.kind() == json::ValueKind::Number).then(|| Self::new(value.raw().parse().ok()?))?
    }
}

body! {
    /// The removal of an entry's content.
    Erased {
        /// The entry.
        entry: EntryId,
        /// The reason.
        reason: Option<Text>,
    }
}

body! {
    /// An imported item that has no other kind.
    RawItem {
        /// The format it came from.
        format: Text,
        /// Its exact text.
        text: Text,
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$word_doc])* $variant,)* }

        impl Item for $name {
            fn write(&self, out: &mut String) {
                write::string(out, match self { $(Self::$variant => $word,)* });
            }
            fn read(value: Value<'_>) -> Option<Self> {
                match &*value.as_str()? { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// A decision about an unanswered call.
    Decision {
        /// The view does not show it.
        LeftOut = "left-out",
        /// The view answers it with a note that no result was recorded.
        Interrupted = "interrupted",
        /// It runs again, and stays open for one result.
        Rerun = "rerun",
    }
}

words! {
    /// The states of a turn.
    TurnState {
        /// A request is about to be sent.
        Started = "started",
        /// A call is running.
        CallRunning = "call-running",
        /// A call waits for a person's approval.
        CallAwaitingApproval = "call-awaiting-approval",
        /// The turn is complete.
        Ended = "ended",
        /// A person or an error stopped the turn.
        Interrupted = "interrupted",
    }
}

words! {
    /// The steps in the life of a change.
    ChangeState {
        /// A person was asked about it.
        Proposed = "proposed",
        /// It may be made, and will be.
        Approved = "approved",
        /// It was refused, and is not made.
        Denied = "denied",
        /// It was made.
        Applied = "applied",
        /// It was undone.
        Reverted = "reverted",
    }
}

macro_rules! contents {
    ($($variant:ident($type:ty),)*) => {
        /// The content of an entry.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Content {
            /// A message.
            Message(Message),
            $(#[allow(missing_docs, reason = "the variant is documented by its type")] $variant($type),)*
            /// A kind that this version does not know.
            Unknown(Raw),
            /// A body that does not fit its kind.
            Unreadable(Raw),
            /// The content was erased.
            Gone,
        }

        impl Content {
            /// The body to store. Unknown and unreadable content is written unchanged.
            pub fn to_body(&self) -> Raw {
                let mut out = String::new();
                match self {
                    Self::Message(message) => message_body::write(&mut out, message),
                    $(Self::$variant(body) => Item::write(body, &mut out),)*
                    Self::Unknown(raw) | Self::Unreadable(raw) => return raw.clone(),
                    Self::Gone => out.push_str("{}"),
                }
                Raw::new(out)
            }

            /// The kind of entry that holds this content; `None` if the content does not determine it.
            pub fn kind(&self) -> Option<Kind> {
                match self {
                    Self::Message(_) => Some(Kind::Message),
                    $(Self::$variant(_) => Some(Kind::$variant),)*
                    Self::Unknown(_) | Self::Unreadable(_) | Self::Gone => None,
                }
            }

            /// The content in a body of this kind; `None` if the body does not fit the kind.
            pub fn read(kind: &Kind, raw: &Raw) -> Option<Self> {
                if *kind == Kind::Message {
                    return message_body::read(message_body::Buffer::Kept(raw)).map(Self::Message);
                }
                let doc = Doc::parse(raw.as_str()).ok()?;
                let root = doc.root()?;
                Some(match kind {
                    Kind::Message | Kind::Unknown(_) => Self::Unknown(raw.clone()),
                    $(Kind::$variant => Self::$variant(Item::read(root)?),)*
                })
            }
        }
    };
}

contents! {
    Header(Metadata),
    Command(Command),
    Context(RecordedContext),
    Closed(Closed),
    Compacted(Compacted),
    Uncompacted(Uncompacted),
    Prune(Prune),
    Snapshot(Snapshot),
    Branch(Branch),
    Meta(Meta),
    Turn(Turn),
    Change(Change),
    Erased(Erased),
    Raw(RawItem),
}

impl Compacted {
    /// A summary of everything before `keep_from`.
    pub fn new(summary: impl Into<Text>, keep_from: Option<EntryId>) -> Self {
        Self {
            summary: summary.into(),
            truncated_count: 0,
            keep_from,
            kept: None,
            model: None,
            tokens_before: None,
            tokens_after: None,
            usage: None,
            requests: None,
            came_with: None,
            summary_at: None,
            list_at: None,
        }
    }
}

impl TokenUsage {
    /// Adds the tokens of another request. The sum saturates, because a provider may report any number.
    pub fn add(&mut self, usage: &Self) {
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.cached = self.cached.saturating_add(usage.cached);
        self.reasoning = self.reasoning.saturating_add(usage.reasoning);
    }

    /// The tokens of the request and the answer.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Turn {
    /// A new state, for a call or for the whole turn.
    #[must_use]
    pub fn new(state: TurnState, call: Option<CallAt>) -> Self {
        Self { state, call, usage: None, unused_summary: None }
    }

    /// The cost of a summary that was not used. Its state is a running call without a call, which changes nothing, even for readers
    /// that do not know this field.
    #[must_use]
    pub fn unused_summary(
        model: impl Into<Text>,
        requests: u64,
        usage: impl Into<Option<TokenUsage>>,
    ) -> Self {
        let unused_summary = Some(UnusedSummary { model: model.into(), requests });
        Self { usage: usage.into(), unused_summary, ..Self::new(TurnState::CallRunning, None) }
    }
}

impl Change {
    /// A step of a call's change, with all other fields empty.
    #[must_use]
    pub fn new(state: ChangeState, call: CallAt) -> Self {
        Self {
            state,
            call,
            by: None,
            rule: None,
            reason: None,
            arguments: None,
            path: None,
            before: None,
            before_base64: None,
            after: None,
            child: None,
            commit: None,
            confidence: None,
        }
    }
}

impl Content {
    /// The content of an entry.
    pub fn of(entry: &Entry) -> Self {
        match entry.body() {
            None => Self::Gone,
            Some(raw) => {
                Self::read(&entry.envelope().kind, raw).unwrap_or_else(|| Self::Unreadable(raw.clone()))
            }
        }
    }
}
