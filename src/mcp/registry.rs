//! Which servers an agent has, in which state, and every change of that.
//!
//! Owns the entries and their connections. Leaves permission to [`ConnectAuthority`] and the bytes to
//! [`connection`](super::connection).

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, Shared, join_all};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::catalog::{self, CatalogTool};
use super::config::{ServerDeclaration, ServerName};
use super::connection::{Connection, ConnectionOptions};
use super::oauth::OAuthServers;
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
use crate::base::limits::SERVERS;

/// The one who asked for a server to be connected.
pub trait ConnectAuthority: Send + Sync {
    /// Says whether a server may be connected to; called once per server before its first byte or process.
    /// Resolves to the sentence of the denial when it may not.
    fn authorize<'a>(&'a self, server: &'a ServerDeclaration) -> BoxFuture<'a, Result<(), String>>;

    /// Hears what is odd about a server, yet no failure.
    fn warn(&self, warning: ConnectWarning) -> BoxFuture<'_, ()>;
}

/// Something odd about a server that does not keep it from being used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectWarning {
    /// A value looks as if somebody expected it to be replaced.
    #[error("server `{server}`: the value at {path} holds `${{…}}`, which is used literally; nothing is interpolated")]
    Interpolation {
        /// The server.
        server: ServerName,
        /// Where in its declaration.
        path: String,
    },
    /// A tool's `x-mcp-header` is forbidden, so the tool is left out.
    #[error("server `{server}`: the tool {tool:?} is left out: {why}")]
    ToolLeftOut {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// What is wrong with its annotation.
        why: String,
    },
    /// The server writes something else than messages to its standard output.
    #[error(
        "server `{server}` writes lines to its standard output that are no messages; they are skipped. It should log to standard error"
    )]
    SkippedLines {
        /// The server.
        server: ServerName,
    },
}

impl ConnectWarning {
    /// The stable word in `diagnostic` events.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Interpolation { .. } => "mcp_interpolation",
            Self::ToolLeftOut { .. } => "mcp_tool_left_out",
            Self::SkippedLines { .. } => "mcp_skipped_lines",
        }
    }
}

/// A ready server.
pub struct ReadyServer {
    /// Its declaration.
    pub declaration: Arc<ServerDeclaration>,
    /// The live connection.
    pub connection: Arc<Connection>,
    /// Its tools.
    pub tools: Vec<Arc<CatalogTool>>,
}

enum State {
    Configured,
    Connecting,
    Ready(Arc<ReadyServer>),
    Stale(Arc<ReadyServer>, Fault),
    Failed(Fault),
}

struct Entry {
    declaration: Arc<ServerDeclaration>,
    state: State,
}

/// One line of `list()`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    name: String,
    source: super::config::Source,
    status: &'static str,
    tool_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

type Work = Shared<BoxFuture<'static, Result<(), Fault>>>;

/// A preparation under way: its work, how many wait for it, and how to give it up.
struct Preparation {
    work: Work,
    waiters: Arc<AtomicUsize>,
    cancel: CancellationToken,
}

impl Preparation {
    fn join(&self) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter { work: self.work.clone(), waiters: Arc::clone(&self.waiters), cancel: self.cancel.clone() }
    }
}

/// One who waits for a preparation; the last to leave gives it up.
struct Waiter {
    work: Work,
    waiters: Arc<AtomicUsize>,
    cancel: CancellationToken,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.waiters.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancel.cancel();
        }
    }
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    preparation: Option<Preparation>,
    mutating: bool,
    closed: bool,
}

/// The servers of one agent.
pub struct Registry {
    inner: Mutex<Inner>,
    workdir: PathBuf,
    oauth: OAuthServers,
    closing: CancellationToken,
}

/// Releases the right to change the registry.
struct Mutation<'a>(&'a Registry);

impl Drop for Mutation<'_> {
    fn drop(&mut self) {
        self.0.lock().mutating = false;
    }
}

