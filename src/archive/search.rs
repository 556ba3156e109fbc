//! Looking for a text in archived ones, whatever its case.

use regex::{Regex, RegexBuilder};

use super::page::units;
use crate::base::limits::CONTEXT_HIT_CHARS;

/// Where a text was found, and what stands around it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// In UTF-16 units.
    pub(super) offset: usize,
    /// The text around.
    pub(super) around: String,
}

/// What to look for.
#[derive(Clone, Debug)]
pub(super) struct Needle(Regex);

impl Needle {
    /// The query as it is, or as it is written inside a JSON string, which most archived texts are.
    pub(super) fn new(query: &str) -> Option<Self> {
        let in_json = serde_json::to_string(query).ok()?;
        let in_json = in_json.strip_prefix('"')?.strip_suffix('"')?;
        let pattern = format!("{}|{}", regex::escape(query), regex::escape(in_json));
        Some(Self(RegexBuilder::new(&pattern).case_insensitive(true).build().ok()?))
    }

    /// The first hits at or after an offset.
    pub(super) fn find(&self, text: &str, from: usize, at_most: usize) -> Vec<Hit> {
        let (mut seen, mut offset) = (0, 0);
        let found = self.0.find_iter(text).filter_map(|found| {
            offset += units(&text[seen..found.start()]);
            seen = found.start();
            (offset >= from).then(|| Hit { offset, around: around(text, found.start(), found.end()) })
        });
        found.take(at_most).collect()
    }
}

/// Some characters before a hit, the hit, and some after it.
fn around(text: &str, start: usize, end: usize) -> String {
    let before = text[..start].char_indices().rev().take(CONTEXT_HIT_CHARS / 2).last().map_or(start, |(at, _)| at);
    let after = text[end..].char_indices().nth(CONTEXT_HIT_CHARS / 2).map_or(text.len(), |(at, _)| end + at);
    text[before..after].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(query: &str, text: &str, from: usize) -> Vec<(usize, String)> {
        let hits = Needle::new(query).unwrap().find(text, from, 2);
        hits.into_iter().map(|hit| (hit.offset, hit.around)).collect()
    }

    #[test]
    fn case_is_ignored_and_offsets_are_utf_16() {
        let text = "😀 Straße STRASSE straße";
        assert_eq!(find("STRAßE", text, 0), [(3, text.into()), (18, text.into())]);
        assert_eq!(find("straße", text, 4), [(18, text.into())]);
        assert_eq!(find("(.*", text, 0), []);
    }

    #[test]
    fn a_quote_is_found_inside_json() {
        assert_eq!(find("say \"hi\"", r#"{"text":"Say \"Hi\""}"#, 0).len(), 1);
    }

    #[test]
    fn only_the_surroundings_are_shown() {
        let text = format!("{}needle{}", "漢".repeat(500), "字".repeat(500));
        let hits = find("needle", &text, 0);
        assert_eq!(hits, [(500, format!("{}needle{}", "漢".repeat(100), "字".repeat(100)))]);
    }
}
