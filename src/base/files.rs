//! Private files in folders of ours: mode 0600 in folders of mode 0700, whole or not there, and no symlink followed.
//!
//! A [`Place`] is a folder below a root, a [`Folder`] is one that is open. The root itself is the user's choice and may
//! be a link; nothing below it may. All of it blocks.

pub mod log;
#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use std::io;
use std::path::PathBuf;

#[cfg(not(unix))]
pub use self::portable::Folder;
#[cfg(unix)]
pub use self::unix::Folder;

/// A folder below a root, there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    parts: Vec<String>,
}

impl Place {
    /// The folder that is reached from `root` through `parts`.
    #[must_use]
    pub fn new(root: PathBuf, parts: Vec<String>) -> Self {
        Self { root, parts }
    }

    /// A folder in this one.
    #[must_use]
    pub fn join(&self, name: impl Into<String>) -> Self {
        let mut inner = self.clone();
        inner.parts.push(name.into());
        inner
    }

    /// Opens the folder and makes what is missing of the way there.
    pub fn create(&self) -> io::Result<Folder> {
        let mut folder = Folder::create_root(&self.root)?;
        for part in &self.parts {
            folder = folder.create(part)?;
        }
        Ok(folder)
    }

    /// Opens the folder, which must be there.
    pub fn open(&self) -> io::Result<Folder> {
        let mut folder = Folder::open_root(&self.root)?;
        for part in &self.parts {
            folder = folder.open(part)?;
        }
        Ok(folder)
    }

    /// Removes the folder, which must be empty; it is fine when it is not there.
    pub fn remove(&self) -> io::Result<()> {
        let (parent, last) = self.split()?;
        absent_is_fine(parent.open().and_then(|parent| parent.remove_folder(last)))
    }

    /// Removes the folder and all that is in it; it is fine when it is not there.
    pub fn remove_all(&self) -> io::Result<()> {
        let (parent, last) = self.split()?;
        absent_is_fine(parent.open().and_then(|parent| remove_all(&parent, last)))
    }

    fn split(&self) -> io::Result<(Self, &str)> {
        let (last, parts) = self.parts.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((Self::new(self.root.clone(), parts.to_vec()), last))
    }
}

/// Links are removed, never followed.
fn remove_all(parent: &Folder, name: &str) -> io::Result<()> {
    let folder = parent.open(name)?;
    for inner in folder.names()? {
        match folder.open(&inner) {
            Ok(_) => remove_all(&folder, &inner)?,
            Err(_) => folder.remove(&inner)?,
        }
    }
    parent.remove_folder(name)
}

/// A file that is not there needs no removing.
fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// One name, not a way to somewhere else.
fn plain(name: &str) -> io::Result<&str> {
    let leads_away = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0', ':']);
    if leads_away { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(name) }
}

/// Where a file is written before it gets its name. One writer at a time has a folder.
fn draft_of(name: &str) -> String {
    format!(".{name}.tmp")
}

fn too_large() -> io::Error {
    io::ErrorKind::FileTooLarge.into()
}

#[cfg(test)]
#[path = "files/tests.rs"]
mod tests;
