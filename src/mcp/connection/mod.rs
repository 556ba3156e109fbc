//! One live connection to one server.
//!
//! Owns the deadlines, the calls and the end. Leaves the bytes to [`transport`](super::transport), the
//! lifecycle to the protocol library, and the decision to connect again to the registry.

// Reading tools/list.
mod listing;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientCapabilities,
    ClientConfig, ClientRequest, GetExtensions, Implementation, ProtocolVersion, RequestId,
};
use rmcp::service::{ClientInitializeError, Peer, PeerRequestOptions, RunningService};
use rmcp::{ClientCacheConfig, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use super::transport::{CallError, ConnectError, HeaderParam, Progress};
pub use listing::{ListedTool, Listing};

use super::config::{ServerDeclaration, TransportConfig};
use super::oauth::Authorizer;
use super::transport::stdio::StdioLink;
use super::transport::{Authorization, Context, Wire, http, mirrored, stdio};
use crate::base::task;

/// `HeaderMismatch`: the server's tools want other headers than the catalog said.
const HEADER_MISMATCH: i64 = -32020;
/// Stands for an id that is not known yet; ours count up from zero.
const NO_ID: i64 = -1;

/// What a connection is made from.
pub struct ConnectionOptions<'a> {
    /// The server as declared.
    pub declaration: &'a ServerDeclaration,
    /// The working directory of a stdio server.
    pub workdir: &'a Path,
    /// Authorises the requests of an HTTP server.
    pub authorizer: Option<Arc<Authorizer>>,
    /// Gives up connecting.
    pub cancel: CancellationToken,
}

/// One call of one tool.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// The tool, as the server names it.
    pub tool: &'a str,
    /// Its input.
    pub arguments: Map<String, Value>,
    /// The tool's [`ListedTool::header_params`].
    pub header_params: &'a [HeaderParam],
    /// Gives up the call.
    pub cancel: CancellationToken,
    /// Where progress goes; all of it is there before the call returns.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
}

/// One live connection.
pub struct Connection {
    timeout: Duration,
    wire: Arc<Wire>,
    process: Option<Arc<StdioLink>>,
    authorizer: Option<Arc<Authorizer>>,
    peer: Peer<RoleClient>,
    has_tools: bool,
    changed: AtomicBool,
    told_skipped: AtomicBool,
    service: Mutex<Option<RunningService<RoleClient, ClientConfig>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ended", &self.wire.ended()).finish_non_exhaustive()
    }
}

/// Kills a process whose connection did not come to be.
struct Abandon(Option<Arc<StdioLink>>);

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.kill();
        }
    }
}

/// Frees the provider of a connection that did not come to be.
struct Unused(Option<Arc<Authorizer>>);

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(authorizer) = self.0.take() {
            authorizer.abandon();
        }
    }
}

impl Connection {
    /// Connects and discovers, within the declared time.
    ///
    /// # Errors
    /// Says why there is no connection; nothing is left running then.
    pub async fn open(options: ConnectionOptions<'_>) -> Result<Self, ConnectError> {
        let declaration = options.declaration;
        let authorizer = options.authorizer;
        let mut unused = Unused(authorizer.clone());
        let after = authorizer.as_ref().map_or(declaration.timeout, |authorizer| authorizer.time_left());
        let mut started = Abandon(None);
        let opened = tokio::select! {
            biased;
            () = options.cancel.cancelled() => Err(ConnectError::Cancelled),
            opened = tokio::time::timeout(after, Self::start(declaration, options.workdir, authorizer.clone(), &mut started)) => {
                opened.unwrap_or_else(|_| Err(timed_out(authorizer.as_deref(), after)))
            }
        };
        let process = started.0.take();
        if opened.is_err()
            && let Some(process) = process
        {
            process.abandon().await;
        }
        match (&opened, &authorizer) {
            (Err(_), Some(authorizer)) => authorizer.close().await,
            _ => unused.0 = None,
        }
        opened
    }

