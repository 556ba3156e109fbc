//! The host's hooks: handlers that watch runs and calls, and can change nothing.
//!
//! Owns who is registered, their order, their deadlines and the `diagnostic` of one that fails. Leaves the copies that
//! handlers get, and calls that they may not make, to the host's side.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::call::ToolCall;
use super::event::CallEvent;
use crate::base::emitter::Emitter;
use crate::base::fault::{Fault, HostError};

/// Calls the host's handlers.
pub trait HookHost: Send + Sync {
    /// Calls one handler with an event; resolves when it has settled. Dropping the future aborts the handler's signal.
    fn call<'a>(&'a self, handler: u32, event: &'a RawValue) -> BoxFuture<'a, Result<(), HostError>>;
}

/// What a handler can watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum HookName {
    /// A run has its turn; servers are not prepared yet.
    #[serde(rename = "run:start")]
    RunStart,
    /// A run is over; its caller has no result yet.
    #[serde(rename = "run:end")]
    RunEnd,
    /// A call is about to be looked up.
    #[serde(rename = "tool:start")]
    ToolStart,
    /// A call has its outcome; the model has not seen it yet.
    #[serde(rename = "tool:end")]
    ToolEnd,
}

impl HookName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::RunStart => "run:start",
            Self::RunEnd => "run:end",
            Self::ToolStart => "tool:start",
            Self::ToolEnd => "tool:end",
        }
    }
}

/// How a run or a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are API; index.d.ts explains them")]
pub enum HookStatus {
    Completed,
    Failed,
    Cancelled,
    MaxTurns,
}

/// An error as handlers see it.
#[derive(Serialize)]
#[expect(missing_docs, reason = "the host's types in index.d.ts document the members")]
pub struct HookError<'a> {
    pub name: &'a str,
    pub code: &'a str,
    pub message: &'a str,
}

impl<'a> From<&'a Fault> for HookError<'a> {
    fn from(fault: &'a Fault) -> Self {
        Self { name: fault.code().class(), code: fault.code().as_str(), message: fault.message() }
    }
}

/// What the model reads of a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the host's types in index.d.ts document the members")]
pub struct HookToolResult<'a> {
    pub content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// One event as handlers see it; the field names are API.
#[derive(Serialize)]
#[serde(tag = "event", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the host's types in index.d.ts document each event")]
pub enum HookEvent<'a> {
    #[serde(rename = "run:start")]
    RunStart { input: &'a RawValue },
    #[serde(rename = "run:end")]
    RunEnd {
        status: HookStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<HookError<'a>>,
    },
    #[serde(rename = "tool:start")]
    ToolStart { call: &'a ToolCall },
    #[serde(rename = "tool:end")]
    ToolEnd {
        call: &'a ToolCall,
        status: HookStatus,
        result: HookToolResult<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<HookError<'a>>,
        duration_ms: u64,
    },
}

impl HookEvent<'_> {
    const fn name(&self) -> HookName {
        match self {
            Self::RunStart { .. } => HookName::RunStart,
            Self::RunEnd { .. } => HookName::RunEnd,
            Self::ToolStart { .. } => HookName::ToolStart,
            Self::ToolEnd { .. } => HookName::ToolEnd,
        }
    }
}

#[derive(Clone, Copy)]
struct Registration {
    handler: u32,
    name: HookName,
    limit: Duration,
}

/// The handlers of an agent, in the order of their registration.
pub struct Hooks {
    host: Arc<dyn HookHost>,
    registered: Mutex<Vec<Registration>>,
}

impl Hooks {
    /// No handler yet.
    #[must_use]
    pub fn new(host: Arc<dyn HookHost>) -> Arc<Self> {
        Arc::new(Self { host, registered: Mutex::default() })
    }

    /// Registers a handler under the host's own number; it hears the next event of that name.
    pub fn add(&self, handler: u32, name: HookName, limit: Duration) {
        self.lock().push(Registration { handler, name, limit });
    }

    /// Forgets a handler; one that is not registered is no fault.
    pub fn remove(&self, handler: u32) {
        self.lock().retain(|registration| registration.handler != handler);
    }

    fn of(&self, name: HookName) -> Vec<Registration> {
        self.lock().iter().copied().filter(|registration| registration.name == name).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hooks of one run.
pub struct RunHooks {
    /// The agent's handlers.
    pub hooks: Arc<Hooks>,
    /// The run's id in events.
    pub run: String,
    /// The session's id.
    pub session: Arc<str>,
    /// Where a failing handler is told of.
    pub emitter: Emitter,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    run_id: &'a str,
    session_id: &'a str,
    source: &'static str,
    #[serde(flatten)]
    event: HookEvent<'a>,
}

impl RunHooks {
    /// Whether a handler waits for events of that name.
    #[must_use]
    pub fn has(&self, name: HookName) -> bool {
        self.hooks.lock().iter().any(|registration| registration.name == name)
    }

    /// Tells one event to its handlers, one after another. None can fail the run; without a handler nothing is built.
    pub async fn tell(&self, event: HookEvent<'_>) {
        let name = event.name();
        let handlers = self.hooks.of(name);
        if handlers.is_empty() {
            return;
        }
        let envelope = Envelope { run_id: &self.run, session_id: &self.session, source: "user", event };
        let Ok(event) = to_raw_value(&envelope) else { return };
        for Registration { handler, limit, .. } in handlers {
            let why = match tokio::time::timeout(limit, self.hooks.host.call(handler, &event)).await {
                Ok(Ok(())) => continue,
                // What the host threw is the host's: it may hold anything.
                Ok(Err(_)) => "failed".to_owned(),
                Err(_) => format!("gave no answer within {} ms", limit.as_millis()),
            };
            let message = format!("a handler of the hook `{}` {why}; the agent goes on without it", name.as_str());
            self.emitter.emit(CallEvent::Diagnostic { level: "warning", code: "hook_failed", message: &message }).await;
        }
    }
}
