//! What the model reads of a server's result: compact JSON of `content` and `structuredContent`, byte for byte as the
//! server wrote their values.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::base::limits::PROJECTION_BYTES;

/// The parts of a `tools/call` result that the pipeline reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// Keeps a `null` that is there apart from a member that is not.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> RawResult<'a> {
    /// Reads the result's own members; everything in them stays text.
    ///
    /// # Errors
    /// When the result is not an object, or `isError` is no boolean.
    pub fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }

    /// Whether the server calls its own result an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error.unwrap_or(false)
    }

    /// The structured part.
    #[must_use]
    pub const fn structured(&self) -> Option<&'a RawValue> {
        self.structured_content
    }

    /// The text for the model.
    ///
    /// # Errors
    /// The size in bytes when it is above 4 MiB.
    pub fn project(&self) -> Result<String, usize> {
        let content = self.content.map_or("[]", |raw| if raw.get() == "null" { "[]" } else { raw.get() });
        let mut text =
            String::with_capacity(content.len() + 64 + self.structured_content.map_or(0, |raw| raw.get().len()));
        text.push_str("{\"content\":");
        text.push_str(content);
        if let Some(structured) = self.structured_content {
            text.push_str(",\"structuredContent\":");
            text.push_str(structured.get());
        }
        text.push('}');
        if text.len() > PROJECTION_BYTES { Err(text.len()) } else { Ok(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_key_order_survive() {
        let raw = RawValue::from_string(
            r#"{"resultType":"complete","content":[],"structuredContent":{"z":1.10,"a":12345678901234567890123}}"#
                .into(),
        )
        .unwrap();
        let result = RawResult::read(&raw).unwrap();
        assert_eq!(
            result.project().unwrap(),
            r#"{"content":[],"structuredContent":{"z":1.10,"a":12345678901234567890123}}"#
        );
    }

    #[test]
    fn a_null_structured_value_stays_and_null_content_is_empty() {
        let raw = RawValue::from_string(r#"{"content":null,"structuredContent":null}"#.into()).unwrap();
        let result = RawResult::read(&raw).unwrap();
        assert_eq!(result.project().unwrap(), r#"{"content":[],"structuredContent":null}"#);
    }

    #[test]
    fn a_projection_above_the_limit_names_its_size() {
        let raw = RawValue::from_string(format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
            "x".repeat(PROJECTION_BYTES)
        ))
        .unwrap();
        assert!(RawResult::read(&raw).unwrap().project().is_err());
    }
}
