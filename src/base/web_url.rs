//! The one rule for addresses that anything is sent to: HTTPS or plain HTTP on this machine, nothing hidden in it.
//!
//! Leaves to others which origins are allowed, and the words for a refusal.

use url::Url;

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlProblem {
    /// It holds a space, a control character or a backslash, which the parser drops or turns without a word.
    Characters,
    /// It is no whole URL.
    Invalid,
    /// It is neither `https` nor `http` on `localhost`, `127.0.0.1` or `[::1]`.
    Insecure,
    /// It holds user info, if only an empty one.
    Credentials,
    /// It holds a fragment, if only an empty one.
    Fragment,
}

/// Reads an address that may be used.
///
/// # Errors
/// Says which part of the rule it breaks.
pub fn read(text: &str) -> Result<Url, UrlProblem> {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(UrlProblem::Characters);
    }
    let url = Url::parse(text).map_err(|_| UrlProblem::Invalid)?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => {}
        "http" if is_here => {}
        _ => return Err(UrlProblem::Insecure),
    }
    if has_user_info(text) {
        return Err(UrlProblem::Credentials);
    }
    if url.fragment().is_some() {
        return Err(UrlProblem::Fragment);
    }
    if text.contains('\\') {
        return Err(UrlProblem::Characters);
    }
    Ok(url)
}

/// Whether there is an `@` before the host, even an empty user that the parser drops.
#[must_use]
pub fn has_user_info(text: &str) -> bool {
    let after_scheme = text.split_once(':').map_or(text, |(_, rest)| rest);
    let authority = after_scheme.trim_start_matches(['/', '\\']);
    let end = authority.find(['/', '\\', '?', '#']).unwrap_or(authority.len());
    authority[..end].contains('@')
}

#[cfg(test)]
mod tests {
    use super::{UrlProblem, has_user_info, read};

    #[test]
    fn https_and_plain_http_on_this_machine_are_read() {
        for text in [
            "https://mcp.example.com/mcp?a=b@c",
            "HTTPS://MCP.example.com:443/a@b",
            "http://localhost:1/",
            "http://127.0.0.1:1/mcp",
            "http://[::1]:1/mcp",
            "https://10.0.0.1/",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn each_breach_is_told_apart() {
        use UrlProblem::{Characters, Credentials, Fragment, Insecure, Invalid};
        for (text, problem) in [
            ("https://exam\nple.com/", Characters),
            (" https://example.com/", Characters),
            ("https:\\\\example.com/", Characters),
            ("https://example.com\\@evil.example/", Characters),
            ("example.com", Invalid),
            ("", Invalid),
            ("https://", Invalid),
            ("http://example.com/", Insecure),
            ("http://127.0.0.2/", Insecure),
            ("http://localhost.example/", Insecure),
            ("http://169.254.169.254/", Insecure),
            ("file:///etc/passwd", Insecure),
            ("javascript:alert(1)", Insecure),
            ("data:text/html,x", Insecure),
            ("https://user:word@example.com/", Credentials),
            ("https://@example.com/", Credentials),
            ("https://:@example.com/", Credentials),
            ("https:example.com@evil.example", Credentials),
            ("https:\\\\@example.com/", Credentials),
            ("https://example.com/#x", Fragment),
            ("https://example.com/#", Fragment),
        ] {
            assert_eq!(read(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn user_info_is_seen_where_the_parser_sees_it() {
        for (text, seen) in [
            ("https://a@b/", true),
            ("https:\\\\a@b", true),
            ("https:a@b", true),
            ("https://b/a@c", false),
            ("https://b?a@c", false),
            ("https://b#a@c", false),
        ] {
            assert_eq!(has_user_info(text), seen, "{text}");
        }
    }
}
