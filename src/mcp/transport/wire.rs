//! The requests that wait for an answer, and the way back to the protocol library.
//!
//! Every incoming text ends here: it settles a request, is progress or a notice of one, or is skipped.

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
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::message::{
    Envelope, ErrorMember, ProgressParams, SubscriptionParams, compact, id_in_broken, mended, nests_deeper_than, own_id,
};
use super::progress::{Overflow, ProgressSink};
use super::{Action, Answer, CallError, ConnectError, Context, Extras, Heard, LISTEN, Outgoing};
use crate::base::limits::{JSON_DEPTH, PROGRESS_BYTES};

/// A notification that is meant for a subscription.
#[derive(Clone, Copy)]
enum Notice {
    Acknowledged,
    ToolsChanged,
}

/// Who waits for an answer.
enum Waiting {
    /// The protocol library, for its discovery.
    Discovery,
    Caller(oneshot::Sender<Answer>),
    /// The caller has its answer already; the server has not heard yet that nobody waits.
    Nobody,
}

struct Pending {
    token: Option<String>,
    waiting: Waiting,
    progress: Option<ProgressSink>,
    heard: Option<watch::Sender<Heard>>,
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
    last_id: i64,
    skipped: u64,
}

/// Where a text came from, which says what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The one stream of a process: anything.
    Line,
    /// The answer to one request: its answer, and what belongs to it.
    AnswerTo(i64),
    /// The body of an HTTP error status: an error at best.
    RefusalOf(i64),
}

impl Arrival {
    const fn request(self) -> Option<i64> {
        match self {
            Self::Line => None,
            Self::AnswerTo(id) | Self::RefusalOf(id) => Some(id),
        }
    }
}

impl Wire {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>) {
        let (inbound, receiver) = mpsc::unbounded_channel();
        let state = State {
            pending: HashMap::new(),
            inbound: Some(inbound),
            ended: None,
            discovery: None,
            last_id: 0,
            skipped: 0,
        };
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
                let (waiting, extras) = match parts {
                    Some(parts) => (Waiting::Caller(parts.answer), parts.extras),
                    None => (Waiting::Discovery, Extras::default()),
                };
                let Extras { progress, heard, headers } = extras;
                let (method, name) = match message.request {
                    ClientRequest::CallToolRequest(call) => ("tools/call", Some(call.params.name.into_owned())),
                    ClientRequest::ListToolsRequest(_) => ("tools/list", None),
                    ClientRequest::DiscoverRequest(_) => ("server/discover", None),
                    ClientRequest::SubscriptionsListenRequest(_) => (LISTEN, None),
                    _ => return Err(ConnectError::Protocol { what: "an unexpected request of ours" }),
                };
                let mut state = self.state();
                if let Some(reason) = state.ended.clone() {
                    if let Waiting::Caller(answer) = waiting {
                        let _ = answer.send(Err(reason.clone().into()));
                    }
                    return Err(reason);
                }
                state.last_id = id;
                state.pending.insert(id, Pending { token, waiting, progress, heard, stop: None });
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

