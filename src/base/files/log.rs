//! A file that only grows, open for one process at a time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::{Folder, too_large};

/// What to do when the file is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Make it.
    Create,
    /// That is an error.
    Refuse,
}

/// A file that other processes are kept from while it is open.
#[cfg(unix)]
pub(super) type LockedFile = nix::fcntl::Flock<File>;
#[cfg(not(unix))]
pub(super) type LockedFile = PortableFile;

/// A file that is not locked.
#[cfg(any(not(unix), test))]
#[derive(Debug)]
pub(super) struct PortableFile(pub(super) File);

#[cfg(any(not(unix), test))]
impl std::ops::Deref for PortableFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

/// An open log. All of it blocks, but a short [`append`](Self::append) only as long as the system takes to copy it.
#[derive(Debug)]
pub struct Log {
    file: LockedFile,
    len: u64,
}

impl Log {
    /// Opens a log in a folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while it is open elsewhere.
    pub fn open(folder: &Folder, name: &str, missing: Missing) -> io::Result<Self> {
        let file = folder.lock(name, missing)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, if that is `at_most` so many bytes.
    pub fn read(&self, at_most: u64) -> io::Result<Vec<u8>> {
        if self.len > at_most {
            return Err(too_large());
        }
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(self.len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Adds to the end: all of it, or an error and no change.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = write_at(&self.file, bytes, self.len);
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            // What was written of it must not stay.
            Err(_) => self.file.set_len(self.len)?,
        }
        written
    }

    /// Cuts off what follows the first `len` bytes.
    pub fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.len = len;
        Ok(())
    }

    /// Waits until it is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// One system call where there is one for it: a run writes twice a turn.
#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    io::Write::write_all(&mut file, bytes)
}
