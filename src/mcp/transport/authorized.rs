//! One POST with a token: refreshed when its time is over, and sent again when a refusal brought another token.
//!
//! Leaves every decision about tokens to [`oauth`](crate::mcp::oauth).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Response, StatusCode};

use super::{ConnectError, LISTEN};
use crate::mcp::oauth::{Audience, Authorizer, Challenge, Refusals, Refused, Token};

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
        // A subscription is kept up in the background: nobody who could be asked waits for it.
        let audience = if post.operation == LISTEN { Audience::Nobody } else { Audience::Caller };
        let (mut tried, mut refusals) = (None, Refusals::default());
        let mut token = authorizer.token().await?;
        loop {
            let response = self.once(&post, token.as_deref()).await?;
            let challenge = Challenge::read(response.headers());
            let wants_scope = challenge.wants_more_scope() && audience == Audience::Caller;
            let is_unauthorized = match response.status() {
                StatusCode::UNAUTHORIZED => true,
                StatusCode::FORBIDDEN if wants_scope => false,
                _ => return Ok(response),
            };
            refusals.all += 1;
            refusals.unauthorized += usize::from(is_unauthorized);
            let (token_used, operation) = (token.take(), post.operation.clone());
            let refused = Refused { challenge, token: token_used, tried, refusals, operation, audience };
            let next = if is_unauthorized {
                authorizer.unauthorized(refused).await?
            } else {
                let _pause = authorizer.pauses.pause(post.id);
                authorizer.forbidden(refused).await?
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
