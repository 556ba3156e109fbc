//! The conditions of a rule: what a field of the input must be like.

use serde_json::{Map, Value};

use super::PolicyError;
use super::glob::Glob;
use super::pattern::Pattern;
use crate::base::suggest::closest;

const OPERATORS: &[&str] = &["glob", "regex", "equals", "in", "startsWith", "contains", "not"];
/// `not` nests at most this deep.
const MAX_NESTING: usize = 32;

/// Conditions by path; all must hold.
#[derive(Debug)]
pub(super) struct When(Vec<(Vec<String>, Condition)>);

#[derive(Debug)]
enum Condition {
    Glob(Glob),
    Regex(Pattern),
    Equals(Value),
    In(Vec<Value>),
    StartsWith(String),
    Contains(Value),
    Not(Box<Condition>),
}

impl When {
    pub(super) fn compile(when: &Map<String, Value>, path: &str) -> Result<Self, PolicyError> {
        let compiled = when.iter().map(|(field, condition)| {
            let path = format!("{path}[{field:?}]");
            let segments: Vec<String> = field.split('.').map(str::to_owned).collect();
            if segments.iter().any(String::is_empty) {
                return Err(PolicyError::at(path, "the path into the input has an empty part"));
            }
            Ok((segments, Condition::compile(condition, &path, 0)?))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// Whether every field is there and is as its condition says.
    pub(super) fn matches(&self, input: &Value) -> bool {
        self.0.iter().all(|(path, condition)| find(input, path).is_some_and(|field| condition.matches(field)))
    }
}

fn find<'v>(input: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(input, |value, segment| match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    })
}

/// An index as JavaScript writes it: `1`, not `01` or `+1`.
fn index(segment: &str) -> Option<usize> {
    segment.parse::<usize>().ok().filter(|index| index.to_string() == segment)
}

impl Condition {
    fn compile(spec: &Value, path: &str, nesting: usize) -> Result<Self, PolicyError> {
        let one = spec.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
        let Some((operator, operand)) = one else {
            let problem = format!("must be an object with exactly one of {}", OPERATORS.join(", "));
            return Err(PolicyError::at(path, problem));
        };
        if nesting > MAX_NESTING {
            return Err(PolicyError::at(path, format!("\"not\" nests deeper than {MAX_NESTING}")));
        }
        let path = format!("{path}.{operator}");
        let text = || match operand.as_str() {
            Some(text) => Ok(text),
            None => Err(PolicyError::at(path.as_str(), "must be a string")),
        };
        Ok(match operator.as_str() {
            "glob" => Self::Glob(glob(text()?, &path)?),
            "regex" => {
                Self::Regex(Pattern::compile(text()?).map_err(|problem| PolicyError::at(path.as_str(), problem))?)
            }
            "equals" => Self::Equals(operand.clone()),
            "in" => match operand {
                Value::Array(items) => Self::In(items.clone()),
                _ => return Err(PolicyError::at(path, "must be an array")),
            },
            "startsWith" => Self::StartsWith(text()?.to_owned()),
            "contains" => Self::Contains(operand.clone()),
            "not" => Self::Not(Box::new(Self::compile(operand, &path, nesting + 1)?)),
            other => {
                let hint =
                    closest(other, OPERATORS).map(|word| format!(", did you mean \"{word}\"?")).unwrap_or_default();
                return Err(PolicyError::at(path, format!("unknown condition{hint}")));
            }
        })
    }

    fn matches(&self, field: &Value) -> bool {
        match self {
            Self::Glob(glob) => field.as_str().is_some_and(|text| glob.is_match(text)),
            Self::Regex(regex) => field.as_str().is_some_and(|text| regex.is_match(text)),
            Self::Equals(value) => same(field, value),
            Self::In(values) => values.iter().any(|value| same(field, value)),
            Self::StartsWith(start) => field.as_str().is_some_and(|text| text.starts_with(start)),
            Self::Contains(part) => match field {
                Value::String(text) => part.as_str().is_some_and(|part| text.contains(part)),
                Value::Array(items) => items.iter().any(|item| same(item, part)),
                _ => false,
            },
            Self::Not(inner) => !inner.matches(field),
        }
    }
}

/// Equality as JavaScript sees it: `1` and `1.0` are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

/// Compiles a glob.
pub(super) fn glob(text: &str, path: &str) -> Result<Glob, PolicyError> {
    Glob::compile(text).map_err(|problem| PolicyError::at(path, problem))
}