impl Registry {
    /// A registry of declared servers; connects nothing.
    #[must_use]
    pub fn new(
        declarations: Vec<ServerDeclaration>,
        workdir: PathBuf,
        oauth: OAuthServers,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let entries = declarations
            .into_iter()
            .map(|declaration| Entry { declaration: Arc::new(declaration), state: State::Configured })
            .collect();
        Arc::new(Self { inner: Mutex::new(Inner { entries, ..Inner::default() }), workdir, oauth, closing })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot from memory, in declaration order.
    #[must_use]
    pub fn list(&self) -> Vec<ServerStatus> {
        let mut inner = self.lock();
        inner.notice_ended();
        inner.entries.iter().map(Entry::status).collect()
    }

    /// Connects everything that is still only configured; many sessions may wait for one preparation.
    ///
    /// A caller that stops waiting harms nobody else; when nobody waits any more, the preparation is given up.
    ///
    /// # Errors
    /// Names every server that failed, is stale or was denied, and why.
    pub async fn prepare(self: &Arc<Self>, authority: Arc<dyn ConnectAuthority>) -> Result<(), Fault> {
        while let Some(waiter) = self.join_preparation(&authority)? {
            let outcome = waiter.work.clone().await;
            if !waiter.cancel.is_cancelled() {
                return outcome;
            }
            // It was given up by those before us; what it left configured is prepared anew.
        }
        Ok(())
    }

    fn join_preparation(self: &Arc<Self>, authority: &Arc<dyn ConnectAuthority>) -> Result<Option<Waiter>, Fault> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Fault::closed());
        }
        inner.notice_ended();
        if inner.preparation.is_none() {
            inner.refuse_unusable()?;
            let batch = inner.take_configured();
            if batch.is_empty() {
                return Ok(None);
            }
            let cancel = self.closing.child_token();
            let (this, authority, token) = (Arc::clone(self), Arc::clone(authority), cancel.clone());
            let task = crate::base::task::spawn(async move { this.connect_batch(batch, authority, token).await });
            let work = async move { task.await.unwrap_or_else(|_| Err(Fault::internal())) }.boxed().shared();
            inner.preparation = Some(Preparation { work, waiters: Arc::default(), cancel });
        }
        Ok(inner.preparation.as_ref().map(Preparation::join))
    }

    async fn connect_batch(
        self: Arc<Self>,
        batch: Vec<Arc<ServerDeclaration>>,
        authority: Arc<dyn ConnectAuthority>,
        cancel: CancellationToken,
    ) -> Result<(), Fault> {
        let results = match self.authorize_all(&batch, &*authority, &cancel).await {
            Ok(()) => join_all(batch.iter().map(|declaration| self.connect(declaration, &*authority, &cancel))).await,
            Err(refusals) => refusals.into_iter().map(Err).collect(),
        };
        self.publish(&batch, results).await
    }

    /// Prompts come one after another; one refusal spares the others their connection.
    async fn authorize_all(
        &self,
        batch: &[Arc<ServerDeclaration>],
        authority: &dyn ConnectAuthority,
        cancel: &CancellationToken,
    ) -> Result<(), Vec<Fault>> {
        let mut refusals = Vec::with_capacity(batch.len());
        for declaration in batch {
            refusals.push(tokio::select! {
                biased;
                () = cancel.cancelled() => Some(Fault::aborted()),
                answer = authority.authorize(declaration) => answer.err().map(|why| denied(&declaration.name, &why)),
            });
        }
        if refusals.iter().all(Option::is_none) {
            return Ok(());
        }
        Err(refusals.into_iter().map(|refusal| refusal.unwrap_or_else(Fault::aborted)).collect())
    }

    /// All or nothing: one failure closes the others and leaves them configured.
    async fn publish(
        &self,
        batch: &[Arc<ServerDeclaration>],
        results: Vec<Result<ReadyServer, Fault>>,
    ) -> Result<(), Fault> {
        let mut unused = Vec::new();
        let outcome = {
            let mut inner = self.lock();
            let closed = inner.closed;
            let failed = closed || results.iter().any(Result::is_err);
            inner.preparation = None;
            let mut failures: Vec<Fault> = Vec::new();
            for (declaration, result) in batch.iter().zip(results) {
                let state = match result {
                    Ok(ready) if failed => {
                        unused.push(ready);
                        State::Configured
                    }
                    Ok(ready) => State::Ready(Arc::new(ready)),
                    // Given up, or the mate of a refused server: it was not tried to the end.
                    Err(fault) if fault.code() == ErrorCode::Aborted => State::Configured,
                    Err(fault) => {
                        failures.push(fault.clone());
                        State::Failed(fault)
                    }
                };
                if let Some(entry) = inner.entries.iter_mut().find(|entry| entry.declaration.name == declaration.name) {
                    entry.state = state;
                }
            }
            match all_of(&failures) {
                Ok(()) if closed => Err(Fault::closed()),
                Ok(()) if failed => Err(Fault::aborted()),
                outcome => outcome,
            }
        };
        join_all(unused.iter().map(|ready| ready.connection.close())).await;
        outcome
    }

    async fn connect(
        &self,
        declaration: &Arc<ServerDeclaration>,
        authority: &dyn ConnectAuthority,
        cancel: &CancellationToken,
    ) -> Result<ReadyServer, Fault> {
        let authorizer = self.oauth.authorizer(declaration, cancel).map_err(|error| named(&declaration.name, error))?;
        for path in declaration.looks_interpolated() {
            authority.warn(ConnectWarning::Interpolation { server: declaration.name.clone(), path }).await;
        }
        let options = ConnectionOptions { declaration, workdir: &self.workdir, authorizer, cancel: cancel.clone() };
        let connection = Connection::open(options).await.map_err(|error| named(&declaration.name, error))?;
        match self.discover_tools(declaration, &connection, authority).await {
            Ok(tools) => {
                Ok(ReadyServer { declaration: Arc::clone(declaration), connection: Arc::new(connection), tools })
            }
            Err(fault) => {
                connection.close().await;
                Err(fault)
            }
        }
    }

    async fn discover_tools(
        &self,
        declaration: &ServerDeclaration,
        connection: &Connection,
        authority: &dyn ConnectAuthority,
    ) -> Result<Vec<Arc<CatalogTool>>, Fault> {
        let server = declaration.name.clone();
        let listing = connection.list_tools().await.map_err(|error| named(&server, error))?;
        for (tool, why) in listing.dropped {
            authority.warn(ConnectWarning::ToolLeftOut { server: server.clone(), tool, why }).await;
        }
        if connection.take_skip_notice() {
            authority.warn(ConnectWarning::SkippedLines { server: server.clone() }).await;
        }
        // Compiling may take a while: never on a thread that moves bytes.
        tokio::task::spawn_blocking(move || catalog::build(&server, listing.tools))
            .await
            .map_err(|_| Fault::internal())?
            .map_err(|error| Fault::new(error.code(), error.to_string()))
    }

    /// Adds a server and connects it; it is published only when all went well.
    ///
    /// # Errors
    /// `MCP_EXISTS`, `MCP_BUSY`, `MCP_CLOSED`, `MCP_DENIED`, and whatever connecting fails with.
    pub async fn register(
        &self,
        declaration: ServerDeclaration,
        authority: &dyn ConnectAuthority,
    ) -> Result<(), Fault> {
        let _mutation = self.begin_mutation()?;
        let declaration = Arc::new(declaration);
        {
            let inner = self.lock();
            if inner.entries.iter().any(|entry| entry.declaration.name == declaration.name) {
                let message =
                    format!("a server named `{}` is already registered; unregister it first", declaration.name);
                return Err(Fault::new(ErrorCode::McpExists, message));
            }
            if inner.entries.len() >= SERVERS {
                return Err(Fault::new(
                    ErrorCode::McpLimit,
                    format!("an agent has at most {SERVERS} servers; unregister one first"),
                ));
            }
        }
        let work = async {
            authority.authorize(&declaration).await.map_err(|why| denied(&declaration.name, &why))?;
            self.connect(&declaration, authority, &self.closing).await
        };
        let ready = tokio::select! {
            ready = work => ready?,
            () = self.closing.cancelled() => return Err(closed_registry()),
        };
        let late = {
            let mut inner = self.lock();
            if inner.closed {
                Some(ready)
            } else {
                inner.entries.push(Entry { declaration, state: State::Ready(Arc::new(ready)) });
                None
            }
        };
        if let Some(ready) = late {
            ready.connection.close().await;
            return Err(closed_registry());
        }
        Ok(())
    }

    /// Closes a server's connection and forgets the server.
    ///
    /// # Errors
    /// `MCP_UNKNOWN`, `MCP_BUSY`, `MCP_CLOSED`.
    pub async fn unregister(&self, name: &str) -> Result<(), Fault> {
        let _mutation = self.begin_mutation()?;
        let entry = {
            let mut inner = self.lock();
            let Some(at) = inner.entries.iter().position(|entry| entry.declaration.name.as_str() == name) else {
                return Err(Fault::new(ErrorCode::McpUnknown, "no server of that name is registered; see mcp.list()"));
            };
            inner.entries.remove(at)
        };
        if let State::Ready(ready) | State::Stale(ready, _) = entry.state {
            ready.connection.close().await;
        }
        Ok(())
    }

    fn begin_mutation(&self) -> Result<Mutation<'_>, Fault> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(closed_registry());
        }
        if inner.mutating || inner.preparation.is_some() {
            return Err(busy());
        }
        inner.mutating = true;
        Ok(Mutation(self))
    }

    /// The ready servers, for one run.
    #[must_use]
    pub fn ready(&self) -> Vec<Arc<ReadyServer>> {
        let mut inner = self.lock();
        inner.notice_ended();
        inner
            .entries
            .iter()
            .filter_map(|entry| if let State::Ready(ready) = &entry.state { Some(Arc::clone(ready)) } else { None })
            .collect()
    }

    /// Closes every connection; later changes are refused.
    pub async fn close(&self) {
        let (entries, preparation) = {
            let mut inner = self.lock();
            inner.closed = true;
            (std::mem::take(&mut inner.entries), inner.preparation.as_ref().map(|running| running.work.clone()))
        };
        self.closing.cancel();
        if let Some(preparation) = preparation {
            let _ = preparation.await;
        }
        join_all(entries.iter().filter_map(Entry::connection).map(Connection::close)).await;
    }

    /// Ends every server process at once, without waiting: for a thread that is going away.
    pub fn kill_now(&self) {
        self.closing.cancel();
        let inner = self.lock();
        inner.entries.iter().filter_map(Entry::connection).for_each(Connection::kill_now);
    }
}

