//! One live connection to one server.
//!
//! Owns connecting, the calls and the end. Leaves the bytes to [`transport`](super::transport), the
//! lifecycle to the protocol library, and the decision to connect again to the registry.

// One request and its deadline.
mod requests;

// Reading tools/list.
mod listing;

// Noticing that the tools change.
mod watch;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
    ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::{ClientCacheConfig, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use super::transport::{CallError, ConnectError, HeaderParam, Progress, ProgressQueue, ProgressSink};
pub use listing::{ListedTool, Listing};

use super::config::{ServerDeclaration, TransportConfig};
use super::oauth::Authorizer;
use super::sandbox::Sandbox;
use super::transport::stdio::{Program, StdioLink};
use super::transport::{Authorization, Extras, http, mirrored, stdio};
use requests::{Requests, RequestsOptions};
use watch::{Announces, Watch};

/// `HeaderMismatch`: the server's tools want other headers than the catalog said.
const HEADER_MISMATCH: i64 = -32020;

/// What a connection is made from.
pub struct ConnectionOptions<'a> {
    /// The server as declared.
    pub declaration: &'a ServerDeclaration,
    /// The working directory of a stdio server.
    pub workdir: &'a Path,
    /// What a stdio server runs inside.
    pub sandbox: Option<&'a Sandbox>,
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
    pub progress: Option<ProgressSink>,
}

/// One live connection.
pub struct Connection {
    requests: Arc<Requests>,
    process: Option<Arc<StdioLink>>,
    watch: Option<Watch>,
    told_skipped: AtomicBool,
    service: Mutex<Option<RunningService<RoleClient, ClientConfig>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ended", &self.ended()).finish_non_exhaustive()
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
        let authorizer = options.authorizer.clone();
        let mut unused = Unused(authorizer.clone());
        let after = authorizer.as_ref().map_or(declaration.timeout, |authorizer| authorizer.time_left());
        let mut started = Abandon(None);
        let opened = tokio::select! {
            biased;
            () = options.cancel.cancelled() => Err(ConnectError::Cancelled),
            opened = tokio::time::timeout(after, Self::start(&options, &mut started)) => {
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

    async fn start(options: &ConnectionOptions<'_>, started: &mut Abandon) -> Result<Self, ConnectError> {
        let &ConnectionOptions { declaration, workdir, sandbox, ref authorizer, .. } = options;
        let (wire, process, served) = match &declaration.transport {
            TransportConfig::Stdio { command, args, env } => {
                let env = env.iter().map(|(name, value)| (name.into(), value.expose().into()));
                let program = match sandbox {
                    Some(sandbox) => Program::Shell { line: sandbox.wrap(command, args, workdir).await?, command },
                    None => Program::Direct { command, args },
                };
                let (link, wire, transport) = stdio::open(&program, env, workdir)?;
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
        let tools = peer.peer_info().and_then(|server| server.capabilities.tools.clone());
        let tells_changes = tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        let announces = if tells_changes { Announces::Changes } else { Announces::Nothing };
        let requests = Requests::new(RequestsOptions {
            timeout: declaration.timeout,
            wire,
            authorizer: authorizer.clone(),
            peer,
            has_tools: tools.is_some(),
            mirrors_headers: process.is_none(),
        });
        Ok(Self {
            // A process that ends says so by itself; a server behind HTTP does not.
            watch: (tells_changes || process.is_none()).then(|| Watch::start(Arc::clone(&requests), announces)),
            requests,
            process,
            told_skipped: AtomicBool::new(false),
            service: Mutex::new(Some(service)),
        })
    }

    /// Reads the whole catalog, within the limits and the declared time.
    ///
    /// # Errors
    /// One bad tool, a passed limit or a repeated cursor fails the whole listing.
    pub async fn list_tools(&self) -> Result<Listing, ConnectError> {
        let listing = match &self.watch {
            Some(watch) => watch.list(&self.requests).await,
            None => self.requests.list().await,
        };
        if let (Ok(_), Some(authorizer)) = (&listing, self.requests.authorizer()) {
            authorizer.settle();
        }
        listing
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
        if let Some(reason) = self.ended() {
            return Err(reason.into());
        }
        let extras = Extras { progress: request.progress, headers, heard: None };
        let result = self.requests.exchange(message, extras, Some(&request.cancel)).await;
        match (&result, &self.watch) {
            (Err(CallError::Refused { code: HEADER_MISMATCH }), _) => self.requests.make_stale(ConnectError::Changed),
            (Err(CallError::Connection(ConnectError::Unreachable)), Some(watch)) => watch.doubt(),
            _ => {}
        }
        let result = result?;
        complete(&result)?;
        Ok(result)
    }

    /// Why the connection serves no new call; `None` while it does.
    #[must_use]
    pub fn ended(&self) -> Option<ConnectError> {
        self.requests.ended()
    }

    /// Whether the server announces changes of its tools, yet cannot be asked to tell them.
    #[must_use]
    pub fn is_unwatched(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::was_refused)
    }

    /// Whether a stdio server wrote lines that are no messages; said once.
    pub fn take_skip_notice(&self) -> bool {
        self.requests.wire().skipped() > 0 && !self.told_skipped.swap(true, Ordering::Relaxed)
    }

    /// Ends everything the connection holds. Running calls fail at once.
    pub async fn close(&self) {
        self.end();
        drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(authorizer) = self.requests.authorizer() {
            authorizer.close().await;
        }
        if let Some(process) = &self.process {
            process.close().await;
        }
    }

    /// Kills the server's process group; needs no runtime.
    pub fn kill_now(&self) {
        self.end();
        if let Some(authorizer) = self.requests.authorizer() {
            authorizer.abandon();
        }
        if let Some(process) = &self.process {
            process.kill();
        }
    }
}

impl Connection {
    fn end(&self) {
        if let Some(watch) = &self.watch {
            watch.stop();
        }
        self.requests.wire().end(ConnectError::Closed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.kill_now();
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
