//! Why a connection or a call failed, in sentences of our own.
//!
//! No text of the server, header, environment value or URL gets into them.

use std::time::Duration;

use thiserror::Error;

use crate::base::code::ErrorCode;
use crate::base::process::Exit;
use crate::mcp::oauth::OAuthError;

/// Why there is no connection, or not any more.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The program did not start.
    #[error("the command {command:?} {why}")]
    Command {
        /// The program as declared.
        command: String,
        /// What was wrong, and what to do.
        why: &'static str,
    },
    /// The directory to start it in is gone.
    #[error("the working directory is not there any more; make an agent with another `workdir`")]
    Workdir,
    /// The host's sandbox gave no command to run.
    #[error("the sandbox did not take the server's command: {what}; nothing was started")]
    Sandbox {
        /// What was wrong.
        what: &'static str,
    },
    /// No connection to the server, or it broke.
    #[error("the server cannot be reached or the connection broke; check that it is running")]
    Unreachable,
    /// A deadline passed.
    #[error("the server timed out after {} ms; check the server or raise timeoutMs", after.as_millis())]
    Timeout {
        /// The deadline.
        after: Duration,
    },
    /// The TLS handshake failed.
    #[error("TLS failed: the server's certificate is not accepted; add its authority with NODE_EXTRA_CA_CERTS")]
    Tls,
    /// The server answers with a redirect.
    #[error("the server redirects with HTTP status {status} and redirects are refused; declare the final URL")]
    Redirect {
        /// The HTTP status.
        status: u16,
    },
    /// The server refuses with an HTTP status.
    #[error("the server refused the request with HTTP status {status}{}", status_text(*status, *retry_after))]
    Status {
        /// The HTTP status.
        status: u16,
        /// The seconds that the server asks to wait.
        retry_after: Option<u32>,
    },
    /// The server answers in another form.
    #[error("the server answers with {} instead of JSON or an event stream; check the declared URL", named_kind(kind))]
    ContentType {
        /// The media type; empty when there is none that can be shown.
        kind: String,
    },
    /// The list of tools was refused.
    #[error("tools/list failed: the server answered with error {code}{}; check the server", code_text(*code))]
    ListRefused {
        /// The JSON-RPC code.
        code: i64,
    },
    /// The process ended.
    #[error("the server's process {}; set LITE_AGENT_MCP_STDERR=inherit to see what it writes to standard error, or start it by hand{hint}", exit_text(*exit))]
    Exited {
        /// How.
        exit: Exit,
        /// What else to look at; empty, or a clause.
        hint: &'static str,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {what}; check that it is an MCP server")]
    Protocol {
        /// What was wrong.
        what: &'static str,
    },
    /// Discovery failed.
    #[error("discovery failed: {what}; check the server, which must speak protocol revision 2026-07-28")]
    Discovery {
        /// What was wrong.
        what: &'static str,
    },
    /// Discovery or listing was refused.
    #[error("discovery failed: the server answered with error {code}{}; it must speak protocol revision 2026-07-28", code_text(*code))]
    Refused {
        /// The JSON-RPC code.
        code: i64,
    },
    /// A listed tool is not usable.
    #[error("the definition of tool {tool} is not usable: {what}; fix it in the server")]
    Schema {
        /// The tool's name, or its place in the catalog.
        tool: String,
        /// What was wrong.
        what: &'static str,
    },
    /// A limit was passed.
    #[error("the server passed the limit of {limit} {what}; make the server send less")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The server expects other headers than its catalog asked for (-32020).
    #[error("the server's tools have changed since they were listed")]
    Changed,
    /// The request could not be authorised.
    #[error(transparent)]
    OAuth(#[from] OAuthError),
    /// The caller gave up.
    #[error("connecting was cancelled")]
    Cancelled,
    /// The connection was closed on our side.
    #[error("the connection is closed; register the server again to use it")]
    Closed,
}

fn exit_text(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with code {code}"),
        Exit::Signal(signal) => format!("was ended by the signal {signal}"),
        Exit::Unknown => "exited".to_owned(),
    }
}

