//! A conversation read from a source: its messages and their places, the context around them, and the findings.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Block, Chain, Content, ConversationId, Entry, EntryId, Hash, Message, Native, Raw, Role, Salt, Scope,
    Text, Timestamp,
    chain::Stamp,
    content::{self, Compacted, Meta, Metadata, RawItem, Snapshot},
    json::{Doc, SyntaxError, Value},
    limits,
};
use rejoin_view::{Action, Finding, History, KnownCall, Position, Rule};

pub use crate::wire::openai_responses::read::is_put_there;
use crate::{
    context::Context,
    input::{Input, InputError},
};

/// The place of a message in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePlace {
    /// Its number in the source, from 0. Items that were set aside are counted too.
    pub index: usize,
    /// The offset of its first byte in the input.
    pub offset: usize,
    /// Its line, from 1, if the reader knows it.
    pub line: Option<usize>,
}

/// What else a source records about a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail {
    /// The source's id for it.
    pub id: Option<Text>,
    /// The source's time, verbatim.
    pub time: Option<Text>,
    /// If the source has several items for it: the first block of each, and its place.
    pub pieces: Vec<(usize, SourcePlace)>,
    /// Whether it came with the compaction before it.
    pub of_compaction: Option<CompactionPart>,
    /// Whether it is hidden because it is on another branch, and not by a compaction.
    pub is_elsewhere: bool,
}

/// What an agent adds to a conversation when it compacts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionPart {
    /// The summary.
    Summary,
    /// A message that the compaction repeats, or adds for another reason.
    Repeat,
}

impl Detail {
    /// The source's id and time of a message that is one item. Two messages may have the same id.
    pub(crate) fn of(id: impl Into<Text>, time: Option<Text>) -> Self {
        Self { id: Some(id.into()), time, ..Self::default() }
    }
}

/// Something that no model would see, kept unchanged.
#[derive(Debug, Clone)]
pub struct SetAside {
    /// Its place in the source.
    pub place: SourcePlace,
    /// The number of messages before it.
    pub after: usize,
    /// What was set aside.
    pub what: Aside,
}

impl Aside {
    /// Whether it is the same as an item of an earlier version of the session. A message that was read again counts as changed.
    fn is(&self, before: &Self) -> bool {
        /// Texts are nearly always the same memory, so that they need not be compared.
        fn same(one: &str, other: &str) -> bool {
            std::ptr::eq(one, other) || one == other
        }
        match (self, before) {
            (Self::Raw(one), Self::Raw(other))
            | (Self::Unknown(one), Self::Unknown(other))
            | (Self::Title(one), Self::Title(other))
            | (Self::Compacted { summary: one }, Self::Compacted { summary: other }) => same(one, other),
            (Self::Snapshot(one), Self::Snapshot(other)) => same(one.as_str(), other.as_str()),
            (Self::Hidden(one, own), Self::Hidden(other, theirs)) => Arc::ptr_eq(one, other) && own == theirs,
            (Self::Scope(one), Self::Scope(other)) => one == other,
            _ => false,
        }
    }
}

impl SetAside {
    /// Something around the messages that begins at this byte of the input.
    pub(crate) fn around(offset: usize, what: Aside) -> Self {
        Self { place: SourcePlace { index: 0, offset, line: None }, after: 0, what }
    }

    /// The exact text of a raw or unknown item.
    pub fn raw(&self) -> Option<&Text> {
        if let Aside::Raw(text) | Aside::Unknown(text) = &self.what { Some(text) } else { None }
    }
}

/// The kinds of things that no model would see.
#[derive(Debug, Clone)]
pub enum Aside {
    /// The exact text of something that the reader knows and that is not part of the conversation.
    Raw(Text),
    /// The exact text of something that the reader does not know. Words in it that were read nowhere else are reported.
    Unknown(Text),
    /// The exact JSON of a state of the agent that survives compaction.
    Snapshot(Raw),
    /// A message that a compaction hides, or that is on another branch.
    Hidden(Arc<Message>, Detail),
    /// A compaction: everything before it was replaced by what follows.
    Compacted {
        /// The summary, unless it is one of the messages that follow.
        summary: Text,
    },
    /// A title of the conversation.
    Title(Text),
    /// Who the conversation belongs to.
    Scope(Scope),
}

