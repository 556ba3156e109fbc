//! JSON Schemas from elsewhere, made safe to use.
//!
//! [`compile`] turns one into a [`CompiledSchema`] and reports [`Violation`]s; [`limits`] refuses
//! those that would take too long or too much stack, [`spread`] such values; [`dialect`] tells the draft. Nothing is
//! fetched, and no message holds a value of the instance.

mod compile;
mod dialect;
mod keywords;
mod limits;
mod refs;
mod spread;
mod violation;

pub use self::compile::{CompiledSchema, SchemaError};
pub use self::violation::{Violation, describe};

/// Schemas nest at most this deep, counting references that apply to the same value.
pub const MAX_DEPTH: usize = 64;
/// JSON nests at most this deep.
pub const MAX_JSON_NESTING: usize = 128;
/// Applying a schema to one value takes at most this many steps.
pub const MAX_COST: usize = 10_000;
/// Checking one value takes at most this many steps in all.
pub const MAX_STEPS: usize = 5_000_000;
/// A value has at most this many reported violations.
pub const MAX_VIOLATIONS: usize = 20;

#[cfg(test)]
mod tests;
