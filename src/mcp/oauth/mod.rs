//! OAuth for HTTP servers: which token a request carries, and where the next one comes from.
//!
//! [`config`] ties the host's configuration to a server; [`Authorizer`] serves one connection. A refused request
//! brings a [`challenge`]; [`discovery`] finds the authorization server with the documents of [`metadata`], at
//! addresses that [`trust`] allows, through [`fetch`]; [`renewal`] decides what comes next: [`client`] says who we
//! are, [`grant`] asks for a token, [`login`] lets a person sign in and [`callback`] judges what comes back.
//! [`provider`] is the host's storage, [`claim`] who uses it. Leaves requests to the server itself to the transport.

mod callback;
mod challenge;
mod claim;
mod client;
mod config;
mod discovery;
mod fault;
mod fetch;
mod flight;
mod grant;
mod login;
mod metadata;
mod pause;
mod provider;
mod renewal;
mod secret_map;
mod token;
mod trust;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::challenge::Challenge;
pub use self::config::{OAuthServers, StepUp};
pub use self::fault::OAuthError;
pub use self::provider::OAuthProvider;
pub(crate) use self::token::{Origin, Token};

use self::claim::Claim;
use self::config::OAuthConfig;
use self::discovery::Site;
use self::fetch::Fetch;
use self::flight::Flights;
use self::pause::Pauses;
use self::provider::Provider;
use self::renewal::{Cause, Need};
use self::token::covers;
use self::trust::Trust;
use crate::base::limits::OAUTH_REFUSALS;

const REVISION: &str = "2026-07-28";

/// Whether a person may be asked to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The connection is being made.
    Connecting,
    /// It serves calls.
    Calling,
}

/// A request that was refused.
pub(crate) struct Refused {
    /// The server's challenge.
    pub(crate) challenge: Challenge,
    /// The token it carried.
    pub(crate) token: Option<Arc<Token>>,
    /// Where the token of the retry before came from.
    pub(crate) tried: Option<Origin>,
    /// How often the request was refused by now, with 401 and in all.
    pub(crate) refusals: Refusals,
    /// What the request is for.
    pub(crate) operation: String,
    /// Who waits for it.
    pub(crate) audience: Audience,
}

/// How often one request was refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    /// With 401.
    pub(crate) unauthorized: usize,
    /// For want of a token or of scope.
    pub(crate) all: usize,
}

/// Who waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody who may be asked to sign in while the connection is being made.
    Caller,
    /// Nobody: it is kept up in the background.
    Nobody,
}

/// Authorises the requests of one connection.
pub struct Authorizer {
    config: OAuthConfig,
    fetch: Fetch,
    provider: Provider,
    claim: Mutex<Option<Claim>>,
    cancel: CancellationToken,
    deadline: Instant,
    connected: AtomicBool,
    /// Requests whose clock stands still.
    pub(crate) pauses: Pauses,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    loaded: bool,
    token: Option<Arc<Token>>,
    /// The issuer in use.
    issuer: Option<String>,
    site: Option<Site>,
    /// The issuer and the address of the metadata that the host has written down.
    remembered: Option<(String, String)>,
    /// The scope of the last sign-in.
    asked: Option<String>,
    /// How often somebody was asked to sign in, by operation.
    sign_ins: HashMap<String, usize>,
    flights: Flights,
}

