//! The host's provider: its members with their types, and what is said when it does not keep to them.
//!
//! The core asks through [`OAuthProvider`]; what a member returned is checked here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::OAuthError;
use super::client::Client;
use super::discovery::Site;
use super::secret_map::{SecretMap, wipe};
use crate::base::fault::HostError;
use crate::base::secret::Secret;

/// The host's side of OAuth: storage for each server, and whoever opens a page.
pub trait OAuthProvider: Send + Sync {
    /// Calls one member of a server's provider: a JSON array of arguments, answered with a JSON text.
    fn call<'a>(
        &'a self,
        server: &'a str,
        member: &'static str,
        arguments: Secret,
    ) -> BoxFuture<'a, Result<Secret, HostError>>;

    /// Opens the page and waits for the callback: a JSON text. Dropping the future aborts the host's signal.
    fn authorize<'a>(&'a self, server: &'a str, url: Secret) -> BoxFuture<'a, Result<Secret, HostError>>;
}

/// What a provider says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawProfile {
    #[serde(default)]
    redirect_url: Value,
    #[serde(default)]
    client_metadata: Value,
    #[serde(default)]
    client_metadata_url: Value,
    members: Vec<String>,
}

/// The provider's properties, as they are at the moment, and which members it has.
pub(super) struct Profile {
    pub(super) redirect: Option<String>,
    pub(super) client_metadata: SecretMap,
    pub(super) client_metadata_url: Option<String>,
    members: Vec<String>,
}

impl Profile {
    pub(super) fn has(&self, member: &str) -> bool {
        self.members.iter().any(|own| own == member)
    }
}

/// The headers and parameters that a provider made of a token request.
#[derive(Deserialize)]
pub(super) struct Authenticated {
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) params: Vec<(String, Secret)>,
}

