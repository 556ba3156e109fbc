//! The messages of one session: in memory, on disk when the session is saved, and how many of them the host has seen.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::ResolvedConfig;
use super::model::{Answer, HistoryKey, HistorySlice, ModelRequest, RequestHead};
use crate::base::emitter::Emitter;
use crate::base::fault::Fault;
use crate::pipeline::ToolOutcome;
use crate::pipeline::event::CallEvent;
use crate::pipeline::tools::ToolTable;
use crate::session::transcript::{Transcript, TranscriptError};

/// What a model reads of a call that ended with its process, or with a panic.
const INTERRUPTED: &str = "the call was cut off before it was finished. Its outcome may be unknown; do not repeat side effects automatically.";

/// A session's messages.
pub struct History {
    /// What the host keeps them under; another one when the session was deleted and begins anew.
    key: Arc<HistoryKey>,
    /// Each message as JSON text.
    messages: Vec<Arc<RawValue>>,
    /// How many the host holds.
    synced: usize,
    /// The tools the host was last told of.
    told_tools: Option<Arc<RawValue>>,
    /// Where they are kept; `None` is in memory only.
    transcript: Option<Transcript>,
}

impl History {
    /// No messages so far.
    #[must_use]
    pub fn new(key: Arc<HistoryKey>, transcript: Option<Transcript>) -> Self {
        Self { key, messages: Vec::new(), synced: 0, told_tools: None, transcript }
    }

    /// Makes the session ready for a run: reads what other agents and earlier processes left.
    ///
    /// # Errors
    /// `STORAGE`.
    pub async fn open(&mut self, emitter: &Emitter) -> Result<(), Fault> {
        if let Some(transcript) = &mut self.transcript {
            let found = transcript.open(self.messages.len()).await.map_err(fault)?;
            self.messages.extend(found.messages);
            if found.is_torn {
                let message = "the last line of the session's transcript was not written whole, and is dropped";
                emitter.emit(CallEvent::Diagnostic { level: "warning", code: "transcript_torn", message }).await;
            }
        }
        if let Some(closing) = self.messages.last().and_then(|last| close_calls(last)) {
            let message = "tool calls of the session were cut off; the model is told that their outcome is unknown";
            emitter.emit(CallEvent::Diagnostic { level: "warning", code: "calls_interrupted", message }).await;
            self.add(vec![closing]).await?;
        }
        Ok(())
    }

    /// Adds messages.
    ///
    /// # Errors
    /// `STORAGE`; they are not added then.
    pub async fn add(&mut self, messages: Vec<Arc<RawValue>>) -> Result<(), Fault> {
        if let Some(transcript) = &mut self.transcript {
            transcript.append(&messages).await.map_err(fault)?;
        }
        self.messages.extend(messages);
        Ok(())
    }

    /// Adds the results of an answer's calls, in the order of the calls.
    ///
    /// # Errors
    /// `STORAGE`; they are not added then.
    pub async fn add_results(&mut self, answer: &Answer, results: &[ToolOutcome]) -> Result<(), Fault> {
        let blocks = answer.calls.iter().zip(results).map(|(call, outcome)| ResultBlock {
            r#type: "tool_result",
            id: &call.id,
            content: &outcome.content,
            is_error: outcome.is_error.then_some(true),
        });
        self.add(vec![results_message(blocks.collect()).ok_or_else(Fault::internal)?]).await
    }

    /// Ends a run: what it added is on the disk.
    ///
    /// # Errors
    /// `STORAGE`.
    pub async fn close(&mut self) -> Result<(), Fault> {
        match &mut self.transcript {
            Some(transcript) => transcript.close().await.map_err(fault),
            None => Ok(()),
        }
    }

    /// Removes the messages, also from the disk; `fresh` is what the host keeps the next ones under.
    ///
    /// # Errors
    /// `STORAGE`; nothing is removed then.
    pub async fn delete(&mut self, fresh: Arc<HistoryKey>) -> Result<(), Fault> {
        if let Some(transcript) = &mut self.transcript {
            transcript.remove().await.map_err(fault)?;
        }
        *self = Self::new(fresh, self.transcript.take());
        Ok(())
    }

    /// A request to the model with all messages.
    #[must_use]
    pub fn request(&self, config: &ResolvedConfig, tools: &ToolTable) -> ModelRequest {
        let history = self.unsynced();
        let told = self.told_tools.as_ref().is_some_and(|told| told.get() == tools.specs().get());
        ModelRequest {
            request: RequestHead {
                model: Arc::clone(&config.model),
                system: Some(Arc::clone(&config.system)).filter(|system| !system.is_empty()),
                tools: (!told).then(|| Arc::clone(tools.specs())),
            },
            history,
        }
    }

    /// The host answered a request with all messages so far and these tools. A request that was given up may never
    /// have reached it, so only an answer counts.
    pub fn answered(&mut self, tools: &ToolTable) {
        self.synced = self.messages.len();
        self.told_tools = Some(Arc::clone(tools.specs()));
    }

    /// What the host has not seen.
    #[must_use]
    pub fn unsynced(&self) -> HistorySlice {
        let from = self.synced.min(self.messages.len());
        HistorySlice { key: Arc::clone(&self.key), from, messages: self.messages[from..].to_vec() }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn fault(error: TranscriptError) -> Fault {
    Fault::new(error.code(), error.to_string())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultBlock<'a> {
    r#type: &'static str,
    id: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
}

#[derive(Serialize)]
struct ResultsMessage<'a> {
    role: &'static str,
    content: Vec<ResultBlock<'a>>,
}

fn results_message(content: Vec<ResultBlock<'_>>) -> Option<Arc<RawValue>> {
    to_raw_value(&ResultsMessage { role: "user", content }).ok().map(Arc::from)
}

/// The results that a last message still waits for, when it has calls.
fn close_calls(last: &RawValue) -> Option<Arc<RawValue>> {
    #[derive(Deserialize)]
    struct Last {
        role: String,
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        r#type: String,
        id: Option<String>,
    }
    let Last { role, content } = serde_json::from_str(last.get()).ok()?;
    let calls = content.into_iter().filter(|block| block.r#type == "tool_call").filter_map(|block| block.id);
    let ids: Vec<String> = calls.collect();
    if role != "assistant" || ids.is_empty() {
        return None;
    }
    let blocks =
        ids.iter().map(|id| ResultBlock { r#type: "tool_result", id, content: INTERRUPTED, is_error: Some(true) });
    results_message(blocks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_without_results_are_closed() {
        let close = |text: &str| close_calls(&RawValue::from_string(text.into()).unwrap());
        let closed = close(
            r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_call","id":"1","name":"x","input":{}},{"type":"tool_call","id":"2","name":"x"}]}"#,
        );
        let block =
            |id: &str| serde_json::json!({ "type": "tool_result", "id": id, "content": INTERRUPTED, "isError": true });
        let closed: serde_json::Value = serde_json::from_str(closed.unwrap().get()).unwrap();
        assert_eq!(closed, serde_json::json!({ "role": "user", "content": [block("1"), block("2")] }));
        for whole in [
            r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"assistant","content":"a"}"#,
            r#"{"role":"user","content":[{"type":"tool_call","id":"1"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","id":"1"}]}"#,
        ] {
            assert!(close(whole).is_none(), "{whole}");
        }
    }
}
