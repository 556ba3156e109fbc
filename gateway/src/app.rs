//! What every request handler shares.

use axum::Router;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

use crate::api;
use crate::guard::{self, Guard};
use crate::store::Store;

/// A running gateway.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Store,
}

/// All routes, behind the guard.
pub(crate) fn router(app: Arc<App>, guard: Guard) -> Router {
    api::routes().fallback(api::nothing_here).with_state(app).layer(from_fn_with_state(Arc::new(guard), guard::layer))
}
