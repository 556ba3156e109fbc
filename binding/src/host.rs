//! What Rust asks of JavaScript: one function, `host(call, op, json) -> Promise<string>`, that never rejects.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use lite_agent::agent::model::{ModelClient, ModelRequest};
use lite_agent::base::emitter::EventListener;
use lite_agent::base::fault::HostError;
use lite_agent::base::secret::Secret;
use lite_agent::mcp::oauth::OAuthProvider;
use lite_agent::mcp::sandbox::SandboxHost;
use lite_agent::pipeline::call::ToolCall;
use lite_agent::pipeline::hooks::HookHost;
use lite_agent::pipeline::permission::{ApprovalHandler, HostPolicies};
use lite_agent::pipeline::tools::{HostCall, HostResult, ToolHandler, Validated};
use napi::bindgen_prelude::{FnArgs, Promise};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

pub(crate) type HostArgs = FnArgs<(u32, String, String)>;
pub(crate) type HostFunction = ThreadsafeFunction<HostArgs, Promise<String>, HostArgs, napi::Status, false, true, 0>;

/// The JavaScript side of one agent.
pub(crate) struct Host {
    function: HostFunction,
    next_call: AtomicU32,
    sinks: Mutex<HashMap<u32, Sink>>,
}

/// Where a model call's chunks go.
enum Sink {
    Open(mpsc::Sender<String>),
    /// The last chunk is taken; the shim ends the stream by itself.
    Ended,
}

/// A reply of the host.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply<T> {
    Ok(T),
    Error(HostError),
}

/// Tells the host to abort a call whose answer nobody waits for any more.
struct AbortOnDrop<'a> {
    host: &'a Host,
    call: u32,
    answered: bool,
}

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        if !self.answered && !self.host.has_ended(self.call) {
            self.host.tell("abort", &json!({ "call": self.call }));
        }
    }
}

/// Keeps a model call's sink while its stream runs.
struct Streaming<'a> {
    host: &'a Host,
    call: u32,
}

impl Drop for Streaming<'_> {
    fn drop(&mut self) {
        self.host.sinks().remove(&self.call);
    }
}

/// What became of a pushed chunk, as the shim reads it.
#[derive(Clone, Copy)]
pub(crate) enum Pushed {
    Taken = 0,
    Full = 1,
    Closed = 2,
}

impl Host {
    pub(crate) fn new(function: HostFunction) -> Self {
        Self { function, next_call: AtomicU32::new(1), sinks: Mutex::default() }
    }

    fn sinks(&self) -> MutexGuard<'_, HashMap<u32, Sink>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sink(&self, call: u32) -> Option<mpsc::Sender<String>> {
        match self.sinks().get(&call) {
            Some(Sink::Open(sender)) => Some(sender.clone()),
            Some(Sink::Ended) | None => None,
        }
    }

    fn has_ended(&self, call: u32) -> bool {
        matches!(self.sinks().get(&call), Some(Sink::Ended))
    }

    /// Hands a chunk to the loop, if it has room.
    pub(crate) fn push(&self, call: u32, chunk: String) -> Pushed {
        match self.sink(call).map(|sink| sink.try_send(chunk)) {
            Some(Ok(())) => Pushed::Taken,
            Some(Err(mpsc::error::TrySendError::Full(_))) => Pushed::Full,
            _ => Pushed::Closed,
        }
    }

    /// Hands over the chunk after which the shim ends the stream by itself, so that nothing need tell it to.
    pub(crate) fn push_last(&self, call: u32, chunk: String) -> Pushed {
        // Marked before it is sent: the loop may drop the call as soon as it has the chunk.
        let Some(Sink::Open(sender)) = self.sinks().insert(call, Sink::Ended) else {
            self.sinks().remove(&call);
            return Pushed::Closed;
        };
        match sender.try_send(chunk) {
            Ok(()) => Pushed::Taken,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.sinks().insert(call, Sink::Open(sender));
                Pushed::Full
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Pushed::Closed,
        }
    }

    /// Resolves to whether there is room again; `false` when nobody reads any more.
    pub(crate) async fn ready(&self, call: u32) -> bool {
        match self.sink(call) {
            Some(sink) => sink.reserve().await.is_ok(),
            None => false,
        }
    }

    /// Says that no chunk follows.
    pub(crate) fn end(&self, call: u32) {
        self.sinks().remove(&call);
    }

    /// Says something that has no answer.
    fn tell(&self, op: &str, payload: &serde_json::Value) {
        let args = (0, op.to_owned(), payload.to_string()).into();
        self.function.call(args, ThreadsafeFunctionCallMode::NonBlocking);
    }

    async fn ask<T: DeserializeOwned>(&self, op: &str, payload: impl Serialize) -> Result<T, HostError> {
        let json = serde_json::to_string(&payload).map_err(|error| HostError::border(error.to_string()))?;
        self.ask_as(self.number(), op, json).await
    }

    fn number(&self) -> u32 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }

    async fn ask_as<T: DeserializeOwned>(&self, call: u32, op: &str, json: String) -> Result<T, HostError> {
        let mut guard = AbortOnDrop { host: self, call, answered: false };
        let gone = |_| HostError::border("the JavaScript side is gone");
        let promise = self.function.call_async_catch((call, op.to_owned(), json).into()).await.map_err(gone)?;
        let reply = promise.await.map_err(gone)?;
        guard.answered = true;
        match serde_json::from_str(&reply) {
            Ok(Reply::Ok(value)) => Ok(value),
            Ok(Reply::Error(error)) => Err(error),
            Err(_) => Err(HostError::border("the reply is not of the agreed form")),
        }
    }
}

