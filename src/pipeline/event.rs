//! What the gates of a tool call tell.

use serde::Serialize;

use super::call::ToolCall;

/// One event as the host sees it; the field names are API.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the host's types in index.d.ts document each event")]
pub enum CallEvent<'a> {
    ToolCallStart {
        call: &'a ToolCall,
        turn: u32,
    },
    PermissionDecision {
        call: &'a ToolCall,
        decision: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        rule_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        simulated: Option<bool>,
        by: &'a str,
    },
    ApprovalRequest {
        call: &'a ToolCall,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    ApprovalResolved {
        id: &'a str,
        decision: &'a str,
        by: &'a str,
    },
    ToolProgress {
        id: &'a str,
        name: &'a str,
        progress: &'a serde_json::Number,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<&'a serde_json::Number>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    },
    ToolCallEnd {
        id: &'a str,
        name: &'a str,
        turn: u32,
        duration_ms: u64,
        is_error: bool,
    },
    ToolResult {
        result: ToolResultEvent<'a>,
    },
    Diagnostic {
        level: &'a str,
        code: &'a str,
        message: &'a str,
    },
}

/// The `result` of a `tool_result` event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the host's types in index.d.ts document each event")]
pub struct ToolResultEvent<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}
