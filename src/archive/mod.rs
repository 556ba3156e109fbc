//! What is too large for the model, kept on disk for one session and read back in pieces.
//!
//! [`Archive`] stores texts under their SHA-256 and knows no other: a reference of another session leads nowhere. It ends
//! with its agent or, when its session is saved, stays beside the transcript. [`page`] cuts a text, [`search`] looks through it, [`envelope`] marks it as data, and
//! [`context`] is the tool that does all this for the model. In memory stay the index and one preview a text.

pub mod context;
pub mod envelope;
mod page;
mod search;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::base::code::ErrorCode;
use crate::base::digest::sha256_hex;
use crate::base::files::{Folder, Place};
use crate::base::limits::PROJECTION_BYTES;
use crate::base::task::blocking;

const INDEX: &str = "index.jsonl";
/// More than the lines of as many texts as fit a disk.
const INDEX_BYTES: usize = 64 * 1024 * 1024;

/// Where a text is: 64 hex digits, the SHA-256 of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Reference(String);

impl Reference {
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the index tells of a text.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// Where it is.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// The tool whose result it is.
    pub tool: String,
    /// Its length in UTF-8.
    pub bytes: usize,
    /// Its length in UTF-16 units, as JavaScript counts.
    pub chars: usize,
    /// How it begins, or what it holds.
    pub preview: String,
}

/// What to keep a text under.
pub struct Origin {
    /// The tool whose result it is.
    pub tool: String,
    /// Makes the preview.
    pub preview: fn(&str) -> String,
}

/// Why something cannot be kept or read. No message holds a path.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// There is no directory for it.
    #[error("there is no home directory to keep it in; set `home` or LITE_AGENT_HOME")]
    NoHome,
    /// It could not be written.
    #[error("the session's archive could not be written ({})", .source.kind())]
    Write {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It could not be read.
    #[error("the archived text could not be read ({})", .source.kind())]
    Read {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is on the disk is not what was put there.
    #[error("the archived text was changed on the disk and is not used")]
    Changed,
    /// No text of this session has the reference.
    #[error("there is no archived result with this reference in this session")]
    Unknown,
    /// The session is closed.
    #[error("the session's archive is closed")]
    Closed,
}

impl ArchiveError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NoHome | Self::Write { .. } | Self::Read { .. } | Self::Changed | Self::Closed => ErrorCode::Storage,
            Self::Unknown => ErrorCode::Tool,
        }
    }
}

/// The archive of one session.
pub struct Archive {
    keeping: Keeping,
    state: Mutex<State>,
    /// Held while files are written: one writer at a time, and none after the archive is closed.
    writer: Mutex<()>,
}

/// Where an archive is, and for how long.
enum Keeping {
    /// Beside the transcript of its session, as long as that.
    Saved(Option<Place>),
    /// As long as its agent, in a part of the session's folder of its own: another agent may have a session of the same id.
    Unsaved { session_folder: Option<Place>, folder: Option<Place> },
}

#[derive(Default)]
struct State {
    entries: Vec<Arc<Entry>>,
    is_on_disk: bool,
    is_closed: bool,
    /// Whether the index lacks the end of its last line.
    is_torn: bool,
}

impl Archive {
    /// An archive that ends with its agent; nothing is made before something is kept.
    #[must_use]
    pub fn unsaved(session_folder: Option<Place>) -> Arc<Self> {
        let folder = session_folder.as_ref().map(|place| place.join(uuid::Uuid::new_v4().to_string()));
        Self::new(Keeping::Unsaved { session_folder, folder })
    }

    /// An archive that stays; nothing is read before it is [loaded](Self::load).
    #[must_use]
    pub fn saved(session_folder: Option<Place>) -> Arc<Self> {
        Self::new(Keeping::Saved(session_folder))
    }

    fn new(keeping: Keeping) -> Arc<Self> {
        Arc::new(Self { keeping, state: Mutex::default(), writer: Mutex::default() })
    }

    fn place(&self) -> Result<&Place, ArchiveError> {
        let (Keeping::Saved(place) | Keeping::Unsaved { folder: place, .. }) = &self.keeping;
        place.as_ref().ok_or(ArchiveError::NoHome)
    }

