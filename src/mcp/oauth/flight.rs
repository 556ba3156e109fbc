//! One piece of work for all requests that need a token at the same time.
//!
//! It runs on a task of its own: a call that gives up does not take a refresh away from the others, nor lose a
//! refresh token that was rotated. A sign-in ends when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio_util::sync::CancellationToken;

use super::renewal::{Cause, Need};
use super::{Authorizer, OAuthError, Phase, Token};
use crate::base::task;

pub(super) type Outcome = Result<Option<Arc<Token>>, OAuthError>;
pub(super) type Work = Shared<BoxFuture<'static, Outcome>>;

/// Work under way.
pub(super) struct Flight {
    work: Work,
    waiters: Arc<AtomicUsize>,
    /// Ends the work when the last waiter leaves.
    cancel: Option<CancellationToken>,
}

impl Flight {
    pub(super) fn work(&self) -> Work {
        self.work.clone()
    }

    fn join(&self) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter { work: self.work(), waiters: Arc::clone(&self.waiters), cancel: self.cancel.clone() }
    }
}

/// One who waits.
pub(super) struct Waiter {
    work: Work,
    waiters: Arc<AtomicUsize>,
    cancel: Option<CancellationToken>,
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

impl Authorizer {
    /// Joins the work under way, or starts what is needed: reading the store, or a renewal.
    ///
    /// `None` when it turned out that nothing is needed.
    pub(super) fn join(self: &Arc<Self>, need: Option<&Need>) -> Option<Waiter> {
        let mut state = self.state();
        if let Some(flight) = &state.flight {
            return Some(flight.join());
        }
        match need {
            None if state.loaded => return None,
            Some(need) if state.token.is_some() && !same(need.used.as_ref(), state.token.as_ref()) => return None,
            _ => {}
        }
        let cancel = self.cancel.child_token();
        let (this, token, need) = (Arc::clone(self), cancel.clone(), need.cloned());
        let may_ask = self.phase() == Phase::Connecting || need.as_ref().is_some_and(|need| need.cause == Cause::Scope);
        let work = task::spawn(async move { this.fly(need, token).await });
        let lost = |_| Err(OAuthError::Failed { what: "an internal task failed; please report it" });
        let work = work.map(move |outcome| outcome.unwrap_or_else(lost)).boxed().shared();
        let flight = Flight { work, waiters: Arc::default(), cancel: may_ask.then_some(cancel) };
        let waiter = flight.join();
        state.flight = Some(flight);
        Some(waiter)
    }

    async fn fly(self: Arc<Self>, need: Option<Need>, cancel: CancellationToken) -> Outcome {
        let limit = if self.is_connecting() { self.time_left() } else { self.config.timeout };
        let work = async {
            match &need {
                None => self.load().await,
                Some(need) => self.renew(need).await.map(Some),
            }
        };
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(OAuthError::Cancelled),
            outcome = tokio::time::timeout(limit, work) => outcome.unwrap_or_else(|_| Err(self.timed_out())),
        };
        let outcome = outcome.map(|token| token.map(Arc::new));
        let mut state = self.state();
        state.flight = None;
        if let Ok(token) = &outcome {
            state.loaded = true;
            state.token.clone_from(token);
        }
        outcome
    }
}

fn same(one: Option<&Arc<Token>>, other: Option<&Arc<Token>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
