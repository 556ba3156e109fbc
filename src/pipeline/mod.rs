//! One tool call, gate by gate: lookup → validation → permission → execution → projection and archive; hooks around.
//!
//! Every failure on the way is a result that the model can read; none ends the run.

pub mod call;
mod check;
pub mod event;
pub mod hooks;
mod large;
pub mod permission;
pub mod policy;
pub mod projection;
pub mod tools;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::call::ToolCall;
use self::check::Misfit;
use self::event::{CallEvent, ToolResultEvent};
use self::hooks::{HookError, HookEvent, HookName, HookStatus, HookToolResult, RunHooks};
use self::large::ResultText;
use self::permission::{DecidedBy, Permission, PermittedCall};
use self::projection::RawResult;
use self::tools::{HostCall, HostResult, Route, ToolHandler, ToolTable, Validated};
use crate::archive::Archive;
use crate::archive::context::{self, TurnBudget};
use crate::base::code::ErrorCode;
use crate::base::emitter::Emitter;
use crate::base::fault::HostError;
use crate::base::limits::{HOST_DEADLINE, HOST_TEXT_CHARS, PROJECTION_BYTES};
use crate::base::redact::hide;
use crate::mcp::catalog::CatalogTool;
use crate::mcp::connection::{CallRequest, Progress, ProgressQueue};
use crate::mcp::registry::{ConnectWarning, ReadyServer};

/// What came of a call: text for the model.
#[derive(Debug)]
pub struct ToolOutcome {
    /// The text.
    pub content: String,
    /// Whether it tells of a failure.
    pub is_error: bool,
}

/// Why a call was not executed; the text is for the model.
struct Refusal(String);

impl From<Refusal> for ToolOutcome {
    fn from(refusal: Refusal) -> Self {
        Self { content: refusal.0, is_error: true }
    }
}

/// The gates of one run.
pub struct Pipeline {
    /// The run's number at the border.
    pub run: u32,
    /// The session's id.
    pub session: Arc<str>,
    /// What can be called.
    pub tools: ToolTable,
    /// Who says yes.
    pub permission: Arc<Permission>,
    /// The host's tools.
    pub handler: Arc<dyn ToolHandler>,
    /// Who watches.
    pub hooks: Arc<RunHooks>,
    /// Where events go.
    pub emitter: Emitter,
    /// Ends every call.
    pub cancel: CancellationToken,
    /// Where large results of the session go.
    pub archive: Arc<Archive>,
    /// What `context` has given; its calls go one after another.
    pub context_budget: tokio::sync::Mutex<TurnBudget>,
}

