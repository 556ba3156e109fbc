//! Arguments that travel as headers too: which a schema marks, and how a value is written.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::CallError;

/// One argument that a call over HTTP repeats as a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    /// The property names from the root of the input to the argument.
    pub path: Vec<String>,
    /// The part of the header's name after `Mcp-Param-`.
    pub name: String,
}

const MARK: &str = "x-mcp-header";
const MAX_SAFE: i64 = (1 << 53) - 1;
/// Keywords that hold one schema or a list of schemas.
const SCHEMAS: &[&str] = &[
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "allOf",
    "anyOf",
    "oneOf",
    "contentSchema",
];
/// Keywords that hold schemas by name, other than `properties`.
const SCHEMA_MAPS: &[&str] = &["patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies"];

/// The marked arguments of an input schema, or why the marks are forbidden.
pub(crate) fn header_params(schema: &Value) -> Result<Vec<HeaderParam>, &'static str> {
    let mut found = Vec::new();
    Walk { root: schema, referred: HashSet::new(), found: &mut found }.schema(schema, Some(&mut Vec::new()))?;
    let mut names = HashSet::new();
    if found.iter().all(|param: &HeaderParam| names.insert(param.name.to_ascii_lowercase())) {
        Ok(found)
    } else {
        Err("two parameters have the same x-mcp-header")
    }
}

/// One walk through a whole schema.
struct Walk<'a> {
    root: &'a Value,
    referred: HashSet<&'a str>,
    found: &'a mut Vec<HeaderParam>,
}

impl<'a> Walk<'a> {
    /// `path` is `None` where `properties` alone do not lead.
    fn schema(&mut self, schema: &'a Value, path: Option<&mut Vec<String>>) -> Result<(), &'static str> {
        let Value::Object(schema) = schema else { return Ok(()) };
        let mut path = path;
        if let Some(mark) = schema.get(MARK) {
            let Some(path) = path.as_deref().filter(|path| !path.is_empty()) else {
                return Err("x-mcp-header stands where properties alone do not lead");
            };
            let name = mark.as_str().filter(|name| is_token(name)).ok_or("x-mcp-header is not a header name")?;
            if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
                return Err("x-mcp-header is on a type other than string, integer or boolean");
            }
            self.found.push(HeaderParam { path: path.clone(), name: name.to_owned() });
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                match path.as_deref_mut() {
                    Some(path) => {
                        path.push(name.clone());
                        self.schema(property, Some(path))?;
                        path.pop();
                    }
                    None => self.schema(property, None)?,
                }
            }
        }
        for inner in SCHEMAS.iter().filter_map(|keyword| schema.get(*keyword)) {
            match inner {
                Value::Array(list) => list.iter().try_for_each(|inner| self.schema(inner, None))?,
                inner => self.schema(inner, None)?,
            }
        }
        for inner in SCHEMA_MAPS.iter().filter_map(|keyword| schema.get(*keyword)?.as_object()) {
            inner.values().try_for_each(|inner| self.schema(inner, None))?;
        }
        // A reference may lead where no keyword does.
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        match reference.filter(|pointer| self.referred.insert(pointer)).and_then(|pointer| self.root.pointer(pointer)) {
            Some(target) if !std::ptr::eq(target, self.root) => self.schema(target, None),
            _ => Ok(()),
        }
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The headers of one call, name and value.
pub(crate) fn mirrored(
    params: &[HeaderParam],
    arguments: &Map<String, Value>,
) -> Result<Vec<(String, String)>, CallError> {
    let mut headers = Vec::with_capacity(params.len());
    for param in params {
        let Some((first, rest)) = param.path.split_first() else { continue };
        let value = rest.iter().try_fold(arguments.get(first), |value, key| Some(value?.get(key)));
        let fault = |what| CallError::Argument { path: param.path.join("."), what };
        let text = match value.flatten() {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => integer(number)
                .filter(|number| (-MAX_SAFE..=MAX_SAFE).contains(number))
                .ok_or_else(|| fault("it is not an integer between -(2^53-1) and 2^53-1"))?
                .to_string(),
            Some(Value::Array(_) | Value::Object(_)) => return Err(fault("it is not a string, integer or boolean")),
        };
        headers.push((format!("mcp-param-{}", param.name), safe_header_value(&text)));
    }
    Ok(headers)
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and within the safe range")]
fn integer(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9.1e15).map(|float| float as i64)
    })
}

/// A header value as the revision wants it: plain when that is safe, wrapped in Base64 otherwise.
pub(crate) fn safe_header_value(text: &str) -> String {
    let looks_wrapped = text.to_ascii_lowercase().starts_with("=?base64?") && text.ends_with("?=");
    let is_ascii = text.bytes().all(|byte| (0x20..0x7F).contains(&byte));
    let plain = is_ascii && !looks_wrapped && !text.starts_with(' ') && !text.ends_with(' ');
    if plain { text.to_owned() } else { format!("=?base64?{}?=", base64(text.as_bytes())) }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |group, at| group << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            if at > chunk.len() {
                text.push('=');
            } else {
                let index = (group >> (18 - 6 * at)) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_wrapped_only_when_they_must_be() {
        assert_eq!(safe_header_value("plain value"), "plain value");
        assert_eq!(safe_header_value(" x"), "=?base64?IHg=?=");
        assert_eq!(safe_header_value("Zürich"), "=?base64?WsO8cmljaA==?=");
        assert_eq!(safe_header_value("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn marks_count_only_where_properties_lead() {
        let nested = json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "B"}}}}});
        let params = header_params(&nested).unwrap();
        assert_eq!(params, vec![HeaderParam { path: vec!["a".into(), "b".into()], name: "B".into() }]);
        let arguments = json!({"a": {"b": 5.0}});
        assert_eq!(mirrored(&params, arguments.as_object().unwrap()), Ok(vec![("mcp-param-B".into(), "5".into())]));
        for bad in [
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}),
            json!({"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}}),
            json!({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
        ] {
            assert!(header_params(&bad).is_err(), "{bad}");
        }
        assert_eq!(
            header_params(&json!({"default": {"x-mcp-header": 1}, "properties": {"x-mcp-header": {}}})),
            Ok(vec![])
        );
    }
}
