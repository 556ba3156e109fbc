//! Which provider objects are in use, in the whole process, and which issuer each saw first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Record {
    in_use: bool,
    first_issuer: Option<String>,
}

static PROVIDERS: Mutex<Option<HashMap<String, Record>>> = Mutex::new(None);

fn with_providers<T>(act: impl FnOnce(&mut HashMap<String, Record>) -> T) -> T {
    let mut guard: MutexGuard<'_, _> = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_default())
}

/// The right to use a provider object; dropping it gives it back.
pub(super) struct Claim(String);

impl Claim {
    /// Takes a provider; `None` while somebody has it.
    pub(super) fn take(provider: &str) -> Option<Self> {
        with_providers(|providers| {
            let record = providers.entry(provider.to_owned()).or_default();
            (!std::mem::replace(&mut record.in_use, true)).then(|| Self(provider.to_owned()))
        })
    }

    /// The first issuer this provider was used with, which is `issuer` when there was none.
    pub(super) fn first_issuer(&self, issuer: &str) -> String {
        with_providers(|providers| {
            let record = providers.entry(self.0.clone()).or_default();
            record.first_issuer.get_or_insert_with(|| issuer.to_owned()).clone()
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        with_providers(|providers| {
            if let Some(record) = providers.get_mut(&self.0) {
                record.in_use = false;
                if record.first_issuer.is_none() {
                    providers.remove(&self.0);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Claim;

    #[test]
    fn one_has_it_at_a_time_and_the_first_issuer_stays() {
        let claim = Claim::take("provider of this test").unwrap();
        assert!(Claim::take("provider of this test").is_none());
        assert_eq!(claim.first_issuer("a"), "a");
        drop(claim);

        let claim = Claim::take("provider of this test").unwrap();
        assert_eq!(claim.first_issuer("b"), "a");
    }
}
