//! What the two files may hold, what is said about the rest, and how the sources come together.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

/// A home and a project of the test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("lite-agent-files-{}", uuid::Uuid::new_v4()));
        fs::create_dir_all(root.join("home")).unwrap();
        fs::create_dir_all(root.join("work/.lite-agent")).unwrap();
        Self(root)
    }

    fn path(&self, role: Source) -> PathBuf {
        self.0.join(if role == Source::Global { "home/mcps.json" } else { "work/.lite-agent/mcps.json" })
    }

    fn write(self, role: Source, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(role), content).unwrap();
        self
    }

    fn servers(&self, constructor: &Value) -> Result<Vec<ServerDeclaration>, ConfigError> {
        self.allowed(constructor, &AllowedTransports::default())
    }

    fn allowed(
        &self,
        constructor: &Value,
        transports: &AllowedTransports,
    ) -> Result<Vec<ServerDeclaration>, ConfigError> {
        let files = Files::Read { home: Some(self.0.join("home")), workdir: &self.0.join("work") };
        Sources { files, constructor: Some(constructor), transports }.resolve()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is said about a project file that is alone.
fn told(content: impl AsRef<[u8]>) -> String {
    let error = Scratch::new().write(Source::Project, content).servers(&json!({})).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains("s3cr3t"), "{message}");
    message
}

fn names(servers: &[ServerDeclaration]) -> Vec<(&str, Source)> {
    servers.iter().map(|server| (server.name.as_str(), server.source)).collect()
}

fn stdio(command: &str) -> Value {
    json!({ "command": command })
}

