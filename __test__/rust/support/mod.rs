//! An agent without JavaScript: a model that follows a script, and a host whose parts a test replaces.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use lite_agent::agent::config::AgentConfig;
use lite_agent::agent::model::{ModelClient, ModelRequest};
use lite_agent::agent::run::{RunInput, RunOptions};
use lite_agent::agent::{Agent, AgentHost};
use lite_agent::base::emitter::EventListener;
use lite_agent::base::fault::{Fault, HostError};
use lite_agent::pipeline::call::ToolCall;
use lite_agent::pipeline::hooks::HookHost;
use lite_agent::pipeline::permission::HostPolicies;
use lite_agent::pipeline::tools::{HostCall, HostResult, ToolHandler, Validated};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Asks for the tool `work` on its first request and is content on every later one.
#[derive(Default)]
struct Scripted(AtomicU32);

impl ModelClient for Scripted {
    fn stream(&self, _: ModelRequest, chunks: mpsc::Sender<String>) -> BoxFuture<'_, Result<(), HostError>> {
        let content = match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => json!([{ "type": "tool_call", "id": "c1", "name": "work", "input": {} }]),
            _ => json!([{ "type": "text", "text": "alive" }]),
        };
        let done = json!({ "type": "message_done", "message": { "role": "assistant", "content": content } });
        Box::pin(async move {
            let _ = chunks.send(done.to_string()).await;
            Ok(())
        })
    }

    fn forget(&self, _history: &str) {}
}

/// What one part of the host does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    #[default]
    Proper,
    /// It never answers.
    Hangs,
    /// It panics.
    Panics,
}

impl Conduct {
    async fn act(self) {
        match self {
            Self::Proper => {}
            Self::Hangs => std::future::pending().await,
            Self::Panics => panic!("a fault planted by the test"),
        }
    }
}

/// A host whose parts misbehave as told.
#[derive(Clone, Copy, Default)]
pub(crate) struct StubHost {
    pub(crate) policy: Conduct,
    pub(crate) schema: Conduct,
    pub(crate) tool: Conduct,
    pub(crate) hook: Conduct,
}

impl ToolHandler for StubHost {
    fn validate<'a>(&'a self, _: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<Validated, HostError>> {
        Box::pin(async move {
            self.schema.act().await;
            Ok(Validated::Value(call.call.input.clone()))
        })
    }

    fn execute<'a>(&'a self, _: usize, _: HostCall<'a>) -> BoxFuture<'a, Result<HostResult, HostError>> {
        Box::pin(async {
            self.tool.act().await;
            Ok(HostResult { content: "worked".into(), is_error: false })
        })
    }

    fn forget(&self, _: u32, _: &str) {}
}

impl HostPolicies for StubHost {
    fn check<'a>(&'a self, _: u32, _: &'a ToolCall, _: &'a str) -> BoxFuture<'a, Result<Value, HostError>> {
        Box::pin(async {
            self.policy.act().await;
            Ok(json!("allow"))
        })
    }

    fn where_matches<'a>(&'a self, _: u32, _: usize, _: &'a ToolCall) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async { Ok(false) })
    }
}

impl HookHost for StubHost {
    fn call<'a>(&'a self, _: u32, _: &'a RawValue) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async {
            self.hook.act().await;
            Ok(())
        })
    }
}

impl EventListener for StubHost {
    fn deliver(&self, _: String) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// An agent with one tool, `work`, and a policy of the host's own; its sessions are in memory.
pub(crate) fn agent(host: StubHost) -> Arc<Agent> {
    agent_with(host, None)
}

/// The same; with a home, its sessions are there.
pub(crate) fn agent_with(host: StubHost, home: Option<&Path>) -> Arc<Agent> {
    let config = json!({
        "workdir": env!("CARGO_MANIFEST_DIR"), "modelId": "scripted", "hasApproval": false,
        "strictMcpConfig": true, "sessions": home.is_some(), "home": home,
        "permission": { "kind": "host", "id": 0 },
        "tools": [{ "name": "work", "description": "", "schema": { "type": "object" } }],
    });
    let parts = AgentHost {
        model: Arc::new(Scripted::default()),
        tools: Arc::new(host),
        policies: Arc::new(host),
        approval: None,
        sandbox: None,
        hooks: Arc::new(host),
        oauth: None,
        listener: Arc::new(host),
    };
    Agent::new(AgentConfig::resolve(&config.to_string()).unwrap(), parts)
}

/// What a user says.
pub(crate) fn said(text: &str) -> RunInput {
    RunInput::read(to_raw_value(text).unwrap()).unwrap()
}

/// One run: its events, and what it came to.
pub(crate) async fn send(agent: &Arc<Agent>) -> (Vec<Value>, Result<Value, Fault>) {
    let run = match agent.start(RunOptions { session: None, input: said("go"), quiet: false }) {
        Ok(run) => run,
        Err(fault) => return (Vec::new(), Err(fault)),
    };
    let mut events = Vec::new();
    while let Some(batch) = run.next_batch().await {
        events.extend(batch.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    (events, run.take_result().map(|result| serde_json::to_value(result).unwrap()))
}
