//! Globs over tool names and texts, by characters.
//!
//! `*` is any text, `?` one character, `[…]` a class, `{a,b}` a choice, and `\` takes the next as it is. In a class, `!`
//! or `^` in front negates, a `]` that comes first is a member, and a backslash is itself. `js/globs.js` reads the same.

use regex::{Regex, RegexBuilder};

use super::pattern::hex;

/// A compiled glob.
#[derive(Debug)]
pub(super) struct Glob {
    text: String,
    regex: Regex,
}

impl Glob {
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let pattern = translate(text)?;
        let regex = RegexBuilder::new(&pattern)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| "is too large a glob".to_owned())?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

fn translate(glob: &str) -> Result<String, String> {
    let mut out = String::from(r"\A(?:");
    let mut open = 0_usize;
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            '}' => {
                open = open.checked_sub(1).ok_or("has a \"}\" that closes nothing")?;
                out.push(')');
            }
            ',' if open > 0 => out.push('|'),
            '[' => {
                let is_negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
                let mut members = Vec::new();
                loop {
                    match chars.next() {
                        None => return Err("does not close a \"[\"".to_owned()),
                        Some(']') if !members.is_empty() => break,
                        Some('[') if matches!(chars.peek(), Some(':' | '.' | '=')) => {
                            return Err("names a class of characters, which is not supported".to_owned());
                        }
                        Some(c) => members.push(c),
                    }
                }
                out.push_str(if is_negated { "[^" } else { "[" });
                out.push_str(&ranges(&members)?);
                out.push(']');
            }
            '\\' => out.push_str(&hex(chars.next().ok_or("ends with a backslash")?)),
            c => out.push_str(&hex(c)),
        }
    }
    if open > 0 {
        return Err("does not close a \"{\"".to_owned());
    }
    out.push_str(r")\z");
    Ok(out)
}

fn ranges(members: &[char]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = members;
    while let Some((first, after)) = rest.split_first() {
        if let ['-', last, after @ ..] = after {
            if first > last {
                return Err("has a range of characters that is not one".to_owned());
            }
            out.push_str(&[hex(*first), hex(*last)].join("-"));
            rest = after;
        } else {
            out.push_str(&hex(*first));
            rest = after;
        }
    }
    Ok(out)
}
