//! Why OAuth failed, in sentences of our own.
//!
//! No token, code, URL, remote text or host text gets into them; the host's own error travels as its number.

use std::time::Duration;

use thiserror::Error;

use crate::base::code::ErrorCode;

/// Why a request could not be authorised.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthError {
    /// The configuration names another URL than the declaration.
    #[error("OAuth credentials are bound to a different MCP URL; make serverUrl and the declared url equal")]
    DifferentUrl,
    /// The server is not a plain HTTP server.
    #[error("MCP OAuth requires HTTP without static headers; declare type \"http\" and leave \"headers\" out")]
    NotPlainHttp,
    /// The provider is in use.
    #[error(
        "the OAuth provider is used by another active connection; use one provider object per server, or close that connection first"
    )]
    Owned,
    /// The client's credentials belong to another authorization server.
    #[error(
        "the client credentials are bound to another authorization server and were not sent; register the client with the current one"
    )]
    OtherIssuer,
    /// An address is not allowed.
    #[error("the {what} is refused: {why}")]
    Target {
        /// Which address.
        what: &'static str,
        /// Why.
        why: &'static str,
    },
    /// The callback of a sign-in does not fit.
    #[error(
        "the sign-in was not completed: its callback is missing or not valid, and no code was exchanged; sign in again"
    )]
    Callback {
        /// The host's own error, when `authorize` failed with one.
        cause_id: Option<u32>,
    },
    /// A person has to sign in.
    #[error("sign-in required: {why}; unregister the server and register it again while idle to sign in")]
    LoginRequired {
        /// Why.
        why: &'static str,
    },
    /// A sign-in is needed and nobody can be asked.
    #[error("sign-in required: {why}")]
    NobodyToAsk {
        /// What is missing.
        why: &'static str,
    },
    /// The granted scope does not suffice.
    #[error("the server asks for more scope than was granted (insufficient_scope); {next}")]
    Scope {
        /// What to do.
        next: &'static str,
    },
    /// The authorization server cannot be used at the moment; nothing was changed.
    #[error("the authorization server is not available ({what}); nothing was changed, try again later")]
    Unavailable {
        /// What happened.
        what: &'static str,
    },
    /// The server cannot say at the moment whom it trusts; nothing was changed.
    #[error(
        "the server answers for its protected-resource metadata with an HTTP status of failure; nothing was changed, try again later"
    )]
    ResourceUnavailable,
    /// The authorization server refused.
    #[error("the authorization server refused {what}: {why}")]
    Refused {
        /// What.
        what: &'static str,
        /// The kind of refusal.
        why: &'static str,
    },
    /// Something does not fit the protocol.
    #[error("OAuth failed: {what}")]
    Failed {
        /// What, and what to do.
        what: &'static str,
    },
    /// The host's provider failed.
    #[error("the OAuth provider's {method} {what}; fix the provider")]
    Provider {
        /// The member.
        method: &'static str,
        /// What it did.
        what: &'static str,
        /// The host's own error.
        cause_id: Option<u32>,
    },
    /// The time for connecting and signing in is over.
    #[error("OAuth timed out after {} ms while waiting for {step}; raise mcpOAuth.timeoutMs if that is too short", after.as_millis())]
    Timeout {
        /// The limit.
        after: Duration,
        /// What was waited for.
        step: &'static str,
    },
    /// The connection was closed, or nobody waits any more.
    #[error("connecting was cancelled")]
    Cancelled,
}

impl OAuthError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::DifferentUrl | Self::NotPlainHttp | Self::OtherIssuer => ErrorCode::OauthBound,
            Self::Owned => ErrorCode::OauthOwned,
            Self::Target { .. } => ErrorCode::OauthTarget,
            Self::Callback { .. } => ErrorCode::OauthCallback,
            Self::LoginRequired { .. } | Self::NobodyToAsk { .. } => ErrorCode::OauthLoginRequired,
            Self::Scope { .. } => ErrorCode::OauthScope,
            Self::Unavailable { .. }
            | Self::ResourceUnavailable
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Provider { .. } => ErrorCode::OauthFailed,
            Self::Timeout { .. } => ErrorCode::McpTimeout,
            Self::Cancelled => ErrorCode::Aborted,
        }
    }

    /// The number under which the host keeps its own error, when that was the cause.
    #[must_use]
    pub const fn cause_id(&self) -> Option<u32> {
        match self {
            Self::Callback { cause_id } | Self::Provider { cause_id, .. } => *cause_id,
            _ => None,
        }
    }
}
