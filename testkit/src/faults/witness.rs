//! A store that reports every operation and acknowledgement, and a ledger of these reports.
//!
//! All writes go through the store, so the operations of any program (turns, imports, forks, copies) are reported without knowing
//! how it works. A line names a number, and `@did` or `@not` reports its outcome:
//!
//! ```text
//! @op fork                                  what the program is doing, in its own words
//! @append 7 conv_x 0:<id>:<hash> 1:…        entries that are handed over together
//! @erase 8 conv_x <entry> 5:<id>:<hash> …   content that goes, and the notes about it
//! @delete 9 conv_x
//! @did 7
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use rejoin_store::{
    Damage, Drafts, EachProblem, Erasure, Hit, Holder, Location, Lock, OnItem, Page, ProgressHook, Query,
    Search, Size, Store, StoreError, StoreResult, Summary, Verified,
};

use super::{
    child::{ChildOutput, say},
    model::{Model, PIECES, verified},
};

/// A store that reports its operations.
#[derive(Debug)]
pub struct Witness {
    store: Box<dyn Store>,
    number: AtomicU64,
}

impl Witness {
    /// A witness of a store.
    #[must_use]
    pub fn new(store: Box<dyn Store>) -> Self {
        Self { store, number: AtomicU64::new(1) }
    }

    fn told<T>(
        &self,
        what: impl FnOnce(u64) -> String,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        say(format_args!("{}", what(number)));
        let done = work();
        match &done {
            Ok(_) => say(format_args!("did {number}")),
            Err(why) => say(format_args!("not {number} {why}")),
        }
        done
    }
}

fn named(entry: &Entry) -> String {
    // A copy passes on entries that were erased before.
    let erased = if entry.content().is_none() { ":erased" } else { "" };
    format!(" {}:{}:{}{erased}", entry.envelope().seq, entry.id(), entry.hash())
}

impl Store for Witness {
    fn location(&self) -> &Location {
        self.store.location()
    }

    fn digester(&self) -> rejoin_store::Digester {
        self.store.digester()
    }
    fn read_only(&self) -> Option<&str> {
        self.store.read_only()
    }
    fn tail(&self, conversation: ConversationId) -> Result<Option<Tail>, StoreError> {
        self.store.tail(conversation)
    }
    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        let names: String = entries.iter().map(named).collect();
        self.told(|number| format!("append {number} {id}{names}"), || self.store.append(id, after, entries))
    }
    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> Result<(), StoreError> {
        self.store.read(conversation, from, each)
    }
    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.store.list(query)
    }
    fn summary(&self, conversation: ConversationId) -> Result<Summary, StoreError> {
        self.store.summary(conversation)
    }
    fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<ConversationId>, StoreError> {
        self.store.ids(prefix, limit)
    }
    fn search(&self, search: &Search) -> Result<Vec<Hit>, StoreError> {
        self.store.search(search)
    }
    fn lock(&self, conversation: ConversationId, holder: &Holder) -> Result<Lock, StoreError> {
        self.store.lock(conversation, holder)
    }
    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        let names: String = erasures.iter().map(|(entry, note)| format!(" {entry}{}", named(note))).collect();
        self.told(
            |number| format!("erase {number} {id}{names}"),
            || self.store.erase_all(id, after, erasures),
        )
    }
    fn on_progress(&self, hook: ProgressHook) {
        self.store.on_progress(hook);
    }
    fn delete(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.told(|number| format!("delete {number} {conversation}"), || self.store.delete(conversation))
    }
    fn set_aside(
        &self,
        conversation: ConversationId,
        damage: &Damage,
    ) -> Result<Option<PathBuf>, StoreError> {
        self.store.set_aside(conversation, damage)
    }
    fn drafts(&self) -> Option<&Drafts> {
        self.store.drafts()
    }
    fn verify(
        &self,
        conversation: Option<ConversationId>,
        each: EachProblem<'_>,
    ) -> Result<Verified, StoreError> {
        self.store.verify(conversation, each)
    }
    fn size(&self) -> Result<Size, StoreError> {
        self.store.size()
    }
    fn settle(&self) -> Result<(), StoreError> {
        self.store.settle()
    }
    fn rebuild(&self) -> Result<(), StoreError> {
        self.store.rebuild()
    }
}

/// The reports about a whole store.
#[derive(Debug, Default, Clone)]
pub struct Ledger {
    conversations: BTreeMap<ConversationId, Account>,
    /// Operations without an outcome.
    open: HashMap<String, Asked>,
    /// The program's last operation.
    doing: String,
    /// How often something was acknowledged.
    acknowledged: u64,
    /// Operations that a store refused, or performed although it must not.
    refused: Vec<String>,
}

#[derive(Debug, Default, Clone)]
struct Account {
    model: Model,
    /// The entries of a fork, which must be complete or absent.
    whole: Vec<(u64, EntryId, Hash)>,
    deleting: bool,
    deleted: bool,
}

#[derive(Debug, Clone)]
enum Asked {
    Append(ConversationId, Vec<(u64, EntryId, Hash)>),
    Erase(ConversationId, Vec<EntryId>, Vec<(u64, EntryId, Hash)>),
    Delete(ConversationId),
}

impl Ledger {
    /// Takes in the reports of a witness. Operations without an outcome stay unknown.
    pub fn hear(&mut self, said: &ChildOutput) {
        for line in &said.lines {
            self.hear_line(line);
        }
        self.open.clear();
    }

