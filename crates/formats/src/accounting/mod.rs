//! The law *accounted for*: every string of at least four words in a source is in a block of a message, in a field that the
//! reader knows and keeps beside the messages, or named by an `unread-text` finding. Most shorter strings are ids, kinds and
//! paths, so a shorter string counts only if the name of its field, such as `text`, says that it is a part of a conversation.
//!
//! One pass checks every session that a reader returns, so a new reader needs no code for it. A message keeps the bytes of its
//! source: `walk.rs` finds the strings in them, and `held.rs` finds those that the blocks hold. The other strings are reported,
//! unless the reader declares their field ([`Reading::known`](crate::sessions::Reading)). If most of the text of a file is
//! unread, the file is refused, and `likeness.rs` says what it looks like.

mod held;
pub(crate) mod likeness;
mod plain;
mod shape;
mod walk;

use std::{borrow::Cow, cell::OnceCell, hash::BuildHasher as _};

use hashbrown::{DefaultHashBuilder, HashSet};
pub use plain::looks_like;
use rejoin_record::{
    Form, Message, Text,
    json::{Doc, literal},
};
use rejoin_view::{Action, Finding, Position, Rule};
pub use shape::FileShape;
pub use walk::has_words;

use crate::{
    context::Field,
    messages::holds_speech,
    parallel,
    session::{Aside, ReadError, Session, SourcePlace},
    sessions::registry,
};

/// Up to this number of strings, and of messages that may hold them, each string is compared with each message. Beyond it, a set
/// of all texts is faster.
const FEW: usize = 8;

/// The number of fields that a finding names.
const NAMED: usize = 6;

/// The files that are refused if most of their text is unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuse {
    /// Every file: its format was detected.
    AnyFile,
    /// Every file except a request body: the caller named the format.
    AllButBodies,
    /// None: it is our own record.
    Nothing,
}

/// Reports the unread text of a file's sessions.
///
/// # Errors
/// If most of the text is unread.
pub(crate) fn account(mut sessions: Vec<Session>, refuse: Refuse) -> Result<Vec<Session>, ReadError> {
    let (mut lost, mut read) = (0, 0);
    let mut hollow = !sessions.is_empty();
    // In a file of many short conversations, a second thread takes half of them.
    let all_found = parallel::filter_map(&sessions, |_, session| Some(unread(session)));
    for (session, found) in sessions.iter_mut().zip(all_found) {
        if !found.is_empty() {
            lost += found.iter().map(|found| found.size).sum::<usize>();
            read += session.all_messages().map(|message| held::size(message)).sum::<usize>();
            session.findings.extend(found.into_iter().map(UnreadStrings::into_finding));
        }
        hollow &= is_hollow(session);
    }
    let whole_body = sessions.iter().any(|session| session.context.whole_body);
    if refuse == Refuse::Nothing || (refuse == Refuse::AllButBodies && whole_body) {
        return Ok(sessions);
    }
    if lost > read {
        let shape = likeness::of_sessions(&sessions);
        return Err(ReadError::MostlyUnread { shape, unread: lost, total: lost + read });
    }
    if hollow {
        return Err(ReadError::Foreign { shape: likeness::of_sessions(&sessions) });
    }
    Ok(sessions)
}

/// Reports the unread text of a session that is an earlier version with more at its end. Nothing was unread in that version, and the
/// first messages and items that were set aside are the same, as many as `known` says. Also returns whether all text was read.
///
/// # Errors
/// If most of the text is unread.
pub(crate) fn account_after(
    session: Session,
    known: (usize, usize),
    refuse: Refuse,
) -> Result<(Session, bool), ReadError> {
    if left_after(&session, known).is_empty() && !is_hollow(&session) {
        return Ok((session, true));
    }
    let before = session.findings.len();
    let mut sessions = account(vec![session], refuse)?;
    let session = sessions.pop().expect("BUG: one session was given");
    let all_read = session.findings.len() == before && !is_hollow(&session);
    Ok((session, all_read))
}

