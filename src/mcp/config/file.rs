//! One `mcps.json`: found, read within its bounds, and checked, with a place for everything that is wrong.
//!
//! Leaves lines and columns to [`places`](super::places), and what belongs together to
//! [`merge`](super::merge).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

use serde_json::Value;

use super::merge::Placed;
use super::places::{Places, position};
use super::problem::{ConfigError, FilePlace, Position, Problem, escaped, short};
use super::validate::parse_server;
use super::{AllowedTransports, Source};
use crate::base::code::ErrorCode;
use crate::base::env::DOT_DIRECTORY;
use crate::base::limits::CONFIG_FILE_BYTES;
use crate::base::suggest::closest;

const NAME: &str = "mcps.json";
const SERVERS_KEY: &str = "mcpServers";

/// One `mcps.json`: the steps to it from a directory that the host named. No step may be a symlink.
pub(super) struct McpsFile {
    role: Source,
    root: PathBuf,
    steps: &'static [&'static str],
}

impl McpsFile {
    /// The file in the home directory.
    pub(super) fn global(home: PathBuf) -> Self {
        Self { role: Source::Global, root: home, steps: &[NAME] }
    }

    /// The file of the project.
    pub(super) fn project(workdir: PathBuf) -> Self {
        Self { role: Source::Project, root: workdir, steps: &[DOT_DIRECTORY, NAME] }
    }

    /// Its servers; none when there is no file.
    pub(super) fn load(&self, transports: &AllowedTransports) -> Result<Vec<Placed>, ConfigError> {
        let Some(bytes) = self.read()? else {
            return Ok(Vec::new());
        };
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
        let text = str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let message = "is not valid UTF-8; save the file as UTF-8";
            self.problem(Some(position(&valid, valid.len())), String::new(), message)
        })?;
        let malformed = |error| self.malformed(text, &error);
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        let places = Places::find(text).map_err(malformed)?;
        self.servers(&value, &places, transports)
    }

    fn read(&self) -> Result<Option<Vec<u8>>, Problem> {
        let mut path = self.root.clone();
        for step in self.steps {
            path.push(step);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_symlink() => {
                    let what = if *step == NAME { "is" } else { "is in a directory that is" };
                    return Err(self.unreadable(format!("{what} a symbolic link, which is never followed")));
                }
                Ok(found) if *step == NAME && !found.is_file() => return Err(self.unreadable("is not a file")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let file = open(&path).map_err(|error| self.failed(&error))?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(self.unreadable("is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(CONFIG_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| self.failed(&error))?;
        if bytes.len() > CONFIG_FILE_BYTES {
            return Err(self.unreadable(format!("is too large: at most {} KiB are allowed", CONFIG_FILE_BYTES / 1024)));
        }
        Ok(Some(bytes))
    }

    fn servers(
        &self,
        value: &Value,
        places: &Places<'_>,
        transports: &AllowedTransports,
    ) -> Result<Vec<Placed>, ConfigError> {
        let invalid = |path: String, message: String| self.problem(Some(places.position(&path)), path, message);
        let Some(members) = value.as_object() else {
            let message = format!("must be an object: {{ \"{SERVERS_KEY}\": {{ … }} }}");
            return Err(invalid(String::new(), message).into());
        };
        let mut problems: Vec<Problem> = places
            .twice()
            .map(|(path, second)| self.problem(Some(second), path.to_owned(), "this key is there twice"))
            .collect();
        for key in members.keys().filter(|key| *key != SERVERS_KEY) {
            let hint = closest(key, &[SERVERS_KEY]).map(|word| format!(", did you mean \"{word}\"?"));
            let message = format!("unknown key {:?}{}", short(key), hint.unwrap_or_default());
            problems.push(invalid(format!("/{}", escaped(key)), message));
        }
        let mut found = Vec::new();
        match members.get(SERVERS_KEY) {
            None => problems.push(invalid(String::new(), format!("has no \"{SERVERS_KEY}\""))),
            Some(Value::Object(servers)) => {
                for (name, value) in servers {
                    let path = format!("/{SERVERS_KEY}/{}", escaped(name));
                    let place = FilePlace { role: self.role, position: Some(places.position(&path)) };
                    match parse_server(name, value, self.role).and_then(|server| transports.check(server)) {
                        Ok(declaration) => found.push(Placed { declaration, place: Some(place) }),
                        Err(error) => problems.extend(error.problems().iter().map(|problem| {
                            let path = format!("{path}{}", problem.path);
                            problem.clone().placed(self.role, Some(places.position(&path)), path)
                        })),
                    }
                }
            }
            Some(_) => {
                let message = "must be an object of declarations by server name".to_owned();
                problems.push(invalid(format!("/{SERVERS_KEY}"), message));
            }
        }
        problems.sort_by_key(|problem| problem.file.and_then(|file| file.position));
        ConfigError::all(problems).map_or(Ok(found), Err)
    }

    fn malformed(&self, text: &str, error: &serde_json::Error) -> Problem {
        let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let told = error.to_string();
        let suffix = format!(" at line {} column {}", error.line(), error.column());
        let what = told.strip_suffix(suffix.as_str()).unwrap_or("not understood");
        let rest = &text[offset..];
        let hint = if what == "trailing comma" {
            // The parser stands at the bracket after it.
            offset = text[..offset].rfind(',').unwrap_or(offset);
            "; remove the comma after the last entry"
        } else if ["//", "/*", "#"].iter().any(|mark| rest.starts_with(mark)) {
            "; comments are not allowed, remove this one"
        } else if rest.starts_with('\'') {
            "; use double quotes"
        } else if error.is_eof() {
            offset = text.trim_end().len();
            "; the file is empty or cut off"
        } else {
            ""
        };
        self.problem(Some(position(text, offset)), String::new(), format!("is not valid JSON: {what}{hint}"))
    }

    fn failed(&self, error: &io::Error) -> Problem {
        // The whole text of an error may quote a path.
        self.unreadable(format!("cannot be read: {}", error.kind()))
    }

    fn unreadable(&self, message: impl Into<String>) -> Problem {
        self.problem(None, String::new(), message)
    }

    fn problem(&self, position: Option<Position>, path: String, message: impl Into<String>) -> Problem {
        Problem::new(ErrorCode::ConfigInvalid, "", "", message).placed(self.role, position, path)
    }
}

/// Opens a file that has just been seen: never through a symlink, and without waiting for a pipe's other end.
fn open(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    }
    options.open(path)
}
