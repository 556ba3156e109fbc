//! The bytes between one server and us: [`stdio`] and [`http`].
//!
//! Both feed one [`Wire`]: the table of requests that wait for an answer. Results stay the raw text that
//! arrived and go straight to whoever waits; the protocol library learns only that there was an answer.
//! Progress leaves here in the order of arrival. Requests of the server are dropped, never answered.

// Why it failed.
mod fault;

// One message, undecoded.
mod message;

// Server-sent events.
mod sse;

// Arguments as headers.
mod mirror;

// A child process.
pub(crate) mod stdio;

// A request with a token.
mod authorized;

// One POST a message.
pub(crate) mod http;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, CustomResult, DiscoverResult, ErrorCode as RpcCode, ErrorData, GetExtensions,
    JsonRpcMessage, NumberOrString, RequestId, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

pub(crate) use authorized::Authorization;
pub use fault::{CallError, ConnectError};
pub use mirror::HeaderParam;
pub(crate) use mirror::{header_params, mirrored, safe_header_value};

use crate::base::limits::{JSON_DEPTH, PROGRESS_MESSAGE_CHARS};
use message::{Envelope, ErrorMember, ProgressParams, id_in_broken, nests_deeper_than, own_id};

/// One step of a running call, as the server reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How far it is.
    pub progress: serde_json::Number,
    /// How far it goes.
    pub total: Option<serde_json::Number>,
    /// What it does, cut at the limit.
    pub message: Option<String>,
}

type Answer = Result<Box<RawValue>, CallError>;

/// What travels with a request from the connection to the transport.
#[derive(Clone)]
pub(crate) struct Context(Arc<Mutex<Option<ContextParts>>>);

struct ContextParts {
    answer: oneshot::Sender<Answer>,
    progress: Option<mpsc::UnboundedSender<Progress>>,
    headers: Vec<(String, String)>,
}

impl Context {
    pub(crate) fn new(
        progress: Option<mpsc::UnboundedSender<Progress>>,
        headers: Vec<(String, String)>,
    ) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(ContextParts { answer, progress, headers })))), receiver)
    }
}

/// A request on its way out.
pub(crate) struct Outgoing {
    pub(crate) body: Vec<u8>,
    pub(crate) action: Action,
}

/// What the transport does with it.
pub(crate) enum Action {
    Request { id: i64, method: &'static str, name: Option<String>, headers: Vec<(String, String)> },
    Cancel,
    Nothing,
}

struct Pending {
    token: Option<String>,
    answer: Option<oneshot::Sender<Answer>>,
    progress: Option<mpsc::UnboundedSender<Progress>>,
    stop: Option<AbortHandle>,
}

/// The requests that wait for an answer, and the way back to the protocol library.
pub(crate) struct Wire {
    state: Mutex<State>,
}

struct State {
    pending: HashMap<i64, Pending>,
    inbound: Option<mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>>,
    ended: Option<ConnectError>,
    /// Why the discovery failed, when the protocol library cannot be told.
    discovery: Option<ConnectError>,
    skipped: u64,
}

/// What became of an incoming text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Taken,
    Skipped,
}

