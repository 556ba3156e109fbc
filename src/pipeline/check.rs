//! Checking values against a server's schemas: at once when that is quick, else on a thread that may block, a few at a
//! time and for two seconds at most.

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::Refusal;
use crate::base::limits::{QUICK_CHECK_BYTES, VALIDATION_DEADLINE};
use crate::mcp::catalog::CatalogTool;
use crate::schema::{CompiledSchema, describe};

/// What a value is told to break; `Ok` when it breaks nothing.
type Verdict = Result<(), String>;

/// A large value takes many times its text in memory: no more of them at once than there are cores.
static ROOM: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, NonZero::get)));

/// Why structured content is not used.
pub(super) enum Misfit {
    /// It is no JSON that can be read.
    Unreadable,
    /// What it breaks.
    Breaks(String),
    /// It could not be judged.
    Unjudged(Refusal),
}

/// Checks the input of a call, and gives it back.
pub(super) async fn input(tool: &Arc<CatalogTool>, value: Value) -> Result<(Value, Verdict), Refusal> {
    if tool.input.is_quick(&value) {
        let verdict = judge(&tool.input, &value);
        return Ok((value, verdict));
    }
    let tool = Arc::clone(tool);
    apart(move || {
        let verdict = judge(&tool.input, &value);
        (value, verdict)
    })
    .await
}

/// Checks the structured content of a result.
pub(super) async fn output(tool: &Arc<CatalogTool>, content: &RawValue) -> Result<(), Misfit> {
    let Some(schema) = &tool.output else { return Ok(()) };
    if content.get().len() <= QUICK_CHECK_BYTES {
        let value: Value = serde_json::from_str(content.get()).map_err(|_| Misfit::Unreadable)?;
        if schema.is_quick(&value) {
            return judge(schema, &value).map_err(Misfit::Breaks);
        }
    }
    let (tool, text) = (Arc::clone(tool), content.to_owned());
    let work = move || {
        let value: Value = serde_json::from_str(text.get()).map_err(|_| Misfit::Unreadable)?;
        tool.output.as_ref().map_or(Ok(()), |schema| judge(schema, &value)).map_err(Misfit::Breaks)
    };
    apart(work).await.map_err(Misfit::Unjudged)?
}

fn judge(schema: &CompiledSchema, value: &Value) -> Verdict {
    schema.validate(value).map_err(|found| describe(&found))
}

/// Does work off the threads that move bytes; waiting for room is not part of its time.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let failed = || Refusal("INTERNAL: checking a value against the tool's schema failed".into());
    let room = ROOM.acquire().await.map_err(|_| failed())?;
    let work = tokio::task::spawn_blocking(move || {
        // Also work that nobody waits for any more takes room until it ends.
        let _room = room;
        work()
    });
    match tokio::time::timeout(VALIDATION_DEADLINE, work).await {
        Ok(done) => done.map_err(|_| failed()),
        Err(_) => Err(Refusal("MCP_LIMIT: checking a value against the tool's schema took more than 2 s".into())),
    }
}
