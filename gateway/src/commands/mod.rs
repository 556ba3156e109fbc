//! The command line: which command, and how it ends.

mod serve;

use clap::{Parser, Subcommand};

use crate::config::{Flags, SettingError};

/// Declare MCP servers once and hand them to agent sessions through one address
#[derive(Debug, Parser)]
#[command(name = "lite-gateway", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Run the gateway (the default)
    Serve,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// A flag or its variable.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Serving.
    #[error(transparent)]
    Serve(#[from] serve::ServeError),
}

/// Runs what the command line asks for.
pub(crate) async fn run(cli: Cli) -> Result<(), CommandError> {
    let settings = cli.flags.resolve()?;
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => Ok(serve::run(settings).await?),
    }
}
