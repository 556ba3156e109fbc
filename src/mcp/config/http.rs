//! The URL and the headers of an HTTP server.

use serde_json::{Map, Value};
use url::Url;

use super::{problem::escaped, validate::Found};
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
    // The parser drops some of these without a word.
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err((ErrorCode::ConfigInvalid, "must not contain spaces or control characters"));
    }
    let url = Url::parse(text).map_err(|_| {
        (ErrorCode::ConfigInvalid, "is not a valid URL: write it in full, as in https://example.com/mcp")
    })?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let refused = |message| Err((ErrorCode::McpInsecureUrl, message));
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        _ => return refused("must use HTTPS (plain http only on localhost, 127.0.0.1 and [::1])"),
    }
    if has_user_info(text) || !url.username().is_empty() || url.password().is_some() {
        return refused("must not contain credentials: put them into \"headers\"");
    }
    if url.fragment().is_some() {
        return refused("must not contain a fragment (#…)");
    }
    Ok(url)
}

/// Whether there is an `@` before the host, even an empty user that the parser drops.
fn has_user_info(text: &str) -> bool {
    let after_scheme = text.split_once(':').map_or(text, |(_, rest)| rest);
    let authority = after_scheme.trim_start_matches(['/', '\\']);
    let end = authority.find(['/', '\\', '?', '#']).unwrap_or(authority.len());
    authority[..end].contains('@')
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