fn file(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

#[test]
fn sources_merge_in_their_order_and_equal_declarations_count_once() {
    let scratch = Scratch::new().write(Source::Global, file(&json!({ "z": stdio("z"), "same": stdio("x") }))).write(
        Source::Project,
        file(&json!({ "a": stdio("a"), "same": { "type": "stdio", "command": "x", "args": [], "timeoutMs": 30000 } })),
    );

    let servers = scratch.servers(&json!({ "c": stdio("c"), "a": stdio("a") })).unwrap();

    assert_eq!(
        names(&servers),
        [("z", Source::Global), ("same", Source::Global), ("a", Source::Project), ("c", Source::Constructor)]
    );
}

#[test]
fn files_that_are_not_there_hold_nothing() {
    assert_eq!(Scratch::new().servers(&json!({})).unwrap(), []);
    let transports = AllowedTransports::default();
    let nowhere = Path::new("/no/such/directory");
    for home in [None, Some(nowhere.to_path_buf())] {
        let files = Files::Read { home, workdir: nowhere };
        assert_eq!(Sources { files, constructor: None, transports: &transports }.resolve().unwrap(), []);
    }
    let broken = Scratch::new().write(Source::Project, "{").write(Source::Global, "{");
    let strict = Sources { files: Files::Ignored, constructor: None, transports: &transports };
    assert_eq!(strict.resolve().unwrap(), []);
    drop(broken);
}

#[test]
fn one_byte_order_mark_is_dropped() {
    let text = file(&json!({ "a": stdio("a") }));
    let scratch = Scratch::new().write(Source::Project, format!("\u{feff}{text}"));
    assert_eq!(names(&scratch.servers(&json!({})).unwrap()), [("a", Source::Project)]);
    let twice = told(format!("\u{feff}\u{feff}{text}"));
    assert_eq!(twice, "project mcps.json, line 1, column 1: is not valid JSON: expected value");
}

#[test]
fn every_bad_entry_of_every_source_is_told_with_its_place() {
    let global = "{ \"mcpServers\": {\n  \"łąka\": { \"command\": \"s3cr3t\" },\n  \"h\": { \"type\": \"http\",\n    \"url\": \"http://s3cr3t.example\",\n    \"headers\": { \"ok\": \"ż\", \"Mcp-A\": \"s3cr3t\" } } } }";
    let project = "{\"mcpServers\":{\n\"bad\":{\"args\":[\"x\",\n  7]}, \"ok\":{\"command\":\"x\"}}}";
    let scratch = Scratch::new().write(Source::Global, global).write(Source::Project, project);

    let error = scratch.servers(&json!({ "c": { "timeout": 5, "command": "x" } })).unwrap_err();

    let lines: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    let expected = [
        "global mcps.json, line 2, column 3, at /mcpServers/łąka: the server name must be",
        "global mcps.json, line 4, column 5, at /mcpServers/h/url: must use HTTPS",
        "global mcps.json, line 5, column 18, at /mcpServers/h/headers/ok: may hold visible ASCII",
        "global mcps.json, line 5, column 29, at /mcpServers/h/headers/Mcp-A: is a reserved header",
        "project mcps.json, line 2, column 1, at /mcpServers/bad: has no command",
        "project mcps.json, line 3, column 3, at /mcpServers/bad/args/1: must be a string, not a number",
        "server \"c\" at /timeout: unknown key \"timeout\", did you mean \"timeoutMs\"?",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(!error.to_string().contains("s3cr3t"));
    assert_eq!(error.code(), ErrorCode::McpName);
}

#[test]
fn broken_json_is_told_with_its_place_and_a_hint() {
    let at = |place: &str, what: &str| format!("project mcps.json, {place}: is not valid JSON: {what}");
    for (content, message) in [
        ("", at("line 1, column 1", "EOF while parsing a value; the file is empty or cut off")),
        (
            "{\n \"mcpServers\": { \"ż\"\n",
            at("line 2, column 21", "EOF while parsing an object; the file is empty or cut off"),
        ),
        (
            "{ // note s3cr3t\n}",
            at("line 1, column 3", "key must be a string; comments are not allowed, remove this one"),
        ),
        (
            "{ \"mcpServers\": {}\n  /* s3cr3t */ }",
            at("line 2, column 3", "expected `,` or `}`; comments are not allowed, remove this one"),
        ),
        ("# s3cr3t\n{}", at("line 1, column 1", "expected value; comments are not allowed, remove this one")),
        ("{}\n// s3cr3t", at("line 2, column 1", "trailing characters; comments are not allowed, remove this one")),
        (
            "{ \"mcpServers\": { \"ż\": {},\n\n } }",
            at("line 1, column 26", "trailing comma; remove the comma after the last entry"),
        ),
        ("{ \"a\": [1,] }", at("line 1, column 10", "trailing comma; remove the comma after the last entry")),
        ("{ 'a': 1 }", at("line 1, column 3", "key must be a string; use double quotes")),
        ("s3cr3t", at("line 1, column 1", "expected value")),
    ] {
        assert_eq!(told(content), message);
    }
    assert_eq!(
        told(b"{ \"\xC5\xBC\": \"\xFF\" }"),
        "project mcps.json, line 1, column 9: is not valid UTF-8; save the file as UTF-8"
    );
    let deep = told("[".repeat(200));
    assert!(deep.contains("recursion limit"), "{deep}");
}

#[test]
fn the_top_level_holds_servers_and_nothing_else() {
    for (content, message) in [
        ("{}", "line 1, column 1: has no \"mcpServers\""),
        (" []", "line 1, column 2: must be an object: { \"mcpServers\": { … } }"),
        ("{ \"mcpServers\": 5 }", "line 1, column 3, at /mcpServers: must be an object of declarations by server name"),
        (
            "{ \"mcpServers\": {}, \"mcpServer\": \"s3cr3t\" }",
            "line 1, column 21, at /mcpServer: unknown key \"mcpServer\", did you mean \"mcpServers\"?",
        ),
        ("{ \"mcpServers\": {},\n\"$schema\": \"\" }", "line 2, column 1, at /$schema: unknown key \"$schema\""),
    ] {
        assert_eq!(told(content), format!("project mcps.json, {message}"));
    }
}

#[test]
fn a_key_that_is_there_twice_is_told_at_any_level() {
    let twice = |place: &str| format!("project mcps.json, {place}: this key is there twice");
    for (content, place) in [
        ("{ \"mcpServers\": {}, \"mcpServers\": {} }", "line 1, column 21, at /mcpServers"),
        (
            "{\"mcpServers\": {\n\"a\": {\"command\":\"s3cr3t\"},\n\"\\u0061\": {\"command\":\"x\"}}}",
            "line 3, column 1, at /mcpServers/a",
        ),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\",\n\"env\": {\"A\": \"1\", \"A\": \"1\"}}}}",
            "line 2, column 19, at /mcpServers/a/env/A",
        ),
    ] {
        assert_eq!(told(content), twice(place));
    }
    let deep = told("{\"mcpServers\": {\"a\": {\"args\": [[{\"b\": {\"c\": 1, \"c\": 2}}]], \"command\": \"x\"}}}");
    assert!(deep.contains("at /mcpServers/a/args/0/0/b/c: this key is there twice"), "{deep}");
}

#[test]
fn a_file_of_256_kib_is_read_and_a_larger_one_is_not() {
    let text = file(&json!({ "a": stdio("a") }));
    let padded = |size: usize| format!("{text}{}", " ".repeat(size - text.len()));
    let scratch = Scratch::new().write(Source::Global, padded(256 * 1024));
    assert_eq!(scratch.servers(&json!({})).unwrap().len(), 1);
    let scratch = scratch.write(Source::Global, padded(256 * 1024 + 1));
    let error = scratch.servers(&json!({})).unwrap_err();
    assert_eq!(error.to_string(), "global mcps.json: is too large: at most 256 KiB are allowed");
    assert_eq!(error.code(), ErrorCode::ConfigInvalid);
}

#[test]
fn a_file_full_of_bad_entries_is_told_soon_and_shortly() {
    let many: Vec<String> = (0..12_000).map(|i| format!("\"s{i}\":{{\"{i}\":1}}")).collect();
    let message = told(format!("{{\"mcpServers\":{{{}}}}}", many.join(",")));
    assert!(message.len() < 4096 && message.ends_with("more"), "{message}");
}

#[cfg(unix)]
#[test]
fn only_a_plain_file_is_read() {
    use std::os::unix::fs::symlink;
    let refused = |prepare: &dyn Fn(&Scratch)| {
        let scratch = Scratch::new();
        prepare(&scratch);
        let error = scratch.servers(&json!({})).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConfigInvalid);
        error.to_string()
    };
    let linked = |to: &str| refused(&|scratch| symlink(scratch.0.join(to), scratch.path(Source::Global)).unwrap());
    for target in ["work", "nowhere"] {
        assert_eq!(linked(target), "global mcps.json: is a symbolic link, which is never followed");
    }
    let folder = refused(&|scratch| fs::create_dir(scratch.path(Source::Project)).unwrap());
    assert_eq!(folder, "project mcps.json: is not a file");
    let outer = refused(&|scratch| {
        let dot = scratch.0.join("work/.lite-agent");
        fs::remove_dir(&dot).unwrap();
        symlink(scratch.0.join("home"), dot).unwrap();
    });
    assert_eq!(outer, "project mcps.json: is in a directory that is a symbolic link, which is never followed");
    let file = refused(&|scratch| {
        let dot = scratch.0.join("work/.lite-agent");
        fs::remove_dir(&dot).unwrap();
        fs::write(dot, "").unwrap();
    });
    assert_eq!(file, "project mcps.json: cannot be read: not a directory");
}

