//! One run: prepare the servers, then turn after turn until the model stops asking for tools.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::event::RunEvent;
use super::history::History;
use super::model::{Answer, CHUNK_CREDIT, Chunk, HistorySlice, Usage};
use super::sessions::Session;
use crate::base::code::ErrorCode;
use crate::base::emitter::{Emitter, WeakEmitter};
use crate::base::fault::Fault;
use crate::base::limits::EVENT_BATCH;
use crate::pipeline::tools::ToolTable;
use crate::pipeline::{Pipeline, ToolOutcome};

/// What a run starts with.
pub struct RunOptions {
    /// The session; `None` is the agent's own.
    pub session: Option<String>,
    /// The new messages.
    pub messages: Vec<Box<RawValue>>,
    /// Whether nobody reads the run's own events.
    pub quiet: bool,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model asked for no more tools.
    Stop,
    /// The caller aborted.
    Aborted,
    /// The run had its turns.
    MaxTurns,
}

impl StopReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Aborted => "aborted",
            Self::MaxTurns => "max_turns",
        }
    }
}

/// What a run came to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    text: String,
    usage: Usage,
    stop_reason: StopReason,
    history: HistorySlice,
}

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
        if let Some(events) = &mut reader.events {
            let mut batch = Vec::with_capacity(EVENT_BATCH);
            if events.recv_many(&mut batch, EVENT_BATCH).await > 0 {
                return Some(batch.join("\n"));
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
        if let Some(outcome) = self.outcome.take() {
            self.result = Some(outcome.await.unwrap_or_else(|_| Err(Fault::internal())));
        }
    }
}

/// A run at work.
pub(super) struct Run {
    pub(super) id: u32,
    pub(super) agent: Arc<Agent>,
    pub(super) session: Arc<Session>,
    pub(super) emitter: Emitter,
    pub(super) cancel: CancellationToken,
}

/// How far the turns came.
struct Ending {
    text: String,
    usage: Usage,
    stop: StopReason,
}

impl Run {
    /// Runs to the end; a panic becomes an `INTERNAL` fault.
    pub(super) async fn supervise(self, messages: Vec<Box<RawValue>>) -> Result<RunResult, Fault> {
        let outcome =
            AssertUnwindSafe(self.go(messages)).catch_unwind().await.unwrap_or_else(|_| Err(Fault::internal()));
        if let Err(fault) = &outcome {
            self.emitter.emit(RunEvent::Error { error: fault, fatal: true }).await;
        }
        // A subscriber hears of everything before the run's caller gets its result.
        if !self.agent.closing.is_cancelled() {
            tokio::select! {
                () = self.agent.subscribers.flush() => {}
                () = self.agent.closing.cancelled() => {}
            }
        }
        outcome
    }

    async fn go(&self, messages: Vec<Box<RawValue>>) -> Result<RunResult, Fault> {
        let mut history = self.or_abort(self.session.turn.lock()).await?;
        let authority = Arc::new(self.agent.authority(&self.session.id, self.emitter.clone()));
        self.or_abort(self.agent.registry.prepare(authority)).await??;
        let ending = self.converse(&mut history, messages).await;
        // Also what a run left that failed is kept.
        let closed = history.close().await;
        let ending = ending?;
        closed?;
        let result =
            RunResult { text: ending.text, usage: ending.usage, stop_reason: ending.stop, history: history.unsynced() };
        let raw = to_raw_value(&result).map_err(|_| Fault::internal())?;
        self.emitter.emit(RunEvent::Done { reason: ending.stop.as_str(), result: &raw }).await;
        Ok(result)
    }

    async fn converse(&self, history: &mut History, messages: Vec<Box<RawValue>>) -> Result<Ending, Fault> {
        history.open(&self.emitter).await?;
        self.session.archive.load().await.map_err(|error| Fault::new(error.code(), error.to_string()))?;
        history.add(messages.into_iter().map(Arc::from).collect()).await?;
        self.turns(history).await
    }

