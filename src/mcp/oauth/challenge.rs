//! The `WWW-Authenticate` header: which `Bearer` challenge a server makes.
//!
//! Reads several headers, several challenges in one, any order, quoted or not, with blanks around `=`, and what can be
//! read of a header that breaks the rules.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// What a server wants of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where the protected-resource metadata is.
    pub(super) resource_metadata: Option<String>,
    /// Which scope the operation needs.
    pub(super) scope: Option<String>,
    error: Option<String>,
}

impl Challenge {
    /// What the `Bearer` challenges of a response say together; empty when there are none.
    ///
    /// Where two say different things, the one about scope counts first, then the one that came first.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let mut found: Vec<Self> =
            values.flat_map(|value| bearer_challenges(&String::from_utf8_lossy(value.as_bytes()))).collect();
        found.sort_by_key(|challenge| !challenge.wants_more_scope());
        found.into_iter().fold(Self::default(), Self::or)
    }

    fn or(self, other: Self) -> Self {
        Self {
            resource_metadata: self.resource_metadata.or(other.resource_metadata),
            scope: self.scope.or(other.scope),
            error: self.error.or(other.error),
        }
    }

    /// Whether the token was good and did not reach far enough.
    pub(crate) fn wants_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn set(&mut self, name: &str, value: String) {
        let place = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        if !value.is_empty() {
            place.get_or_insert(value);
        }
    }
}

/// Every `Bearer` challenge of one header value.
fn bearer_challenges(header: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    let mut is_bearer = false;
    let mut rest = header;
    loop {
        let at_start = rest.len() == header.len();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', ',']).len();
        let is_separated = at_start || rest[..blank].contains(',');
        rest = &rest[blank..];
        let word = token(rest);
        if word.is_empty() {
            // Something that is neither a scheme nor a parameter: go on behind it.
            let Some(skipped) = rest.chars().next() else { return found };
            rest = &rest[skipped.len_utf8()..];
            continue;
        }
        rest = &rest[word.len()..];
        let after = rest.trim_start_matches([' ', '\t']);
        let Some(value) = after.strip_prefix('=') else {
            // A word in the middle of a challenge is the rest of a value that should have stood in quotes.
            let is_scheme = is_separated || word.eq_ignore_ascii_case("bearer");
            if is_scheme {
                is_bearer = word.eq_ignore_ascii_case("bearer");
            }
            if is_scheme && is_bearer {
                found.push(Challenge::default());
            }
            continue;
        };
        let (value, behind) = parameter(word, value.trim_start_matches([' ', '\t']));
        rest = behind;
        if is_bearer && let Some(challenge) = found.last_mut() {
            challenge.set(word, value);
        }
    }
}

