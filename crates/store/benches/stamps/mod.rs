//! Ids, times and salts of the entries that the benchmarks make.

use rejoin_record::{EntryId, Salt, Timestamp, chain::Stamp};

/// The stamp of an entry, a millisecond after that of the number before.
pub fn stamp(number: u64, mut roll: impl FnMut() -> u64) -> Stamp {
    let (mut random, mut salt) = ([0; 10], [0; 16]);
    random[..8].copy_from_slice(&roll().to_le_bytes());
    salt[..8].copy_from_slice(&roll().to_le_bytes());
    let micros = 1_760_000_000_000_000 + number as i64 * 1000;
    Stamp {
        id: EntryId::new(micros as u64 / 1000, random),
        timestamp: Timestamp::from_microsecond(micros).unwrap(),
        salt: Salt(salt),
        source_time: None,
    }
}
