//! The addon: converts and calls, nothing else.
//!
//! [`agent`] is the one class, [`host`] is what Rust asks of JavaScript, [`runtime`] the threads, [`log`] what is
//! written for debugging. Everything crosses as JSON text.

#![expect(clippy::needless_pass_by_value, reason = "napi hands over owned values")]

mod agent;
mod host;
mod log;
mod runtime;
