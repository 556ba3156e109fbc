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

// Progress on its way.
mod progress;

// A child process.
pub(crate) mod stdio;

// A request with a token.
mod authorized;

// One POST a message.
pub(crate) mod http;

// The table of requests.
mod wire;

use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

pub(crate) use authorized::Authorization;
pub use fault::{CallError, ConnectError};
pub use mirror::HeaderParam;
pub(crate) use mirror::{header_params, mirrored, safe_header_value};
pub use progress::{Progress, ProgressQueue, ProgressSink};
pub(crate) use wire::{Arrival, Wire};

pub(crate) type Answer = Result<Box<RawValue>, CallError>;

/// The request whose answer is a stream of notices.
pub(crate) const LISTEN: &str = "subscriptions/listen";

/// What travels with a request from the connection to the transport.
#[derive(Clone)]
pub(crate) struct Context(Arc<Mutex<Option<ContextParts>>>);

struct ContextParts {
    answer: oneshot::Sender<Answer>,
    extras: Extras,
}

/// What a request brings besides its message.
#[derive(Default)]
pub(crate) struct Extras {
    /// Where its progress goes.
    pub(crate) progress: Option<ProgressSink>,
    /// What a subscription hears.
    pub(crate) heard: Option<watch::Sender<Heard>>,
    /// Arguments as headers.
    pub(crate) headers: Vec<(String, String)>,
}

/// What a subscription has heard so far. Nothing counts before its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing yet.
    Nothing,
    /// The server took it, and will say when its tools change, or will not.
    Acknowledged {
        /// Whether changes of its tools are told.
        tools: bool,
    },
    /// The tools have changed.
    Changed,
}

impl Context {
    pub(crate) fn new(extras: Extras) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(ContextParts { answer, extras })))), receiver)
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