/// One conversation from a file.
#[derive(Debug, Clone)]
pub struct Session {
    /// The name of the format.
    pub format: &'static str,
    /// The conversation's id in rejoin.
    pub id: ConversationId,
    /// The context around the messages.
    pub context: Context,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// The place of each message.
    pub places: Vec<SourcePlace>,
    /// What else the source records about each message; may be shorter than the list of messages.
    pub details: Vec<Detail>,
    /// What the source records about calls: that they ran, wait for approval, or were decided about.
    pub known: Vec<KnownCall>,
    /// The messages before which requests were sent, if the source records it.
    pub sent: Vec<usize>,
    /// The findings of the reader, at positions in the source.
    pub findings: Vec<Finding>,
    /// Everything that no model would see.
    pub set_aside: Vec<SetAside>,
}

/// The reason why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not text.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The text is not JSON from the beginning.
    #[error("not JSON: {reason} (line {line}, byte {offset})")]
    NotJson {
        /// The error.
        reason: &'static str,
        /// Its line, from 1.
        line: usize,
        /// Its offset in bytes.
        offset: usize,
    },
    /// It is JSON, but not a conversation in the format.
    #[error("no conversation in it: {0}")]
    NoConversation(&'static str),
    /// An input error stopped reading.
    #[error("{0}")]
    Io(String),
    /// Pages of a database are missing or damaged, and no conversation in it can be read.
    #[error("the database cannot be read: {0}")]
    DamagedDatabase(String),
    /// It is a conversation in a format that cannot be read.
    #[error("it looks like {shape}, which rejoin does not read yet")]
    Foreign {
        /// What it looks like, in words.
        shape: String,
    },
    /// Most of its text would be lost.
    #[error(
        "{unread} of {total} characters of its text would be lost: it looks like {shape}, which rejoin does not read yet"
    )]
    MostlyUnread {
        /// What it looks like, in words.
        shape: String,
        /// The number of characters that were not understood.
        unread: usize,
        /// The number of characters in all.
        total: usize,
    },
    /// Two formats claim it with the same certainty.
    #[error("it could be in either of two formats: {} (it has {}) or {} (it has {})", one.0, one.1, other.0, other.1)]
    Ambiguous {
        /// The name of one format, and what speaks for it.
        one: (&'static str, &'static str),
        /// The name of the other, and what speaks for it.
        other: (&'static str, &'static str),
    },
    /// The format is unknown.
    #[error("the format is not known")]
    UnknownFormat,
}

impl ReadError {
    /// The error of a text that is not JSON from some place on.
    pub(crate) fn not_json(input: &Input, error: SyntaxError) -> Self {
        let line = input.line_of(error.offset);
        Self::NotJson { reason: error.reason(), line, offset: error.offset }
    }

