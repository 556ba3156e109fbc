//! OAuth as the host configures it, and to which server it belongs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::claim::Claim;
use super::provider::OAuthProvider;
use super::trust::plain_url;
use super::{Authorizer, OAuthError};
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
use crate::mcp::config::{ServerDeclaration, ServerName, TransportConfig};

/// How long connecting and signing in may take when the host does not say.
const DEFAULT_TIMEOUT_MS: u64 = 180_000;
const MAX_TIMEOUT_MS: u64 = 600_000;

/// What a refusal for lack of scope leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepUp {
    /// The call fails.
    #[default]
    Fail,
    /// The host is asked to authorise more.
    Authorize,
}

/// One entry of `mcpOAuth`, as it crosses the border.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawOAuth {
    server_url: String,
    allowed_origins: Vec<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    step_up: StepUp,
    has_authorize: bool,
    provider: String,
}

/// One entry of `mcpOAuth`, checked.
#[derive(Clone)]
pub(super) struct OAuthConfig {
    pub(super) server_url: Url,
    pub(super) allowed_origins: Vec<Url>,
    pub(super) timeout: Duration,
    pub(super) step_up: StepUp,
    pub(super) can_authorize: bool,
    /// Stands for the host's provider object.
    pub(super) provider: String,
}

/// Which servers sign in, and how.
#[derive(Clone, Default)]
pub struct OAuthServers {
    servers: HashMap<String, OAuthConfig>,
    host: Option<Arc<dyn OAuthProvider>>,
}

impl OAuthServers {
    /// Reads the host's `mcpOAuth`.
    ///
    /// # Errors
    /// `CONFIG_INVALID`, naming the field and never a value.
    pub fn parse(raw: Option<&serde_json::Value>) -> Result<Self, Fault> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let invalid = |message: String| Fault::new(ErrorCode::ConfigInvalid, message);
        let raw: HashMap<String, RawOAuth> = serde_json::from_value(raw.clone())
            .map_err(|_| invalid("`mcpOAuth` is not usable; see McpOAuthConfig for its fields".to_owned()))?;
        let mut servers = HashMap::new();
        for (name, raw) in raw {
            ServerName::parse(&name).map_err(|error| Fault::new(error.code(), error.to_string()))?;
            let config = raw.check().map_err(|(field, why)| invalid(format!("`mcpOAuth.{name}.{field}`: {why}")))?;
            servers.insert(name, config);
        }
        Ok(Self { servers, host: None })
    }

    /// Says who calls the providers.
    #[must_use]
    pub fn with_host(mut self, host: Option<Arc<dyn OAuthProvider>>) -> Self {
        self.host = host;
        self
    }

    /// What authorises the requests to a server; `None` when nothing is configured for it.
    ///
    /// # Errors
    /// `OAUTH_BOUND` and `OAUTH_OWNED`; nothing is asked of the host.
    pub fn authorizer(
        &self,
        declaration: &ServerDeclaration,
        cancel: &CancellationToken,
    ) -> Result<Option<Arc<Authorizer>>, OAuthError> {
        let (Some(config), Some(host)) = (self.servers.get(declaration.name.as_str()), &self.host) else {
            return Ok(None);
        };
        let TransportConfig::Http { url, headers } = &declaration.transport else {
            return Err(OAuthError::NotPlainHttp);
        };
        if !headers.is_empty() {
            return Err(OAuthError::NotPlainHttp);
        }
        if config.server_url != *url {
            return Err(OAuthError::DifferentUrl);
        }
        let claim = Claim::take(&config.provider).ok_or(OAuthError::Owned)?;
        let name = declaration.name.to_string();
        Ok(Some(Authorizer::new(config.clone(), Arc::clone(host), name, declaration.timeout, claim, cancel)))
    }
}

impl RawOAuth {
    fn check(self) -> Result<OAuthConfig, (&'static str, &'static str)> {
        let server_url = plain_url(&self.server_url).map_err(|why| ("serverUrl", why))?;
        let mut allowed_origins = Vec::new();
        for origin in &self.allowed_origins {
            let url = plain_url(origin).map_err(|why| ("allowedOrigins", why))?;
            if url.path() != "/" || url.query().is_some() || origin.ends_with('?') {
                return Err(("allowedOrigins", "give origins only, as in https://login.example.com"));
            }
            allowed_origins.push(url);
        }
        let timeout = self.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if !(1..=MAX_TIMEOUT_MS).contains(&timeout) {
            return Err(("timeoutMs", "must be a whole number from 1 to 600000"));
        }
        Ok(OAuthConfig {
            server_url,
            allowed_origins,
            timeout: Duration::from_millis(timeout),
            step_up: self.step_up,
            can_authorize: self.has_authorize,
            provider: self.provider,
        })
    }
}