impl Pipeline {
    /// Runs one call of a turn to its outcome; never fails.
    pub async fn run(&self, call: &ToolCall, turn: u32) -> ToolOutcome {
        self.emitter.emit(CallEvent::ToolCallStart { call, turn }).await;
        let mut started = None;
        let validated = OnceLock::new();
        let work = async {
            started = Some(Instant::now());
            self.hooks.tell(HookEvent::ToolStart { call }).await;
            started = Some(Instant::now());
            self.pass(call.clone(), turn, &validated).await
        };
        let done = tokio::select! {
            // The abort first: a call that waits for a prompt must not show it when the one before it is given up.
            biased;
            () = self.cancel.cancelled() => None,
            outcome = work => Some(outcome),
        };
        let cancelled = done.is_none();
        let outcome = done.unwrap_or_else(|| ToolOutcome { content: CANCELLED.into(), is_error: true });
        let duration_ms = started.map_or(0, |started| u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let (id, name) = (call.id.as_str(), call.name.as_str());
        self.emitter.emit(CallEvent::ToolCallEnd { id, name, turn, duration_ms, is_error: outcome.is_error }).await;
        // A call that never began is told neither its start nor its end.
        if started.is_some() {
            self.tell_end(validated.get().unwrap_or(call), &outcome, cancelled, duration_ms).await;
        }
        let result =
            ToolResultEvent { id, name, content: &outcome.content, is_error: outcome.is_error.then_some(true) };
        self.emitter.emit(CallEvent::ToolResult { result }).await;
        outcome
    }

    async fn tell_end(&self, call: &ToolCall, outcome: &ToolOutcome, cancelled: bool, duration_ms: u64) {
        let content = outcome.content.as_str();
        let (status, code) = match outcome.is_error {
            _ if cancelled => (HookStatus::Cancelled, Some(ErrorCode::Aborted)),
            true => (HookStatus::Failed, Some(ErrorCode::Tool)),
            false => (HookStatus::Completed, None),
        };
        let error = code.map(|code| HookError { name: code.class(), code: code.as_str(), message: content });
        let result = HookToolResult { content, is_error: outcome.is_error.then_some(true) };
        self.hooks.tell(HookEvent::ToolEnd { call, status, result, error, duration_ms }).await;
    }

    async fn pass(&self, call: ToolCall, turn: u32, validated: &OnceLock<ToolCall>) -> ToolOutcome {
        match self.judge(call, validated).await {
            Ok((route, permitted)) => self.execute(route, permitted, turn).await,
            Err(refusal) => refusal.into(),
        }
    }

    async fn judge(
        &self,
        mut call: ToolCall,
        validated: &OnceLock<ToolCall>,
    ) -> Result<(&Route, PermittedCall), Refusal> {
        let route = self
            .tools
            .find(&call.name)
            .ok_or_else(|| Refusal("there is no tool of that name; use one of the listed tools".into()))?;
        call.input = self.validate(route, &call).await?;
        if self.hooks.has(HookName::ToolEnd) {
            let _ = validated.set(call.clone());
        }
        let id = call.id.clone();
        match self.permission.decide(call, &self.session, &self.emitter).await {
            Ok(permitted) => Ok((route, permitted)),
            Err(denied) => {
                if let Route::Host(_) = route {
                    self.handler.forget(self.run, &id);
                }
                Err(Refusal(denied.reason))
            }
        }
    }

    async fn validate(&self, route: &Route, call: &ToolCall) -> Result<Value, Refusal> {
        match route {
            Route::Host(index) => {
                let host = self.host_call(call, false);
                match tokio::time::timeout(HOST_DEADLINE, self.handler.validate(*index, host)).await {
                    Ok(Ok(Validated::Value(value))) => Ok(value),
                    Ok(Ok(Validated::Issues(issues))) => {
                        let told: Vec<String> = issues
                            .iter()
                            .map(|issue| {
                                format!("{}: {}", if issue.path.is_empty() { "/" } else { &issue.path }, issue.message)
                            })
                            .collect();
                        Err(Refusal(format!("the input does not fit the tool's schema: {}", hide(&told.join("; ")))))
                    }
                    Ok(Err(_)) => {
                        Err(Refusal("the tool's schema failed while it checked the input; the tool was not run".into()))
                    }
                    Err(_) => Err(Refusal("the tool's schema gave no answer within 10 s; the tool was not run".into())),
                }
            }
            Route::Server(_, tool) => {
                let (input, verdict) = check::input(tool, object(&call.input)?).await?;
                verdict.map_err(misfit)?;
                Ok(input)
            }
            Route::Context => {
                let input = object(&call.input)?;
                context::check(&input).map_err(misfit)?;
                Ok(input)
            }
        }
    }

    async fn execute(&self, route: &Route, permitted: PermittedCall, turn: u32) -> ToolOutcome {
        match route {
            Route::Context => self.execute_context(&permitted, turn).await,
            Route::Host(index) => self.execute_host(*index, &permitted).await,
            Route::Server(server, tool) => match self.execute_server(server, tool, &permitted).await {
                Ok(outcome) => outcome,
                Err(refusal) => refusal.into(),
            },
        }
    }

    async fn execute_host(&self, index: usize, permitted: &PermittedCall) -> ToolOutcome {
        let host = self.host_call(permitted.call(), permitted.by() == DecidedBy::User);
        match self.handler.execute(index, host).await {
            Ok(result) if result.content.len() > PROJECTION_BYTES => ToolOutcome {
                content: format!("the tool's result is above the limit of {PROJECTION_BYTES} bytes"),
                is_error: true,
            },
            Ok(HostResult { content: text, is_error }) => {
                let result = ResultText { text, is_error, holds_media: false, preview: large::beginning };
                self.settle(&permitted.call().name, result).await
            }
            Err(error) => ToolOutcome { content: host_failure(&error), is_error: true },
        }
    }

    async fn execute_context(&self, permitted: &PermittedCall, turn: u32) -> ToolOutcome {
        let mut budget = self.context_budget.lock().await;
        match context::answer(&self.archive, &permitted.call().input, &mut budget, turn).await {
            Ok(content) => ToolOutcome { content, is_error: false },
            Err(error) => ToolOutcome { content: format!("{}: {error}", error.code().as_str()), is_error: true },
        }
    }

    async fn execute_server(
        &self,
        server: &ReadyServer,
        tool: &Arc<CatalogTool>,
        permitted: &PermittedCall,
    ) -> Result<ToolOutcome, Refusal> {
        let call = permitted.call();
        let Value::Object(arguments) = &call.input else { return Err(Refusal("the input is not an object".into())) };
        let (progress, mut steps) = ProgressQueue::new();
        let request = CallRequest {
            tool: &tool.listed.name,
            arguments: arguments.clone(),
            header_params: &tool.listed.header_params,
            cancel: self.cancel.clone(),
            progress: Some(progress),
        };
        // All progress the server sent comes before its result; whoever hears it cannot hold up the deadline.
        let telling = async {
            while let Some(step) = steps.next().await {
                self.tell(call, &step).await;
            }
        };
        let (answer, ()) = tokio::join!(server.connection.call(request), telling);
        if server.connection.take_skip_notice() {
            let warning = ConnectWarning::SkippedLines { server: server.declaration.name.clone() };
            let message = warning.to_string();
            self.emitter
                .emit(CallEvent::Diagnostic { level: "warning", code: warning.code(), message: &message })
                .await;
        }
        let raw = answer.map_err(|error| Refusal(format!("{}: {error}. {UNCERTAIN}", error.code().as_str())))?;
        let result = RawResult::read(&raw).map_err(|_| {
            Refusal(format!("MCP_PROTOCOL: the server's result is not of the protocol's form. {UNCERTAIN}"))
        })?;
        self.check_output(tool, &result).await?;
        match result.project() {
            Ok(text) => {
                let (is_error, holds_media) = (result.is_error(), result.holds_media());
                let result = ResultText { text, is_error, holds_media, preview: projection::preview };
                Ok(self.settle(&call.name, result).await)
            }
            Err(bytes) => Err(Refusal(format!(
                "MCP_LIMIT: the result has {bytes} bytes, above the limit of {PROJECTION_BYTES}. {UNCERTAIN}"
            ))),
        }
    }

    async fn check_output(&self, tool: &Arc<CatalogTool>, result: &RawResult<'_>) -> Result<(), Refusal> {
        if tool.output.is_none() || result.is_error() {
            return Ok(());
        }
        let Some(structured) = result.structured() else {
            return Err(Refusal(format!(
                "MCP_SCHEMA: the tool declares an output schema and its result has no structuredContent. {UNCERTAIN}"
            )));
        };
        check::output(tool, structured).await.map_err(|misfit| match misfit {
            Misfit::Unreadable => {
                Refusal(format!("MCP_PROTOCOL: the result's structuredContent cannot be read. {UNCERTAIN}"))
            }
            Misfit::Breaks(told) => {
                Refusal(format!("MCP_SCHEMA: the result breaks the tool's own output schema ({told}). {UNCERTAIN}"))
            }
            Misfit::Unjudged(refusal) => refusal,
        })
    }

    async fn tell(&self, call: &ToolCall, progress: &Progress) {
        self.emitter
            .emit(CallEvent::ToolProgress {
                id: &call.id,
                name: &call.name,
                progress: &progress.progress,
                total: progress.total.as_ref(),
                message: progress.message.as_deref(),
            })
            .await;
    }

    fn host_call<'a>(&'a self, call: &'a ToolCall, approved: bool) -> HostCall<'a> {
        HostCall { run: self.run, session: &self.session, call, approved }
    }
}

const CANCELLED: &str = "the call was cancelled. Its outcome may be unknown; do not repeat side effects automatically.";
const UNCERTAIN: &str = "The outcome of the call may be unknown; do not repeat side effects automatically.";

/// The input of a tool that takes an object.
fn object(input: &Value) -> Result<Value, Refusal> {
    match input {
        Value::Object(_) => Ok(input.clone()),
        _ => Err(misfit("/: type: it must be an object".into())),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn misfit(told: String) -> Refusal {
    Refusal(format!("the input does not fit the tool's schema: {told}"))
}

/// A host tool's own error message is the host's to show; its stack, paths and secrets are not.
fn host_failure(error: &HostError) -> String {
    let line = error.message.trim_start().lines().next().unwrap_or_default();
    // Hidden before it is cut, or half a secret would be left.
    let read: String = line.chars().take(4 * HOST_TEXT_CHARS).collect();
    let shown: String = hide(&read).chars().take(HOST_TEXT_CHARS).collect();
    if shown.trim().is_empty() { "the tool failed".into() } else { format!("the tool failed: {shown}") }
}
