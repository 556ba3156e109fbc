//! The secrets that an operator passes in the environment. Nothing else here reads it, but for the flags' own variables.

use lite_agent::base::secret::Secret;

/// The value of a variable; `None` when it is unset, empty or no text.
#[expect(clippy::disallowed_methods, reason = "this is the place of the gateway that reads the environment")]
pub(crate) fn secret(name: &str) -> Option<Secret> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty()).map(|value| Secret::new(value.trim()))
}
