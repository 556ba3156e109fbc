//! The messages of one session on disk, one JSON line each, in the order in which they came.
//!
//! The first line says what the file is: `{"type":"session","version":1,"id":…}`; each other one is
//! `{"type":"message","message":…}`. Lines are only ever added. While a run has a transcript open, nobody else has. A last
//! line without its end is what a killed process leaves: it is dropped. Whatever else does not fit is an error.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::paths::{ProjectPaths, SessionName};
use crate::base::code::ErrorCode;
use crate::base::files::Place;
use crate::base::files::log::{Log, Missing};
use crate::base::limits::TRANSCRIPT_BYTES;
use crate::base::task::blocking;

const VERSION: u32 = 1;
/// So many bytes are copied without keeping a thread of the runtime from its work.
const SHORT_BYTES: usize = 64 * 1024;

/// Why a transcript cannot be used. No message holds a path or a piece of the conversation.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// There is no directory for it.
    #[error(
        "there is no home directory to keep the session in; set `home` or LITE_AGENT_HOME, or `sessions: false` to keep it in memory"
    )]
    NoHome,
    /// Another agent has it.
    #[error("the session is busy: another agent or process runs it; wait for its end")]
    Busy,
    /// It is not what this agent left.
    #[error(
        "the session's transcript was removed or cut by another process; start anew with clear(), or resume it with a new agent"
    )]
    Changed,
    /// A line cannot be read.
    #[error(
        "line {line} of the session's transcript cannot be read; repair the file, or remove it with deleteSession()"
    )]
    Broken {
        /// Which one, from 1.
        line: usize,
    },
    /// Another version of this package wrote it, or it is no transcript of this session.
    #[error("the session's transcript is not one of this session and version; it is left as it is")]
    Foreign,
    /// It has become too long.
    #[error(
        "the session's transcript is above the limit of {TRANSCRIPT_BYTES} bytes; start a new session with clear()"
    )]
    TooLong,
    /// It could not be read.
    #[error("the session's transcript could not be read ({})", .source.kind())]
    Read {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It could not be written.
    #[error("the session's transcript could not be written ({})", .source.kind())]
    Write {
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl TranscriptError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::Storage
    }
}

/// What was found when a transcript was opened.
#[derive(Debug, Default)]
pub struct Found {
    /// The messages after those that were known.
    pub messages: Vec<Arc<RawValue>>,
    /// Whether a last line was dropped because its end was missing.
    pub is_torn: bool,
}

/// The transcript of one session.
#[derive(Debug)]
pub struct Transcript {
    file: File,
    /// How long it was when this agent last had it.
    known: u64,
    /// Open during a run.
    log: Option<Log>,
}

#[derive(Clone, Debug)]
struct File {
    folder: Option<Place>,
    name: String,
    session: Arc<str>,
}

impl Transcript {
    /// The transcript of a session; nothing is made or read before it is opened.
    #[must_use]
    pub fn new(project: Option<&ProjectPaths>, name: &SessionName, session: Arc<str>) -> Self {
        let folder = project.map(ProjectPaths::sessions);
        Self { file: File { folder, name: name.transcript(), session }, known: 0, log: None }
    }

    /// Opens it for a run and reads the messages after the first `messages_known`.
    ///
    /// # Errors
    /// When it is open elsewhere, or not what it should be.
    pub async fn open(&mut self, messages_known: usize) -> Result<Found, TranscriptError> {
        // A run that panicked may have left it open.
        self.log = None;
        let (file, known) = (self.file.clone(), self.known);
        let opened = blocking(move || Ok(file.open(known, messages_known))).await;
        let (log, found) = opened.map_err(|source| TranscriptError::Read { source })??;
        self.known = log.len();
        self.log = Some(log);
        Ok(found)
    }

    /// Adds messages; they outlive the process when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn append(&mut self, messages: &[Arc<RawValue>]) -> Result<(), TranscriptError> {
        let write_failed = |source| TranscriptError::Write { source };
        let Some(mut log) = self.log.take() else { return Err(write_failed(io::ErrorKind::NotConnected.into())) };
        let lines = lines_of(messages).map_err(|error| write_failed(error.into()))?;
        let result;
        (log, result) = if log.len() + lines.len() as u64 > TRANSCRIPT_BYTES {
            (log, Err(TranscriptError::TooLong))
        } else if lines.len() <= SHORT_BYTES {
            let written = log.append(&lines);
            (log, written.map_err(write_failed))
        } else {
            let written = blocking(move || {
                let written = log.append(&lines);
                Ok((log, written))
            });
            let (log, written) = written.await.map_err(write_failed)?;
            (log, written.map_err(write_failed))
        };
        self.known = log.len();
        self.log = Some(log);
        result
    }

    /// Ends what a run has written: it outlives a loss of power when this returns, and others may open it.
    ///
    /// # Errors
    /// When the system cannot tell that it is on the disk.
    pub async fn close(&mut self) -> Result<(), TranscriptError> {
        let Some(log) = self.log.take() else { return Ok(()) };
        blocking(move || log.sync()).await.map_err(|source| TranscriptError::Write { source })
    }

    /// Removes it; it is fine when it is not there.
    ///
    /// # Errors
    /// When it is open elsewhere or cannot be removed.
    pub async fn remove(&mut self) -> Result<(), TranscriptError> {
        self.log = None;
        let file = self.file.clone();
        let removed = blocking(move || Ok(file.remove())).await;
        removed.map_err(|source| TranscriptError::Write { source })??;
        self.known = 0;
        Ok(())
    }
}

