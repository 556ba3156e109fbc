//! What a run and its turns tell.

use serde::Serialize;
use serde_json::value::RawValue;

use super::model::Usage;
use crate::base::fault::Fault;
use crate::pipeline::call::ToolCall;

/// One event as the host sees it; the field names are API.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the host's types in index.d.ts document each event")]
pub enum RunEvent<'a> {
    TurnStart {
        turn: u32,
    },
    ModelCallStart {
        turn: u32,
        model: &'a str,
    },
    TextDelta {
        text: &'a str,
    },
    Message {
        message: &'a RawValue,
    },
    ModelCallEnd {
        turn: u32,
        model: &'a str,
        duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<&'a Usage>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Fault>,
    },
    ToolUse {
        call: &'a ToolCall,
    },
    TurnEnd {
        turn: u32,
        stop_reason: &'a str,
    },
    Error {
        error: &'a Fault,
        fatal: bool,
    },
    Done {
        reason: &'a str,
        result: &'a RawValue,
    },
}
