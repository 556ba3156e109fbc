use std::fs;
use std::path::Path;

use super::log::{Log, Missing};
use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("lite-agent-files-{}", uuid::Uuid::new_v4())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn place(root: &Path) -> Place {
    Place::new(root.join("home"), vec!["a".into(), "b".into()])
}

#[test]
fn what_is_written_is_read_and_removed() {
    let scratch = Scratch::new();
    let place = place(&scratch.0);
    assert_eq!(place.open().unwrap_err().kind(), io::ErrorKind::NotFound);
    let folder = place.create().unwrap();
    folder.write("one", b"first").unwrap();
    folder.write("one", b"second").unwrap();
    folder.append("log", b"1\n").unwrap();
    folder.append("log", b"2\n").unwrap();
    assert_eq!(folder.read("one", 6).unwrap(), b"second");
    assert_eq!(folder.read("one", 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(folder.read("log", 99).unwrap(), b"1\n2\n");
    assert!(place.remove().is_err(), "it is not empty");
    for name in ["one", "log", "absent"] {
        folder.remove(name).unwrap();
    }
    place.remove().unwrap();
    place.remove().unwrap();
    assert!(scratch.0.join("home/a").is_dir() && !scratch.0.join("home/a/b").exists());
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let scratch = Scratch::new();
    let folder = place(&scratch.0).create().unwrap();
    for name in ["", ".", "..", "../x", "x/y", "/x", "x\0", "c:x"] {
        assert_eq!(folder.write(name, b"").unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        assert!(place(&scratch.0).join(name).create().is_err(), "{name}");
    }
}

#[test]
fn a_log_grows_and_is_cut() {
    let scratch = Scratch::new();
    let folder = place(&scratch.0).create().unwrap();
    assert_eq!(Log::open(&folder, "log", Missing::Refuse).unwrap_err().kind(), io::ErrorKind::NotFound);
    let mut log = Log::open(&folder, "log", Missing::Create).unwrap();
    assert!(log.is_empty());
    log.append(b"one ").unwrap();
    log.append(b"two").unwrap();
    assert_eq!(log.read(7).unwrap(), b"one two");
    assert_eq!(log.read(6).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    log.truncate(4).unwrap();
    log.append(b"2").unwrap();
    log.sync().unwrap();
    drop(log);
    let log = Log::open(&folder, "log", Missing::Refuse).unwrap();
    assert_eq!((log.len(), log.read(99).unwrap()), (5, b"one 2".to_vec()));
}

#[test]
fn a_folder_goes_with_all_that_is_in_it() {
    let scratch = Scratch::new();
    let place = place(&scratch.0);
    place.remove_all().unwrap();
    let folder = place.create().unwrap();
    folder.write("file", b"x").unwrap();
    place.join("inner").create().unwrap().write("file", b"x").unwrap();
    let mut names = folder.names().unwrap();
    names.sort();
    assert_eq!(names, ["file", "inner"]);
    assert!(folder.modified("file").is_ok() && folder.modified("inner").is_err());
    place.remove_all().unwrap();
    assert!(scratch.0.join("home/a").is_dir() && !scratch.0.join("home/a/b").exists());
}

#[cfg(unix)]
mod unix_only {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::portable;
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_and_folders_are_their_owners_alone() {
        let scratch = Scratch::new();
        let folder = place(&scratch.0).create().unwrap();
        folder.write("file", b"x").unwrap();
        folder.append("log", b"x").unwrap();
        let inner = scratch.0.join("home/a/b");
        assert_eq!([mode(&scratch.0.join("home")), mode(&scratch.0.join("home/a")), mode(&inner)], [0o700; 3]);
        assert_eq!([mode(&inner.join("file")), mode(&inner.join("log"))], [0o600; 2]);
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn no_link_below_the_root_is_followed() {
        let scratch = Scratch::new();
        let elsewhere = scratch.0.join("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        fs::create_dir_all(scratch.0.join("home/a")).unwrap();
        fs::write(elsewhere.join("target"), b"theirs").unwrap();
        symlink(&elsewhere, scratch.0.join("home/a/b")).unwrap();
        assert!(place(&scratch.0).create().is_err());
        assert!(place(&scratch.0).open().is_err());

        let other = Place::new(scratch.0.join("home"), vec!["c".into()]);
        let folder = other.create().unwrap();
        symlink(elsewhere.join("target"), scratch.0.join("home/c/file")).unwrap();
        assert!(folder.read("file", 99).is_err());
        assert!(folder.append("file", b"ours").is_err());
        symlink(elsewhere.join("target"), scratch.0.join("home/c/.file.tmp")).unwrap();
        folder.write("file", b"ours").unwrap();
        assert_eq!(folder.read("file", 99).unwrap(), b"ours");
        assert_eq!(fs::read(elsewhere.join("target")).unwrap(), b"theirs");
    }

    #[test]
    fn a_log_is_open_once_and_goes_with_its_file() {
        let scratch = Scratch::new();
        let folder = place(&scratch.0).create().unwrap();
        let log = Log::open(&folder, "log", Missing::Create).unwrap();
        assert_eq!(mode(&scratch.0.join("home/a/b/log")), 0o600);
        let error = Log::open(&folder, "log", Missing::Create).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(log);
        Log::open(&folder, "log", Missing::Refuse).unwrap();
        symlink(scratch.0.join("home/a/b/log"), scratch.0.join("home/a/b/link")).unwrap();
        assert!(Log::open(&folder, "link", Missing::Create).is_err());
    }

    #[test]
    fn removing_a_folder_follows_no_link() {
        let scratch = Scratch::new();
        let elsewhere = scratch.0.join("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(elsewhere.join("target"), b"theirs").unwrap();
        place(&scratch.0).create().unwrap();
        symlink(&elsewhere, scratch.0.join("home/a/b/link")).unwrap();
        place(&scratch.0).remove_all().unwrap();
        assert_eq!(fs::read(elsewhere.join("target")).unwrap(), b"theirs");
        symlink(&elsewhere, scratch.0.join("home/a/b")).unwrap();
        assert!(place(&scratch.0).remove_all().is_err());
        assert!(elsewhere.join("target").exists());
    }

    #[test]
    fn the_portable_form_does_the_same() {
        let scratch = Scratch::new();
        let root = portable::Folder::create_root(&scratch.0).unwrap();
        let folder = root.create("a").unwrap();
        folder.write("file", b"one").unwrap();
        folder.write("file", b"two").unwrap();
        folder.append("log", b"1").unwrap();
        folder.append("log", b"2").unwrap();
        assert_eq!(folder.read("file", 3).unwrap(), b"two");
        assert_eq!(folder.read("log", 1).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        symlink(scratch.0.join("a/file"), scratch.0.join("a/link")).unwrap();
        symlink(scratch.0.join("a"), scratch.0.join("b")).unwrap();
        assert!(folder.read("link", 99).is_err());
        assert!(folder.append("link", b"x").is_err());
        assert!(root.open("b").is_err());
        assert!(folder.lock("link", Missing::Create).is_err());
        assert!(folder.lock("absent", Missing::Refuse).is_err());
        folder.lock("new", Missing::Create).unwrap().set_len(3).unwrap();
        assert_eq!(folder.read("new", 3).unwrap(), [0; 3]);
        folder.remove("new").unwrap();
        assert!(folder.modified("file").is_ok() && folder.modified("link").is_err());
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, ["file", "link", "log"]);
        for name in ["file", "log", "link"] {
            folder.remove(name).unwrap();
        }
        root.remove_folder("a").unwrap();
        assert_eq!(root.open("a").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
