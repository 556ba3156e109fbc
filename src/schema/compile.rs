//! Compiling a schema once and checking values against it.

use std::thread;

use jsonschema::{Draft, PatternOptions, Validator, error::ValidationErrorKind};
use serde_json::Value;

use super::{
    MAX_JSON_NESTING, MAX_STEPS, MAX_VIOLATIONS,
    dialect::draft_of,
    limits::{Survey, nesting, survey},
    spread::steps,
    violation::Violation,
};
use crate::base::code::ErrorCode;

/// A compiled pattern takes at most this many bytes.
const PATTERN_BYTES: usize = 1024 * 1024;
/// Work that may recurse deeply gets a stack of this size; only what is used is committed.
const DEEP_STACK: usize = 256 * 1024 * 1024;
/// Finding out what is wrong costs far more than that something is; above this it is left out.
const EXPLAINED_STEPS: usize = 100_000;
/// A schema with more parts than this is built on the deep stack.
const SHALLOW_SCHEMAS: usize = 128;
/// Up to so many subschemas, and values of so many parts, a check takes microseconds.
const QUICK_SCHEMAS: usize = 1024;
const QUICK_WEIGHT: usize = 512;
/// A value whose depth times the schema's longest chain is above this is checked there.
const SHALLOW_FRAMES: usize = 256;

/// A schema that cannot be used. No message quotes more than names and places.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The root is neither an object nor a boolean.
    #[error("a schema must be an object or a boolean")]
    NotASchema,
    /// `$schema` names a dialect that is not known.
    #[error("unknown schema dialect {uri:?}: use draft 04, 06, 07, 2019-09 or 2020-12")]
    UnknownDialect {
        /// The dialect.
        uri: String,
    },
    /// A reference leaves the document.
    #[error("$ref {reference:?} at {}: a remote or file reference is not followed, only references inside the schema are", shown(.path))]
    ExternalRef {
        /// The reference.
        reference: String,
        /// Where it is.
        path: String,
    },
    /// A reference leads nowhere.
    #[error("$ref {reference:?} at {}: there is no such place in the schema", shown(.path))]
    MissingRef {
        /// The reference.
        reference: String,
        /// Where it is.
        path: String,
    },
    /// Two parts have one identifier.
    #[error("$id {id:?} is there twice")]
    DuplicateId {
        /// The identifier.
        id: String,
    },
    /// A pattern needs a backtracking engine.
    #[error("the pattern at {} uses look-around or a back-reference, which is not supported", shown(.path))]
    Pattern {
        /// Where it is.
        path: String,
    },
    /// The schema breaks its own dialect.
    #[error("the schema is not valid at {} ({keyword})", shown(.path))]
    Invalid {
        /// Where.
        path: String,
        /// The keyword that is broken there.
        keyword: String,
    },
    /// Schemas nest too deep.
    #[error("schema depth is above {limit} at {}", shown(.path))]
    Depth {
        /// Where.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// The JSON nests too deep.
    #[error("JSON nesting of the schema is above {limit}")]
    Nesting {
        /// The limit.
        limit: usize,
    },
    /// Validation would take too long.
    #[error("validation cost is above {limit} applicator steps at {}", shown(.path))]
    Cost {
        /// Where.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// No thread with enough stack could be started.
    #[error("the schema could not be compiled: no stack for it")]
    NoStack,
}

impl SchemaError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotASchema
            | Self::UnknownDialect { .. }
            | Self::ExternalRef { .. }
            | Self::MissingRef { .. }
            | Self::DuplicateId { .. }
            | Self::Pattern { .. }
            | Self::Invalid { .. } => ErrorCode::McpSchema,
            Self::Depth { .. } | Self::Nesting { .. } | Self::Cost { .. } | Self::NoStack => ErrorCode::McpLimit,
        }
    }
}

/// A schema that is ready to check values.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Value,
    draft: Draft,
    validator: Validator,
    survey: Survey,
}