impl Wire {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>) {
        let (inbound, receiver) = mpsc::unbounded_channel();
        let state = State { pending: HashMap::new(), inbound: Some(inbound), ended: None, discovery: None, skipped: 0 };
        (Arc::new(Self { state: Mutex::new(state) }), receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ended(&self) -> Option<ConnectError> {
        self.state().ended.clone()
    }

    pub(crate) fn discovery_fault(&self) -> Option<ConnectError> {
        let state = self.state();
        state.discovery.clone().or_else(|| state.ended.clone())
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.state().skipped
    }

    pub(crate) fn is_pending(&self, id: i64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Enters a message of ours in the table and writes it down.
    pub(crate) fn outgoing(&self, item: TxJsonRpcMessage<RoleClient>) -> Result<Outgoing, ConnectError> {
        let unwritable = |_| ConnectError::Protocol { what: "a request could not be written" };
        let body = serde_json::to_vec(&item).map_err(unwritable)?;
        let action = match item {
            JsonRpcMessage::Request(mut message) => {
                let NumberOrString::Number(id) = message.id else {
                    return Err(ConnectError::Protocol { what: "a request has no number" });
                };
                let token = message.request.wire_token();
                let parts = message
                    .request
                    .extensions_mut()
                    .get_mut::<Context>()
                    .and_then(|context| context.0.lock().unwrap_or_else(PoisonError::into_inner).take());
                let (answer, progress, headers) = match parts {
                    Some(parts) => (Some(parts.answer), parts.progress, parts.headers),
                    None => (None, None, Vec::new()),
                };
                let (method, name) = match message.request {
                    ClientRequest::CallToolRequest(call) => ("tools/call", Some(call.params.name.into_owned())),
                    ClientRequest::ListToolsRequest(_) => ("tools/list", None),
                    ClientRequest::DiscoverRequest(_) => ("server/discover", None),
                    _ => return Err(ConnectError::Protocol { what: "an unexpected request of ours" }),
                };
                let mut state = self.state();
                if let Some(reason) = state.ended.clone() {
                    if let Some(answer) = answer {
                        let _ = answer.send(Err(reason.clone().into()));
                    }
                    return Err(reason);
                }
                state.pending.insert(id, Pending { token, answer, progress, stop: None });
                Action::Request { id, method, name, headers }
            }
            JsonRpcMessage::Notification(message) => match message.notification {
                ClientNotification::CancelledNotification(cancelled) => match cancelled.params.request_id {
                    Some(NumberOrString::Number(id)) if self.forget(id) => Action::Cancel,
                    _ => Action::Nothing,
                },
                _ => Action::Nothing,
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Action::Nothing,
        };
        Ok(Outgoing { body, action })
    }

    /// Remembers what to stop when the request is cancelled.
    pub(crate) fn stop_with(&self, id: i64, stop: AbortHandle) {
        if let Some(pending) = self.state().pending.get_mut(&id) {
            pending.stop = Some(stop);
        }
    }

    fn forget(&self, id: i64) -> bool {
        let pending = self.state().pending.remove(&id);
        if let Some(stop) = pending.as_ref().and_then(|pending| pending.stop.as_ref()) {
            stop.abort();
        }
        pending.is_some()
    }

    /// Reads one message. With `only`, it arrived on the answer stream of that request.
    pub(crate) fn incoming(&self, bytes: &[u8], only: Option<i64>) -> Incoming {
        let text = std::str::from_utf8(bytes).ok();
        let envelope = text.and_then(|text| serde_json::from_str::<Envelope<'_>>(text).ok());
        let Some(envelope) = envelope else {
            let id = id_in_broken(bytes.trim_ascii()).filter(|id| only.is_none_or(|only| only == *id));
            let Some(id) = id.filter(|id| self.is_pending(*id)) else {
                self.state().skipped += 1;
                return Incoming::Skipped;
            };
            self.settle(id, Err(CallError::Protocol { what: "an answer is not JSON" }));
            return Incoming::Taken;
        };
        if let Some(method) = &envelope.method {
            if method == "notifications/progress" && envelope.id.is_none() {
                self.progress(envelope.params, only);
            }
            return Incoming::Taken;
        }
        let id = match (envelope.id, only) {
            (Some(id), None) => own_id(id),
            (Some(id), Some(only)) => own_id(id).filter(|id| *id == only),
            (None, only) => only.filter(|_| envelope.error.is_some()),
        };
        let Some(id) = id else { return Incoming::Taken };
        if let Some(error) = envelope.error {
            match serde_json::from_str::<ErrorMember>(error.get()) {
                Ok(error) => self.refuse(id, error),
                Err(_) => self.settle(id, Err(CallError::Protocol { what: "an error answer has no code" })),
            }
        } else if let Some(result) = envelope.result {
            self.settle(id, accept(result));
        } else {
            self.settle(id, Err(CallError::Protocol { what: "an answer has neither result nor error" }));
        }
        Incoming::Taken
    }

    fn progress(&self, params: Option<&RawValue>, only: Option<i64>) {
        let Some(params) = params.and_then(|raw| serde_json::from_str::<ProgressParams<'_>>(raw.get()).ok()) else {
            return;
        };
        let token = params.progress_token.get();
        let state = self.state();
        let pending = match only {
            Some(id) => state.pending.get(&id),
            None => state.pending.values().find(|pending| pending.token.as_deref() == Some(token)),
        };
        let Some(sink) = pending
            .filter(|pending| pending.token.as_deref() == Some(token))
            .and_then(|pending| pending.progress.as_ref())
        else {
            return;
        };
        let message = params.message.map(|mut message| {
            if let Some((cut, _)) = message.char_indices().nth(PROGRESS_MESSAGE_CHARS) {
                message.truncate(cut);
            }
            message
        });
        let _ = sink.send(Progress { progress: params.progress, total: params.total, message });
    }

    /// Ends one request with an answer or a failure. Only the first counts.
    pub(crate) fn settle(&self, id: i64, answer: Answer) {
        let mut state = self.state();
        let Some(pending) = state.pending.remove(&id) else { return };
        let message = if let Some(waiting) = pending.answer {
            let _ = waiting.send(answer);
            JsonRpcMessage::response(ServerResult::CustomResult(CustomResult::new(Value::Null)), request_id(id))
        } else {
            match answer.map_err(ConnectError::from).and_then(|raw| discovered(&raw)) {
                Ok(found) => JsonRpcMessage::response(ServerResult::DiscoverResult(found), request_id(id)),
                Err(reason) => {
                    state.discovery = Some(reason);
                    JsonRpcMessage::error(ErrorData::new(RpcCode::INTERNAL_ERROR, "", None), Some(request_id(id)))
                }
            }
        };
        if let Some(inbound) = &state.inbound {
            let _ = inbound.send(message);
        }
    }

    /// Ends one request with the error the server answered.
    fn refuse(&self, id: i64, error: ErrorMember) {
        let mut state = self.state();
        let is_discovery = state.pending.get(&id).is_some_and(|pending| pending.answer.is_none());
        if !is_discovery {
            drop(state);
            return self.settle(id, Err(CallError::Refused { code: error.code }));
        }
        state.pending.remove(&id);
        // The library may try again with a version that the error names.
        let code = i32::try_from(error.code).map_or(RpcCode::INTERNAL_ERROR, RpcCode);
        if code != RpcCode::UNSUPPORTED_PROTOCOL_VERSION {
            state.discovery = Some(ConnectError::Refused { code: error.code });
        }
        if let Some(inbound) = &state.inbound {
            let _ = inbound.send(JsonRpcMessage::error(ErrorData::new(code, "", error.data), Some(request_id(id))));
        }
    }

    /// Ends everything; the first reason stays.
    pub(crate) fn end(&self, reason: ConnectError) {
        let (waiting, reason) = {
            let mut state = self.state();
            let reason = state.ended.get_or_insert(reason).clone();
            state.inbound = None;
            (std::mem::take(&mut state.pending), reason)
        };
        for pending in waiting.into_values() {
            if let Some(stop) = pending.stop {
                stop.abort();
            }
            if let Some(answer) = pending.answer {
                let _ = answer.send(Err(reason.clone().into()));
            }
        }
    }
}

fn request_id(id: i64) -> RequestId {
    NumberOrString::Number(id)
}

/// A result must be an object of bearable depth.
fn accept(result: &RawValue) -> Answer {
    if !result.get().starts_with('{') {
        return Err(CallError::Protocol { what: "a result is not an object" });
    }
    if nests_deeper_than(result.get(), JSON_DEPTH - 2) {
        return Err(ConnectError::Limit { what: "levels of JSON nesting", limit: JSON_DEPTH }.into());
    }
    Ok(result.to_owned())
}

/// The discovery result; members that a sparing server leaves out get their plain meaning.
fn discovered(raw: &RawValue) -> Result<DiscoverResult, ConnectError> {
    let broken = ConnectError::Discovery { what: "the answer has not the shape of a discovery result" };
    let mut value: Map<String, Value> = serde_json::from_str(raw.get()).map_err(|_| broken.clone())?;
    let kind = value.entry("resultType").or_insert_with(|| "complete".into());
    if kind != "complete" {
        return Err(ConnectError::Discovery { what: "the answer is not complete" });
    }
    // Nothing else of it is relied on.
    let has_tools = value.get("capabilities").and_then(|all| all.get("tools")).is_some_and(Value::is_object);
    let capabilities = if has_tools { serde_json::json!({ "tools": {} }) } else { serde_json::json!({}) };
    let slim = serde_json::json!({
        "resultType": "complete",
        "supportedVersions": value.remove("supportedVersions").unwrap_or(Value::Null),
        "capabilities": capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
    });
    serde_json::from_value(slim).map_err(|_| broken)
}

/// Reads the progress token of a request as it appears on the wire.
trait WireToken {
    fn wire_token(&self) -> Option<String>;
}

impl WireToken for ClientRequest {
    fn wire_token(&self) -> Option<String> {
        let meta = rmcp::model::GetMeta::get_meta(self);
        meta.get_progress_token().and_then(|token| serde_json::to_string(&token).ok())
    }
}
