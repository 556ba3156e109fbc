//! An error as a caller of the API reads it: `{ "error": { "code", "message", "fields"? } }`.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::store::StoreError;

/// See the module. Messages are ours: they hold no secret, no value and no text of another server.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Body,
}

#[derive(Debug, Serialize)]
struct Body {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Envelope {
    error: Body,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, body: Body { code, message: message.into(), fields: BTreeMap::new() } }
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.body.code
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "STORE", "the store failed; the gateway's log says more")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(Envelope { error: self.body })).into_response()
    }
}
