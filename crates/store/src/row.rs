//! An entry in the columns of a database, before and after it was verified.

use std::ops::ControlFlow;

use rejoin_record::{Entry, EntryId, Envelope, Hash, Kind, entry::SaltedBody};

use crate::{
    scan,
    store::{Damage, OnItem, StoragePlace, StoredItem},
};

/// A row whose columns were read but not verified. Reading needs the connection; verifying takes longer, and another thread can do
/// it.
pub(crate) struct UnverifiedRow {
    pub(crate) envelope: Envelope,
    /// The possible parents, the most likely first. The hash of the entry decides which one it is.
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
    /// Verifies that the body of the entry and its place in the chain are unchanged since it was appended.
    pub(crate) fn verify(mut self) -> Result<VerifiedRow, Damage> {
        self.inner = self.content.as_ref().map(SaltedBody::hash).or(self.inner);
        self.verify_with(None)
    }

    /// Verifies several rows, which takes less time than one after the other. Returns the results in order.
    pub(crate) fn verify_each(rows: &mut Vec<Self>) -> Vec<Result<VerifiedRow, Damage>> {
        let bodies = SaltedBody::hash_each(rows.iter().filter_map(|row| row.content.as_ref()));
        let whole = rows.iter_mut().filter(|row| row.content.is_some());
        whole.zip(bodies).for_each(|(row, inner)| row.inner = Some(inner));
        for row in rows.iter_mut() {
            row.envelope.parent = row.candidates.first().map(|(id, _)| *id).or(row.envelope.parent);
        }
        let links = rows.iter().map(|row| {
            let parent = row.candidates.first().map(|(_, hash)| *hash);
            (&row.envelope, parent, row.inner.unwrap_or(row.hash))
        });
        let likely = Entry::chain_hashes(links);
        rows.drain(..).zip(likely).map(|(row, likely)| row.verify_with(Some(likely))).collect()
    }

