//! Text of others, made fit to be shown: to a person in a terminal, or to a model.

/// The text without characters that are not seen: control characters, direction overrides, zero-width and tag
/// characters. `None` when there are none, which is the common case. Line ends and tabs stay.
#[must_use]
pub fn cleaned(text: &str) -> Option<String> {
    text.contains(is_unseen).then(|| text.replace(is_unseen, ""))
}

fn is_unseen(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn what_is_not_seen_goes_and_the_rest_stays() {
        assert_eq!(cleaned("Zażółć\n\t中文 😀️"), None);
        let dirty = "a\u{1b}[31mb\u{202e}c\u{200b}d\u{e0041}e\r\u{7f}\u{feff}";
        assert_eq!(cleaned(dirty).as_deref(), Some("a[31mbcde"));
    }
}
