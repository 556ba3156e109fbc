//! What is done about a refused request: which token comes next, and from where.
//!
//! A newer token of the store comes first, then a refresh or the client's own credentials, then a person, and a
//! person only while connecting or where more scope may be asked for. Nothing is removed from the store before it
//! was read again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::{self, Client, Wanted};
use super::discovery::{Hints, Site, discover};
use super::grant::{self, Params, Party, Refusal};
use super::login::sign_in;
use super::metadata::Flow;
use super::provider::Profile;
use super::secret_map::SecretMap;
use super::token::{Origin, Token, to_store, union};
use super::{Authorizer, Challenge, OAuthError, Phase};
use crate::base::secret::Secret;

/// How often, and after which pauses, the store is read again when a refresh token was refused: whoever used it
/// before us is about to save its successor.
const READ_AGAIN: &[Duration] = &[
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// What a request needs.
#[derive(Clone)]
pub(super) struct Need {
    pub(super) challenge: Challenge,
    /// The token that was refused or is over.
    pub(super) used: Option<std::sync::Arc<Token>>,
    /// Where the token of the last try came from, when this is not the first.
    pub(super) tried: Option<Origin>,
    /// Why a token is needed.
    pub(super) cause: Cause,
    /// What the request is for.
    pub(super) operation: String,
}

/// Why a token is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its time is over; nothing was sent yet.
    Expired,
    /// The server does not take it.
    Refused,
    /// It does not reach far enough.
    Scope,
}

/// Everything that is known about one renewal.
struct Scene {
    profile: Profile,
    site: Site,
    flow: Flow,
    resource: Option<String>,
    scope: Option<String>,
    first_issuer: String,
}

impl Scene {
    /// Whether the client can get a token without a person.
    fn is_machine(&self) -> bool {
        let grants = self.profile.client_metadata.texts("grant_types").unwrap_or_default();
        let prepared = self.profile.has("prepareTokenRequest") || grants.contains(&"client_credentials");
        self.flow == Flow::Machine && prepared
    }
}

const MOVED: &str = "the server moved to another authorization server";
const GONE: &str = "the stored sign-in is not valid any more";

impl Authorizer {
    /// Reads what the host has.
    pub(super) async fn load(&self) -> Result<Option<Token>, OAuthError> {
        self.provider.describe().await?;
        let stored = self.provider.tokens(None).await?;
        stored.map(|stored| Token::read(&stored, Origin::Stored)).transpose()
    }

    /// Gets a token for a request that was refused.
    pub(super) async fn renew(&self, need: &Need) -> Result<Token, OAuthError> {
        tracing::debug!(cause = ?need.cause, "a token is needed");
        let scene = self.survey(need).await?;
        let issuer = scene.site.issuer.as_str();
        let mut stored = self.stored_tokens(&scene).await?;
        if need.cause != Cause::Scope
            && let Some(newer) = newer(stored.as_ref(), need.used.as_deref())?
        {
            tracing::debug!("the store holds a newer token");
            return Ok(newer);
        }
        if scene.is_machine() {
            return self.machine(&scene, need).await;
        }
        let may_refresh = need.cause != Cause::Scope && need.tried.is_none_or(|tried| tried == Origin::Stored);
        let refresh = stored.as_ref().and_then(|stored| stored.secret("refresh_token")).filter(|_| may_refresh);
        let mut lost_client = false;
        if let (Some(refresh), Some(before)) = (refresh, &stored) {
            match self.refresh(&scene, before, refresh).await? {
                Refreshed::Token(token) => return Ok(token),
                Refreshed::Gone { client } => lost_client = client,
            }
            stored = None;
        }
        drop(stored);
        match (self.phase(), need.cause, need.tried) {
            (_, Cause::Scope, _) => {}
            (_, Cause::Expired, _) => return Err(OAuthError::LoginRequired { why: GONE }),
            (_, _, Some(Origin::Issued)) | (Phase::Calling, _, Some(Origin::Refreshed)) => return Err(REFUSED_NEW),
            (Phase::Calling, ..) => return Err(OAuthError::LoginRequired { why: GONE }),
            (Phase::Connecting, ..) => {}
        }
        self.sign_in(&scene, issuer, lost_client).await
    }

