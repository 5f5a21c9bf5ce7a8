//! The time, from the system.

use std::time::{SystemTime, UNIX_EPOCH};

use rejoin::record::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_microsecond(i64::try_from(since.as_micros()).unwrap_or(0))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
