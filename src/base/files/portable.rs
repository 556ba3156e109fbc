//! Folders as paths, for systems without descriptors of folders: links are looked for before each step.

#![cfg_attr(unix, expect(unreachable_pub, reason = "here only tests reach it"))]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::log::{Missing, PortableFile};
use super::{absent_is_fine, draft_of, plain, too_large};

/// An open folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub(super) fn create_root(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        Self::open_root(root)
    }

    pub(super) fn open_root(root: &Path) -> io::Result<Self> {
        if fs::metadata(root)?.is_dir() { Ok(Self(root.to_owned())) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    pub(super) fn create(&self, name: &str) -> io::Result<Self> {
        match fs::create_dir(self.0.join(plain(name)?)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.open(name),
        }
    }

    pub(super) fn open(&self, name: &str) -> io::Result<Self> {
        let path = self.0.join(plain(name)?);
        if fs::symlink_metadata(&path)?.is_dir() { Ok(Self(path)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(plain(name)?))
    }

    /// Writes a file: all of it under its name and on the disk, or an error and no change.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = draft_of(plain(name)?);
        self.remove(&draft)?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.0.join(&draft))
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(self.0.join(&draft), self.0.join(name)));
        if written.is_err() {
            let _ = self.remove(&draft);
        }
        written
    }

    /// Adds to the end of a file, and makes it if need be.
    pub fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(plain(name)?);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => return Err(io::ErrorKind::InvalidInput.into()),
            _ => {}
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Reads a file of `at_most` so many bytes.
    pub fn read(&self, name: &str, at_most: usize) -> io::Result<Vec<u8>> {
        self.require_file(name)?;
        let mut bytes = Vec::new();
        File::open(self.0.join(name))?.take(at_most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > at_most { Err(too_large()) } else { Ok(bytes) }
    }

    /// What is in the folder. Names that are not Unicode are not ours and left out.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// When a file was last written.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        self.require_file(name)?;
        fs::metadata(self.0.join(name))?.modified()
    }

    /// Opens a file; whether another process has it, nobody can tell.
    pub(super) fn lock(&self, name: &str, missing: Missing) -> io::Result<PortableFile> {
        match self.require_file(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Create => {}
            found => found?,
        }
        let create = missing == Missing::Create;
        Ok(PortableFile(
            OpenOptions::new().read(true).write(true).create(create).truncate(false).open(self.0.join(name))?,
        ))
    }

    fn require_file(&self, name: &str) -> io::Result<()> {
        let is_file = fs::symlink_metadata(self.0.join(plain(name)?))?.is_file();
        if is_file { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Removes a file; it is fine when it is not there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.0.join(plain(name)?)))
    }
}
