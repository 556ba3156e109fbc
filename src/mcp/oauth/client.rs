//! The client's identity at one issuer: stored, a metadata document's address, or registered just now.
//!
//! Credentials that are stamped with an issuer are used with that issuer alone.

use serde_json::{Value, json};
use url::Url;

use super::OAuthError;
use super::discovery::Site;
use super::fetch::{Ask, Body, Fetch, is_unavailable};
use super::provider::{Profile, Provider};
use super::secret_map::SecretMap;
use super::trust::plain_url;
use crate::base::clock;
use crate::base::http::is_loopback;
use crate::base::secret::Secret;

/// A client of one issuer.
pub(super) struct Client(SecretMap);

/// How it proves who it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Method {
    Basic(Secret),
    Post(Secret),
    Nothing,
}

impl Client {
    pub(super) fn id(&self) -> &str {
        self.0.text("client_id").unwrap_or_default()
    }

    /// Whether two are the same to the authorization server.
    pub(super) fn has_same_credentials(&self, other: &Self) -> bool {
        ["client_id", "client_secret"].iter().all(|name| self.0.text(name) == other.0.text(name))
    }

    pub(super) const fn credentials(&self) -> &SecretMap {
        &self.0
    }

    /// The method that the registration named, else what the server supports.
    pub(super) fn method(&self, server: &SecretMap) -> Result<Method, OAuthError> {
        let secret = self.0.secret("client_secret").filter(|secret| !secret.expose().is_empty());
        let supported = server.texts("token_endpoint_auth_methods_supported").unwrap_or_default();
        let offers = |name: &str| supported.contains(&name);
        match (self.0.text("token_endpoint_auth_method"), secret) {
            (Some("client_secret_basic"), Some(secret)) => Ok(Method::Basic(secret)),
            (Some("client_secret_post"), Some(secret)) => Ok(Method::Post(secret)),
            (Some("private_key_jwt" | "client_secret_jwt" | "tls_client_auth"), None) => Err(OAuthError::Failed {
                what: "the client needs an authentication method that the provider must add; give it addClientAuthentication",
            }),
            (Some("none"), _) | (_, None) => Ok(Method::Nothing),
            (_, Some(secret)) if supported.is_empty() || offers("client_secret_basic") => Ok(Method::Basic(secret)),
            (_, Some(_)) if offers("none") && !offers("client_secret_post") => Ok(Method::Nothing),
            (_, Some(secret)) => Ok(Method::Post(secret)),
        }
    }
}

/// What a client is looked for with.
pub(super) struct Wanted<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) provider: &'a Provider,
    pub(super) profile: &'a Profile,
    pub(super) site: &'a Site,
    /// The issuer that credentials without a stamp belong to.
    pub(super) first_issuer: &'a str,
}

/// The client that the host has for this issuer.
///
/// With `redirect`, only one that may be called back there.
pub(super) async fn stored(wanted: &Wanted<'_>, redirect: Option<&str>) -> Result<Option<Client>, OAuthError> {
    let Wanted { provider, profile, site, .. } = wanted;
    let Some(mut client) = provider.client(&site.issuer).await? else { return Ok(None) };
    let can_save = profile.has("saveClientInformation");
    let owner = client.text("issuer").unwrap_or(wanted.first_issuer);
    if owner != site.issuer {
        tracing::debug!("the stored client belongs to another issuer");
        // A person can sign in with a client that is registered anew; credentials of a machine are the host's to make.
        return if can_save && profile.redirect.is_some() { Ok(None) } else { Err(OAuthError::OtherIssuer) };
    }
    if !is_current(&client, redirect) {
        return Ok(None);
    }
    if client.text("issuer").is_none() && can_save {
        client.set("issuer", site.issuer.as_str());
        provider.save_client(&client, &site.issuer).await?;
    }
    Ok(Some(Client(client)))
}

