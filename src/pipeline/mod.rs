//! One tool call, gate by gate: lookup → validation → permission → execution → projection.
//!
//! Every failure on the way is a result that the model can read; none ends the run.

pub mod call;
pub mod event;
pub mod permission;
pub mod policy;
pub mod projection;
pub mod tools;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::call::ToolCall;
use self::event::{CallEvent, ToolResultEvent};
use self::permission::{DecidedBy, Permission, PermittedCall};
use self::projection::RawResult;
use self::tools::{HostCall, Route, ToolHandler, ToolTable, Validated};
use crate::base::emitter::Emitter;
use crate::base::fault::HostError;
use crate::base::limits::{HOST_DEADLINE, HOST_TEXT_CHARS, PROJECTION_BYTES, VALIDATION_DEADLINE};
use crate::base::redact::hide;
use crate::mcp::catalog::CatalogTool;
use crate::mcp::connection::{CallRequest, Progress};
use crate::mcp::registry::{ConnectWarning, ReadyServer};
use crate::schema::{CompiledSchema, describe};

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
    /// Where events go.
    pub emitter: Emitter,
    /// Ends every call.
    pub cancel: CancellationToken,
}

impl Pipeline {
    /// Runs one call of a turn to its outcome; never fails.
    pub async fn run(&self, call: &ToolCall, turn: u32) -> ToolOutcome {
        let started = Instant::now();
        self.emitter.emit(CallEvent::ToolCallStart { call, turn }).await;
        let outcome = tokio::select! {
            outcome = self.pass(call.clone()) => outcome,
            () = self.cancel.cancelled() => ToolOutcome { content: CANCELLED.into(), is_error: true },
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (id, name) = (call.id.as_str(), call.name.as_str());
        self.emitter.emit(CallEvent::ToolCallEnd { id, name, turn, duration_ms, is_error: outcome.is_error }).await;
        let result =
            ToolResultEvent { id, name, content: &outcome.content, is_error: outcome.is_error.then_some(true) };
        self.emitter.emit(CallEvent::ToolResult { result }).await;
        outcome
    }

    async fn pass(&self, call: ToolCall) -> ToolOutcome {
        match self.judge(call).await {
            Ok((route, permitted)) => self.execute(route, permitted).await,
            Err(refusal) => refusal.into(),
        }
    }

    async fn judge(&self, mut call: ToolCall) -> Result<(&Route, PermittedCall), Refusal> {
        let route = self
            .tools
            .find(&call.name)
            .ok_or_else(|| Refusal("there is no tool of that name; use one of the listed tools".into()))?;
        call.input = self.validate(route, &call).await?;
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
                let input = if call.input.is_null() { Value::Object(Map::new()) } else { call.input.clone() };
                if !input.is_object() {
                    return Err(Refusal(
                        "the input does not fit the tool's schema: /: type: it must be an object".into(),
                    ));
                }
                let (input, verdict) = check(Arc::clone(tool), Which::Input, input).await?;
                verdict.map_err(|told| Refusal(format!("the input does not fit the tool's schema: {told}")))?;
                Ok(input)
            }
        }
    }

    async fn execute(&self, route: &Route, permitted: PermittedCall) -> ToolOutcome {
        match route {
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
            Ok(result) => ToolOutcome { content: result.content, is_error: result.is_error },
            Err(error) => ToolOutcome { content: host_failure(&error), is_error: true },
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
        let (progress, mut told) = mpsc::unbounded_channel();
        let request = CallRequest {
            tool: &tool.listed.name,
            arguments: arguments.clone(),
            header_params: &tool.listed.header_params,
            cancel: self.cancel.clone(),
            progress: Some(progress),
        };
        let answer = {
            let answer = server.connection.call(request);
            tokio::pin!(answer);
            loop {
                tokio::select! {
                    biased;
                    Some(progress) = told.recv() => self.tell(call, &progress).await,
                    answer = &mut answer => break answer,
                }
            }
        };
        if server.connection.take_skip_notice() {
            let warning = ConnectWarning::SkippedLines { server: server.declaration.name.clone() };
            let message = warning.to_string();
            self.emitter
                .emit(CallEvent::Diagnostic { level: "warning", code: warning.code(), message: &message })
                .await;
        }
        // All progress the server sent comes before its result.
        while let Ok(progress) = told.try_recv() {
            self.tell(call, &progress).await;
        }
        let raw = answer.map_err(|error| Refusal(format!("{}: {error}. {UNCERTAIN}", error.code().as_str())))?;
        let result = RawResult::read(&raw).map_err(|_| {
            Refusal(format!("MCP_PROTOCOL: the server's result is not of the protocol's form. {UNCERTAIN}"))
        })?;
        self.check_output(tool, &result).await?;
        match result.project() {
            Ok(content) => Ok(ToolOutcome { content, is_error: result.is_error() }),
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
        let value = serde_json::from_str(structured.get()).map_err(|_| {
            Refusal(format!("MCP_PROTOCOL: the result's structuredContent cannot be read. {UNCERTAIN}"))
        })?;
        let (_, verdict) = check(Arc::clone(tool), Which::Output, value).await?;
        verdict.map_err(|told| {
            Refusal(format!("MCP_SCHEMA: the result breaks the tool's own output schema ({told}). {UNCERTAIN}"))
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

#[derive(Clone, Copy)]
enum Which {
    Input,
    Output,
}

impl Which {
    const fn of(self, tool: &CatalogTool) -> Option<&CompiledSchema> {
        match self {
            Self::Input => Some(&tool.input),
            Self::Output => tool.output.as_ref(),
        }
    }
}

type Checked = (Value, Result<(), String>);

/// Validates a value: at once when that is quick, else on a thread that may block, for two seconds at most.
async fn check(tool: Arc<CatalogTool>, which: Which, value: Value) -> Result<Checked, Refusal> {
    let judge = |schema: &CompiledSchema, value: &Value| schema.validate(value).map_err(|found| describe(&found));
    let Some(schema) = which.of(&tool) else { return Ok((value, Ok(()))) };
    if schema.is_quick(&value) {
        let verdict = judge(schema, &value);
        return Ok((value, verdict));
    }
    let work = tokio::task::spawn_blocking(move || {
        let verdict = which.of(&tool).map_or(Ok(()), |schema| judge(schema, &value));
        (value, verdict)
    });
    match tokio::time::timeout(VALIDATION_DEADLINE, work).await {
        Ok(Ok(checked)) => Ok(checked),
        Ok(Err(_)) => Err(Refusal("INTERNAL: checking a value against the tool's schema failed".into())),
        Err(_) => Err(Refusal("MCP_LIMIT: checking a value against the tool's schema took more than 2 s".into())),
    }
}

/// A host tool's own error message is the host's to show; its stack, paths and secrets are not.
fn host_failure(error: &HostError) -> String {
    let line = error.message.trim_start().lines().next().unwrap_or_default();
    // Hidden before it is cut, or half a secret would be left.
    let read: String = line.chars().take(4 * HOST_TEXT_CHARS).collect();
    let shown: String = hide(&read).chars().take(HOST_TEXT_CHARS).collect();
    if shown.trim().is_empty() { "the tool failed".into() } else { format!("the tool failed: {shown}") }
}
