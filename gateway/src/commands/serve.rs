//! `serve`: opens keys and store, listens, and ends in order.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use lite_agent::base::env;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use url::Url;

use crate::app::{self, App};
use crate::config::{LogFormat, Settings};
use crate::data_dir::{DataDir, DataDirError};
use crate::guard::Guard;
use crate::keys::{self, KeyError};
use crate::listener;
use crate::store::{Store, StoreError};

/// Why the gateway does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// Its directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Its keys.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Its store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address is taken or not ours.
    #[error("cannot listen on {listen}; is another gateway running? pass --listen to use another port")]
    Listen {
        listen: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// Signals or standard output.
    #[error("the gateway cannot talk to its surroundings")]
    System(#[source] io::Error),
}

pub(super) async fn run(settings: Settings) -> Result<(), ServeError> {
    start_log(settings.log_format);
    let folder = DataDir::prepare(&settings.data_dir)?;
    let key = keys::master(&folder, settings.key_file)?;
    let store = Store::open(&folder, &key).await?;
    let listeners = listen(settings.listen).await?;
    let address = listeners.first().map_or(Ok(settings.listen), TcpListener::local_addr).map_err(ServeError::System)?;
    let public_url = settings.public_url.unwrap_or_else(|| local_url(address));
    let guard = Guard::new(&public_url, address);
    let router = app::router(Arc::new(App { store: store.clone() }), guard);

    let stop = CancellationToken::new();
    let signal = stop_signal().map_err(ServeError::System)?;
    writeln!(io::stdout(), "Listening on {}", public_url.origin().ascii_serialization()).map_err(ServeError::System)?;
    tracing::info!(address = %address, "the gateway serves");
    tokio::join!(
        async {
            signal.await;
            tracing::info!("the gateway stops: no new requests, open ones may end");
            stop.cancel();
        },
        listener::serve(listeners, router, &stop),
    );
    store.close().await;
    tracing::info!("the gateway has stopped");
    Ok(())
}

/// `RUST_LOG` decides what is written; without it, what an operator wants to know.
fn start_log(format: LogFormat) {
    let filter = env::log_filter().unwrap_or_else(|| "warn,lite_gateway=info".to_owned());
    let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

/// The sockets: for 127.0.0.1 also `::1`, where the machine has it, since `localhost` may mean either.
async fn listen(address: SocketAddr) -> Result<Vec<TcpListener>, ServeError> {
    let bind =
        |listen| async move { TcpListener::bind(listen).await.map_err(|source| ServeError::Listen { listen, source }) };
    let first = bind(address).await?;
    let port = first.local_addr().map_err(ServeError::System)?.port();
    let mut listeners = vec![first];
    if address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        match bind(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)).await {
            Ok(second) => listeners.push(second),
            Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "no listener on ::1"),
        }
    }
    Ok(listeners)
}

fn local_url(address: SocketAddr) -> Url {
    let text = format!("http://localhost:{}", address.port());
    // A host and a port always make a URL.
    Url::parse(&text).unwrap_or_else(|_| unreachable!("{text}"))
}

/// Resolves when the process is asked to end.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
