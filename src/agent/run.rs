//! One run: prepare the servers, then turn after turn until the model stops asking for tools.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::event::RunEvent;
use super::history::History;
use super::model::{Answer, CHUNK_CREDIT, Chunk, HistorySlice, Usage};
use super::queue::Place;
use super::sessions::Session;
use crate::base::code::ErrorCode;
use crate::base::emitter::Emitter;
use crate::base::fault::Fault;
use crate::pipeline::hooks::{HookError, HookEvent, HookStatus, RunHooks};
use crate::pipeline::tools::ToolTable;
use crate::pipeline::{Pipeline, ToolOutcome};

/// What a run starts with.
pub struct RunOptions {
    /// The session; `None` is the agent's own.
    pub session: Option<String>,
    /// What the caller says.
    pub input: RunInput,
    /// Whether nobody reads the run's own events.
    pub quiet: bool,
}

/// What the caller of a run says.
pub struct RunInput {
    /// As it was given, for hooks: a string, or the list of messages.
    pub given: Box<RawValue>,
    /// The new messages.
    pub messages: Vec<Box<RawValue>>,
}

impl RunInput {
    /// A string is what the user says; anything else is the list of messages.
    ///
    /// # Errors
    /// `INTERNAL` when it is neither.
    pub fn read(given: Box<RawValue>) -> Result<Self, Fault> {
        let messages = if given.get().starts_with('"') {
            let said = format!(r#"{{"role":"user","content":{}}}"#, given.get());
            vec![RawValue::from_string(said).map_err(|_| Fault::internal())?]
        } else {
            serde_json::from_str(given.get()).map_err(|_| Fault::internal())?
        };
        Ok(Self { given, messages })
    }
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

    const fn status(self) -> HookStatus {
        match self {
            Self::Stop => HookStatus::Completed,
            Self::Aborted => HookStatus::Cancelled,
            Self::MaxTurns => HookStatus::MaxTurns,
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

/// A run at work.
pub(super) struct Run {
    pub(super) id: u32,
    pub(super) agent: Arc<Agent>,
    pub(super) session: Arc<Session>,
    pub(super) hooks: Arc<RunHooks>,
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
    pub(super) async fn supervise(self, place: Place, input: RunInput) -> Result<RunResult, Fault> {
        let outcome =
            AssertUnwindSafe(self.go(place, input)).catch_unwind().await.unwrap_or_else(|_| Err(Fault::internal()));
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

    /// Waits for the session, then runs between the hooks; `done` comes after everything else.
    async fn go(&self, place: Place, input: RunInput) -> Result<RunResult, Fault> {
        let mut history = self.or_abort(place).await?;
        let outcome = AssertUnwindSafe(self.work(&mut history, input)).catch_unwind().await;
        // Also what a run left that failed or panicked is kept, and others may have the session from here on.
        let closed = history.close().await;
        let outcome = outcome.unwrap_or_else(|_| Err(Fault::internal())).and_then(|result| {
            closed?;
            let raw = to_raw_value(&result).map_err(|_| Fault::internal())?;
            Ok((result, raw))
        });
        let (status, told, error) = match &outcome {
            Ok((result, raw)) => (result.stop_reason.status(), Some(&**raw), None),
            Err(fault) => (status_of(fault), None, Some(HookError::from(fault))),
        };
        self.hooks.tell(HookEvent::RunEnd { status, result: told, error }).await;
        let (result, raw) = outcome?;
        self.emitter.emit(RunEvent::Done { reason: result.stop_reason.as_str(), result: &raw }).await;
        Ok(result)
    }

    async fn work(&self, history: &mut History, input: RunInput) -> Result<RunResult, Fault> {
        let RunInput { given, messages } = input;
        tokio::select! {
            biased;
            () = self.hooks.tell(HookEvent::RunStart { input: &given }) => {}
            () = self.cancel.cancelled() => return Err(Fault::aborted()),
        }
        let authority = Arc::new(self.agent.authority(&self.session.id, self.emitter.clone()));
        self.or_abort(self.agent.registry.prepare(authority)).await??;
        let ending = self.converse(history, messages).await?;
        Ok(RunResult { text: ending.text, usage: ending.usage, stop_reason: ending.stop, history: history.unsynced() })
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
            hooks: Arc::clone(&self.hooks),
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
            history.answered(&pipeline.tools);
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
        let calls: Vec<BoxFuture<'_, (usize, ToolOutcome)>> = answer
            .calls
            .iter()
            .enumerate()
            .map(|(at, call)| pipeline.run(call, turn).map(move |outcome| (at, outcome)).boxed())
            .collect();
        // In the order in which they end, so that a slow one does not keep the next ones from starting.
        let mut ended: Vec<_> =
            stream::iter(calls).buffer_unordered(self.agent.config.max_parallel_tools).collect().await;
        ended.sort_by_key(|(at, _)| *at);
        ended.into_iter().map(|(_, outcome)| outcome).collect()
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

/// How a run ended that has no result.
fn status_of(fault: &Fault) -> HookStatus {
    match fault.code() {
        ErrorCode::Aborted | ErrorCode::Closed => HookStatus::Cancelled,
        _ => HookStatus::Failed,
    }
}

fn no_answer() -> Fault {
    Fault::new(ErrorCode::Provider, "the model's stream ended without a `message_done`")
}
