//! An entry as a database keeps it, in columns, before and after it was verified.

use std::ops::ControlFlow;

use rejoin_record::{Entry, EntryId, Envelope, Hash, Kind, entry::SaltedBody};

use crate::{
    scan,
    store::{Damage, Each, StoragePlace, StoredItem},
};

/// A row whose columns were read and not checked yet. Reading needs the connection; checking takes longer, and another thread can do it.
pub(crate) struct UnverifiedRow {
    pub(crate) envelope: Envelope,
    /// The possible parents, the likeliest first. The hash of the entry tells which one it is.
    pub(crate) candidates: Vec<(EntryId, Hash)>,
    pub(crate) inner: Option<Hash>,
    pub(crate) hash: Hash,
    pub(crate) content: Option<SaltedBody>,
    pub(crate) spelling: Option<String>,
}

pub(crate) fn damaged(seq: u64, why: impl Into<String>, bytes: Vec<u8>) -> Damage {
    Damage::at(StoragePlace::Row(seq), why, bytes)
}

impl UnverifiedRow {
    /// Verifies the entry: its body and its place in the chain are as they were when it was appended.
    pub(crate) fn verify(self) -> Result<VerifiedRow, Damage> {
        let Self { mut envelope, candidates, inner, hash, content, spelling } = self;
        let seq = envelope.seq;
        let inner = match (&content, inner) {
            (Some(content), _) => content.hash(),
            (None, Some(inner)) => inner,
            (None, None) => return Err(damaged(seq, "its inner hash is missing", Vec::new())),
        };
        let made = |envelope: Envelope| match &spelling {
            None => Ok(Entry::from_parts(envelope, None, inner, hash, content.clone())),
            Some(text) => respelled(text, inner, hash, content.as_ref(), &envelope)
                .map_err(|why| damaged(seq, why, text.clone().into_bytes())),
        };
        if envelope.parent.is_none() || candidates.is_empty() {
            // The hash of the body was just computed, so the hash of the entry verifies it. If the parent is lost, nothing does.
            let lost = envelope.parent.is_some();
            let entry = made(envelope)?;
            return if lost {
                Ok(VerifiedRow { entry, parent: None, proven: false })
            } else if entry.follows(None) {
                Ok(VerifiedRow { entry, parent: None, proven: true })
            } else {
                Err(changed(&entry))
            };
        }
        let mut last = None;
        for (id, parent) in candidates {
            envelope.parent = Some(id);
            match made(envelope.clone()) {
                Ok(entry) if entry.follows(Some(parent)) => {
                    return Ok(VerifiedRow { entry, parent: Some(parent), proven: true });
                }
                made => last = Some(made),
            }
        }
        Err(match last.expect("BUG: there was a candidate") {
            Ok(entry) => changed(&entry),
            Err(damage) => damage,
        })
    }
}

/// An entry that was verified as far as possible.
pub(crate) struct VerifiedRow {
    pub(crate) entry: Entry,
    /// The hash of its parent, if it is known.
    pub(crate) parent: Option<Hash>,
    /// Whether its hash proves it, which it does not if the parent is lost.
    pub(crate) proven: bool,
}

impl VerifiedRow {
    /// The doubt to report, if it is not proven.
    pub(crate) fn doubt(&self) -> Option<Damage> {
        if self.proven {
            return None;
        }
        let why = scan::unproven(self.entry.id());
        Some(damaged(self.entry.envelope().seq, why, Vec::new()))
    }
}

fn changed(entry: &Entry) -> Damage {
    let why = format!("entry {} is not what it was when it was appended", entry.id());
    damaged(entry.envelope().seq, why, entry.to_line().into_bytes())
}

/// Restores an entry whose envelope has fields that this version would not write.
fn respelled(
    text: &str,
    inner: Hash,
    hash: Hash,
    content: Option<&SaltedBody>,
    columns: &Envelope,
) -> Result<Entry, String> {
    let body = content.map_or_else(String::new, |content| {
        let name = if columns.kind == Kind::Header { "metadata" } else { "body" };
        format!(",\"salt\":\"{}\",\"{name}\":{}", content.salt, content.body.as_str())
    });
    let line = format!("{{{text},\"inner\":\"{inner}\",\"hash\":\"{hash}\"{body}}}");
    let entry = Entry::from_line(&line).map_err(|error| error.to_string())?;
    let same = (entry.id(), entry.envelope().seq, entry.envelope().parent)
        == (columns.id, columns.seq, columns.parent);
    if same { Ok(entry) } else { Err(String::from("its envelope and its columns differ")) }
}

/// Hands out the rows of a conversation in order, with a damage item for each row that is missing or invalid.
pub(crate) struct InOrder<'e> {
    /// The `seq` of the row that should come next.
    pub(crate) next: u64,
    each: Each<'e>,
    /// Whether the caller has had enough.
    pub(crate) stopped: bool,
}

impl<'e> InOrder<'e> {
    pub(crate) fn from(next: u64, each: Each<'e>) -> Self {
        Self { next, each, stopped: false }
    }

    /// Hands out a row, after the rows that are missing before it.
    pub(crate) fn hand(&mut self, seq: u64, row: Result<UnverifiedRow, Damage>) -> ControlFlow<()> {
        self.skip_to(seq)?;
        match row.and_then(UnverifiedRow::verify) {
            Err(damage) => self.give(StoredItem::Damage(damage))?,
            Ok(verified) => {
                let doubt = verified.doubt();
                self.give(StoredItem::Entry(verified.entry))?;
                doubt.map_or(ControlFlow::Continue(()), |doubt| self.give(StoredItem::Damage(doubt)))?;
            }
        }
        self.next = seq + 1;
        ControlFlow::Continue(())
    }

    /// Reports the rows before this one that did not come.
    pub(crate) fn skip_to(&mut self, seq: u64) -> ControlFlow<()> {
        if seq > self.next {
            self.give(StoredItem::Damage(lost(self.next, seq - 1)))?;
        }
        self.next = seq;
        ControlFlow::Continue(())
    }

    fn give(&mut self, item: StoredItem) -> ControlFlow<()> {
        let flow = (self.each)(item);
        self.stopped |= flow.is_break();
        flow
    }
}

/// The damage that is handed out in place of lost entries.
pub(crate) fn lost(first: u64, last: u64) -> Damage {
    let why = if first == last {
        String::from("the entry is lost")
    } else {
        format!("the entries up to number {last} are lost")
    };
    Damage::at(StoragePlace::Row(first), why, Vec::new())
}