    async fn start(
        declaration: &ServerDeclaration,
        workdir: &Path,
        authorizer: Option<Arc<Authorizer>>,
        started: &mut Abandon,
    ) -> Result<Self, ConnectError> {
        let (wire, process, served) = match &declaration.transport {
            TransportConfig::Stdio { command, args, env } => {
                let env = env.iter().map(|(name, value)| (name.into(), value.expose().into()));
                let (link, wire, transport) = stdio::open(command, args, env, workdir)?;
                started.0 = Some(Arc::clone(&link));
                (wire, Some(link), serve(transport).await)
            }
            TransportConfig::Http { url, headers } => {
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
                let timeout = declaration.timeout;
                let authorization = authorizer.clone().map(|authorizer| Authorization { authorizer, timeout });
                let (wire, transport) = http::open(url, headers, authorization).await?;
                (wire, None, serve(transport).await)
            }
        };
        let service = served.map_err(|error| wire.discovery_fault().unwrap_or_else(|| discovery_fault(&error)))?;
        let peer = service.peer().clone();
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let has_tools = peer.peer_info().is_some_and(|server| server.capabilities.tools.is_some());
        let service = Mutex::new(Some(service));
        Ok(Self {
            timeout: declaration.timeout,
            wire,
            process,
            authorizer,
            peer,
            has_tools,
            changed: AtomicBool::new(false),
            told_skipped: AtomicBool::new(false),
            service,
        })
    }

    /// Reads the whole catalog, within the limits and the declared time.
    ///
    /// # Errors
    /// One bad tool, a passed limit or a repeated cursor fails the whole listing.
    pub async fn list_tools(&self) -> Result<Listing, ConnectError> {
        let after = self.time();
        let listing = listing::read_all(self, self.has_tools, self.process.is_none());
        let listing = tokio::time::timeout(after, listing).await;
        let listing = listing.unwrap_or_else(|_| Err(timed_out(self.connecting(), after)))?;
        if let Some(authorizer) = &self.authorizer {
            authorizer.settle();
        }
        Ok(listing)
    }

    /// Calls a tool and returns the result object as it arrived.
    ///
    /// Settles exactly once, within the declared time. Giving up, or dropping the future, reaches the server.
    ///
    /// # Errors
    /// Says why there is no result. Nothing is sent again.
    pub async fn call(&self, request: CallRequest<'_>) -> Result<Box<RawValue>, CallError> {
        let headers = match self.process {
            Some(_) => Vec::new(),
            None => mirrored(request.header_params, &request.arguments)?,
        };
        let params = CallToolRequestParams::new(request.tool.to_owned()).with_arguments(request.arguments);
        let message = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let result = self.exchange(message, headers, request.progress, Some(&request.cancel)).await;
        if matches!(result, Err(CallError::Refused { code: HEADER_MISMATCH })) {
            self.changed.store(true, Ordering::Relaxed);
        }
        let result = result?;
        complete(&result)?;
        Ok(result)
    }

    /// Sends one request and waits for its raw result.
    async fn exchange(
        &self,
        mut message: ClientRequest,
        headers: Vec<(String, String)>,
        progress: Option<mpsc::UnboundedSender<Progress>>,
        cancel: Option<&CancellationToken>,
    ) -> Result<Box<RawValue>, CallError> {
        let lost = || CallError::from(self.wire.ended().unwrap_or(ConnectError::Unreachable));
        let after = self.time();
        let cancelled = async {
            match cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        if cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(CallError::Cancelled);
        }
        if self.wire.ended().is_some() {
            return Err(lost());
        }
        let own_id = AtomicI64::new(NO_ID);
        let (context, answer) = Context::new(progress, headers);
        message.extensions_mut().insert(context);
        let exchange = async {
            let sent = self.peer.send_request_with_option(message, PeerRequestOptions::no_options()).await;
            let id = sent.map_err(|_| lost())?.id;
            if let RequestId::Number(number) = &id {
                own_id.store(*number, Ordering::Relaxed);
            }
            let mut guard = CancelOnDrop { open: Some((self.peer.clone(), id)) };
            let answer = answer.await;
            guard.open = None;
            answer.unwrap_or_else(|_| Err(lost()))
        };
        tokio::select! {
            biased;
            answer = exchange => answer,
            () = cancelled => Err(CallError::Cancelled),
            () = self.run_out(after, &own_id) => Err(CallError::Timeout { after }),
        }
    }

