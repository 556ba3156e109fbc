//! A tool call as policies, approvals and events see it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id the model gave the call; fresh for `mcp_connect`.
    pub id: String,
    /// The full name of the tool.
    pub name: String,
    /// The validated input.
    pub input: Value,
}
