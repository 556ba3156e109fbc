//! A JSON object that holds secrets: tokens, a client, a discovery state.
//!
//! Members we do not know survive from one side to the other. Nothing of it can be printed, and its texts are
//! wiped when it is dropped.

use std::fmt;

use serde_json::{Map, Value};
use zeroize::Zeroize;

use crate::base::secret::Secret;

/// See the module.
#[derive(Clone, Default, PartialEq)]
pub(super) struct SecretMap(Map<String, Value>);

impl SecretMap {
    /// Reads a JSON object.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().map(Self)
    }

    /// A text member; `None` when it is absent or no text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A text member, as a secret.
    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    /// A whole number, also one that was written as a text.
    pub(super) fn seconds(&self, name: &str) -> Option<u64> {
        match self.0.get(name)? {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text.trim().parse().ok().or_else(|| text.trim().parse().ok().and_then(whole)),
            _ => None,
        }
    }

    /// The texts of a list; `None` when it is absent or holds something else.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        self.0.get(name)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// Whether a member is there and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether a member is `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// Sets a member, wiping what stood there.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(mut old) = self.0.insert(name.to_owned(), value.into()) {
            wipe(&mut old);
        }
    }

    /// Removes a member and wipes it.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(mut old) = self.0.shift_remove(name) {
            wipe(&mut old);
        }
    }

    /// Whether a member that should be a text is something else.
    pub(super) fn is_odd(&self, name: &str) -> bool {
        self.has(name) && self.text(name).is_none()
    }

    /// The object as a value for a JSON text on its way to the host.
    pub(super) fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// A number of seconds that can be one.
fn whole(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    (number.is_finite() && (0.0..9e15).contains(&number)).then_some(number as u64)
}

/// Overwrites every text of a value.
pub(super) fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(list) => list.iter_mut().for_each(wipe),
        Value::Object(map) => map.values_mut().for_each(wipe),
        _ => {}
    }
}

impl Drop for SecretMap {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

impl fmt::Debug for SecretMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretMap(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::SecretMap;

    #[test]
    fn members_are_read_by_kind_and_unknown_ones_stay() {
        let mut map =
            SecretMap::parse(br#"{"a":"x","n":"3600","m":7,"f":1.5,"bad":-1,"list":["s","t"],"odd":[1],"nil":null}"#)
                .unwrap();
        map.set("a", "y");

        assert_eq!((map.text("a"), map.seconds("n"), map.seconds("m")), (Some("y"), Some(3600), Some(7)));
        assert_eq!((map.seconds("f"), map.seconds("bad"), map.text("m")), (Some(1), None, None));
        assert_eq!((map.texts("list"), map.texts("odd"), map.has("nil")), (Some(vec!["s", "t"]), None, false));
        assert_eq!(map.value()["odd"], serde_json::json!([1]));
        assert_eq!(format!("{map:?}"), "SecretMap(…)");
        assert!(SecretMap::parse(b"[1]").is_none());
    }
}