    /// Verifies a row whose body was hashed. If `likely` is the hash of the entry with its first candidate, it is not computed again.
    fn verify_with(self, likely: Option<Hash>) -> Result<VerifiedRow, Damage> {
        let Self { mut envelope, candidates, inner, hash, content, spelling } = self;
        let seq = envelope.seq;
        let Some(inner) = inner else {
            return Err(damaged(seq, "its inner hash is missing", Vec::new()));
        };
        let is_likely = spelling.is_none() && likely == Some(hash);
        let made = |envelope: Envelope| match &spelling {
            None => Ok(Entry::from_parts(envelope, None, inner, hash, content.clone())),
            Some(text) => respelled(text, inner, hash, content.as_ref(), &envelope)
                .map_err(|why| damaged(seq, why, text.clone().into_bytes())),
        };
        if envelope.parent.is_none() || candidates.is_empty() {
            // The hash of the body was just computed, so the hash of the entry verifies it. If the parent is lost, nothing verifies
            // it.
            let lost = envelope.parent.is_some();
            let entry = made(envelope)?;
            return if lost {
                Ok(VerifiedRow { entry, parent: None, proven: false })
            } else if is_likely || entry.follows(None) {
                Ok(VerifiedRow { entry, parent: None, proven: true })
            } else {
                Err(changed(&entry))
            };
        }
        let mut last = None;
        for (place, (id, parent)) in candidates.into_iter().enumerate() {
            envelope.parent = Some(id);
            match made(envelope.clone()) {
                Ok(entry) if (is_likely && place == 0) || entry.follows(Some(parent)) => {
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
    /// Whether its hash verifies it. It cannot if the parent is lost.
    pub(crate) proven: bool,
}

impl VerifiedRow {
    /// The doubt to report, if it is not verified.
    pub(crate) fn doubt(&self) -> Option<Damage> {
        if self.proven {
            return None;
        }
        let why = scan::unproven(self.entry.id());
        Some(damaged(self.entry.envelope().seq, why, Vec::new()))
    }
}

fn changed(entry: &Entry) -> Damage {
    let why = format!("entry {} has changed since it was appended", entry.id());
    damaged(entry.envelope().seq, why, entry.to_line().into_bytes())
}

/// Restores an entry whose envelope has a spelling that this version would not write.
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

/// Returns the rows of a conversation in order, with a damage item for each row that is missing or invalid. Rows are verified several
/// at a time.
pub(crate) struct InOrder<'e> {
    /// The `seq` of the next expected row.
    pub(crate) next: u64,
    each: OnItem<'e>,
    /// Whether the caller asked to stop.
    pub(crate) stopped: bool,
    /// The rows that wait to be verified, with their `seq`.
    waiting: Vec<(u64, Result<UnverifiedRow, Damage>)>,
    /// The bytes of their bodies.
    bytes: usize,
    /// How many rows may wait.
    most: usize,
}

/// The most rows that wait, and the most bytes of their bodies.
const MOST_WAITING: usize = 64;
const MOST_BYTES: usize = 1 << 20;

impl<'e> InOrder<'e> {
    /// For rows that are read one by one. A caller that stops after a few rows does not wait for many.
    pub(crate) fn from(next: u64, each: OnItem<'e>) -> Self {
        Self { next, each, stopped: false, waiting: Vec::new(), bytes: 0, most: 1 }
    }

    /// For rows that arrive in pages.
    #[cfg(feature = "postgres")]
    pub(crate) fn in_pages(next: u64, each: OnItem<'e>) -> Self {
        Self { most: MOST_WAITING, ..Self::from(next, each) }
    }

    /// Takes the next row. The caller must finally call [`InOrder::flush`].
    pub(crate) fn hand(&mut self, seq: u64, row: Result<UnverifiedRow, Damage>) -> ControlFlow<()> {
        let content = row.as_ref().ok().and_then(|row| row.content.as_ref());
        self.bytes += content.map_or(0, |content| content.body.as_str().len());
        self.waiting.push((seq, row));
        if self.waiting.len() < self.most && self.bytes < MOST_BYTES {
            return ControlFlow::Continue(());
        }
        self.most = (self.most * 2).min(MOST_WAITING);
        self.flush()
    }

    /// Passes the waiting rows to the caller, after reports about missing rows before them.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let mut sound = Vec::with_capacity(waiting.len());
        let mut damage = Vec::with_capacity(waiting.len());
        for (seq, row) in waiting {
            damage.push((seq, row.map(|row| sound.push(row)).err()));
        }
        let mut verified = UnverifiedRow::verify_each(&mut sound).into_iter();
        for (seq, damage) in damage {
            self.report_missing(seq)?;
            let row = match damage {
                Some(damage) => Err(damage),
                None => verified.next().expect("BUG: every row was verified"),
            };
            match row {
                Err(damage) => self.give(StoredItem::Damage(damage))?,
                Ok(verified) => {
                    let doubt = verified.doubt();
                    self.give(StoredItem::Entry(verified.entry))?;
                    doubt.map_or(ControlFlow::Continue(()), |doubt| self.give(StoredItem::Damage(doubt)))?;
                }
            }
            self.next = seq + 1;
        }
        ControlFlow::Continue(())
    }

    /// Passes the waiting rows to the caller, and reports missing rows before this one.
    pub(crate) fn skip_to(&mut self, seq: u64) -> ControlFlow<()> {
        self.flush()?;
        self.report_missing(seq)
    }

    fn report_missing(&mut self, seq: u64) -> ControlFlow<()> {
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

/// The damage to report for lost entries.
pub(crate) fn lost(first: u64, last: u64) -> Damage {
    let why = if first == last {
        String::from("the entry is lost")
    } else {
        format!("the entries up to number {last} are lost")
    };
    Damage::at(StoragePlace::Row(first), why, Vec::new())
}
