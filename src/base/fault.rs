//! An error as data: what crosses to the host and what events carry.
//!
//! Each area has its own error enum; this is the one shape they all become at the edge.

use serde::Serialize;

use super::code::ErrorCode;

/// An error ready to cross the border: a code, a sentence, and the host's own error where it was the cause.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    name: &'static str,
    code: ErrorCode,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause_id: Option<u32>,
}

impl Fault {
    /// A fault with its code's class.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { name: code.class(), code, message: message.into(), status: None, cause_id: None }
    }

    /// The fault of a panic: a bug of this package.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(ErrorCode::Internal, "internal error: a task of the agent panicked; please report it")
    }

    /// The caller aborted.
    #[must_use]
    pub fn aborted() -> Self {
        Self::new(ErrorCode::Aborted, "the run was aborted")
    }

    /// The agent is closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(ErrorCode::Closed, "the agent is closed")
    }

    /// Keeps the reference of the host's own error.
    #[must_use]
    pub fn with_cause(mut self, cause_id: Option<u32>) -> Self {
        self.cause_id = cause_id;
        self
    }

    /// Adds an HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: Option<u16>) -> Self {
        self.status = status;
        self
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// The sentence for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// What a host callback threw, as far as it can cross.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostError {
    /// The error's class or `name`.
    pub name: Option<String>,
    /// Its message.
    pub message: String,
    /// Its `code`, when it is a string.
    pub code: Option<serde_json::Value>,
    /// Its HTTP status.
    pub status: Option<u16>,
    /// Under which number the host keeps the original object.
    pub cause_id: Option<u32>,
}

impl HostError {
    /// An error of the border itself, such as a reply that is not of the agreed form.
    #[must_use]
    pub fn border(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}