    /// Discovery, and what depends on nothing but it.
    async fn survey(&self, need: &Need) -> Result<Scene, OAuthError> {
        let profile = self.provider.describe().await?;
        let flow = if profile.redirect.is_none() { Flow::Machine } else { Flow::Interactive };
        let (known, mut issuer, mut resource_url) = {
            let state = self.state();
            (state.site.clone(), state.issuer.clone(), state.site.as_ref().map(|site| site.resource_url.clone()))
        };
        issuer = issuer.or_else(|| need.used.as_ref().and_then(|used| used.issuer.clone()));
        if known.is_none() && profile.has("discoveryState") {
            // What an earlier connection learned is a hint, and only where it points to an allowed place.
            if let Some(kept) = self.provider.discovery().await? {
                issuer = issuer.or_else(|| kept.text("authorizationServerUrl").map(ToOwned::to_owned));
                let hint = kept.text("resourceMetadataUrl").filter(|url| self.fetch.trust.allows(url));
                resource_url = resource_url.or_else(|| hint.map(ToOwned::to_owned));
            }
        }
        let hints = Hints {
            challenge: &need.challenge,
            resource_url: resource_url.as_deref(),
            issuer: issuer.as_deref(),
            known: known.as_ref(),
        };
        let site = discover(&self.fetch, &self.config.server_url, hints, flow).await?;
        let moved = issuer.as_ref().is_some_and(|issuer| *issuer != site.issuer);
        if moved && self.phase() == Phase::Calling {
            return Err(OAuthError::LoginRequired { why: MOVED });
        }
        let first_issuer = self.claim_issuer(issuer.as_deref().unwrap_or(&site.issuer));
        self.provider.tell(&profile, "saveAuthorizationServerUrl", &site.issuer).await?;
        let resource = self.resource(&profile, &site).await?;
        if let Some(resource) = &resource {
            self.provider.tell(&profile, "saveResourceUrl", resource).await?;
        }
        let scope = self.scope(need, &profile, &site, flow);
        {
            let mut state = self.state();
            state.site = Some(site.clone());
            state.issuer = Some(site.issuer.clone());
        }
        Ok(Scene { profile, site, flow, resource, scope, first_issuer })
    }

    /// The resource indicator: as the metadata writes it, unless the provider wants another.
    async fn resource(&self, profile: &Profile, site: &Site) -> Result<Option<String>, OAuthError> {
        let named = site.resource.text("resource");
        if profile.has("validateResourceURL") {
            return self.provider.resource(self.config.server_url.as_str(), named).await;
        }
        Ok(named.map(ToOwned::to_owned))
    }

    /// The challenge's scope, else what the server supports, else the client's; for more scope, all there was too.
    fn scope(&self, need: &Need, profile: &Profile, site: &Site, flow: Flow) -> Option<String> {
        let challenged = need.challenge.scope.as_deref();
        if need.cause == Cause::Scope {
            let asked = self.state().asked.clone();
            let granted = need.used.as_ref().and_then(|used| used.scope.as_deref());
            return union(&[asked.as_deref(), granted, challenged]);
        }
        let supported = site.resource.texts("scopes_supported").map(|scopes| scopes.join(" "));
        let client = profile.client_metadata.text("scope");
        let scope = union(&[challenged]).or_else(|| union(&[supported.as_deref()])).or_else(|| union(&[client]))?;
        let offers = |map: &SecretMap, list, word| map.texts(list).is_some_and(|words| words.contains(&word));
        let offline = flow == Flow::Interactive
            && offers(&site.server, "scopes_supported", "offline_access")
            && offers(&profile.client_metadata, "grant_types", "refresh_token");
        if offline { union(&[Some(&scope), Some("offline_access")]) } else { Some(scope) }
    }

    /// The tokens the host has of this issuer; those without a stamp are taken as the first issuer's and stamped.
    async fn stored_tokens(&self, scene: &Scene) -> Result<Option<SecretMap>, OAuthError> {
        let issuer = scene.site.issuer.as_str();
        let Some(mut stored) = self.provider.tokens(Some(issuer)).await? else { return Ok(None) };
        let owner = stored.text("issuer").unwrap_or(&scene.first_issuer);
        if owner != issuer {
            tracing::debug!("the stored tokens belong to another issuer");
            return Ok(None);
        }
        if stored.text("issuer").is_none() {
            stored.set("issuer", issuer);
            self.provider.save_tokens(&stored, issuer).await?;
        }
        Ok(Some(stored))
    }