/// The parts of the host that the core knows by trait.
#[derive(Clone)]
pub(crate) struct HostParts(pub(crate) Arc<Host>);

impl ModelClient for HostParts {
    fn stream(&self, request: ModelRequest, chunks: mpsc::Sender<String>) -> BoxFuture<'_, Result<(), HostError>> {
        Box::pin(async move {
            let call = self.0.number();
            let json = serde_json::to_string(&request).map_err(|error| HostError::border(error.to_string()))?;
            self.0.sinks().insert(call, Sink::Open(chunks));
            let _sink = Streaming { host: &self.0, call };
            self.0.ask_as::<IgnoredAny>(call, "model.stream", json).await.map(|_| ())
        })
    }

    fn forget(&self, history: &str) {
        self.0.tell("history.forget", &json!({ "key": history }));
    }
}

impl ApprovalHandler for HostParts {
    fn request<'a>(
        &'a self,
        call: &'a ToolCall,
        session: &'a str,
        reason: Option<&'a str>,
    ) -> BoxFuture<'a, Result<serde_json::Value, HostError>> {
        Box::pin(self.0.ask("approval", json!({ "call": call, "sessionId": session, "reason": reason })))
    }
}

impl HostPolicies for HostParts {
    fn check<'a>(
        &'a self,
        id: u32,
        call: &'a ToolCall,
        session: &'a str,
    ) -> BoxFuture<'a, Result<serde_json::Value, HostError>> {
        Box::pin(self.0.ask("policy", json!({ "id": id, "call": call, "sessionId": session })))
    }

    fn where_matches<'a>(&'a self, id: u32, rule: usize, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(self.0.ask("where", json!({ "id": id, "rule": rule, "call": call })))
    }
}

impl ToolHandler for HostParts {
    fn validate<'a>(&'a self, tool: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<Validated, HostError>> {
        let payload = json!({ "tool": tool, "callId": call.call.id, "run": call.run, "input": call.call.input });
        Box::pin(self.0.ask("tool.validate", payload))
    }

    fn execute<'a>(&'a self, tool: usize, call: HostCall<'a>) -> BoxFuture<'a, Result<HostResult, HostError>> {
        #[cfg(feature = "faults")]
        assert_ne!(call.call.name, "plant_panic", "a fault planted by the test");
        let approval = call.approved.then_some("allow");
        let payload = json!({ "tool": tool, "call": call.call, "sessionId": call.session, "run": call.run, "approval": approval });
        Box::pin(self.0.ask("tool.execute", payload))
    }

    fn forget(&self, run: u32, call: &str) {
        self.0.tell("tool.forget", &json!({ "callId": call, "run": run }));
    }
}

impl SandboxHost for HostParts {
    fn initialize(&self) -> BoxFuture<'_, Result<(), HostError>> {
        Box::pin(async { self.0.ask::<IgnoredAny>("sandbox.initialize", json!({})).await.map(|_| ()) })
    }

    fn wrap<'a>(&'a self, command: &'a str, cwd: &'a Path) -> BoxFuture<'a, Result<String, HostError>> {
        Box::pin(self.0.ask("sandbox.wrap", json!({ "command": command, "cwd": cwd })))
    }

    fn dispose(&self) -> BoxFuture<'_, Result<(), HostError>> {
        Box::pin(async { self.0.ask::<IgnoredAny>("sandbox.dispose", json!({})).await.map(|_| ()) })
    }
}

impl HookHost for HostParts {
    fn call<'a>(&'a self, handler: u32, event: &'a RawValue) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move { self.0.ask::<IgnoredAny>("hook", HookCall { handler, event }).await.map(|_| ()) })
    }
}

#[derive(Serialize)]
struct HookCall<'a> {
    handler: u32,
    event: &'a RawValue,
}

impl HostParts {
    /// Asks for a value that nobody may see, and takes it as the text it arrives as.
    async fn ask_secret(&self, op: &str, payload: Secret) -> Result<Secret, HostError> {
        let value: Box<RawValue> = self.0.ask_as(self.0.number(), op, payload.expose().to_owned()).await?;
        Ok(Secret::from(String::from(Box::<str>::from(value))))
    }
}

impl OAuthProvider for HostParts {
    fn call<'a>(
        &'a self,
        server: &'a str,
        member: &'static str,
        arguments: Secret,
    ) -> BoxFuture<'a, Result<Secret, HostError>> {
        let server = json!(server);
        let payload = format!("{{\"server\":{server},\"member\":\"{member}\",\"args\":{}}}", arguments.expose());
        Box::pin(self.ask_secret("oauth.call", payload.into()))
    }

    fn authorize<'a>(&'a self, server: &'a str, url: Secret) -> BoxFuture<'a, Result<Secret, HostError>> {
        let payload = json!({ "server": server, "url": url.expose() }).to_string();
        Box::pin(self.ask_secret("oauth.authorize", payload.into()))
    }
}

impl EventListener for HostParts {
    fn deliver(&self, lines: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let call = self.0.number();
            // A listener's failure is the shim's to keep.
            let _ = self.0.ask_as::<IgnoredAny>(call, "events", lines).await;
        })
    }
}