    async fn turns(&self, history: &mut History) -> Result<Ending, Fault> {
        let agent = &self.agent;
        let pipeline = Pipeline {
            run: self.id,
            session: Arc::clone(&self.session.id),
            tools: ToolTable::new(
                &agent.config.tools,
                &agent.registry.ready(),
                &agent.config.visibility,
                &self.session.archive,
            ),
            permission: Arc::clone(&agent.permission),
            handler: Arc::clone(&agent.host.tools),
            emitter: self.emitter.clone(),
            cancel: self.cancel.clone(),
            archive: Arc::clone(&self.session.archive),
            context_budget: tokio::sync::Mutex::default(),
        };
        let mut usage = Usage::default();
        let mut text = String::new();
        for turn in 1..=agent.config.max_turns {
            self.emitter.emit(RunEvent::TurnStart { turn }).await;
            let Some(answer) = self.ask_model(history, &pipeline.tools, turn, &mut text).await? else {
                return Ok(self.end_turn(turn, text, usage, StopReason::Aborted).await);
            };
            usage.add(&answer.usage);
            text.clone_from(&answer.text);
            history.add(vec![Arc::clone(&answer.message)]).await?;
            self.emitter.emit(RunEvent::Message { message: &answer.message }).await;
            if answer.calls.is_empty() {
                return Ok(self.end_turn(turn, text, usage, StopReason::Stop).await);
            }
            let results = self.call_tools(&pipeline, &answer, turn).await;
            history.add_results(&answer, &results).await?;
            if self.cancel.is_cancelled() {
                return Ok(self.end_turn(turn, text, usage, StopReason::Aborted).await);
            }
            self.emitter.emit(RunEvent::TurnEnd { turn, stop_reason: "tool_use" }).await;
        }
        Ok(Ending { text, usage, stop: StopReason::MaxTurns })
    }

    async fn end_turn(&self, turn: u32, text: String, usage: Usage, stop: StopReason) -> Ending {
        self.emitter.emit(RunEvent::TurnEnd { turn, stop_reason: stop.as_str() }).await;
        Ending { text, usage, stop }
    }

    /// All calls are announced before the first one starts; results stand in the order of the calls.
    async fn call_tools(&self, pipeline: &Pipeline, answer: &Answer, turn: u32) -> Vec<ToolOutcome> {
        for call in &answer.calls {
            self.emitter.emit(RunEvent::ToolUse { call }).await;
        }
        // Boxed one by one: the compiler cannot prove a lazy stream of these borrows `Send`.
        let calls: Vec<BoxFuture<'_, ToolOutcome>> =
            answer.calls.iter().map(|call| pipeline.run(call, turn).boxed()).collect();
        stream::iter(calls).buffered(self.agent.config.max_parallel_tools).collect().await
    }

    /// One model call; `None` when the run is aborted meanwhile.
    async fn ask_model(
        &self,
        history: &mut History,
        tools: &ToolTable,
        turn: u32,
        text: &mut String,
    ) -> Result<Option<Answer>, Fault> {
        let model = Arc::clone(&self.agent.config.model);
        let started = Instant::now();
        self.emitter.emit(RunEvent::ModelCallStart { turn, model: &model }).await;
        let outcome = self.stream_model(history, tools, text).await;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (usage, error) = match &outcome {
            Ok(answer) => (answer.as_ref().map(|answer| &answer.usage), None),
            Err(fault) => (None, Some(fault)),
        };
        self.emitter.emit(RunEvent::ModelCallEnd { turn, model: &model, duration_ms, usage, error }).await;
        outcome
    }

    async fn stream_model(
        &self,
        history: &mut History,
        tools: &ToolTable,
        text: &mut String,
    ) -> Result<Option<Answer>, Fault> {
        let request = history.request(&self.agent.config, tools);
        let (sender, mut chunks) = mpsc::channel(CHUNK_CREDIT);
        let mut pump = self.agent.host.model.stream(request, sender);
        let mut pumping = true;
        text.clear();
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ok(None),
                chunk = chunks.recv() => match chunk.as_deref().map(Chunk::read).transpose()? {
                    Some(Chunk::Text(delta)) => {
                        self.emitter.emit(RunEvent::TextDelta { text: &delta }).await;
                        text.push_str(&delta);
                    }
                    Some(Chunk::Done(answer)) => return Ok(Some(answer)),
                    None if pumping => {
                        let ended = tokio::select! {
                            ended = &mut pump => ended,
                            () = self.cancel.cancelled() => return Ok(None),
                        };
                        return Err(ended.map_or_else(model_failed, |()| no_answer()));
                    }
                    None => return Err(no_answer()),
                },
                ended = &mut pump, if pumping => {
                    pumping = false;
                    ended.map_err(model_failed)?;
                }
            }
        }
    }

    /// Waits, unless the run is aborted first.
    async fn or_abort<T>(&self, work: impl Future<Output = T>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Fault::aborted()),
            done = work => Ok(done),
        }
    }
}

fn model_failed(error: crate::base::fault::HostError) -> Fault {
    let message = if error.message.is_empty() { "it gave no reason".to_owned() } else { error.message };
    Fault::new(ErrorCode::Provider, format!("the model failed: {message}"))
        .with_status(error.status)
        .with_cause(error.cause_id)
}

fn no_answer() -> Fault {
    Fault::new(ErrorCode::Provider, "the model's stream ended without a `message_done`")
}
