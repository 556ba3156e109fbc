//! What is done about a refused request: which token comes next, and from where.
//!
//! A newer token of the store comes first, then a refresh or the client's own credentials, then a person, and a
//! person only while connecting or where more scope may be asked for. Nothing is removed from the store before it
//! was read again.

use std::time::Duration;

use super::client::{self, Client, Wanted};
use super::discovery::{Hints, Site, discover};
use super::flight::Leave;
use super::grant::{self, Params, Party, Refusal};
use super::login::sign_in;
use super::metadata::Flow;
use super::provider::{Doomed, Profile};
use super::secret_map::SecretMap;
use super::token::{Origin, Token, to_store, union};
use super::{Authorizer, Challenge, OAuthError, Phase};
use crate::base::secret::Secret;

/// How often, and after which pauses, the store is read again when a refresh was refused: whoever used the token before
/// us is about to save its successor.
const READ_AGAIN: &[Duration] = &[
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1500),
];

/// How many refresh tokens are tried, when the store holds another one each time.
const REFRESHES: usize = 3;

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
    /// Whether a person may be asked to sign in for it.
    pub(super) phase: Phase,
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
    phase: Phase,
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
    pub(super) async fn renew(&self, need: &Need, leave: &Leave) -> Result<Token, OAuthError> {
        tracing::debug!(cause = ?need.cause, "a token is needed");
        let scene = self.survey(need).await?;
        let stored = self.stored_tokens(&scene).await?;
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
        let mut lost_client = false;
        if let Some(before) = stored.filter(|stored| may_refresh && stored.text("refresh_token").is_some()) {
            match self.refresh(&scene, before, leave).await? {
                Refreshed::Token(token) => return Ok(token),
                Refreshed::Gone { client } => lost_client = client,
            }
        }
        match (need.phase, need.cause, need.tried) {
            (_, Cause::Scope, _) => {}
            (_, Cause::Expired, _) => return Err(OAuthError::LoginRequired { why: GONE }),
            (_, _, Some(Origin::Issued)) | (Phase::Calling, _, Some(Origin::Refreshed)) => return Err(REFUSED_NEW),
            (Phase::Calling, ..) => return Err(OAuthError::LoginRequired { why: GONE }),
            (Phase::Connecting, ..) => self.count_sign_in(&need.operation),
        }
        self.sign_in(&scene, lost_client).await
    }

    /// More scope is asked for less often after it.
    fn count_sign_in(&self, operation: &str) {
        *self.state().sign_ins.entry(operation.to_owned()).or_default() += 1;
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
        let first_issuer = self.claim_issuer(issuer.as_deref().unwrap_or(&site.issuer));
        let moved = issuer.filter(|issuer| *issuer != site.issuer);
        if let Some(old) = &moved {
            let mut state = self.state();
            // What the old one issued is not for a server that trusts another.
            state.token = None;
            state.issuer.get_or_insert_with(|| old.clone());
            if need.phase == Phase::Calling {
                return Err(OAuthError::LoginRequired { why: MOVED });
            }
        }
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
        let scene = Scene { profile, site, flow, resource, scope, first_issuer, phase: need.phase };
        if moved.is_none() {
            self.remember(&scene).await?;
        }
        Ok(scene)
    }

    /// Writes down what was discovered, once for each place. Where that is another issuer than before, only once there
    /// is a client for it: until then the host's store says to whom credentials without a stamp belong.
    async fn remember(&self, scene: &Scene) -> Result<(), OAuthError> {
        let Scene { profile, site, .. } = scene;
        let place = (site.issuer.clone(), site.resource_url.clone());
        if !profile.has("saveDiscoveryState") || self.state().remembered.as_ref() == Some(&place) {
            return Ok(());
        }
        self.provider.save_discovery(site).await?;
        self.state().remembered = Some(place);
        Ok(())
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
        if stored != Stored::IsGone
            && let Some(client) = client::stored(&wanted, scene.profile.redirect.as_deref()).await?
        {
            return Ok(client);
        }
        if let Some(client) = client::by_document(&wanted).await? {
            return Ok(client);
        }
        if scene.phase == Phase::Calling {
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

    /// Refreshes with the stored token, or with the one that took its place meanwhile.
    async fn refresh(&self, scene: &Scene, mut before: SecretMap, leave: &Leave) -> Result<Refreshed, OAuthError> {
        let mut is_client = false;
        for _ in 0..REFRESHES {
            let Some(client) = self.refreshing_client(scene).await? else {
                return Ok(Refreshed::Gone { client: true });
            };
            self.remember(scene).await?;
            let refusal = match self.refresh_once(scene, &client, &before, leave).await {
                Ok(token) => return Ok(Refreshed::Token(token)),
                Err(Refusal::Other(error)) => return Err(error),
                Err(refusal) => refusal,
            };
            tracing::debug!(?refusal, "the refresh was refused");
            leave.check()?;
            is_client = refusal == Refusal::Client;
            let mut successor = self.wait_for_successor(scene, &client, &before).await?;
            if matches!(successor, Successor::Nothing) {
                if !scene.profile.has("invalidateCredentials") {
                    return match scene.phase {
                        Phase::Connecting => Ok(Refreshed::Gone { client: is_client }),
                        Phase::Calling => Err(OAuthError::LoginRequired {
                            why: "the stored sign-in is not valid any more, and the provider has no invalidateCredentials() to remove it",
                        }),
                    };
                }
                let scope = if is_client { Doomed::Client(&client) } else { Doomed::Tokens(&before) };
                if self.provider.invalidate(scope, &scene.site.issuer).await? {
                    return Ok(Refreshed::Gone { client: is_client });
                }
                // Something newer came at the last moment.
                successor = self.successor(scene, &client, &before).await?;
            }
            match successor {
                Successor::Token(token) => return Ok(Refreshed::Token(token)),
                Successor::Credentials(newer) => before = newer,
                Successor::Nothing => break,
            }
        }
        Ok(Refreshed::Gone { client: is_client })
    }

    async fn refresh_once(
        &self,
        scene: &Scene,
        client: &Client,
        before: &SecretMap,
        leave: &Leave,
    ) -> Result<Token, Refusal> {
        let issuer = scene.site.issuer.as_str();
        let refresh = before.secret("refresh_token").ok_or(Refusal::Grant)?;
        let params: Params =
            vec![("grant_type".into(), Secret::new("refresh_token")), ("refresh_token".into(), refresh)];
        let _sent = leave.mark_sent();
        let answer = grant::request(&self.party(scene, client), params).await?;
        let stored = to_store(answer, Some(before), issuer, None)?;
        // A rotated refresh token is safe before the access token is used.
        self.provider.save_tokens(&stored, issuer).await?;
        Ok(Token::read(&stored, Origin::Refreshed)?)
    }

    /// What took the place of refused credentials, read from the store a few times.
    async fn wait_for_successor(
        &self,
        scene: &Scene,
        client: &Client,
        before: &SecretMap,
    ) -> Result<Successor, OAuthError> {
        for pause in READ_AGAIN {
            tokio::time::sleep(*pause).await;
            let found = self.successor(scene, client, before).await?;
            if !matches!(found, Successor::Nothing) {
                return Ok(found);
            }
        }
        Ok(Successor::Nothing)
    }

    async fn successor(&self, scene: &Scene, client: &Client, before: &SecretMap) -> Result<Successor, OAuthError> {
        let Some(stored) = self.stored_tokens(scene).await? else { return Ok(Successor::Nothing) };
        let used = Token::read(before, Origin::Stored)?;
        if let Some(token) = newer(Some(&stored), Some(&used))? {
            return Ok(Successor::Token(token));
        }
        let has_other_token =
            stored.text("refresh_token").is_some_and(|token| Some(token) != before.text("refresh_token"));
        let has_other_client =
            self.refreshing_client(scene).await?.is_some_and(|other| !other.has_same_credentials(client));
        let is_other = has_other_token || has_other_client && stored.text("refresh_token").is_some();
        Ok(if is_other { Successor::Credentials(stored) } else { Successor::Nothing })
    }

    /// A token for the client's own credentials.
    async fn machine(&self, scene: &Scene, need: &Need) -> Result<Token, OAuthError> {
        if need.cause == Cause::Refused && need.tried == Some(Origin::Issued) {
            return Err(REFUSED_NEW);
        }
        let mut stored = Stored::Counts;
        loop {
            let client = self.client(scene, stored).await?;
            self.remember(scene).await?;
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
                Err(Refusal::Client) => self.forget_client(scene, &client, &mut stored).await?,
            }
        }
    }

    /// A client that is not known any more is removed and replaced, once and only while connecting; one that took its
    /// place in the store meanwhile is used.
    async fn forget_client(&self, scene: &Scene, client: &Client, stored: &mut Stored) -> Result<(), OAuthError> {
        if scene.profile.has("invalidateCredentials") {
            let is_removed = self.provider.invalidate(Doomed::Client(client), &scene.site.issuer).await?;
            if !is_removed && *stored == Stored::Counts {
                *stored = Stored::WasReplaced;
                return Ok(());
            }
        }
        if scene.phase == Phase::Calling && scene.flow == Flow::Interactive {
            return Err(OAuthError::LoginRequired {
                why: "the client is not known to the authorization server any more",
            });
        }
        let is_last = *stored == Stored::IsGone || scene.phase == Phase::Calling;
        if is_last || !scene.profile.has("saveClientInformation") {
            let why = "the client is not accepted (invalid_client); check its id, its secret and how it authenticates";
            return Err(OAuthError::Refused { what: "the client", why });
        }
        *stored = Stored::IsGone;
        Ok(())
    }

    /// Lets a person sign in.
    async fn sign_in(&self, scene: &Scene, lost_client: bool) -> Result<Token, OAuthError> {
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
                Err(Refusal::Client) => self.forget_client(scene, &client, &mut stored).await?,
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

/// What a refresh came to.
enum Refreshed {
    Token(Token),
    /// It cannot succeed any more; whether it was the client that is not known.
    Gone {
        client: bool,
    },
}

/// What stands in the store in the place of refused credentials.
enum Successor {
    /// A token that can be used at once.
    Token(Token),
    /// Something that another refresh can be tried with.
    Credentials(SecretMap),
    Nothing,
}

/// Whether the stored client counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Counts,
    /// It does: it is another one than the one that was refused.
    WasReplaced,
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
