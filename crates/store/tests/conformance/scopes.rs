//! Scopes: the owner of a conversation, and handles that see only one scope.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngSeed, TestRunner},
};
use rejoin_record::{ConversationId, Scope};
use rejoin_store::{ScopeFilter, Scoped, Selection};

use super::*;

fn scope(user: &str, channel: &str, thread: &str) -> Scope {
    Scope { user: user.to_owned(), channel: channel.to_owned(), thread: thread.to_owned() }
}

/// A conversation that says whose it is.
fn talk_of(number: u64, scope: &Scope, texts: &[&str]) -> (Talk, Vec<Entry>) {
    let mut talk = Talk::new(number);
    let mut entries = vec![talk.header(), talk.of_scope(scope)];
    entries.extend(texts.iter().map(|text| talk.user(text)));
    (talk, entries)
}

fn listed(store: &dyn Store, filter: &str) -> Vec<ConversationId> {
    let scope = if filter.is_empty() { ScopeFilter::OPEN } else { filter.parse().unwrap() };
    let page = store.list(&Query { scope, ..Query::default() }).unwrap();
    assert_eq!(page.total, page.conversations.len() as u64, "{filter}");
    page.conversations.iter().map(|summary| summary.id).collect()
}

/// S4-02, S4-26: conversations are listed and searched by user, channel and thread, and a part that is given empty means conversations
/// without it.
#[test]
fn conversations_are_found_by_their_scope() {
    in_every_store(|home, store| {
        let scopes = [
            Scope::default(),
            scope("ann", "red", ""),
            scope("ann", "blue", ""),
            scope("bob", "red", "t1"),
            scope("a\0b", "", "␀0"),
        ];
        let mut ids = Vec::new();
        for (number, scope) in (1..).zip(&scopes) {
            let (talk, mut entries) = talk_of(number, scope, &["a quagga"]);
            if scope.is_empty() {
                (_, entries) = Talk::of(number, 1);
            }
            store.append(talk.id, None, &entries).unwrap();
            ids.push(talk.id);
        }
        let store = home.reopen(store);
        for (filter, found) in [
            ("", &[4, 3, 2, 1, 0][..]),
            ("user=ann", &[2, 1]),
            ("user=ann,channel=red", &[1]),
            ("channel=red", &[3, 1]),
            ("channel=red,thread=", &[1]),
            ("thread=t1", &[3]),
            ("user=", &[0]),
            ("user=carl", &[]),
            ("user=a\0b", &[4]),
            ("user=a␀b", &[]),
            ("thread=␀0", &[4]),
            ("thread=\0", &[]),
        ] {
            let found: Vec<ConversationId> = found.iter().map(|place| ids[*place]).collect();
            assert_eq!(listed(&*store, filter), found, "{}: {filter}", home.name);
            let scope = if filter.is_empty() { ScopeFilter::OPEN } else { filter.parse().unwrap() };
            store.settle().unwrap();
            let search = Search { words: String::from("quagga"), limit: 9, scope, ..Search::default() };
            let hits = store.search(&search).unwrap();
            let mut hit: Vec<ConversationId> = hits.iter().map(|hit| hit.conversation).collect();
            let mut said: Vec<ConversationId> = found.into_iter().filter(|id| *id != ids[0]).collect();
            hit.sort_unstable();
            said.sort_unstable();
            assert_eq!(hit, said, "{}: {filter}", home.name);
        }
        for (id, scope) in ids.iter().zip(&scopes) {
            assert_eq!(store.summary(*id).unwrap().scope, *scope, "{}", home.name);
        }
    });
}