    /// Takes in one line.
    pub fn hear_line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(what), Some(number)) = (words.next(), words.next()) else { return };
        let asked = match what {
            "@op" => {
                number.clone_into(&mut self.doing);
                return;
            }
            "@did" => return self.done(number),
            "@not" => return self.refused.push(format!("{}: {line}", self.doing)),
            "@append" | "@erase" | "@delete" => self.asked(what, &mut words),
            _ => return,
        };
        if let Some(asked) = asked {
            self.open.insert(number.to_owned(), asked);
        }
    }

    fn asked<'l>(&mut self, what: &str, words: &mut impl Iterator<Item = &'l str>) -> Option<Asked> {
        let id: ConversationId = words.next()?.parse().ok()?;
        let account = self.conversations.entry(id).or_default();
        Some(match what {
            "@append" => {
                let words: Vec<&str> = words.collect();
                let entries: Vec<_> = words.iter().filter_map(|word| entry(word)).collect();
                let begins = entries.first().is_some_and(|(seq, _, _)| *seq == 0);
                if begins && account.deleted {
                    *account = Account::default();
                }
                if begins && self.doing == "fork" {
                    account.whole.clone_from(&entries);
                }
                account.model.try_entries(&entries);
                let erased =
                    words.iter().filter(|word| word.ends_with(":erased")).filter_map(|word| entry(word));
                erased.for_each(|(_, id, _)| account.model.begin_erased(id));
                Asked::Append(id, entries)
            }
            "@erase" => {
                let words: Vec<&str> = words.collect();
                let erased: Vec<EntryId> = words.iter().filter_map(|word| word.parse().ok()).collect();
                let notes: Vec<_> = words.iter().filter_map(|word| entry(word)).collect();
                account.model.try_entries(&notes);
                erased.iter().for_each(|erased| account.model.try_erasing(*erased));
                Asked::Erase(id, erased, notes)
            }
            _ => {
                account.deleting = true;
                Asked::Delete(id)
            }
        })
    }

    fn done(&mut self, number: &str) {
        let Some(asked) = self.open.remove(number) else { return };
        self.acknowledged += 1;
        match asked {
            Asked::Append(id, entries) => {
                self.conversations.entry(id).or_default().model.acknowledge(&entries);
            }
            Asked::Erase(id, erased, notes) => {
                let account = self.conversations.entry(id).or_default();
                account.model.acknowledge(&notes);
                erased.iter().for_each(|erased| account.model.acknowledge_erasing(*erased));
            }
            Asked::Delete(id) => {
                let account = self.conversations.entry(id).or_default();
                (account.deleted, account.deleting) = (true, false);
            }
        }
    }

    /// The program's last operation.
    #[must_use]
    pub fn doing(&self) -> &str {
        &self.doing
    }

    /// How often something was acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Operations that a store refused without a reason.
    #[must_use]
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Compares a store with its writers' acknowledgements, in every way that it can be read. Returns the faults; each begins with
    /// its kind and a colon.
    #[must_use]
    pub fn check(&self, store: &dyn Store) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, account) in &self.conversations {
            let there = match store.tail(*id) {
                Ok(tail) => tail.is_some(),
                Err(why) => {
                    wrong.push(format!("cannot be read: {id}: {why}"));
                    continue;
                }
            };
            if account.deleted && there {
                wrong.push(format!("deleted and there: {id}"));
                continue;
            }
            if !there && (account.deleted || account.deleting) {
                continue;
            }
            match account.model.check(store, *id) {
                Ok(entries) => {
                    let count = account
                        .whole
                        .iter()
                        .filter(|(_, id, _)| entries.iter().any(|entry| entry.id() == *id));
                    let count = count.count();
                    if count != 0 && count != account.whole.len() {
                        wrong.push(format!("half a fork: {id}: {count} of {} entries", account.whole.len()));
                    }
                }
                Err(why) if why.starts_with(PIECES) => {
                    wrong.push(format!("pieces of an unfinished append: {id}: {why}"));
                }
                Err(why) if why.starts_with("verify finds") => {
                    wrong.push(format!("false alarm: {id}: {why}"))
                }
                Err(why) => wrong.push(format!("not what was promised: {id}: {why}")),
            }
        }
        match store.ids("", usize::MAX) {
            Ok(ids) => {
                let strangers = ids.iter().filter(|id| !self.conversations.contains_key(id));
                wrong.extend(strangers.map(|id| format!("this conversation was never created: {id}")));
            }
            Err(why) => wrong.push(format!("cannot be read: its ids: {why}")),
        }
        if let Err(why) = verified(store, None) {
            wrong.push(format!("false alarm: {why}"));
        }
        if let Err(why) = store.search(&Search { words: String::from("file"), limit: 3, ..Search::default() })
        {
            wrong.push(format!("cannot be searched: {why}"));
        }
        wrong
    }

    /// Takes the current content of a store as the outcome of writes without one. The next writer continues from there.
    pub fn settle(&mut self, store: &dyn Store) {
        for (id, account) in &mut self.conversations {
            if account.deleting {
                account.deleted = matches!(store.tail(*id), Ok(None));
                account.deleting = false;
            }
        }
    }
}

fn entry(text: &str) -> Option<(u64, EntryId, Hash)> {
    let mut parts = text.split(':');
    let (seq, id, hash) = (parts.next()?, parts.next()?, parts.next()?);
    Some((seq.parse().ok()?, id.parse().ok()?, hash.parse().ok()?))
}
