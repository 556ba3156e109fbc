//! The agent: sessions, runs and the servers they share.
//!
//! [`Agent`] owns everything that lives longer than one run. [`sessions`] are its conversations, [`history`] the messages
//! of one. One run is [`run`]; one turn of the model is [`model`].

pub mod config;
pub mod event;
pub mod handle;
pub mod history;
pub mod model;
mod queue;
pub mod run;
pub mod sessions;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::config::ResolvedConfig;
use self::handle::RunHandle;
use self::model::ModelClient;
use self::run::{Run, RunOptions};
use self::sessions::Sessions;
use crate::base::emitter::{Emitter, EventListener, Subscribers};
use crate::base::fault::Fault;
use crate::base::limits::QUEUED_EVENTS;
use crate::base::redact::hide_args;
use crate::mcp::config::{ServerDeclaration, Source, TransportConfig, parse_server};
use crate::mcp::oauth::OAuthProvider;
use crate::mcp::registry::{ConnectAuthority, ConnectWarning, Registry, RegistryOptions, ServerStatus, busy};
use crate::mcp::sandbox::{Sandbox, SandboxHost};
use crate::pipeline::call::ToolCall;
use crate::pipeline::event::CallEvent;
use crate::pipeline::hooks::{HookHost, Hooks, RunHooks};
use crate::pipeline::permission::{ApprovalHandler, CONNECT, HostPolicies, Permission};
use crate::pipeline::tools::ToolHandler;

/// What the host gives an agent.
pub struct AgentHost {
    /// The model.
    pub model: Arc<dyn ModelClient>,
    /// The host's tools.
    pub tools: Arc<dyn ToolHandler>,
    /// Custom policies.
    pub policies: Arc<dyn HostPolicies>,
    /// Asks a person; absent, an "ask" is a "deny".
    pub approval: Option<Arc<dyn ApprovalHandler>>,
    /// What the commands of stdio servers run inside.
    pub sandbox: Option<Arc<dyn SandboxHost>>,
    /// Handlers of hooks.
    pub hooks: Arc<dyn HookHost>,
    /// Where tokens are kept, and who lets people sign in; absent, `mcpOAuth` is without effect.
    pub oauth: Option<Arc<dyn OAuthProvider>>,
    /// Subscribers.
    pub listener: Arc<dyn EventListener>,
}

/// An agent.
pub struct Agent {
    config: ResolvedConfig,
    host: AgentHost,
    permission: Arc<Permission>,
    hooks: Arc<Hooks>,
    registry: Arc<Registry>,
    sandbox: Option<Arc<Sandbox>>,
    subscribers: Arc<Subscribers>,
    sessions: Mutex<Sessions>,
    session: Mutex<Arc<str>>,
    next_run: AtomicU32,
    runs: TaskTracker,
    active: Arc<AtomicUsize>,
    closing: CancellationToken,
}

impl Agent {
    /// Reads the configuration; starts nothing.
    ///
    /// # Errors
    /// `CONFIG_INVALID` and the codes of server declarations.
    #[must_use]
    pub fn new(config: ResolvedConfig, host: AgentHost) -> Arc<Self> {
        let closing = CancellationToken::new();
        let mut config = config;
        let permission = Arc::new(Permission::new(
            config.policy.take(),
            config.permission_mode,
            Arc::clone(&host.policies),
            host.approval.clone(),
        ));
        let sandbox = host.sandbox.clone().map(Sandbox::new);
        let registry = Registry::new(RegistryOptions {
            servers: std::mem::take(&mut config.servers),
            workdir: config.workdir.clone(),
            sandbox: sandbox.clone(),
            oauth: std::mem::take(&mut config.oauth).with_host(host.oauth.clone()),
            closing: closing.child_token(),
        });
        Arc::new(Self {
            hooks: Hooks::new(Arc::clone(&host.hooks)),
            subscribers: Subscribers::new(Arc::clone(&host.listener), closing.clone()),
            session: Mutex::new(uuid::Uuid::new_v4().to_string().into()),
            config,
            host,
            permission,
            registry,
            sandbox,
            sessions: Mutex::default(),
            next_run: AtomicU32::new(1),
            runs: TaskTracker::new(),
            active: Arc::default(),
            closing,
        })
    }

    /// Whether anybody subscribes.
    pub fn set_listening(&self, on: bool) {
        self.subscribers.set_listening(on);
    }

    /// Starts a run and gives the handle to follow it.
    ///
    /// # Errors
    /// `CLOSED`, and `CONFIG_INVALID` for a session id that cannot be used.
    pub fn start(self: &Arc<Self>, options: RunOptions) -> Result<RunHandle, Fault> {
        if self.closing.is_cancelled() {
            return Err(Fault::closed());
        }
        let session = self.session_of(options.session.as_deref(), "`sessionId`")?;
        let (consumer, events) = if options.quiet { (None, None) } else { Some(mpsc::channel(QUEUED_EVENTS)).unzip() };
        let cancel = self.closing.child_token();
        let emitter = Emitter::new(Arc::clone(&session.id), consumer, Arc::clone(&self.subscribers));
        let (place, counted) = (session.queue.join(), session.queue.count());
        let run = Run {
            id: self.next_run.fetch_add(1, Ordering::Relaxed),
            agent: Arc::clone(self),
            hooks: Arc::new(RunHooks {
                hooks: Arc::clone(&self.hooks),
                run: uuid::Uuid::new_v4().to_string(),
                session: Arc::clone(&session.id),
                emitter: emitter.clone(),
            }),
            emitter,
            session,
            cancel: cancel.clone(),
        };
        let (id, weak) = (run.id, run.emitter.downgrade());
        let (finished, outcome) = tokio::sync::oneshot::channel();
        let work = run.supervise(place, options.input);
        let active = Active::count(&self.active);
        crate::base::task::spawn(self.runs.track_future(async move {
            let outcome = work.await;
            // Whoever has the result may change the servers.
            drop((active, counted));
            let _ = finished.send(outcome);
        }));
        Ok(RunHandle::new(id, cancel, weak, events, outcome))
    }

