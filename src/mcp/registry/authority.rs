//! What the registry asks and tells while it connects.

use futures_util::future::BoxFuture;

use crate::mcp::config::{ServerDeclaration, ServerName};

/// The one who asked for a server to be connected.
pub trait ConnectAuthority: Send + Sync {
    /// Says whether a server may be connected to; called once per server before its first byte or process.
    /// Resolves to the sentence of the denial when it may not.
    fn authorize<'a>(&'a self, server: &'a ServerDeclaration) -> BoxFuture<'a, Result<(), String>>;

    /// Hears what is odd about a server, yet no failure.
    fn warn(&self, warning: ConnectWarning) -> BoxFuture<'_, ()>;
}

/// Something odd about a server that does not keep it from being used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectWarning {
    /// A value looks as if somebody expected it to be replaced.
    #[error("server `{server}`: the value at {path} holds `${{…}}`, which is used literally; nothing is interpolated")]
    Interpolation {
        /// The server.
        server: ServerName,
        /// Where in its declaration.
        path: String,
    },
    /// A tool's `x-mcp-header` is forbidden, so the tool is left out.
    #[error("server `{server}`: the tool {tool:?} is left out: {why}")]
    ToolLeftOut {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// What is wrong with its annotation.
        why: String,
    },
    /// The server announces changes of its tools, and cannot be asked to tell them.
    #[error(
        "server `{server}` announces changes of its tools, yet refuses the subscription to them; a change goes unnoticed until the server is registered again"
    )]
    Unwatched {
        /// The server.
        server: ServerName,
    },
    /// A tool's description or schema holds characters that nobody sees.
    #[error(
        "server `{server}`: the tool {tool:?} describes itself with characters that are not seen; they are removed from its description. Look at it before you trust it"
    )]
    UnseenCharacters {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
    },
    /// The server sends something else than messages.
    #[error(
        "server `{server}` sends text that is no usable message; it is skipped. Over stdio, a server should log to standard error"
    )]
    SkippedLines {
        /// The server.
        server: ServerName,
    },
}

impl ConnectWarning {
    /// The stable word in `diagnostic` events.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Interpolation { .. } => "mcp_interpolation",
            Self::ToolLeftOut { .. } => "mcp_tool_left_out",
            Self::UnseenCharacters { .. } => "mcp_unseen_characters",
            Self::Unwatched { .. } => "mcp_unwatched",
            Self::SkippedLines { .. } => "mcp_skipped_lines",
        }
    }
}
