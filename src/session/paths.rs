//! Where the files of a session are, in `<home>/projects/<project hash>/sessions/`: the messages in
//! `<session id>.jsonl`, the archive in `<session id>.context/`.
//!
//! A session id is whatever its caller chose, so it is written in a form that is one file name and nothing else.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::base::code::ErrorCode;
use crate::base::digest::sha256_hex;
use crate::base::files::Place;
use crate::base::limits::SESSION_NAME_BYTES;

/// Digits of a project's hash.
const PROJECT_DIGITS: usize = 32;
/// How the name of a transcript ends.
const TRANSCRIPT: &str = ".jsonl";

/// Why a session id cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionNameError {
    /// It is empty.
    #[error("the session id is empty")]
    Empty,
    /// It is too long for a file name.
    #[error(
        "the session id takes {bytes} bytes as a file name, above the limit of {SESSION_NAME_BYTES} (a letter, a digit, `-` or `_` takes one byte, any other takes three or more)"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl SessionNameError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Empty | Self::TooLong { .. } => ErrorCode::ConfigInvalid,
        }
    }
}

/// A session id as a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName(String);

impl SessionName {
    /// Letters, digits, `-` and `_` stay; each byte of anything else becomes `%` and two hex digits.
    pub fn of(id: &str) -> Result<Self, SessionNameError> {
        let mut name = String::with_capacity(id.len());
        for byte in id.bytes() {
            if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
                name.push(char::from(byte));
            } else {
                let _ = write!(name, "%{byte:02x}");
            }
        }
        match name.len() {
            0 => Err(SessionNameError::Empty),
            bytes if bytes > SESSION_NAME_BYTES => Err(SessionNameError::TooLong { bytes }),
            _ => Ok(Self(name)),
        }
    }
}

impl SessionName {
    /// The name of the transcript.
    #[must_use]
    pub fn transcript(&self) -> String {
        format!("{}{TRANSCRIPT}", self.0)
    }

    /// The id of the session that a transcript of this name belongs to.
    #[must_use]
    pub fn id_of(file: &str) -> Option<String> {
        let name = file.strip_suffix(TRANSCRIPT)?;
        let mut bytes = Vec::with_capacity(name.len());
        let mut rest = name.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            } else {
                bytes.push(byte);
            }
        }
        let id = String::from_utf8(bytes).ok()?;
        // What this package would write otherwise is not its own.
        Self::of(&id).is_ok_and(|known| known.0 == name).then_some(id)
    }
}

/// Where one project keeps its sessions.
#[derive(Clone, Debug)]
pub struct ProjectPaths {
    home: PathBuf,
    project: String,
}

impl ProjectPaths {
    /// The project is its directory, without links and detours.
    #[must_use]
    pub fn new(home: PathBuf, canonical_workdir: &Path) -> Self {
        let mut project = sha256_hex(canonical_workdir.as_os_str().as_encoded_bytes());
        project.truncate(PROJECT_DIGITS);
        Self { home, project }
    }

    /// The folder of the sessions.
    #[must_use]
    pub fn sessions(&self) -> Place {
        Place::new(self.home.clone(), vec!["projects".into(), self.project.clone(), "sessions".into()])
    }

    /// The folder of a session's archive.
    #[must_use]
    pub fn archive(&self, session: &SessionName) -> Place {
        self.sessions().join(format!("{}.context", session.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> String {
        SessionName::of(id).unwrap().0
    }

    #[test]
    fn an_id_is_one_file_name_and_tells_ids_apart() {
        assert_eq!(name("0191-ab_C"), "0191-ab_C");
        assert_eq!(name("../../etc"), "%2e%2e%2f%2e%2e%2fetc");
        assert_eq!(name(".."), "%2e%2e");
        assert_eq!(name("a%2eb"), "a%252eb");
        assert_eq!(name("ü\0\\"), "%c3%bc%00%5c");
    }

    #[test]
    fn an_id_is_read_back_from_its_file_name() {
        for id in ["0191-ab_C", "../../etc", "..", "a%2eb", "ü\0\\", "a.jsonl"] {
            assert_eq!(SessionName::id_of(&SessionName::of(id).unwrap().transcript()).as_deref(), Some(id));
        }
        for foreign in
            ["a", ".jsonl", "a b.jsonl", "a%2E.jsonl", "%4a.jsonl", "%2.jsonl", "%zz.jsonl", "%ff.jsonl", "%+f.jsonl"]
        {
            assert_eq!(SessionName::id_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_empty_id_and_one_too_long_for_a_file_name_are_refused() {
        assert_eq!(SessionName::of("").unwrap_err(), SessionNameError::Empty);
        assert!(SessionName::of(&"x".repeat(SESSION_NAME_BYTES)).is_ok());
        let error = SessionName::of(&"x".repeat(SESSION_NAME_BYTES + 1)).unwrap_err();
        assert_eq!(error, SessionNameError::TooLong { bytes: SESSION_NAME_BYTES + 1 });
        assert!(error.to_string().contains("above the limit of 200"));
    }

    #[test]
    fn a_project_is_known_by_its_directory() {
        let paths = |workdir: &str| ProjectPaths::new("/home/x".into(), Path::new(workdir));
        let session = SessionName::of("s").unwrap();
        let place = paths("/work").archive(&session);
        let project = &sha256_hex(b"/work")[..32];
        let parts = ["projects", project, "sessions", "s.context"];
        assert_eq!(place, Place::new("/home/x".into(), parts.map(str::to_owned).to_vec()));
        assert_ne!(place, paths("/work2").archive(&session));
    }
}