    /// What a request may take: the declared time, and while connecting with OAuth what is left of the whole.
    fn time(&self) -> Duration {
        self.connecting().map_or(self.timeout, Authorizer::time_left)
    }

    fn connecting(&self) -> Option<&Authorizer> {
        self.authorizer.as_deref().filter(|authorizer| authorizer.is_connecting())
    }

    /// Resolves when the request's time is over; it stands still while a person is asked for more scope.
    async fn run_out(&self, after: Duration, id: &AtomicI64) {
        let Some(authorizer) = &self.authorizer else { return tokio::time::sleep(after).await };
        authorizer.pauses.run_out(after, || Some(id.load(Ordering::Relaxed)).filter(|id| *id != NO_ID)).await;
    }

    /// Why the connection serves no new call; `None` while it does.
    #[must_use]
    pub fn ended(&self) -> Option<ConnectError> {
        let changed = || self.changed.load(Ordering::Relaxed).then_some(ConnectError::Changed);
        self.wire.ended().or_else(changed)
    }

    /// Whether a stdio server wrote lines that are no messages; said once.
    pub fn take_skip_notice(&self) -> bool {
        self.wire.skipped() > 0 && !self.told_skipped.swap(true, Ordering::Relaxed)
    }

    /// Ends everything the connection holds. Running calls fail at once.
    pub async fn close(&self) {
        self.wire.end(ConnectError::Closed);
        drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(authorizer) = &self.authorizer {
            authorizer.close().await;
        }
        if let Some(process) = &self.process {
            process.close().await;
        }
    }

    /// Kills the server's process group; needs no runtime.
    pub fn kill_now(&self) {
        self.wire.end(ConnectError::Closed);
        if let Some(authorizer) = &self.authorizer {
            authorizer.abandon();
        }
        if let Some(process) = &self.process {
            process.kill();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.kill_now();
    }
}

/// Tells the server that nobody waits any more.
struct CancelOnDrop {
    open: Option<(Peer<RoleClient>, RequestId)>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((peer, id)), true) = (self.open.take(), tokio::runtime::Handle::try_current().is_ok()) else {
            return;
        };
        task::spawn(async move {
            let param = CancelledNotificationParam::new(Some(id), Some("the client gave up".to_owned()));
            let _ = peer.send_notification(CancelledNotification::new(param).into()).await;
        });
    }
}

fn timed_out(authorizer: Option<&Authorizer>, after: Duration) -> ConnectError {
    authorizer.map_or(ConnectError::Timeout { after }, |authorizer| authorizer.timed_out().into())
}

async fn serve<T>(transport: T) -> Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError>
where
    T: rmcp::transport::Transport<RoleClient> + 'static,
{
    let client = Implementation::new("lite-agent", env!("CARGO_PKG_VERSION"));
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    ClientConfig::new(ClientCapabilities::default(), client).serve_with_lifecycle(transport, lifecycle).await
}

fn discovery_fault(error: &ClientInitializeError) -> ConnectError {
    match error {
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            ConnectError::Discovery { what: "the server does not offer our protocol revision" }
        }
        ClientInitializeError::JsonRpcError(error) => ConnectError::Refused { code: error.code.0.into() },
        ClientInitializeError::Cancelled => ConnectError::Cancelled,
        _ => ConnectError::Discovery { what: "the server gave no usable answer" },
    }
}

/// Only a complete result is one.
fn complete(result: &RawValue) -> Result<(), CallError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Option<&'a RawValue>,
    }
    let kind: Kind<'_> =
        serde_json::from_str(result.get()).map_err(|_| CallError::Protocol { what: "the result cannot be read" })?;
    match kind.result_type.map(RawValue::get) {
        None | Some("\"complete\"") => Ok(()),
        Some("\"input_required\"") => Err(CallError::Protocol { what: "the tool asks for input (input_required)" }),
        Some(_) => Err(CallError::Protocol { what: "the result is of an unknown resultType" }),
    }
}
