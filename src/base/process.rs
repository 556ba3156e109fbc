//! Child processes: how they start, and how their whole group ends.
//!
//! A child leads its own process group. The group is signalled before its leader is reaped, so that a
//! number that was given to someone else is never hit.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

#[cfg(unix)]
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How often a leader that should end is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long a killed leader may take to be reaped before the runtime's own reaper takes over.
const REAP: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Debug)]
pub struct ProcessOptions<'a> {
    /// The program, looked up in the child's `PATH`.
    pub command: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub workdir: &'a Path,
    /// Whether its standard error goes to ours; it is discarded otherwise.
    pub inherit_stderr: bool,
}

/// A running child and its group.
#[derive(Debug)]
pub struct Process {
    /// The group, until it is killed for good.
    #[cfg(unix)]
    group: Mutex<Option<Pid>>,
    child: Mutex<Option<Child>>,
}

/// Starts a child with piped input and output.
///
/// # Errors
/// When the program cannot be started.
pub fn spawn(options: ProcessOptions<'_>) -> io::Result<(Process, ChildStdin, ChildStdout)> {
    #[expect(clippy::disallowed_methods, reason = "this is the place that starts processes")]
    let mut command = Command::new(options.command);
    command
        .args(options.args)
        .env_clear()
        .envs(options.env)
        .current_dir(options.workdir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if options.inherit_stderr { own_stderr() } else { Stdio::null() })
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    #[cfg(target_os = "linux")]
    die_with_parent(&mut command);
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let process = Process {
        #[cfg(unix)]
        group: Mutex::new(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)),
        child: Mutex::new(Some(child)),
    };
    Ok((process, stdin, stdout))
}

/// Our standard error for a child. Node.js marks its own to close when a program is started, so the child gets a copy; a
/// process without one has nothing to pass on.
fn own_stderr() -> Stdio {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
    }
    #[cfg(not(unix))]
    Stdio::inherit()
}

/// Asks the kernel to kill the child when the thread that starts it ends.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the hook runs between fork and exec; it makes one system call and does not allocate")]
fn die_with_parent(command: &mut Command) {
    // SAFETY: `prctl` is async-signal-safe, and the closure touches no memory of ours.
    unsafe {
        command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Whether the leader has ended; it is not reaped by asking.
    #[must_use]
    pub fn ended(&self) -> Option<Exit> {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
            let group = locked(&self.group);
            let Some(pid) = *group else { return Some(Exit::Unknown) };
            match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Exited(_, code)) => Some(Exit::Code(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => Some(Exit::Signal(signal.as_str())),
                Ok(WaitStatus::StillAlive) => None,
                Ok(_) | Err(_) => Some(Exit::Unknown),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let mut child = locked(&self.child);
            match child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => None,
                Some(Ok(Some(status))) => Some(exit_of(status)),
                Some(Err(_)) | None => Some(Exit::Unknown),
            }
        }
    }

    /// Waits until the leader ends, at most for `grace`.
    pub async fn wait_for(&self, grace: Duration) -> Option<Exit> {
        let until = Instant::now() + grace;
        loop {
            if let Some(exit) = self.ended() {
                return Some(exit);
            }
            if Instant::now() >= until {
                return None;
            }
            sleep(POLL).await;
        }
    }

    /// Asks the whole group to stop.
    pub fn terminate(&self) {
        #[cfg(unix)]
        if let Some(group) = *locked(&self.group) {
            let _ = killpg(group, Signal::SIGTERM);
        }
    }

    /// Kills the whole group at once. Needs no runtime.
    pub fn kill(&self) {
        #[cfg(unix)]
        if let Some(group) = *locked(&self.group) {
            let _ = killpg(group, Signal::SIGKILL);
        }
        #[cfg(not(unix))]
        if let Some(child) = locked(&self.child).as_mut() {
            let _ = child.start_kill();
        }
    }

    /// Kills the whole group and reaps its leader without a runtime; waits 200 ms at the most.
    pub fn kill_and_reap_now(&self) {
        self.kill();
        let Some(mut child) = locked(&self.child).take() else { return };
        #[cfg(unix)]
        locked(&self.group).take();
        // A killed process ends within a few milliseconds; the thread that waits is going away.
        for _ in 0..200 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the whole group and reaps its leader. Once is enough; again does nothing.
    pub async fn kill_and_reap(&self) {
        self.kill();
        let Some(mut child) = locked(&self.child).take() else { return };
        #[cfg(unix)]
        locked(&self.group).take();
        let _ = timeout(REAP, child.wait()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with a code.
    Code(i32),
    /// By a signal of this name.
    Signal(&'static str),
    /// Nobody can tell any more.
    Unknown,
}

#[cfg(not(target_os = "linux"))]
fn exit_of(status: std::process::ExitStatus) -> Exit {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Signal::try_from(signal).map_or(Exit::Unknown, |signal| Exit::Signal(signal.as_str()));
    }
    status.code().map_or(Exit::Unknown, Exit::Code)
}