/// The findings about unread text of a session. A session that was read from a store does not have them yet.
#[must_use]
pub fn report(session: &Session) -> Vec<Finding> {
    unread(session).into_iter().map(UnreadStrings::into_finding).collect()
}

/// The unread text of one message or line.
struct UnreadStrings {
    at: Position,
    fields: Vec<String>,
    /// The number of characters that count towards refusing the file.
    size: usize,
}

impl UnreadStrings {
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

/// The unread text of a session.
fn unread(session: &Session) -> Vec<UnreadStrings> {
    let left = left_after(session, (0, 0));
    if left.is_empty() {
        return Vec::new();
    }
    // The same words may have been read elsewhere.
    let elsewhere = HeldTexts::new(session);
    let unread = left.into_iter().filter_map(|(at, mut left)| {
        left.retain(|left| !elsewhere.holds(left.text()));
        let lost = left.iter().filter(|left| !left.is_minor);
        let size = lost.map(|left| left.text().chars().count()).sum();
        let mut fields: Vec<String> = left.into_iter().map(|left| left.path).collect();
        fields.dedup();
        (!fields.is_empty()).then_some(UnreadStrings { at, fields, size })
    });
    unread.collect()
}

/// The strings that are not in the blocks of their own messages, after so many messages and items that were set aside.
fn left_after(
    session: &Session,
    (messages, asides): (usize, usize),
) -> Vec<(Position, Vec<UnheldString<'_>>)> {
    let mut left: Vec<(Position, Vec<UnheldString<'_>>)> =
        parallel::filter_map(&session.messages[messages..], |index, message| {
            let index = messages + index;
            let mut left = left_of(message);
            // A message without an item, such as a result beside its call, shares the item of the message before it. If many
            // messages share an item, the set of all texts below is faster.
            let sharing = || session.messages[index + 1..].iter().take_while(|next| next.native.is_none());
            if left.len() <= FEW && sharing().nth(FEW).is_none() {
                left.retain(|left| !sharing().any(|next| held::is_text_of(next, left)));
            }
            let left = Some(left).filter(|left| !left.is_empty())?;
            Some((session.source_position(Position::message(index)), left))
        });
    left.extend(parallel::filter_map(&session.set_aside[asides..], |_, item| {
        let left = match &item.what {
            Aside::Hidden(message, _) => left_of(message),
            Aside::Unknown(text) => left_in(text, &[], || &[], ShortTexts::Spoken),
            Aside::Raw(_)
            | Aside::Snapshot(_)
            | Aside::Compacted { .. }
            | Aside::Title(_)
            | Aside::Scope(_) => return None,
        };
        (!left.is_empty()).then(|| (position(item.place), left))
    }));
    for field in session.context.fields.iter().filter(|field| speaks(session, field)) {
        let mut found = left_in(field.value.as_str(), &[], || &[], ShortTexts::Spoken);
        found.iter_mut().for_each(|left| left.path = format!("{}.{}", field.name, left.path));
        left.push((Position::default(), found));
    }
    left.retain(|(_, left)| !left.is_empty());
    left
}

/// Whether a field around the messages holds words of the conversation rather than a setting.
fn speaks(session: &Session, field: &Field) -> bool {
    const SETTINGS: &[&str] = &["tools", "functions", "system", "instructions", "metadata", "model"];
    let system = session.context.dialect.map_or(&[][..], |dialect| dialect.wire().fields.system);
    let setting = SETTINGS.iter().chain(system).any(|name| *name == field.name.as_str());
    let raw = field.value.as_str();
    let spoken = || Doc::parse(raw).is_ok_and(|doc| doc.root().is_some_and(holds_speech));
    !setting && (SPEECH.contains(&&*field.name) || (raw.starts_with(['{', '[']) && spoken()))
}

/// Names of fields in which programs keep an answer beside the messages of its request.
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

fn position(place: SourcePlace) -> Position {
    Position { message: place.line.is_none().then_some(place.index), block: None, line: place.line }
}

/// A string that no block of its message holds.
struct UnheldString<'r> {
    path: String,
    /// Its literal, with the quotes.
    literal: &'r str,
    /// Whether it is so short that it does not count towards refusing the file.
    is_minor: bool,
    text: OnceCell<Cow<'r, str>>,
}

impl UnheldString<'_> {
    fn text(&self) -> &str {
        self.text.get_or_init(|| literal::decode(self.literal).0)
    }

