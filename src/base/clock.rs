//! The time of day: the only place that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 on a clock that stands before that.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place that reads the wall clock")]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
