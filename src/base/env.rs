//! What is read from the environment of the host process, and nothing else reads it.

use std::ffi::OsString;
use std::path::PathBuf;

/// The directory of this package in a home and in a project.
pub const DOT_DIRECTORY: &str = ".lite-agent";

/// The variables a stdio server inherits when they are set.
#[cfg(unix)]
const INHERITED: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
/// The variables a stdio server inherits when they are set.
#[cfg(not(unix))]
const INHERITED: &[&str] = &[
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
    "COMSPEC",
];

/// The part of the host's environment that every stdio server sees.
#[must_use]
pub fn inherited() -> Vec<(&'static str, OsString)> {
    INHERITED.iter().filter_map(|name| Some((*name, read(name)?))).collect()
}

/// Whether the standard error of stdio servers is passed through for debugging.
#[must_use]
pub fn passes_server_stderr() -> bool {
    read("LITE_AGENT_MCP_STDERR").is_some_and(|value| value == "inherit")
}

/// What to write for debugging.
#[must_use]
pub fn log_filter() -> Option<String> {
    read("RUST_LOG")?.into_string().ok().filter(|filter| !filter.is_empty())
}

/// A file with further certificate authorities to trust.
#[must_use]
pub fn extra_ca_certs() -> Option<PathBuf> {
    read("NODE_EXTRA_CA_CERTS").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The global directory of a host that names none: `$LITE_AGENT_HOME`, or `.lite-agent` in the user's home.
#[must_use]
pub fn default_home() -> Option<PathBuf> {
    let named = read("LITE_AGENT_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| {
        let user = std::env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
        Some(user.join(DOT_DIRECTORY))
    })
}

#[expect(clippy::disallowed_methods, reason = "this is the place that reads the environment")]
fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
