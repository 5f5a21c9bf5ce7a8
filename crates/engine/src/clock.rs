//! Time and random numbers, passed in by the caller so that tests can control them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rejoin_record::{ConversationId, EntryId, Salt, Text, chain::Stamp};

/// A source of times and random bytes.
pub trait Clock: Send + Sync {
    /// The current time, to the microsecond.
    fn now(&self) -> Timestamp;
    /// Fills a buffer with random bytes.
    fn random(&self, bytes: &mut [u8]);
}

/// The clock and the random numbers of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_microsecond(i64::try_from(since.as_micros()).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn random(&self, bytes: &mut [u8]) {
        // Without randomness, ids would repeat; that is worse than a panic.
        getrandom::fill(bytes).expect("the system gives random bytes");
    }
}

/// Makes the id of a new conversation.
pub fn conversation_id(clock: &dyn Clock) -> ConversationId {
    let mut bits = [0; 8];
    clock.random(&mut bits);
    ConversationId::from_random(u64::from_le_bytes(bits))
}

/// Makes the id, the time and the salt of a new entry.
pub fn stamp(clock: &dyn Clock, source_time: Option<Text>) -> Stamp {
    let (mut random, mut salt) = ([0; 10], [0; 16]);
    clock.random(&mut random);
    clock.random(&mut salt);
    let timestamp = clock.now();
    let millis = u64::try_from(timestamp.as_millisecond()).unwrap_or_default();
    Stamp { id: EntryId::new(millis, random), timestamp, salt: Salt(salt), source_time }
}
