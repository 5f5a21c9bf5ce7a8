//! Any damage at all: random faults, several at once.

use proptest::prelude::*;

use super::*;

/// Something that happens to a file.
#[derive(Debug, Clone)]
enum Fault {
    Flip(u16, u8),
    Remove(u16, u8),
    Insert(u16, Vec<u8>),
    Double(u16, u8),
    Zero(u16, u8),
    Cut(u16),
}

impl Fault {
    fn strike(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let place = |at: u16| usize::from(at) * bytes.len() / (usize::from(u16::MAX) + 1);
        let stretch = |at: u16, len: u8| place(at)..(place(at) + usize::from(len)).min(bytes.len());
        match self {
            Self::Flip(at, bit) => {
                let at = place(*at);
                bytes[at] ^= 1 << (bit % 8);
            }
            Self::Remove(at, len) => drop(bytes.drain(stretch(*at, *len))),
            Self::Insert(at, new) => drop(bytes.splice(place(*at)..place(*at), new.iter().copied())),
            Self::Double(at, len) => {
                let range = stretch(*at, *len);
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, copy);
            }
            Self::Zero(at, len) => {
                let range = stretch(*at, *len);
                bytes[range].fill(0);
            }
            Self::Cut(at) => bytes.truncate(place(*at).max(1)),
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => any::<(u16, u8)>().prop_map(|(at, bit)| Fault::Flip(at, bit)),
        1 => any::<(u16, u8)>().prop_map(|(at, len)| Fault::Remove(at, len)),
        1 => (any::<u16>(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, new)| Fault::Insert(at, new)),
        1 => (any::<u16>(), prop::sample::select(vec!["\n", "\r\n", "{", "}\n{\"v\":\"1.0\"", "\0\0", "{\"v\":\""]))
            .prop_map(|(at, new)| Fault::Insert(at, new.as_bytes().to_vec())),
        1 => any::<(u16, u8)>().prop_map(|(at, len)| Fault::Double(at, len)),
        1 => any::<(u16, u8)>().prop_map(|(at, len)| Fault::Zero(at, len)),
        1 => any::<u16>().prop_map(Fault::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// S2-33, S2-37, B29: after any faults in a file, every whole line is read, nothing is read that was not written, the faults
    /// are found, and the conversation continues.
    #[test]
    fn any_damage_costs_what_it_strikes(faults in prop::collection::vec(fault(), 1..6)) {
        let damaged = Damaged::new(7);
        let mut bytes = damaged.bytes.clone();
        faults.iter().for_each(|fault| fault.strike(&mut bytes));
        let store = damaged.with(&bytes);
        let (entries, damage) = read(&*store, damaged.id(), 0);
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        for entry in &damaged.entries {
            if lines.contains(&entry.to_line().as_bytes()) {
                prop_assert!(entries.contains(entry), "entry {} is whole", entry.envelope().seq);
            }
        }
        for entry in &entries {
            // An entry that lost exactly its content looks erased: its hashes still verify.
            let body = |other: &Entry| other.body() == entry.body() || entry.body().is_none();
            prop_assert!(damaged.entries.iter().any(body), "this was never written: {}", entry.to_line());
        }
        let mut seqs: Vec<u64> = entries.iter().map(|entry| entry.envelope().seq).collect();
        prop_assert!(seqs.is_sorted());
        seqs.dedup();
        let found = problems(&*store, None);
        prop_assert!(found.len() >= damage.len());
        // A file that was only cut off at the end of a line may be a conversation that ended there.
        let whole = entries == damaged.entries[..entries.len()] && damaged.bytes.starts_with(bytes.trim_ascii_end());
        let same = bytes.trim_ascii() == damaged.bytes.trim_ascii();
        prop_assert!(whole || same || !found.is_empty() || entries == damaged.entries, "{faults:?}");
        damaged.goes_on_somehow(&*store, &entries);
    }
}

impl Damaged {
    /// The conversation continues after the newest readable entry.
    fn goes_on_somehow(&self, store: &dyn Store, entries: &[Entry]) {
        let before = fs::read(self.path()).unwrap();
        let newest = entries.iter().max_by_key(|entry| entry.envelope().seq);
        let mut talk = Talk::new(77);
        talk.id = self.id();
        talk.chain = rejoin_record::Chain::at(newest.map(rejoin_record::Tail::of));
        let next = if newest.is_some() { talk.user("on") } else { talk.header() };
        let after = newest.map(rejoin_record::Tail::of);
        match store.append(self.id(), after, std::slice::from_ref(&next)) {
            Ok(_) => {}
            // If two entries have one number, either may be the newest.
            Err(StoreError::TailMoved { found: Some(found), .. })
                if Some(found.seq) == after.map(|after| after.seq) =>
            {
                return;
            }
            // A line may say by chance that a newer version wrote it, and nothing of it can be checked.
            Err(StoreError::ReadOnly(_)) => return,
            Err(why) => panic!("{why}"),
        }
        assert!(fs::read(self.path()).unwrap().starts_with(&before));
        let (after, _) = read(&*jsonl(self.folder.path()), self.id(), 0);
        assert_eq!(ids(&after), ids(&[entries, &[next]].concat()));
    }
}