/// What a status means for the one who declared the server.
fn status_text(status: u16, retry_after: Option<u32>) -> String {
    match (status, retry_after) {
        (401 | 403, _) => ": it wants other credentials; check the declared headers".to_owned(),
        (404, _) => ": there is no such endpoint; check the declared URL".to_owned(),
        (429, Some(seconds)) => format!(": its rate limit is reached; try again in {seconds} s"),
        (429, None) => ": its rate limit is reached; try again later".to_owned(),
        (500.., Some(seconds)) => format!(": it is not well; try again in {seconds} s"),
        (500.., None) => ": it is not well; try again later, or ask its operator".to_owned(),
        _ => "; check the declared URL and headers".to_owned(),
    }
}

fn named_kind(kind: &str) -> &str {
    if kind.is_empty() { "something without a usable Content-Type" } else { kind }
}

/// The name of a code that the protocol defines.
fn code_text(code: i64) -> &'static str {
    match code {
        -32700 => " (parse error)",
        -32600 => " (invalid request)",
        -32601 => " (method not found)",
        -32602 => " (invalid params)",
        -32603 => " (internal error)",
        _ => "",
    }
}

impl ConnectError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Command { .. } | Self::Workdir | Self::Sandbox { .. } | Self::Unreachable | Self::Status { .. } => {
                ErrorCode::McpUnreachable
            }
            Self::Timeout { .. } => ErrorCode::McpTimeout,
            Self::Tls => ErrorCode::McpTls,
            Self::Redirect { .. } => ErrorCode::McpRedirect,
            Self::Exited { .. } => ErrorCode::McpExited,
            Self::Protocol { .. } | Self::ContentType { .. } => ErrorCode::McpProtocol,
            Self::Discovery { .. } | Self::Refused { .. } | Self::ListRefused { .. } => ErrorCode::McpDiscovery,
            Self::Schema { .. } => ErrorCode::McpSchema,
            Self::Limit { .. } => ErrorCode::McpLimit,
            Self::OAuth(error) => error.code(),
            Self::Cancelled => ErrorCode::Aborted,
            Self::Changed => ErrorCode::McpStale,
            Self::Closed => ErrorCode::McpClosed,
        }
    }

    /// The number under which the host keeps its own error, when that was the cause.
    #[must_use]
    pub const fn cause_id(&self) -> Option<u32> {
        match self {
            Self::OAuth(error) => error.cause_id(),
            _ => None,
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with a JSON-RPC error.
    #[error("the server refused the call with error {code}{}", code_text(*code))]
    Refused {
        /// The JSON-RPC code.
        code: i64,
    },
    /// The deadline passed.
    #[error("the call timed out after {} ms", after.as_millis())]
    Timeout {
        /// The deadline.
        after: Duration,
    },
    /// The caller gave up.
    #[error("the call was cancelled")]
    Cancelled,
    /// The answer is not one.
    #[error("the server broke the protocol: {what}")]
    Protocol {
        /// What was wrong.
        what: &'static str,
    },
    /// An argument cannot be mirrored into a header; nothing was sent.
    #[error("the argument {path} cannot be sent as a header: {what}")]
    Argument {
        /// Where the argument stands.
        path: String,
        /// What was wrong.
        what: &'static str,
    },
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectError),
}

impl CallError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } | Self::Protocol { .. } => ErrorCode::McpProtocol,
            Self::Timeout { .. } => ErrorCode::McpTimeout,
            Self::Cancelled => ErrorCode::Aborted,
            Self::Argument { .. } => ErrorCode::McpSchema,
            Self::Connection(error) => error.code(),
        }
    }
}

impl From<CallError> for ConnectError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { code } => Self::Refused { code },
            CallError::Timeout { after } => Self::Timeout { after },
            CallError::Cancelled => Self::Cancelled,
            CallError::Protocol { what } => Self::Protocol { what },
            CallError::Argument { .. } => Self::Protocol { what: "a request could not be built" },
            CallError::Connection(error) => error,
        }
    }
}