impl Inner {
    fn notice_ended(&mut self) {
        for entry in &mut self.entries {
            if let State::Ready(ready) = &entry.state
                && let Some(why) = ready.connection.ended()
            {
                let message = format!(
                    "server `{}`: catalog unavailable, because its connection ended ({why}); unregister it and register it again",
                    entry.declaration.name
                );
                entry.state = State::Stale(Arc::clone(ready), Fault::new(ErrorCode::McpStale, message));
            }
        }
    }

    fn refuse_unusable(&self) -> Result<(), Fault> {
        let unusable = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Stale(_, fault) | State::Failed(fault) => Some(fault.clone()),
            _ => None,
        });
        all_of(&unusable.collect::<Vec<_>>())
    }

    fn take_configured(&mut self) -> Vec<Arc<ServerDeclaration>> {
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
    fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Ready(ready) | State::Stale(ready, _) => Some(&ready.connection),
            _ => None,
        }
    }

    fn status(&self) -> ServerStatus {
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
fn all_of(faults: &[Fault]) -> Result<(), Fault> {
    let Some(first) = faults.first() else { return Ok(()) };
    let messages: Vec<&str> = faults.iter().map(Fault::message).collect();
    Err(Fault::new(first.code(), messages.join("; ")))
}

fn named(server: &ServerName, error: impl Into<super::connection::ConnectError>) -> Fault {
    let error = error.into();
    Fault::new(error.code(), format!("server `{server}`: {error}")).with_cause(error.cause_id())
}

fn denied(server: &ServerName, why: &str) -> Fault {
    Fault::new(ErrorCode::McpDenied, format!("connecting to server `{server}`: {why}"))
}

/// The registry cannot change while something runs.
#[must_use]
pub fn busy() -> Fault {
    Fault::new(
        ErrorCode::McpBusy,
        "the agent is busy: servers can be changed only while no run, preparation or other change is going on",
    )
}

fn closed_registry() -> Fault {
    Fault::new(ErrorCode::McpClosed, "the agent is closed")
}