impl Authorizer {
    fn new(
        config: OAuthConfig,
        host: Arc<dyn OAuthProvider>,
        server: String,
        request_timeout: Duration,
        claim: Claim,
        cancel: &CancellationToken,
    ) -> Arc<Self> {
        let trust = Trust::new(&config.allowed_origins, &config.server_url);
        Arc::new(Self {
            deadline: Instant::now() + config.timeout,
            fetch: Fetch::new(trust, request_timeout),
            provider: Provider::new(host, server),
            claim: Mutex::new(Some(claim)),
            cancel: cancel.child_token(),
            connected: AtomicBool::new(false),
            pauses: Pauses::new(),
            state: Mutex::default(),
            config,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase(&self) -> Phase {
        if self.connected.load(Ordering::SeqCst) { Phase::Calling } else { Phase::Connecting }
    }

    /// Whether the connection is still being made.
    pub(crate) fn is_connecting(&self) -> bool {
        self.phase() == Phase::Connecting
    }

    /// The connection stands: from now on nobody is asked to sign in, except for more scope.
    pub(crate) fn settle(&self) {
        self.connected.store(true, Ordering::SeqCst);
    }

    /// How much of the time for connecting and signing in is left.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What to say when that time is over.
    pub(crate) fn timed_out(&self) -> OAuthError {
        OAuthError::Timeout { after: self.config.timeout, step: self.provider.step() }
    }

    fn claim_issuer(&self, issuer: &str) -> String {
        let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.as_ref().map_or_else(|| issuer.to_owned(), |claim| claim.first_issuer(issuer))
    }

    /// The token for a request; refreshed first when its time is over.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<Arc<Token>>, OAuthError> {
        if !self.state().loaded {
            let loading = self.join(None)?;
            if let Some(waiter) = loading {
                waiter.result().await?;
            }
        }
        let token = self.state().token.clone();
        let Some(token) = token.filter(|token| token.is_expired() && token.can_renew()) else {
            return Ok(self.state().token.clone());
        };
        let need = Need {
            challenge: Challenge::default(),
            used: Some(Arc::clone(&token)),
            tried: None,
            cause: Cause::Expired,
            operation: String::new(),
            phase: self.phase(),
        };
        match self.replaced(need).await {
            Ok(token) => Ok(Some(token)),
            // The server's own challenge says best what is needed to sign in.
            Err(OAuthError::LoginRequired { .. }) if self.is_connecting() => {
                let mut state = self.state();
                state.token = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Another token after a 401.
    ///
    /// # Errors
    /// Also when the request may not be sent again: that is done once, but for those that make the connection.
    pub(crate) async fn unauthorized(self: &Arc<Self>, refused: Refused) -> Result<Arc<Token>, OAuthError> {
        let refusals = refused.refusals;
        let is_over = match self.phase() {
            Phase::Connecting => refusals.unauthorized > OAUTH_REFUSALS,
            Phase::Calling => refusals.all > 1,
        };
        if is_over {
            return Err(renewal::REFUSED_NEW);
        }
        self.replaced(self.need(refused, Cause::Refused)).await
    }

    /// A token that reaches farther, after a 403 that asks for scope.
    ///
    /// # Errors
    /// Also when the request may not be sent again.
    pub(crate) async fn forbidden(self: &Arc<Self>, refused: Refused) -> Result<Arc<Token>, OAuthError> {
        if self.config.step_up == StepUp::Fail {
            let next = "sign in with more scope, or set stepUp: 'authorize'";
            return Err(OAuthError::Scope { next });
        }
        if self.phase() == Phase::Calling && refused.refusals.all > 1 {
            let next = "the request was sent again once already and is not sent a third time";
            return Err(OAuthError::Scope { next });
        }
        self.replaced(self.need(refused, Cause::Scope)).await
    }

    fn need(&self, refused: Refused, cause: Cause) -> Need {
        let Refused { challenge, token, tried, operation, audience, .. } = refused;
        let phase = if audience == Audience::Caller { self.phase() } else { Phase::Calling };
        Need { challenge, used: token, tried, cause, operation, phase }
    }

    /// The token that takes the place of the used one: the one that did already, or a new one for all who wait.
    async fn replaced(self: &Arc<Self>, mut need: Need) -> Result<Arc<Token>, OAuthError> {
        loop {
            let current = self.state().token.clone();
            if let Some(current) = current
                && need.used.as_ref().is_none_or(|used| !Arc::ptr_eq(used, &current))
            {
                if self.reaches(&current, &need) {
                    return Ok(current);
                }
                need.used = Some(current);
            }
            let Some(waiter) = self.join(Some(&need))? else { continue };
            // What nobody could be asked for may still be had by asking.
            let is_last_word = waiter.asks || need.phase == Phase::Calling;
            match waiter.result().await {
                Ok(Some(token)) if self.reaches(&token, &need) => return Ok(token),
                Ok(Some(token)) => need.used = Some(token),
                Err(error) if is_last_word => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// Whether a token was asked to reach as far as is needed; whether it does is the server's to say.
    fn reaches(&self, token: &Token, need: &Need) -> bool {
        let asked = self.state().asked.clone();
        need.cause != Cause::Scope
            || covers(&[token.scope.as_deref(), asked.as_deref()], need.challenge.scope.as_deref())
    }

    /// Ends everything, and frees the provider; waits for a refresh that was sent until it is saved.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        let flights = self.state().flights.work();
        join_all(flights).await;
        self.abandon();
    }

    /// As [`close`](Self::close), without waiting.
    pub(crate) fn abandon(&self) {
        self.cancel.cancel();
        self.provider.end();
        drop(self.claim.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
