//! The entries: each server's state, and what can be said of all of them at one moment.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::preparation::Preparation;
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
use crate::mcp::catalog::CatalogTool;
use crate::mcp::config::{ServerDeclaration, Source};
use crate::mcp::connection::Connection;

/// A ready server.
pub struct ReadyServer {
    /// Its declaration.
    pub declaration: Arc<ServerDeclaration>,
    /// The live connection.
    pub connection: Arc<Connection>,
    /// Its tools.
    pub tools: Vec<Arc<CatalogTool>>,
}

pub(super) enum State {
    Configured,
    Connecting,
    Ready(Arc<ReadyServer>),
    Stale(Arc<ReadyServer>, Fault),
    Failed(Fault),
}

pub(super) struct Entry {
    pub(super) declaration: Arc<ServerDeclaration>,
    pub(super) state: State,
}

/// One line of `list()`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    name: String,
    source: Source,
    status: &'static str,
    tool_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) entries: Vec<Entry>,
    pub(super) preparation: Option<Preparation>,
    pub(super) mutating: bool,
    pub(super) closed: bool,
}

impl Inner {
    pub(super) fn notice_ended(&mut self) {
        for entry in &mut self.entries {
            if let State::Ready(ready) = &entry.state
                && let Some(why) = ready.connection.ended()
            {
                let message = format!(
                    "server `{}`: catalog unavailable ({why}); unregister it and register it again",
                    entry.declaration.name
                );
                entry.state = State::Stale(Arc::clone(ready), Fault::new(ErrorCode::McpStale, message));
            }
        }
    }

    /// Of servers whose tools would have the same full name, the later one is refused.
    pub(super) fn refuse_taken_names(
        &self,
        results: Vec<Result<ReadyServer, Fault>>,
        unused: &mut Vec<ReadyServer>,
    ) -> Vec<Result<ReadyServer, Fault>> {
        let mut judged: Vec<Result<ReadyServer, Fault>> = Vec::with_capacity(results.len());
        for result in results {
            let refusal = result.as_ref().ok().and_then(|ready| self.taken_name(&judged, ready));
            judged.push(match (result, refusal) {
                (Ok(ready), Some(fault)) => {
                    unused.push(ready);
                    Err(fault)
                }
                (result, _) => result,
            });
        }
        judged
    }

    pub(super) fn taken_name(&self, mates: &[Result<ReadyServer, Fault>], candidate: &ReadyServer) -> Option<Fault> {
        let published = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Ready(ready) | State::Stale(ready, _) => Some(&**ready),
            _ => None,
        });
        let mut known = published.chain(mates.iter().flatten());
        known.find_map(|other| {
            let names: HashSet<&str> = other.tools.iter().map(|tool| tool.full_name.as_str()).collect();
            let taken = candidate.tools.iter().find(|tool| names.contains(tool.full_name.as_str()))?;
            let (server, other, name) = (&candidate.declaration.name, &other.declaration.name, &taken.full_name);
            let message = format!(
                "server `{server}`: the tool name `{name}` is already used by server `{other}`; declare one of them under another name"
            );
            Some(Fault::new(ErrorCode::McpName, message))
        })
    }

    pub(super) fn refuse_unusable(&self) -> Result<(), Fault> {
        let unusable = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Stale(_, fault) | State::Failed(fault) => Some(fault.clone()),
            _ => None,
        });
        all_of(&unusable.collect::<Vec<_>>())
    }

    pub(super) fn take_configured(&mut self) -> Vec<Arc<ServerDeclaration>> {
        let configured = self.entries.iter_mut().filter(|entry| matches!(entry.state, State::Configured));
        configured
            .map(|entry| {
                entry.state = State::Connecting;
                Arc::clone(&entry.declaration)
            })
            .collect()
    }
}

impl Entry {
    pub(super) fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Ready(ready) | State::Stale(ready, _) => Some(&ready.connection),
            _ => None,
        }
    }

    pub(super) fn status(&self) -> ServerStatus {
        let (status, ready, fault) = match &self.state {
            State::Configured => ("configured", None, None),
            State::Connecting => ("connecting", None, None),
            State::Ready(ready) => ("ready", Some(ready), None),
            State::Stale(ready, fault) => ("stale", Some(ready), Some(fault)),
            State::Failed(fault) => ("error", None, Some(fault)),
        };
        ServerStatus {
            name: self.declaration.name.to_string(),
            source: self.declaration.source,
            status,
            tool_names: ready
                .map(|ready| ready.tools.iter().map(|tool| tool.full_name.clone()).collect())
                .unwrap_or_default(),
            error: fault.map(|fault| format!("{}: {}", fault.code().as_str(), fault.message())),
        }
    }
}

/// One fault for all that failed: the first one's code, everyone's sentence.
pub(super) fn all_of(faults: &[Fault]) -> Result<(), Fault> {
    let Some(first) = faults.first() else { return Ok(()) };
    let messages: Vec<&str> = faults.iter().map(Fault::message).collect();
    Err(Fault::new(first.code(), messages.join("; ")))
}
