//! Time and chance, as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rejoin_record::{ConversationId, EntryId, Salt, Text, chain::Stamp};

/// What tells the time and draws random bytes.
pub trait Clock: Send + Sync {
    /// Now, to the microsecond.
    fn now(&self) -> Timestamp;
    /// Fills in random bytes.
    fn random(&self, bytes: &mut [u8]);
}

/// The system's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_microsecond(i64::try_from(since.as_micros()).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn random(&self, bytes: &mut [u8]) {
        // Without randomness there are no ids, and an id that is used twice would be worse than stopping.
        getrandom::fill(bytes).expect("the system gives random bytes");
    }
}

/// A new conversation's id.
pub fn conversation_id(clock: &dyn Clock) -> ConversationId {
    let mut bits = [0; 8];
    clock.random(&mut bits);
    ConversationId::from_random(u64::from_le_bytes(bits))
}

/// Id, time and salt of a new entry.
pub fn stamp(clock: &dyn Clock, source_time: Option<Text>) -> Stamp {
    let (mut random, mut salt) = ([0; 10], [0; 16]);
    clock.random(&mut random);
    clock.random(&mut salt);
    let timestamp = clock.now();
    let millis = u64::try_from(timestamp.as_millisecond()).unwrap_or_default();
    Stamp { id: EntryId::new(millis, random), timestamp, salt: Salt(salt), source_time }
}
