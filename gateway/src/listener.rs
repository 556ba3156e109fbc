//! Accepts connections and serves them: bounded headers, bounded waiting for them, an orderly end.

use std::io;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use lite_agent::base::task;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::limits::{GRACE, HEADER_BYTES, HEADER_WAIT};

/// How long accepting rests after it failed, for example for lack of file descriptors.
const REST: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets open requests end within the grace period.
pub(crate) async fn serve(listeners: Vec<TcpListener>, router: Router, stop: &CancellationToken) {
    let graceful = GracefulShutdown::new();
    join_all(listeners.into_iter().map(|listener| accept(listener, &router, stop, &graceful))).await;
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still open when the grace period ended");
    }
}

async fn accept(listener: TcpListener, router: &Router, stop: &CancellationToken, graceful: &GracefulShutdown) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => connection(stream, router.clone(), graceful),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no connection can be accepted");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn connection(stream: TcpStream, router: Router, graceful: &GracefulShutdown) {
    // Answers of a few bytes must not wait for more.
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let served = graceful.watch(served);
    task::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
        }
    });
}