    /// Reads the index of a saved archive: other agents may have run the session.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub async fn load(self: &Arc<Self>) -> Result<(), ArchiveError> {
        if let Keeping::Unsaved { .. } | Keeping::Saved(None) = self.keeping {
            return Ok(());
        }
        let this = Arc::clone(self);
        blocking(move || this.load_now()).await.map_err(|source| ArchiveError::Read { source })
    }

    fn load_now(&self) -> io::Result<()> {
        let Keeping::Saved(Some(place)) = &self.keeping else { return Ok(()) };
        let _writer = self.hold();
        let index = match place.open().and_then(|folder| folder.read(INDEX, INDEX_BYTES)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        // A line that cannot be read costs its own text; each text is checked against its reference anyway.
        let lines = index.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
        let mut state = self.state();
        state.is_torn = index.last().is_some_and(|last| *last != b'\n');
        state.entries = lines.map(Arc::new).collect();
        Ok(())
    }

    /// Removes what is kept, of whatever process; the archive can be used again.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub async fn remove(self: &Arc<Self>) -> Result<(), ArchiveError> {
        let this = Arc::clone(self);
        let removed = blocking(move || {
            let _writer = this.hold();
            *this.state() = State::default();
            this.place().map_or(Ok(()), Place::remove_all)?;
            if let Keeping::Unsaved { session_folder: Some(session_folder), .. } = &this.keeping {
                // Fails, and has to, while another agent keeps something for a session of the same id.
                let _ = session_folder.remove();
            }
            Ok(())
        });
        removed.await.map_err(|source| ArchiveError::Write { source })
    }

    /// Keeps a text.
    pub async fn put(self: &Arc<Self>, text: String, origin: Origin) -> Result<Arc<Entry>, ArchiveError> {
        let this = Arc::clone(self);
        blocking(move || Ok(this.put_now(&text, origin))).await.map_err(|source| ArchiveError::Write { source })?
    }

    fn put_now(&self, text: &str, origin: Origin) -> Result<Arc<Entry>, ArchiveError> {
        let place = self.place()?;
        let entry = Arc::new(Entry {
            reference: Reference(sha256_hex(text.as_bytes())),
            bytes: text.len(),
            chars: page::units(text),
            preview: (origin.preview)(text),
            tool: origin.tool,
        });
        let _writer = self.hold();
        let (known, is_torn) = {
            let mut state = self.state();
            if state.is_closed {
                return Err(ArchiveError::Closed);
            }
            state.is_on_disk = true;
            (state.entries.iter().find(|known| known.reference == entry.reference).cloned(), state.is_torn)
        };
        let line = known.is_none().then_some(IndexLine { is_torn });
        write(place, &entry, text, line.as_ref()).map_err(|source| ArchiveError::Write { source })?;
        // The same text again has the same reference, whatever tool it comes from.
        Ok(known.unwrap_or_else(|| {
            let mut state = self.state();
            state.is_torn = false;
            state.entries.push(Arc::clone(&entry));
            entry
        }))
    }

    /// Reads a text, checks that it is the one that was kept, and works on it off the runtime's threads.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        work: impl FnOnce(&str) -> T + Send + 'static,
    ) -> Result<T, ArchiveError> {
        let this = Arc::clone(self);
        blocking(move || Ok(this.text(&entry).map(|text| work(&text))))
            .await
            .map_err(|source| ArchiveError::Read { source })?
    }

    fn text(&self, entry: &Entry) -> Result<String, ArchiveError> {
        let bytes = self
            .place()?
            .open()
            .and_then(|folder| folder.read(entry.reference.as_str(), PROJECTION_BYTES))
            .map_err(|source| ArchiveError::Read { source })?;
        if sha256_hex(&bytes) != entry.reference.0 {
            return Err(ArchiveError::Changed);
        }
        String::from_utf8(bytes).map_err(|_| ArchiveError::Changed)
    }

    fn find(&self, reference: &str) -> Result<Arc<Entry>, ArchiveError> {
        let state = self.state();
        let found = state.entries.iter().find(|entry| entry.reference.0 == reference);
        found.cloned().ok_or(ArchiveError::Unknown)
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().entries.is_empty()
    }

    /// What is kept, the newest first.
    fn entries(&self) -> Vec<Arc<Entry>> {
        self.state().entries.iter().rev().cloned().collect()
    }

    /// Ends the archive, and removes it from the disk unless it is saved. Blocks.
    pub fn close_now(&self) -> Result<(), ArchiveError> {
        let _writer = self.hold();
        let (entries, was_on_disk) = {
            let mut state = self.state();
            state.is_closed = true;
            (std::mem::take(&mut state.entries), std::mem::take(&mut state.is_on_disk))
        };
        let Keeping::Unsaved { session_folder: Some(session_folder), folder: Some(folder) } = &self.keeping else {
            return Ok(());
        };
        if was_on_disk {
            remove(folder, &entries).map_err(|source| ArchiveError::Write { source })?;
            // Fails, and has to, while another agent keeps something for a session of the same id.
            let _ = session_folder.remove();
        }
        Ok(())
    }

    /// [`close_now`](Self::close_now), off the runtime's threads.
    pub async fn close(self: &Arc<Self>) -> Result<(), ArchiveError> {
        let this = Arc::clone(self);
        blocking(move || Ok(this.close_now())).await.map_err(|source| ArchiveError::Write { source })?
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line to add to the index.
struct IndexLine {
    /// Whether the line before it has no end.
    is_torn: bool,
}

fn write(place: &Place, entry: &Entry, text: &str, line: Option<&IndexLine>) -> io::Result<()> {
    let folder: Folder = place.create()?;
    folder.write(entry.reference.as_str(), text.as_bytes())?;
    if let Some(IndexLine { is_torn }) = line {
        let mut line = if *is_torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        folder.append(INDEX, &line)?;
    }
    Ok(())
}

fn remove(place: &Place, entries: &[Arc<Entry>]) -> io::Result<()> {
    match place.open() {
        Ok(folder) => {
            for entry in entries {
                folder.remove(entry.reference.as_str())?;
            }
            folder.remove(INDEX)?;
            place.remove()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