    fn wanted<'a>(&'a self, scene: &'a Scene) -> Wanted<'a> {
        Wanted {
            fetch: &self.fetch,
            provider: &self.provider,
            profile: &scene.profile,
            site: &scene.site,
            first_issuer: &scene.first_issuer,
        }
    }

    fn party<'a>(&'a self, scene: &'a Scene, client: &'a Client) -> Party<'a> {
        Party {
            fetch: &self.fetch,
            provider: &self.provider,
            profile: &scene.profile,
            site: &scene.site,
            client,
            resource: scene.resource.as_deref(),
        }
    }

    /// The client to use; one is registered only while connecting.
    async fn client(&self, scene: &Scene, stored: Stored) -> Result<Client, OAuthError> {
        let wanted = self.wanted(scene);
        if stored == Stored::Counts
            && let Some(client) = client::stored(&wanted, scene.profile.redirect.as_deref()).await?
        {
            return Ok(client);
        }
        if let Some(client) = client::by_document(&wanted).await? {
            return Ok(client);
        }
        if self.phase() == Phase::Calling {
            return Err(OAuthError::LoginRequired { why: "there is no client for the authorization server" });
        }
        client::register(&wanted, scene.scope.as_deref()).await
    }

    /// The client that a refresh token may belong to, whatever its callback is now: the callback of a listener on this
    /// machine has another port after each start.
    async fn refreshing_client(&self, scene: &Scene) -> Result<Option<Client>, OAuthError> {
        let wanted = self.wanted(scene);
        match client::stored(&wanted, None).await? {
            Some(client) => Ok(Some(client)),
            None => client::by_document(&wanted).await,
        }
    }

    async fn refresh(&self, scene: &Scene, before: &SecretMap, refresh: Secret) -> Result<Refreshed, OAuthError> {
        let issuer = scene.site.issuer.as_str();
        let Some(client) = self.refreshing_client(scene).await? else {
            return Ok(Refreshed::Gone { client: true });
        };
        let params: Params =
            vec![("grant_type".into(), Secret::new("refresh_token")), ("refresh_token".into(), refresh)];
        let _sent = Sent::mark(&self.sent_refresh);
        let refusal = match grant::request(&self.party(scene, &client), params).await {
            Ok(answer) => {
                let stored = to_store(answer, Some(before), issuer, None)?;
                // A rotated refresh token is safe before the access token is used.
                self.provider.save_tokens(&stored, issuer).await?;
                return Token::read(&stored, Origin::Refreshed).map(Refreshed::Token);
            }
            Err(Refusal::Other(error)) => return Err(error),
            Err(refusal) => refusal,
        };
        tracing::debug!(?refusal, "the refresh was refused");
        let used = Token::read(before, Origin::Stored)?;
        for pause in READ_AGAIN {
            tokio::time::sleep(*pause).await;
            let again = self.stored_tokens(scene).await?;
            if let Some(token) = newer(again.as_ref(), Some(&used))? {
                return Ok(Refreshed::Token(token));
            }
        }
        let is_client = refusal == Refusal::Client;
        if !scene.profile.has("invalidateCredentials") {
            return match self.phase() {
                Phase::Connecting => Ok(Refreshed::Gone { client: is_client }),
                Phase::Calling => Err(OAuthError::LoginRequired {
                    why: "the stored sign-in is not valid any more, and the provider has no invalidateCredentials() to remove it",
                }),
            };
        }
        let (scope, seen) =
            if is_client { ("client", Secret::new(client.id())) } else { ("tokens", used.access().clone()) };
        if !self.provider.invalidate(scope, issuer, Some(&seen)).await?
            && let Some(token) = newer(self.stored_tokens(scene).await?.as_ref(), Some(&used))?
        {
            return Ok(Refreshed::Token(token));
        }
        Ok(Refreshed::Gone { client: is_client })
    }

    /// A token for the client's own credentials.
    async fn machine(&self, scene: &Scene, need: &Need) -> Result<Token, OAuthError> {
        if need.cause == Cause::Refused && need.tried == Some(Origin::Issued) {
            return Err(REFUSED_NEW);
        }
        let issuer = scene.site.issuer.as_str();
        let mut stored = Stored::Counts;
        loop {
            let client = self.client(scene, stored).await?;
            let prepared = if scene.profile.has("prepareTokenRequest") {
                self.provider.prepare_token_request(scene.scope.as_deref()).await?
            } else {
                None
            };
            let params = prepared.unwrap_or_else(|| {
                let mut params: Params = vec![("grant_type".into(), Secret::new("client_credentials"))];
                params.extend(scene.scope.as_deref().map(|scope| ("scope".to_owned(), Secret::new(scope))));
                params
            });
            match grant::request(&self.party(scene, &client), params).await {
                Ok(answer) => return self.keep(answer, scene).await,
                Err(Refusal::Other(error)) => return Err(error),
                Err(Refusal::Grant) => {
                    return Err(OAuthError::Refused { what: "the grant", why: "it is not valid (invalid_grant)" });
                }
                Err(Refusal::Client) => self.forget_client(scene, issuer, &client, &mut stored).await?,
            }
        }
    }

    /// A client that is not known any more is removed and replaced, once and only while connecting.
    async fn forget_client(
        &self,
        scene: &Scene,
        issuer: &str,
        client: &Client,
        stored: &mut Stored,
    ) -> Result<(), OAuthError> {
        if scene.profile.has("invalidateCredentials") {
            self.provider.invalidate("client", issuer, Some(&Secret::new(client.id()))).await?;
        }
        if self.phase() == Phase::Calling && scene.flow == Flow::Interactive {
            return Err(OAuthError::LoginRequired {
                why: "the client is not known to the authorization server any more",
            });
        }
        if *stored == Stored::IsGone || self.phase() == Phase::Calling || !scene.profile.has("saveClientInformation") {
            let why = "the client is not accepted (invalid_client); check its id, its secret and how it authenticates";
            return Err(OAuthError::Refused { what: "the client", why });
        }
        *stored = Stored::IsGone;
        Ok(())
    }

    /// Lets a person sign in.
    async fn sign_in(&self, scene: &Scene, issuer: &str, lost_client: bool) -> Result<Token, OAuthError> {
        let nobody = |why| OAuthError::NobodyToAsk { why };
        let redirect = scene.profile.redirect.as_deref();
        let redirect = redirect.ok_or(nobody("the OAuth provider has no redirectUrl and no credentials of its own"))?;
        if !self.config.can_authorize {
            return Err(nobody("mcpOAuth has no authorize function that could open the page; add one"));
        }
        let mut stored = if lost_client { Stored::IsGone } else { Stored::Counts };
        loop {
            let client = self.client(scene, stored).await?;
            let outcome = sign_in(&self.party(scene, &client), redirect, scene.scope.as_deref()).await;
            match outcome {
                Ok(answer) => return self.keep(answer, scene).await,
                Err(Refusal::Other(error)) => return Err(error),
                Err(Refusal::Grant) => {
                    return Err(OAuthError::Refused { what: "the code of the sign-in", why: "sign in again" });
                }
                Err(Refusal::Client) => self.forget_client(scene, issuer, &client, &mut stored).await?,
            }
        }
    }

    /// Saves what was issued, and remembers what was asked for.
    async fn keep(&self, answer: SecretMap, scene: &Scene) -> Result<Token, OAuthError> {
        let issuer = scene.site.issuer.as_str();
        let stored = to_store(answer, None, issuer, scene.scope.as_deref())?;
        self.provider.save_tokens(&stored, issuer).await?;
        self.state().asked.clone_from(&scene.scope);
        Token::read(&stored, Origin::Issued)
    }
}

/// Marks that a refresh token was sent, until its successor is saved or there is none.
struct Sent<'a>(&'a AtomicBool);

impl<'a> Sent<'a> {
    fn mark(sent: &'a AtomicBool) -> Self {
        sent.store(true, Ordering::SeqCst);
        Self(sent)
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What a refresh came to.
enum Refreshed {
    Token(Token),
    /// It cannot succeed any more; whether it was the client that is not known.
    Gone {
        client: bool,
    },
}

/// Whether the stored client counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Counts,
    IsGone,
}

pub(super) const REFUSED_NEW: OAuthError = OAuthError::Failed {
    what: "the server refuses a token that was issued just now; check its scope and audience at the authorization server",
};

/// The stored token, when it is another than the one that was used and not over.
fn newer(stored: Option<&SecretMap>, used: Option<&Token>) -> Result<Option<Token>, OAuthError> {
    let Some(stored) = stored else { return Ok(None) };
    let token = Token::read(stored, Origin::Stored)?;
    let is_newer = !token.is_expired() && used.is_none_or(|used| !used.is_same(&token));
    Ok(is_newer.then_some(token))
}
