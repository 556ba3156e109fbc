//! Which addresses OAuth may use at all.
//!
//! Every address passes here before a byte is sent to it or it is given to the host.

use url::{Origin, Url};

use super::OAuthError;

/// The allowed origins: those of the configuration and the server's own.
#[derive(Clone)]
pub(super) struct Trust {
    origins: Vec<Origin>,
}

impl Trust {
    pub(super) fn new(allowed: &[Url], server: &Url) -> Self {
        Self { origins: allowed.iter().chain([server]).map(Url::origin).collect() }
    }

    /// Reads an address and says whether it may be used.
    pub(super) fn check(&self, what: &'static str, text: &str) -> Result<Url, OAuthError> {
        let refused = |why| OAuthError::Target { what, why };
        let url = plain_url(text).map_err(refused)?;
        if !self.origins.contains(&url.origin()) {
            return Err(refused("its origin is not allowed; add it to mcpOAuth.allowedOrigins if you trust it"));
        }
        Ok(url)
    }

    /// Whether an address would pass.
    pub(super) fn allows(&self, text: &str) -> bool {
        self.check("address", text).is_ok()
    }
}

/// Reads an address: HTTPS or loopback HTTP, without user info and fragment.
pub(super) fn plain_url(text: &str) -> Result<Url, &'static str> {
    // The parser drops some of these without a word.
    if text.chars().any(|c| c.is_control() || c == ' ' || c == '\\') {
        return Err("it is not a valid URL");
    }
    let url = Url::parse(text).map_err(|_| "it is not a valid URL")?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        _ => return Err("it must use HTTPS (plain http only on localhost, 127.0.0.1 and [::1])"),
    }
    if has_user_info(text) {
        return Err("it must not contain credentials");
    }
    if url.fragment().is_some() {
        return Err("it must not contain a fragment");
    }
    Ok(url)
}

/// Whether there is an `@` before the host, even an empty user that the parser drops.
pub(super) fn has_user_info(text: &str) -> bool {
    let after_scheme = text.split_once(':').map_or(text, |(_, rest)| rest);
    let authority = after_scheme.trim_start_matches('/');
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    authority[..end].contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_origins_over_https_or_loopback_pass() {
        let url = |text| Url::parse(text).unwrap();
        let trust = Trust::new(&[url("https://login.example.com")], &url("https://mcp.example.com/mcp"));
        for good in [
            "https://login.example.com/token",
            "https://LOGIN.example.com:443/a?b=c",
            "https://mcp.example.com/.well-known/x",
        ] {
            assert!(trust.allows(good), "{good}");
        }
        for bad in [
            "http://login.example.com/token",
            "https://login.example.com:8443/token",
            "https://login.example.com.evil.example/",
            "https://evil.example/",
            "https://user@login.example.com/",
            "https://@login.example.com/",
            "https://login.example.com/#x",
            "https://login.example.com/#",
            "https:\\\\login.example.com/",
            "https://login.exam\nple.com/",
            "http://localhost/",
            "http://169.254.169.254/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "smb://login.example.com/x",
            "login.example.com",
            "",
        ] {
            assert!(matches!(trust.check("x", bad), Err(OAuthError::Target { .. })), "{bad}");
        }
        assert!(Trust::new(&[], &url("http://127.0.0.1:1/mcp")).allows("http://127.0.0.1:1/token"));
        assert!(!Trust::new(&[], &url("http://127.0.0.1:1/mcp")).allows("http://127.0.0.1:2/token"));
    }
}