    pub(crate) fn io(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// The first line that a person wrote in a message, as a title. Text that agents insert is skipped.
pub fn line_said_in(message: &Message) -> Option<String> {
    if message.role != Role::User {
        return None;
    }
    let mut texts = message.blocks.iter().filter_map(Block::as_text);
    texts.find(|text| !text.is_blank() && !is_put_there(text)).map(|text| title_line(text))
}

/// The first line of a text, as a title.
fn title_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().trim_end().chars().take(limits::TITLE_CHARS).collect()
}

/// Reports that some bytes of an input were not text and were replaced.
pub(crate) fn replaced_bytes(input: &Input) -> Option<Finding> {
    let line = Some(input.line_of(input.replaced_at?));
    Some(Finding::new(Rule::InvalidUtf8, Position { line, ..Position::default() }, Action::Replaced))
}

/// The offset of the first byte that belongs to nothing readable: a field of the body that the error cut off, unless it is the
/// list of messages itself, or else the error.
pub(crate) fn unreadable_from(body: Option<Value<'_>>, list: Value<'_>, error: SyntaxError) -> usize {
    let cut = |(_, value): &(Value<'_>, Value<'_>)| value.is_cut() && value.start() != list.start();
    let field = body.and_then(|body| body.fields().last().filter(cut));
    field.map_or(error.offset, |(key, _)| key.start())
}

/// Reports that an input is not JSON from some place on. `message` is the number of the item that cannot be read.
pub(crate) fn unreadable_rest(input: &Input, error: SyntaxError, message: usize) -> Finding {
    let at = Position { message: Some(message), block: None, line: Some(input.line_of(error.offset)) };
    let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
    finding.because(format!("{}, and nothing after it can be read", error.reason()))
}

impl Session {
    /// A session with no messages yet.
    pub fn new(format: &'static str, id: ConversationId, context: Context) -> Self {
        Self {
            format,
            id,
            context,
            messages: Vec::new(),
            places: Vec::new(),
            details: Vec::new(),
            known: Vec::new(),
            sent: Vec::new(),
            findings: Vec::new(),
            set_aside: Vec::new(),
        }
    }

    /// The history for the repair pass.
    pub fn history(&self) -> History {
        let history = History::with(self.messages.clone(), self.known.clone(), self.sent.clone());
        history.of_session(&self.id.to_string())
    }

    /// Converts the position of a finding about the history to its position in the source.
    pub fn place(&self, finding: Finding) -> Finding {
        Finding { at: self.source_position(finding.at), ..finding }
    }

    /// Converts a position in the history to the position in the source.
    pub fn source_position(&self, at: Position) -> Position {
        let Some((message, place)) =
            at.message.and_then(|message| Some((message, self.places.get(message)?)))
        else {
            return at;
        };
        // In one of several items of a message: the place of that item, with blocks counted from its first.
        let pieces = self.details.get(message).map_or(&[][..], |detail| &detail.pieces);
        let piece = at.block.and_then(|block| {
            let after = pieces.partition_point(|(first, _)| *first <= block);
            let (first, place) = pieces.get(after.checked_sub(1)?)?;
            Some((place, block - first))
        });
        let (place, block) = piece.map_or((place, at.block), |(place, block)| (place, Some(block)));
        if self.details.is_empty() || place.line.is_none() {
            return Position { message: Some(place.index), block, line: at.line };
        }
        // In a file of lines, most of which are not messages, a message is named by its number and its line.
        Position { line: at.line.or(place.line), ..at }
    }

    /// The places of messages and other items, by their number in the source.
    pub fn source_places(&self) -> HashMap<usize, SourcePlace> {
        self.places
            .iter()
            .chain(self.details.iter().flat_map(|detail| detail.pieces.iter().map(|(_, place)| place)))
            .chain(self.set_aside.iter().map(|item| &item.place))
            .map(|place| (place.index, *place))
            .collect()
    }

    /// Every message; those that no model would see are last.
    pub(crate) fn all_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.messages.iter().chain(self.hidden().map(|(_, message)| message))
    }

    /// The messages that no model would see, in the order of the source, each with the number of shown messages before it: a compaction
    /// hides them, they are on another branch, or their results were pruned and `messages` holds the shortened form.
    pub fn hidden(&self) -> impl Iterator<Item = (usize, &Arc<Message>)> {
        self.set_aside.iter().filter_map(|item| match &item.what {
            Aside::Hidden(message, _) => Some((item.after, message)),
            _ => None,
        })
    }

    /// The title of the conversation in the source.
    pub fn title(&self) -> Option<&Text> {
        self.set_aside.iter().rev().find_map(|item| match &item.what {
            Aside::Title(title) => Some(title),
            _ => None,
        })
    }

