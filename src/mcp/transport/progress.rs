//! Progress of one call on its way from the transport to whoever tells it, in the order of arrival.
//!
//! Nothing is dropped: when more waits than is bearable, the call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use crate::base::limits::PROGRESS_BYTES;

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

impl Progress {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.message.as_ref().map_or(0, String::len)
    }
}

/// Where a call's progress is told from.
#[derive(Debug)]
pub struct ProgressQueue {
    receiver: mpsc::UnboundedReceiver<Progress>,
    waiting: Arc<AtomicUsize>,
}

/// Where the transport puts it.
#[derive(Debug)]
pub struct ProgressSink {
    sender: mpsc::UnboundedSender<Progress>,
    waiting: Arc<AtomicUsize>,
}

/// More waits than is bearable.
#[derive(Debug)]
pub(super) struct Overflow;

impl ProgressQueue {
    /// A queue and its other end.
    #[must_use]
    pub fn new() -> (ProgressSink, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        (ProgressSink { sender, waiting: Arc::clone(&waiting) }, Self { receiver, waiting })
    }

    /// The next step; `None` when the call has settled and everything was told.
    pub async fn next(&mut self) -> Option<Progress> {
        let step = self.receiver.recv().await?;
        self.waiting.fetch_sub(step.weight(), Ordering::Relaxed);
        Some(step)
    }
}

impl ProgressSink {
    pub(super) fn push(&self, step: Progress) -> Result<(), Overflow> {
        let weight = step.weight();
        if self.waiting.fetch_add(weight, Ordering::Relaxed) + weight > PROGRESS_BYTES {
            return Err(Overflow);
        }
        let _ = self.sender.send(step);
        Ok(())
    }
}
