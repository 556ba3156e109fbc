//! The stable error codes: one enum, area first. They are API: callers match them.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal in $class:literal;)*) => {
        /// A stable code that callers match; `docs/errors.md` explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in declaration order.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code as callers see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text,)* }
            }

            /// The JavaScript class that carries this code.
            #[must_use]
            pub const fn class(self) -> &'static str {
                match self { $(ErrorCode::$variant => $class,)* }
            }
        }
    };
}

codes! {
    /// An unknown or ill-typed field, in a call or a file.
    ConfigInvalid = "CONFIG_INVALID" in "ConfigError";
    /// A bad server or tool name.
    McpName = "MCP_NAME" in "McpError";
    /// The transport is unknown or disabled.
    McpTransport = "MCP_TRANSPORT" in "McpError";
    /// The URL is not allowed.
    McpInsecureUrl = "MCP_INSECURE_URL" in "McpError";
    /// A reserved header or name.
    McpReserved = "MCP_RESERVED" in "McpError";
    /// Two declarations of one name differ.
    McpConflict = "MCP_CONFLICT" in "McpError";
    /// The name is registered.
    McpExists = "MCP_EXISTS" in "McpError";
    /// No such server.
    McpUnknown = "MCP_UNKNOWN" in "McpError";
    /// The registry cannot change at the moment.
    McpBusy = "MCP_BUSY" in "McpError";
    /// The agent is closed.
    McpClosed = "MCP_CLOSED" in "McpError";
    /// Not possible inside a hook's handler.
    McpInHook = "MCP_IN_HOOK" in "McpError";
    /// `mcp_connect` was denied.
    McpDenied = "MCP_DENIED" in "McpError";
    /// The server cannot be reached, or the connection broke.
    McpUnreachable = "MCP_UNREACHABLE" in "McpError";
    /// A deadline passed.
    McpTimeout = "MCP_TIMEOUT" in "McpError";
    /// TLS failed.
    McpTls = "MCP_TLS" in "McpError";
    /// The server redirects.
    McpRedirect = "MCP_REDIRECT" in "McpError";
    /// The server's process ended.
    McpExited = "MCP_EXITED" in "McpError";
    /// The server broke the protocol.
    McpProtocol = "MCP_PROTOCOL" in "McpError";
    /// Discovery failed.
    McpDiscovery = "MCP_DISCOVERY" in "McpError";
    /// A schema is not usable, or a value breaks it.
    McpSchema = "MCP_SCHEMA" in "McpError";
    /// A limit was passed.
    McpLimit = "MCP_LIMIT" in "McpError";
    /// The catalog is unavailable until the server is registered again.
    McpStale = "MCP_STALE" in "McpError";
    /// OAuth is configured for something else than this server.
    OauthBound = "OAUTH_BOUND" in "McpError";
    /// The OAuth provider serves another connection.
    OauthOwned = "OAUTH_OWNED" in "McpError";
    /// An OAuth address is not allowed.
    OauthTarget = "OAUTH_TARGET" in "McpError";
    /// The callback of a sign-in is not valid.
    OauthCallback = "OAUTH_CALLBACK" in "McpError";
    /// A person has to sign in.
    OauthLoginRequired = "OAUTH_LOGIN_REQUIRED" in "McpError";
    /// Something else of OAuth failed.
    OauthFailed = "OAUTH_FAILED" in "McpError";
    /// The granted scope does not suffice.
    OauthScope = "OAUTH_SCOPE" in "McpError";
    /// The model failed.
    Provider = "PROVIDER" in "ProviderError";
    /// A tool failed.
    Tool = "TOOL" in "ToolError";
    /// A codec failed.
    Codec = "CODEC" in "CodecError";
    /// Too many turns.
    MaxTurns = "MAX_TURNS" in "MaxTurnsError";
    /// Storage failed.
    Storage = "STORAGE" in "StorageError";
    /// The caller aborted.
    Aborted = "ABORTED" in "AbortError";
    /// The agent is closed.
    Closed = "CLOSED" in "AgentError";
    /// A fault of this package.
    Internal = "INTERNAL" in "AgentError";
}
