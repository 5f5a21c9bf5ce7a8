//! What each agent needs in a session to open it, one row per agent. Without it the agent stops before it sends a request,
//! although rejoin can read the conversation.
//!
//! The table holds only what was observed with the real program, with its version; `docs/peers.md` says what was tried. A row is
//! about the file that is read, so readers need no code for it. Codex is the exception: only its reader sees the fields of the
//! first line.

#[cfg(feature = "sqlite")]
use std::collections::HashSet;

#[cfg(feature = "sqlite")]
use rejoin_record::ConversationId;
use rejoin_record::{
    Message,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};

#[cfg(feature = "sqlite")]
use super::database::Database;
#[cfg(feature = "sqlite")]
use crate::session::derive_id;
use crate::session::{Aside, Session, SourcePlace};

/// What the agent of a format needs.
struct Need {
    format: &'static str,
    what: Needed,
    /// What is missing, for a person.
    why: &'static str,
}

/// Where it must be.
enum Needed {
    /// The first line that is JSON must be of a type and have a field.
    FirstLine { kind: &'static str, field: &'static str },
    /// These fields must be somewhere outside of the messages, in a file of lines or in a document.
    AroundMessages { in_lines: &'static [&'static str], in_document: &'static [&'static str] },
    /// The line of the last message on the path must have a field.
    LastMessage { field: &'static str },
    /// A table must have a row for the conversation. The first pair is the table and column with the id of each conversation,
    /// the second the table and column that must have it too.
    #[cfg(feature = "sqlite")]
    Row { each: (&'static str, &'static str), has: (&'static str, &'static str) },
}

const NEEDS: &[Need] = &[
    // Seen with 2.1.325: "No conversation found". A time in another line does not help, and no other line needs one.
    Need {
        format: "claude-code",
        what: Needed::LastMessage { field: "timestamp" },
        why: "the line of the last message has no `timestamp`, so Claude Code finds no conversation in the file",
    },
    // Seen with 0.61.0: "No previous sessions found". A header at the end or in a `$set` is as good; a document needs less.
    Need {
        format: "gemini-cli",
        what: Needed::AroundMessages { in_lines: &["sessionId", "projectHash"], in_document: &["sessionId"] },
        why: "no line has the `sessionId` and the `projectHash`, so Gemini CLI does not find the session",
    },
    // Seen with 0.87.1: "Session file is not a valid pi session".
    Need {
        format: "pi",
        what: Needed::FirstLine { kind: "session", field: "id" },
        why: "it does not begin with a line of the type `session` that has an `id`",
    },
    // Seen with 0.36: "No conversation found". Threads and turns came with the same version.
    #[cfg(feature = "sqlite")]
    Need {
        format: "llm",
        what: Needed::Row { each: ("threads", "id"), has: ("turns", "thread_id") },
        why: "no row of `turns` belongs to the thread, so llm finds no conversation",
    },
];

/// The finding that an agent would refuse to open a session.
pub(super) fn refused(at: Position, why: impl Into<String>) -> Finding {
    Finding::new(Rule::CannotBeOpened, at, Action::Kept).because(why.into())
}

/// Reports the sessions of a file that their agent would refuse to open.
pub(super) fn check(sessions: &mut [Session]) {
    for session in sessions {
        for need in NEEDS.iter().filter(|need| need.format == session.format) {
            if let Some(at) = need.what.missing(session) {
                session.findings.push(refused(at, need.why));
            }
        }
    }
}

/// The same for the sessions of a database. Of one that is too damaged to tell, nothing is said.
#[cfg(feature = "sqlite")]
pub(super) fn check_database(database: &Database, sessions: &mut [Session]) {
    for need in NEEDS {
        let Needed::Row { each: (table, id), has: (other, column) } = need.what else { continue };
        let concerned = sessions.iter().any(|session| session.format == need.format);
        if !concerned || !database.has(table, &[id]) {
            continue;
        }
        let without = match database.tables().get(other) {
            None => String::new(),
            Some(_) if database.has(other, &[column]) => {
                format!(" WHERE {id} NOT IN (SELECT {column} FROM {other} WHERE {column} NOT NULL)")
            }
            // A table of that name with other columns is that of another version.
            Some(_) => continue,
        };
        let rows = database.rows(&format!("SELECT {id} FROM {table}{without}"), []).unwrap_or_default();
        let own =
            |id: Option<String>| derive_id(need.format, Some(&id.unwrap_or_default()), database.name(), None);
        let lacking: HashSet<ConversationId> = rows.into_iter().map(|[id]| own(id)).collect();
        for session in sessions.iter_mut().filter(|session| lacking.contains(&session.id)) {
            session.findings.push(refused(Position::default(), need.why));
        }
    }
}

impl Needed {
    /// Where it is missing in a session.
    fn missing(&self, session: &Session) -> Option<Position> {
        match self {
            Self::FirstLine { kind, field } => {
                let (place, is_it) =
                    first_line(session, |root| root.says("type", kind) && root.given(field).is_some())?;
                (!is_it).then(|| Position { line: place.line, ..Position::default() })
            }
            Self::AroundMessages { in_lines, in_document } => {
                let is_document = session.places.iter().all(|place| place.line.is_none());
                let fields = if is_document { in_document } else { in_lines };
                let around = || session.set_aside.iter().filter_map(|item| item.raw());
                let has = |field: &&str| around().any(|text| text.contains(&format!("\"{field}\"")));
                (!fields.iter().all(has)).then(Position::default)
            }
            Self::LastMessage { field } => {
                let last = session.messages.len().checked_sub(1)?;
                let has = has_field(&session.messages[last], field)?;
                (!has).then(|| session.source_position(Position::message(last)))
            }
            #[cfg(feature = "sqlite")]
            Self::Row { .. } => None,
        }
    }
}

/// The place of the first line that is an object, and whether it is as it should be. None for what is no file of lines.
fn first_line(session: &Session, is_it: impl Fn(Value<'_>) -> bool) -> Option<(SourcePlace, bool)> {
    let said = session
        .messages
        .iter()
        .zip(&session.places)
        .filter_map(|(message, place)| Some((*place, message.native.as_ref()?.raw.as_str())));
    let aside = session.set_aside.iter().filter_map(|item| match (item.raw(), &item.what) {
        (Some(text), _) => Some((item.place, text.as_str())),
        (None, Aside::Hidden(message, _)) => Some((item.place, message.native.as_ref()?.raw.as_str())),
        _ => None,
    });
    let mut lines: Vec<(SourcePlace, &str)> =
        said.chain(aside).filter(|(place, _)| place.line.is_some()).collect();
    lines.sort_by_key(|(place, _)| place.offset);
    lines.into_iter().find_map(|(place, text)| {
        let doc = Doc::parse(text).ok()?;
        let root = doc.root().filter(|root| root.kind() == ValueKind::Object)?;
        Some((place, is_it(root)))
    })
}

/// Whether the last line of a message has a field. None if it is not known.
fn has_field(message: &Message, field: &str) -> Option<bool> {
    let native = message.native.as_ref()?;
    let raw = native.raw.as_str();
    // Items are parts of lines: where there are several, the last line is not known by itself.
    let doc = Doc::parse(raw).ok().filter(|_| native.items.len() <= 1);
    let Some(root) = doc.as_ref().and_then(Doc::root) else {
        return Some(raw.contains(&format!("\"{field}\"")));
    };
    Some(root.given(field).is_some())
}
