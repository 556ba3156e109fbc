//! The fixed limits and times of the gateway, in one place.

use std::time::Duration;

/// Largest head of a request (line and headers), in bytes.
pub(crate) const HEADER_BYTES: usize = 64 * 1024;
/// How long a client may take to send it.
pub(crate) const HEADER_WAIT: Duration = Duration::from_secs(15);
/// How long open requests may take to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
