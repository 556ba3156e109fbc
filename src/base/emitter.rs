//! Where events go: the run's own consumer and the agent's subscribers.
//!
//! An event is built once, as one JSON line, and shared by both. What the events are is the business of their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::limits::QUEUED_EVENTS;

/// Takes batches of subscriber lines: `{"sessionId":…,"source":…,"event":…}`, one a line.
pub trait EventListener: Send + Sync {
    /// Delivers one batch; resolves when the host has handed it to its listeners.
    fn deliver(&self, lines: String) -> BoxFuture<'_, ()>;
}

/// The subscribers of an agent: collects lines and hands them over, one batch at a time.
pub struct Subscribers {
    listener: Arc<dyn EventListener>,
    listening: AtomicBool,
    pending: std::sync::Mutex<Pending>,
    delivering: Mutex<()>,
    closing: CancellationToken,
}

/// Who tells an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The agent itself, at its own pace.
    Agent,
    /// A tool, which may tell any number without waiting.
    Tool,
}

/// Lines that wait for the subscribers.
#[derive(Default)]
struct Pending {
    lines: String,
    /// How many of them are a tool's own.
    of_tools: usize,
}

impl Pending {
    fn add(&mut self, session: &str, line: &str) {
        if !self.lines.is_empty() {
            self.lines.push('\n');
        }
        self.lines.push_str("{\"sessionId\":");
        self.lines.push_str(&serde_json::to_string(session).unwrap_or_default());
        self.lines.push_str(",\"source\":\"user\",\"event\":");
        self.lines.push_str(line);
        self.lines.push('}');
    }
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

    fn push(self: &Arc<Self>, session: &str, line: &str, origin: Origin) {
        if !self.listening.load(Ordering::Relaxed) {
            return;
        }
        let first = {
            let mut pending = lock(&self.pending);
            let first = pending.lines.is_empty();
            if origin == Origin::Agent || pending.of_tools < QUEUED_EVENTS {
                pending.add(session, line);
            } else if pending.of_tools == QUEUED_EVENTS {
                pending.add(session, DROPPED);
            }
            pending.of_tools += usize::from(origin == Origin::Tool);
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
        let Pending { lines, .. } = std::mem::take(&mut *lock(&self.pending));
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
        self.subscribers.push(&self.session, &line, Origin::Agent);
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
    /// Whether the consumer is still to be told that it missed something.
    dropping: Arc<AtomicBool>,
}

impl Emitter {
    /// For a holder that outlives the run.
    #[must_use]
    pub fn downgrade(&self) -> WeakEmitter {
        WeakEmitter {
            session: Arc::clone(&self.session),
            consumer: self.consumer.as_ref().map(mpsc::Sender::downgrade),
            subscribers: Arc::clone(&self.subscribers),
            dropping: Arc::default(),
        }
    }
}

impl WeakEmitter {
    /// Tells an event line of a tool without waiting; once the run is over, only subscribers hear it.
    ///
    /// Who is 1,024 events behind misses it, and hears once that it missed some.
    pub fn tell(&self, line: &Arc<str>) {
        self.subscribers.push(&self.session, line, Origin::Tool);
        if let Some(consumer) = self.consumer.as_ref().and_then(mpsc::WeakSender::upgrade)
            && let Err(mpsc::error::TrySendError::Full(_)) = consumer.try_send(Arc::clone(line))
            && !self.dropping.swap(true, Ordering::Relaxed)
        {
            let dropping = Arc::clone(&self.dropping);
            super::task::spawn(async move {
                let _ = consumer.send(DROPPED.into()).await;
                dropping.store(false, Ordering::Relaxed);
            });
        }
    }
}

/// Told in the place of a tool's events that nobody could take any more.
const DROPPED: &str = r#"{"type":"diagnostic","level":"warning","code":"tool_events_dropped","message":"a tool emitted events faster than they are read; some of them are lost"}"#;

/// Locks a mutex whose holder cannot leave it half-changed.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
