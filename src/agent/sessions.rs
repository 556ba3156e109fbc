//! The sessions of an agent: which one runs use, which are on disk, and how one ends.

use std::sync::Arc;

use super::history::History;
use super::queue::Queue;
use super::{Agent, lock};
use crate::archive::Archive;
use crate::base::code::ErrorCode;
use crate::base::fault::Fault;
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

    /// Removes what is saved of a session; gives what the host keeps its messages under.
    ///
    /// # Errors
    /// `STORAGE`, also when sessions are not saved, and while the session runs.
    pub async fn delete_session(&self, id: &str) -> Result<Arc<str>, Fault> {
        self.require_saved()?;
        let session = self.session_of(Some(id), "the id")?;
        if session.queue.is_busy() {
            return Err(Fault::new(
                ErrorCode::Storage,
                "the session is busy: wait for the end of its runs, then delete it",
            ));
        }
        // A run that starts now waits, and begins anew.
        let mut history = session.queue.join().await;
        let key = history.delete().await?;
        session.archive.remove().await.map_err(|error| Fault::new(error.code(), error.to_string()))?;
        Ok(key)
    }

    pub(super) fn session_of(&self, id: Option<&str>, told: &str) -> Result<Arc<Session>, Fault> {
        let id: Arc<str> = id.map_or_else(|| self.session_id(), Arc::from);
        let name = name_of(&id, told)?;
        let mut sessions = lock(&self.sessions);
        let fresh = || {
            let project = self.config.project.as_ref();
            let folder = project.map(|project| project.archive(&name));
            let (archive, transcript) = if self.config.is_saved {
                (Archive::saved(folder), Some(Transcript::new(project, &name, Arc::clone(&id))))
            } else {
                (Archive::unsaved(folder), None)
            };
            let queue = Queue::new(History::new(Arc::clone(&id), transcript));
            Arc::new(Session { id: Arc::clone(&id), queue, archive })
        };
        Ok(Arc::clone(sessions.entry(Arc::clone(&id)).or_insert_with(fresh)))
    }

    pub(super) fn archives(&self) -> Vec<(Arc<str>, Arc<Archive>)> {
        lock(&self.sessions).values().map(|session| (Arc::clone(&session.id), Arc::clone(&session.archive))).collect()
    }

    /// Resolves when no run of the session is under way or waits; `None` is the agent's own session.
    pub async fn await_idle(&self, id: Option<&str>) {
        let own = self.session_id();
        let session = lock(&self.sessions).get(id.unwrap_or(&own)).cloned();
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
