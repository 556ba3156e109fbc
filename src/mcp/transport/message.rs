//! One JSON-RPC message from a server, read without decoding its result.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Progress;
use crate::base::limits::PROGRESS_MESSAGE_CHARS;

/// The members that matter of any message.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// The error member of an answer; its text is never read.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorMember {
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) data: Option<serde_json::Value>,
}

/// The parameters of a progress notification.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgressParams<'a> {
    #[serde(borrow)]
    pub(crate) progress_token: &'a RawValue,
    #[serde(borrow)]
    progress: &'a RawValue,
    #[serde(borrow, default)]
    total: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

impl ProgressParams<'_> {
    /// What they tell; an optional member of a wrong type is left out. `None` when they tell nothing.
    pub(crate) fn step(&self) -> Option<Progress> {
        let mut message: Option<String> = self.message.and_then(|raw| serde_json::from_str(raw.get()).ok());
        if let Some(message) = &mut message
            && let Some((cut, _)) = message.char_indices().nth(PROGRESS_MESSAGE_CHARS)
        {
            message.truncate(cut);
        }
        Some(Progress {
            progress: serde_json::from_str(self.progress.get()).ok()?,
            total: self.total.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            message,
        })
    }
}

/// The parameters of a notification on a subscription.
#[derive(Debug, Deserialize)]
pub(crate) struct SubscriptionParams<'a> {
    #[serde(borrow, rename = "_meta", default)]
    pub(crate) meta: SubscriptionMeta<'a>,
    #[serde(default)]
    pub(crate) notifications: AcknowledgedFilter,
}

/// Which subscription it belongs to.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SubscriptionMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId", default)]
    pub(crate) subscription_id: Option<&'a RawValue>,
}

/// What a server agrees to tell.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcknowledgedFilter {
    #[serde(default)]
    pub(crate) tools_list_changed: bool,
}

/// An id of ours: the number, however it is written, or its plain decimal form as a string.
pub(crate) fn own_id(raw: &RawValue) -> Option<i64> {
    let text = raw.get();
    if let Some(text) = text.strip_prefix('"') {
        let text = text.strip_suffix('"')?;
        return text.parse().ok().filter(|id: &i64| id.to_string() == text);
    }
    text.parse().ok().or_else(|| whole(text.parse().ok()?))
}

/// The integer that a number such as `7.0` or `7e0` is.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within 2^53")]
    (number.trunc().total_cmp(&number).is_eq() && number.abs() < EXACT).then_some(number as i64)
}

/// Puts the replacement character in the place of each half of a surrogate pair that stands alone.
pub(crate) fn mended(text: &str) -> Cow<'_, str> {
    if memchr::memmem::find(text.as_bytes(), b"\\u").is_none() {
        return Cow::Borrowed(text);
    }
    let (mut mended, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = text.as_bytes().get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let start = at + found;
        at = start + 2;
        match (surrogate(text, start), surrogate(text, start + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at = start + 12,
            (Some(_), _) => {
                at = start + 6;
                mended.push_str(text.get(copied..start).unwrap_or_default());
                mended.push_str("\\ufffd");
                copied = at;
            }
            (None, _) => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(mended)
}

/// The half of a surrogate pair that is escaped at a place.
fn surrogate(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok().filter(|code| (0xD800..=0xDFFF).contains(code))
}

/// A JSON text without the white space between its tokens; `None` when there is none.
pub(crate) fn compact(text: &str) -> Option<String> {
    let mut kept: Option<Vec<u8>> = None;
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
        } else if byte == b'"' {
            quoted = true;
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            kept.get_or_insert_with(|| text.as_bytes().get(..at).unwrap_or_default().to_vec());
            continue;
        }
        if let Some(kept) = &mut kept {
            kept.push(byte);
        }
    }
    kept.and_then(|kept| String::from_utf8(kept).ok())
}

/// The id that can be read in a broken answer.
pub(crate) fn id_in_broken(line: &[u8]) -> Option<i64> {
    if line.first() != Some(&b'{') {
        return None;
    }
    let (mut depth, mut at, mut found) = (0_usize, 0, None);
    while let Some(byte) = line.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(line, at)?;
                let key = line.get(at + 1..end).unwrap_or_default();
                at = end;
                if depth == 1 && matches!(key, b"id" | b"method") {
                    let rest = line.get(end + 1..).unwrap_or_default().trim_ascii_start();
                    if let Some(value) = rest.strip_prefix(b":") {
                        if key == b"method" {
                            return None;
                        }
                        found = found.or_else(|| leading_integer(value.trim_ascii_start()));
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn string_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match line.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn leading_integer(value: &[u8]) -> Option<i64> {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(value.get(..digits)?).ok()?.parse().ok()
}

/// Whether a JSON text nests deeper than `limit`.
pub(crate) fn nests_deeper_than(text: &str, limit: usize) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_or_its_plain_decimal_form() {
        let id = |text: &str| own_id(&RawValue::from_string(text.into()).unwrap());
        for (text, expected) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("7e0", Some(7)),
            ("\"7\"", Some(7)),
            ("-1", Some(-1)),
            ("7.5", None),
            ("1e300", None),
            ("\"+7\"", None),
            ("\"007\"", None),
            ("\"7.0\"", None),
            ("true", None),
            ("{}", None),
        ] {
            assert_eq!(id(text), expected, "{text}");
        }
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_pairs_stay() {
        for (text, expected) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""a\uDE00b\uD83Dc""#, r#""a\ufffdb\ufffdc""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ude00\u4e2d""#, r#""\ud83d\ude00\u4e2d""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83d\u""#, r#""\ufffd\u""#),
            ("\"é\\u00e9\"", "\"é\\u00e9\""),
        ] {
            assert_eq!(mended(text), expected);
        }
    }

    #[test]
    fn only_space_between_tokens_goes() {
        assert_eq!(compact(r#"{"a b":[1,"\" c"]}"#), None);
        assert_eq!(compact("{ \"a b\" : [ 1.10,\n\t\"\\\" c \" ] }").as_deref(), Some(r#"{"a b":[1.10,"\" c "]}"#));
    }
}