    /// Who the conversation belongs to, if the source says so.
    pub fn scope(&self) -> Option<&Scope> {
        self.set_aside.iter().rev().find_map(|item| match &item.what {
            Aside::Scope(scope) => Some(scope),
            _ => None,
        })
    }

    /// The same conversation as a part of a scope. If the source does not say whose it is, its id differs per scope: two users may
    /// import the same file, and neither sees the other's copy.
    pub fn in_scope(mut self, scope: Scope) -> Self {
        if self.scope().is_none() {
            self.id = ConversationId::derive("scope", &format!("{}\n{}", scope.to_raw().as_str(), self.id));
            let place = SourcePlace { index: 0, offset: 0, line: None };
            self.set_aside.insert(0, SetAside { place, after: 0, what: Aside::Scope(scope) });
        }
        self
    }

    /// A headline: the source's title, or the first line that a person wrote. A message counts even if a compaction hides it, so that a
    /// conversation keeps its headline when it is compacted.
    pub fn headline(&self) -> String {
        let said = || {
            let mut shown = self.messages.iter().enumerate();
            let shown = shown.find_map(|(number, message)| Some((number, line_said_in(message)?)));
            let mut hidden =
                self.hidden().filter_map(|(after, message)| Some((after, line_said_in(message)?)));
            let is_earlier = |after: usize| shown.as_ref().is_none_or(|(number, _)| after <= *number);
            let hidden = hidden.find(|(after, _)| is_earlier(*after));
            hidden.or(shown).map(|(_, line)| line)
        };
        let given = self.title().map(|title| title_line(title));
        given.or_else(said).unwrap_or_default()
    }

    /// The newest time of a message, if the source records times.
    pub fn newest(&self) -> Option<Timestamp> {
        self.details.iter().filter_map(|detail| instant(detail.time.as_ref()?)).max()
    }

    /// The folder that the source names.
    pub fn directory(&self) -> Option<String> {
        let cwd = |json: &str| {
            let doc = Doc::parse(json).ok()?;
            let root = doc.root()?;
            let inside = || root.given("item")?.given("data");
            let holder = root.given("payload").or_else(inside).unwrap_or(root);
            let folder = holder.given("cwd").or_else(|| holder.given("workspace_root"))?;
            folder.as_str().map(std::borrow::Cow::into_owned)
        };
        let names = |line: &&Text| ["\"cwd\"", "\"workspace_root\""].iter().any(|name| line.contains(name));
        let lines = self.set_aside.iter().filter_map(SetAside::raw).filter(names);
        let natives = self.messages.iter().take(1).filter_map(|message| message.native.as_ref());
        // The first line of a message.
        let first = |native: &Native| {
            let span = native.items.first().map(|item| item.span);
            cwd(span.map_or(Some(native.raw.as_str()), |span| span.of(native.raw.as_str()))?)
        };
        natives.filter_map(first).next().or_else(|| lines.into_iter().find_map(|line| cwd(line)))
    }

    /// Converts the conversation to entries of the record. The same source gives the same ids, also after it has grown. Salts
    /// are derived too, so that importing twice gives the same bytes.
    pub fn to_entries(&self, imported_at: Timestamp) -> Vec<Entry> {
        self.entries_after(&[], imported_at).0
    }

