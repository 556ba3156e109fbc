//! A run as its caller holds it: its events in batches, its abort, and what it came to.
//!
//! Leaves the work to [`run`](super::run).

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::run::RunResult;
use crate::base::emitter::WeakEmitter;
use crate::base::fault::Fault;
use crate::base::limits::EVENT_BATCH;

/// A run that is under way, as its caller holds it.
pub struct RunHandle {
    id: u32,
    cancel: CancellationToken,
    emitter: WeakEmitter,
    reader: Mutex<Reader>,
}

struct Reader {
    events: Option<mpsc::Receiver<Arc<str>>>,
    outcome: Option<oneshot::Receiver<Result<RunResult, Fault>>>,
    result: Option<Result<RunResult, Fault>>,
}

impl RunHandle {
    pub(super) fn new(
        id: u32,
        cancel: CancellationToken,
        emitter: WeakEmitter,
        events: Option<mpsc::Receiver<Arc<str>>>,
        outcome: oneshot::Receiver<Result<RunResult, Fault>>,
    ) -> Self {
        Self { id, cancel, emitter, reader: Mutex::new(Reader { events, outcome: Some(outcome), result: None }) }
    }

    /// The run's number.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Aborts the run.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Tells an event of the host's own to everyone who follows the run.
    pub fn tell(&self, line: String) {
        self.emitter.tell(&line.into());
    }

    /// The next events, joined by line feeds; `None` when the run is over.
    pub async fn next_batch(&self) -> Option<String> {
        let mut reader = self.reader.lock().await;
        let Reader { events, outcome, result } = &mut *reader;
        if let Some(events) = events {
            let mut batch = Vec::with_capacity(EVENT_BATCH);
            loop {
                tokio::select! {
                    biased;
                    count = events.recv_many(&mut batch, EVENT_BATCH) => {
                        if count == 0 { break }
                        return Some(batch.join("\n"));
                    }
                    // A preparation that goes on for others may tell on: the events of this run end with the run.
                    ended = settled(outcome), if outcome.is_some() => {
                        *outcome = None;
                        *result = Some(ended);
                        events.close();
                    }
                }
            }
        }
        reader.finish().await;
        None
    }

    /// Aborts the run and resolves when nothing of it runs any more.
    pub async fn end(&self) {
        self.cancel.cancel();
        let mut reader = self.reader.lock().await;
        // Closing the queue frees a run that waits for its reader.
        reader.events = None;
        reader.finish().await;
    }

    /// What the run came to; once, after [`next_batch`](Self::next_batch) said that it is over.
    ///
    /// # Errors
    /// The fault that ended the run.
    pub fn take_result(&self) -> Result<RunResult, Fault> {
        let taken = self.reader.try_lock().ok().and_then(|mut reader| reader.result.take());
        taken.unwrap_or_else(|| Err(Fault::internal()))
    }
}

impl Reader {
    async fn finish(&mut self) {
        if self.outcome.is_some() {
            self.result = Some(settled(&mut self.outcome).await);
            self.outcome = None;
        }
    }
}

/// What a run came to, when it has; never, when that is known already.
async fn settled(outcome: &mut Option<oneshot::Receiver<Result<RunResult, Fault>>>) -> Result<RunResult, Fault> {
    match outcome {
        Some(outcome) => outcome.await.unwrap_or_else(|_| Err(Fault::internal())),
        None => std::future::pending().await,
    }
}
