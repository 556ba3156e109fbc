//! What the model reads of a server's result: compact JSON of `content` and `structuredContent`, each value as the
//! server wrote it, without the space between them; and what of it a model may see when it is archived.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::large::beginning;
use crate::base::limits::{ARCHIVE_PREVIEW_CHARS, PROJECTION_BYTES};

/// The types of blocks that are archived whatever their size.
const MEDIA: &[&str] = &["image", "audio", "resource"];
/// So many bytes are more than a preview shows.
const ENOUGH_BYTES: usize = 4 * ARCHIVE_PREVIEW_CHARS;

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
        push_compact(&mut text, content);
        if let Some(structured) = self.structured_content {
            text.push_str(",\"structuredContent\":");
            push_compact(&mut text, structured.get());
        }
        text.push('}');
        if text.len() > PROJECTION_BYTES { Err(text.len()) } else { Ok(text) }
    }
}

impl RawResult<'_> {
    /// Whether a block holds an image, a sound or an embedded resource. Blocks of unknown types are plain JSON.
    #[must_use]
    pub fn holds_media(&self) -> bool {
        self.content.is_some_and(|content| blocks(content).into_iter().any(is_media))
    }
}

/// Adds valid JSON without the space between its parts; digits, escapes and the order of keys stay.
fn push_compact(out: &mut String, json: &str) {
    let (mut start, mut in_string, mut is_escaped) = (0, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = !in_string,
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => {
                out.push_str(&json[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push_str(&json[start..]);
}

fn blocks(content: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(content.get()).unwrap_or_default()
}

/// A block that cannot be read for its type is not shown either.
fn is_media(block: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Typed {
        r#type: Option<String>,
    }
    let is_one = |block: Typed| block.r#type.is_some_and(|kind| MEDIA.contains(&kind.as_str()));
    block.get().starts_with('{') && serde_json::from_str(block.get()).map_or(true, is_one)
}

/// How a projection begins, with a note in the place of each piece of base64.
pub(super) fn preview(projection: &str) -> String {
    let Ok(result) = serde_json::from_str::<RawResult<'_>>(projection) else { return String::new() };
    let blocks = result.content.map(blocks).unwrap_or_default();
    if !blocks.iter().copied().any(is_media) {
        return beginning(projection);
    }
    let mut shown = String::from("{\"content\":[");
    for (index, block) in blocks.into_iter().enumerate() {
        if shown.len() > ENOUGH_BYTES {
            break;
        }
        shown.push_str(if index == 0 { "" } else { "," });
        if is_media(block) { shown.push_str(&without_base64(block)) } else { shown.push_str(block.get()) }
    }
    shown.push(']');
    if let Some(structured) = result.structured_content {
        shown.push_str(",\"structuredContent\":");
        shown.push_str(structured.get());
    }
    shown.push('}');
    beginning(&shown)
}

/// A media block with the length of its base64 in place of it.
fn without_base64(block: &RawValue) -> String {
    let Ok(Value::Object(mut block)) = serde_json::from_str(block.get()) else {
        return "\"(a block that cannot be read)\"".into();
    };
    replace(block.get_mut("data"));
    replace(block.get_mut("resource").and_then(|resource| resource.get_mut("blob")));
    Value::Object(block).to_string()
}

fn replace(base64: Option<&mut Value>) {
    if let Some(base64) = base64 {
        *base64 = match &*base64 {
            Value::String(text) => format!("({} characters of base64)", text.len()).into(),
            _ => "(not base64)".into(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds_media(content: &str) -> bool {
        let raw = RawValue::from_string(format!(r#"{{"content":{content}}}"#)).unwrap();
        RawResult::read(&raw).unwrap().holds_media()
    }

    #[test]
    fn media_is_known_by_the_type_of_its_block() {
        for kind in ["image", "audio", "resource", "im\\u0061ge"] {
            assert!(holds_media(&format!(r#"[{{"type":"text","text":"a"}},{{"type":"{kind}"}}]"#)), "{kind}");
        }
        assert!(holds_media(r#"[{"type":"text","type":"image"}]"#), "a block that says two things");
        for plain in ["null", "{}", "[]", r#"[{"type":"hologram"},{"type":"resource_link"},7,"image",{}]"#] {
            assert!(!holds_media(plain), "{plain}");
        }
    }

    #[test]
    fn a_preview_holds_no_base64() {
        let projection = r#"{"content":[{"type":"text","text":"see"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"resource","resource":{"uri":"file:///x","blob":"BBBBBB"}},{"type":"resource","resource":{"uri":"file:///y","text":"words"}}],"structuredContent":1.10}"#;
        assert_eq!(
            preview(projection),
            r#"{"content":[{"type":"text","text":"see"},{"type":"image","data":"(4 characters of base64)","mimeType":"image/png"},{"type":"resource","resource":{"uri":"file:///x","blob":"(6 characters of base64)"}},{"type":"resource","resource":{"uri":"file:///y","text":"words"}}],"structuredContent":1.10}"#
        );
    }

    #[test]
    fn a_preview_of_text_is_its_beginning() {
        let projection = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "漢".repeat(2000));
        assert_eq!(preview(&projection), projection.chars().take(1000).collect::<String>());
    }

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
    fn space_between_values_goes_and_space_in_texts_stays() {
        let spaced = "{ \"content\" : [ {\r\n\t\"text\" : \"a  b\\\\\" , \"x\\\" y\" : 1.0 } ] , \"structuredContent\" : \" { } \" }";
        let raw = RawValue::from_string(spaced.into()).unwrap();
        assert_eq!(
            RawResult::read(&raw).unwrap().project().unwrap(),
            r#"{"content":[{"text":"a  b\\","x\" y":1.0}],"structuredContent":" { } "}"#
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
