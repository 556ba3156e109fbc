//! Reads one declaration field by field and notes every problem.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use super::{
    AllowedTransports, DEFAULT_TIMEOUT, MAX_ARGS, MAX_TIMEOUT_MS, ServerDeclaration, ServerName, Source,
    TransportConfig,
    http::{headers, url},
    problem::{ConfigError, Problem, escaped, short},
};
use crate::base::{code::ErrorCode, secret::Secret, suggest::closest};

const STDIO_KEYS: &[&str] = &["type", "command", "args", "env", "timeoutMs"];
const HTTP_KEYS: &[&str] = &["type", "url", "headers", "timeoutMs"];
const ALL_KEYS: &[&str] = &["type", "command", "args", "env", "url", "headers", "timeoutMs"];

/// Reads the servers of one source: an object of declarations by name.
///
/// # Errors
/// Tells everything that is wrong at once.
pub fn parse_servers(
    value: &Value,
    source: Source,
    transports: &AllowedTransports,
) -> Result<Vec<ServerDeclaration>, ConfigError> {
    let Some(servers) = value.as_object() else {
        let message = "mcpServers must be an object of declarations by server name";
        return Err(Problem::new(ErrorCode::ConfigInvalid, "", "", message).into());
    };
    let mut problems = Vec::new();
    let mut declarations = Vec::new();
    for (name, value) in servers {
        match parse_server(name, value, source).and_then(|server| transports.check(server)) {
            Ok(declaration) => declarations.push(declaration),
            Err(error) => problems.extend_from_slice(error.problems()),
        }
    }
    ConfigError::all(problems).map_or(Ok(declarations), Err)
}

/// Reads one declaration.
///
/// # Errors
/// Tells everything that is wrong at once.
pub fn parse_server(name: &str, value: &Value, source: Source) -> Result<ServerDeclaration, ConfigError> {
    let mut found = Found { server: name, problems: Vec::new() };
    let parsed_name = match ServerName::parse(name) {
        Ok(name) => Some(name),
        Err(error) => {
            found.problems.extend_from_slice(error.problems());
            None
        }
    };
    let fields = value.as_object();
    if fields.is_none() {
        found.invalid("", "the declaration must be an object");
    }
    let timeout = fields.and_then(|fields| timeout(fields, &mut found));
    let transport = fields.and_then(|fields| transport(fields, &mut found));
    match (ConfigError::all(found.problems), parsed_name, timeout, transport) {
        (None, Some(name), Some(timeout), Some(transport)) => {
            Ok(ServerDeclaration { name, source, timeout, transport })
        }
        (Some(error), ..) => Err(error),
        // Every part that is absent left a problem; this keeps a slip from being accepted.
        (None, ..) => {
            let message = "the declaration is not complete";
            Err(Problem::new(ErrorCode::ConfigInvalid, name, "", message).into())
        }
    }
}

/// The problems of one declaration so far.
pub(super) struct Found<'n> {
    server: &'n str,
    problems: Vec<Problem>,
}

impl Found<'_> {
    pub(super) fn add(&mut self, code: ErrorCode, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(code, self.server, path, message));
    }

    pub(super) fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(ErrorCode::ConfigInvalid, path, message);
    }

    /// The text of a field; refuses other types and NUL.
    pub(super) fn text<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v str> {
        let Some(text) = value.as_str() else {
            let quote = if value.is_number() || value.is_boolean() { ", put it in quotes" } else { "" };
            self.invalid(path, format!("must be a string, not {}{quote}", kind(value)));
            return None;
        };
        if text.contains('\0') {
            self.invalid(path, "must not contain a NUL character");
            return None;
        }
        Some(text)
    }

    /// The entries of an object field, none when it is absent; refuses other types.
    pub(super) fn entries<'v>(
        &mut self,
        fields: &'v Map<String, Value>,
        key: &str,
    ) -> Option<Vec<(&'v String, &'v Value)>> {
        match fields.get(key) {
            None => Some(Vec::new()),
            Some(Value::Object(map)) => Some(map.iter().collect()),
            Some(other) => {
                let message = format!("must be an object of strings, not {}", kind(other));
                self.invalid(format!("/{key}"), message);
                None
            }
        }
    }
}

