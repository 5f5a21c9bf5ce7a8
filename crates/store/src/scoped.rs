//! A handle to a store that sees only the conversations of one scope.
//!
//! A conversation of another scope does not exist for this handle: it is not listed, found or read, and can be neither locked nor
//! written. Conversations that the handle begins belong to its scope, and it cannot give them away. Facts about the whole store
//! (its damage, its size) are reported only for the scope's own entries.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use rejoin_record::{ConversationId, Entry, EntryId, Kind, Scope, Tail};

use crate::{
    digest::Digester,
    drafts::Drafts,
    error::{StoreError, StoreResult},
    location::Location,
    lock::{Holder, Lock, guard},
    scope::ScopeFilter,
    spool::Spool,
    store::{
        Damage, EachProblem, EnableOutcome, Erasure, Hit, OnItem, OnPiece, Page, PartRead, ProgressHook,
        Query, Search, Selection, Size, Store, StoreOption, StoredItem, Verified,
    },
    summary::Summary,
};

/// How many conversations a handle remembers as members of its scope.
const REMEMBERED: usize = 4096;

/// Decides whether a handle may use the files of a conversation next to the store.
pub(crate) type AllowsConversation = Arc<dyn Fn(ConversationId) -> bool + Send + Sync>;

/// The conversations whose files a handle may use. Every added function must allow it.
#[derive(Clone, Default)]
pub(crate) struct Allowed(Vec<AllowsConversation>);

impl Allowed {
    pub(crate) fn and(mut self, allows: AllowsConversation) -> Self {
        self.0.push(allows);
        self
    }

    pub(crate) fn check(&self, id: ConversationId) -> StoreResult<()> {
        if self.0.iter().all(|allows| allows(id)) { Ok(()) } else { Err(StoreError::NotFound(id)) }
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "all" } else { "some" })
    }
}

/// A store, limited to a scope.
pub struct Scoped {
    inner: Arc<Inner>,
    drafts: Option<Drafts>,
    spool: Option<Spool>,
}

struct Inner {
    store: Arc<dyn Store>,
    scope: ScopeFilter,
    /// Conversations that were found to be in the scope, with the newest entry at that time. Only an entry can change a scope, so
    /// an append after that entry succeeds only if the conversation is still in the scope. `None` for one that this handle begins.
    own: Mutex<HashMap<ConversationId, Option<Tail>>>,
}

impl fmt::Debug for Scoped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped").field("scope", &self.inner.scope).field("store", &self.inner.store).finish()
    }
}

impl Inner {
    /// Checks that a conversation is in the scope.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not, as if the conversation did not exist.
    fn check(&self, id: ConversationId) -> StoreResult<Summary> {
        let summary = self.store.summary(id)?;
        if !self.scope.admits(&summary.scope) {
            guard(&self.own).remove(&id);
            return Err(StoreError::NotFound(id));
        }
        if let Some(tail) = summary.tail {
            self.remember(id, Some(tail));
        }
        Ok(summary)
    }

    fn remember(&self, id: ConversationId, tail: Option<Tail>) {
        let mut own = guard(&self.own);
        if own.len() >= REMEMBERED {
            own.clear();
        }
        own.insert(id, tail);
    }

    /// Checks that a conversation is in the scope or does not exist yet.
    fn check_free(&self, id: ConversationId) -> StoreResult<()> {
        match self.check(id) {
            Err(StoreError::NotFound(_)) if self.store.tail(id)?.is_none() => Ok(()),
            checked => checked.map(drop),
        }
    }

    /// Whether entries of a conversation may wait in a file. While the server is unreachable, its last answer counts.
    fn may_wait(&self, id: ConversationId) -> bool {
        match self.check(id) {
            Err(StoreError::NotFound(_)) => guard(&self.own).get(&id) == Some(&None),
            Err(_) => guard(&self.own).contains_key(&id),
            Ok(_) => true,
        }
    }

