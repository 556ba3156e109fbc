//! One sign-in of a person: the address that is opened, the callback, the exchange.
//!
//! State and verifier are made here, used once, and gone with the attempt.

use oauth2::{CsrfToken, PkceCodeChallenge};
use subtle::ConstantTimeEq;
use url::Url;

use super::OAuthError;
use super::callback::{self, Expected};
use super::grant::{self, Params, Party, Refusal};
use super::secret_map::SecretMap;
use super::trust::plain_url;
use crate::base::secret::Secret;

/// 256 bit.
const STATE_BYTES: u32 = 32;

/// The parameters that are ours alone in an authorization address.
const OWN: &[&str] = &[
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "scope",
    "resource",
    "prompt",
    "request",
    "request_uri",
    "response_mode",
];

/// Lets a person sign in and gives the token answer.
pub(super) async fn sign_in(party: &Party<'_>, redirect: &str, scope: Option<&str>) -> Result<SecretMap, Refusal> {
    let Party { fetch, provider, profile, site, .. } = party;
    plain_url(redirect).map_err(|why| OAuthError::Target { what: "redirectUrl", why })?;
    if !profile.has("saveDiscoveryState") || !profile.has("discoveryState") {
        let what = "has no saveDiscoveryState() and discoveryState(), which signing in needs";
        return Err(OAuthError::Provider { method: "object", what, cause_id: None }.into());
    }
    let endpoint = site.authorization_endpoint(fetch)?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (verifier, state) = (Secret::new(verifier.into_secret()), state());
    // Who was asked is written down beside the verifier, before anybody is sent there.
    provider.save_discovery(site).await?;
    provider.save_verifier(&verifier).await?;
    let page = page(endpoint, party, redirect, scope, &state, challenge.as_str());
    let answer = provider.authorize(page).await?;
    let expected = Expected {
        redirect,
        state: &state,
        issuer: &site.issuer,
        issuer_required: site.server.is_true("authorization_response_iss_parameter_supported"),
    };
    let Some(code) = callback::accept(answer.expose(), &expected) else {
        tracing::debug!("the callback is not valid");
        return Err(OAuthError::Callback { cause_id: None }.into());
    };
    drop(state);
    check_pending(party, &verifier).await?;
    let params: Params = vec![
        ("grant_type".into(), Secret::new("authorization_code")),
        ("code".into(), code),
        ("code_verifier".into(), verifier),
        ("redirect_uri".into(), Secret::new(redirect)),
    ];
    grant::request(party, params).await
}

fn state() -> Secret {
    Secret::new(CsrfToken::new_random_len(STATE_BYTES).into_secret())
}

/// The host's store must still hold this very sign-in.
async fn check_pending(party: &Party<'_>, verifier: &Secret) -> Result<(), OAuthError> {
    let other = |method| OAuthError::Provider {
        method,
        what: "returned something else than was saved for this sign-in",
        cause_id: None,
    };
    let kept = party.provider.verifier().await?;
    if !bool::from(kept.expose().as_bytes().ct_eq(verifier.expose().as_bytes())) {
        return Err(other("codeVerifier"));
    }
    let kept = party.provider.discovery().await?;
    if kept.is_none_or(|kept| kept.text("authorizationServerUrl") != Some(party.site.issuer.as_str())) {
        return Err(other("discoveryState"));
    }
    Ok(())
}

/// The address that a person opens.
fn page(
    mut endpoint: Url,
    party: &Party<'_>,
    redirect: &str,
    scope: Option<&str>,
    state: &Secret,
    challenge: &str,
) -> Secret {
    let kept: Vec<(String, String)> =
        endpoint.query_pairs().filter(|(name, _)| !OWN.contains(&&**name)).map(|(n, v)| (n.into(), v.into())).collect();
    endpoint.set_query(None);
    {
        let mut query = endpoint.query_pairs_mut();
        query.extend_pairs(kept);
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", party.client.id())
            .append_pair("code_challenge", challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("redirect_uri", redirect)
            .append_pair("state", state.expose());
        if let Some(scope) = scope {
            query.append_pair("scope", scope);
            if scope.split_ascii_whitespace().any(|word| word == "offline_access") {
                query.append_pair("prompt", "consent");
            }
        }
        if let Some(resource) = party.resource {
            query.append_pair("resource", resource);
        }
    }
    Secret::new(endpoint)
}

#[cfg(test)]
mod tests {
    use super::state;

    #[test]
    fn a_state_is_long_and_new_each_time() {
        let (one, other) = (state(), state());
        assert_ne!(one, other);
        // 32 bytes in base64 without padding.
        assert_eq!(one.expose().len(), 43);
    }
}