/// Pages of one scope are the list of that scope.
#[test]
fn pages_of_a_scope_are_its_list() {
    in_every_store(|home, store| {
        for number in 0..12 {
            let user = if number % 3 == 0 { "ann" } else { "bob" };
            let (talk, entries) = talk_of(number + 1, &scope(user, "", ""), &["word"]);
            store.append(talk.id, None, &entries).unwrap();
        }
        let scope: ScopeFilter = "user=bob".parse().unwrap();
        let all = listed(&*store, "user=bob");
        assert_eq!(all.len(), 8, "{}", home.name);
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(&Query { limit: Some(3), after, scope: scope.clone() }).unwrap();
            assert_eq!(page.total, 8, "{}", home.name);
            paged.extend(page.conversations.iter().map(|summary| summary.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, all, "{}", home.name);
    });
}

/// The scope follows the newest entry that names one.
#[test]
fn a_conversation_can_be_given_to_another_user() {
    in_every_store(|home, store| {
        let (mut talk, entries) = talk_of(1, &scope("ann", "red", ""), &["word"]);
        store.append(talk.id, None, &entries).unwrap();
        let given = talk.of_scope(&scope("bob", "", ""));
        store.append(talk.id, tail(&entries), &[given]).unwrap();
        assert!(listed(&*store, "user=ann").is_empty(), "{}", home.name);
        assert_eq!(listed(&*store, "user=bob"), [talk.id], "{}", home.name);
        assert!(listed(&*store, "channel=red").is_empty(), "{}", home.name);
    });
}

/// The number of random operations in each home.
fn operations() -> usize {
    std::env::var("REJOIN_SCOPE_OPERATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(2500)
}

/// An operation of one of the two users on a conversation of either.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Begin,
    /// Begin a conversation that belongs to the other user.
    BeginForOther,
    /// Begin a conversation under the id of an existing one.
    BeginAgain,
    Append,
    /// Give the conversation to the other user.
    GiveAway,
    Erase,
    Delete,
    Look,
    Search,
    Lock,
    Draft,
}

const DEEDS: [(u32, Deed); 11] = [
    (6, Deed::Begin),
    (1, Deed::BeginForOther),
    (2, Deed::BeginAgain),
    (12, Deed::Append),
    (3, Deed::GiveAway),
    (2, Deed::Erase),
    (2, Deed::Delete),
    (9, Deed::Look),
    (3, Deed::Search),
    (3, Deed::Lock),
    (2, Deed::Draft),
];

/// Two users, with their names in everything that they say.
const USERS: [&str; 2] = ["userann", "userbob"];

struct Owned {
    owner: usize,
    talk: Talk,
    entries: Vec<Entry>,
}

struct World<'h> {
    home: &'h Home,
    store: Arc<dyn Store>,
    handles: [Scoped; 2],
    talks: BTreeMap<ConversationId, Owned>,
    begun: u64,
}

