//! Every kind of store against a plain model: lists of entries in memory, under random operations.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rejoin_record::{ConversationId, Tree};
use rejoin_store::Summary;

use super::*;

/// An operation on a store. Numbers are taken modulo the number of choices.
#[derive(Debug, Clone)]
enum Step {
    /// Begin a conversation, with this many messages.
    Begin(u8),
    /// Append this many messages in one step.
    Append { talk: u8, messages: u8 },
    /// Append under an earlier entry.
    Branch { talk: u8, at: u8 },
    /// Append again what was appended last, from one of its entries on.
    Repeat { talk: u8 },
    /// Append after a tail that is no longer the newest.
    Stale { talk: u8, at: u8 },
    /// Give it a title.
    Rename { talk: u8 },
    /// Erase an entry.
    Erase { talk: u8, at: u8 },
    /// Delete the conversation.
    Delete { talk: u8 },
    /// Close the store and open it again.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let one = any::<u8>;
    prop_oneof![
        2 => (0..4_u8).prop_map(Step::Begin),
        6 => (one(), 1..5_u8).prop_map(|(talk, messages)| Step::Append { talk, messages }),
        2 => (one(), one()).prop_map(|(talk, at)| Step::Branch { talk, at }),
        2 => one().prop_map(|talk| Step::Repeat { talk }),
        2 => (one(), one()).prop_map(|(talk, at)| Step::Stale { talk, at }),
        1 => one().prop_map(|talk| Step::Rename { talk }),
        1 => (one(), one()).prop_map(|(talk, at)| Step::Erase { talk, at }),
        1 => one().prop_map(|talk| Step::Delete { talk }),
        2 => Just(Step::Reopen),
    ]
}

/// The expected content of a conversation.
struct Expected {
    talk: Talk,
    entries: Vec<Entry>,
    /// The index at which the last batch begins.
    last: usize,
}

#[derive(Default)]
struct Model {
    talks: BTreeMap<ConversationId, Expected>,
    begun: u64,
}

impl Model {
    fn pick(&mut self, number: u8) -> Option<&mut Expected> {
        let count = self.talks.len();
        self.talks.values_mut().nth(usize::from(number).checked_rem(count)?)
    }

    /// Does something to a store and to the model.
    fn apply(&mut self, home: &Home, store: Box<dyn Store>, step: &Step) -> Box<dyn Store> {
        match *step {
            Step::Begin(messages) => {
                self.begun += 1;
                let (talk, entries) = Talk::of(self.begun, usize::from(messages));
                assert_eq!(store.append(talk.id, None, &entries).unwrap(), tail(&entries).unwrap());
                self.talks.insert(talk.id, Expected { talk, entries, last: 0 });
            }
            Step::Append { talk, messages } => {
                let Some(one) = self.pick(talk) else { return store };
                let new =
                    (0..messages).map(|number| one.talk.user(&format!("word{number} and more"))).collect();
                one.append(&*store, new);
            }
            Step::Branch { talk, at } => {
                let Some(one) = self.pick(talk) else { return store };
                let parent = one.entries[usize::from(at) % one.entries.len()].clone();
                let new = vec![one.talk.under(&parent, "a branch")];
                one.append(&*store, new);
            }
            Step::Repeat { talk } => {
                let Some(one) = self.pick(talk) else { return store };
                let (before, batch) = one.entries.split_at(one.last);
                assert_eq!(store.append(one.talk.id, tail(before), batch).unwrap(), tail(batch).unwrap());
            }
            Step::Stale { talk, at } => {
                let Some(one) = self.pick(talk) else { return store };
                let known = &one.entries[..usize::from(at) % one.entries.len()];
                let mut other = Talk::new(one.entries.len() as u64 + 1000);
                other.chain = Chain::at(tail(known));
                let new = if known.is_empty() { other.header() } else { other.user("too late") };
                let refused = store.append(one.talk.id, tail(known), &[new]);
                assert!(matches!(refused, Err(StoreError::TailMoved { .. })), "{}: {refused:?}", home.name);
            }
            Step::Rename { talk } => {
                let Some(one) = self.pick(talk) else { return store };
                let new = vec![one.talk.titled("A title")];
                one.append(&*store, new);
            }
            Step::Erase { talk, at } => {
                let Some(one) = self.pick(talk) else { return store };
                let place = usize::from(at) % one.entries.len();
                if place == 0 {
                    return store;
                }
                let note = one.talk.erased(one.entries[place].id());
                let after = tail(&one.entries).unwrap();
                let end = store.erase(one.talk.id, after, one.entries[place].id(), &note).unwrap();
                assert_eq!(end, Tail::of(&note));
                one.entries[place] = one.entries[place].erased();
                one.last = one.entries.len();
                one.entries.push(note);
            }
            Step::Delete { talk } => {
                let Some(one) = self.pick(talk) else { return store };
                let id = one.talk.id;
                store.delete(id).unwrap();
                self.talks.remove(&id);
            }
            Step::Reopen => return home.reopen(store),
        }
        store
    }