    /// The last of these entries, if the places of the first ones are known from an earlier version of the session, with which it
    /// has them [in common](Self::entries_in_common). The second list holds the places of the new ones. The context and the branch
    /// at the end have none, because they are not the same in a later version. The entries are for comparing: their numbers and
    /// hashes begin anew.
    pub fn entries_after(
        &self,
        known: &[EntryPlace],
        imported_at: Timestamp,
    ) -> (Vec<Entry>, Vec<EntryPlace>) {
        let parts = self.parts().into_iter().skip(known.len().saturating_sub(1));
        let last = known.last();
        let mut import = Import {
            session: self,
            imported_at,
            chain: Chain::empty(),
            last: last.map(|last| last.id),
            path: last.map(|last| last.path),
            entries: Vec::new(),
            places: Vec::new(),
            used: known.iter().filter(|place| place.has_own_id).map(|place| place.id).collect(),
        };
        if known.is_empty() {
            import.entries.reserve(self.messages.len() + self.set_aside.len() + 1);
            import.append(&Content::Header(self.header()), "header", &Detail::default());
        }
        for part in parts {
            match part {
                Part::Message(message, detail) => import.message(message, detail),
                Part::Branch(message, detail) => import.branch(message, detail),
                Part::Compaction(summary, came_with) => import.compaction(summary, &came_with),
                Part::Aside(what) => import.aside(what),
            }
        }
        let mut places = std::mem::take(&mut import.places);
        // The context is last because it may change as the source grows: no other id depends on it.
        import.context();
        places.shrink_to_fit();
        (import.entries, places)
    }

    /// How many entries at the beginning are the same as those of an earlier version of the session, not counting the context and
    /// the branch at its end.
    pub fn entries_in_common(&self, earlier: &Self) -> usize {
        if self.header() != earlier.header() {
            return 0;
        }
        1 + self.parts().iter().zip(earlier.parts()).take_while(|(part, before)| part.is(before)).count()
    }

    /// How many messages, and how many items that were set aside, are the same as in an earlier version of the session.
    pub(crate) fn same_parts_as(&self, earlier: &Self) -> (usize, usize) {
        let messages = self.messages.iter().zip(&earlier.messages);
        let asides = self.set_aside.iter().zip(&earlier.set_aside);
        (
            messages.take_while(|(message, before)| Arc::ptr_eq(message, before)).count(),
            asides.take_while(|(item, before)| item.what.is(&before.what)).count(),
        )
    }

    fn header(&self) -> Metadata {
        Metadata {
            conversation: self.id,
            provider: None,
            // A source that grows may change its model, but its header must stay the same.
            model: self.context.model().filter(|_| self.details.is_empty()).map(Text::from),
            directory: None,
            format: Some(Text::new(self.format)),
        }
    }

    /// Everything that becomes an entry, in the order of the record, except the header and what is at the end. Messages that a
    /// compaction hides are before it on the path; messages of other branches are not on the path.
    fn parts(&self) -> Vec<Part<'_>> {
        let is_compaction = |item: &SetAside| matches!(item.what, Aside::Compacted { .. });
        let compacted = self.set_aside.iter().rposition(is_compaction).map_or(0, |place| place + 1);
        let mut parts = Parts::with_capacity(self.messages.len() + self.set_aside.len());
        let mut aside = self.set_aside.iter().enumerate().peekable();
        for place in 0..=self.messages.len() {
            while let Some((number, item)) = aside.next_if(|(_, item)| item.after <= place) {
                match &item.what {
                    Aside::Hidden(message, detail) if number >= compacted || detail.is_elsewhere => {
                        parts.all.push(Part::Branch(message, detail));
                    }
                    Aside::Hidden(message, detail) => parts.message(message, detail),
                    Aside::Compacted { summary } => parts.compaction(summary),
                    what => parts.all.push(Part::Aside(what)),
                }
            }
            if let Some(message) = self.messages.get(place) {
                parts.message(message, self.details.get(place).unwrap_or(&NO_DETAIL));
            }
        }
        parts.all
    }
}

/// What is recorded about a message of which the source records nothing.
static NO_DETAIL: Detail =
    Detail { id: None, time: None, pieces: Vec::new(), of_compaction: None, is_elsewhere: false };

