//! Streamable HTTP: one POST a message, its answer as JSON or as a stream of events.
//!
//! Owns the client and the headers. Nothing is followed, resumed or sent twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use url::Url;

use super::authorized::{Authorization, Post};
use super::sse::SseParser;
use super::{Action, Arrival, CallError, ConnectError, LISTEN, Wire, safe_header_value};
use crate::base::limits::{HTTP_CONNECT, MESSAGE_BYTES};
use crate::base::{http, task};

const REVISION: &str = "2026-07-28";
/// How long and how far the rest of a settled stream is read, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(100);
const DRAIN_CHUNKS: usize = 16;

/// The client of one server.
pub(crate) struct HttpLink {
    client: Client,
    url: Url,
    declared: HeaderMap,
    authorization: Option<Authorization>,
    wire: Arc<Wire>,
}

/// What of an event stream must stay within the limit: the whole of an answer, one event of a subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Response,
    Event,
}

/// The protocol library's view of it.
pub(crate) struct HttpTransport {
    link: Arc<HttpLink>,
    inbound: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
}

/// Prepares the client; nothing is sent yet.
pub(crate) async fn open<'a>(
    url: &Url,
    declared: impl Iterator<Item = (&'a str, &'a str)>,
    authorization: Option<Authorization>,
) -> Result<(Arc<Wire>, HttpTransport), ConnectError> {
    let mut headers = HeaderMap::new();
    for (name, value) in declared {
        let invalid = ConnectError::Protocol { what: "a declared header is not valid" };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid.clone())?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    let client = http::client(url).await.map_err(|_| ConnectError::Tls)?;
    let (wire, inbound) = Wire::new();
    let link =
        Arc::new(HttpLink { client, url: url.clone(), declared: headers, authorization, wire: Arc::clone(&wire) });
    Ok((wire, HttpTransport { link, inbound }))
}

impl HttpLink {
    /// Every header of a request: the declared ones, then ours over them.
    fn headers(
        &self,
        method: &'static str,
        name: Option<&str>,
        mirrored: &[(String, String)],
    ) -> Result<HeaderMap, ConnectError> {
        let mut headers = self.declared.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
        headers.insert("mcp-method", HeaderValue::from_static(method));
        let unsendable = ConnectError::Protocol { what: "a request cannot be written as headers" };
        if let Some(name) = name {
            let value = HeaderValue::try_from(safe_header_value(name)).map_err(|_| unsendable.clone())?;
            headers.insert("mcp-name", value);
        }
        for (name, value) in mirrored {
            let name = HeaderName::try_from(name).map_err(|_| unsendable.clone())?;
            headers.insert(name, HeaderValue::try_from(value).map_err(|_| unsendable.clone())?);
        }
        Ok(headers)
    }

    /// Sends one request and settles it, whatever comes back.
    async fn exchange(self: Arc<Self>, id: i64, operation: String, body: Vec<u8>, headers: HeaderMap, bound: Bound) {
        let work = async {
            let Some(authorization) = &self.authorization else {
                return self.answer(id, self.send(headers, body.into()).await?, bound).await;
            };
            let send = |headers, body| Box::pin(self.send(headers, body)) as _;
            let post = Post { id, operation, headers, body: body.into(), send: &send };
            let response = authorization.send(post).await?;
            let answer = self.answer(id, response, bound);
            // A subscription outlives the connecting that it began in.
            if bound == Bound::Event { answer.await } else { authorization.bounded(answer).await }
        };
        if let Err(failure) = work.await {
            self.wire.settle(id, Err(failure));
        }
    }

    async fn send(&self, headers: HeaderMap, body: Bytes) -> Result<Response, ConnectError> {
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        request.send().await.map_err(|error| transport_fault(&error))
    }

