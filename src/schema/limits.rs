//! What a schema may cost: how deep it nests, how many steps one value takes.
//!
//! Checked before the validator is built, because validation cannot be stopped and deep recursion
//! ends the process.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::Value;

use super::{
    MAX_COST, MAX_DEPTH, MAX_JSON_NESTING,
    compile::{SchemaError, cut},
    keywords::parts,
    refs::{Key, Refs},
};

/// What was learnt about a schema that is within its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survey {
    /// How many schemas there are.
    pub(super) schemas: usize,
    /// The longest chain of schemas that apply to one value.
    pub(super) chain: usize,
    /// Whether there are references.
    pub(super) refers: bool,
}

/// Checks depth, references, patterns and cost.
pub(super) fn survey(root: &Value, draft: Draft) -> Result<Survey, SchemaError> {
    if nesting(root) > MAX_JSON_NESTING {
        return Err(SchemaError::Nesting { limit: MAX_JSON_NESTING });
    }
    let mut counter =
        Counter { refs: Refs::index(root, draft, MAX_DEPTH)?, known: HashMap::new(), open: Vec::new(), work: 0 };
    let mut chain = 0;
    let mut refers = false;
    let mut index = 0;
    // References may add schemas while this runs.
    while let Some(schema) = counter.refs.nth(index) {
        check_patterns(schema, counter.refs.path(schema))?;
        refers |= !counter.refs.targets(schema)?.is_empty();
        counter.work = 0;
        chain = chain.max(counter.count(schema)?.height);
        index += 1;
    }
    Ok(Survey { schemas: counter.refs.len(), chain, refers })
}

/// How deep arrays and objects nest, found without recursion.
pub(super) fn nesting(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    deepest
}

#[derive(Clone, Copy)]
struct Count {
    steps: usize,
    height: usize,
    /// The outermost open schema that a loop led back to.
    reaches: usize,
}

struct Counter<'s> {
    refs: Refs<'s>,
    known: HashMap<Key, Count>,
    open: Vec<Key>,
    work: usize,
}

impl<'s> Counter<'s> {
    /// Counts the steps of applying `schema` to one value; a loop back counts as one step.
    fn count(&mut self, schema: &'s Value) -> Result<Count, SchemaError> {
        let key = std::ptr::from_ref(schema);
        if let Some(count) = self.known.get(&key) {
            return Ok(*count);
        }
        if let Some(reaches) = self.open.iter().position(|open| *open == key) {
            return Ok(Count { steps: 1, height: 1, reaches });
        }
        let level = self.open.len();
        self.work += 1;
        let too_costly = |path: &str| SchemaError::Cost { path: cut(path), limit: MAX_COST };
        if self.work > MAX_COST {
            return Err(too_costly(self.refs.path(schema)));
        }
        if level >= MAX_DEPTH {
            return Err(self.too_deep(schema));
        }
        self.open.push(key);
        let mut total = Count { steps: 0, height: 0, reaches: usize::MAX };
        for next in self.applied(schema)? {
            let count = self.count(next)?;
            total.steps = total.steps.saturating_add(count.steps);
            total.height = total.height.max(count.height);
            total.reaches = total.reaches.min(count.reaches);
        }
        self.open.pop();
        if evaluates_twice(schema) {
            total.steps = total.steps.saturating_mul(2);
        }
        total.steps = total.steps.saturating_add(1);
        total.height += 1;
        if total.steps > MAX_COST {
            return Err(too_costly(self.refs.path(schema)));
        }
        if total.height > MAX_DEPTH {
            return Err(self.too_deep(schema));
        }
        // A count that was cut short by a loop to an outer schema holds only here.
        if total.reaches >= level {
            total.reaches = usize::MAX;
            self.known.insert(key, total);
        }
        Ok(total)
    }

    fn applied(&mut self, schema: &'s Value) -> Result<Vec<&'s Value>, SchemaError> {
        let mut applied = self.refs.targets(schema)?;
        if let Some(map) = schema.as_object() {
            applied.extend(parts(map).into_iter().filter(|part| part.in_place).map(|part| part.schema));
        }
        Ok(applied)
    }

    fn too_deep(&self, schema: &Value) -> SchemaError {
        SchemaError::Depth { path: cut(self.refs.path(schema)), limit: MAX_DEPTH }
    }
}

/// Finding what is unevaluated applies the neighbours a second time.
pub(super) fn evaluates_twice(schema: &Value) -> bool {
    ["unevaluatedProperties", "unevaluatedItems"].iter().any(|key| schema.get(key).is_some())
}

/// Refuses what the linear engine cannot run, with the place of the pattern.
fn check_patterns(schema: &Value, path: &str) -> Result<(), SchemaError> {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && looks_around(pattern)
    {
        return Err(SchemaError::Pattern { path: cut(&format!("{path}/pattern")) });
    }
    if let Some(map) = schema.get("patternProperties").and_then(Value::as_object)
        && let Some(pattern) = map.keys().find(|pattern| looks_around(pattern))
    {
        let place = super::keywords::pointer(pattern);
        return Err(SchemaError::Pattern { path: cut(&format!("{path}/patternProperties{place}")) });
    }
    Ok(())
}

/// Whether a pattern has look-around or a back-reference.
fn looks_around(pattern: &str) -> bool {
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(first) = rest.chars().next() {
        let tail = &rest[first.len_utf8()..];
        match first {
            '\\' => {
                let escaped = tail.chars().next();
                if !in_class && matches!(escaped, Some('1'..='9' | 'k')) {
                    return true;
                }
                rest = &tail[escaped.map_or(0, char::len_utf8)..];
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && ["?=", "?!", "?<=", "?<!"].iter().any(|look| tail.starts_with(look)) => {
                return true;
            }
            _ => {}
        }
        rest = tail;
    }
    false
}
