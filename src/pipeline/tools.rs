//! The tools a run can call, by full name.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::ToolCall;
use crate::archive::{Archive, context};
use crate::base::fault::HostError;
use crate::mcp::catalog::CatalogTool;
use crate::mcp::registry::ReadyServer;

/// A tool as a model sees it.
#[derive(Clone, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// Its input as JSON Schema, unchanged.
    #[serde(alias = "schema")]
    pub parameters: Box<RawValue>,
}

/// Which call of which run a host tool serves.
#[derive(Clone, Copy)]
pub struct HostCall<'a> {
    /// The run.
    pub run: u32,
    /// The session.
    pub session: &'a str,
    /// The call.
    pub call: &'a ToolCall,
    /// Who approved it, when a person did.
    pub approved: bool,
}

/// What a host's schema made of an input.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validated {
    /// The value, possibly transformed.
    Value(serde_json::Value),
    /// What is wrong with it.
    Issues(Vec<HostIssue>),
}

/// One complaint of a host's schema.
#[derive(Deserialize)]
pub struct HostIssue {
    /// Where in the input.
    #[serde(default)]
    pub path: String,
    /// What is wrong.
    #[serde(default)]
    pub message: String,
}

/// What a host tool returned.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostResult {
    /// The text for the model.
    pub content: String,
    /// Whether the tool calls it an error.
    #[serde(default)]
    pub is_error: bool,
}

/// The host's own tools.
pub trait ToolHandler: Send + Sync {
    /// Runs the tool's schema over an input.
    fn validate<'a>(&'a self, tool: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<Validated, HostError>>;
    /// Runs the tool. Dropping the future aborts the tool's signal.
    fn execute<'a>(&'a self, tool: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<HostResult, HostError>>;
    /// Says that a validated input will not be executed.
    fn forget(&self, run: u32, call: &str);
}

/// Where a call goes.
#[derive(Clone)]
pub enum Route {
    /// The host's tool of that index.
    Host(usize),
    /// A server's tool.
    Server(Arc<ReadyServer>, Arc<CatalogTool>),
    /// The archive of the session.
    Context,
}

/// What the model sees, and where each name leads. Fixed for a run.
pub struct ToolTable {
    routes: HashMap<String, Route>,
    specs: Arc<RawValue>,
}

/// Which tools the model sees, by exact name; never an authorisation.
#[derive(Clone, Default)]
pub struct Visibility {
    /// Only these, when set.
    pub allowed: Option<Vec<String>>,
    /// Never these.
    pub disallowed: Vec<String>,
}

impl Visibility {
    fn shows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|n| n == name))
            && !self.disallowed.iter().any(|n| n == name)
    }
}

impl ToolTable {
    /// Joins host tools, servers' tools and built-in ones. `context` is there when something is archived, or may be:
    /// when there is any other tool.
    #[must_use]
    pub fn new(host: &[ToolSpec], servers: &[Arc<ReadyServer>], visibility: &Visibility, archive: &Archive) -> Self {
        let mut routes = HashMap::new();
        let mut specs = Vec::new();
        for (index, spec) in host.iter().enumerate().filter(|(_, spec)| visibility.shows(&spec.name)) {
            routes.insert(spec.name.clone(), Route::Host(index));
            specs.push(spec.clone());
        }
        for server in servers {
            for tool in server.tools.iter().filter(|tool| visibility.shows(&tool.full_name)) {
                routes.insert(tool.full_name.clone(), Route::Server(Arc::clone(server), Arc::clone(tool)));
                specs.push(ToolSpec {
                    name: tool.full_name.clone(),
                    description: tool.listed.description.clone().unwrap_or_default(),
                    parameters: tool.listed.input_schema.clone(),
                });
            }
        }
        if visibility.shows(context::NAME) && (!specs.is_empty() || !archive.is_empty()) {
            routes.insert(context::NAME.into(), Route::Context);
            specs.extend(built_in(context::NAME, context::DESCRIPTION, &context::parameters()));
        }
        let specs =
            serde_json::value::to_raw_value(&specs).map_or_else(|_| Arc::from(RawValue::NULL.to_owned()), Arc::from);
        Self { routes, specs }
    }

    /// Where a name leads.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Route> {
        self.routes.get(name)
    }

    /// The tools as a JSON array, as models read it.
    #[must_use]
    pub const fn specs(&self) -> &Arc<RawValue> {
        &self.specs
    }
}

fn built_in(name: &str, description: &str, parameters: &serde_json::Value) -> Option<ToolSpec> {
    let parameters = serde_json::value::to_raw_value(parameters).ok()?;
    Some(ToolSpec { name: name.into(), description: description.into(), parameters })
}
