//! Where background tasks start.

use std::future::Future;

use tokio::task::JoinHandle;

#[expect(clippy::disallowed_methods, reason = "this is the place that starts tasks")]
/// Starts a task on the current runtime.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Runs work that blocks, off the runtime's own threads.
///
/// # Errors
/// What the work returns; also when it panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
}
