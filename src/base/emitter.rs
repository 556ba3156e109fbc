//! Where events go: the run's own consumer and the agent's subscribers.
//!
//! An event is built once, as one JSON line, and shared by both. What the events are is the business of their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

/// Takes batches of subscriber lines: `{"sessionId":…,"source":…,"event":…}`, one a line.
pub trait EventListener: Send + Sync {
    /// Delivers one batch; resolves when the host has handed it to its listeners.
    fn deliver(&self, lines: String) -> BoxFuture<'_, ()>;
}

/// The subscribers of an agent: collects lines and hands them over, one batch at a time.
pub struct Subscribers {
    listener: Arc<dyn EventListener>,
    listening: AtomicBool,
    pending: std::sync::Mutex<String>,
    delivering: Mutex<()>,
    closing: CancellationToken,
}

impl Subscribers {
    /// Nobody listens yet; `closing` frees every run that waits for its reader.
    #[must_use]
    pub fn new(listener: Arc<dyn EventListener>, closing: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            listener,
            listening: AtomicBool::new(false),
            pending: std::sync::Mutex::default(),
            delivering: Mutex::default(),
            closing,
        })
    }

    /// Says whether anybody listens; without a listener nothing is collected.
    pub fn set_listening(&self, on: bool) {
        self.listening.store(on, Ordering::Relaxed);
    }

    fn push(self: &Arc<Self>, session: &str, line: &str) {
        if !self.listening.load(Ordering::Relaxed) {
            return;
        }
        let first = {
            let mut pending = lock(&self.pending);
            let first = pending.is_empty();
            if !first {
                pending.push('\n');
            }
            pending.push_str("{\"sessionId\":");
            pending.push_str(&serde_json::to_string(session).unwrap_or_default());
            pending.push_str(",\"source\":\"user\",\"event\":");
            pending.push_str(line);
            pending.push('}');
            first
        };
        if first {
            let this = Arc::clone(self);
            super::task::spawn(async move { this.flush().await });
        }
    }

    /// Resolves when all that was collected before the call has been handed over.
    pub async fn flush(&self) {
        let _one_at_a_time = self.delivering.lock().await;
        let lines = std::mem::take(&mut *lock(&self.pending));
        if !lines.is_empty() {
            self.listener.deliver(lines).await;
        }
    }
}

/// Where the events of one run go.
#[derive(Clone)]
pub struct Emitter {
    session: Arc<str>,
    consumer: Option<mpsc::Sender<Arc<str>>>,
    subscribers: Arc<Subscribers>,
}

impl Emitter {
    /// An emitter for one session; `consumer` is the run's own reader, where it has one.
    #[must_use]
    pub fn new(session: Arc<str>, consumer: Option<mpsc::Sender<Arc<str>>>, subscribers: Arc<Subscribers>) -> Self {
        Self { session, consumer, subscribers }
    }

    /// Whether anybody would see an event.
    fn heard(&self) -> bool {
        self.consumer.is_some() || self.subscribers.listening.load(Ordering::Relaxed)
    }

    /// Tells one event. Waits while the run's own consumer is 1,024 events behind.
    pub async fn emit(&self, event: impl Serialize + Send) {
        if !self.heard() {
            return;
        }
        let Ok(line) = serde_json::to_string(&event) else { return };
        self.emit_line(line.into()).await;
    }

    /// Tells an event that is a JSON line already.
    pub async fn emit_line(&self, line: Arc<str>) {
        self.subscribers.push(&self.session, &line);
        if let Some(consumer) = &self.consumer {
            // A reader that went away is no fault of the run, and one that reads no more cannot hold up a close.
            tokio::select! {
                biased;
                _ = consumer.send(line) => {}
                () = self.subscribers.closing.cancelled() => {}
            }
        }
    }
}

/// An emitter that does not keep the run's event queue open.
pub struct WeakEmitter {
    session: Arc<str>,
    consumer: Option<mpsc::WeakSender<Arc<str>>>,
    subscribers: Arc<Subscribers>,
}

impl Emitter {
    /// For a holder that outlives the run.
    #[must_use]
    pub fn downgrade(&self) -> WeakEmitter {
        WeakEmitter {
            session: Arc::clone(&self.session),
            consumer: self.consumer.as_ref().map(mpsc::Sender::downgrade),
            subscribers: Arc::clone(&self.subscribers),
        }
    }
}

impl WeakEmitter {
    /// Tells an event line without waiting; once the run is over, only subscribers hear it.
    pub fn tell(&self, line: &Arc<str>) {
        self.subscribers.push(&self.session, line);
        if let Some(consumer) = self.consumer.as_ref().and_then(mpsc::WeakSender::upgrade)
            && let Err(mpsc::error::TrySendError::Full(line)) = consumer.try_send(Arc::clone(line))
        {
            // A reader that is 1,024 events behind gets it when it has caught up.
            super::task::spawn(async move { consumer.send(line).await });
        }
    }
}

/// Locks a mutex whose holder cannot leave it half-changed.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
