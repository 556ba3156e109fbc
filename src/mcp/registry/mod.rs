//! Which servers an agent has, in which state, and every change of that.
//!
//! Owns the entries and their connections. Leaves permission to [`ConnectAuthority`] and the bytes to
//! [`connection`](super::connection).

// What is asked and told while connecting.
mod authority;

// A preparation that sessions share.
mod preparation;

// The states.
mod entry;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{FutureExt, join_all};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use authority::{ConnectAuthority, ConnectWarning};
pub use entry::{ReadyServer, ServerStatus};

use self::entry::{Entry, Inner, State, all_of};
use self::preparation::{Preparation, Waiter};
use super::catalog::{self, CatalogTool};
use super::config::{ServerDeclaration, ServerName};
use super::connection::{ConnectError, Connection, ConnectionOptions};
use super::oauth::OAuthServers;
use super::sandbox::Sandbox;
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
use crate::base::limits::SERVERS;

/// What a registry is made from.
pub struct RegistryOptions {
    /// The declared servers.
    pub servers: Vec<ServerDeclaration>,
    /// Where stdio servers start.
    pub workdir: PathBuf,
    /// What stdio servers start in.
    pub sandbox: Option<Arc<Sandbox>>,
    /// How HTTP servers are signed in to.
    pub oauth: OAuthServers,
    /// Ends everything.
    pub closing: CancellationToken,
}

/// The servers of one agent.
pub struct Registry {
    inner: Mutex<Inner>,
    workdir: PathBuf,
    sandbox: Option<Arc<Sandbox>>,
    oauth: OAuthServers,
    mutations: TaskTracker,
    closing: CancellationToken,
}

/// The right to change the registry; `close()` waits until it is given back.
struct Mutation<'a> {
    registry: &'a Registry,
    _open: TaskTrackerToken,
}

impl Drop for Mutation<'_> {
    fn drop(&mut self) {
        self.registry.lock().mutating = false;
    }
}

impl Registry {
    /// A registry of declared servers; connects nothing.
    #[must_use]
    pub fn new(options: RegistryOptions) -> Arc<Self> {
        let RegistryOptions { servers, workdir, sandbox, oauth, closing } = options;
        let configured = |declaration| Entry { declaration: Arc::new(declaration), state: State::Configured };
        let entries = servers.into_iter().map(configured).collect();
        let inner = Mutex::new(Inner { entries, ..Inner::default() });
        Arc::new(Self { inner, workdir, sandbox, oauth, mutations: TaskTracker::new(), closing })
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
            let results = inner.refuse_taken_names(results, &mut unused);
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
        // It outlives the preparation, whose end must not end it.
        let authorizer =
            self.oauth.authorizer(declaration, &self.closing).map_err(|error| named(&declaration.name, error))?;
        for path in declaration.looks_interpolated() {
            authority.warn(ConnectWarning::Interpolation { server: declaration.name.clone(), path }).await;
        }
        let time = authorizer.as_ref().map_or(declaration.timeout, |authorizer| authorizer.time_left());
        let deadline = Instant::now() + time;
        let options = ConnectionOptions {
            declaration,
            workdir: &self.workdir,
            sandbox: self.sandbox.as_deref(),
            authorizer,
            cancel: cancel.clone(),
        };
        let connection = Connection::open(options).await.map_err(|error| named(&declaration.name, error))?;
        let late = || named(&declaration.name, ConnectError::Timeout { after: time });
        let discovery = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Fault::aborted()),
            tools = timeout_at(deadline, self.discover_tools(declaration, &connection, authority)) => {
                tools.unwrap_or_else(|_| Err(late()))
            }
        };
        match discovery {
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
        for tool in listing.unseen {
            authority.warn(ConnectWarning::UnseenCharacters { server: server.clone(), tool }).await;
        }
        for (tool, why) in listing.dropped {
            authority.warn(ConnectWarning::ToolLeftOut { server: server.clone(), tool, why }).await;
        }
        if connection.is_unwatched() {
            authority.warn(ConnectWarning::Unwatched { server: server.clone() }).await;
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
        tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(closed_registry()),
            answer = authority.authorize(&declaration) => answer.map_err(|why| denied(&declaration.name, &why))?,
        }
        let cancelled = |fault: Fault| if self.closing.is_cancelled() { closed_registry() } else { fault };
        let ready = self.connect(&declaration, authority, &self.closing).await.map_err(cancelled)?;
        let late = {
            let mut inner = self.lock();
            let refusal = if inner.closed { Some(closed_registry()) } else { inner.taken_name(&[], &ready) };
            if let Some(fault) = refusal {
                Some((ready, fault))
            } else {
                inner.entries.push(Entry { declaration, state: State::Ready(Arc::new(ready)) });
                None
            }
        };
        match late {
            Some((ready, fault)) => {
                ready.connection.close().await;
                Err(fault)
            }
            None => Ok(()),
        }
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
        Ok(Mutation { registry: self, _open: self.mutations.token() })
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
        self.mutations.close();
        self.mutations.wait().await;
        join_all(entries.iter().filter_map(Entry::connection).map(Connection::close)).await;
    }

    /// Ends every server process at once, without waiting: for a thread that is going away.
    pub fn kill_now(&self) {
        self.closing.cancel();
        let inner = self.lock();
        inner.entries.iter().filter_map(Entry::connection).for_each(Connection::kill_now);
    }
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