fn transport(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<TransportConfig> {
    match fields.get("type") {
        None if fields.contains_key("url") && !fields.contains_key("command") => {
            found.add(ErrorCode::McpTransport, "", "has a url but no type: add \"type\": \"http\"");
            None
        }
        None => stdio(fields, found),
        Some(Value::String(name)) => match name.as_str() {
            "stdio" => stdio(fields, found),
            "http" => http(fields, found),
            other => {
                found.add(ErrorCode::McpTransport, "/type", transport_hint(other));
                None
            }
        },
        Some(other) => {
            found.invalid("/type", format!("must be \"stdio\" or \"http\", not {}", kind(other)));
            None
        }
    }
}

fn transport_hint(name: &str) -> &'static str {
    let folded: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    match folded.as_str() {
        "sse" => "transport \"sse\" is not supported, use \"http\"",
        "streamable" | "streamablehttp" | "httpstream" | "https" | "http" => "this transport is written \"http\"",
        "ws" | "websocket" => "transport WebSocket is not supported, use \"http\" or \"stdio\"",
        _ => "unknown transport: use \"stdio\" or \"http\"",
    }
}

fn stdio(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<TransportConfig> {
    check_keys(fields, STDIO_KEYS, "stdio", found);
    let command = command(fields, found);
    let args = args(fields, found);
    let env = env(fields, found);
    Some(TransportConfig::Stdio { command: command?, args: args?, env: env? })
}

fn http(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<TransportConfig> {
    check_keys(fields, HTTP_KEYS, "http", found);
    let url = url(fields, found);
    let headers = headers(fields, found);
    Some(TransportConfig::Http { url: url?, headers: headers? })
}

fn check_keys(fields: &Map<String, Value>, known: &[&str], transport: &str, found: &mut Found<'_>) {
    for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
        let message = if ALL_KEYS.contains(&key.as_str()) {
            format!("\"{key}\" does not belong to a server of type \"{transport}\"")
        } else {
            let hint = closest(key, known).map(|word| format!(", did you mean \"{word}\"?"));
            format!("unknown key {:?}{}", short(key), hint.unwrap_or_default())
        };
        found.invalid(format!("/{}", escaped(key)), message);
    }
}

fn timeout(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<Duration> {
    let Some(value) = fields.get("timeoutMs") else {
        return Some(DEFAULT_TIMEOUT);
    };
    // `30000.0` is the integer 30000 in JSON.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only integers between 0 and the limit are cast"
    )]
    #[expect(clippy::cast_precision_loss, reason = "the limit is small")]
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        let fits = number.fract() == 0.0 && (0.0..=MAX_TIMEOUT_MS as f64).contains(&number);
        fits.then_some(number as u64)
    });
    match whole {
        Some(ms) if (1..=MAX_TIMEOUT_MS).contains(&ms) => Some(Duration::from_millis(ms)),
        _ => {
            let message = format!("must be an integer from 1 to {MAX_TIMEOUT_MS} (milliseconds)");
            found.invalid("/timeoutMs", message);
            None
        }
    }
}

fn command(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<String> {
    match fields.get("command") {
        None => {
            let hint =
                "has no command: a stdio server needs \"command\", an HTTP server \"type\": \"http\" and \"url\"";
            found.invalid("", hint);
            None
        }
        Some(Value::Array(_)) => {
            found.invalid("/command", "must be a string: put the program here and the rest into \"args\"");
            None
        }
        Some(value) => {
            let text = found.text("/command", value)?;
            if text.trim().is_empty() {
                found.invalid("/command", "must not be empty");
                return None;
            }
            Some(text.to_owned())
        }
    }
}

fn args(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<Vec<String>> {
    let items = match fields.get("args") {
        None => return Some(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => {
            found.invalid("/args", format!("must be an array of strings, not {}", kind(other)));
            return None;
        }
    };
    if items.len() > MAX_ARGS {
        let message = format!("has {} args, at most {MAX_ARGS} are allowed", items.len());
        found.add(ErrorCode::McpLimit, "/args", message);
        return None;
    }
    // Every item is read, so that every bad one is told.
    let texts: Vec<_> =
        items.iter().enumerate().map(|(i, item)| found.text(&format!("/args/{i}"), item).map(str::to_owned)).collect();
    texts.into_iter().collect()
}

fn env(fields: &Map<String, Value>, found: &mut Found<'_>) -> Option<BTreeMap<String, Secret>> {
    let mut env = BTreeMap::new();
    let mut complete = true;
    for (key, value) in found.entries(fields, "env")? {
        let path = format!("/env/{}", escaped(key));
        let named = is_env_name(key);
        if !named {
            found.invalid(path.as_str(), "is not a name for an environment variable: use [A-Za-z_][A-Za-z0-9_]*");
        }
        match found.text(&path, value) {
            Some(text) if named => {
                env.insert(key.clone(), Secret::new(text));
            }
            _ => complete = false,
        }
    }
    complete.then_some(env)
}

fn is_env_name(key: &str) -> bool {
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain && key.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// The type of a value, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
