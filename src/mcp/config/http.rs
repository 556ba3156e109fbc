//! The URL and the headers of an HTTP server.

use serde_json::{Map, Value};
use url::Url;

use super::{problem::escaped, validate::Found};
use crate::base::web_url::{self, UrlProblem};
use crate::base::{code::ErrorCode, secret::Secret};

/// Headers that the protocol and the connection set themselves.
const RESERVED: &[&str] = &[
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-type",
    "accept",
    "last-event-id",
];
const RESERVED_PREFIX: &str = "mcp-";

pub(super) fn url(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<Url> {
    let Some(value) = fields.get("url") else {
        found.invalid("", "has no url: a server of type \"http\" needs \"url\"");
        return None;
    };
    let text = found.text("/url", value)?;
    match read_url(text) {
        Ok(url) => Some(url),
        Err((code, message)) => {
            found.add(code, "/url", message);
            None
        }
    }
}

fn read_url(text: &str) -> Result<Url, (ErrorCode, &'static str)> {
    web_url::read(text).map_err(|problem| match problem {
        UrlProblem::Characters => {
            (ErrorCode::ConfigInvalid, "must not contain spaces, control characters or backslashes")
        }
        UrlProblem::Invalid => {
            (ErrorCode::ConfigInvalid, "is not a valid URL: write it in full, as in https://example.com/mcp")
        }
        UrlProblem::Insecure => {
            (ErrorCode::McpInsecureUrl, "must use HTTPS (plain http only on localhost, 127.0.0.1 and [::1])")
        }
        UrlProblem::Credentials => {
            (ErrorCode::McpInsecureUrl, "must not contain credentials: put them into \"headers\"")
        }
        UrlProblem::Fragment => (ErrorCode::McpInsecureUrl, "must not contain a fragment (#…)"),
    })
}

pub(super) fn headers(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<Vec<(String, Secret)>> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    let mut complete = true;
    for (key, value) in found.entries(fields, "headers")? {
        let path = format!("/headers/{}", escaped(key));
        let name = key.to_ascii_lowercase();
        let named = if let Some((code, message)) = name_problem(&name) {
            found.add(code, path.as_str(), message);
            false
        } else if headers.iter().any(|(other, _)| *other == name) {
            found.invalid(path.as_str(), "is there twice: header names do not differ by case");
            false
        } else {
            true
        };
        let text = found.text(&path, value);
        let sendable = text.filter(|text| text.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')));
        if text.is_some() && sendable.is_none() {
            found.invalid(path.as_str(), "may hold visible ASCII characters, spaces and tabs only");
        }
        match sendable {
            Some(text) if named => headers.push((name, Secret::new(text))),
            _ => complete = false,
        }
    }
    headers.sort_by(|(a, _), (b, _)| a.cmp(b));
    complete.then_some(headers)
}

fn name_problem(name: &str) -> Option<(ErrorCode, &'static str)> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Some((ErrorCode::ConfigInvalid, "is not a valid header name"));
    }
    let reserved = RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX);
    reserved.then_some((ErrorCode::McpReserved, "is a reserved header"))
}
