//! Declared servers: what a caller or a file says about each, checked and normalised.
//!
//! Owns the shape of a declaration and where declarations come from. [`merge`] is the whole way: it takes the
//! sources in their order. [`file`] reads one `mcps.json`, with [`places`] for lines and columns; [`validate`]
//! reads the fields of one declaration, [`http`] the URL and the headers; [`problem`] collects what is wrong.
//! No message quotes a value.

mod file;
mod http;
mod merge;
mod places;
mod problem;
mod validate;

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use url::Url;

pub use self::merge::{AllowedTransports, Files, Sources, TransportKind};
pub use self::problem::{ConfigError, FilePlace, Position, Problem};
pub use self::validate::{parse_server, parse_servers};
use crate::base::{code::ErrorCode, secret::Secret};

/// At most this many arguments for one server.
pub const MAX_ARGS: usize = 256;
/// The longest deadline, in milliseconds.
pub const MAX_TIMEOUT_MS: u64 = 300_000;
/// The deadline of a server that does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_NAME: usize = 24;

/// The name of a server: 1–24 letters, digits, `_` and `-`, without `__`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServerName(String);

impl ServerName {
    /// Checks `name`.
    ///
    /// # Errors
    /// Says the rule when the name breaks it.
    pub fn parse(name: &str) -> Result<Self, ConfigError> {
        let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if (1..=MAX_NAME).contains(&name.len()) && letters && !name.contains("__") {
            return Ok(Self(name.to_owned()));
        }
        let message =
            format!("the server name must be 1 to {MAX_NAME} of A-Z, a-z, 0-9, \"_\" and \"-\", without \"__\"");
        Err(Problem::new(ErrorCode::McpName, name, "", message).into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a declaration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The file in the home directory.
    Global,
    /// The file of the project.
    Project,
    /// The options of the agent.
    Constructor,
    /// A registration while the agent runs.
    Instance,
}

impl Source {
    /// The source as callers see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Constructor => "constructor",
            Self::Instance => "instance",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One declared server, normalised: equal declarations compare equal.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDeclaration {
    /// Its name.
    pub name: ServerName,
    /// Where it was declared.
    pub source: Source,
    /// The deadline of its calls and of connecting.
    pub timeout: Duration,
    /// How it is reached.
    pub transport: TransportConfig,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum TransportConfig {
    /// A process, spoken to on its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Additions to its environment.
        env: BTreeMap<String, Secret>,
    },
    /// A URL.
    Http {
        /// Where requests go.
        url: Url,
        /// Headers of every request: lower-case names, sorted.
        headers: Vec<(String, Secret)>,
    },
}

impl ServerDeclaration {
    /// Whether both say the same about their server, wherever they were declared.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        self.name == other.name && self.timeout == other.timeout && self.transport == other.transport
    }

    /// The places (JSON pointers) whose value looks like a variable, `${…}`; it is used literally.
    #[must_use]
    pub fn looks_interpolated(&self) -> Vec<String> {
        let mut values: Vec<(String, &str)> = Vec::new();
        match &self.transport {
            TransportConfig::Stdio { command, args, env } => {
                values.push(("/command".into(), command));
                values.extend(args.iter().enumerate().map(|(i, arg)| (format!("/args/{i}"), arg.as_str())));
                values.extend(env.iter().map(|(key, value)| (format!("/env/{key}"), value.expose())));
            }
            TransportConfig::Http { url, headers } => {
                values.push(("/url".into(), url.as_str()));
                values.extend(
                    headers.iter().map(|(key, value)| (format!("/headers/{}", problem::escaped(key)), value.expose())),
                );
            }
        }
        values.into_iter().filter(|(_, value)| has_variable(value)).map(|(path, _)| path).collect()
    }
}

fn has_variable(value: &str) -> bool {
    // A URL holds its braces percent-encoded in some of its parts.
    [("${", "}"), ("$%7B", "%7D")]
        .iter()
        .any(|(start, end)| value.split_once(start).is_some_and(|(_, rest)| rest.contains(end)))
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &format_args!("{} hidden", args.len()))
                .field("env", env)
                .finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("origin", &url.origin().ascii_serialization())
                .field("headers", headers)
                .finish(),
        }
    }
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;
