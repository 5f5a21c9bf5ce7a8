//! The law *accounted for*: every string of at least four words in a source is in a block of a message, in something that
//! is kept beside the messages because the reader knows it, or named by an `unread-text` finding.
//!
//! One pass over every session that a reader made, so a new reader inherits it. A message keeps its source's own bytes:
//! `walk.rs` finds the strings in them, `held.rs` says which of them the blocks hold. What is left may be a field that the
//! reader declares ([`Reading::known`](crate::sessions::Reading)); anything else is reported. A file most of whose text
//! is left is refused, and `likeness.rs` says what it looks like.

mod held;
pub(crate) mod likeness;
mod walk;

use std::{borrow::Cow, hash::BuildHasher as _};

use hashbrown::{DefaultHashBuilder, HashSet};
use rejoin_record::{
    Form, Message,
    json::{Doc, literal},
};
use rejoin_view::{Action, Finding, Position, Rule};
pub use walk::has_words;

use crate::{
    context::Field,
    messages::holds_speech,
    parallel,
    session::{Aside, Place, ReadError, Session},
    sessions::registry,
};

/// How many fields a finding names.
const NAMED: usize = 6;

/// What is refused if most of its text was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuse {
    /// Any file: its format was told by its looks.
    AnyFile,
    /// Any file but a request body: someone said what it is.
    AllButBodies,
    /// Nothing: it is our own record.
    Nothing,
}

/// Reports what was not read of the sessions of a file.
///
/// # Errors
/// If that is most of its text.
pub(crate) fn account(mut sessions: Vec<Session>, refuse: Refuse) -> Result<Vec<Session>, ReadError> {
    let mut tally = Tally::default();
    let mut hollow = !sessions.is_empty();
    for session in &mut sessions {
        let found = unread(session);
        if !found.is_empty() {
            tally.unread += found.iter().map(|found| found.size).sum::<usize>();
            tally.read += read_size(session);
            session.findings.extend(found.into_iter().map(Unread::into_finding));
        }
        hollow &= is_hollow(session);
    }
    let whole_body = sessions.iter().any(|session| session.context.whole_body);
    if refuse == Refuse::Nothing || (refuse == Refuse::AllButBodies && whole_body) {
        return Ok(sessions);
    }
    if tally.unread > tally.read {
        let shape = likeness::of_sessions(&sessions);
        return Err(ReadError::MostlyUnread {
            shape,
            unread: tally.unread,
            total: tally.unread + tally.read,
        });
    }
    if hollow {
        return Err(ReadError::Foreign { shape: likeness::of_sessions(&sessions) });
    }
    Ok(sessions)
}

/// What of a session was not read, as findings. Sessions from a store come without them.
#[must_use]
pub fn report(session: &Session) -> Vec<Finding> {
    unread(session).into_iter().map(Unread::into_finding).collect()
}

/// Characters of a file.
#[derive(Default)]
struct Tally {
    read: usize,
    unread: usize,
}

/// Text of one message or line that nothing holds.
struct Unread {
    at: Position,
    fields: Vec<String>,
    size: usize,
}

impl Unread {
    fn into_finding(self) -> Finding {
        let mut named: Vec<String> =
            self.fields.iter().take(NAMED).map(|field| format!("`{field}`")).collect();
        if self.fields.len() > NAMED {
            named.push(format!("{} more", self.fields.len() - NAMED));
        }
        let word = if self.fields.len() == 1 { "field" } else { "fields" };
        let finding = Finding::new(Rule::UnreadText, self.at, Action::SetAside);
        finding.because(format!("{word} {}", named.join(", ")))
    }
}

