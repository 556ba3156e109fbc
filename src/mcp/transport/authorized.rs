//! One POST with a token: refreshed when its time is over, and sent again when a refusal brought another token.
//!
//! Leaves every decision about tokens to [`oauth`](crate::mcp::oauth).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Response, StatusCode};

use super::ConnectError;
use crate::mcp::oauth::{Authorizer, Challenge, Origin, Refused, Token};

/// The subscription's method.
const LISTEN: &str = "subscriptions/listen";

/// The time one request may take while the connection is being made.
#[derive(Clone)]
pub(crate) struct Authorization {
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) timeout: Duration,
}

/// One request, ready to be sent any number of times.
pub(super) struct Post<'a> {
    pub(super) id: i64,
    /// What the request is for: a method, and the name of what it uses.
    pub(super) operation: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Sends it once.
    pub(super) send: &'a (dyn Fn(HeaderMap, Bytes) -> Sending<'a> + Send + Sync),
}

/// A request on its way.
pub(super) type Sending<'a> = futures_util::future::BoxFuture<'a, Result<Response, ConnectError>>;

impl Authorization {
    /// Sends the request until it is not refused for want of a token, or no other token can be had.
    pub(super) async fn send(&self, post: Post<'_>) -> Result<Response, ConnectError> {
        let authorizer = &self.authorizer;
        let mut tried: Option<Origin> = None;
        let mut refusals = 0;
        let mut token = authorizer.token().await?;
        loop {
            let response = self.once(&post, token.as_deref()).await?;
            let status = response.status();
            let challenge = Challenge::read(response.headers());
            let refused = Refused { challenge, token: token.take(), tried };
            let next = match status {
                StatusCode::UNAUTHORIZED => {
                    refusals += 1;
                    authorizer.allow_retry(refusals)?;
                    authorizer.unauthorized(refused, &post.operation).await?
                }
                // A subscription is kept up in the background: nobody who could be asked waits for it.
                StatusCode::FORBIDDEN if refused.challenge.wants_more_scope() && post.operation != LISTEN => {
                    let _pause = authorizer.pauses.pause(post.id);
                    authorizer.forbidden(refused, &post.operation).await?
                }
                _ => return Ok(response),
            };
            tried = Some(next.origin);
            token = Some(next);
        }
    }

    async fn once(&self, post: &Post<'_>, token: Option<&Token>) -> Result<Response, ConnectError> {
        let mut headers = post.headers.clone();
        if let Some(token) = token {
            let unsendable = ConnectError::Protocol { what: "a token cannot be written as a header" };
            headers.insert(AUTHORIZATION, token.header().ok_or(unsendable)?);
        }
        self.bounded((post.send)(headers, post.body.clone())).await
    }

    /// While the connection is being made, each request has the server's time; later its call has.
    pub(super) async fn bounded<T, E: From<ConnectError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if !self.authorizer.is_connecting() {
            return work.await;
        }
        let after = self.timeout;
        tokio::time::timeout(after, work).await.unwrap_or_else(|_| Err(ConnectError::Timeout { after }.into()))
    }
}
