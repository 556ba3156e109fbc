//! The token endpoint: one request for a token, and what its answer means.

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::form_urlencoded;

use super::OAuthError;
use super::client::{Client, Method};
use super::discovery::Site;
use super::fetch::{Ask, Body, Fetch, is_unavailable};
use super::provider::{Profile, Provider};
use super::secret_map::SecretMap;
use crate::base::secret::Secret;

/// Why there is no token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The code or the refresh token is not good any more.
    Grant,
    /// The client is not known any more.
    Client,
    /// Anything else; nothing is to be removed for it.
    Other(OAuthError),
}

impl From<OAuthError> for Refusal {
    fn from(error: OAuthError) -> Self {
        Self::Other(error)
    }
}

/// Parameters of a request, in order.
pub(super) type Params = Vec<(String, Secret)>;

/// Who asks, and whom.
pub(super) struct Party<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) provider: &'a Provider,
    pub(super) profile: &'a Profile,
    pub(super) site: &'a Site,
    pub(super) client: &'a Client,
    /// The resource indicator, as the metadata writes it.
    pub(super) resource: Option<&'a str>,
}

/// Asks for a token.
pub(super) async fn request(party: &Party<'_>, mut params: Params) -> Result<SecretMap, Refusal> {
    let url = party.site.token_endpoint(party.fetch)?;
    if let Some(resource) = party.resource {
        set(&mut params, "resource", Secret::new(resource));
    }
    let (mut headers, mut basic) = (HeaderMap::new(), None);
    if party.profile.has("addClientAuthentication") {
        let made = party.provider.authenticate(&params, url.as_str(), &party.site.server).await?;
        headers = host_headers(made.headers)?;
        params = made.params;
    } else {
        let id = party.client.id();
        match party.client.method(&party.site.server)? {
            Method::Basic(secret) => basic = Some((encoded(id), encoded(secret.expose()))),
            Method::Post(secret) => {
                set(&mut params, "client_id", Secret::new(id));
                set(&mut params, "client_secret", secret);
            }
            Method::Nothing => set(&mut params, "client_id", Secret::new(id)),
        }
    }
    let body = Body::Form(form(&params));
    let ask = Ask { what: "token endpoint", url: url.as_str(), headers, basic, body };
    let answer = party.fetch.send(ask).await?;
    read(answer.status, &answer.body)
}

fn form(params: &Params) -> Secret {
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, value) in params {
        form.append_pair(name, value.expose());
    }
    Secret::new(form.finish())
}

fn set(params: &mut Params, name: &str, value: Secret) {
    params.retain(|(other, _)| other != name);
    params.push((name.to_owned(), value));
}

/// Client id and secret travel form-encoded inside `Basic`.
fn encoded(text: &str) -> Secret {
    Secret::new(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>())
}

/// The headers a provider adds; the ones that frame the request are not its own.
fn host_headers(list: Vec<(String, Secret)>) -> Result<HeaderMap, OAuthError> {
    const OURS: &[&str] = &["host", "connection", "content-length", "content-type", "accept", "transfer-encoding"];
    let unsendable = OAuthError::Provider {
        method: "addClientAuthentication",
        what: "left headers that cannot be sent",
        cause_id: None,
    };
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        let name = HeaderName::try_from(name).map_err(|_| unsendable.clone())?;
        if OURS.contains(&name.as_str()) {
            continue;
        }
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| unsendable.clone())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// What an answer of the token endpoint means.
fn read(status: StatusCode, body: &[u8]) -> Result<SecretMap, Refusal> {
    let unavailable = |what| Err(Refusal::Other(OAuthError::Unavailable { what }));
    if is_unavailable(status) {
        return unavailable("it answers with an HTTP status of failure");
    }
    let Some(answer) = SecretMap::parse(body).or_else(|| read_form(body)) else {
        return unavailable("it answers with something that is no token");
    };
    if answer.has("error") {
        return Err(refusal(answer.text("error").unwrap_or_default()));
    }
    if status.is_success() && answer.text("access_token").is_some() {
        return Ok(answer);
    }
    if status.is_success() {
        return Err(Refusal::Other(OAuthError::Failed {
            what: "the authorization server's answer holds no access token",
        }));
    }
    unavailable("it answers with an HTTP status of failure and no reason")
}

