//! Tokens: as an answer brings them, as the host stores them, and as a request carries one.

use reqwest::header::HeaderValue;

use super::OAuthError;
use super::secret_map::SecretMap;
use crate::base::clock;
use crate::base::secret::Secret;

/// How a token came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The host had it.
    Stored,
    /// A refresh brought it.
    Refreshed,
    /// A sign-in or the client's own credentials brought it.
    Issued,
}

/// One access token.
#[derive(Debug)]
pub(crate) struct Token {
    access: Secret,
    /// Who issued it, when that is known.
    pub(super) issuer: Option<String>,
    /// What it reaches, when that is known.
    pub(super) scope: Option<String>,
    expires_at: Option<u64>,
    has_refresh: bool,
    /// How it came to be.
    pub(crate) origin: Origin,
}

impl Token {
    /// The token in what the host stores.
    pub(super) fn read(stored: &SecretMap, origin: Origin) -> Result<Self, OAuthError> {
        if !stored.text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"))
            || stored.is_odd("token_type")
        {
            return Err(OAuthError::Failed { what: "the token is not of type Bearer, and no other type is supported" });
        }
        let access = stored.secret("access_token").filter(|token| is_sendable(token.expose()));
        let access =
            access.ok_or(OAuthError::Failed { what: "an access token is missing or cannot be sent as a header" })?;
        Ok(Self {
            access,
            issuer: stored.text("issuer").map(ToOwned::to_owned),
            scope: stored.text("scope").map(ToOwned::to_owned),
            expires_at: stored.seconds("expires_at"),
            has_refresh: stored.text("refresh_token").is_some_and(|token| !token.is_empty()),
            origin,
        })
    }

    /// The header that carries it.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = Secret::new(format!("Bearer {}", self.access.expose()));
        let mut value = HeaderValue::try_from(text.expose()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= clock::unix_seconds())
    }

    /// Whether it can be replaced without a person.
    pub(super) const fn can_renew(&self) -> bool {
        self.has_refresh
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.access == other.access
    }
}

fn is_sendable(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A token answer as the host stores it: stamped, with an absolute time of expiry, and with what a sparing
/// server leaves out taken from `before`.
pub(super) fn to_store(
    mut answer: SecretMap,
    before: Option<&SecretMap>,
    issuer: &str,
    asked: Option<&str>,
) -> Result<SecretMap, OAuthError> {
    let lifetime = answer.seconds("expires_in");
    answer.remove("expires_in");
    answer.remove("expires_at");
    if let Some(lifetime) = lifetime {
        answer.set("expires_in", lifetime);
        answer.set("expires_at", clock::unix_seconds().saturating_add(lifetime));
    }
    if !answer.has("token_type") {
        answer.set("token_type", "Bearer");
    }
    if answer.text("refresh_token").is_none_or(str::is_empty) {
        answer.remove("refresh_token");
        if let Some(refresh) = before.and_then(|before| before.text("refresh_token")) {
            answer.set("refresh_token", refresh);
        }
    }
    if answer.text("scope").is_none()
        && let Some(scope) = before.and_then(|before| before.text("scope")).or(asked)
    {
        answer.set("scope", scope);
    }
    answer.set("issuer", issuer);
    Token::read(&answer, Origin::Issued).map(|_| answer)
}

/// The words of several scopes, each once, in their order.
pub(super) fn union(scopes: &[Option<&str>]) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for word in scopes.iter().flatten().flat_map(|scope| scope.split_ascii_whitespace()) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Whether every word of `wanted` is in one of several scopes.
pub(super) fn covers(scopes: &[Option<&str>], wanted: Option<&str>) -> bool {
    let mut words = wanted.unwrap_or_default().split_ascii_whitespace();
    words.all(|word| scopes.iter().flatten().any(|scope| scope.split_ascii_whitespace().any(|own| own == word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> SecretMap {
        SecretMap::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_a_bearer_token_that_can_be_sent_is_one() {
        for kind in [r#""bearer""#, r#""BEARER""#, "null"] {
            let token = Token::read(&map(&format!(r#"{{"access_token":"t","token_type":{kind}}}"#)), Origin::Stored);
            assert_eq!(token.unwrap().header().unwrap(), "Bearer t");
        }
        assert!(Token::read(&map(r#"{"access_token":"t"}"#), Origin::Stored).is_ok());
        for bad in [
            r#"{"access_token":"t","token_type":"DPoP"}"#,
            r#"{"access_token":"t","token_type":7}"#,
            r#"{"access_token":""}"#,
            r#"{"access_token":"a\nb"}"#,
            r#"{"access_token":"a b"}"#,
            r#"{"access_token":7}"#,
            "{}",
        ] {
            assert!(Token::read(&map(bad), Origin::Stored).is_err(), "{bad}");
        }
        assert_eq!(
            format!("{:?}", Token::read(&map(r#"{"access_token":"hush"}"#), Origin::Stored)).matches("hush").count(),
            0
        );
    }

    #[test]
    fn what_an_answer_leaves_out_stays_and_expiry_is_absolute() {
        let before = map(r#"{"access_token":"old","refresh_token":"r1","scope":"a b"}"#);
        let stored =
            to_store(map(r#"{"access_token":"new","expires_in":"3600","x":1}"#), Some(&before), "https://as", None);
        let stored = stored.unwrap();

        assert_eq!(stored.text("refresh_token"), Some("r1"));
        assert_eq!((stored.text("scope"), stored.text("issuer")), (Some("a b"), Some("https://as")));
        assert_eq!((stored.text("token_type"), stored.seconds("x")), (Some("Bearer"), Some(1)));
        assert_eq!(stored.value()["expires_in"], 3600);
        let left = stored.seconds("expires_at").unwrap() - clock::unix_seconds();
        assert!((3590..=3600).contains(&left), "{left}");
        assert!(!Token::read(&stored, Origin::Refreshed).unwrap().is_expired());
    }

    #[test]
    fn an_unusable_lifetime_is_none_and_zero_is_expired() {
        for lifetime in [r#""soon""#, "-1", "null", "[]"] {
            let answer = map(&format!(r#"{{"access_token":"t","refresh_token":"r2","expires_in":{lifetime}}}"#));
            let stored = to_store(answer, None, "i", Some("a")).unwrap();
            assert!(!stored.has("expires_at") && !stored.has("expires_in"), "{lifetime}");
            assert!(!Token::read(&stored, Origin::Issued).unwrap().is_expired());
            assert_eq!((stored.text("refresh_token"), stored.text("scope")), (Some("r2"), Some("a")));
        }
        let stored = to_store(map(r#"{"access_token":"t","expires_in":0}"#), None, "i", None).unwrap();
        assert!(Token::read(&stored, Origin::Issued).unwrap().is_expired());
    }

    #[test]
    fn scopes_are_joined_without_repeating() {
        assert_eq!(union(&[Some("a b"), None, Some(" b  c ")]).as_deref(), Some("a b c"));
        assert_eq!(union(&[None, Some("")]), None);
    }

    #[test]
    fn a_scope_is_covered_word_by_word() {
        let scopes = [Some("a b"), None, Some("c")];
        for (wanted, covered) in
            [(None, true), (Some(""), true), (Some("c a"), true), (Some("a d"), false), (Some("ab"), false)]
        {
            assert_eq!(covers(&scopes, wanted), covered, "{wanted:?}");
        }
    }
}
