//! Lists, summaries, ids and search.

use super::*;

/// S3-21, S3-48, S3-50, B41: a conversation is listed from its creation on, the most recently used one first, with provider, model
/// and the time of the newest message.
#[test]
fn conversations_are_listed_newest_first() {
    in_every_store(|home, store| {
        let mut talks: Vec<(Talk, Vec<Entry>)> = (1..=3).map(|number| Talk::of(number, 0)).collect();
        for (talk, entries) in &talks {
            store.append(talk.id, None, entries).unwrap();
        }
        let page = store.list(&Query::default()).unwrap();
        assert_eq!((page.total, page.conversations.len(), page.next), (3, 3, None), "{}", home.name);
        let listed: Vec<_> = page.conversations.iter().map(|summary| summary.id).collect();
        assert_eq!(listed, [talks[2].0.id, talks[1].0.id, talks[0].0.id], "{}", home.name);
        for summary in &page.conversations {
            assert_eq!(summary.about.provider.as_deref(), Some("offline"), "{}", home.name);
            assert_eq!(summary.about.model.as_deref(), Some("tiny"), "{}", home.name);
            assert_eq!((summary.state, summary.messages, summary.entries), (SessionState::Empty, 0, 1));
        }
        // The oldest one gets a message, later than all others.
        let (talk, entries) = &mut talks[0];
        for _ in 0..9000 {
            talk.stamp();
        }
        entries.push(talk.user("a late word"));
        store.append(talk.id, Some(Tail::of(&entries[0])), &entries[1..]).unwrap();
        store.settle().unwrap();
        let store = home.reopen(store);
        let page = store.list(&Query::default()).unwrap();
        let first = &page.conversations[0];
        assert_eq!(first.id, talks[0].0.id, "{}", home.name);
        assert_eq!(first.updated, talks[0].1[1].envelope().timestamp, "{}", home.name);
        assert_eq!(first.created, talks[0].1[0].envelope().timestamp, "{}", home.name);
        assert_eq!(first.title.as_deref(), Some("a late word"), "{}", home.name);
        assert_eq!(
            (first.state, first.messages, first.entries),
            (SessionState::WaitingForModel, 1, 2),
            "{}",
            home.name
        );
        assert_eq!(first.tail, tail(&talks[0].1), "{}", home.name);
        assert_eq!(store.summary(talks[0].0.id).unwrap(), *first, "{}", home.name);
    });
}

/// S3-49: an empty store lists nothing.
#[test]
fn an_empty_store_lists_nothing() {
    in_every_store(|home, store| {
        let page = store.list(&Query::default()).unwrap();
        assert_eq!((page.conversations.len(), page.total, page.next), (0, 0, None), "{}", home.name);
        assert!(store.ids("", 10).unwrap().is_empty());
        assert!(search(&*store, "anything").is_empty());
        assert!(problems(&*store, None).is_empty());
        assert_eq!(store.verify(None, &mut |_| ()).unwrap(), rejoin_store::Verified::default());
    });
}

/// S3-48: the pages of any size together are the list.
#[test]
fn pages_are_the_list() {
    in_every_store(|home, store| {
        for number in 1..=11 {
            // Some have equal times; then ids decide.
            let (mut talk, mut entries) = Talk::of(number, 0);
            if number % 3 == 0 {
                let header = Talk::new(number - 1).header();
                talk.chain = Chain::empty();
                let mut stamp = talk.stamp();
                stamp.timestamp = header.envelope().timestamp;
                entries =
                    vec![talk.chain.append_body(None, Kind::Header, header.body().unwrap().clone(), stamp)];
            }
            store.append(talk.id, None, &entries).unwrap();
        }
        let all = store.list(&Query::default()).unwrap().conversations;
        assert_eq!(all.len(), 11);
        assert!(all.windows(2).all(|pair| {
            (std::cmp::Reverse(pair[0].updated), pair[0].id)
                < (std::cmp::Reverse(pair[1].updated), pair[1].id)
        }));
        for size in [1, 2, 5, 11, 20] {
            let (mut paged, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                pages += 1;
                let page = store.list(&Query { limit: Some(size), after, ..Query::default() }).unwrap();
                assert_eq!(page.total, 11, "{}", home.name);
                assert!(page.conversations.len() <= size);
                paged.extend(page.conversations);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all, "{}, {size} a page", home.name);
            assert_eq!(pages, 11_usize.div_ceil(size), "{}, {size} a page: the last one says so", home.name);
        }
    });
}

/// The state, the title and the open calls of a conversation follow its messages.
#[test]
fn a_summary_follows_the_conversation() {
    in_every_home(|home| {
        let (store, mut talk, mut entries) = home.with_talk(1, 0);
        let call = || vec![ToolCall::new("c1", "search", "{}")];
        let steps: Vec<(Entry, SessionState, Option<&str>)> = vec![
            (talk.user("find it"), SessionState::WaitingForModel, Some("find it")),
            (talk.say(Message::assistant_with_tools(call())), SessionState::WaitingForTools, Some("find it")),
            (talk.say(Message::tool("c1", "found")), SessionState::WaitingForModel, Some("find it")),
            (talk.say(Message::assistant("here")), SessionState::Complete, Some("find it")),
            (talk.titled("The search"), SessionState::Complete, Some("The search")),
            (talk.user("thanks"), SessionState::WaitingForModel, Some("The search")),
        ];
        for (entry, state, title) in steps {
            store.append(talk.id, tail(&entries), std::slice::from_ref(&entry)).unwrap();
            entries.push(entry);
            let summary = store.summary(talk.id).unwrap();
            assert_eq!((summary.state, summary.title.as_deref()), (state, title), "{}", home.name);
            assert_eq!(summary.entries, entries.len() as u64);
        }
        assert!(store.summary(talk.id).unwrap().renamed);
    });
}

