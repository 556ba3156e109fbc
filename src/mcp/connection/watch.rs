//! Notices that a server's tools are no longer those it listed.
//!
//! A subscription tells of changes. When it breaks it is opened again, with growing waits, and the catalog
//! is read again for what was missed. Without a subscription the catalog is read again after a call that did
//! not reach the server. A change, or a server that is out of reach, makes the connection stale; nothing is
//! swapped silently.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::listing::Listing;
use super::requests::Requests;
use super::{CallError, ConnectError};
use crate::base::limits::{LISTEN_ACKNOWLEDGED, LISTEN_BACKOFF, LISTEN_FAILURES, LISTEN_STABLE};
use crate::base::task;
use crate::mcp::transport::{Answer, Heard};

/// The watch over one connection's catalog; dropped, it ends.
pub(super) struct Watch {
    shared: Arc<Shared>,
    stop: CancellationToken,
    _stop: DropGuard,
}

struct Shared {
    keys: RandomState,
    /// Whether the first subscription is acknowledged, or will not be.
    settled: watch::Sender<bool>,
    /// Whether the catalog was asked for: what is acknowledged later may have missed a change.
    asked: AtomicBool,
    refused: AtomicBool,
    /// Wakes the one who checks a server that tells nothing by itself.
    doubted: Notify,
    /// The listed catalog in short.
    listed: watch::Sender<Option<u64>>,
}

/// Whether the server says that it tells changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announces {
    Changes,
    Nothing,
}

/// How following one subscription ended.
enum End {
    /// The tools are others now.
    Changed,
    /// It was acknowledged and is over.
    Over,
    /// The server does not take it.
    Refused,
    /// The server did not answer, or not as it should.
    Failed,
}

impl Watch {
    pub(super) fn start(requests: Arc<Requests>, announces: Announces) -> Self {
        let shared = Arc::new(Shared {
            keys: RandomState::new(),
            settled: watch::Sender::new(announces == Announces::Nothing),
            asked: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            doubted: Notify::new(),
            listed: watch::Sender::new(None),
        });
        let stop = CancellationToken::new();
        let (state, stopped) = (Arc::clone(&shared), stop.clone());
        task::spawn(async move {
            let watching = async {
                match announces {
                    Announces::Changes => state.keep_watching(&requests).await,
                    Announces::Nothing => state.keep_checking(&requests).await,
                }
            };
            tokio::select! {
                () = watching => {}
                () = stopped.cancelled() => {}
            }
            state.settled.send_replace(true);
        });
        Self { shared, stop: stop.clone(), _stop: stop.drop_guard() }
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// A call did not reach the server.
    pub(super) fn doubt(&self) {
        self.shared.doubted.notify_one();
    }

    /// Whether the server refused to tell changes.
    pub(super) fn was_refused(&self) -> bool {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Reads the catalog so that no later change is missed.
    pub(super) async fn list(&self, requests: &Requests) -> Result<Listing, ConnectError> {
        let mut settled = self.shared.settled.subscribe();
        let _ = timeout(LISTEN_ACKNOWLEDGED, settled.wait_for(|settled| *settled)).await;
        self.shared.asked.store(true, Ordering::SeqCst);
        let listing = requests.list().await?;
        self.shared.listed.send_replace(Some(self.shared.keys.hash_one(&listing)));
        Ok(listing)
    }
}

impl Shared {
    async fn keep_watching(&self, requests: &Requests) {
        let (mut waits, mut failures, mut was_taken) = (waits(), 0, false);
        loop {
            let mut acknowledged = None;
            let end = self.follow(requests, &mut acknowledged).await;
            self.settled.send_replace(true);
            was_taken |= acknowledged.is_some();
            failures = if acknowledged.is_some() { 0 } else { failures + 1 };
            match end {
                _ if requests.ended().is_some() => return,
                End::Changed => return requests.make_stale(ConnectError::Changed),
                End::Refused if !was_taken => {
                    self.refused.store(true, Ordering::Relaxed);
                    return self.keep_checking(requests).await;
                }
                _ if failures < LISTEN_FAILURES => {}
                _ if was_taken => return requests.make_stale(ConnectError::Unreachable),
                _ => {
                    // It never took a subscription: it is used unwatched, if it can be reached.
                    self.doubted.notify_one();
                    return self.keep_checking(requests).await;
                }
            }
            if acknowledged.is_some_and(|since: Instant| since.elapsed() >= LISTEN_STABLE) {
                waits = self::waits();
            }
            sleep(waits.next().unwrap_or(LISTEN_BACKOFF.1)).await;
        }
    }

    async fn follow(&self, requests: &Requests, acknowledged: &mut Option<Instant>) -> End {
        let Ok(mut subscription) = requests.listen().await else { return End::Failed };
        let heard = async {
            let heard = subscription.heard.wait_for(|heard| *heard != Heard::Nothing).await;
            heard.map(|heard| *heard)
        };
        match timeout(requests.time(), heard).await {
            Ok(Ok(Heard::Acknowledged { tools: false })) => return End::Refused,
            Ok(Ok(_)) => {}
            // It ended without an acknowledgement; its answer says why.
            Ok(Err(_)) => return if is_refusal(&subscription.answer.await) { End::Refused } else { End::Failed },
            Err(_) => return End::Failed,
        }
        let is_gap = self.asked.load(Ordering::SeqCst);
        *acknowledged = Some(Instant::now());
        self.settled.send_replace(true);
        if is_gap {
            match self.is_unchanged(requests).await {
                Ok(true) => {}
                Ok(false) => return End::Changed,
                Err(_) => {
                    *acknowledged = None;
                    return End::Failed;
                }
            }
        }
        match subscription.heard.wait_for(|heard| *heard == Heard::Changed).await {
            Ok(_) => End::Changed,
            Err(_) => End::Over,
        }
    }

    /// Reads the catalog again and compares it with the one that is used.
    async fn is_unchanged(&self, requests: &Requests) -> Result<bool, ConnectError> {
        let mut listed = self.listed.subscribe();
        let before = listed.wait_for(Option::is_some).await.map_or(None, |listed| *listed);
        Ok(before == Some(self.keys.hash_one(&requests.list().await?)))
    }

    /// Reads the catalog again whenever there is doubt.
    async fn keep_checking(&self, requests: &Requests) {
        loop {
            self.doubted.notified().await;
            if let Err(reason) = self.check(requests).await {
                return requests.make_stale(reason);
            }
        }
    }

    async fn check(&self, requests: &Requests) -> Result<(), ConnectError> {
        let mut waits = waits().take(LISTEN_FAILURES - 1);
        loop {
            match self.is_unchanged(requests).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(ConnectError::Changed),
                Err(_) => sleep(waits.next().ok_or(ConnectError::Unreachable)?).await,
            }
        }
    }
}

/// Whether the server answered, and does not offer subscriptions.
fn is_refusal(answer: &Result<Answer, RecvError>) -> bool {
    match answer {
        Ok(Err(CallError::Refused { .. })) => true,
        Ok(Err(CallError::Connection(ConnectError::Status { status, .. }))) => (400..500).contains(status),
        _ => false,
    }
}

fn waits() -> impl Iterator<Item = Duration> {
    let (first, longest) = LISTEN_BACKOFF;
    ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).with_jitter().without_max_times().build()
}