    /// Whether it equals a text. An undecoded literal is compared byte by byte, so the same text with other escapes does not
    /// match; the sets of texts find it later.
    fn is(&self, text: &Text) -> bool {
        match text.literal() {
            Some(body) => self.literal.get(1..self.literal.len().saturating_sub(1)) == Some(body),
            None => self.text() == text.as_str(),
        }
    }
}

/// The fields whose strings count even if they have fewer than four words.
#[derive(Clone, Copy, PartialEq)]
enum ShortTexts {
    /// Fields whose name says that they hold a part of the conversation.
    Spoken,
    /// All fields except bookkeeping. This is for messages without content, because a single word in any field may be the
    /// content.
    AnyButBookkeeping,
}

impl ShortTexts {
    fn counts_in(self, key: &str) -> bool {
        match self {
            Self::Spoken => is_spoken(key),
            Self::AnyButBookkeeping => !is_bookkeeping(key),
        }
    }
}

/// The strings of a message's native item that none of its blocks holds and that are not bookkeeping.
fn left_of(message: &Message) -> Vec<UnheldString<'_>> {
    let Some(native) = &message.native else { return Vec::new() };
    // Look up the known fields only when needed: most messages have no unread strings.
    let known = || {
        let reading = registry::named(&native.format).and_then(|format| format.read.as_ref());
        reading.map_or(&[][..], |reading| reading.known)
    };
    // An item that is a plain text is a single string. If its field is known, the text need not even be converted to JSON.
    let is_known = |field| known().iter().any(|known| known.covers(&[Cow::Borrowed(field)], ""));
    if native.raw.plain_field().is_some_and(is_known) || native.raw.as_str().is_empty() {
        return Vec::new();
    }
    let silent = message.blocks.is_empty() && message.form == Form::Absent;
    let short = if silent { ShortTexts::AnyButBookkeeping } else { ShortTexts::Spoken };
    let mut left = left_in(native.raw.as_str(), &held::stretches(message, native), known, short);
    if left.len() <= FEW {
        left.retain(|left| !held::is_whole_text(message, left));
    }
    if !left.is_empty() {
        // Some texts are composed of several strings.
        let own = held::composed(message);
        left.retain(|left| !held::holds(&own, left.text()));
    }
    left
}

fn left_in<'r>(
    raw: &'r str,
    held: &[(usize, usize)],
    known: impl Fn() -> &'static [Known],
    short: ShortTexts,
) -> Vec<UnheldString<'r>> {
    let mut left = Vec::new();
    walk::unread_strings(raw, held, |path, string| {
        let is_long = walk::literal_has_words(string);
        let counts = || path.last().is_some_and(|key| short.counts_in(&key));
        if is_long || (counts() && walk::has_letters(&literal::decode(string).0)) {
            let keys: Vec<Cow<'_, str>> = path.keys().collect();
            if !known().iter().any(|known| known.is_reference(string) || known.covers(&keys, raw)) {
                let is_minor = !is_long && short == ShortTexts::Spoken;
                left.push(UnheldString {
                    path: keys.join("."),
                    literal: string,
                    is_minor,
                    text: OnceCell::new(),
                });
            }
        }
    });
    left
}

/// Fields of a message's native item whose text is not part of the conversation, or repeats a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The fields, separated by spaces. Each is a path of keys from the item's root, separated by dots, and includes everything
    /// below it. If empty, the whole item is known, which is then a plain text.
    fields: &'static str,
    /// A key that an item must have for these fields to be known.
    beside: Option<&'static str>,
    /// The beginning of strings that only name a text which the reader takes from elsewhere. If it is set, there are no fields.
    refers: Option<&'static str>,
}

impl Known {
    /// Items that are plain texts. The reader takes all of each text except marks such as headings.
    pub(crate) const PLAIN_TEXT: Self = Self::fields("");

