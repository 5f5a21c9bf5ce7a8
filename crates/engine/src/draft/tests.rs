//! Reading and completing drafts that were cut off.

use rejoin_record::json::write;

use super::*;

fn draft(pieces: &str) -> LeftDraft {
    let stamp = |n| Stamp {
        id: EntryId::new(n, [n as u8; 10]),
        timestamp: rejoin_record::Timestamp::UNIX_EPOCH,
        salt: rejoin_record::Salt([0; 16]),
        source_time: None,
    };
    let mut chain = Chain::empty();
    let message = Message::new(Role::Assistant, vec![thought(Origin::default(), "")]);
    let message = chain.append(Kind::Message, &Content::Message(message), stamp(1));
    let mark = chain.append(Kind::Turn, &interrupted(), stamp(2));
    let text = format!("{}\n{}\n{pieces}", message.to_line(), mark.to_line());
    LeftDraft::parse(text.as_bytes()).unwrap()
}

/// A draft may be cut at any byte. The readable part is then a prefix of the written text, and at most one character is missing.
#[test]
fn a_draft_that_is_cut_anywhere_keeps_every_whole_character() {
    let said = "a \"quoted\" \u{1} line\nß 😀 \\ end";
    let mut line = String::from("{\"text\":");
    write::string(&mut line, said);
    line.push_str("}\n");
    assert_eq!(draft(&line).text, said);
    let mut known = String::new();
    for end in 0..line.len() {
        let Some(cut) = line.get(..end) else { continue };
        let read = draft(cut).text;
        assert!(said.starts_with(&read), "{cut}: {read}");
        assert!(read.len() >= known.len(), "{cut}");
        known = read;
    }
    assert_eq!(known, said);
}

/// A process that stores a draft may be killed after the first of its two entries. Then only the second is appended.
#[test]
fn a_draft_that_was_taken_in_by_half_is_completed() {
    let left = || draft("{\"text\":\"Half an ans\"}\n");
    let record =
        |message: Message| Chain::empty().append(Kind::Message, &Content::Message(message), left().message);
    let rest = |recorded: &Entry, tail: Tail| {
        let mut found = DraftEvidence::default();
        found.note(&left(), recorded);
        left().entries(&found, tail)
    };
    let cut = record(left().shown().unwrap());
    let entries = rest(&cut, Tail::of(&cut));
    assert_eq!(entries.iter().map(Entry::id).collect::<Vec<_>>(), [left().mark.id]);
    assert_eq!(entries[0].envelope().parent, Some(cut.id()));
    // A complete answer was not interrupted; if the message is not the last entry, the entries after it decide.
    let complete = record(Message::assistant("Half an answer is enough."));
    assert!(rest(&complete, Tail::of(&complete)).is_empty());
    let later = Tail { id: left().mark.id, ..Tail::of(&cut) };
    assert!(rest(&cut, later).is_empty());
}
