//! The one native class. Strings in, strings out; see `js/border.d.ts` for the agreed forms.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lite_agent::agent::config::AgentConfig;
use lite_agent::agent::handle::RunHandle;
use lite_agent::agent::run::{RunInput, RunOptions};
use lite_agent::agent::{Agent, AgentHost};
use lite_agent::base::code::ErrorCode;
use lite_agent::base::fault::Fault;
use lite_agent::pipeline::hooks::HookName;
use napi::bindgen_prelude::{Env, Function, Promise};
use napi_derive::napi;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::host::{Host, HostArgs, HostParts};

/// An agent, as the shim sees it.
#[napi]
pub struct NativeAgent {
    host: Arc<Host>,
    agent: Arc<OnceLock<Arc<Agent>>>,
    runs: Mutex<HashMap<u32, Arc<RunHandle>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartRun {
    session_id: Option<String>,
    /// A string, or the list of messages.
    input: Box<RawValue>,
    #[serde(default)]
    quiet: bool,
}

#[napi]
impl NativeAgent {
    /// Takes the host function; reads nothing and starts nothing.
    #[napi(
        constructor,
        catch_unwind,
        ts_args_type = "host: (call: number, op: string, json: string) => Promise<string>"
    )]
    pub fn new(env: Env, host: Function<'_, HostArgs, Promise<String>>) -> napi::Result<Self> {
        crate::log::start();
        let function = host.build_threadsafe_function::<HostArgs>().weak::<true>().build()?;
        let agent: Arc<OnceLock<Arc<Agent>>> = Arc::default();
        // A thread that goes away takes its runs and its child processes with it.
        // The hook outlives the agent, and must not keep it.
        env.add_env_cleanup_hook(Arc::downgrade(&agent), |agent| {
            if let Some(agent) = agent.upgrade().as_ref().and_then(|agent| agent.get()) {
                agent.abandon();
            }
        })?;
        Ok(Self { host: Arc::new(Host::new(function)), agent, runs: Mutex::default() })
    }

    /// Reads the configuration; an outcome.
    #[napi(catch_unwind)]
    pub fn configure(&self, config: String) -> String {
        outcome(AgentConfig::resolve(&config).map(|config| {
            let parts = HostParts(Arc::clone(&self.host));
            let host = AgentHost {
                model: Arc::new(parts.clone()),
                tools: Arc::new(parts.clone()),
                policies: Arc::new(parts.clone()),
                approval: config.has_approval.then(|| Arc::new(parts.clone()) as _),
                sandbox: config.has_sandbox.then(|| Arc::new(parts.clone()) as _),
                hooks: Arc::new(parts.clone()),
                oauth: Some(Arc::new(parts.clone())),
                listener: Arc::new(parts),
            };
            let agent = self.agent.get_or_init(|| Agent::new(config, host));
            json!({ "sessionId": agent.session_id() })
        }))
    }

    /// Makes a session the one that runs use by default; an outcome.
    #[napi(catch_unwind)]
    pub fn resume(&self, session: String) -> String {
        outcome(self.agent().and_then(|agent| agent.resume(&session)))
    }

    /// Makes a new session the one that runs use by default; an outcome with its id.
    #[napi(catch_unwind)]
    pub fn clear(&self) -> String {
        outcome(self.agent().map(|agent| json!({ "sessionId": agent.clear() })))
    }

    /// The saved sessions; an outcome.
    #[napi]
    pub async fn list_sessions(&self) -> String {
        outcome(async { self.agent()?.list_sessions().await }.await)
    }

    /// Removes the messages and the archive of a session; an outcome.
    #[napi]
    pub async fn delete_session(&self, session: String) -> String {
        outcome(async { self.agent()?.delete_session(&session).await }.await)
    }

    /// Starts a run; an outcome with its number.
    #[napi(catch_unwind)]
    pub fn start_run(&self, start: String) -> String {
        let start = || -> Result<serde_json::Value, Fault> {
            let StartRun { session_id, input, quiet } =
                serde_json::from_str(&start).map_err(|_| unreadable("the input of the run"))?;
            let agent = self.agent()?;
            let options = RunOptions { session: session_id, input: RunInput::read(input)?, quiet };
            let run = napi::bindgen_prelude::within_runtime_if_available(|| agent.start(options))?;
            let id = run.id();
            self.runs().insert(id, Arc::new(run));
            Ok(json!({ "run": id }))
        };
        outcome(start())
    }

    /// The next events as JSON lines; `null` when the run is over.
    #[napi]
    pub async fn next_batch(&self, run: u32) -> Option<String> {
        self.run(run)?.next_batch().await
    }

    /// What the run came to; releases it.
    #[napi(catch_unwind)]
    pub fn run_outcome(&self, run: u32) -> String {
        let taken = self.runs().remove(&run);
        match taken {
            Some(run) => outcome(run.take_result()),
            None => outcome::<()>(Err(Fault::internal())),
        }
    }

    /// Aborts a run.
    #[napi(catch_unwind)]
    pub fn cancel_run(&self, run: u32) {
        if let Some(run) = self.run(run) {
            run.cancel();
        }
    }

    /// Aborts a run, waits until nothing of it runs any more, and releases it.
    #[napi]
    pub async fn drop_run(&self, run: u32) {
        let taken = self.runs().remove(&run);
        if let Some(run) = taken {
            run.end().await;
        }
    }

    /// Says whether anybody subscribes.
    #[napi(catch_unwind)]
    pub fn set_listening(&self, on: bool) {
        if let Some(agent) = self.agent.get() {
            agent.set_listening(on);
        }
    }

    /// Hands over a model chunk: 0 taken, 1 full, 2 closed.
    #[napi(catch_unwind)]
    pub fn push_chunk(&self, call: u32, chunk: String) -> u32 {
        self.host.push(call, chunk) as u32
    }

    /// Hands over the chunk that ends a model's answer, as `pushChunk`; once it is taken, nobody aborts the call.
    #[napi(catch_unwind)]
    pub fn push_last_chunk(&self, call: u32, chunk: String) -> u32 {
        self.host.push_last(call, chunk) as u32
    }

    /// Resolves when a model may push again; `false` when nobody reads any more.
    #[napi]
    pub async fn chunk_ready(&self, call: u32) -> bool {
        self.host.ready(call).await
    }

    /// Says that a model pushes no more.
    #[napi(catch_unwind)]
    pub fn end_chunks(&self, call: u32) {
        self.host.end(call);
    }

    /// Tells an event of a host tool to the run's consumers.
    #[napi(catch_unwind)]
    pub fn emit_event(&self, run: u32, event: String) {
        if let Some(run) = self.run(run) {
            napi::bindgen_prelude::within_runtime_if_available(|| run.tell(event));
        }
    }

    /// Registers a hook's handler under the shim's number; an outcome.
    #[napi(catch_unwind)]
    pub fn add_hook(&self, handler: u32, name: String, timeout_ms: u32) -> String {
        let add = || -> Result<(), Fault> {
            let name: HookName = serde_json::from_value(name.into()).map_err(|_| Fault::internal())?;
            self.agent()?.hooks().add(handler, name, Duration::from_millis(timeout_ms.into()));
            Ok(())
        };
        outcome(add())
    }

    /// Forgets a hook's handler.
    #[napi(catch_unwind)]
    pub fn remove_hook(&self, handler: u32) {
        if let Some(agent) = self.agent.get() {
            agent.hooks().remove(handler);
        }
    }

    /// Resolves when a session has no run under way or waiting; `null` is the agent's own session. An outcome.
    #[napi]
    pub async fn await_idle(&self, session: Option<String>) -> String {
        if let Some(agent) = self.agent.get() {
            agent.await_idle(session.as_deref()).await;
        }
        outcome(Ok(()))
    }

    /// Adds and connects a server; an outcome.
    #[napi]
    pub async fn mcp_register(&self, name: String, declaration: String) -> String {
        let register = async {
            let declaration = serde_json::from_str(&declaration).map_err(|_| unreadable("the declaration"))?;
            self.agent()?.register(&name, &declaration).await
        };
        outcome(register.await)
    }

    /// Closes and forgets a server; an outcome.
    #[napi]
    pub async fn mcp_unregister(&self, name: String) -> String {
        let unregister = async { self.agent()?.unregister(&name).await };
        outcome(unregister.await)
    }

    /// The servers as a JSON array.
    #[napi(catch_unwind)]
    pub fn mcp_list(&self) -> String {
        let servers = self.agent.get().map(|agent| agent.servers()).unwrap_or_default();
        serde_json::to_string(&servers).unwrap_or_else(|_| "[]".into())
    }

    /// Cancels everything and closes every connection; an outcome.
    #[napi]
    pub async fn close(&self) -> String {
        if let Some(agent) = self.agent.get() {
            agent.close().await;
        }
        outcome(Ok(()))
    }

    /// Kills every server process at once: for a process that is about to exit.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        if let Some(agent) = self.agent.get() {
            agent.abandon();
        }
    }

    fn agent(&self) -> Result<Arc<Agent>, Fault> {
        self.agent.get().cloned().ok_or_else(Fault::closed)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u32, Arc<RunHandle>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, run: u32) -> Option<Arc<RunHandle>> {
        self.runs().get(&run).cloned()
    }
}

impl Drop for NativeAgent {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// What passed the shim's checks and still cannot be read nests deeper than JSON may.
fn unreadable(what: &str) -> Fault {
    Fault::new(ErrorCode::ConfigInvalid, format!("{what} nests too deeply"))
}

/// `{"ok":…}` or `{"error":…}`.
fn outcome<T: Serialize>(result: Result<T, Fault>) -> String {
    let text = match &result {
        Ok(value) => serde_json::to_string(&Wrapped { ok: value }),
        Err(error) => serde_json::to_string(&json!({ "error": error })),
    };
    text.unwrap_or_else(|_| {
        r#"{"error":{"name":"AgentError","code":"INTERNAL","message":"a result could not be written"}}"#.into()
    })
}

#[derive(Serialize)]
struct Wrapped<'a, T> {
    ok: &'a T,
}
