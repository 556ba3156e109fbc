//! What is wrong with declarations, all at once, without quoting a value.

use std::fmt;

use crate::base::code::ErrorCode;

/// One thing that is wrong with a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its stable code.
    pub code: ErrorCode,
    /// The server it is about, as written; empty when it is about all of them.
    pub server: String,
    /// The place as a JSON pointer from the declaration of the server (`/args/3`).
    pub path: String,
    /// What is wrong and what is right.
    pub message: String,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, server: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, server: server.to_owned(), path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.server.is_empty() {
            write!(f, "server {:?}", short(&self.server))?;
            if !self.path.is_empty() {
                write!(f, " at {}", self.path)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

/// Declarations that cannot be used, with everything that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.problems))]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn all(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// The stable code: that of the first problem.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.problems.first().map_or(ErrorCode::ConfigInvalid, |problem| problem.code)
    }

    /// Everything that is wrong, in the order of the declarations; never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

fn told(problems: &[Problem]) -> String {
    const MOST: usize = 20;
    let mut lines: Vec<_> = problems.iter().take(MOST).map(ToString::to_string).collect();
    if problems.len() > MOST {
        lines.push(format!("and {} more", problems.len() - MOST));
    }
    lines.join("; ")
}

/// A key as one step of a JSON pointer, short enough for a message.
pub(super) fn escaped(key: &str) -> String {
    let shown: String = short(key).chars().flat_map(char::escape_debug).collect();
    shown.replace("\\\"", "\"").replace('~', "~0").replace('/', "~1")
}

/// A key short enough for a message.
pub(super) fn short(key: &str) -> String {
    const LONGEST: usize = 64;
    match key.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}