    /// The scopes that entries set. Only entries that can set one are parsed.
    fn named(&self, entries: &[Entry]) -> Vec<Scope> {
        let mut follows = self.store.digester()(None);
        let metas = entries.iter().filter(|entry| entry.envelope().kind == Kind::Meta);
        metas.filter_map(|entry| follows.add(entry).scope).collect()
    }

    /// The query limited to the scope; `None` if it can find nothing.
    fn limited(&self, scope: &ScopeFilter) -> Option<ScopeFilter> {
        self.scope.and(scope)
    }
}

impl Scoped {
    /// A handle to a store that sees only the conversations that the filter admits.
    pub fn new(store: Arc<dyn Store>, scope: ScopeFilter) -> Self {
        // The store may already be limited. If the two scopes have nothing in common, the handle sees no conversation.
        let scope = store.scope().and(&scope).unwrap_or(scope);
        let (drafts, spool) = (store.drafts().cloned(), store.spool().cloned());
        let inner = Arc::new(Inner { store, scope, own: Mutex::default() });
        let (reader, waiter) = (Arc::clone(&inner), Arc::clone(&inner));
        Self {
            drafts: drafts.map(|drafts| drafts.limited(Arc::new(move |id| reader.check(id).is_ok()))),
            spool: spool.map(|spool| spool.limited(Arc::new(move |id| waiter.may_wait(id)))),
            inner,
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.inner.store
    }
}

impl Store for Scoped {
    fn location(&self) -> &Location {
        self.store().location()
    }

    fn digester(&self) -> Digester {
        self.store().digester()
    }

    fn scope(&self) -> &ScopeFilter {
        &self.inner.scope
    }

    fn read_only(&self) -> Option<&str> {
        self.store().read_only()
    }

    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>> {
        match self.inner.check(conversation) {
            Ok(_) => self.store().tail(conversation),
            Err(StoreError::NotFound(_)) => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn wait(&self, id: ConversationId, after: Option<Tail>, most: Duration) -> StoreResult<Option<Tail>> {
        match self.tail(id)? {
            // A change of the scope is also an entry, so check the scope again after waiting.
            Some(_) => self.store().wait(id, after, most).and_then(|_| self.tail(id)),
            None => Ok(None),
        }
    }

    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        let named = self.inner.named(entries);
        if named.iter().any(|scope| !self.inner.scope.admits(scope)) {
            return Err(StoreError::OutOfScope);
        }
        let known = guard(&self.inner.own).get(&id).copied();
        match after {
            Some(_) if known.flatten() == after => {}
            Some(_) => drop(self.inner.check(id)?),
            // A header alone would begin a conversation without a scope.
            None if named.is_empty() => return Err(StoreError::OutOfScope),
            None => {
                if known.is_none() {
                    match self.inner.check_free(id) {
                        // While the server is unreachable, a file takes the new conversation; its delivery finds out whether the id
                        // is free.
                        Err(why) if why.is_unwritable() || matches!(why, StoreError::TooNew { .. }) => {}
                        checked => checked?,
                    }
                }
                self.inner.remember(id, known.flatten());
            }
        }
        let tail = self.store().append(id, after, entries)?;
        self.inner.remember(id, Some(tail));
        Ok(tail)
    }

    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
        self.inner.check(conversation)?;
        self.store().read(conversation, from, each)
    }

    fn read_part(&self, id: ConversationId, part: Selection<'_>, each: OnItem<'_>) -> StoreResult<PartRead> {
        self.inner.check(id)?;
        self.store().read_part(id, part, each)
    }

    fn single_reads(&self) -> usize {
        self.store().single_reads()
    }

    fn checkpoint(&self, conversation: ConversationId, each: OnPiece<'_>) {
        if self.inner.check(conversation).is_ok() {
            self.store().checkpoint(conversation, each);
        }
    }

    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        if self.inner.check(conversation).is_ok() {
            self.store().keep_checkpoint(conversation, pieces);
        }
    }

