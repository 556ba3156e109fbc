//! A preparation under way and those who wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;

use crate::base::fault::Fault;

pub(super) type Work = Shared<BoxFuture<'static, Result<(), Fault>>>;

/// A preparation under way: its work, how many wait for it, and how to give it up.
pub(super) struct Preparation {
    pub(super) work: Work,
    pub(super) waiters: Arc<AtomicUsize>,
    pub(super) cancel: CancellationToken,
}

impl Preparation {
    pub(super) fn join(&self) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter { work: self.work.clone(), waiters: Arc::clone(&self.waiters), cancel: self.cancel.clone() }
    }
}

/// One who waits for a preparation; the last to leave gives it up.
pub(super) struct Waiter {
    pub(super) work: Work,
    waiters: Arc<AtomicUsize>,
    pub(super) cancel: CancellationToken,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.waiters.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancel.cancel();
        }
    }
}
