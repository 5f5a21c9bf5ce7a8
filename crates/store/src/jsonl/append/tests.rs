//! How an append treats bytes that a failed append left.

use std::{fs, io::Write as _};

use rejoin_record::{Chain, Content, Kind, Message, Salt, Timestamp, chain::Stamp, content::Metadata};

use super::*;
use crate::{digest::Digest, open::Options, store::Store as _};

fn store(folder: &std::path::Path) -> Jsonl {
    let options = Options { access: Access::Write, digester: |_| Box::new(|_: &_| Digest::default()) };
    Jsonl::open(folder, options).unwrap()
}

fn stamp(number: u8) -> Stamp {
    let timestamp = Timestamp::from_second(1_750_000_000 + i64::from(number)).unwrap();
    Stamp {
        id: EntryId::new(u64::from(number), [number; 10]),
        timestamp,
        salt: Salt([number; 16]),
        source_time: None,
    }
}

fn talk() -> (ConversationId, Chain, Entry) {
    let conversation = ConversationId::from_random(7);
    let mut chain = Chain::empty();
    let metadata = Metadata { conversation, provider: None, model: None, directory: None, format: None };
    let header = chain.append(Kind::Header, &Content::Header(metadata), stamp(0));
    (conversation, chain, header)
}

fn say(chain: &mut Chain, number: u8) -> Entry {
    chain.append(Kind::Message, &Content::Message(Message::user(format!("message {number}"))), stamp(number))
}

/// Leaves the bytes that an append leaves if it can neither sync nor truncate: whole lines that were never acknowledged.
fn leave_unsynced(store: &Jsonl, conversation: ConversationId, line: &str) {
    let mut file = store.folder.open_to_append(name(conversation), false).unwrap();
    writeln!(file, "{line}").unwrap();
    let mut ends = crate::lock::guard(&store.ends);
    ends.get_mut(&conversation).unwrap().len = file.metadata().unwrap().len();
}

#[test]
fn bytes_that_were_not_synced_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (id, mut chain, header) = talk();
    let tail = store.append(id, None, std::slice::from_ref(&header)).unwrap();
    let lost = say(&mut chain.clone(), 1);
    leave_unsynced(&store, id, &lost.to_line());
    assert_eq!(store.tail(id).unwrap(), Some(tail), "what was not acknowledged is not the tail");
    // The retry writes its own entry, and does not take the leftover line for it.
    let other = say(&mut chain, 2);
    store.append(id, Some(tail), std::slice::from_ref(&other)).unwrap();
    let text = fs::read_to_string(store.path(id)).unwrap();
    assert_eq!(text, format!("{}\n{}\n", header.to_line(), other.to_line()));
}

#[test]
fn what_another_acknowledged_is_never_cut_back() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (store(folder.path()), store(folder.path()));
    let (id, mut chain, header) = talk();
    here.append(id, None, std::slice::from_ref(&header)).unwrap();
    let first = say(&mut chain, 1);
    leave_unsynced(&here, id, &first.to_line());
    // Another process found the line and continued after it.
    let second = say(&mut chain, 2);
    there.append(id, Some(Tail::of(&first)), std::slice::from_ref(&second)).unwrap();
    let third = say(&mut chain, 3);
    here.append(id, Some(Tail::of(&second)), std::slice::from_ref(&third)).unwrap();
    let text = fs::read_to_string(here.path(id)).unwrap();
    let lines: Vec<String> = [&header, &first, &second, &third].iter().map(|entry| entry.to_line()).collect();
    assert_eq!(text.trim_end(), lines.join("\n"));
}

#[test]
fn an_entry_that_is_no_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (id, mut chain, header) = talk();
    let parent = Some((header.id(), header.hash()));
    let body = rejoin_record::Raw::new("{\n}");
    let broken = chain.append_body(parent, Kind::Raw, body, stamp(1));
    let refused = store.append(id, None, &[header, broken]);
    assert!(matches!(refused, Err(StoreError::BrokenBatch(_))), "{refused:?}");
    assert!(!store.path(id).exists());
}

#[test]
fn an_entry_that_is_not_sealed_onto_its_parent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (id, mut chain, header) = talk();
    let first = say(&mut chain, 1);
    let changed = Entry::from_parts(
        first.envelope().clone(),
        None,
        first.inner(),
        header.hash(),
        first.content().cloned(),
    );
    let refused = store.append(id, None, &[header, changed]);
    assert!(matches!(refused, Err(StoreError::BrokenBatch(_))), "{refused:?}");
}

#[test]
fn set_aside_twice_is_one_file_that_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let damage = crate::store::Damage {
        place: crate::store::StoragePlace::Line(1),
        why: String::new(),
        bytes: b"torn".to_vec(),
        torn: true,
    };
    let path = store.set_aside(talk().0, &damage).unwrap().unwrap();
    fs::write(&path, "somebody's notes").unwrap();
    assert_eq!(store.set_aside(talk().0, &damage).unwrap(), Some(path.clone()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's notes");
    let empty = crate::store::Damage { bytes: Vec::new(), ..damage };
    assert_eq!(store.set_aside(talk().0, &empty).unwrap(), None);
}
