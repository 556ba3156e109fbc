//! One piece of work for all requests that need a token at the same time.
//!
//! It runs on a task of its own: a call that gives up does not take a refresh away from the others. A sign-in ends when
//! nobody waits for it any more. More scope is asked for in a flight of its own, so that a request that only needs
//! another token does not wait for a person. Closing and the time limit end a flight; one that has sent a refresh token
//! may first save its successor, within [`OAUTH_REFRESH_GRACE`].

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio_util::sync::CancellationToken;

use super::renewal::{Cause, Need};
use super::{Authorizer, OAuthError, Phase, Token};
use crate::base::limits::{OAUTH_REFRESH_GRACE, OAUTH_SIGN_INS};
use crate::base::task;

pub(super) type Outcome = Result<Option<Arc<Token>>, OAuthError>;
pub(super) type Work = Shared<BoxFuture<'static, Outcome>>;

/// Work under way.
pub(super) struct Flight {
    work: Work,
    waiters: Arc<AtomicUsize>,
    /// Ends the work when the last waiter leaves.
    cancel: Option<CancellationToken>,
    /// Whether a person is asked where nothing else helps.
    asks: bool,
}

/// How a flight is told to end, and what must be finished first.
pub(super) struct Leave {
    stop: CancellationToken,
    /// A refresh token was sent, and its successor is not saved yet.
    sent_refresh: AtomicBool,
}

/// Marks that a refresh token was sent, until its successor is saved or there is none.
pub(super) struct Sent<'a>(&'a AtomicBool);

impl Leave {
    pub(super) fn mark_sent(&self) -> Sent<'_> {
        self.sent_refresh.store(true, Ordering::SeqCst);
        Sent(&self.sent_refresh)
    }

    /// Fails once nothing more may be begun.
    pub(super) fn check(&self) -> Result<(), OAuthError> {
        if self.stop.is_cancelled() { Err(OAuthError::Cancelled) } else { Ok(()) }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Flight {
    pub(super) fn work(&self) -> Work {
        self.work.clone()
    }

    /// `None` when the last waiter has left and ended the work.
    fn join(&self) -> Option<Waiter> {
        let may_join = |waiters: usize| (waiters > 0 || self.cancel.is_none()).then_some(waiters + 1);
        self.waiters.fetch_update(Ordering::SeqCst, Ordering::SeqCst, may_join).ok()?;
        let (waiters, cancel) = (Arc::clone(&self.waiters), self.cancel.clone());
        Some(Waiter { work: self.work(), waiters, cancel, asks: self.asks })
    }
}

/// The flights of an authorizer, one of each kind at most.
#[derive(Default)]
pub(super) struct Flights {
    renewal: Option<Flight>,
    step_up: Option<Flight>,
}

impl Flights {
    fn of(&mut self, kind: Kind) -> &mut Option<Flight> {
        match kind {
            Kind::Renewal => &mut self.renewal,
            Kind::StepUp => &mut self.step_up,
        }
    }

    /// All that is under way.
    pub(super) fn work(&self) -> Vec<Work> {
        [&self.renewal, &self.step_up].into_iter().flatten().map(Flight::work).collect()
    }
}

/// What a flight is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Reading the store, a refresh, or the sign-in of a new connection.
    Renewal,
    /// More scope.
    StepUp,
}

/// One who waits.
pub(super) struct Waiter {
    work: Work,
    waiters: Arc<AtomicUsize>,
    cancel: Option<CancellationToken>,
    /// Whether the flight asks a person where nothing else helps, or has nobody to ask for anything.
    pub(super) asks: bool,
}

impl Waiter {
    pub(super) async fn result(self) -> Outcome {
        self.work.clone().await
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.waiters.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(cancel) = &self.cancel
        {
            cancel.cancel();
        }
    }
}

/// Makes room for the next flight, also when this one panicked.
struct Landing {
    authorizer: Arc<Authorizer>,
    kind: Kind,
    waiters: Arc<AtomicUsize>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut state = self.authorizer.state();
        let flight = state.flights.of(self.kind);
        // Another one may have begun since the last waiter left this one.
        if flight.as_ref().is_some_and(|flight| Arc::ptr_eq(&flight.waiters, &self.waiters)) {
            *flight = None;
        }
    }
}

