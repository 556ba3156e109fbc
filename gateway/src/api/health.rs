//! Whether the process lives, and whether it can serve.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::ApiError;
use crate::app::App;

pub(super) async fn alive() -> StatusCode {
    StatusCode::NO_CONTENT
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<StatusCode, ApiError> {
    app.store.ping().await?;
    Ok(StatusCode::NO_CONTENT)
}
