//! The sessions of an agent: which one runs use, which are on disk, and how one ends.

use std::collections::HashMap;
use std::sync::Arc;

use super::history::History;
use super::model::HistoryKey;
use super::queue::Queue;
use super::{Agent, lock};
use crate::archive::Archive;
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
use crate::base::limits::SESSIONS_IN_MEMORY;
use crate::session::paths::SessionName;
use crate::session::transcript::{self, StoredSession, Transcript};

/// One conversation.
pub struct Session {
    /// Its id.
    pub id: Arc<str>,
    pub(super) queue: Queue,
    /// Its large results.
    pub archive: Arc<Archive>,
}

/// The sessions in memory: the unsaved ones, and the saved ones that were used last or are in use. Any other is read
/// from the disk by its next run.
#[derive(Default)]
pub(super) struct Sessions {
    open: HashMap<Arc<str>, Arc<Session>>,
    /// The saved ones, the last used at the end.
    saved: Vec<Arc<str>>,
}

impl Sessions {
    /// Marks a saved session as just used; lets go of those that nobody uses, the longest unused first.
    fn used(&mut self, id: &Arc<str>) {
        self.saved.retain(|known| known != id);
        self.saved.push(Arc::clone(id));
        let mut surplus = self.saved.len().saturating_sub(SESSIONS_IN_MEMORY);
        let open = &mut self.open;
        self.saved.retain(|known| {
            // Whoever uses a session holds it, and nobody can begin to while this list is ours.
            let is_idle = open.get(known).is_none_or(|session| Arc::strong_count(session) == 1);
            let goes = surplus > 0 && is_idle && known != id;
            if goes {
                surplus -= 1;
                open.remove(known);
            }
            !goes
        });
    }
}

impl Agent {
    /// The id of the session that runs use by default.
    #[must_use]
    pub fn session_id(&self) -> Arc<str> {
        Arc::clone(&lock(&self.session))
    }

    /// Makes another session the one that runs use by default. What is on disk of it is read by its next run.
    ///
    /// # Errors
    /// `CONFIG_INVALID` for an id that cannot be used.
    pub fn resume(&self, id: &str) -> Result<(), Fault> {
        name_of(id, "the id")?;
        *lock(&self.session) = id.into();
        Ok(())
    }

    /// Makes a new session the one that runs use by default; gives its id. The old one stays.
    pub fn clear(&self) -> Arc<str> {
        let fresh: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        *lock(&self.session) = Arc::clone(&fresh);
        fresh
    }

    /// The saved sessions of the project, the newest first.
    ///
    /// # Errors
    /// `STORAGE`, also when sessions are not saved.
    pub async fn list_sessions(&self) -> Result<Vec<StoredSession>, Fault> {
        self.require_saved()?;
        transcript::list(self.config.project.as_ref())
            .await
            .map_err(|error| Fault::new(error.code(), error.to_string()))
    }

    /// Removes the messages and the archive of a session, in memory and on disk.
    ///
    /// # Errors
    /// `STORAGE`, also while the session runs.
    pub async fn delete_session(&self, id: &str) -> Result<(), Fault> {
        let session = self.session_of(Some(id), "the id")?;
        if session.queue.is_busy() {
            return Err(Fault::new(
                ErrorCode::Storage,
                "the session is busy: wait for the end of its runs, then delete it",
            ));
        }
        // A run that starts now waits, and begins anew.
        let mut history = session.queue.join().await;
        history.delete(self.history_key()).await?;
        session.archive.remove().await.map_err(|error| Fault::new(error.code(), error.to_string()))
    }

    pub(super) fn session_of(&self, id: Option<&str>, told: &str) -> Result<Arc<Session>, Fault> {
        let id: Arc<str> = id.map_or_else(|| self.session_id(), Arc::from);
        let name = name_of(&id, told)?;
        let mut sessions = lock(&self.sessions);
        let sessions = &mut *sessions;
        let fresh = || {
            let project = self.config.project.as_ref();
            let folder = project.map(|project| project.archive(&name));
            let (archive, transcript) = if self.config.is_saved {
                (Archive::saved(folder), Some(Transcript::new(project, &name, Arc::clone(&id))))
            } else {
                (Archive::unsaved(folder), None)
            };
            let queue = Queue::new(History::new(self.history_key(), transcript));
            Arc::new(Session { id: Arc::clone(&id), queue, archive })
        };
        let session = Arc::clone(sessions.open.entry(Arc::clone(&id)).or_insert_with(fresh));
        if self.config.is_saved {
            sessions.used(&id);
        }
        Ok(session)
    }

    fn history_key(&self) -> Arc<HistoryKey> {
        HistoryKey::new(Arc::clone(&self.host.model))
    }

    pub(super) fn archives(&self) -> Vec<(Arc<str>, Arc<Archive>)> {
        lock(&self.sessions)
            .open
            .values()
            .map(|session| (Arc::clone(&session.id), Arc::clone(&session.archive)))
            .collect()
    }

    /// Resolves when no run of the session is under way or waits; `None` is the agent's own session.
    pub async fn await_idle(&self, id: Option<&str>) {
        let own = self.session_id();
        let session = lock(&self.sessions).open.get(id.unwrap_or(&own)).cloned();
        if let Some(session) = session {
            session.queue.idle().await;
        }
    }

    fn require_saved(&self) -> Result<(), Fault> {
        if self.config.is_saved {
            return Ok(());
        }
        Err(Fault::new(
            ErrorCode::Storage,
            "sessions are kept in memory only, as `sessions: false` says; there are none on disk",
        ))
    }
}

fn name_of(id: &str, told: &str) -> Result<SessionName, Fault> {
    SessionName::of(id).map_err(|error| Fault::new(error.code(), format!("{told}: {error}")))
}
