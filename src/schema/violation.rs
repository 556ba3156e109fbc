//! How a value breaks its schema, told without quoting the value.

use std::fmt;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde::Serialize;
use serde_json::Value;

use super::compile::cut;

/// One rule that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The JSON pointer to the part that breaks it; `/` for the whole value.
    pub path: String,
    /// The keyword and what it asks for.
    pub rule: String,
}

/// All violations in one line.
#[must_use]
pub fn describe(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.path, self.rule)
    }
}

impl Violation {
    pub(super) fn whole(rule: String) -> Self {
        Self { path: "/".to_owned(), rule }
    }

    pub(super) fn of(error: &ValidationError<'_>, schema: &Value) -> Self {
        let path = cut(error.instance_path().as_str());
        let keyword = error.kind().keyword();
        let rule = format!("{keyword}: {}", sentence(error, schema));
        Self { path: if path.is_empty() { "/".to_owned() } else { path }, rule }
    }
}

fn sentence(error: &ValidationError<'_>, schema: &Value) -> String {
    match error.kind() {
        Kind::Required { property } => format!("missing {}", text(property)),
        Kind::Type { kind } => format!("must be {}", types(kind)),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            format!("has a property that is not allowed{}", allowed(error, schema))
        }
        Kind::Enum { options } => match options.as_array() {
            Some(options) => format!("must be one of {}", list(options.iter().map(text))),
            None => "must be one of the listed values".to_owned(),
        },
        Kind::Constant { expected_value } => format!("must be {}", text(expected_value)),
        Kind::Format { format } => format!("must be in the format {format:?}"),
        Kind::Pattern { pattern } => format!("must match {:?}", cut(pattern)),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be above {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be below {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("needs at least {limit} characters"),
        Kind::MaxLength { limit } => format!("has more than {limit} characters"),
        Kind::MinItems { limit } => format!("needs at least {limit} items"),
        Kind::MaxItems { limit } => format!("has more than {limit} items"),
        Kind::AdditionalItems { limit } => format!("has more than {limit} items"),
        Kind::MinProperties { limit } => format!("needs at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("has more than {limit} properties"),
        Kind::UniqueItems => "has an item twice".to_owned(),
        Kind::Contains => "has no item of the kind it needs".to_owned(),
        Kind::UnevaluatedItems { .. } => "has an item that is not allowed".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "matches none of the alternatives".to_owned(),
        Kind::OneOfMultipleValid { .. } => "matches more than one of the alternatives".to_owned(),
        Kind::Not { .. } => "matches what is ruled out".to_owned(),
        Kind::PropertyNames { .. } => "has a property name that is not allowed".to_owned(),
        Kind::FalseSchema => "no value is allowed here".to_owned(),
        Kind::ContentEncoding { .. } | Kind::ContentMediaType { .. } | Kind::FromUtf8 { .. } => {
            "is not encoded as the schema says".to_owned()
        }
        Kind::Referencing(_) => "the reference leads nowhere".to_owned(),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } | Kind::Custom { .. } => {
            "could not be checked".to_owned()
        }
    }
}

/// The names that the schema does know, when it lists any.
fn allowed(error: &ValidationError<'_>, schema: &Value) -> String {
    let path = error.schema_path().as_str();
    let beside = path.rsplit_once('/').and_then(|(parent, _)| schema.pointer(parent));
    match beside.and_then(|beside| beside.get("properties")).and_then(Value::as_object) {
        Some(known) if !known.is_empty() => {
            format!("; allowed are {}", list(known.keys().map(|name| format!("{:?}", cut(name)))))
        }
        _ => String::new(),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

/// A value of the schema.
fn text(value: &Value) -> String {
    cut(&value.to_string())
}

fn list(items: impl Iterator<Item = String>) -> String {
    const MOST: usize = 20;
    let mut items: Vec<_> = items.take(MOST + 1).collect();
    if items.len() > MOST {
        items.truncate(MOST);
        items.push("…".to_owned());
    }
    items.join(", ")
}