/// A part of a session that becomes an entry.
enum Part<'s> {
    Message(&'s Arc<Message>, &'s Detail),
    /// A message off the path.
    Branch(&'s Arc<Message>, &'s Detail),
    /// A compaction: its summary, and the messages after it that came with it, each with the number of messages in between.
    Compaction(&'s Text, Vec<(u64, CompactionPart)>),
    Aside(&'s Aside),
}

impl Part<'_> {
    /// Whether it is the same as a part of an earlier version of the session. A message that was read again counts as changed.
    fn is(&self, before: &Part<'_>) -> bool {
        match (self, before) {
            (Self::Message(one, own), Part::Message(other, theirs))
            | (Self::Branch(one, own), Part::Branch(other, theirs)) => {
                Arc::ptr_eq(one, other) && own == theirs
            }
            (Self::Compaction(one, own), Part::Compaction(other, theirs)) => one == other && own == theirs,
            (Self::Aside(one), Part::Aside(other)) => one.is(other),
            _ => false,
        }
    }
}

/// The parts of a session while they are collected.
struct Parts<'s> {
    all: Vec<Part<'s>>,
    /// The place of the last compaction, and the number of messages after it on the path.
    compaction: Option<(usize, u64)>,
}

impl<'s> Parts<'s> {
    fn with_capacity(count: usize) -> Self {
        Self { all: Vec::with_capacity(count), compaction: None }
    }

    fn compaction(&mut self, summary: &'s Text) {
        self.compaction = Some((self.all.len(), 0));
        self.all.push(Part::Compaction(summary, Vec::new()));
    }

    fn message(&mut self, message: &'s Arc<Message>, detail: &'s Detail) {
        if let Some((compaction, between)) = &mut self.compaction {
            if let (Some(Part::Compaction(_, came_with)), Some(part)) =
                (self.all.get_mut(*compaction), detail.of_compaction)
            {
                came_with.push((*between, part));
            }
            *between += 1;
        }
        self.all.push(Part::Message(message, detail));
    }
}

/// The place of an entry among those of its session, from which the entries after it derive.
#[derive(Debug, Clone, Copy)]
pub struct EntryPlace {
    id: EntryId,
    /// The last entry on the path: this one, unless it is on another branch.
    path: (EntryId, Hash),
    /// Whether its id derives from the source's own.
    has_own_id: bool,
}

impl EntryPlace {
    /// The id of the entry.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The id of the last entry on the path up to here.
    #[must_use]
    pub fn on_path(&self) -> EntryId {
        self.path.0
    }
}

/// The entries of a session while they are created.
struct Import<'s> {
    session: &'s Session,
    imported_at: Timestamp,
    chain: Chain,
    last: Option<EntryId>,
    /// The last entry on the path.
    path: Option<(EntryId, Hash)>,
    entries: Vec<Entry>,
    places: Vec<EntryPlace>,
    /// The ids that derive from the source's own.
    used: HashSet<EntryId>,
}

