//! The data directory: private to its owner, and so is every file that is made in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use lite_agent::base::secret::Secret;

/// A key file is far smaller.
const MOST_BYTES: u64 = 4096;

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    /// It cannot be made.
    #[error("the data directory {} cannot be made; check its parent's permissions or pass --data-dir", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file in it cannot be made.
    #[error("the file {} cannot be written; check the permissions and the space of its directory", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file in it cannot be read.
    #[error("the file {} cannot be read; check its permissions", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Others may read it.
    #[error("{} can be read by other users; make it private with: chmod {mode} '{}'", path.display(), path.display())]
    Open { path: PathBuf, mode: &'static str },
}

/// The directory, which exists and is private.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// Makes the directory when it is missing, and refuses one that others may read.
    pub(crate) fn prepare(path: &Path) -> Result<Self, DataDirError> {
        let create = |source| DataDirError::Create { path: path.to_owned(), source };
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(create)?;
        check_private(&fs::metadata(path).map_err(create)?, path, "700")?;
        Ok(Self(path.canonicalize().map_err(create)?))
    }

    /// A file in the directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The text of a file; made with `fresh` when it is not there. Two processes that start at once read the same.
    pub(crate) fn read_or_create<E>(
        &self,
        name: &str,
        fresh: impl FnOnce() -> Result<Secret, E>,
    ) -> Result<Result<Secret, E>, DataDirError> {
        let path = self.file(name);
        if !path.exists() {
            match fresh() {
                Ok(text) => self.place(&path, text.expose())?,
                Err(error) => return Ok(Err(error)),
            }
        }
        read_private(&path).map(Ok)
    }

    /// Makes an empty private file when there is none.
    pub(crate) fn touch(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.file(name);
        match private_file(&path) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(path),
            Err(source) => Err(DataDirError::Write { path, source }),
        }
    }

    /// Puts a whole file in its place, unless there is one by now.
    fn place(&self, path: &Path, text: &str) -> Result<(), DataDirError> {
        let draft = self.file(&format!(".{}.tmp", uuid::Uuid::new_v4()));
        let placed = private_file(&draft)
            .and_then(|mut file| {
                writeln!(file, "{text}")?;
                file.sync_all()
            })
            .and_then(|()| match fs::hard_link(&draft, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            });
        let _ = fs::remove_file(&draft);
        placed.map_err(|source| DataDirError::Write { path: path.to_owned(), source })
    }
}

/// The text of a file that its owner alone may read, without the blanks around it.
pub(crate) fn read_private(path: &Path) -> Result<Secret, DataDirError> {
    let unreadable = |source| DataDirError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    check_private(&file.metadata().map_err(unreadable)?, path, "600")?;
    let mut text = zeroize::Zeroizing::new(String::new());
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Secret::new(text.trim()))
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn check_private(metadata: &fs::Metadata, path: &Path, mode: &'static str) -> Result<(), DataDirError> {
    let is_open = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0;
    if is_open { Err(DataDirError::Open { path: path.to_owned(), mode }) } else { Ok(()) }
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every platform")]
fn check_private(_: &fs::Metadata, _: &Path, _: &'static str) -> Result<(), DataDirError> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::Scratch;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private_and_made_once() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(&scratch.path().join("a/b")).unwrap();
        let read = |text: &'static str| {
            folder.read_or_create("key", || Ok::<_, io::Error>(Secret::new(text))).unwrap().unwrap()
        };

        assert_eq!(read("one").expose(), "one");
        assert_eq!(read("two").expose(), "one", "it is there already");
        folder.place(&folder.file("key"), "three").unwrap();
        assert_eq!(read("two").expose(), "one", "another process was quicker");
        assert_eq!(mode(&folder.0), 0o700);
        assert_eq!(mode(&folder.file("key")), 0o600);
        assert_eq!(mode(&folder.touch("db").unwrap()), 0o600);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "no draft stays");
    }

    #[test]
    fn what_others_may_read_is_refused() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(scratch.path()).unwrap();
        folder.place(&folder.file("key"), "one").unwrap();
        fs::set_permissions(folder.file("key"), fs::Permissions::from_mode(0o640)).unwrap();
        let refused = folder.read_or_create("key", || Ok::<_, io::Error>(Secret::new("x"))).unwrap_err();
        assert!(matches!(&refused, DataDirError::Open { mode: "600", .. }), "{refused}");

        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(DataDir::prepare(scratch.path()), Err(DataDirError::Open { mode: "700", .. })));
    }
}