/// A form-encoded answer: only words and values, so that no page is taken for one.
fn read_form(body: &[u8]) -> Option<SecretMap> {
    let text = std::str::from_utf8(body).ok()?.trim();
    if !text.contains('=') || text.contains(|c: char| c.is_whitespace() || c == '<' || c == '{') {
        return None;
    }
    let mut map = SecretMap::default();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        map.set(&name, value.into_owned());
    }
    (map.has("access_token") || map.has("error")).then_some(map)
}

/// An error code in words of ours; the server's own description is never shown.
fn refusal(code: &str) -> Refusal {
    let refused = |why| Refusal::Other(OAuthError::Refused { what: "the token request", why });
    match code {
        "invalid_grant" => Refusal::Grant,
        "invalid_client" => Refusal::Client,
        "unauthorized_client" => {
            refused("the client may not use this kind of grant (unauthorized_client); allow it there")
        }
        "server_error" | "temporarily_unavailable" | "slow_down" => {
            Refusal::Other(OAuthError::Unavailable { what: "it says that it is not available" })
        }
        "invalid_scope" => refused("the scope is not granted (invalid_scope); check clientMetadata.scope"),
        "invalid_target" => refused("the resource is not known to it (invalid_target)"),
        "invalid_request" => refused("the request is not valid for it (invalid_request)"),
        "unsupported_grant_type" => refused("this kind of grant is not supported (unsupported_grant_type)"),
        "access_denied" => refused("access is denied (access_denied)"),
        _ => refused("it gives a reason that is not known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(status: u16, body: &str) -> Result<Option<String>, Refusal> {
        read(StatusCode::from_u16(status).unwrap(), body.as_bytes())
            .map(|answer| answer.text("access_token").map(ToOwned::to_owned))
    }

    #[test]
    fn json_and_forms_are_read() {
        for body in [r#"{"access_token":"t/+","token_type":"Bearer"}"#, "access_token=t%2F%2B&token_type=bearer\n"] {
            assert_eq!(judge(200, body), Ok(Some("t/+".into())), "{body}");
        }
    }

    #[test]
    fn errors_count_whatever_the_status() {
        for status in [200, 400, 401] {
            for (body, expected) in [
                (r#"{"error":"invalid_grant","error_description":"SECRET"}"#, Refusal::Grant),
                ("error=invalid_grant&error_description=SECRET", Refusal::Grant),
                (r#"{"error":"invalid_client"}"#, Refusal::Client),
                (r#"{"error":"invalid_client","access_token":"t"}"#, Refusal::Client),
            ] {
                assert_eq!(judge(status, body), Err(expected), "{status} {body}");
            }
            for body in [r#"{"error":"SECRET"}"#, r#"{"error":7}"#, r#"{"error":"unauthorized_client"}"#] {
                let Err(Refusal::Other(error @ OAuthError::Refused { .. })) = judge(status, body) else {
                    panic!("{status} {body}")
                };
                assert!(!error.to_string().contains("SECRET"));
            }
        }
    }

    #[test]
    fn a_failing_server_and_a_page_are_no_refusal() {
        for (status, body) in [
            (500, r#"{"error":"invalid_grant"}"#),
            (503, ""),
            (429, "{}"),
            (200, "<html><a href=x?access_token=1></a></html>"),
            (400, "<html>invalid_grant</html>"),
            (200, ""),
            (200, "[]"),
            (404, "{}"),
            (200, r#"{"error":"temporarily_unavailable"}"#),
        ] {
            let outcome = judge(status, body);
            assert!(
                matches!(outcome, Err(Refusal::Other(OAuthError::Unavailable { .. }))),
                "{status} {body} {outcome:?}"
            );
        }
        assert!(matches!(judge(200, "{}"), Err(Refusal::Other(OAuthError::Failed { .. }))));
    }

    #[test]
    fn basic_credentials_are_form_encoded() {
        assert_eq!(encoded("a:b c/ü").expose(), "a%3Ab+c%2F%C3%BC");
    }
}