/// Whether a stored client still holds: its secret is not over, and it was registered for this callback.
fn is_current(client: &SecretMap, redirect: Option<&str>) -> bool {
    let ends = client.seconds("client_secret_expires_at").unwrap_or(0);
    let registered = client.texts("redirect_uris").unwrap_or_default();
    let fits = redirect
        .is_none_or(|redirect| registered.is_empty() || registered.iter().any(|one| is_same_callback(one, redirect)));
    (ends == 0 || ends > clock::unix_seconds()) && fits
}

/// A callback on this machine that was registered without a port may have any (RFC 8252, section 7.3).
fn is_same_callback(registered: &str, redirect: &str) -> bool {
    if registered == redirect {
        return true;
    }
    let (Ok(registered), Ok(mut redirect)) = (Url::parse(registered), Url::parse(redirect)) else { return false };
    registered.port().is_none()
        && registered.scheme() == "http"
        && is_loopback(&registered)
        && redirect.set_port(None).is_ok()
        && registered == redirect
}

/// The address of the client's own metadata document, where the server takes one.
pub(super) async fn by_document(wanted: &Wanted<'_>) -> Result<Option<Client>, OAuthError> {
    let Wanted { provider, profile, site, .. } = wanted;
    let Some(url) = &profile.client_metadata_url else { return Ok(None) };
    if !plain_url(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/") {
        return Err(OAuthError::Provider {
            method: "clientMetadataUrl",
            what: "is not an https URL with a path",
            cause_id: None,
        });
    }
    if !site.server.is_true("client_id_metadata_document_supported") {
        return Ok(None);
    }
    let mut client = SecretMap::default();
    client.set("client_id", url.as_str());
    client.set("issuer", site.issuer.as_str());
    if profile.has("saveClientInformation") {
        provider.save_client(&client, &site.issuer).await?;
    }
    Ok(Some(Client(client)))
}

/// Registers a client.
pub(super) async fn register(wanted: &Wanted<'_>, scope: Option<&str>) -> Result<Client, OAuthError> {
    let Wanted { fetch, provider, profile, site, .. } = wanted;
    if !profile.has("saveClientInformation") {
        let what = "there is no client for this authorization server; return one from clientInformation(), or give the provider saveClientInformation() so that one can be registered";
        return Err(OAuthError::Failed { what });
    }
    if !site.server.has("registration_endpoint") {
        let what = "there is no client for this authorization server and it registers none; register one by hand and return it from clientInformation()";
        return Err(OAuthError::Failed { what });
    }
    let url = site.endpoint(fetch, "registration_endpoint", "registration endpoint")?;
    let body = registration(profile, scope);
    let what = "registration endpoint";
    let ask = Ask { body: Body::Json(Secret::new(body.to_string())), ..Ask::document(what, url.as_str()) };
    let answer = fetch.send(ask).await?;
    if is_unavailable(answer.status) {
        return Err(OAuthError::Unavailable { what: "it answers a registration with an HTTP status of failure" });
    }
    let client = SecretMap::parse(&answer.body);
    if !answer.status.is_success() {
        let redirect = client.is_some_and(|answer| answer.text("error") == Some("invalid_redirect_uri"));
        let why = if redirect {
            "it does not accept redirectUrl (invalid_redirect_uri); use one that it accepts"
        } else {
            "check clientMetadata, or register a client by hand and return it from clientInformation()"
        };
        return Err(OAuthError::Refused { what: "to register the client", why });
    }
    let Some(mut client) = client.filter(|client| client.text("client_id").is_some_and(|id| !id.is_empty())) else {
        return Err(OAuthError::Failed {
            what: "the authorization server's answer to the registration has no client_id",
        });
    };
    client.set("issuer", site.issuer.as_str());
    if !client.has("redirect_uris") && !body["redirect_uris"].is_null() {
        // Not every server repeats what was sent (RFC 7591, section 3.2.1); it tells later for which callback this is.
        client.set("redirect_uris", body["redirect_uris"].clone());
    }
    provider.save_client(&client, &site.issuer).await?;
    Ok(Client(client))
}