/// What of a session was not read.
fn unread(session: &Session) -> Vec<Unread> {
    let mut left: Vec<(Position, Vec<Left<'_>>)> =
        parallel::filter_map(&session.messages, |index, message| {
            let left = Some(left_of(message)).filter(|left| !left.is_empty())?;
            Some((session.source_position(Position::message(index)), left))
        });
    for item in &session.set_aside {
        let found = match &item.what {
            Aside::Hidden(message, _) => left_of(message),
            Aside::Unknown(text) => left_in(text, &[], &[], Fewest::FourWords),
            Aside::Raw(_) | Aside::Snapshot(_) | Aside::Compacted { .. } | Aside::Title(_) => continue,
        };
        left.extend(Some(found).filter(|left| !left.is_empty()).map(|left| (position(item.place), left)));
    }
    for field in session.context.fields.iter().filter(|field| speaks(session, field)) {
        let mut found = left_in(field.value.as_str(), &[], &[], Fewest::FourWords);
        found.iter_mut().for_each(|left| left.path = format!("{}.{}", field.name, left.path));
        left.extend(Some(found).filter(|left| !left.is_empty()).map(|left| (Position::default(), left)));
    }
    if left.is_empty() {
        return Vec::new();
    }
    // The same words may stand elsewhere, where they were read.
    let elsewhere = Elsewhere::new(session);
    let unread = left.into_iter().filter_map(|(at, mut left)| {
        left.retain(|left| !elsewhere.holds(&left.text));
        let size = left.iter().map(|left| left.text.chars().count()).sum();
        let mut fields: Vec<String> = left.into_iter().map(|left| left.path).collect();
        fields.dedup();
        (!fields.is_empty()).then_some(Unread { at, fields, size })
    });
    unread.collect()
}

/// Whether a field around the messages holds speech. Such a field is no setting: it is part of a conversation.
fn speaks(session: &Session, field: &Field) -> bool {
    const SETTINGS: &[&str] = &["tools", "functions", "system", "instructions", "metadata", "model"];
    let system = session.context.dialect.map_or(&[][..], |dialect| dialect.wire().fields.system);
    let setting = SETTINGS.iter().chain(system).any(|name| *name == field.name.as_str());
    let raw = field.value.as_str();
    let spoken = || Doc::parse(raw).is_ok_and(|doc| doc.root().is_some_and(holds_speech));
    !setting && (SPEECH.contains(&&*field.name) || (raw.starts_with(['{', '[']) && spoken()))
}

/// What programs call the answer that they keep beside the messages of its request.
const SPEECH: &[&str] = &[
    "assistant",
    "user",
    "completion",
    "completions",
    "response",
    "responses",
    "answer",
    "answers",
    "reply",
    "replies",
    "output",
    "outputs",
];

fn position(place: Place) -> Position {
    Position { message: place.line.is_none().then_some(place.index), block: None, line: place.line }
}

/// A string that no block of its own message holds.
struct Left<'r> {
    path: String,
    text: Cow<'r, str>,
}

/// How long a string must be to count.
#[derive(Clone, Copy, PartialEq)]
enum Fewest {
    FourWords,
    /// In a message that says nothing at all, a single word under another name may be what was said.
    OneLetter,
}

/// The strings of a message's own item that no block of it holds and that are no bookkeeping.
fn left_of(message: &Message) -> Vec<Left<'_>> {
    let Some(native) = message.native.as_ref().filter(|native| !native.raw.as_str().is_empty()) else {
        return Vec::new();
    };
    let known = registry::named(&native.format).and_then(|format| format.read.as_ref());
    let known = known.map_or(&[][..], |reading| reading.known);
    let silent = message.blocks.is_empty() && message.form == Form::Absent;
    let fewest = if silent { Fewest::OneLetter } else { Fewest::FourWords };
    let mut left = left_in(native.raw.as_str(), &held::stretches(message, native), known, fewest);
    if !left.is_empty() {
        // Some texts were put together from several strings.
        let own = held::composed(message);
        left.retain(|left| !held::holds(&own, &left.text));
    }
    left
}

