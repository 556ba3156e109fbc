//! `RUST_LOG`: what this package writes to standard error when it is set.
//!
//! Only our own lines: what other crates write may hold anything.

use std::sync::Once;

use lite_agent::base::env;
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::prelude::*;

/// Starts writing, once in a process, when the host wants it.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(targets) = env::log_filter().and_then(|filter| filter.parse::<Targets>().ok()) else { return };
        let own = filter_fn(|about| about.target().starts_with("lite_agent"));
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
        let _ = tracing_subscriber::registry().with(lines.with_filter(targets).with_filter(own)).try_init();
    });
}
