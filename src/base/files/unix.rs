//! Folders as descriptors: what was checked is what is used, whatever becomes of the path meanwhile.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::log::{LockedFile, Missing};
use super::{absent_is_fine, draft_of, plain, too_large};

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    pub(super) fn create_root(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        Self::open_root(root)
    }

    pub(super) fn open_root(root: &Path) -> io::Result<Self> {
        Ok(Self(File::open(root)?.into()))
    }

    pub(super) fn create(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.0, plain(name)?, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => self.open(name),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn open(&self, name: &str) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self(openat(&self.0, plain(name)?, flags, Mode::empty())?))
    }

    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, plain(name)?, UnlinkatFlags::RemoveDir)?)
    }

    /// Writes a file: all of it under its name and on the disk, or an error and no change.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = draft_of(plain(name)?);
        self.remove(&draft)?;
        let written = self
            .file(&draft, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| Ok(renameat(&self.0, draft.as_str(), &self.0, name)?))
            .and_then(|()| self.sync());
        if written.is_err() {
            let _ = self.remove(&draft);
        }
        written
    }

    /// Adds to the end of a file, and makes it if need be.
    pub fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file(plain(name)?, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Reads a file of `at_most` so many bytes.
    pub fn read(&self, name: &str, at_most: usize) -> io::Result<Vec<u8>> {
        let file = self.file(plain(name)?, OFlag::O_RDONLY)?;
        let expected = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if expected > at_most {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(expected);
        file.take(at_most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > at_most { Err(too_large()) } else { Ok(bytes) }
    }

    /// Removes a file; it is fine when it is not there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        absent_is_fine(unlinkat(&self.0, plain(name)?, UnlinkatFlags::NoRemoveDir).map_err(io::Error::from))
    }

    /// What is in the folder. Names that are not Unicode are not ours and left out.
    pub fn names(&self) -> io::Result<Vec<String>> {
        // A descriptor of its own: reading moves its position.
        let mut entries =
            Dir::openat(&self.0, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let mut names = Vec::new();
        for entry in entries.iter() {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// When a file was last written.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        self.file(plain(name)?, OFlag::O_RDONLY)?.metadata()?.modified()
    }

    /// Opens a file for this process alone; [`io::ErrorKind::ResourceBusy`] while another one has it.
    pub(super) fn lock(&self, name: &str, missing: Missing) -> io::Result<LockedFile> {
        let create = match missing {
            Missing::Create => OFlag::O_CREAT,
            Missing::Refuse => OFlag::empty(),
        };
        let file = self.file(plain(name)?, OFlag::O_RDWR | create)?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
            Errno::EWOULDBLOCK => io::ErrorKind::ResourceBusy.into(),
            other => io::Error::from(other),
        })?;
        let metadata = locked.metadata()?;
        if metadata.nlink() == 0 {
            // It was removed between the two steps.
            return Err(io::ErrorKind::NotFound.into());
        }
        if metadata.len() == 0 {
            self.sync()?;
        }
        Ok(locked)
    }

    /// Opens a file; a pipe or a device that stands in its place is refused without waiting for it.
    fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = File::from(openat(&self.0, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn sync(&self) -> io::Result<()> {
        File::from(self.0.as_fd().try_clone_to_owned()?).sync_all()
    }
}