/// An id is found by its beginning, with `conv_` and without.
#[test]
fn ids_are_found_by_their_beginning() {
    in_every_store(|home, store| {
        let mut all = Vec::new();
        for number in 1..=20 {
            let (talk, entries) = Talk::of(number, 0);
            store.append(talk.id, None, &entries).unwrap();
            all.push(talk.id);
        }
        all.sort_unstable();
        assert_eq!(store.ids("", usize::MAX).unwrap(), all, "{}", home.name);
        assert_eq!(store.ids("conv_", 7).unwrap(), all[..7], "{}", home.name);
        for id in &all {
            let text = id.to_string();
            for prefix in [&text[..], &text[5..], &text[..9], &text[5..7]] {
                let expected: Vec<_> = all.iter().filter(|id| id.has_prefix(prefix)).copied().collect();
                assert_eq!(store.ids(prefix, 100).unwrap(), expected, "{} {prefix}", home.name);
                assert!(expected.contains(id));
            }
        }
        for prefix in ["%", "_", "conv%", "CONV_", "conv_1", "../", "*", "\0", "zzzzzzzzzzzzz"] {
            assert!(store.ids(prefix, 10).unwrap().is_empty(), "{} {prefix:?}", home.name);
        }
    });
}

/// Search finds words in every conversation and in what tools gave back, the best place first, with the words marked.
#[test]
fn search_finds_what_was_said() {
    in_every_store(|home, store| {
        let mut first = Talk::new(1);
        let header = first.header();
        let long = format!("a zebra once {}", "and other animals besides it ".repeat(60));
        let said = [
            first.user(&long),
            first.say(Message::assistant("Zebra zebra, said the zebra.")),
            first.say(Message::tool("c1", "the tool output speaks of a quagga and of Grüße aus 世界都市")),
        ];
        store.append(first.id, None, &[vec![header], said.to_vec()].concat()).unwrap();
        let mut second = Talk::new(2);
        let header = second.header();
        let other = second.user("no stripes here, but a quagga; zebras not");
        store.append(second.id, None, &[header, other.clone()]).unwrap();
        let store = home.reopen(store);

        let found = search(&*store, "zebra");
        assert_eq!(
            found.iter().map(|hit| hit.entry).collect::<Vec<_>>(),
            [said[1].id(), said[0].id()],
            "{}",
            home.name
        );
        assert!(found[0].score < found[1].score, "{}: lower is better", home.name);
        assert_eq!((found[0].conversation, found[0].seq, found[0].role.as_str()), (first.id, 2, "assistant"));
        assert!(found[0].title.as_deref().unwrap().starts_with("a zebra once"), "{}", home.name);
        let marked: Vec<_> =
            found[0].excerpt.pieces.iter().filter(|(_, hit)| *hit).map(|(text, _)| text.as_str()).collect();
        assert_eq!(marked, ["Zebra", "zebra", "zebra"], "{}", home.name);
        let whole: String = found[0].excerpt.pieces.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(whole, "Zebra zebra, said the zebra.", "{}", home.name);

        let ids_of = |words: &str| {
            let mut ids: Vec<_> = search(&*store, words).iter().map(|hit| hit.entry).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids_of("quagga"), [said[2].id(), other.id()], "{}: in both conversations", home.name);
        assert_eq!(ids_of("tool quagga"), [said[2].id()], "{}: all words", home.name);
        assert_eq!(ids_of("zebra*"), [said[0].id(), said[1].id(), other.id()], "{}: beginnings", home.name);
        assert_eq!(ids_of("\"said the zebra\""), [said[1].id()], "{}: together", home.name);
        assert!(ids_of("\"the said zebra\"").is_empty(), "{}: together", home.name);
        assert_eq!(ids_of("GRÜSSE"), ids_of("grüsse"), "{}: case", home.name);
        assert_eq!(ids_of("grüße"), [said[2].id()], "{}: letters of others", home.name);
        assert_eq!(ids_of("世界"), [said[2].id()], "{}: no spaces between words", home.name);
        for nothing in ["", "  ", "\"\"", "*", "zebra giraffe", "AND OR NOT", "\"", "(", "a:b*c\"d"] {
            assert!(ids_of(nothing).is_empty(), "{}: {nothing:?}", home.name);
        }
        let within =
            Search { words: String::from("quagga"), limit: 10, within: Some(second.id), ..Search::default() };
        assert_eq!(store.search(&within).unwrap().len(), 1, "{}", home.name);
        let few = Search { words: String::from("quagga"), limit: 1, ..Search::default() };
        assert_eq!(store.search(&few).unwrap().len(), 1, "{}", home.name);
    });
}
