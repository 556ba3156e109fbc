//! From the sources to one list of servers: global, project, constructor.
//!
//! Different names merge, equal declarations count once, different ones of one name conflict. Whatever is
//! wrong in any source is told at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::file::McpsFile;
use super::problem::{ConfigError, FilePlace, Problem};
use super::validate::parse_servers;
use super::{ServerDeclaration, ServerName, Source, TransportConfig};
use crate::base::code::ErrorCode;
use crate::base::limits::SERVERS;

/// The kinds of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// A process.
    Stdio,
    /// A URL.
    Http,
}

/// The transports a host allows; all of them unless it says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct AllowedTransports(Option<Vec<TransportKind>>);

impl AllowedTransports {
    /// Only these.
    #[must_use]
    pub const fn only(kinds: Vec<TransportKind>) -> Self {
        Self(Some(kinds))
    }

    /// Gives the declaration back when its transport is allowed.
    ///
    /// # Errors
    /// `MCP_TRANSPORT`.
    pub fn check(&self, declaration: ServerDeclaration) -> Result<ServerDeclaration, ConfigError> {
        let (kind, name) = match declaration.transport {
            TransportConfig::Stdio { .. } => (TransportKind::Stdio, "stdio"),
            TransportConfig::Http { .. } => (TransportKind::Http, "http"),
        };
        match &self.0 {
            Some(allowed) if !allowed.contains(&kind) => {
                let message = format!("the transport \"{name}\" is not among the allowed mcpTransports");
                Err(Problem::new(ErrorCode::McpTransport, declaration.name.as_str(), "", message).into())
            }
            _ => Ok(declaration),
        }
    }
}

/// Whether the two files count.
pub enum Files<'a> {
    /// Both are read.
    Read {
        /// The global directory, when there is one.
        home: Option<PathBuf>,
        /// The project's directory.
        workdir: &'a Path,
    },
    /// Neither is looked at.
    Ignored,
}

/// Everything that declares servers before an agent runs.
pub struct Sources<'a> {
    /// The two files.
    pub files: Files<'a>,
    /// The `mcpServers` of the constructor.
    pub constructor: Option<&'a Value>,
    /// Which transports any of them may use.
    pub transports: &'a AllowedTransports,
}

/// A declaration and its place, when it stands in a file.
pub(super) struct Placed {
    pub(super) declaration: ServerDeclaration,
    pub(super) place: Option<FilePlace>,
}

impl Sources<'_> {
    /// The servers in the order of their sources.
    ///
    /// # Errors
    /// Everything that is wrong in any source; `MCP_CONFLICT`; `MCP_LIMIT`.
    pub fn resolve(self) -> Result<Vec<ServerDeclaration>, ConfigError> {
        let mut sources = Vec::new();
        if let Files::Read { home, workdir } = &self.files {
            let global = home.clone().map(McpsFile::global);
            let files = global.into_iter().chain([McpsFile::project(workdir.to_path_buf())]);
            sources.extend(files.map(|file| file.load(self.transports)));
        }
        sources.push(self.constructor());
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for source in sources {
            match source {
                Ok(placed) => found.extend(placed),
                Err(error) => problems.extend_from_slice(error.problems()),
            }
        }
        merge(found, problems)
    }

    fn constructor(&self) -> Result<Vec<Placed>, ConfigError> {
        let Some(servers) = self.constructor else {
            return Ok(Vec::new());
        };
        let declarations = parse_servers(servers, Source::Constructor, self.transports)?;
        Ok(declarations.into_iter().map(|declaration| Placed { declaration, place: None }).collect())
    }
}

fn merge(found: Vec<Placed>, mut problems: Vec<Problem>) -> Result<Vec<ServerDeclaration>, ConfigError> {
    let mut merged: Vec<Placed> = Vec::new();
    let mut known: HashMap<ServerName, usize> = HashMap::new();
    for next in found {
        match known.get(&next.declaration.name).and_then(|&at| merged.get(at)) {
            None => {
                known.insert(next.declaration.name.clone(), merged.len());
                merged.push(next);
            }
            Some(first) if first.declaration.same_content(&next.declaration) => {}
            Some(first) => problems.push(conflict(first, &next)),
        }
    }
    if merged.len() > SERVERS {
        let message = format!("{} servers are declared, at most {SERVERS} are allowed", merged.len());
        problems.push(Problem::new(ErrorCode::McpLimit, "", "", message));
    }
    let servers = merged.into_iter().map(|placed| placed.declaration).collect();
    ConfigError::all(problems).map_or(Ok(servers), Err)
}

fn conflict(first: &Placed, second: &Placed) -> Problem {
    let source = |placed: &Placed| match placed.place {
        Some(place) => format!("the {place}"),
        None => format!("the {}", placed.declaration.source),
    };
    let message = format!(
        "Conflicting declarations, one in {} and another in {}; rename one, or make them equal",
        source(first),
        source(second)
    );
    Problem::new(ErrorCode::McpConflict, second.declaration.name.as_str(), "", message)
}
