//! Which addresses OAuth may use at all.
//!
//! Every address passes here before a byte is sent to it or it is given to the host.

use url::{Origin, Url};

use super::OAuthError;
use crate::base::web_url::{self, UrlProblem};

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

/// Reads an address as [`web_url`] allows it; a refusal in words.
pub(super) fn plain_url(text: &str) -> Result<Url, &'static str> {
    web_url::read(text).map_err(|problem| match problem {
        UrlProblem::Characters | UrlProblem::Invalid => "it is not a valid URL",
        UrlProblem::Insecure => "it must use HTTPS (plain http only on localhost, 127.0.0.1 and [::1])",
        UrlProblem::Credentials => "it must not contain credentials",
        UrlProblem::Fragment => "it must not contain a fragment",
    })
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
