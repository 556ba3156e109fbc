//! The host's sandbox around the commands of stdio servers.
//!
//! Owns when it is made ready and put away. A command is wrapped only after its server was permitted; without
//! a wrapped command nothing starts.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::connection::ConnectError;
use crate::base::fault::HostError;
use crate::base::limits::HOST_DEADLINE;

/// The sandbox as the host gives it.
pub trait SandboxHost: Send + Sync {
    /// Makes it ready; called before the first command.
    fn initialize(&self) -> BoxFuture<'_, Result<(), HostError>>;

    /// Turns a shell command into the one that runs it inside.
    fn wrap<'a>(&'a self, command: &'a str, cwd: &'a Path) -> BoxFuture<'a, Result<String, HostError>>;

    /// Puts it away; called once, after the last process ended.
    fn dispose(&self) -> BoxFuture<'_, Result<(), HostError>>;
}

/// A sandbox, made ready when it is needed first.
pub struct Sandbox {
    host: Arc<dyn SandboxHost>,
    ready: OnceCell<()>,
}

impl Sandbox {
    /// Calls nothing yet.
    #[must_use]
    pub fn new(host: Arc<dyn SandboxHost>) -> Arc<Self> {
        Arc::new(Self { host, ready: OnceCell::new() })
    }

    /// The shell command that runs a program inside.
    ///
    /// # Errors
    /// When the sandbox fails, is late, or gives nothing that can be run. A failed preparation is tried again
    /// with the next command.
    pub(super) async fn wrap(&self, command: &str, args: &[String], cwd: &Path) -> Result<String, ConnectError> {
        let failed = |what| ConnectError::Sandbox { what };
        if cfg!(not(unix)) {
            return Err(failed("a sandbox needs /bin/sh, which this system has not"));
        }
        let ready = self.ready.get_or_try_init(|| async {
            let initialized = timeout(HOST_DEADLINE, self.host.initialize()).await;
            initialized.map_err(|_| failed("initialize() was late"))?.map_err(|_| failed("initialize() failed"))
        });
        ready.await?;
        let words = std::iter::once(command).chain(args.iter().map(String::as_str));
        let line = shlex::try_join(words).map_err(|_| failed("the command cannot be quoted"))?;
        let wrapped = timeout(HOST_DEADLINE, self.host.wrap(&line, cwd)).await;
        let wrapped = wrapped.map_err(|_| failed("wrap() was late"))?.map_err(|_| failed("wrap() failed"))?;
        if wrapped.trim().is_empty() || wrapped.contains('\0') {
            return Err(failed("wrap() gave no command"));
        }
        Ok(wrapped)
    }

    /// Puts away what was made ready.
    ///
    /// # Errors
    /// When the host's function fails or is late.
    pub async fn dispose(&self) -> Result<(), &'static str> {
        if !self.ready.initialized() {
            return Ok(());
        }
        match timeout(HOST_DEADLINE, self.host.dispose()).await {
            Ok(disposed) => disposed.map_err(|_| "the sandbox's dispose() failed"),
            Err(_) => Err("the sandbox's dispose() was late"),
        }
    }
}
