//! What is wrong with declarations, all at once, without quoting a value.

use std::fmt;

use super::Source;
use crate::base::code::ErrorCode;

/// A place in a text: lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The first character.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// A place in an `mcps.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Which file: the source it stands for.
    pub role: Source,
    /// Where in it, when the problem is not the file itself.
    pub position: Option<Position>,
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mcps.json", self.role)?;
        match self.position {
            Some(Position { line, column }) => write!(f, ", line {line}, column {column}"),
            None => Ok(()),
        }
    }
}

/// One thing that is wrong with a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its stable code.
    pub code: ErrorCode,
    /// The server it is about, as written; empty when it is about all of them.
    pub server: String,
    /// The place as a JSON pointer: from the declaration of the server (`/args/3`), in a file from its root.
    pub path: String,
    /// What is wrong and what is right.
    pub message: String,
    /// The file it is in, if it is in one.
    pub file: Option<FilePlace>,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, server: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, server: server.to_owned(), path: path.into(), message: message.into(), file: None }
    }

    /// The same problem, found in a file; `path` is its JSON pointer from the root.
    pub(super) fn placed(self, role: Source, position: Option<Position>, path: String) -> Self {
        Self { path, file: Some(FilePlace { role, position }), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}")?;
            if !self.path.is_empty() {
                write!(f, ", at {}", self.path)?;
            }
            f.write_str(": ")?;
        } else if !self.server.is_empty() {
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
