//! The addon: converts and calls, nothing else.
//!
//! [`agent`] is the one class, [`host`] is what Rust asks of JavaScript. Everything crosses as JSON text.

mod agent;
mod host;
