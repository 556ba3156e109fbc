//! A session's queue: its runs come one after another, in the order in which they were started.
//!
//! Owns the places in the queue and who waits for it to empty. Leaves what a run does on its turn to
//! [`run`](super::run).

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::history::History;

/// The turn of a run: the session's history is its own until it is dropped.
pub(super) type Turn = OwnedMutexGuard<History>;

/// One who waits for a turn; leaving the queue is dropping it.
pub(super) type Place = BoxFuture<'static, Turn>;

/// The runs of a session.
pub(super) struct Queue {
    history: Arc<Mutex<History>>,
    runs: watch::Sender<usize>,
}

/// Counts a run from its start until its end.
pub(super) struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|runs| *runs -= 1);
    }
}

impl Queue {
    /// Nobody has the history yet.
    pub(super) fn new(history: History) -> Self {
        Self { history: Arc::new(Mutex::new(history)), runs: watch::Sender::default() }
    }

    /// Whether a run is under way or waits.
    pub(super) fn is_busy(&self) -> bool {
        *self.runs.borrow() > 0
    }

    /// Takes the next place, at once.
    pub(super) fn join(&self) -> Place {
        let mut place = Arc::clone(&self.history).lock_owned().boxed();
        // A lock queues when it is first polled, and the order of tasks that have just started is not ours to say.
        match (&mut place).now_or_never() {
            Some(turn) => std::future::ready(turn).boxed(),
            None => place,
        }
    }

    /// Counts one more run.
    pub(super) fn count(&self) -> Counted {
        self.runs.send_modify(|runs| *runs += 1);
        Counted(self.runs.clone())
    }

    /// Resolves when no run is under way or waits.
    pub(super) async fn idle(&self) {
        // The sender is ours, so waiting cannot fail.
        let _ = self.runs.subscribe().wait_for(|runs| *runs == 0).await;
    }
}
