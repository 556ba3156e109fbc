//! HTTP clients as everything here wants them: bounded connecting, no redirect, no retry, our TLS.

use std::sync::Once;

use reqwest::{Certificate, Client, redirect};
use url::{Host, Url};

use super::limits::{HTTP_CONNECT, HTTP_IDLE, HTTP_KEEPALIVE};
use super::{env, task};

/// The TLS part of a client could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TLS client cannot be set up")]
pub struct ClientError;

/// A client for `url` and its like: same scheme, loopback or not.
///
/// # Errors
/// When TLS cannot be set up.
pub async fn client(url: &Url) -> Result<Client, ClientError> {
    static TLS: Once = Once::new();
    TLS.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(HTTP_CONNECT)
        .pool_idle_timeout(HTTP_IDLE)
        .tcp_keepalive(HTTP_KEEPALIVE)
        .tcp_nodelay(true);
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "https" {
        if let Some(path) = env::extra_ca_certs()
            && let Ok(pem) = task::blocking(move || std::fs::read(path)).await
            && let Ok(certificates) = Certificate::from_pem_bundle(&pem)
        {
            builder = builder.tls_certs_merge(certificates);
        }
    } else {
        // No roots to load for a plain connection, and none to trust.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|_| ClientError)
}

/// Whether a URL names this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