impl World<'_> {
    /// A handle's result must not contain a word of the other user.
    fn private<T: Debug>(&self, user: usize, what: &str, value: T) -> T {
        let shown = format!("{value:?}");
        assert!(
            !shown.contains(USERS[1 - user]),
            "{}: {what} of {} gave {shown}",
            self.home.name,
            USERS[user]
        );
        value
    }

    fn pick(&self, number: u32) -> Option<ConversationId> {
        let count = self.talks.len();
        self.talks.keys().nth((number as usize).checked_rem(count)?).copied()
    }

    fn begin(&mut self, user: usize, owner: usize) {
        self.begun += 1;
        let text = format!("{} begins talk {}", USERS[owner], self.begun);
        let (talk, entries) = talk_of(self.begun, &scope(USERS[owner], "", ""), &[&text]);
        let done = self.handles[user].append(talk.id, None, &entries);
        assert_eq!(done.is_ok(), user == owner, "{}: {done:?}", self.home.name);
        if user == owner {
            self.talks.insert(talk.id, Owned { owner, talk, entries });
        }
    }

    fn step(&mut self, user: usize, deed: Deed, number: u32) {
        let handle = &self.handles[user];
        if let Deed::Begin | Deed::BeginForOther = deed {
            let owner = if matches!(deed, Deed::Begin) { user } else { 1 - user };
            return self.begin(user, owner);
        }
        let Some(id) = self.pick(number) else { return };
        let is_own = self.talks[&id].owner == user;
        match deed {
            Deed::Begin | Deed::BeginForOther => unreachable!("done above"),
            Deed::BeginAgain => {
                let mut talk = Talk::new(1_000_000 + u64::from(number % 1000));
                let entries = [talk.header(), talk.of_scope(&scope(USERS[user], "", ""))];
                let refused = self.private(user, "beginning again", handle.append(id, None, &entries));
                assert!(refused.is_err(), "{}: {refused:?}", self.home.name);
            }
            Deed::Append => {
                let one = self.talks.get_mut(&id).unwrap();
                let text = format!("{} says {number}", USERS[user]);
                // A writer that is refused must not move the chain.
                let (made, chain) = (tail(&one.entries), one.talk.chain.clone());
                let entry = one.talk.user(&text);
                let done = handle.append(id, made, std::slice::from_ref(&entry));
                assert_eq!(done.is_ok(), is_own, "{}: {done:?}", self.home.name);
                if is_own { one.entries.push(entry) } else { one.talk.chain = chain }
            }
            Deed::GiveAway => {
                let one = self.talks.get_mut(&id).unwrap();
                let chain = one.talk.chain.clone();
                let entry = one.talk.of_scope(&scope(USERS[1 - user], "", ""));
                let refused = handle.append(id, tail(&one.entries), &[entry]);
                assert!(refused.is_err(), "{}: {refused:?}", self.home.name);
                one.talk.chain = chain;
            }
            Deed::Erase => {
                let one = self.talks.get_mut(&id).unwrap();
                let place = 2 + number as usize % (one.entries.len() - 2).max(1);
                let Some(entry) = one.entries.get(place).map(Entry::id) else { return };
                let chain = one.talk.chain.clone();
                let note = one.talk.erased(entry);
                let done = handle.erase(id, tail(&one.entries).unwrap(), entry, &note);
                assert_eq!(done.is_ok(), is_own, "{}: {done:?}", self.home.name);
                if is_own {
                    one.entries[place] = one.entries[place].erased();
                    one.entries.push(note);
                } else {
                    one.talk.chain = chain;
                }
            }
            Deed::Delete => {
                let done = handle.delete(id);
                assert_eq!(done.is_ok(), is_own, "{}: {done:?}", self.home.name);
                if is_own {
                    self.talks.remove(&id);
                }
            }
            Deed::Look => self.look(user, id),
            Deed::Search => {
                handle.settle().unwrap();
                for within in [None, Some(id)] {
                    let search =
                        Search { words: String::from("says"), limit: 50, within, ..Search::default() };
                    let hits = self.private(user, "search", handle.search(&search).unwrap());
                    assert!(hits.iter().all(|hit| self.talks[&hit.conversation].owner == user));
                }
            }
            Deed::Lock => {
                let held = self.store.lock(
                    id,
                    &Holder::this("another program of userann and userbob", Talk::new(1).stamp().timestamp),
                );
                let tried = self.private(
                    user,
                    "lock",
                    handle
                        .lock(id, &Holder::this("mine", Talk::new(1).stamp().timestamp))
                        .map(drop)
                        .map_err(|why| why.code()),
                );
                assert_eq!(
                    tried,
                    Err(if is_own { "LOCKED" } else { "CONVERSATION_NOT_FOUND" }),
                    "{}",
                    self.home.name
                );
                drop(held);
            }
            Deed::Draft => {
                let Some((all, own)) = self.store.drafts().zip(handle.drafts()) else { return };
                let mut draft = all.begin(id).unwrap();
                draft
                    .append(format!("{} was about to say", USERS[self.talks[&id].owner]).as_bytes())
                    .unwrap();
                drop(draft);
                assert_eq!(own.left_behind(id).is_some(), is_own, "{}", self.home.name);
                assert_eq!(own.conversations().contains(&id), is_own, "{}", self.home.name);
                assert!(own.begin(id).is_err(), "{}", self.home.name);
                assert_eq!(own.remove(id).is_ok(), is_own, "{}", self.home.name);
                all.remove(id).unwrap();
            }
        }
    }

    /// Every way to look at a conversation.
    fn look(&self, user: usize, id: ConversationId) {
        let handle = &self.handles[user];
        let one = &self.talks[&id];
        let is_own = one.owner == user;
        assert_eq!(self.private(user, "tail", handle.tail(id).unwrap()).is_some(), is_own);
        assert_eq!(self.private(user, "summary", handle.summary(id)).is_ok(), is_own);
        let mut read = Vec::new();
        let done = handle.read(id, 0, &mut |item| {
            read.push(item);
            ControlFlow::Continue(())
        });
        assert_eq!(done.is_ok(), is_own, "{}", self.home.name);
        assert_eq!(self.private(user, "read", read).len(), if is_own { one.entries.len() } else { 0 });
        let mut part = Vec::new();
        let selected = Selection { earlier: &[1], from: 2 };
        let _ = handle.read_part(id, selected, &mut |item| {
            part.push(item);
            ControlFlow::Continue(())
        });
        self.private(user, "read_part", part);
        self.store.keep_checkpoint(id, &[format!("of {}", USERS[one.owner])]);
        let mut pieces = Vec::new();
        handle.checkpoint(id, &mut |piece| {
            pieces.push(piece);
            ControlFlow::Continue(())
        });
        self.private(user, "checkpoint", pieces);
        let page = self.private(user, "list", handle.list(&Query::default()).unwrap());
        let own = self.talks.values().filter(|talk| talk.owner == user).count();
        assert_eq!((page.conversations.len(), page.total), (own, own as u64), "{}", self.home.name);
        let other: ScopeFilter = format!("user={}", USERS[1 - user]).parse().unwrap();
        let none = handle.list(&Query { scope: other, ..Query::default() }).unwrap();
        assert_eq!((none.conversations.len(), none.total), (0, 0), "{}", self.home.name);
        assert_eq!(handle.ids("", usize::MAX).unwrap().len(), own, "{}", self.home.name);
        assert_eq!(handle.files_that_go(id, None).is_ok(), is_own, "{}", self.home.name);
        assert_eq!(handle.verify(Some(id), &mut |_| ()).is_ok(), is_own, "{}", self.home.name);
    }

    /// At the end, each conversation has what its owner wrote, and nothing else.
    fn settle_accounts(&self) {
        assert_eq!(self.store.list(&Query::default()).unwrap().total, self.talks.len() as u64);
        for (id, one) in &self.talks {
            let (entries, damage) = read(&*self.store, *id, 0);
            assert_eq!((entries, damage.len()), (one.entries.clone(), 0), "{}", self.home.name);
        }
        for (user, handle) in self.handles.iter().enumerate() {
            let own = self.talks.values().filter(|talk| talk.owner == user);
            let entries: usize = own.map(|talk| talk.entries.len()).sum();
            assert_eq!(
                handle.verify(None, &mut |problem| panic!("{problem:?}")).unwrap().entries,
                entries as u64
            );
            let bytes = handle.size().unwrap().record;
            assert!(bytes > 0 || entries == 0);
        }
    }
}