impl Authorizer {
    /// Joins the work under way, or starts what is needed: reading the store, or a renewal.
    ///
    /// `None` when it turned out that nothing is needed.
    ///
    /// # Errors
    /// When more scope was asked for too often.
    pub(super) fn join(self: &Arc<Self>, need: Option<&Need>) -> Result<Option<Waiter>, OAuthError> {
        let kind = if need.is_some_and(|need| need.cause == Cause::Scope) { Kind::StepUp } else { Kind::Renewal };
        let mut state = self.state();
        if let Some(waiter) = state.flights.of(kind).as_ref().and_then(Flight::join) {
            return Ok(Some(waiter));
        }
        match need {
            None if state.loaded => return Ok(None),
            Some(need) if state.token.is_some() && !same(need.used.as_ref(), state.token.as_ref()) => return Ok(None),
            _ => {}
        }
        if let Some(operation) = need.filter(|_| kind == Kind::StepUp).map(|need| &need.operation) {
            let count = state.sign_ins.entry(operation.clone()).or_default();
            if *count >= OAUTH_SIGN_INS {
                let next = "it was asked for three times already and will not be asked for again";
                return Err(OAuthError::Scope { next });
            }
            *count += 1;
        }
        let cancel = self.cancel.child_token();
        let asks = need.is_none_or(|need| need.phase == Phase::Connecting || kind == Kind::StepUp);
        let waiters = Arc::new(AtomicUsize::new(1));
        let landing = Landing { authorizer: Arc::clone(self), kind, waiters: Arc::clone(&waiters) };
        let (this, token, need) = (Arc::clone(self), cancel.clone(), need.cloned());
        let work = task::spawn(async move {
            let _landing = landing;
            this.fly(need, token).await
        });
        let lost = |_| Err(OAuthError::Failed { what: "an internal task failed; please report it" });
        let work = work.map(move |outcome| outcome.unwrap_or_else(lost)).boxed().shared();
        let cancel = asks.then_some(cancel);
        let waiter = Waiter { work: work.clone(), waiters: Arc::clone(&waiters), cancel: cancel.clone(), asks };
        *state.flights.of(kind) = Some(Flight { work, waiters, cancel, asks });
        Ok(Some(waiter))
    }

    async fn fly(self: Arc<Self>, need: Option<Need>, stop: CancellationToken) -> Outcome {
        let limit = if self.is_connecting() { self.time_left() } else { self.config.timeout };
        let leave = Leave { stop, sent_refresh: AtomicBool::new(false) };
        let mut work = pin!(async {
            match &need {
                None => self.load().await,
                Some(need) => self.renew(need, &leave).await.map(Some),
            }
        });
        let cut_short = tokio::select! {
            biased;
            () = leave.stop.cancelled() => OAuthError::Cancelled,
            outcome = &mut work => return self.land(outcome, need.as_ref()),
            () = tokio::time::sleep(limit) => self.timed_out(),
        };
        // Nothing more is begun; a refresh that was sent is saved first.
        leave.stop.cancel();
        if leave.sent_refresh.load(Ordering::SeqCst) {
            let _ = tokio::time::timeout(OAUTH_REFRESH_GRACE, work).await;
        }
        Err(cut_short)
    }

    /// Keeps what a flight brought.
    fn land(&self, outcome: Result<Option<Token>, OAuthError>, need: Option<&Need>) -> Outcome {
        let token = outcome?.map(Arc::new);
        let mut state = self.state();
        state.loaded = true;
        // What reaches farther came meanwhile.
        let is_overtaken = need.is_some_and(|need| {
            need.cause != Cause::Scope && state.token.is_some() && !same(need.used.as_ref(), state.token.as_ref())
        });
        if !is_overtaken {
            state.token.clone_from(&token);
        }
        Ok(token)
    }
}

fn same(one: Option<&Arc<Token>>, other: Option<&Arc<Token>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