impl CompiledSchema {
    /// Checks the limits of `schema` and compiles it. Nothing is fetched.
    ///
    /// # Errors
    /// Says why the schema cannot be used, and where.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(SchemaError::NotASchema);
        }
        let draft = draft_of(schema)?;
        let survey = survey(schema, draft)?;
        let build = || {
            jsonschema::options()
                .with_draft(draft)
                .offline()
                .should_validate_formats(true)
                .should_ignore_unknown_formats(true)
                .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
                .build(schema)
                .map_err(|error| refusal(&error))
        };
        let validator = if survey.schemas > SHALLOW_SCHEMAS {
            on_deep_stack(build).unwrap_or(Err(SchemaError::NoStack))?
        } else {
            build()?
        };
        Ok(Self { schema: schema.clone(), draft, validator, survey })
    }

    /// Whether checking `value` is a matter of microseconds, so that a thread of its own costs more than the check.
    #[must_use]
    pub fn is_quick(&self, value: &Value) -> bool {
        let is_plain = !self.survey.refers && self.survey.schemas <= QUICK_SCHEMAS;
        is_plain && weigh(value, QUICK_WEIGHT).is_some() && self.fits_stack(nesting(value))
    }

    fn fits_stack(&self, depth: usize) -> bool {
        (depth + 1) * self.survey.chain <= SHALLOW_FRAMES
    }

    /// Checks `value`. Runs to its end once started, so give it a thread that may block.
    ///
    /// # Errors
    /// At most twenty violations, none of which quotes the value.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let depth = nesting(value);
        if depth > MAX_JSON_NESTING {
            return Err(vec![Violation::whole(format!("JSON nesting is above {MAX_JSON_NESTING}"))]);
        }
        let check = || self.check(value);
        if self.fits_stack(depth) {
            check()
        } else {
            let failed = || Err(vec![Violation::whole("the value could not be checked".to_owned())]);
            on_deep_stack(check).unwrap_or_else(failed)
        }
    }

    fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let steps = if self.survey.refers { steps(&self.schema, self.draft, value) } else { 0 };
        if steps > MAX_STEPS {
            let rule = format!("validation steps for this value are above {MAX_STEPS}");
            return Err(vec![Violation::whole(rule)]);
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if steps > EXPLAINED_STEPS {
            let rule = "the value breaks the schema in a way that takes too long to tell";
            return Err(vec![Violation::whole(rule.to_owned())]);
        }
        let errors = self.validator.iter_errors(value).take(MAX_VIOLATIONS);
        let violations: Vec<_> = errors.map(|error| Violation::of(&error, &self.schema)).collect();
        if violations.is_empty() {
            return Err(vec![Violation::whole("the value breaks the schema".to_owned())]);
        }
        Err(violations)
    }
}

/// What is left of `budget` after counting the parts of a value and, by the kilobyte, its text; `None` when it is too small.
fn weigh(value: &Value, budget: usize) -> Option<usize> {
    let budget = budget.checked_sub(1)?;
    match value {
        Value::String(text) => budget.checked_sub(text.len() / 1024),
        Value::Array(items) => items.iter().try_fold(budget, |left, item| weigh(item, left)),
        Value::Object(members) => {
            members.iter().try_fold(budget, |left, (name, member)| weigh(member, left.checked_sub(name.len() / 1024)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(budget),
    }
}

/// Runs `work` where deep recursion is safe; `None` when it could not run to its end.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("schema".to_owned()).stack_size(DEEP_STACK);
        builder.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

fn refusal(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    if let ValidationErrorKind::Referencing(jsonschema::ReferencingError::Unretrievable { uri, .. }) = error.kind() {
        return SchemaError::ExternalRef { reference: cut(uri), path: String::new() };
    }
    SchemaError::Invalid { path: cut(error.instance_path().as_str()), keyword: cut(error.kind().keyword()) }
}

/// The root as people write it.
fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// A text short enough for a message.
pub(super) fn cut(text: &str) -> String {
    const LONGEST: usize = 256;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
