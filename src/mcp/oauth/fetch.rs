//! One HTTP request to an authorization server: an allowed address, bounded, timed, never redirected.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, StatusCode};
use tokio::sync::Mutex;
use url::Url;
use zeroize::Zeroizing;

use super::OAuthError;
use super::trust::Trust;
use crate::base::http;
use crate::base::limits::OAUTH_BYTES;
use crate::base::secret::Secret;

/// What is sent.
pub(super) enum Body {
    Nothing,
    Form(Secret),
    Json(Secret),
}

/// One request.
pub(super) struct Ask<'a> {
    /// What the address is, for messages.
    pub(super) what: &'static str,
    pub(super) url: &'a str,
    pub(super) headers: HeaderMap,
    /// Name and password of `Basic`, form-encoded already.
    pub(super) basic: Option<(Secret, Secret)>,
    pub(super) body: Body,
}

impl<'a> Ask<'a> {
    /// A document to read.
    pub(super) fn document(what: &'static str, url: &'a str) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-protocol-version", HeaderValue::from_static(super::REVISION));
        Self { what, url, headers, basic: None, body: Body::Nothing }
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// Whether a status says that a server cannot answer now, and nothing about what it would answer.
pub(super) fn is_unavailable(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Sends requests for one server.
pub(super) struct Fetch {
    pub(super) trust: Trust,
    timeout: Duration,
    /// One client for each scheme, on this machine and elsewhere.
    clients: Mutex<Vec<((bool, bool), Client)>>,
}

impl Fetch {
    pub(super) fn new(trust: Trust, timeout: Duration) -> Self {
        Self { trust, timeout, clients: Mutex::default() }
    }

    /// Sends one request and reads its whole answer.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Answer, OAuthError> {
        let what = ask.what;
        let url = self.trust.check(what, ask.url)?;
        let answer = tokio::time::timeout(self.timeout, self.exchange(url, ask));
        let answer = answer.await.unwrap_or(Err(OAuthError::Unavailable { what: "it did not answer in time" }))?;
        tracing::debug!(what, status = answer.status.as_u16(), "the authorization server answered");
        Ok(answer)
    }

    async fn exchange(&self, url: Url, ask: Ask<'_>) -> Result<Answer, OAuthError> {
        let unreachable = |_| OAuthError::Unavailable { what: "it cannot be reached or the connection broke" };
        let client = self.client(&url).await?;
        let method = if matches!(ask.body, Body::Nothing) { Method::GET } else { Method::POST };
        let mut request = client.request(method, url).headers(ask.headers);
        if let Some((name, password)) = &ask.basic {
            request = request.basic_auth(name.expose(), Some(password.expose()));
        }
        request = request.header(ACCEPT, "application/json");
        request = match &ask.body {
            Body::Nothing => request,
            Body::Form(form) => {
                let kind = "application/x-www-form-urlencoded";
                request.header(CONTENT_TYPE, kind).body(form.expose().to_owned())
            }
            Body::Json(json) => request.header(CONTENT_TYPE, "application/json").body(json.expose().to_owned()),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(OAuthError::Target { what: ask.what, why: "it redirects, and redirects are refused" });
        }
        let mut body = Zeroizing::new(Vec::new());
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(unreachable)?;
            if body.len() + chunk.len() > OAUTH_BYTES {
                let what = "an answer passed the limit of 1048576 bytes; the authorization server must send less";
                return Err(OAuthError::Failed { what });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body })
    }

    async fn client(&self, url: &Url) -> Result<Client, OAuthError> {
        let kind = (url.scheme() == "https", http::is_loopback(url));
        let mut clients = self.clients.lock().await;
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == kind) {
            return Ok(client.clone());
        }
        let client = http::client(url).await.map_err(|_| OAuthError::Failed { what: "TLS cannot be set up" })?;
        clients.push((kind, client.clone()));
        Ok(client)
    }
}