fn left_in<'r>(raw: &'r str, held: &[(usize, usize)], known: &[Known], fewest: Fewest) -> Vec<Left<'r>> {
    let mut left = Vec::new();
    walk::unread_strings(raw, held, |path, string| {
        let few = fewest == Fewest::OneLetter && path.keys().last().is_some_and(|key| !is_bookkeeping(&key));
        if few || walk::literal_has_words(string) {
            let text = literal::decode(string).0;
            let keys: Vec<Cow<'_, str>> = path.keys().collect();
            let letters = text.chars().any(char::is_alphanumeric);
            if letters && !known.iter().any(|known| known.covers(&keys, raw)) {
                left.push(Left { path: keys.join("."), text });
            }
        }
    });
    left
}

/// Fields of a message's own item whose words are not part of the conversation, or repeat it.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The fields, with spaces between them; each is the path of keys from the item's root, with dots between them.
    /// Everything below a field is known too.
    fields: &'static str,
    /// A key that only items with these fields have.
    beside: Option<&'static str>,
}

impl Known {
    /// Fields of every item.
    #[must_use]
    pub(crate) const fn fields(fields: &'static str) -> Self {
        Self { fields, beside: None }
    }

    /// Fields of items that have this other key too.
    #[must_use]
    pub(crate) const fn beside(beside: &'static str, fields: &'static str) -> Self {
        Self { fields, beside: Some(beside) }
    }

    /// Whether the keys lead to one of the fields or below it, in the item with these bytes.
    #[must_use]
    pub fn covers(&self, path: &[Cow<'_, str>], raw: &str) -> bool {
        let leads_to = |field: &str| {
            let mut keys = path.iter();
            field.split('.').all(|name| keys.next().is_some_and(|key| *key == name))
        };
        self.fields.split(' ').any(leads_to)
            && self.beside.is_none_or(|key| raw.contains(&format!("\"{key}\"")))
    }
}

/// Whether a field is one that programs keep beside a message, by its name: who, when, which one.
fn is_bookkeeping(key: &str) -> bool {
    const NAMES: &str = "role type kind name model provider status mode agent version cwd path root created updated \
                         timestamp date format subtype stop_reason finish_reason";
    let key = key.to_ascii_lowercase();
    NAMES.split(' ').any(|name| name == key)
        || ["id", "time", "_at", "uuid", "model"].iter().any(|end| key.ends_with(end))
}

/// Everything that a session holds, by hash.
struct Elsewhere {
    hasher: DefaultHashBuilder,
    texts: HashSet<u64>,
}

impl Elsewhere {
    fn new(session: &Session) -> Self {
        let hasher = DefaultHashBuilder::default();
        let mut texts = HashSet::new();
        for message in session.all_messages() {
            held::texts(message, |text| {
                texts.insert(hasher.hash_one(text));
            });
        }
        for field in session.context.fields.iter().filter(|field| !speaks(session, field)) {
            if let Ok(doc) = Doc::parse(field.value.as_str()) {
                texts.extend(doc.strings().map(|text| hasher.hash_one(&*text)));
            }
        }
        for item in &session.set_aside {
            if let Aside::Title(title) = &item.what {
                texts.insert(hasher.hash_one(title.as_str()));
            }
        }
        Self { hasher, texts }
    }

    fn holds(&self, text: &str) -> bool {
        self.texts.contains(&self.hasher.hash_one(text))
    }
}

fn read_size(session: &Session) -> usize {
    session.all_messages().map(|message| held::size(message)).sum()
}

/// Whether a list of messages says nothing: each has a role and other fields, and none has a content.
fn is_hollow(session: &Session) -> bool {
    let hollow = |message: &Message| {
        let doc = message.native.as_ref().and_then(|native| Doc::parse(native.raw.as_str()).ok());
        let fields = doc.as_ref().and_then(Doc::root).map_or(0, |root| root.fields().count());
        message.blocks.is_empty() && message.form == Form::Absent && fields > 1
    };
    !session.messages.is_empty() && session.messages.iter().all(|message| hollow(message))
}