/// What is registered: the host's metadata, and what is needed besides.
fn registration(profile: &Profile, scope: Option<&str>) -> Value {
    let metadata = &profile.client_metadata;
    let mut body = metadata.value();
    if let Some(redirect) = profile.redirect.as_deref() {
        if metadata.texts("redirect_uris").is_none_or(|list| list.is_empty()) {
            body["redirect_uris"] = json!([redirect]);
        }
        let mut grants = metadata.texts("grant_types").unwrap_or_else(|| vec!["authorization_code"]);
        if !grants.contains(&"refresh_token") {
            grants.push("refresh_token");
        }
        body["grant_types"] = json!(grants);
        if !metadata.has("application_type") {
            let native = Url::parse(redirect).is_ok_and(|url| is_loopback(&url));
            body["application_type"] = json!(if native { "native" } else { "web" });
        }
    }
    if let Some(scope) = scope {
        body["scope"] = json!(scope);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> SecretMap {
        SecretMap::parse(text.as_bytes()).unwrap()
    }

    fn method(client: &str, server: &str) -> Method {
        Client(map(client)).method(&map(server)).unwrap()
    }

    #[test]
    fn the_registered_method_is_used_else_one_that_the_server_supports() {
        let secret = || Secret::new("s");
        let (all, post, none) = (
            "{}",
            r#"{"token_endpoint_auth_methods_supported":["client_secret_post"]}"#,
            r#"{"token_endpoint_auth_methods_supported":["none"]}"#,
        );
        let with =
            |named: &str| format!(r#"{{"client_id":"i","client_secret":"s","token_endpoint_auth_method":{named}}}"#);

        assert_eq!(method(&with(r#""client_secret_post""#), all), Method::Post(secret()));
        assert_eq!(method(&with(r#""client_secret_basic""#), post), Method::Basic(secret()));
        assert_eq!(method(&with(r#""none""#), post), Method::Nothing);
        assert_eq!(method(&with("null"), all), Method::Basic(secret()));
        assert_eq!(method(&with("null"), post), Method::Post(secret()));
        assert_eq!(method(&with("null"), none), Method::Nothing);
        assert_eq!(method(r#"{"client_id":"i"}"#, post), Method::Nothing);
        assert_eq!(
            method(r#"{"client_id":"i","token_endpoint_auth_method":"client_secret_basic"}"#, all),
            Method::Nothing
        );
        let jwt = Client(map(r#"{"client_id":"i","token_endpoint_auth_method":"private_key_jwt"}"#));
        assert!(jwt.method(&map(all)).is_err());
    }

    #[test]
    fn a_client_whose_secret_is_over_or_whose_callback_is_another_is_none() {
        let here = Some("http://127.0.0.1:1/cb");
        for (client, current) in [
            ("{}", true),
            (r#"{"client_secret_expires_at":0}"#, true),
            (r#"{"client_secret_expires_at":1}"#, false),
            (r#"{"client_secret_expires_at":"1"}"#, false),
            (r#"{"client_secret_expires_at":99999999999}"#, true),
            (r#"{"redirect_uris":[]}"#, true),
            (r#"{"redirect_uris":["http://127.0.0.1:1/cb"]}"#, true),
            (r#"{"redirect_uris":["http://127.0.0.1:2/cb"]}"#, false),
        ] {
            assert_eq!(is_current(&map(client), here), current, "{client}");
        }
        assert!(is_current(&map(r#"{"redirect_uris":["x"]}"#), None));
        for (registered, callback, same) in [
            ("http://127.0.0.1/cb", "http://127.0.0.1:5/cb", true),
            ("http://[::1]/cb?a=1", "http://[::1]:5/cb?a=1", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5/other", false),
            ("http://127.0.0.1/cb", "http://[::1]:5/cb", false),
            ("https://app.example/cb", "https://app.example:5/cb", false),
            ("not a URL", "http://127.0.0.1:5/cb", false),
        ] {
            assert_eq!(is_same_callback(registered, callback), same, "{registered} {callback}");
        }
    }
}
