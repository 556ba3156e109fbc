//! How many steps checking one value takes, counted before it is checked.
//!
//! References can lead to one part of a value along many paths, twice as many with each level. The
//! count sees every pair of schema and part once, so it stays cheap where checking would not.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{
    MAX_DEPTH,
    limits::evaluates_twice,
    refs::{Key, Refs},
};

/// Pairs of schema and part that are looked at; more count as too many steps.
const MAX_PAIRS: usize = 1_000_000;

/// The steps of checking `value` against `root`; `usize::MAX` when there are too many to count.
pub(super) fn steps(root: &Value, draft: Draft, value: &Value) -> usize {
    let Ok(refs) = Refs::index(root, draft, MAX_DEPTH) else { return usize::MAX };
    let mut spread = Spread { refs, seen: HashMap::new() };
    spread.count(root, value).unwrap_or(usize::MAX)
}

struct Spread<'s> {
    refs: Refs<'s>,
    seen: HashMap<(Key, Key), usize>,
}

impl<'s> Spread<'s> {
    fn count(&mut self, schema: &'s Value, value: &Value) -> Option<usize> {
        let Some(map) = schema.as_object() else { return Some(1) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(steps) = self.seen.get(&pair) {
            return Some(*steps);
        }
        if self.seen.len() >= MAX_PAIRS {
            return None;
        }
        // What leads back to this pair counts once.
        self.seen.insert(pair, 1);
        let mut total: usize = 0;
        for target in self.refs.targets(schema).ok()? {
            total = total.saturating_add(self.count(target, value)?);
        }
        for (key, inner) in map {
            total = total.saturating_add(self.keyword(map, key, inner, value)?);
        }
        if evaluates_twice(schema) {
            total = total.saturating_mul(2);
        }
        let total = total.saturating_add(1);
        self.seen.insert(pair, total);
        Some(total)
    }

    fn keyword(&mut self, map: &'s Map<String, Value>, key: &str, inner: &'s Value, value: &Value) -> Option<usize> {
        let mut total: usize = 0;
        let mut add = |spread: &mut Self, schema: &'s Value, part: &Value| {
            total = total.saturating_add(spread.count(schema, part)?);
            Some(())
        };
        match (key, inner, value) {
            ("not" | "if" | "then" | "else", _, _) => add(self, inner, value)?,
            ("allOf" | "anyOf" | "oneOf", Value::Array(list), _) => {
                for schema in list {
                    add(self, schema, value)?;
                }
            }
            ("dependentSchemas" | "dependencies", Value::Object(named), _) => {
                for schema in named.values() {
                    add(self, schema, value)?;
                }
            }
            ("properties", Value::Object(named), Value::Object(fields)) => {
                for (name, schema) in named {
                    if let Some(field) = fields.get(name) {
                        add(self, schema, field)?;
                    }
                }
            }
            ("patternProperties", Value::Object(named), Value::Object(fields)) => {
                for schema in named.values() {
                    for field in fields.values() {
                        add(self, schema, field)?;
                    }
                }
            }
            ("additionalProperties" | "unevaluatedProperties", _, Value::Object(fields)) => {
                let known = map.get("properties").and_then(Value::as_object);
                for (name, field) in fields {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        add(self, inner, field)?;
                    }
                }
            }
            // A name has no parts, so its own steps are those of the schema.
            ("propertyNames", _, Value::Object(fields)) => {
                let one = self.count(inner, &Value::Null)?;
                total = one.saturating_mul(fields.len());
            }
            ("prefixItems" | "items", Value::Array(list), Value::Array(items)) => {
                for (schema, item) in list.iter().zip(items) {
                    add(self, schema, item)?;
                }
            }
            ("items" | "contains" | "additionalItems" | "unevaluatedItems", _, Value::Array(items)) => {
                for item in items {
                    add(self, inner, item)?;
                }
            }
            _ => {}
        }
        Some(total)
    }
}
