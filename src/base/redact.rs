//! Takes secrets and host paths out of text that a model or a person is shown.
//!
//! Owns the rules. The ones for bearer tokens, keys, JWTs, e-mail addresses and assignments are those of
//! `js/redact.js`; one table of cases tests both. When a rule cannot be used, the whole text is hidden.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Stands where something was hidden.
pub const MARK: &str = "[redacted]";

struct Rules {
    bearer: Regex,
    jwt: Regex,
    key: Regex,
    email: Regex,
    assignment: Regex,
    issued: Regex,
    credentials: Regex,
    header: Regex,
    path: Regex,
}

static RULES: LazyLock<Option<Rules>> = LazyLock::new(|| Rules::new().ok());

impl Rules {
    fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            bearer: Regex::new(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]+")?,
            jwt: Regex::new(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*")?,
            key: Regex::new(r"\bsk[-_][A-Za-z0-9_-]{6,}")?,
            email: Regex::new(r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+")?,
            assignment: Regex::new(r#"(?i)(?:key|token|secret|password)[\w-]{0,32}\\{0,3}["']?\s*[:=]\s*"#)?,
            // Tokens that tell their issuer by how they begin.
            issued: Regex::new(
                r"\b(?:gh[a-z]_|github_pat_|glpat-|npm_|hf_|pypi-|xox[a-z]-|AIza|ya29\.|AKIA|ASIA)[A-Za-z0-9_.-]{8,}",
            )?,
            credentials: Regex::new(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@]*(?:@[^\s/?#@]*)*@")?,
            header: Regex::new(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\s*[:=]\s*).+")?,
            path: Regex::new(concat!(
                // A web address is no path of the host; it comes first, so that its own path is not taken for one.
                r#"(?i)(?P<url>\b(?:https?|wss?)://[^\s'"`)>\]},;|]*)"#,
                r#"|(?P<quoted>'(?:~?/|\.{1,2}[/\\]|[a-z]:[/\\]|\\\\|file:)[^']*'|"(?:~?/|\.{1,2}[/\\]|[a-z]:[/\\]|\\\\|file:)[^"]*"|`(?:~?/|\.{1,2}[/\\]|[a-z]:[/\\]|\\\\|file:)[^`]*`)"#,
                r#"|(?P<before>^|[^\p{L}\p{N}_./\\~])(?:file:|~[\w.-]*/|/|\.{1,2}[/\\]|[a-z]:[/\\]|\\\\)[^\s'"`)>\]};|]+"#,
            ))?,
        })
    }

    fn secrets(&self, text: &str) -> String {
        self.email.replace_all(&self.tokens(text), MARK).into_owned()
    }

    fn tokens(&self, text: &str) -> String {
        let text = self.bearer.replace_all(text, format!("${{1}}{MARK}"));
        let text = self.jwt.replace_all(&text, MARK);
        let text = self.key.replace_all(&text, MARK);
        let text = self.issued.replace_all(&text, MARK);
        let text = self.credentials.replace_all(&text, format!("${{1}}{MARK}@"));
        self.assignments(&text)
    }

    fn assignments(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(head) = self.assignment.find(rest) {
            let (before, after) = rest.split_at(head.end());
            let value = value_len(after);
            out.push_str(before);
            if value > 0 {
                out.push_str(MARK);
            }
            rest = &after[value..];
        }
        out.push_str(rest);
        out
    }

    fn paths(&self, text: &str) -> String {
        let hide = |found: &Captures<'_>| {
            if let Some(url) = found.name("url") {
                return url.as_str().to_owned();
            }
            if let Some(quoted) = found.name("quoted") {
                let quote = &quoted.as_str()[..1];
                return format!("{quote}{MARK}{quote}");
            }
            format!("{}{MARK}", found.name("before").map_or("", |before| before.as_str()))
        };
        self.path.replace_all(text, hide).into_owned()
    }
}

/// How long the value of an assignment is. A quoted one ends at a quote that is escaped no deeper than the first; one
/// that does not end goes to the end of the text.
fn value_len(text: &str) -> usize {
    let escapes = text.bytes().take_while(|byte| *byte == b'\\').count();
    let Some(quote) = text.as_bytes().get(escapes).copied().filter(|byte| matches!(byte, b'"' | b'\'')) else {
        return text.find(|c: char| c.is_whitespace() || ",;&\"'}".contains(c)).unwrap_or(text.len());
    };
    let mut run = 0;
    for (at, byte) in text.bytes().enumerate().skip(escapes + 1) {
        match byte {
            b'\\' => run += 1,
            // A pair of backslashes is one of the value's own, at every depth of quoting.
            byte if byte == quote && (run < escapes || run % (2 * (escapes + 1)) == escapes) => return at + 1,
            _ => run = 0,
        }
    }
    text.len()
}

/// `text` without secrets.
#[must_use]
pub fn hide_secrets(text: &str) -> String {
    RULES.as_ref().map_or_else(|| MARK.to_owned(), |rules| rules.secrets(text))
}

/// `text` without secrets and without paths of the host.
#[must_use]
pub fn hide(text: &str) -> String {
    RULES.as_ref().map_or_else(|| MARK.to_owned(), |rules| rules.paths(&rules.secrets(text)))
}

/// The arguments of a command without what looks like a credential; the paths stay.
#[must_use]
pub fn hide_args(args: &[String]) -> Vec<String> {
    let mut before = "";
    args.iter()
        .map(|arg| {
            let shown = hide_arg(arg, before);
            before = arg;
            shown
        })
        .collect()
}

fn hide_arg(arg: &str, before: &str) -> String {
    let Some(rules) = RULES.as_ref() else { return MARK.to_owned() };
    let is_value = before.starts_with('-') && !before.contains('=');
    if is_value && (is_secretive(before) || names_user(before, arg)) || is_opaque(arg) {
        return MARK.to_owned();
    }
    if rules.header.is_match(arg) {
        return rules.header.replace(arg, format!("${{1}}${{2}}{MARK}")).into_owned();
    }
    match arg.split_once('=') {
        Some((name, value)) if !name.contains("://") && (is_secretive(name) || is_opaque(value)) => {
            return format!("{name}={MARK}");
        }
        // The password of a database client, which takes it without a space.
        None if arg.len() > 2 && arg.starts_with("-p") => return format!("-p{MARK}"),
        None if arg.starts_with("-u") && names_user("-u", arg) => return format!("-u{MARK}"),
        _ => {}
    }
    rules.tokens(arg)
}

fn is_secretive(flag: &str) -> bool {
    let flag = flag.to_ascii_lowercase();
    ["token", "secret", "passw", "pwd", "key", "auth", "bearer", "credential", "cookie"]
        .iter()
        .any(|mark| flag.contains(mark))
}

/// A user with a password, as in `-u name:password`.
fn names_user(flag: &str, arg: &str) -> bool {
    matches!(flag, "-u" | "--user" | "--proxy-user") && arg.contains(':')
}

/// A long run of letters and digits that is no word: a token of an issuer that is not known here.
fn is_opaque(arg: &str) -> bool {
    let arg = arg.trim_end_matches('=');
    let is_run = arg.len() >= 24 && arg.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+'));
    let has = |class: fn(&u8) -> bool| arg.bytes().any(|byte| class(&byte));
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_hex = arg.len() >= 32 && arg.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_run && (is_mixed || is_hex)
}

#[cfg(test)]
mod tests {
    use super::{hide, hide_args, hide_secrets};

    #[derive(serde::Deserialize)]
    struct Table {
        secrets: Vec<[String; 2]>,
        paths: Vec<[String; 2]>,
        args: Vec<[Vec<String>; 2]>,
    }

    fn table() -> Table {
        serde_json::from_str(include_str!("../../__test__/tables/redaction.json")).unwrap()
    }

    #[test]
    fn secrets_are_hidden_as_the_table_says() {
        for [text, shown] in table().secrets {
            assert_eq!(hide_secrets(&text), shown, "{text}");
            assert_eq!(hide_secrets(&shown), shown, "hidden again: {text}");
        }
    }

    #[test]
    fn paths_of_the_host_are_hidden_as_the_table_says() {
        for [text, shown] in table().paths {
            assert_eq!(hide(&text), shown, "{text}");
        }
    }

    #[test]
    fn credentials_in_arguments_are_hidden_as_the_table_says() {
        for [args, shown] in table().args {
            assert_eq!(hide_args(&args), shown, "{args:?}");
        }
    }
}
