//! Cutting a page out of a text. Offsets count UTF-16 units, as JavaScript does; a page holds whole characters.

use super::envelope;

/// Up to so many bytes are counted at once on the way to an offset.
const STRIDE: usize = 4096;

/// Which part of a text to cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Where it starts; inside a surrogate pair, the pair is taken whole.
    pub(super) offset: usize,
    /// Most UTF-16 units; one character is always taken.
    pub(super) limit: usize,
    /// Most bytes of escaped text.
    pub(super) budget: usize,
}

/// A part of a text, escaped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Where it really starts.
    pub(super) offset: usize,
    /// Where the next one starts; `None` at the end.
    pub(super) next: Option<usize>,
    /// The escaped text.
    pub(super) escaped: String,
    /// Whether the budget ended it, not the limit or the text.
    pub(super) is_clipped: bool,
}

/// The UTF-16 units of a character that starts with this byte; none for a byte in the middle of one.
fn units_of(byte: u8) -> usize {
    usize::from(byte & 0xc0 != 0x80) + usize::from(byte >= 0xf0)
}

/// The length of a text in UTF-16 units.
pub(super) fn units(text: &str) -> usize {
    text.bytes().map(units_of).sum()
}

/// The character at an offset: its place in bytes and in UTF-16 units. The end of the text for a larger one.
fn locate(text: &str, offset: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let (mut at, mut passed) = (0, 0);
    while let Some(stride) = bytes.get(at..at + STRIDE) {
        let held = stride.iter().copied().map(units_of).sum::<usize>();
        if passed + held > offset {
            break;
        }
        passed += held;
        at += STRIDE;
    }
    while !text.is_char_boundary(at) {
        at += 1;
    }
    for character in text[at..].chars() {
        if passed + character.len_utf16() > offset {
            break;
        }
        passed += character.len_utf16();
        at += character.len_utf8();
    }
    (at, passed)
}

/// Cuts a page.
pub(super) fn cut(text: &str, total: usize, Cut { offset, limit, budget }: Cut) -> Page {
    let (from, start) = locate(text, offset);
    let mut escaped = String::new();
    let (mut taken, mut is_clipped) = (0, false);
    for character in text[from..].chars() {
        let units = character.len_utf16();
        if taken > 0 && taken + units > limit {
            break;
        }
        if escaped.len() + envelope::weight(character) > budget {
            is_clipped = true;
            break;
        }
        envelope::push(&mut escaped, character);
        taken += units;
    }
    let end = start + taken;
    Page { offset: start, next: (end < total).then_some(end), escaped, is_clipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: usize = usize::MAX;

    fn page(text: &str, offset: usize, limit: usize, budget: usize) -> (usize, Option<usize>, String, bool) {
        let Page { offset, next, escaped, is_clipped } = cut(text, units(text), Cut { offset, limit, budget });
        (offset, next, escaped, is_clipped)
    }

    #[test]
    fn a_page_holds_whole_characters() {
        let text = "a😀漢b";
        assert_eq!(units(text), text.encode_utf16().count());
        assert_eq!(page(text, 0, 2, AMPLE), (0, Some(1), "a".into(), false));
        assert_eq!(page(text, 1, 1, AMPLE), (1, Some(3), "😀".into(), false));
        assert_eq!(page(text, 2, 2, AMPLE), (1, Some(3), "😀".into(), false));
        assert_eq!(page(text, 3, 9, AMPLE), (3, None, "漢b".into(), false));
        assert_eq!(page(text, 5, 9, AMPLE), (5, None, String::new(), false));
    }

    #[test]
    fn the_budget_counts_escaped_bytes() {
        assert_eq!(page("<<a", 0, 9, 8), (0, Some(2), "&lt;&lt;".into(), true));
        assert_eq!(page("<<a", 0, 9, 9), (0, None, "&lt;&lt;a".into(), false));
        assert_eq!(page("漢", 0, 9, 2), (0, Some(0), String::new(), true));
    }

    #[test]
    fn pages_from_any_stride_join_to_the_text() {
        let text = "x😀é漢字<&".repeat(3000);
        let total = units(&text);
        for limit in [1, 2, 997, 16_000] {
            let (mut joined, mut offset) = (String::new(), Some(0));
            let mut pages = 0;
            while let Some(at) = offset {
                let page = cut(&text, total, Cut { offset: at, limit, budget: AMPLE });
                assert_eq!(page.offset, at);
                joined.push_str(&page.escaped);
                offset = page.next;
                pages += 1;
                if limit < 3 && pages > 2000 {
                    break;
                }
            }
            let plain = joined.replace("&lt;", "<").replace("&amp;", "&");
            assert!(text.starts_with(&plain) && (limit < 3 || plain.len() == text.len()), "{limit}");
        }
    }

    #[test]
    fn every_offset_is_found() {
        let text = "😀é漢a".repeat(700);
        let wide: Vec<u16> = text.encode_utf16().collect();
        for offset in (0..=wide.len()).step_by(7) {
            let (at, found) = locate(&text, offset);
            assert!(found == offset || found + 1 == offset, "{offset}");
            assert_eq!(text[at..].encode_utf16().collect::<Vec<_>>(), wide[found..], "{offset}");
        }
    }
}
