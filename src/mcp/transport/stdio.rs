//! A server as a child process: one JSON message a line, both ways.
//!
//! Owns the process, its reader and its writer. A line over the limit ends the connection.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;

use super::{Action, Arrival, ConnectError, Wire};
use crate::base::limits::{CLOSE_GRACE, MESSAGE_BYTES};
use crate::base::process::{self, Exit, Process, ProcessOptions};
use crate::base::{env, task};

/// What runs the line of a sandbox.
const SHELL: &str = "/bin/sh";
/// What a process that was wrapped may have ended of.
const SANDBOX_HINT: &str = "; it ran in the sandbox: check that what wrap() gives can be run and lets the server work";
/// How much is read or written at once.
const CHUNK: usize = 64 * 1024;
/// How often a quiet process is looked at: its output may be held open by one of its own children.
const LOOK: Duration = Duration::from_millis(250);
/// How long an exit code is waited for once the output has ended.
const EXIT_CODE: Duration = Duration::from_millis(50);

/// The process and the way to its input.
pub(crate) struct StdioLink {
    process: Process,
    queue: Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    wire: Arc<Wire>,
    /// What to look at besides when the process ends by itself.
    exit_hint: &'static str,
}

/// The protocol library's view of it.
pub(crate) struct StdioTransport {
    link: Arc<StdioLink>,
    inbound: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
}

/// What is started.
pub(crate) enum Program<'a> {
    /// The declared command.
    Direct { command: &'a str, args: &'a [String] },
    /// A line for the shell, made from the declared command.
    Shell { line: String, command: &'a str },
}

/// Starts the process.
pub(crate) fn open(
    program: &Program<'_>,
    declared: impl Iterator<Item = (OsString, OsString)>,
    workdir: &Path,
) -> Result<(Arc<StdioLink>, Arc<Wire>, StdioTransport), ConnectError> {
    let env = env::inherited().into_iter().map(|(name, value)| (name.into(), value)).chain(declared).collect();
    let shell_args;
    let (name, command, args, exit_hint) = match program {
        Program::Direct { command, args } => (*command, *command, *args, ""),
        Program::Shell { line, command } => {
            shell_args = ["-c".to_owned(), line.clone()];
            (*command, SHELL, shell_args.as_slice(), SANDBOX_HINT)
        }
    };
    let options = ProcessOptions { command, args, env, workdir, inherit_stderr: env::passes_server_stderr() };
    let (process, stdin, stdout) = process::spawn(options).map_err(|error| not_started(name, workdir, &error))?;
    let (wire, inbound) = Wire::new();
    let (queue, lines) = mpsc::unbounded_channel();
    let link = Arc::new(StdioLink { process, queue: Mutex::new(Some(queue)), wire: Arc::clone(&wire), exit_hint });
    task::spawn(write(stdin, lines));
    task::spawn(watch(stdout, Arc::clone(&link)));
    let transport = StdioTransport { link: Arc::clone(&link), inbound };
    Ok((link, wire, transport))
}

fn not_started(command: &str, workdir: &Path, error: &std::io::Error) -> ConnectError {
    if !workdir.is_dir() {
        return ConnectError::Workdir;
    }
    let why = match error.kind() {
        ErrorKind::NotFound => "is not found; check that it is installed and in PATH",
        ErrorKind::PermissionDenied => "is not executable; check its permissions",
        _ => "cannot be started; try it by hand",
    };
    ConnectError::Command { command: command.to_owned(), why }
}

impl StdioLink {
    fn push(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.send(line);
        }
    }

    fn close_input(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Closes the input, asks to stop, kills; each step only when the one before did not help.
    pub(crate) async fn close(&self) {
        self.close_input();
        if self.process.wait_for(CLOSE_GRACE).await.is_none() {
            self.process.terminate();
            self.process.wait_for(CLOSE_GRACE).await;
        }
        self.process.kill_and_reap().await;
    }

    /// Kills the group and reaps it at once.
    pub(crate) async fn abandon(&self) {
        self.close_input();
        self.process.kill_and_reap().await;
    }

    /// Kills the group; needs no runtime.
    pub(crate) fn kill(&self) {
        self.process.kill_and_reap_now();
    }
}

/// Writes queued lines, as many at once as there are.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(mut batch) = lines.recv().await {
        while batch.len() < CHUNK {
            match lines.try_recv() {
                Ok(line) => batch.extend_from_slice(&line),
                Err(_) => break,
            }
        }
        if stdin.write_all(&batch).await.is_err() {
            return;
        }
    }
}

/// Reads until the output ends, then tells why and clears up.
async fn watch(stdout: ChildStdout, link: Arc<StdioLink>) {
    let reason = if let Some(reason) = read(stdout, &link).await {
        reason
    } else {
        let exit = link.process.wait_for(EXIT_CODE).await.unwrap_or(Exit::Unknown);
        ConnectError::Exited { exit, hint: link.exit_hint }
    };
    let ours = link.wire.ended().is_some();
    link.wire.end(reason);
    if !ours {
        link.abandon().await;
    }
}

/// Reads lines; `None` when the process or its output ended.
async fn read(mut stdout: ChildStdout, link: &StdioLink) -> Option<ConnectError> {
    let mut buffer = BytesMut::with_capacity(CHUNK);
    let mut looked = 0;
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        buffer.reserve(CHUNK);
        let count = tokio::select! {
            biased;
            count = stdout.read_buf(&mut buffer) => count,
            _ = tick.tick() => {
                if link.process.ended().is_none() {
                    continue;
                }
                Ok(0)
            }
        };
        if matches!(count, Ok(0) | Err(_)) {
            if !buffer.is_empty() {
                line(&buffer, &link.wire);
            }
            return None;
        }
        while let Some(end) = memchr::memchr(b'\n', buffer.get(looked..)?) {
            let whole = buffer.split_to(looked + end + 1);
            if looked + end > MESSAGE_BYTES {
                return Some(too_long());
            }
            line(whole.get(..looked + end)?, &link.wire);
            looked = 0;
        }
        looked = buffer.len();
        if looked > MESSAGE_BYTES {
            return Some(too_long());
        }
    }
}

fn too_long() -> ConnectError {
    ConnectError::Limit { what: "bytes in one line", limit: MESSAGE_BYTES }
}

fn line(bytes: &[u8], wire: &Wire) {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if !bytes.trim_ascii().is_empty() {
        wire.incoming(bytes, Arrival::Line);
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = ConnectError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ConnectError>> + Send + 'static {
        let sent = self.link.wire.outgoing(item).map(|message| match message.action {
            Action::Request { .. } | Action::Cancel => self.link.push(message.body),
            Action::Nothing => {}
        });
        std::future::ready(sent)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbound.recv().await
    }

    async fn close(&mut self) -> Result<(), ConnectError> {
        self.link.wire.end(ConnectError::Closed);
        Ok(())
    }
}