    /// Fields of every item.
    #[must_use]
    pub(crate) const fn fields(fields: &'static str) -> Self {
        Self { fields, beside: None, refers: None }
    }

    /// Fields of items that also have the key `beside`.
    #[must_use]
    pub(crate) const fn beside(beside: &'static str, fields: &'static str) -> Self {
        Self { beside: Some(beside), ..Self::fields(fields) }
    }

    /// Strings, in any field, that begin with `beginning` and name a text which the reader takes from elsewhere.
    #[must_use]
    pub(crate) const fn references(beginning: &'static str) -> Self {
        Self { refers: Some(beginning), ..Self::fields("") }
    }

    /// Whether a string literal only names a text that the reader takes from elsewhere. It must be a single word, so that it
    /// cannot contain other text.
    fn is_reference(&self, literal: &str) -> bool {
        let body = literal.trim_matches('"');
        let is_name = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.refers.is_some_and(|beginning| body.strip_prefix(beginning).is_some_and(is_name))
    }

    /// Whether a path of keys in the item `raw` leads to one of the fields, or below it.
    #[must_use]
    pub fn covers(&self, path: &[Cow<'_, str>], raw: &str) -> bool {
        let leads_to = |field: &str| {
            let mut keys = path.iter();
            field.split('.').all(|name| keys.next().is_some_and(|key| *key == name))
        };
        self.refers.is_none()
            && (self.fields.is_empty() || self.fields.split(' ').any(leads_to))
            && self.beside.is_none_or(|key| raw.contains(&format!("\"{key}\"")))
    }
}

/// Whether the name of a field says that it holds a message or the output of a tool. This runs for every short string of a file,
/// so the length alone rules out most names.
fn is_spoken(key: &str) -> bool {
    const NAMES: &[&str] = &[
        "content",
        "contents",
        "text",
        "texts",
        "message",
        "messages",
        "msg",
        "parts",
        "part",
        "body",
        "said",
        "speech",
        "utterance",
        "words",
        "prompt",
        "question",
        "query",
        "reasoning",
        "thinking",
        "thought",
        "thoughts",
        "refusal",
        "comment",
        "transcript",
        "stdout",
        "stderr",
    ];
    NAMES.iter().chain(SPEECH).any(|name| name.eq_ignore_ascii_case(key))
}

/// Whether the name of a field says that it is bookkeeping, such as a role, a time or an id.
fn is_bookkeeping(key: &str) -> bool {
    const NAMES: &str = "role type kind name model provider status mode agent version cwd path root created updated \
                         timestamp date format subtype stop_reason finish_reason";
    let key = key.to_ascii_lowercase();
    NAMES.split(' ').any(|name| name == key)
        || ["id", "time", "_at", "uuid", "model"].iter().any(|end| key.ends_with(end))
}

/// The hashes of all texts that a session holds.
struct HeldTexts {
    hasher: DefaultHashBuilder,
    texts: HashSet<u64>,
}

impl HeldTexts {
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
            match &item.what {
                Aside::Title(title) => _ = texts.insert(hasher.hash_one(title.as_str())),
                Aside::Scope(scope) => texts.extend(scope.parts().map(|part| hasher.hash_one(part))),
                _ => {}
            }
        }
        Self { hasher, texts }
    }

    fn holds(&self, text: &str) -> bool {
        self.texts.contains(&self.hasher.hash_one(text))
    }
}

/// Whether no message has content, although each has several fields.
fn is_hollow(session: &Session) -> bool {
    let fields = |message: &Message| {
        let doc = message.native.as_ref().and_then(|native| Doc::parse(native.raw.as_str()).ok());
        doc.as_ref().and_then(Doc::root).map_or(0, |root| root.fields().count())
    };
    // The item is parsed only if the message has no content, which is rare.
    let hollow =
        |message: &Message| message.blocks.is_empty() && message.form == Form::Absent && fields(message) > 1;
    !session.messages.is_empty() && session.messages.iter().all(|message| hollow(message))
}
