//! Which keywords hold schemas, and whether those apply to the same value.

use serde_json::{Map, Value};

/// A schema inside another.
pub(super) struct Part<'s> {
    /// The JSON pointer from the outer schema.
    pub(super) path: String,
    pub(super) schema: &'s Value,
    /// Whether it applies to the very value the outer schema applies to.
    pub(super) in_place: bool,
}

const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const ONE_IN_PLACE: &[&str] = &["not", "if", "then", "else"];
const LIST: &[&str] = &["items", "prefixItems"];
const LIST_IN_PLACE: &[&str] = &["allOf", "anyOf", "oneOf"];
const NAMED: &[&str] = &["$defs", "definitions", "properties", "patternProperties"];
const NAMED_IN_PLACE: &[&str] = &["dependentSchemas", "dependencies"];

/// The schemas directly inside `schema`.
pub(super) fn parts(schema: &Map<String, Value>) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    for (key, value) in schema {
        let key = key.as_str();
        match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&key) || ONE_IN_PLACE.contains(&key) => {
                let in_place = ONE_IN_PLACE.contains(&key);
                found.push(Part { path: pointer(key), schema: value, in_place });
            }
            Value::Array(items) if LIST.contains(&key) || LIST_IN_PLACE.contains(&key) => {
                let in_place = LIST_IN_PLACE.contains(&key);
                let listed = items.iter().enumerate();
                found.extend(listed.map(|(i, schema)| Part {
                    path: format!("{}/{i}", pointer(key)),
                    schema,
                    in_place,
                }));
            }
            Value::Object(named) if NAMED.contains(&key) || NAMED_IN_PLACE.contains(&key) => {
                let in_place = NAMED_IN_PLACE.contains(&key);
                found.extend(named.iter().filter(|(_, schema)| !schema.is_array()).map(|(name, schema)| Part {
                    path: format!("{}{}", pointer(key), pointer(name)),
                    schema,
                    in_place,
                }));
            }
            _ => {}
        }
    }
    found
}

/// One step of a JSON pointer.
pub(super) fn pointer(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}
