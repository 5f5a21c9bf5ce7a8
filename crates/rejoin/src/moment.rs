//! Points in time as people write them, for filters such as "since 7d". The clock and the time zone are passed in.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

/// The point in time that a text names: a day, a time, or how long ago it was. `None` if it names none. A day begins at midnight, and
/// the time zone is that of days and of times that name none.
#[must_use]
pub fn moment(given: &str, now: Timestamp, zone: TimeZone) -> Option<Timestamp> {
    const UNITS: &[(char, i64)] = &[('m', 60), ('h', 3_600), ('d', 86_400), ('w', 604_800)];
    let ago = UNITS.iter().find_map(|(unit, seconds)| {
        let number: i64 = given.strip_suffix(*unit)?.parse().ok().filter(|number| *number >= 0)?;
        Some(SignedDuration::from_secs(number.checked_mul(*seconds)?))
    });
    if let Some(ago) = ago {
        return now.checked_sub(ago).ok();
    }
    match given.parse() {
        Ok(time) => Some(time),
        Err(_) => Some(given.parse::<DateTime>().ok()?.to_zoned(zone).ok()?.timestamp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_days_times_or_how_long_ago() {
        let now: Timestamp = "2026-08-14T12:00:00Z".parse().unwrap();
        let moment = |given| moment(given, now, TimeZone::UTC).map(|time| time.to_string());
        assert_eq!(moment("90m").as_deref(), Some("2026-08-14T10:30:00Z"));
        assert_eq!(moment("7d").as_deref(), Some("2026-08-07T12:00:00Z"));
        assert_eq!(moment("1w"), moment("7d"));
        assert_eq!(moment("2026-08-01T12:00:00+02:00").as_deref(), Some("2026-08-01T10:00:00Z"));
        assert_eq!(moment("2026-08-01").as_deref(), Some("2026-08-01T00:00:00Z"));
        for time in ["2026-08-01 12:30:00", "2026-08-01T12:30:00", "2026-08-01 12:30", "2026-08-01T12:30:00Z"]
        {
            assert_eq!(moment(time).as_deref(), Some("2026-08-01T12:30:00Z"), "{time}");
        }
        for wrong in ["", "d", "-1d", "7 days", "yesterday", "2026-13-01", "9999999999999w"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }
}