impl File {
    fn open(&self, known: u64, messages_known: usize) -> Result<(Log, Found), TranscriptError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::ResourceBusy => TranscriptError::Busy,
            io::ErrorKind::NotFound if known > 0 => TranscriptError::Changed,
            _ => TranscriptError::Write { source },
        };
        let place = self.folder.as_ref().ok_or(TranscriptError::NoHome)?;
        let (folder, missing) =
            if known == 0 { (place.create(), Missing::Create) } else { (place.open(), Missing::Refuse) };
        let mut log = Log::open(&folder.map_err(failed)?, &self.name, missing).map_err(failed)?;
        if log.len() < known {
            return Err(TranscriptError::Changed);
        }
        let found =
            if log.len() == known && known > 0 { Found::default() } else { self.read(&mut log, messages_known)? };
        if log.is_empty() {
            let header = Line {
                r#type: "session".into(),
                version: Some(VERSION),
                id: Some((*self.session).into()),
                message: None,
            };
            let mut header = serde_json::to_vec(&header).map_err(|error| failed(error.into()))?;
            header.push(b'\n');
            log.append(&header).map_err(failed)?;
        }
        Ok((log, found))
    }

    fn read(&self, log: &mut Log, messages_known: usize) -> Result<Found, TranscriptError> {
        let read_failed = |source: io::Error| match source.kind() {
            io::ErrorKind::FileTooLarge => TranscriptError::TooLong,
            _ => TranscriptError::Read { source },
        };
        let bytes = log.read(TRANSCRIPT_BYTES).map_err(read_failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let is_torn = whole < bytes.len();
        let mut messages = Vec::new();
        let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate() {
            let broken = || TranscriptError::Broken { line: index + 1 };
            let line: Line<'_> = serde_json::from_slice(line).map_err(|_| broken())?;
            match (index, &*line.r#type, line.message) {
                (0, "session", None) => self.require_own(&line)?,
                (1.., "message", Some(message)) if message.get().starts_with('{') => {
                    messages.push(Arc::from(message.to_owned()));
                }
                _ => return Err(broken()),
            }
        }
        if messages.len() < messages_known {
            return Err(TranscriptError::Changed);
        }
        if is_torn {
            log.truncate(whole as u64).map_err(read_failed)?;
        }
        Ok(Found { messages: messages.split_off(messages_known), is_torn })
    }

    /// Two ids may be one file where letters of both cases are the same.
    fn require_own(&self, header: &Line<'_>) -> Result<(), TranscriptError> {
        let is_own = header.version == Some(VERSION) && header.id.as_deref() == Some(&*self.session);
        if is_own { Ok(()) } else { Err(TranscriptError::Foreign) }
    }

    fn remove(&self) -> Result<(), TranscriptError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::ResourceBusy => TranscriptError::Busy,
            _ => TranscriptError::Write { source },
        };
        let place = self.folder.as_ref().ok_or(TranscriptError::NoHome)?;
        let removed = place.open().and_then(|folder| {
            // Kept open until it is removed: nobody begins to write in between.
            let _log = Log::open(&folder, &self.name, Missing::Refuse)?;
            folder.remove(&self.name)
        });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed),
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Line<'a> {
    r#type: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
}

fn lines_of(messages: &[Arc<RawValue>]) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::with_capacity(messages.iter().map(|message| message.get().len() + 64).sum());
    for message in messages {
        let start = lines.len();
        serde_json::to_writer(
            &mut lines,
            &Line { r#type: "message".into(), version: None, id: None, message: Some(message) },
        )?;
        // A line end in JSON stands between values only, where a space does as well.
        lines[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        lines.push(b'\n');
    }
    Ok(lines)
}

/// A session that is kept on disk.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct StoredSession {
    /// Its id.
    pub id: String,
    /// When something was last added, in milliseconds since the epoch.
    pub mtime: u64,
}

/// The sessions of a project, the newest first.
///
/// # Errors
/// When the folder cannot be read; it is fine when it is not there.
pub async fn list(project: Option<&ProjectPaths>) -> Result<Vec<StoredSession>, TranscriptError> {
    let place = project.map(ProjectPaths::sessions).ok_or(TranscriptError::NoHome)?;
    blocking(move || list_now(&place)).await.map_err(|source| TranscriptError::Read { source })
}

fn list_now(place: &Place) -> io::Result<Vec<StoredSession>> {
    let folder = match place.open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut found = Vec::new();
    for name in folder.names()? {
        let Some(id) = SessionName::id_of(&name) else { continue };
        // One that goes away meanwhile, or is no file, is no session.
        let Ok(modified) = folder.modified(&name) else { continue };
        found.push((modified, id));
    }
    found.sort_by(|a, b| b.cmp(a));
    let millis = |at: std::time::SystemTime| at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(found
        .into_iter()
        .map(|(at, id)| StoredSession { id, mtime: u64::try_from(millis(at)).unwrap_or(u64::MAX) })
        .collect())
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
