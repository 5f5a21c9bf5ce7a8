//! Reads a conversation from a store: every entry, the damage, and the session along the path to its head.

use std::ops::ControlFlow;

use rejoin_formats::{
    Session,
    session::SourcePlace,
    sessions::jsonl::{self, Damaged},
};
use rejoin_record::{ConversationId, Entry, Kind, Text};
use rejoin_store::{Damage, Location, StoragePlace, Store, StoreError, StoredItem};
use rejoin_view::{Finding, Rule};

use crate::{draft, error::EngineError};

/// How reading treats damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Skip it and report it.
    #[default]
    Recover,
    /// Fail.
    Strict,
}

/// A conversation as it was read.
#[derive(Debug)]
pub struct Recorded {
    /// The conversation's id.
    pub id: ConversationId,
    /// Every readable entry, in the order of appending. Entries of a draft come last.
    pub entries: Vec<Entry>,
    /// The number of entries that come from the draft of an answer which a kill cut off. The next writer stores them.
    pub drafted: usize,
    /// The places that cannot be read.
    pub damage: Vec<Damage>,
    /// The messages on the path to the head, and the findings of reading.
    pub session: Session,
}

/// Reads a conversation.
///
/// # Errors
/// If it does not exist; in strict mode, also if it is damaged or empty. A torn tail is reported but does not count as damage,
/// because it was never acknowledged.
pub fn read(store: &dyn Store, id: ConversationId, mode: Mode) -> Result<Recorded, EngineError> {
    read_after(store, id, mode, Vec::new())
}

/// Reads a conversation after an earlier attempt that found this damage: a store that mends itself reports some damage only once.
pub(crate) fn read_after(
    store: &dyn Store,
    id: ConversationId,
    mode: Mode,
    found_before: Vec<Damage>,
) -> Result<Recorded, EngineError> {
    let (mut entries, mut damage, mut line) = (Vec::new(), Vec::new(), 0);
    let read = draft::read(store, id, &mut |item| {
        line += 1;
        match item {
            StoredItem::Entry(entry) => entries.push((entry, line)),
            StoredItem::Damage(found) => {
                // Damage carries its own line number, because blank lines before it were skipped.
                line = line_of(found.place).unwrap_or(line - 1);
                damage.push(found);
            }
        }
        ControlFlow::Continue(())
    });
    let drafted = read.map_err(|error| match error {
        StoreError::NotFound(_) => EngineError::Store(error),
        error => EngineError::Load(error),
    })?;
    damage.extend(found_before.into_iter().filter(|found| !damage.contains(found)).collect::<Vec<_>>());
    let numbering = Numbering::of(store.location());
    let session = session(id, entries.iter().map(|(entry, line)| (entry, *line)), &damage, numbering);
    if mode == Mode::Strict {
        first_problem(id, &session, &damage, numbering)?;
        let said = |entry: &Entry| matches!(entry.envelope().kind, Kind::Message | Kind::Compacted);
        if !entries.iter().any(|(entry, _)| said(entry)) {
            return Err(EngineError::Empty(id));
        }
    }
    let session = numbering.name(session);
    let mut entries: Vec<Entry> = entries.into_iter().map(|(entry, _)| entry).collect();
    // Give spare memory back: the list lives as long as the conversation.
    entries.shrink_to_fit();
    Ok(Recorded { id, entries, drafted, damage, session })
}

/// A place as a number from 1.
fn line_of(place: StoragePlace) -> Option<usize> {
    match place {
        StoragePlace::Line(line) => usize::try_from(line).ok(),
        StoragePlace::Row(row) => usize::try_from(row).ok()?.checked_add(1),
        StoragePlace::Store => None,
    }
}

/// How places in a store are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// By the lines of a file, from 1.
    Lines,
    /// By rows, from 0: a table has no lines.
    Rows,
}

impl Numbering {
    pub(crate) fn of(location: &Location) -> Self {
        if matches!(location, Location::Jsonl(_)) { Self::Lines } else { Self::Rows }
    }

    fn place(self, line: usize) -> StoragePlace {
        match self {
            Self::Lines => StoragePlace::Line(line as u64),
            Self::Rows => StoragePlace::Row(line.saturating_sub(1) as u64),
        }
    }

    /// Renumbers a session's places in the form that the store shows to people.
    pub(crate) fn name(self, mut session: Session) -> Session {
        if self == Self::Lines {
            return session;
        }
        for finding in &mut session.findings {
            if let Some(line) = finding.at.line.take() {
                let row = Text::from(self.place(line).to_string());
                finding.subject = Some(match &finding.subject {
                    Some(subject) => Text::from(format!("{row}, {subject}")),
                    None => row,
                });
            }
        }
        for (number, place) in session.places.iter_mut().enumerate() {
            *place = SourcePlace { index: number, line: None, ..*place };
        }
        session
    }
}

/// The session of these entries, with places as lines from 1.
pub(crate) fn session<'e>(
    id: ConversationId,
    entries: impl Iterator<Item = (&'e Entry, usize)>,
    damage: &[Damage],
    numbering: Numbering,
) -> Session {
    let line = |(entry, line): (&Entry, usize)| match numbering {
        Numbering::Lines => line,
        Numbering::Rows => usize::try_from(entry.envelope().seq).unwrap_or(usize::MAX - 1).saturating_add(1),
    };
    let entries = entries.map(|entry| (entry.0.clone(), line(entry)));
    let damaged = damage.iter().map(|damage| Damaged {
        line: line_of(damage.place),
        why: damage.why.clone(),
        text: Text::from(String::from_utf8_lossy(&damage.bytes).into_owned()),
        torn: damage.torn,
    });
    jsonl::session_of(id, entries, damaged.collect())
}

/// Fails at the first place that differs from the written data.
fn first_problem(
    id: ConversationId,
    session: &Session,
    damage: &[Damage],
    numbering: Numbering,
) -> Result<(), EngineError> {
    let of_storage = |finding: &&Finding| {
        matches!(finding.rule, Rule::DamagedEntry | Rule::BrokenChain) && finding.is_problem()
    };
    let found = session.findings.iter().filter(of_storage).map(|finding| {
        let place = finding.at.line.map_or(StoragePlace::Store, |line| numbering.place(line));
        (finding.at.line.unwrap_or(usize::MAX), place, finding.to_string())
    });
    let damaged = damage.iter().filter(|damage| !damage.torn);
    let damaged =
        damaged.map(|damage| (line_of(damage.place).unwrap_or(usize::MAX), damage.place, damage.why.clone()));
    // At the same place, the store's own report comes before findings that follow from it.
    match damaged.chain(found).min_by_key(|(line, _, _)| *line) {
        Some((_, place, why)) => Err(EngineError::Corrupted { id, place, why }),
        None => Ok(()),
    }
}