/// S4-02: the handles of two users on one store, under random operations on all conversations. Neither can read, write, find, lock
/// or remove anything of the other's, and no result contains a word of the other's.
#[test]
fn no_byte_crosses_between_two_users() {
    in_every_home(|home| {
        let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(18), ..Config::default() });
        let deeds =
            prop::strategy::Union::new_weighted(DEEDS.map(|(weight, deed)| (weight, Just(deed))).to_vec());
        let step = (0..2_usize, deeds, any::<u32>());
        let store: Arc<dyn Store> = Arc::from(home.open());
        let handles = USERS.map(|user| {
            Arc::clone(&store).scoped(ScopeFilter { user: Some(user.to_owned()), ..ScopeFilter::OPEN })
        });
        let mut world = World { home, store, handles, talks: BTreeMap::new(), begun: 0 };
        for _ in 0..operations() {
            let (user, deed, number) = step.new_tree(&mut runner).unwrap().current();
            // A store with very many conversations would only make each look slower.
            let deed =
                if matches!(deed, Deed::Begin) && world.talks.len() > 24 { Deed::Delete } else { deed };
            world.step(user, deed, number);
        }
        world.settle_accounts();
    });
}

/// A handle of a handle sees what both admit.
#[test]
fn handles_can_be_nested() {
    in_every_home(|home| {
        let store: Arc<dyn Store> = Arc::from(home.open());
        for (number, one) in
            (1..).zip([scope("ann", "red", ""), scope("ann", "blue", ""), scope("bob", "red", "")])
        {
            let (talk, entries) = talk_of(number, &one, &["word"]);
            store.append(talk.id, None, &entries).unwrap();
        }
        let ann: Arc<dyn Store> = Arc::new(store.scoped("user=ann".parse().unwrap()));
        let red = Arc::clone(&ann).scoped("channel=red".parse().unwrap());
        assert_eq!(ann.list(&Query::default()).unwrap().total, 2, "{}", home.name);
        assert_eq!(red.list(&Query::default()).unwrap().total, 1, "{}", home.name);
        assert_eq!(red.scope().to_string(), "user=ann,channel=red");
        let bob = ann.scoped("user=bob".parse().unwrap());
        assert_eq!(bob.list(&Query::default()).unwrap().total, 0, "{}", home.name);
        assert_eq!(bob.scope().to_string(), "user=bob");
    });
}