    /// The handlers of hooks.
    #[must_use]
    pub const fn hooks(&self) -> &Arc<Hooks> {
        &self.hooks
    }

    /// The servers, from memory.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.registry.list()
    }

    /// Adds and connects a server.
    ///
    /// # Errors
    /// See [`Registry::register`]; `MCP_BUSY` while a run is active.
    pub async fn register(self: &Arc<Self>, name: &str, declaration: &serde_json::Value) -> Result<(), Fault> {
        let declaration = parse_server(name, declaration, Source::Instance)
            .and_then(|declaration| self.config.transports.check(declaration))
            .map_err(|error| Fault::new(error.code(), error.to_string()))?;
        self.refuse_while_running()?;
        let session = self.session_id();
        let emitter = Emitter::new(Arc::clone(&session), None, Arc::clone(&self.subscribers));
        let outcome = self.registry.register(declaration, &self.authority(&session, emitter)).await;
        self.subscribers.flush().await;
        outcome
    }

    /// Closes and forgets a server.
    ///
    /// # Errors
    /// See [`Registry::unregister`]; `MCP_BUSY` while a run is active.
    pub async fn unregister(&self, name: &str) -> Result<(), Fault> {
        self.refuse_while_running()?;
        self.registry.unregister(name).await
    }

    fn refuse_while_running(&self) -> Result<(), Fault> {
        if !self.closing.is_cancelled() && self.active.load(Ordering::SeqCst) > 0 { Err(busy()) } else { Ok(()) }
    }

    fn authority(&self, session: &Arc<str>, emitter: Emitter) -> Authority {
        Authority { permission: Arc::clone(&self.permission), session: Arc::clone(session), emitter }
    }

    /// Cancels everything, closes every connection and process, then resolves.
    pub async fn close(&self) {
        self.closing.cancel();
        self.runs.close();
        self.registry.close().await;
        self.runs.wait().await;
        if let Some(sandbox) = &self.sandbox
            && let Err(message) = sandbox.dispose().await
        {
            let emitter = Emitter::new(self.session_id(), None, Arc::clone(&self.subscribers));
            emitter.emit(CallEvent::Diagnostic { level: "warning", code: "sandbox_failed", message }).await;
        }
        for (session, archive) in self.archives() {
            if let Err(error) = archive.close().await {
                let message = format!("the archive of the session is not removed: {error}");
                let emitter = Emitter::new(session, None, Arc::clone(&self.subscribers));
                emitter
                    .emit(CallEvent::Diagnostic { level: "warning", code: "archive_failed", message: &message })
                    .await;
            }
        }
        self.subscribers.flush().await;
    }

    /// Cancels everything and kills server processes without waiting, and removes the archives that end with the agent:
    /// for a thread that is going away.
    pub fn abandon(&self) {
        self.closing.cancel();
        self.registry.kill_now();
        for (_, archive) in self.archives() {
            let _ = archive.close_now();
        }
    }
}

/// Counts a run for as long as it may use the servers or its session.
struct Active(Arc<AtomicUsize>);

impl Active {
    fn count(active: &Arc<AtomicUsize>) -> Self {
        active.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(active))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Judges `mcp_connect` for the session that asked first.
struct Authority {
    permission: Arc<Permission>,
    session: Arc<str>,
    emitter: Emitter,
}

impl ConnectAuthority for Authority {
    fn authorize<'a>(&'a self, server: &'a ServerDeclaration) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let call = ToolCall { id: uuid::Uuid::new_v4().to_string(), name: CONNECT.into(), input: describe(server) };
            let decision = self.permission.decide(call, &self.session, &self.emitter).await;
            decision.map(|_permitted| ()).map_err(|denied| denied.reason)
        })
    }

    fn warn(&self, warning: ConnectWarning) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let message = warning.to_string();
            let event = CallEvent::Diagnostic { level: "warning", code: warning.code(), message: &message };
            self.emitter.emit(event).await;
        })
    }
}

/// What `mcp_connect` shows of a server: never a value of a header or of the environment.
fn describe(server: &ServerDeclaration) -> serde_json::Value {
    let name = server.name.as_str();
    match &server.transport {
        TransportConfig::Stdio { command, args, env } => serde_json::json!({
            "server": name, "source": server.source, "type": "stdio",
            "command": command, "args": hide_args(args), "envKeys": env.keys().collect::<Vec<_>>(),
        }),
        TransportConfig::Http { url, headers } => serde_json::json!({
            "server": name, "source": server.source, "type": "http",
            "origin": url.origin().ascii_serialization(), "headerKeys": headers.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        }),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