    /// Reads one message.
    pub(crate) fn incoming(&self, bytes: &[u8], arrival: Arrival) {
        let Some(text) = std::str::from_utf8(bytes).ok().map(mended) else { return self.broken(bytes, arrival) };
        if text.trim_ascii_start().starts_with('[') {
            return self.batch(&text, arrival);
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else { return self.broken(bytes, arrival) };
        let Some(method) = &envelope.method else { return self.answered(&envelope, arrival) };
        if envelope.id.is_some() || matches!(arrival, Arrival::RefusalOf(_)) {
            return;
        }
        let request = arrival.request();
        match method.as_ref() {
            "notifications/progress" => self.progress(envelope.params, request),
            "notifications/subscriptions/acknowledged" => self.hear(envelope.params, request, Notice::Acknowledged),
            "notifications/tools/list_changed" => self.hear(envelope.params, request, Notice::ToolsChanged),
            _ => {}
        }
    }

    /// No JSON: an answer of ours that is broken fails, anything else on a line is skipped.
    fn broken(&self, bytes: &[u8], arrival: Arrival) {
        let id = id_in_broken(bytes.trim_ascii());
        let id = id.filter(|id| arrival.request().is_none_or(|only| only == *id) && self.is_pending(*id));
        match id {
            Some(id) => self.settle(id, Err(CallError::Protocol { what: "an answer is not JSON" })),
            None if arrival == Arrival::Line => self.skip(),
            None => {}
        }
    }

    /// The revision has no batches: what one answers fails.
    fn batch(&self, text: &str, arrival: Arrival) {
        if arrival != Arrival::Line {
            return;
        }
        self.skip();
        let Ok(messages) = serde_json::from_str::<Vec<Envelope<'_>>>(text) else { return };
        for id in messages.iter().filter(|message| message.method.is_none()).filter_map(|message| own_id(message.id?)) {
            self.settle(id, Err(CallError::Protocol { what: "an answer is in a batch" }));
        }
    }

    fn answered(&self, envelope: &Envelope<'_>, arrival: Arrival) {
        let id = match (envelope.id.map(own_id), arrival.request()) {
            (Some(Some(id)), None) if self.was_sent(id) => Some(id),
            (Some(Some(id)), Some(only)) if id == only => Some(id),
            // On a stream of its own, an error without an id answers that stream's request.
            (None, Some(only)) if envelope.error.is_some() => Some(only),
            (_, Some(_)) => None,
            (_, None) => {
                self.skip();
                self.only_call()
            }
        };
        let Some(id) = id else { return };
        let is_named = envelope.id.and_then(own_id) == Some(id);
        if let Some(error) = envelope.error {
            match serde_json::from_str::<ErrorMember>(error.get()) {
                Ok(error) => self.refuse(id, error),
                Err(_) => self.settle(id, Err(CallError::Protocol { what: "an error answer has no code" })),
            }
        } else if arrival == Arrival::RefusalOf(id) {
            // Its status counts.
        } else if !is_named {
            self.settle(id, Err(CallError::Protocol { what: "an answer has the id of no request" }));
        } else if let Some(result) = envelope.result {
            self.settle(id, accept(result));
        } else {
            self.settle(id, Err(CallError::Protocol { what: "an answer has neither result nor error" }));
        }
    }

    /// Whether a request had this id: its answer may come late.
    fn was_sent(&self, id: i64) -> bool {
        (0..=self.state().last_id).contains(&id)
    }

    /// The request that is answered when only one waits.
    fn only_call(&self) -> Option<i64> {
        let state = self.state();
        let mut calls = state.pending.iter().filter(|(_, pending)| pending.heard.is_none()).map(|(id, _)| *id);
        calls.next().filter(|_| calls.next().is_none())
    }

    fn skip(&self) {
        self.state().skipped += 1;
    }

    /// Tells a subscription; a notice that names none, on a stream of its own, is that stream's.
    fn hear(&self, params: Option<&RawValue>, only: Option<i64>, notice: Notice) {
        let Some(params) = params.and_then(|raw| serde_json::from_str::<SubscriptionParams<'_>>(raw.get()).ok()) else {
            return;
        };
        let named = params.meta.subscription_id.map(own_id);
        let id = match (named, only) {
            (Some(id), None) => id,
            (Some(id), Some(only)) => id.filter(|id| *id == only),
            (None, only) => only,
        };
        let state = self.state();
        let Some(heard) = id.and_then(|id| state.pending.get(&id)).and_then(|pending| pending.heard.as_ref()) else {
            return;
        };
        heard.send_if_modified(|heard| {
            let next = match (notice, &heard) {
                (Notice::Acknowledged, Heard::Nothing) => {
                    Heard::Acknowledged { tools: params.notifications.tools_list_changed }
                }
                (Notice::ToolsChanged, Heard::Acknowledged { tools: true }) => Heard::Changed,
                _ => return false,
            };
            *heard = next;
            true
        });
    }

    fn progress(&self, params: Option<&RawValue>, only: Option<i64>) {
        let params = params.and_then(|raw| serde_json::from_str::<ProgressParams<'_>>(raw.get()).ok());
        let Some((params, step)) = params.and_then(|params| Some((params, params.step()?))) else {
            return self.skip();
        };
        let token = params.progress_token.get();
        let mut state = self.state();
        let pending = match only {
            Some(id) => state.pending.get_mut(&id),
            None => state.pending.values_mut().find(|pending| pending.token.as_deref() == Some(token)),
        };
        let Some(pending) = pending.filter(|pending| pending.token.as_deref() == Some(token)) else { return };
        if let Some(Err(Overflow)) = pending.progress.as_ref().map(|sink| sink.push(step)) {
            pending.progress = None;
            let flooded = ConnectError::Limit { what: "bytes of progress that waits", limit: PROGRESS_BYTES };
            if let Waiting::Caller(answer) = std::mem::replace(&mut pending.waiting, Waiting::Nobody) {
                let _ = answer.send(Err(flooded.into()));
            }
        }
    }

    /// Ends one request with an answer or a failure. Only the first counts.
    pub(crate) fn settle(&self, id: i64, answer: Answer) {
        let mut state = self.state();
        let Some(pending) = state.pending.remove(&id) else { return };
        let done = JsonRpcMessage::response(ServerResult::CustomResult(CustomResult::new(Value::Null)), request_id(id));
        let message = match pending.waiting {
            Waiting::Caller(waiting) => {
                let _ = waiting.send(answer);
                done
            }
            Waiting::Nobody => done,
            Waiting::Discovery => match answer.map_err(ConnectError::from).and_then(|raw| discovered(&raw)) {
                Ok(found) => JsonRpcMessage::response(ServerResult::DiscoverResult(found), request_id(id)),
                Err(reason) => {
                    state.discovery = Some(reason);
                    JsonRpcMessage::error(ErrorData::new(RpcCode::INTERNAL_ERROR, "", None), Some(request_id(id)))
                }
            },
        };
        if let Some(inbound) = &state.inbound {
            let _ = inbound.send(message);
        }
    }

    /// Ends one request with the error the server answered.
    fn refuse(&self, id: i64, error: ErrorMember) {
        let mut state = self.state();
        let is_discovery = state.pending.get(&id).is_some_and(|pending| matches!(pending.waiting, Waiting::Discovery));
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
            if let Waiting::Caller(answer) = pending.waiting {
                let _ = answer.send(Err(reason.clone().into()));
            }
        }
    }
}

fn request_id(id: i64) -> RequestId {
    NumberOrString::Number(id)
}

/// A result must be an object of bearable depth. It stays as it is, without the spaces between its tokens.
fn accept(result: &RawValue) -> Answer {
    if !result.get().starts_with('{') {
        return Err(CallError::Protocol { what: "a result is not an object" });
    }
    if nests_deeper_than(result.get(), JSON_DEPTH - 2) {
        return Err(ConnectError::Limit { what: "levels of JSON nesting", limit: JSON_DEPTH }.into());
    }
    match compact(result.get()) {
        Some(text) => {
            RawValue::from_string(text).map_err(|_| CallError::Protocol { what: "the result cannot be read" })
        }
        None => Ok(result.to_owned()),
    }
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
    let tools = value.get("capabilities").and_then(|all| all.get("tools")).and_then(Value::as_object);
    let capabilities = tools.map_or_else(
        || serde_json::json!({}),
        |tools| serde_json::json!({ "tools": { "listChanged": tools.get("listChanged") == Some(&Value::Bool(true)) } }),
    );
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