    async fn answer(&self, id: i64, response: Response, bound: Bound) -> Result<(), CallError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(ConnectError::Redirect { status: status.as_u16() }.into());
        }
        if !status.is_success() {
            let refused =
                CallError::from(ConnectError::Status { status: status.as_u16(), retry_after: wait(&response) });
            let body = whole(response).await.map_err(|_| refused.clone())?;
            return self.read_answer(Arrival::RefusalOf(id), &body, refused);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Err(CallError::Protocol { what: "the answer has no result" });
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => {
                let body = whole(response).await?;
                self.read_answer(
                    Arrival::AnswerTo(id),
                    &body,
                    CallError::Protocol { what: "the body is not the answer to the request" },
                )
            }
            "text/event-stream" => self.stream(id, response, bound).await,
            kind => Err(ConnectError::ContentType { kind: plain_kind(kind) }.into()),
        }
    }

    fn read_answer(&self, arrival: Arrival, body: &[u8], otherwise: CallError) -> Result<(), CallError> {
        let (Arrival::AnswerTo(id) | Arrival::RefusalOf(id)) = arrival else { return Err(otherwise) };
        self.wire.incoming(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body), arrival);
        if self.wire.is_pending(id) { Err(otherwise) } else { Ok(()) }
    }

    async fn stream(&self, id: i64, response: Response, bound: Bound) -> Result<(), CallError> {
        let mut chunks = response.bytes_stream();
        let (mut parser, mut size) = (SseParser::default(), 0);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| transport_fault(&error))?;
            size += chunk.len();
            if bound == Bound::Response && size > MESSAGE_BYTES {
                return Err(too_large("bytes in one response").into());
            }
            parser.push(&chunk, |event| {
                self.wire.incoming(event, Arrival::AnswerTo(id));
            });
            if parser.held() > MESSAGE_BYTES {
                return Err(too_large("bytes in one event").into());
            }
            if !self.wire.is_pending(id) {
                let drain = chunks.take(DRAIN_CHUNKS).for_each(|_| std::future::ready(()));
                let _ = tokio::time::timeout(DRAIN, drain).await;
                return Ok(());
            }
        }
        Err(CallError::Protocol { what: "the event stream ended without an answer" })
    }
}

/// How long the server asks to wait, in seconds.
fn wait(response: &Response) -> Option<u32> {
    response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// A media type that can stand in a message of ours; empty when it cannot.
fn plain_kind(kind: &str) -> String {
    let is_plain = kind.len() <= 60 && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.+-".contains(&byte));
    if is_plain { kind.to_owned() } else { String::new() }
}

/// The whole body, within the limit.
async fn whole(response: Response) -> Result<Vec<u8>, CallError> {
    let mut chunks = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| transport_fault(&error))?;
        if body.len() + chunk.len() > MESSAGE_BYTES {
            return Err(too_large("bytes in one response").into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

const fn too_large(what: &'static str) -> ConnectError {
    ConnectError::Limit { what, limit: MESSAGE_BYTES }
}

fn transport_fault(error: &reqwest::Error) -> ConnectError {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if cause.is::<rustls::Error>() || inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
        {
            return ConnectError::Tls;
        }
        source = cause.source();
    }
    if error.is_timeout() { ConnectError::Timeout { after: HTTP_CONNECT } } else { ConnectError::Unreachable }
}

impl Transport<RoleClient> for HttpTransport {
    type Error = ConnectError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ConnectError>> + Send + 'static {
        let link = &self.link;
        // A cancelled request was stopped when the table forgot it, and that closes its stream.
        let sent = link.wire.outgoing(item).map(|message| {
            if let Action::Request { id, method, name, headers } = message.action {
                match link.headers(method, name.as_deref(), &headers) {
                    Ok(headers) => {
                        let bound = if method == LISTEN { Bound::Event } else { Bound::Response };
                        let operation = name.map_or_else(|| method.to_owned(), |name| format!("{method}:{name}"));
                        let exchange = Arc::clone(link).exchange(id, operation, message.body, headers, bound);
                        let work = task::spawn(exchange);
                        link.wire.stop_with(id, work.abort_handle());
                    }
                    Err(error) => link.wire.settle(id, Err(error.into())),
                }
            }
        });
        std::future::ready(sent)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbound.recv().await
    }

    async fn close(&mut self) -> Result<(), ConnectError> {
        self.link.wire.end(ConnectError::Closed);
        Ok(())
    }
}
