//! What declarations are taken, and what is said about the others.

use serde_json::{Value, json};

use super::*;

fn parsed(value: &Value) -> ServerDeclaration {
    parse_server("docs", value, Source::Constructor).unwrap()
}

fn refused(value: Value) -> (ErrorCode, String) {
    let error = parse_server("docs", &value, Source::Constructor).unwrap_err();
    assert!(error.to_string().contains("server \"docs\""), "{error}");
    assert!(!error.to_string().contains("s3cr3t"), "{error}");
    (error.code(), error.to_string())
}

#[track_caller]
fn assert_refused(value: Value, code: ErrorCode, words: &[&str]) {
    let (found, message) = refused(value);
    assert_eq!(found, code, "{message}");
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

fn http(url: &str) -> Value {
    json!({ "type": "http", "url": url })
}

fn header(name: &str, value: Value) -> Value {
    json!({ "type": "http", "url": "https://example.com", "headers": { name: value } })
}

#[test]
fn a_stdio_server_is_read_and_is_the_default() {
    let declaration = parsed(&json!({ "command": "node", "args": ["s.mjs"], "env": { "A": "b" }, "timeoutMs": 5 }));

    assert_eq!(declaration.name.to_string(), "docs");
    assert_eq!(declaration.timeout, Duration::from_millis(5));
    let env = BTreeMap::from([("A".to_owned(), Secret::new("b"))]);
    assert_eq!(
        declaration.transport,
        TransportConfig::Stdio { command: "node".into(), args: vec!["s.mjs".into()], env }
    );
    assert_eq!(parsed(&json!({ "type": "stdio", "command": "x" })).timeout, DEFAULT_TIMEOUT);
    assert_eq!(serde_json::to_value(declaration.source).unwrap(), json!("constructor"));
}

#[test]
fn an_http_server_is_read_and_normalised() {
    let a = parsed(
        &json!({ "type": "http", "url": "https://EXAMPLE.com:443/mcp", "headers": { "X-B": "1", "Authorization": "Bearer s3cr3t" } }),
    );
    let b = parsed(
        &json!({ "type": "http", "timeoutMs": 30000.0, "url": "https://example.com/mcp", "headers": { "authorization": "Bearer s3cr3t", "x-b": "1" } }),
    );

    assert!(a.same_content(&b));
    assert!(!format!("{a:?}").contains("s3cr3t"));
    assert!(!a.same_content(&parsed(&http("https://example.com/mcp"))));
}

#[test]
fn names_follow_their_rule() {
    for good in ["a", "A-1_b", "abcdefghijklmnopqrstuvwx"] {
        assert_eq!(ServerName::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", "a__b", "a b", "ä", "abcdefghijklmnopqrstuvwxy", "a.b", "a\n"] {
        let error = parse_server(bad, &json!({ "command": "x" }), Source::Instance).unwrap_err();
        assert_eq!(error.code(), ErrorCode::McpName);
        assert!(error.to_string().contains("name"));
    }
}

#[test]
fn unknown_keys_are_refused_with_a_hint() {
    assert_refused(
        json!({ "command": "x", "timeout": 5 }),
        ErrorCode::ConfigInvalid,
        &["/timeout", "did you mean \"timeoutMs\""],
    );
    assert_refused(json!({ "command": "x", "cwd": "s3cr3t" }), ErrorCode::ConfigInvalid, &["unknown key \"cwd\""]);
    assert_refused(json!({ "command": "x", "url": "s3cr3t" }), ErrorCode::ConfigInvalid, &["\"url\" does not belong"]);
    assert_refused(
        json!({ "type": "http", "url": "https://x.dev", "command": "s3cr3t" }),
        ErrorCode::ConfigInvalid,
        &["/command"],
    );
}

#[test]
fn the_transport_must_be_known() {
    assert_refused(json!({ "url": "https://x.dev" }), ErrorCode::McpTransport, &["add \"type\": \"http\""]);
    assert_refused(
        json!({ "type": "sse", "url": "https://x.dev" }),
        ErrorCode::McpTransport,
        &["transport", "not supported", "/type"],
    );
    assert_refused(
        json!({ "type": "streamable-http", "url": "https://x.dev" }),
        ErrorCode::McpTransport,
        &["transport", "\"http\""],
    );
    assert_refused(json!({ "type": "s3cr3t" }), ErrorCode::McpTransport, &["transport"]);
    assert_refused(json!({ "type": 5 }), ErrorCode::ConfigInvalid, &["a number"]);
}

#[test]
fn fields_have_their_types() {
    let invalid = |value, words: &[&str]| assert_refused(value, ErrorCode::ConfigInvalid, words);
    invalid(json!("s3cr3t"), &["must be an object"]);
    invalid(json!({}), &["needs \"command\""]);
    invalid(json!({ "command": ["s3cr3t"] }), &["/command", "\"args\""]);
    invalid(json!({ "command": " " }), &["/command", "empty"]);
    invalid(json!({ "command": null }), &["/command", "not null"]);
    invalid(json!({ "command": "s3cr3t\u{0}" }), &["/command", "NUL"]);
    invalid(json!({ "command": "x", "args": "s3cr3t" }), &["/args", "array of strings"]);
    invalid(json!({ "command": "x", "args": ["a", 5] }), &["/args/1", "quotes"]);
    invalid(json!({ "command": "x", "args": ["s3cr3t\u{0}"] }), &["/args/0", "NUL"]);
    invalid(json!({ "command": "x", "env": ["s3cr3t"] }), &["/env", "object of strings"]);
    invalid(json!({ "command": "x", "env": { "A": 5 } }), &["/env/A", "quotes"]);
    invalid(json!({ "command": "x", "env": { "A": "s3cr3t\u{0}" } }), &["/env/A", "NUL"]);
    for name in ["", "1A", "A-B", "A=B", "Ä"] {
        invalid(json!({ "command": "x", "env": { name: "s3cr3t" } }), &["/env/", "environment"]);
    }
    for ms in [json!(0), json!(300_001), json!(1.5), json!(-1), json!("5"), json!(null), json!(1e300)] {
        invalid(json!({ "command": "x", "timeoutMs": ms }), &["/timeoutMs", "300000"]);
    }
}

#[test]
fn limits_are_told_with_their_value() {
    let args: Vec<_> = (0..257).map(|_| "x").collect();
    assert_refused(json!({ "command": "x", "args": args }), ErrorCode::McpLimit, &["257", "256"]);
    assert!(parse_server("docs", &json!({ "command": "x", "args": args[..256] }), Source::Global).is_ok());
    let many = |n: usize| Value::Object((0..n).map(|i| (format!("s{i}"), json!({ "command": "x" }))).collect());
    let (fits, too_many) = (many(32), many(33));
    let transports = AllowedTransports::default();
    let resolved =
        |servers| Sources { files: Files::Ignored, constructor: Some(servers), transports: &transports }.resolve();
    assert_eq!(resolved(&fits).unwrap().len(), 32);
    let error = resolved(&too_many).unwrap_err();
    assert_eq!(error.code(), ErrorCode::McpLimit);
    assert!(error.to_string().contains("32"));
}

#[test]
fn urls_are_https_or_loopback() {
    for good in ["https://example.com/mcp?x=1", "http://localhost:1/x", "http://127.0.0.1", "http://[::1]:80/@"] {
        parsed(&http(good));
    }
    for bad in [
        "http://example.com/s3cr3t",
        "ftp://localhost",
        "ws://localhost",
        "http://localhost.example.com",
        "http://127.0.0.2",
        "file:///s3cr3t",
    ] {
        assert_refused(http(bad), ErrorCode::McpInsecureUrl, &["/url", "HTTPS"]);
    }
    for bad in [
        "https://s3cr3t@example.com",
        "https://u:s3cr3t@example.com",
        "https://@example.com",
        "https:\\\\@example.com",
        "http://u@localhost",
    ] {
        assert_refused(http(bad), ErrorCode::McpInsecureUrl, &["/url", "credentials"]);
    }
    assert_refused(http("https://example.com/#s3cr3t"), ErrorCode::McpInsecureUrl, &["fragment"]);
    assert_refused(http("https://example.com/#"), ErrorCode::McpInsecureUrl, &["fragment"]);
    for bad in ["example.com/s3cr3t", "", "https://exa\nmple.com", " https://example.com", "https:\\\\example.com"] {
        assert_refused(http(bad), ErrorCode::ConfigInvalid, &["/url"]);
    }
    assert_refused(json!({ "type": "http" }), ErrorCode::ConfigInvalid, &["\"url\""]);
}

#[test]
fn headers_are_valid_and_not_reserved() {
    parsed(&header("X-Key", json!("a b\tc~")));
    for name in [
        "Host",
        "connection",
        "keep-alive",
        "TE",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-type",
        "accept",
        "last-event-id",
        "Mcp-Session-Id",
        "mcp-",
    ] {
        assert_refused(header(name, json!("s3cr3t")), ErrorCode::McpReserved, &["reserved", "/headers/"]);
    }
    for name in ["", "a b", "a:b", "ä", "a\r\nb"] {
        assert_refused(header(name, json!("s3cr3t")), ErrorCode::ConfigInvalid, &["header name"]);
    }
    for value in [
        json!("s3cr3t\r\nx: y"),
        json!("s3cr3tä"),
        json!("s3cr3t\u{7f}"),
        json!("s3cr3t\u{0}"),
        json!(5),
        json!(["s3cr3t"]),
    ] {
        assert_refused(header("X-Key", value), ErrorCode::ConfigInvalid, &["/headers/X-Key"]);
    }
    let twice = json!({ "type": "http", "url": "https://example.com", "headers": { "X-A": "1", "x-a": "2" } });
    assert_refused(twice, ErrorCode::ConfigInvalid, &["twice"]);
}

#[test]
fn every_bad_entry_is_told_at_once() {
    let value = json!({ "good": { "command": "x" }, "one": { "url": "https://s3cr3t" }, "b__d": { "command": 5, "args": [1, 2] } });

    let error = parse_servers(&value, Source::Constructor, &AllowedTransports::default()).unwrap_err();

    let places: Vec<_> = error.problems().iter().map(|p| (p.code, p.server.as_str(), p.path.as_str())).collect();
    assert_eq!(
        places,
        [
            (ErrorCode::McpTransport, "one", ""),
            (ErrorCode::McpName, "b__d", ""),
            (ErrorCode::ConfigInvalid, "b__d", "/command"),
            (ErrorCode::ConfigInvalid, "b__d", "/args/0"),
            (ErrorCode::ConfigInvalid, "b__d", "/args/1"),
        ]
    );
    assert_eq!(error.code(), ErrorCode::McpTransport);
    assert!(error.to_string().contains("server \"one\"") && error.to_string().contains("server \"b__d\" at /args/1"));
    assert_eq!(
        parse_servers(&json!([]), Source::Global, &AllowedTransports::default()).unwrap_err().code(),
        ErrorCode::ConfigInvalid
    );
}

#[test]
fn values_that_look_like_variables_are_listed() {
    let stdio = parsed(&json!({ "command": "${X}", "args": ["a", "--k=${K}", "$X", "${"], "env": { "T": "${T}" } }));
    assert_eq!(stdio.looks_interpolated(), ["/command", "/args/1", "/env/T"]);
    let http =
        parsed(&json!({ "type": "http", "url": "https://example.com/${P}", "headers": { "X-T": "Bearer ${T}" } }));
    assert_eq!(http.looks_interpolated(), ["/url", "/headers/x-t"]);
}
