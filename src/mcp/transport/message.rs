//! One JSON-RPC message from a server, read without decoding its result.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

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
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgressParams<'a> {
    #[serde(borrow)]
    pub(crate) progress_token: &'a RawValue,
    pub(crate) progress: serde_json::Number,
    #[serde(default)]
    pub(crate) total: Option<serde_json::Number>,
    #[serde(default)]
    pub(crate) message: Option<String>,
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

/// An id of ours: an integer, or the same in decimal as a string.
pub(crate) fn own_id(raw: &RawValue) -> Option<i64> {
    let text = raw.get();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    text.parse().ok()
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