impl Import<'_> {
    fn append(&mut self, content: &Content, bytes: &str, detail: &Detail) {
        let kind = content.kind().expect("BUG: an import has content of a known kind");
        let parent = self.last.map_or_else(|| self.session.id.to_string(), |last| last.to_string());
        let source = detail.id.as_ref().map_or(parent.as_str(), Text::as_str);
        let mut id = EntryId::derive(&self.session.id, source, bytes);
        // A source may give two messages the same id and the same bytes. Only one entry can have what derives from them.
        if detail.id.is_some() && !self.used.insert(id) {
            id = EntryId::derive(&self.session.id, &parent, bytes);
        }
        let salt = Salt(id.as_uuid().into_bytes());
        let stamp = Stamp { id, timestamp: self.imported_at, salt, source_time: detail.time.clone() };
        let entry = self.chain.append_under(self.path, kind, content, stamp);
        let path = (id, entry.hash());
        self.path = Some(path);
        self.last = Some(id);
        self.entries.push(entry);
        self.places.push(EntryPlace { id, path, has_own_id: detail.id.is_some() });
    }

    /// Adds a message off the path: the next entry follows the one before it.
    fn branch(&mut self, message: &Message, detail: &Detail) {
        // Ids still derive from it, so that two messages with the same content get different ids.
        let path = self.path;
        self.message(message, detail);
        self.path = path;
        if let (Some(place), Some(path)) = (self.places.last_mut(), path) {
            place.path = path;
        }
    }

    /// Adds the whole context: the system prompt and the tools as such, and every field verbatim, from which the body can be
    /// written again.
    fn context(&mut self) {
        let context = &self.session.context;
        let beside = self.last.is_some() && self.last != self.path.map(|(id, _)| id);
        if beside {
            // The last message is off the path: move the head back.
            let branch = Content::Branch(content::Branch { reason: None });
            self.append(&branch, "branch", &Detail::default());
        }
        if context.fields.is_empty() && !context.whole_body {
            return;
        }
        let system: Vec<Text> = context.system().into_iter().map(|piece| piece.text).collect();
        let content = content::RecordedContext {
            system: (!system.is_empty()).then(|| Text::from(system.join("\n\n"))),
            tools: context.get("tools").cloned(),
            target: Some(Raw::new(context.to_json())),
            ..content::RecordedContext::default()
        };
        self.append(&Content::Context(content), "context", &Detail::default());
    }

    fn message(&mut self, message: &Message, detail: &Detail) {
        self.append(&Content::Message(message.clone()), message.native_text(), detail);
    }

    /// Adds a compaction, with the places of the messages after it that came with it.
    fn compaction(&mut self, summary: &Text, parts: &[(u64, CompactionPart)]) {
        let is_summary = |(_, part): &&(u64, CompactionPart)| *part == CompactionPart::Summary;
        let summary_at = parts.iter().find(is_summary).map(|(place, _)| *place);
        let came_with = (!parts.is_empty()).then(|| parts.iter().map(|(place, _)| *place).collect());
        let compacted = Compacted { came_with, summary_at, ..Compacted::new(summary.clone(), None) };
        self.append(&Content::Compacted(compacted), summary.as_str(), &Detail::default());
    }

    fn aside(&mut self, what: &Aside) {
        let (content, bytes) = match what {
            Aside::Raw(text) | Aside::Unknown(text) => {
                let raw = RawItem { format: Text::new(self.session.format), text: text.clone() };
                (Content::Raw(raw), text.as_str())
            }
            Aside::Snapshot(data) => (Content::Snapshot(Snapshot { data: data.clone() }), data.as_str()),
            // It is a part of its own.
            Aside::Hidden(message, detail) => return self.message(message, detail),
            Aside::Compacted { summary } => return self.compaction(summary, &[]),
            Aside::Title(title) => {
                let meta = Meta { title: Some(title.clone()), ..Meta::default() };
                (Content::Meta(meta), title.as_str())
            }
            Aside::Scope(scope) => {
                let field = scope.to_raw();
                let meta = Meta { scope: Some(field.clone()), ..Meta::default() };
                return self.append(&Content::Meta(meta), field.as_str(), &Detail::default());
            }
        };
        self.append(&content, bytes, &Detail::default());
    }
}

/// Derives the id of an imported conversation from the source's id, or else from its name and its first message.
pub fn derive_id(format: &str, own_id: Option<&str>, name: &str, first: Option<&Raw>) -> ConversationId {
    match own_id {
        Some(own) => ConversationId::derive(format, own),
        None => {
            let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
            ConversationId::derive_of(format, &[name, "\n", first.map_or("", Raw::as_str)])
        }
    }
}

/// Parses a source's time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970, which are
/// distinguished by their size.
pub fn instant(time: &str) -> Option<Timestamp> {
    if let Ok(instant) = time.parse() {
        return Some(instant);
    }
    let number: f64 = time.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    // A hundred billion seconds lead three thousand years ahead; a hundred billion milliseconds lead to 1973.
    let seconds = match number {
        n if n < 1e11 => n,
        n if n < 1e14 => n / 1e3,
        n if n < 1e17 => n / 1e6,
        n => n / 1e9,
    };
    Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
}
