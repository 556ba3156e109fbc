//! The dialect of a schema, by its `$schema`.

use jsonschema::Draft;
use serde_json::Value;

use super::compile::{SchemaError, cut};

/// The draft that `schema` asks for; 2020-12 when it does not say.
pub(super) fn draft_of(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(declared) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let Some(uri) = declared.as_str() else {
        return Err(SchemaError::Invalid { path: "/$schema".into(), keyword: "type".into() });
    };
    match uri.trim_end_matches('#') {
        "https://json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "https://json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "http://json-schema.org/draft-07/schema" | "https://json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "http://json-schema.org/draft-06/schema" | "https://json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        "http://json-schema.org/draft-04/schema" | "https://json-schema.org/draft-04/schema" => Ok(Draft::Draft4),
        _ => Err(SchemaError::UnknownDialect { uri: cut(uri) }),
    }
}

/// Whether `$ref` hides its neighbours and `$id` may name an anchor.
pub(super) fn is_old(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}