    /// Compares everything that a store returns with the expected content.
    fn check(&self, home: &Home, store: &dyn Store) {
        store.settle().unwrap();
        let ids: Vec<ConversationId> = self.talks.keys().copied().collect();
        assert_eq!(store.ids("", usize::MAX).unwrap(), ids, "{}", home.name);
        let mut summaries = Vec::new();
        for (id, one) in &self.talks {
            let (found, damage) = read(store, *id, 0);
            assert!(damage.is_empty(), "{}: {damage:?}", home.name);
            assert_eq!(found, one.entries, "{}", home.name);
            assert_eq!(store.tail(*id).unwrap(), tail(&one.entries), "{}", home.name);
            let tree = Tree::new(&one.entries);
            for entry in [None, one.entries.get(one.entries.len() / 2)] {
                let head = entry.or(tree.head()).unwrap();
                let mut way: Vec<Entry> = tree.path_to(head).0.into_iter().cloned().collect();
                way.reverse();
                let found = ancestors(store, *id, entry.map(Entry::id));
                assert_eq!(found, way, "{}", home.name);
            }
            let mut summary = Summary::new(*id);
            let mut following = support::digest(None);
            one.entries.iter().for_each(|entry| summary.add(entry, following.add(entry)));
            summary.state = following.state().unwrap();
            assert_eq!(store.summary(*id).unwrap(), summary, "{}", home.name);
            summaries.push(summary);
        }
        summaries.sort_by_key(|summary| (std::cmp::Reverse(summary.updated), summary.id));
        let page = store.list(&Query::default()).unwrap();
        assert_eq!(page.conversations, summaries, "{}", home.name);
        let said = self.talks.values().flat_map(|one| &one.entries).filter(|entry| {
            let words = support::digest_of(entry).words;
            words.is_some_and(|words| words.text.split(' ').any(|word| word == "word1"))
        });
        let search = Search { words: String::from("word1"), limit: usize::MAX, ..Search::default() };
        let mut hits: Vec<_> = store.search(&search).unwrap().iter().map(|hit| hit.entry).collect();
        let mut said: Vec<_> = said.map(Entry::id).collect();
        hits.sort_unstable();
        said.sort_unstable();
        assert_eq!(hits, said, "{}", home.name);
        assert!(problems(store, None).is_empty(), "{}", home.name);
    }
}

impl Expected {
    fn append(&mut self, store: &dyn Store, new: Vec<Entry>) {
        let end = store.append(self.talk.id, tail(&self.entries), &new).unwrap();
        assert_eq!(end, tail(&new).unwrap());
        self.last = self.entries.len();
        self.entries.extend(new);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// S4-24, B50: after any operations in any order, a store returns what a plain list of entries would.
    #[test]
    fn a_store_is_a_list_of_entries(steps in prop::collection::vec(step(), 1..40)) {
        in_every_home(|home| {
            let mut store = home.open();
            let mut model = Model::default();
            for (number, step) in steps.iter().enumerate() {
                store = model.apply(home, store, step);
                if number % 16 == 15 {
                    model.check(home, &*store);
                }
            }
            model.check(home, &*store);
            store = home.reopen(store);
            model.check(home, &*store);
        });
    }
}
