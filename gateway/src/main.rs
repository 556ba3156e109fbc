//! `lite-gateway`: declares MCP servers once and hands them to agent sessions.
//!
//! The modules stand in the order in which a request passes them. Each uses only those below it and [`limits`].

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

// The command line.
mod commands;

// Sockets and connections.
mod listener;

// Every route, and what their handlers share.
mod app;

// Which requests may come in at all.
mod guard;

// The HTTP API.
mod api;

// The database.
mod store;

// The key of a gateway.
mod keys;

// Sealing of what is stored.
mod seal;

// Private files.
mod data_dir;

// Flags and variables.
mod config;

// Secrets from variables.
mod environment;

// Every limit and time.
mod limits;

#[cfg(test)]
mod testing;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    match commands::run(commands::Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lite-gateway: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and what it came from, on one line.
fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}
