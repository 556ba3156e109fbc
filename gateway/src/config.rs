//! What an operator sets: flags, their `LITE_GATEWAY_…` variables, and what holds without them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lite_agent::base::env;
use url::Url;

/// The port when none is named.
const DEFAULT_LISTEN: &str = "127.0.0.1:4180";

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingError {
    /// There is no home directory to fall back on.
    #[error("there is no home directory to keep data in; pass --data-dir")]
    NoHome,
    /// Others could reach it in the clear.
    #[error(
        "--listen {listen} can be reached from other machines; to mean it, pass --allow-remote and --public-url https://… of the HTTPS proxy in front"
    )]
    Remote { listen: SocketAddr },
    /// The public URL is not an address of an origin.
    #[error("--public-url {why}")]
    PublicUrl { why: &'static str },
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address and port to listen on; 127.0.0.1 stands for `::1` too
    #[arg(long, global = true, env = "LITE_GATEWAY_LISTEN", default_value = DEFAULT_LISTEN, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The address people and harnesses use [default: plain HTTP on localhost, with the port]
    #[arg(long, global = true, env = "LITE_GATEWAY_PUBLIC_URL", value_name = "URL")]
    public_url: Option<Url>,
    /// Directory for database and keys [default: ~/.lite-agent/gateway]
    #[arg(long, global = true, env = "LITE_GATEWAY_DATA_DIR", value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// File with the encryption key, 32 bytes in Base64 [default: the file `key` in the data directory]
    #[arg(long, global = true, env = "LITE_GATEWAY_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Listen on an address that other machines reach; needs an HTTPS public URL
    #[arg(long, global = true, env = "LITE_GATEWAY_ALLOW_REMOTE")]
    allow_remote: bool,
    /// How log lines are written to standard error
    #[arg(long, global = true, env = "LITE_GATEWAY_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// The settings, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<Url>,
    pub(crate) data_dir: PathBuf,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) log_format: LogFormat,
}

impl Flags {
    /// Checks the flags against each other.
    pub(crate) fn resolve(self) -> Result<Settings, SettingError> {
        let Self { listen, public_url, data_dir, key_file, allow_remote, log_format } = self;
        let public_url = public_url.map(check_public).transpose()?;
        let is_secure = public_url.as_ref().is_some_and(|url| url.scheme() == "https");
        let may_listen = listen.ip().is_loopback() || (allow_remote && is_secure);
        if !may_listen {
            return Err(SettingError::Remote { listen });
        }
        let data_dir = match data_dir {
            Some(path) => path,
            None => env::default_home().ok_or(SettingError::NoHome)?.join("gateway"),
        };
        Ok(Settings { listen, public_url, data_dir, key_file, log_format })
    }
}

/// Paths are added to it, so it is an origin and nothing more.
fn check_public(url: Url) -> Result<Url, SettingError> {
    let refused = |why| Err(SettingError::PublicUrl { why });
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refused("must begin with https:// or http://");
    }
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !is_bare || !url.username().is_empty() || url.password().is_some() {
        return refused("must be scheme, host and port alone");
    }
    if url.scheme() == "http" && !lite_agent::base::http::is_loopback(&url) {
        return refused("must use https when it is not this machine");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(listen: &str, public_url: Option<&str>, allow_remote: bool) -> Result<Settings, SettingError> {
        Flags {
            listen: listen.parse().unwrap(),
            public_url: public_url.map(|url| url.parse().unwrap()),
            data_dir: Some("/data".into()),
            key_file: None,
            allow_remote,
            log_format: LogFormat::Text,
        }
        .resolve()
    }

    #[test]
    fn listening_beyond_this_machine_is_meant_or_refused() {
        assert!(flags("127.0.0.1:4180", None, false).is_ok());
        assert!(flags("[::1]:4180", None, false).is_ok());
        assert!(flags("0.0.0.0:4180", Some("https://mcp.example.com"), true).is_ok());
        for (url, allow) in
            [(None, false), (None, true), (Some("http://localhost"), true), (Some("https://mcp.example.com"), false)]
        {
            assert!(matches!(flags("0.0.0.0:4180", url, allow), Err(SettingError::Remote { .. })), "{url:?} {allow}");
        }
    }

    #[test]
    fn a_public_url_is_an_origin() {
        for good in ["http://localhost:4180", "https://mcp.example.com", "https://mcp.example.com:8443/"] {
            assert!(flags("127.0.0.1:1", Some(good), false).is_ok(), "{good}");
        }
        for bad in [
            "http://mcp.example.com",
            "https://mcp.example.com/x",
            "https://mcp.example.com/?x",
            "https://mcp.example.com/#x",
            "https://u@mcp.example.com",
            "https://:p@mcp.example.com",
            "ftp://mcp.example.com",
            "data:x",
        ] {
            assert!(matches!(flags("127.0.0.1:1", Some(bad), false), Err(SettingError::PublicUrl { .. })), "{bad}");
        }
    }
}
