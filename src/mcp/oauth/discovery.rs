//! From a refused request to an authorization server that may be asked.
//!
//! The protected-resource metadata is read anew each time, so that a server that moved is noticed. The
//! authorization server's own document is kept for the life of the connection.

use std::sync::Arc;

use url::Url;

use super::fetch::{Ask, Fetch, is_unavailable};
use super::metadata::{Fit, Flow, issuer_candidates, judge, resource_candidates, resource_fits};
use super::secret_map::SecretMap;
use super::{Challenge, OAuthError};

const RESOURCE: &str = "protected-resource metadata address";
const ISSUER: &str = "authorization-server metadata address";

/// Whom a server trusts, and how to talk to it.
#[derive(Clone)]
pub(super) struct Site {
    /// The issuer, as the server's metadata writes it.
    pub(super) issuer: String,
    /// Its document.
    pub(super) server: Arc<SecretMap>,
    /// The server's document.
    pub(super) resource: Arc<SecretMap>,
    /// Where that was.
    pub(super) resource_url: String,
}

impl Site {
    /// An address of the authorization server, refused when it is not allowed.
    pub(super) fn endpoint(&self, fetch: &Fetch, name: &str, what: &'static str) -> Result<Url, OAuthError> {
        let text = self.server.text(name).ok_or(OAuthError::Target { what, why: "the metadata does not name it" })?;
        fetch.trust.check(what, text)
    }

    pub(super) fn token_endpoint(&self, fetch: &Fetch) -> Result<Url, OAuthError> {
        self.endpoint(fetch, "token_endpoint", "token endpoint")
    }

    pub(super) fn authorization_endpoint(&self, fetch: &Fetch) -> Result<Url, OAuthError> {
        self.endpoint(fetch, "authorization_endpoint", "authorization endpoint")
    }
}

/// What is known before.
pub(super) struct Hints<'a> {
    pub(super) challenge: &'a Challenge,
    /// Where the metadata was the last time.
    pub(super) resource_url: Option<&'a str>,
    /// The issuer that is in use.
    pub(super) issuer: Option<&'a str>,
    /// The document that is known already.
    pub(super) known: Option<&'a Site>,
}

/// Finds the authorization server of `server`.
pub(super) async fn discover(fetch: &Fetch, server: &Url, hints: Hints<'_>, flow: Flow) -> Result<Site, OAuthError> {
    let (resource_url, resource) = read_resource(fetch, server, &hints).await?;
    let issuer = choose_issuer(fetch, &resource, hints.issuer)?;
    let server = match hints.known {
        Some(known) if known.issuer == issuer && judge(&known.server, &issuer, flow) == Fit::Good => {
            Arc::clone(&known.server)
        }
        _ => Arc::new(read_issuer(fetch, &issuer, flow).await?),
    };
    let site = Site { issuer, server, resource: Arc::new(resource), resource_url };
    // Nothing is asked of the host or of a person for a server whose addresses would be refused later.
    site.token_endpoint(fetch)?;
    if flow == Flow::Interactive {
        site.authorization_endpoint(fetch)?;
    }
    Ok(site)
}

async fn read_resource(fetch: &Fetch, server: &Url, hints: &Hints<'_>) -> Result<(String, SecretMap), OAuthError> {
    let mut candidates = resource_candidates(server);
    let named = hints.challenge.resource_metadata.as_deref().or(hints.resource_url);
    if let Some(named) = named {
        candidates.retain(|other| other != named);
        candidates.insert(0, named.to_owned());
    }
    for candidate in candidates {
        let document = match read(fetch, RESOURCE, &candidate).await? {
            Found::Document(document) => document,
            Found::Nothing => continue,
            // Whom a server trusts is not guessed from its second address while the first one cannot answer.
            Found::Unavailable => return Err(OAuthError::ResourceUnavailable),
        };
        let resource = document.text("resource").unwrap_or_default();
        if !resource_fits(resource, server) {
            let why = "the resource it names is not this server";
            return Err(OAuthError::Target { what: "protected-resource metadata", why });
        }
        return Ok((candidate, document));
    }
    Err(OAuthError::Failed {
        what: "the server wants a sign-in but publishes no protected-resource metadata; check that it supports OAuth",
    })
}

/// The issuer in use when the server still names it, else the first one that is allowed.
fn choose_issuer(fetch: &Fetch, resource: &SecretMap, current: Option<&str>) -> Result<String, OAuthError> {
    let issuers = resource.texts("authorization_servers").unwrap_or_default();
    let Some(first) = issuers.first() else {
        return Err(OAuthError::Failed { what: "the server's metadata names no authorization server" });
    };
    let allowed = || issuers.iter().filter(|issuer| fetch.trust.allows(issuer));
    let chosen = allowed().find(|issuer| Some(**issuer) == current).or_else(|| allowed().next()).unwrap_or(first);
    fetch.trust.check("authorization server", chosen)?;
    Ok((*chosen).to_owned())
}

async fn read_issuer(fetch: &Fetch, issuer: &str, flow: Flow) -> Result<SecretMap, OAuthError> {
    let url = fetch.trust.check("authorization server", issuer)?;
    let (mut worst, mut unavailable) = (Fit::Good, false);
    for candidate in issuer_candidates(&url) {
        let document = match read(fetch, ISSUER, &candidate).await? {
            Found::Document(document) => document,
            Found::Nothing => continue,
            Found::Unavailable => {
                unavailable = true;
                continue;
            }
        };
        match judge(&document, issuer, flow) {
            Fit::Good => return Ok(document),
            fit => worst = fit,
        }
    }
    if unavailable {
        return Err(OAuthError::Unavailable { what: "it answers for its metadata with an HTTP status of failure" });
    }
    Err(OAuthError::Failed {
        what: match worst {
            Fit::Good => "the authorization server publishes no metadata; check the address that the server names",
            Fit::OtherIssuer => "the authorization server's metadata names another issuer than was asked for",
            Fit::NoPkce => {
                "the authorization server does not announce PKCE with S256, without which nobody signs in here"
            }
            Fit::Incomplete => "the authorization server's metadata lacks an endpoint",
        },
    })
}

/// What stands at a metadata address.
enum Found {
    Document(SecretMap),
    /// No document, or something else than a JSON object.
    Nothing,
    /// The server cannot say now.
    Unavailable,
}

async fn read(fetch: &Fetch, what: &'static str, url: &str) -> Result<Found, OAuthError> {
    let answer = fetch.send(Ask::document(what, url)).await?;
    if is_unavailable(answer.status) {
        return Ok(Found::Unavailable);
    }
    let document = answer.status.is_success().then(|| SecretMap::parse(&answer.body)).flatten();
    Ok(document.map_or(Found::Nothing, Found::Document))
}