    fn list(&self, query: &Query) -> StoreResult<Page> {
        match self.inner.limited(&query.scope) {
            Some(scope) => self.store().list(&Query { scope, ..query.clone() }),
            None => Ok(Page::default()),
        }
    }

    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary> {
        self.inner.check(conversation)
    }

    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
        let all = self.list(&Query::default())?.conversations;
        let mut ids: Vec<ConversationId> =
            all.iter().map(|summary| summary.id).filter(|id| id.has_prefix(prefix)).collect();
        ids.sort_unstable();
        ids.truncate(limit);
        Ok(ids)
    }

    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>> {
        if let Some(within) = search.within {
            match self.inner.check(within) {
                Err(StoreError::NotFound(_)) => return Ok(Vec::new()),
                checked => drop(checked?),
            }
        }
        match self.inner.limited(&search.scope) {
            Some(scope) => self.store().search(&Search { scope, ..search.clone() }),
            None => Ok(Vec::new()),
        }
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.inner.check_free(conversation)?;
        self.store().lock(conversation, holder)
    }

    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        self.inner.check(id)?;
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        if self.inner.named(&notes).iter().any(|scope| !self.inner.scope.admits(scope)) {
            return Err(StoreError::OutOfScope);
        }
        // The entry that sets the scope may be among the erased ones.
        guard(&self.inner.own).remove(&id);
        self.store().erase_all(id, after, erasures)
    }

    fn delete(&self, conversation: ConversationId) -> StoreResult<()> {
        self.inner.check(conversation)?;
        guard(&self.inner.own).remove(&conversation);
        self.store().delete(conversation)
    }

    fn delete_all(&self, conversations: &[ConversationId]) -> StoreResult<()> {
        for conversation in conversations {
            self.inner.check(*conversation)?;
            guard(&self.inner.own).remove(conversation);
        }
        self.store().delete_all(conversations)
    }

    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        self.inner.check(conversation)?;
        self.store().set_aside(conversation, damage)
    }

    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        self.inner.check(conversation)?;
        self.store().files_that_go(conversation, entries)
    }

    fn on_progress(&self, hook: ProgressHook) {
        self.store().on_progress(hook);
    }

    fn drafts(&self) -> Option<&Drafts> {
        self.drafts.as_ref()
    }

    fn spool(&self) -> Option<&Spool> {
        self.spool.as_ref()
    }

    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified> {
        let ids = conversation.map_or_else(|| self.ids("", usize::MAX), |id| Ok(vec![id]))?;
        let mut all = Verified::default();
        for id in ids {
            self.inner.check(id)?;
            all.add(self.store().verify(Some(id), each)?);
        }
        Ok(all)
    }

    fn report(&self) -> StoreResult<()> {
        self.store().report()
    }

    /// The key of the whole store. Here it only hashes the scope's own calls, and the same hashes are in the view that reports
    /// read.
    fn report_key(&self) -> StoreResult<Option<[u8; 32]>> {
        self.store().report_key()
    }

    /// The bytes of the scope's own entries.
    fn size(&self) -> StoreResult<Size> {
        let mut record = 0;
        for id in self.ids("", usize::MAX)? {
            self.read(id, 0, &mut |item| {
                if let StoredItem::Entry(entry) = item {
                    record += entry.to_line().len() as u64 + 1;
                }
                std::ops::ControlFlow::Continue(())
            })?;
        }
        Ok(Size { record, index: 0 })
    }

    fn schema(&self) -> Option<i64> {
        self.store().schema()
    }

    fn options(&self) -> StoreResult<Vec<StoreOption>> {
        self.store().options()
    }

    /// Refused: an option changes the store for every scope.
    fn enable(&self, _: &str) -> StoreResult<EnableOutcome> {
        Err(StoreError::OutOfScope)
    }

    fn settle(&self) -> StoreResult<()> {
        self.store().settle()
    }

    fn rebuild(&self) -> StoreResult<()> {
        self.store().rebuild()
    }
}
