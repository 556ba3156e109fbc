//! Who may ask at all: requests whose `Host` and `Origin` are this gateway's.
//!
//! A page on another site can make a browser send requests here, under a name of its own that leads to this address
//! (DNS rebinding). Neither header can be forged by such a page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use url::Url;

use crate::api::ApiError;

/// Paths that say nothing, asked by name or by address of the machine.
const OPEN_PATHS: &[&str] = &["/healthz", "/readyz"];

/// The names of this gateway.
#[derive(Debug)]
pub(crate) struct Guard {
    /// `host:port`, the port left out where the scheme implies it.
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// The public URL, and on this machine every way to write the address.
    pub(crate) fn new(public_url: &Url, listen: SocketAddr) -> Self {
        let mut origins = vec![public_url.origin().ascii_serialization()];
        if listen.ip().is_loopback() {
            let port = listen.port();
            let names = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("http://{name}:{port}"));
            // The port 80 is left out.
            let parsed = names.iter().filter_map(|name| Url::parse(name).ok());
            origins.extend(parsed.map(|url| url.origin().ascii_serialization()));
        }
        let host = |origin: &String| origin.split_once("://").map(|(_, host)| host.to_owned());
        Self { hosts: origins.iter().filter_map(host).collect(), origins }
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut hosts = headers.get_all(HOST).iter();
        let (host, other) = (hosts.next(), hosts.next());
        let is_ours = |host: &str| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
        let named = host.and_then(|host| host.to_str().ok()).is_some_and(is_ours);
        if !named || other.is_some() || uri.authority().is_some_and(|authority| !is_ours(authority.as_str())) {
            let message = "the request's Host is not this gateway's; use its public URL, or set --public-url";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "HOST_REFUSED", message));
        }
        let foreign = |origin: &axum::http::HeaderValue| {
            !self.origins.iter().any(|ours| ours.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
        };
        if headers.get_all(ORIGIN).iter().any(foreign) {
            let message = "pages of other sites may not use this gateway";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "ORIGIN_REFUSED", message));
        }
        Ok(())
    }
}

/// The check as a layer.
pub(crate) async fn layer(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if !OPEN_PATHS.contains(&request.uri().path())
        && let Err(refused) = guard.check(request.uri(), request.headers())
    {
        return refused.into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: &Guard, uri: &str, headers: &[(&str, &str)]) -> Option<&'static str> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        guard.check(&uri.parse().unwrap(), &headers).err().map(|error| error.code())
    }

    #[test]
    fn only_our_own_names_pass() {
        let local = Guard::new(&Url::parse("http://localhost:4180").unwrap(), SocketAddr::from(([127, 0, 0, 1], 4180)));
        for host in ["localhost:4180", "127.0.0.1:4180", "[::1]:4180", "LOCALHOST:4180"] {
            assert_eq!(verdict(&local, "/", &[("host", host)]), None, "{host}");
        }
        for host in
            ["localhost", "localhost:4181", "evil.example:4180", "evil.example", "localhost:4180.evil.example", ""]
        {
            assert_eq!(verdict(&local, "/", &[("host", host)]), Some("HOST_REFUSED"), "{host}");
        }
        assert_eq!(verdict(&local, "/", &[]), Some("HOST_REFUSED"));
        assert_eq!(verdict(&local, "/", &[("host", "localhost:4180"), ("host", "evil.example")]), Some("HOST_REFUSED"));
        assert_eq!(verdict(&local, "http://evil.example/", &[("host", "localhost:4180")]), Some("HOST_REFUSED"));

        let at = |origin| verdict(&local, "/", &[("host", "localhost:4180"), ("origin", origin)]);
        assert_eq!(at("http://localhost:4180"), None);
        for origin in ["http://evil.example", "https://localhost:4180", "http://localhost", "null", ""] {
            assert_eq!(at(origin), Some("ORIGIN_REFUSED"), "{origin}");
        }
    }

    #[test]
    fn behind_a_proxy_the_public_name_alone_counts() {
        let public =
            Guard::new(&Url::parse("https://mcp.example.com").unwrap(), SocketAddr::from(([0, 0, 0, 0], 4180)));
        assert_eq!(verdict(&public, "/", &[("host", "mcp.example.com")]), None);
        assert_eq!(verdict(&public, "/", &[("host", "mcp.example.com"), ("origin", "https://mcp.example.com")]), None);
        assert_eq!(verdict(&public, "/", &[("host", "localhost:4180")]), Some("HOST_REFUSED"));
    }
}