/// What was refused and is to be removed.
pub(super) enum Doomed<'a> {
    Tokens(&'a SecretMap),
    Client(&'a Client),
}

/// One server's provider.
pub(super) struct Provider {
    host: Arc<dyn OAuthProvider>,
    server: String,
    ended: AtomicBool,
    step: Mutex<&'static str>,
}

const SERVER: &str = "the server or its authorization server";
const REQUIRED: &[&str] = &["clientInformation", "tokens", "saveTokens", "saveCodeVerifier", "codeVerifier"];

impl Provider {
    pub(super) fn new(host: Arc<dyn OAuthProvider>, server: String) -> Self {
        Self { host, server, ended: AtomicBool::new(false), step: Mutex::new(SERVER) }
    }

    /// Nothing is asked of the host any more.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// What is waited for, for a message about a deadline.
    pub(super) fn step(&self) -> &'static str {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the host; what was waited for stays known when the time runs out meanwhile.
    async fn wait_for<T>(&self, step: &'static str, work: impl Future<Output = T>) -> T {
        let enter = |step| *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        enter(step);
        let done = work.await;
        enter(SERVER);
        done
    }

    async fn ask(&self, member: &'static str, mut arguments: Value) -> Result<Secret, OAuthError> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(OAuthError::Cancelled);
        }
        tracing::trace!(member, "asking the provider");
        let text = Secret::new(arguments.to_string());
        wipe(&mut arguments);
        let failed =
            |error: HostError| OAuthError::Provider { method: member, what: "failed", cause_id: error.cause_id };
        let answer = self.wait_for(member, self.host.call(&self.server, member, text)).await.map_err(failed)?;
        if self.ended.load(Ordering::SeqCst) { Err(OAuthError::Cancelled) } else { Ok(answer) }
    }

    /// An object or nothing.
    async fn object(&self, member: &'static str, arguments: Value) -> Result<Option<SecretMap>, OAuthError> {
        let answer = self.ask(member, arguments).await?;
        if answer.expose() == "null" {
            return Ok(None);
        }
        let parsed = SecretMap::parse(answer.expose().as_bytes());
        parsed.map(Some).ok_or(lied(member, "returned something that is no object"))
    }

    /// A text or nothing.
    async fn text(&self, member: &'static str, arguments: Value) -> Result<Option<Secret>, OAuthError> {
        let answer = self.ask(member, arguments).await?;
        serde_json::from_str(answer.expose()).map_err(|_| lied(member, "returned something that is no text"))
    }

    /// Reads the properties and checks that what is required is there.
    pub(super) async fn describe(&self) -> Result<Profile, OAuthError> {
        let answer = self.ask("describe", json!([])).await.map_err(|error| match error {
            OAuthError::Provider { cause_id, .. } => OAuthError::Provider {
                method: "redirectUrl, clientMetadata or another member",
                what: "failed",
                cause_id,
            },
            error => error,
        })?;
        let raw: RawProfile = serde_json::from_str(answer.expose()).map_err(|_| lied("members", "cannot be read"))?;
        if raw.members.iter().any(|member| member == "dpop") {
            return Err(lied("dpop", "is there, and DPoP is not supported"));
        }
        if let Some(missing) = REQUIRED.iter().find(|name| !raw.members.iter().any(|member| member == *name)) {
            return Err(OAuthError::Provider { method: missing, what: "is missing", cause_id: None });
        }
        let text = |value: Value, member| match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(lied(member, "is neither a string nor a URL")),
        };
        let metadata = raw.client_metadata.to_string();
        Ok(Profile {
            redirect: text(raw.redirect_url, "redirectUrl")?.filter(|text| !text.is_empty()),
            client_metadata: SecretMap::parse(metadata.as_bytes()).ok_or(lied("clientMetadata", "is no object"))?,
            client_metadata_url: text(raw.client_metadata_url, "clientMetadataUrl")?.filter(|text| !text.is_empty()),
            members: raw.members,
        })
    }

    pub(super) async fn client(&self, issuer: &str) -> Result<Option<SecretMap>, OAuthError> {
        let member = "clientInformation";
        let client = self.object(member, json!([{ "issuer": issuer }])).await?;
        match &client {
            Some(client) if client.text("client_id").is_none_or(str::is_empty) => {
                Err(lied(member, "returned an object without a client_id"))
            }
            _ => Ok(client),
        }
    }

    pub(super) async fn save_client(&self, client: &SecretMap, issuer: &str) -> Result<(), OAuthError> {
        self.ask("saveClientInformation", json!([client.value(), { "issuer": issuer }])).await.map(drop)
    }

    /// The stored tokens: of an issuer, or the server's current ones.
    pub(super) async fn tokens(&self, issuer: Option<&str>) -> Result<Option<SecretMap>, OAuthError> {
        let arguments = issuer.map_or_else(|| json!([]), |issuer| json!([{ "issuer": issuer }]));
        let tokens = self.object("tokens", arguments).await?;
        match &tokens {
            Some(tokens) if tokens.text("access_token").is_none_or(str::is_empty) => {
                Err(lied("tokens", "returned an object without an access_token"))
            }
            _ => Ok(tokens),
        }
    }

    pub(super) async fn save_tokens(&self, tokens: &SecretMap, issuer: &str) -> Result<(), OAuthError> {
        self.ask("saveTokens", json!([tokens.value(), { "issuer": issuer }])).await.map(drop)
    }

    pub(super) async fn save_verifier(&self, verifier: &Secret) -> Result<(), OAuthError> {
        self.ask("saveCodeVerifier", json!([verifier.expose()])).await.map(drop)
    }

    pub(super) async fn verifier(&self) -> Result<Secret, OAuthError> {
        self.text("codeVerifier", json!([])).await?.ok_or(lied("codeVerifier", "returned nothing"))
    }

    /// Writes down whom a server trusts.
    pub(super) async fn save_discovery(&self, site: &Site) -> Result<(), OAuthError> {
        let state = json!({
            "authorizationServerUrl": site.issuer,
            "resourceMetadataUrl": site.resource_url,
            "resourceMetadata": site.resource.value(),
            "authorizationServerMetadata": site.server.value(),
        });
        self.ask("saveDiscoveryState", json!([state])).await.map(drop)
    }

    pub(super) async fn discovery(&self) -> Result<Option<SecretMap>, OAuthError> {
        self.object("discoveryState", json!([])).await
    }

    /// Tells a plain fact to a member that keeps it, when there is one.
    pub(super) async fn tell(&self, profile: &Profile, member: &'static str, text: &str) -> Result<(), OAuthError> {
        if profile.has(member) { self.ask(member, json!([text])).await.map(drop) } else { Ok(()) }
    }

    /// Invalidates what was refused, unless the store holds something else by now.
    ///
    /// The host reads and removes without a pause in between; says whether it removed.
    pub(super) async fn invalidate(&self, doomed: Doomed<'_>, issuer: &str) -> Result<bool, OAuthError> {
        let (scope, refused, marks) = match doomed {
            Doomed::Tokens(tokens) => ("tokens", tokens, ["access_token", "refresh_token"]),
            Doomed::Client(client) => ("client", client.credentials(), ["client_id", "client_secret"]),
        };
        let seen: Map<String, Value> =
            marks.into_iter().map(|mark| (mark.to_owned(), json!(refused.text(mark)))).collect();
        let answer = self.ask("invalidateCredentials", json!([scope, { "issuer": issuer }, seen])).await?;
        Ok(answer.expose() == "true")
    }

    pub(super) async fn prepare_token_request(
        &self,
        scope: Option<&str>,
    ) -> Result<Option<Vec<(String, Secret)>>, OAuthError> {
        let member = "prepareTokenRequest";
        let answer = self.ask(member, scope.map_or_else(|| json!([]), |scope| json!([scope]))).await?;
        serde_json::from_str(answer.expose()).map_err(|_| lied(member, "returned something that is no URLSearchParams"))
    }

    pub(super) async fn authenticate(
        &self,
        params: &[(String, Secret)],
        url: &str,
        metadata: &SecretMap,
    ) -> Result<Authenticated, OAuthError> {
        let member = "addClientAuthentication";
        let params: Vec<_> = params.iter().map(|(name, value)| [name, value.expose()]).collect();
        let answer = self.ask(member, json!([[], params, url, metadata.value()])).await?;
        serde_json::from_str(answer.expose())
            .map_err(|_| lied(member, "left headers or parameters that cannot be sent"))
    }

    /// The resource that the provider wants to be named; `None` for none at all.
    pub(super) async fn resource(&self, server: &str, named: Option<&str>) -> Result<Option<String>, OAuthError> {
        let answer = self.text("validateResourceURL", json!([server, named])).await?;
        Ok(answer.map(|text| text.expose().to_owned()))
    }

    /// Lets a person sign in; gives the callback's URL.
    pub(super) async fn authorize(&self, url: Secret) -> Result<Secret, OAuthError> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(OAuthError::Cancelled);
        }
        tracing::debug!("a person is asked to sign in");
        let failed = |error: HostError| OAuthError::Callback { cause_id: error.cause_id };
        let answer = self.wait_for("authorize", self.host.authorize(&self.server, url)).await.map_err(failed)?;
        serde_json::from_str(answer.expose()).map_err(|_| OAuthError::Callback { cause_id: None })
    }
}

const fn lied(method: &'static str, what: &'static str) -> OAuthError {
    OAuthError::Provider { method, what, cause_id: None }
}