#[test]
fn different_declarations_of_one_name_conflict() {
    let scratch = Scratch::new()
        .write(Source::Global, file(&json!({ "docs": stdio("s3cr3t") })))
        .write(Source::Project, file(&json!({ "docs": stdio("b") })));

    let error = scratch.servers(&json!({ "docs": { "type": "http", "url": "https://s3cr3t.example" } })).unwrap_err();

    assert_eq!(error.code(), ErrorCode::McpConflict);
    let said =
        "server \"docs\": Conflicting declarations, one in the global mcps.json, line 1, column 16 and another in";
    assert_eq!(
        error.to_string(),
        format!(
            "{said} the project mcps.json, line 1, column 16; rename one, or make them equal; \
             {said} the constructor; rename one, or make them equal"
        )
    );
}

#[test]
fn at_most_32_servers_remain_after_merging() {
    let some = |from: usize, to: usize| -> Value { (from..to).map(|i| (format!("s{i}"), stdio("x"))).collect() };
    let scratch = Scratch::new().write(Source::Global, file(&some(0, 20))).write(Source::Project, file(&some(10, 30)));
    assert_eq!(scratch.servers(&some(12, 32)).unwrap().len(), 32);
    let error = scratch.servers(&some(12, 33)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::McpLimit);
    assert_eq!(error.to_string(), "33 servers are declared, at most 32 are allowed");
}

#[test]
fn a_transport_that_is_not_allowed_is_refused_in_every_source() {
    let scratch = Scratch::new()
        .write(Source::Global, file(&json!({ "g": { "type": "http", "url": "https://s3cr3t.example" } })))
        .write(Source::Project, file(&json!({ "p": stdio("x") })));
    let constructor = json!({ "c": { "type": "http", "url": "https://s3cr3t.example" } });

    let error = scratch.allowed(&constructor, &AllowedTransports::only(vec![TransportKind::Stdio])).unwrap_err();

    assert_eq!(error.code(), ErrorCode::McpTransport);
    let why = "the transport \"http\" is not among the allowed mcpTransports";
    assert_eq!(
        error.to_string(),
        format!("global mcps.json, line 1, column 16, at /mcpServers/g: {why}; server \"c\": {why}")
    );
    let both = AllowedTransports::only(vec![TransportKind::Http, TransportKind::Stdio]);
    assert_eq!(scratch.allowed(&constructor, &both).unwrap().len(), 3);
}
