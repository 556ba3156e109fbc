//! The HTTP API of people and programs that run the gateway: routes, and errors as JSON.

mod error;
mod health;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

pub(crate) use self::error::ApiError;
use crate::app::App;

/// Every route but the relay's.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/healthz", get(health::alive)).route("/readyz", get(health::ready))
}

/// What no route answers; the gateway is no authorization server either.
pub(crate) async fn nothing_here() -> ApiError {
    ApiError::new(axum::http::StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this address")
}
