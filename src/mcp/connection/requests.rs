//! Requests of one connection: each settles once, within its deadline, and says so when nobody waits any more.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, GetExtensions, RequestId, SubscriptionFilter,
    SubscriptionsListenRequest, SubscriptionsListenRequestParams,
};
use rmcp::service::{Peer, PeerRequestOptions};
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::listing::{self, Listing};
use super::{CallError, ConnectError, timed_out};
use crate::base::task;
use crate::mcp::oauth::Authorizer;
use crate::mcp::transport::{Answer, Context, Extras, Heard, Wire};

/// What requests are made with.
pub(super) struct RequestsOptions {
    /// How long one may take.
    pub(super) timeout: Duration,
    pub(super) wire: Arc<Wire>,
    /// Authorises each request.
    pub(super) authorizer: Option<Arc<Authorizer>>,
    pub(super) peer: Peer<RoleClient>,
    /// Whether the server says that it has tools.
    pub(super) has_tools: bool,
    /// Whether annotated arguments travel as headers.
    pub(super) mirrors_headers: bool,
}

/// The id of no request.
const NO_ID: i64 = -1;

/// The way to the server.
pub(super) struct Requests {
    options: RequestsOptions,
    stale: OnceLock<ConnectError>,
}

/// An open subscription; dropped, it is cancelled.
pub(super) struct Subscription {
    /// What it has heard.
    pub(super) heard: watch::Receiver<Heard>,
    /// Its end: a result when it ends in an orderly way.
    pub(super) answer: oneshot::Receiver<Answer>,
    _open: CancelOnDrop,
}

impl Requests {
    pub(super) fn new(options: RequestsOptions) -> Arc<Self> {
        Arc::new(Self { options, stale: OnceLock::new() })
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.options.wire
    }

    pub(super) fn authorizer(&self) -> Option<&Authorizer> {
        self.options.authorizer.as_deref()
    }

    /// What a request may take: the declared time, and while connecting with OAuth what is left of the whole.
    pub(super) fn time(&self) -> Duration {
        self.connecting().map_or(self.options.timeout, Authorizer::time_left)
    }

    fn connecting(&self) -> Option<&Authorizer> {
        self.authorizer().filter(|authorizer| authorizer.is_connecting())
    }

    /// Resolves when the request's time is over; it stands still while a person is asked for more scope.
    async fn run_out(&self, after: Duration, id: &AtomicI64) {
        let Some(authorizer) = self.authorizer() else { return tokio::time::sleep(after).await };
        authorizer.pauses.run_out(after, || Some(id.load(Ordering::Relaxed)).filter(|id| *id != NO_ID)).await;
    }

    /// Why no new call is served; `None` while they are.
    pub(super) fn ended(&self) -> Option<ConnectError> {
        self.options.wire.ended().or_else(|| self.stale.get().cloned())
    }

    /// From now on no call is served; those under way go on. The first reason stays.
    pub(super) fn make_stale(&self, reason: ConnectError) {
        let _ = self.stale.set(reason);
    }

    fn lost(&self) -> CallError {
        self.options.wire.ended().unwrap_or(ConnectError::Unreachable).into()
    }

    /// Reads the whole catalog within the deadline.
    pub(super) async fn list(&self) -> Result<Listing, ConnectError> {
        let after = self.time();
        let listing = listing::read_all(self, self.options.has_tools, self.options.mirrors_headers);
        let listing = tokio::time::timeout(after, listing).await;
        listing.unwrap_or_else(|_| Err(timed_out(self.connecting(), after)))
    }

    /// Sends one request and waits for its raw result.
    pub(super) async fn exchange(
        &self,
        message: ClientRequest,
        extras: Extras,
        cancel: Option<&CancellationToken>,
    ) -> Result<Box<RawValue>, CallError> {
        let after = self.time();
        let own_id = AtomicI64::new(NO_ID);
        let cancelled = async {
            match cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        if cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(CallError::Cancelled);
        }
        let exchange = async {
            let (answer, mut open) = self.send(message, extras).await?;
            if let Some((_, RequestId::Number(id))) = &open.0 {
                own_id.store(*id, Ordering::Relaxed);
            }
            let answer = answer.await;
            // A call that failed on our side alone is still open on the other.
            if !open.is_pending(&self.options.wire) {
                open.0 = None;
            }
            answer.unwrap_or_else(|_| Err(self.lost()))
        };
        tokio::select! {
            biased;
            answer = exchange => answer,
            () = cancelled => Err(CallError::Cancelled),
            () = self.run_out(after, &own_id) => Err(CallError::Timeout { after }),
        }
    }

    /// Asks to be told when the tools change.
    pub(super) async fn listen(&self) -> Result<Subscription, CallError> {
        let (told, heard) = watch::channel(Heard::Nothing);
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let params = SubscriptionsListenRequestParams::new(filter);
        let message = ClientRequest::SubscriptionsListenRequest(SubscriptionsListenRequest::new(params));
        let (answer, open) = self.send(message, Extras { heard: Some(told), ..Extras::default() }).await?;
        Ok(Subscription { heard, answer, _open: open })
    }

    async fn send(
        &self,
        mut message: ClientRequest,
        extras: Extras,
    ) -> Result<(oneshot::Receiver<Answer>, CancelOnDrop), CallError> {
        if self.options.wire.ended().is_some() {
            return Err(self.lost());
        }
        let (context, answer) = Context::new(extras);
        message.extensions_mut().insert(context);
        let peer = &self.options.peer;
        let sent = peer.send_request_with_option(message, PeerRequestOptions::no_options()).await;
        let id = sent.map_err(|_| self.lost())?.id;
        Ok((answer, CancelOnDrop(Some((peer.clone(), id)))))
    }
}

/// Tells the server that nobody waits any more.
struct CancelOnDrop(Option<(Peer<RoleClient>, RequestId)>);

impl CancelOnDrop {
    fn is_pending(&self, wire: &Wire) -> bool {
        matches!(&self.0, Some((_, RequestId::Number(id))) if wire.is_pending(*id))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((peer, id)), true) = (self.0.take(), tokio::runtime::Handle::try_current().is_ok()) else {
            return;
        };
        task::spawn(async move {
            let param = CancelledNotificationParam::new(Some(id), Some("the client gave up".to_owned()));
            let _ = peer.send_notification(CancelledNotification::new(param).into()).await;
        });
    }
}
