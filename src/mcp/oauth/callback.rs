//! The callback of a sign-in: judged whole before its code is sent anywhere.

use subtle::ConstantTimeEq;
use url::Url;
use zeroize::Zeroize;

use crate::base::limits::OAUTH_CALLBACK_BYTES;
use crate::base::secret::Secret;
use crate::base::web_url::has_user_info;

/// What a callback must match.
pub(super) struct Expected<'a> {
    /// The registered callback, as the provider writes it.
    pub(super) redirect: &'a str,
    /// The state of this very sign-in.
    pub(super) state: &'a Secret,
    /// The issuer that was asked.
    pub(super) issuer: &'a str,
    /// Whether that issuer says that it names itself in callbacks.
    pub(super) issuer_required: bool,
}

/// The code of a callback that fits in every respect; `None` for any other.
pub(super) fn accept(callback: &str, expected: &Expected<'_>) -> Option<Secret> {
    if callback.len() > OAUTH_CALLBACK_BYTES || callback.contains('#') || has_user_info(callback) {
        return None;
    }
    if callback.chars().any(|c| c.is_control() || c == ' ' || c == '\\') {
        return None;
    }
    let (parsed, registered) = (Wiped(Some(Url::parse(callback).ok()?)), Url::parse(expected.redirect).ok()?);
    let url = parsed.0.as_ref()?;
    let same_place = url.scheme() == registered.scheme()
        && url.host() == registered.host()
        && url.port_or_known_default() == registered.port_or_known_default()
        && url.path() == registered.path();
    if !same_place || !keeps_query(url, &registered) {
        return None;
    }
    let [state, code, error, issuer] = ["state", "code", "error", "iss"].map(|name| values(url, name));
    if [&state, &code, &error, &issuer].iter().any(|values| values.len() > 1) {
        return None;
    }
    let state = state.first()?;
    let own_state: bool = state.expose().as_bytes().ct_eq(expected.state.expose().as_bytes()).into();
    let own_issuer = match issuer.first() {
        Some(issuer) => issuer.expose() == expected.issuer,
        None => !expected.issuer_required,
    };
    let code = code.into_iter().next().filter(|code| !code.expose().is_empty());
    code.filter(|_| own_state && own_issuer && error.is_empty())
}

/// A parsed callback; the code in it does not stay in memory.
struct Wiped(Option<Url>);

impl Drop for Wiped {
    fn drop(&mut self) {
        if let Some(url) = self.0.take() {
            String::from(url).zeroize();
        }
    }
}

/// Whether every parameter of the registered callback is there, as often as it was.
fn keeps_query(url: &Url, registered: &Url) -> bool {
    let count = |url: &Url, pair: &(_, _)| url.query_pairs().filter(|other| other == pair).count();
    registered.query_pairs().all(|pair| count(url, &pair) == count(registered, &pair))
}

/// Every value of a parameter.
fn values(url: &Url, name: &str) -> Vec<Secret> {
    url.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| Secret::new(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http://127.0.0.1:8765/callback?tenant=7";

    fn judge(callback: &str, issuer_required: bool) -> Option<String> {
        let state = Secret::new("s+1");
        let expected = Expected { redirect: HERE, state: &state, issuer: "https://as/t", issuer_required };
        accept(callback, &expected).map(|code| code.expose().to_owned())
    }

    #[test]
    fn a_fitting_callback_gives_its_code() {
        for callback in [
            "http://127.0.0.1:8765/callback?tenant=7&state=s%2B1&code=c%201&iss=https://as/t",
            "HTTP://127.0.0.1:8765/callback?code=c+1&tenant=7&state=s%2B1&iss=https%3A%2F%2Fas%2Ft&session_state=x",
        ] {
            assert_eq!(judge(callback, true).as_deref(), Some("c 1"), "{callback}");
        }
        assert_eq!(judge(&format!("{HERE}&state=s%2B1&code=c"), false).as_deref(), Some("c"));
    }

    #[test]
    fn everything_else_is_refused() {
        let good = "&state=s%2B1&code=c&iss=https://as/t";
        let long = format!("{HERE}{good}&x={}", "y".repeat(OAUTH_CALLBACK_BYTES));
        for callback in [
            &format!("https://127.0.0.1:8765/callback?tenant=7{good}"),
            &format!("http://localhost:8765/callback?tenant=7{good}"),
            &format!("http://127.0.0.1:8766/callback?tenant=7{good}"),
            &format!("http://127.0.0.1/callback?tenant=7{good}"),
            &format!("http://127.0.0.1:8765/callback/?tenant=7{good}"),
            &format!("http://127.0.0.1:8765/Callback?tenant=7{good}"),
            &format!("http://127.0.0.1:8765/callback?tenant=8{good}"),
            &format!("http://127.0.0.1:8765/callback?{good}"),
            &format!("{HERE}&tenant=7{good}"),
            &format!("http://u@127.0.0.1:8765/callback?tenant=7{good}"),
            &format!("http://@127.0.0.1:8765/callback?tenant=7{good}"),
            &format!("{HERE}{good}#"),
            &format!("{HERE}{good}#x"),
            &format!("{HERE}{good}&error=access_denied"),
            &format!("{HERE}{good}&error="),
            &format!("{HERE}{good}&code=c"),
            &format!("{HERE}{good}&code="),
            &format!("{HERE}{good}&state=s%2B1"),
            &format!("{HERE}{good}&iss=https://as/t"),
            &format!("{HERE}&state=s%2B1&iss=https://as/t"),
            &format!("{HERE}&state=s%2B1&iss=https://as/t&code="),
            &format!("{HERE}&state=s+1&code=c&iss=https://as/t"),
            &format!("{HERE}&state=&code=c&iss=https://as/t"),
            &format!("{HERE}&state=s%2B11&code=c&iss=https://as/t"),
            &format!("{HERE}&code=c&iss=https://as/t"),
            &format!("{HERE}&state=s%2B1&code=c&iss=https://as/t/"),
            &format!("{HERE}&state=s%2B1&code=c&iss=https://AS/t"),
            &format!("{HERE}&state=s%2B1&code=c&iss="),
            &format!("{HERE}&state=s%2B1&code=c"),
            &format!("{HERE}&state=s%2B1&error=access_denied&iss=https://as/t"),
            &format!(" {HERE}{good}"),
            &format!("{HERE}\n{good}"),
            "c",
            "?code=c&state=s%2B1",
            "",
            &long,
        ] {
            assert_eq!(judge(callback, true), None, "{callback}");
        }
        assert_eq!(judge(&format!("{HERE}&state=s%2B1&code=c&iss=https://other"), false), None);
    }
}