fn token(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&*+-.^_`|~".contains(c))).unwrap_or(text.len());
    &text[..end]
}

/// A parameter's value and what stands behind it.
fn parameter<'a>(name: &str, text: &'a str) -> (String, &'a str) {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return (value, &quoted[at + 1..]),
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => value.push(c),
            }
        }
        return (value, "");
    }
    if let Some((value, rest)) = text.strip_prefix('\'').and_then(|text| text.split_once('\'')) {
        return (value.to_owned(), rest);
    }
    let (first, mut rest) = unquoted(text);
    let mut value = first.to_owned();
    // Scopes are several words, also where the quotes around them were forgotten.
    while name.eq_ignore_ascii_case("scope") {
        let (word, behind) = unquoted(rest.trim_start_matches([' ', '\t']));
        let is_other = word.is_empty() || word.contains('=') || word.eq_ignore_ascii_case("bearer");
        if is_other || behind.trim_start_matches([' ', '\t']).starts_with('=') {
            break;
        }
        value = format!("{value} {word}");
        rest = behind;
    }
    (value, rest)
}

/// The text up to the next blank or comma, and what stands behind it.
fn unquoted(text: &str) -> (&str, &str) {
    text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Challenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::read(&headers)
    }

    fn expected(url: Option<&str>, scope: Option<&str>, error: Option<&str>) -> Challenge {
        let text = |text: Option<&str>| text.map(ToOwned::to_owned);
        Challenge { resource_metadata: text(url), scope: text(scope), error: text(error) }
    }

    #[test]
    fn every_spelling_is_read() {
        let url = Some("https://h/x");
        for header in [
            r#"Bearer resource_metadata="https://h/x", scope="a b""#,
            r#"bearer   resource_metadata = https://h/x , scope = "a b""#,
            "BEARER scope='a b', resource_metadata='https://h/x'",
            r#"Bearer realm="r, scope=\"no\"", scope="a b", RESOURCE_METADATA="https://h/x""#,
            r#"Basic realm="x", Bearer scope="a b", resource_metadata="https://h/x""#,
            r#"Negotiate abc==, Bearer resource_metadata="https://h/x", scope="a b", Digest scope="c""#,
            r#"DPoP resource_metadata="https://other/", algs="ES256", Bearer scope="a b",resource_metadata="https://h/x""#,
        ] {
            assert_eq!(read(&[header]), expected(url, Some("a b"), None), "{header}");
        }
    }

    #[test]
    fn several_challenges_count_together_and_others_are_no_bearer() {
        let scope = r#"Bearer error="insufficient_scope", scope="w""#;
        let address = r#"Bearer resource_metadata="https://h/x", error="invalid_token", scope="r""#;
        let whole = expected(Some("https://h/x"), Some("w"), Some("insufficient_scope"));
        assert_eq!(read(&[scope, address]), whole);
        assert_eq!(read(&[address, scope]), whole);
        assert_eq!(read(&[&format!("{address}, Basic realm=x, {scope}")]), whole);
        assert_eq!(
            read(&["Bearer realm=x", r#"Bearer resource_metadata="https://h/x""#]),
            expected(Some("https://h/x"), None, None)
        );
        for header in ["", "Basic realm=x", "Bearer", "=,=;", "Bearer scope=\"", "\u{7f}"] {
            let Ok(value) = header.parse::<reqwest::header::HeaderValue>() else { continue };
            let headers: HeaderMap = [(WWW_AUTHENTICATE, value)].into_iter().collect();
            assert_eq!(Challenge::read(&headers), expected(None, None, None), "{header}");
        }
    }

    #[test]
    fn what_can_be_read_of_an_odd_header_counts() {
        let url = Some("https://h/x");
        for header in [
            "Bearer scope=a b, resource_metadata=https://h/x",
            "Bearer scope=a b resource_metadata=https://h/x",
            "Bearer scope = a b , resource_metadata = https://h/x",
            "Bearer realm=my own server, scope=a b, resource_metadata=https://h/x",
            "Basic realm=x Bearer scope=a b, resource_metadata=https://h/x",
            "Bearer scope=a b Bearer resource_metadata=https://h/x",
            "Bearer error_description=\"no \u{ff}\", scope=\"a b\", resource_metadata=\"https://h/x\"",
        ] {
            // Each character becomes one byte, so that the last header is no UTF-8.
            let bytes: Vec<u8> = header.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
            let value = reqwest::header::HeaderValue::from_bytes(&bytes).unwrap();
            let headers: HeaderMap = [(WWW_AUTHENTICATE, value)].into_iter().collect();
            assert_eq!(Challenge::read(&headers), expected(url, Some("a b"), None), "{header}");
        }
    }

    #[test]
    fn insufficient_scope_is_seen() {
        let challenge = read(&[r#"Bearer error="insufficient_scope", scope="files:write""#]);
        assert!(challenge.wants_more_scope());
        assert_eq!(challenge.scope.as_deref(), Some("files:write"));
        assert!(!read(&[r#"Bearer error="invalid_token""#]).wants_more_scope());
    }
}
