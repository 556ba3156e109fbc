//! The agent core: the loop, the tool pipeline and MCP servers, without Node.js.
//!
//! The modules stand in the order in which a call passes them. Each uses only those below it.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::needless_pass_by_value,
        reason = "a test may fail loudly"
    )
)]

// The loop: sessions, turns, the model, events.
pub mod agent;

// One tool call, gate by gate.
pub mod pipeline;

// Servers: declarations, the registry, connections, transports.
pub mod mcp;

// What is too large for the model: the archive of a session, and the tool that reads it.
pub mod archive;

// A session's files: where they are, and the transcript.
pub mod session;

// Compiled JSON Schema.
pub mod schema;

// What everything may use: codes, faults, limits, secrets, tasks.
pub mod base;
