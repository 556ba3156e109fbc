//! A panic inside a call becomes an `INTERNAL` fault; the agent lives on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use lite_agent::agent::config::AgentConfig;
use lite_agent::agent::model::{ModelClient, ModelRequest};
use lite_agent::agent::run::RunOptions;
use lite_agent::agent::{Agent, AgentHost};
use lite_agent::base::code::ErrorCode;
use lite_agent::base::emitter::EventListener;
use lite_agent::base::fault::{Fault, HostError};
use lite_agent::pipeline::call::ToolCall;
use lite_agent::pipeline::permission::HostPolicies;
use lite_agent::pipeline::tools::{HostCall, HostResult, ToolHandler, Validated};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Asks for the tool on its first request and is content on every later one.
#[derive(Default)]
struct Scripted(AtomicU32);

impl ModelClient for Scripted {
    fn stream(&self, _: ModelRequest, chunks: mpsc::Sender<String>) -> BoxFuture<'_, Result<(), HostError>> {
        let content = match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => json!([{ "type": "tool_call", "id": "c1", "name": "burst", "input": {} }]),
            _ => json!([{ "type": "text", "text": "alive" }]),
        };
        let done = json!({ "type": "message_done", "message": { "role": "assistant", "content": content } });
        Box::pin(async move {
            let _ = chunks.send(done.to_string()).await;
            Ok(())
        })
    }
}

struct Bursting;

impl ToolHandler for Bursting {
    fn validate<'a>(&'a self, _: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<Validated, HostError>> {
        Box::pin(async move { Ok(Validated::Value(call.call.input.clone())) })
    }

    fn execute<'a>(&'a self, _: usize, _: HostCall<'a>) -> BoxFuture<'a, Result<HostResult, HostError>> {
        Box::pin(async { panic!("a fault planted by the test") })
    }

    fn forget(&self, _: u32, _: &str) {}
}

struct Nobody;

impl HostPolicies for Nobody {
    fn check<'a>(&'a self, _: u32, _: &'a ToolCall, _: &'a str) -> BoxFuture<'a, Result<Value, HostError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn where_matches<'a>(&'a self, _: u32, _: usize, _: &'a ToolCall) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async { Ok(false) })
    }
}

impl EventListener for Nobody {
    fn deliver(&self, _: String) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

async fn send(agent: &Arc<Agent>) -> Result<Value, Fault> {
    let message = serde_json::value::to_raw_value(&json!({ "role": "user", "content": "go" })).unwrap();
    let run = agent.start(RunOptions { session: None, messages: vec![message], quiet: true })?;
    assert_eq!(run.next_batch().await, None);
    run.take_result().map(|result| serde_json::to_value(result).unwrap())
}

#[tokio::test]
async fn a_panic_inside_a_call_is_an_internal_fault_and_the_agent_lives() {
    let config = json!({
        "workdir": env!("CARGO_MANIFEST_DIR"), "modelId": "scripted", "hasApproval": false,
        "tools": [{ "name": "burst", "description": "", "schema": { "type": "object" } }],
    });
    let host = AgentHost {
        model: Arc::new(Scripted::default()),
        tools: Arc::new(Bursting),
        policies: Arc::new(Nobody),
        approval: None,
        listener: Arc::new(Nobody),
    };
    let agent = Agent::new(AgentConfig::resolve(&config.to_string()).unwrap(), host);

    let fault = send(&agent).await.unwrap_err();
    assert_eq!(fault.code(), ErrorCode::Internal);
    assert!(!fault.message().contains("planted"));

    assert_eq!(send(&agent).await.unwrap()["text"], "alive");
    agent.close().await;
    assert_eq!(send(&agent).await.unwrap_err().code(), ErrorCode::Closed);
}
