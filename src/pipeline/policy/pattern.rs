//! `regex` conditions: JavaScript's patterns, matched in linear time.
//!
//! Owns one meaning: a pattern is read as JavaScript reads it with the `u` flag, and becomes a pattern of the `regex`
//! crate that finds the same texts. What cannot be carried over is refused, never read in another way.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

/// Groups nest at most this deep.
const MAX_NESTING: usize = 64;
const DIGIT: &str = "[0-9]";
const NOT_DIGIT: &str = "[^0-9]";
const WORD: &str = "[0-9A-Za-z_]";
const NOT_WORD: &str = "[^0-9A-Za-z_]";
const SPACE: &str = r"[\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}]";
const NOT_SPACE: &str =
    r"[^\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}]";
const LINE_END: &str = r"[\n\r\x{2028}\x{2029}]";
const NOT_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";
const ANY: &str = "(?s:.)";
const NONE: &str = r"[^\x{0}-\x{10FFFF}]";

/// A compiled `regex` condition.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// JavaScript counts `ſ` and the Kelvin sign as word characters when it ignores case.
    folds_words: bool,
}

impl Pattern {
    /// Reads `(?ims)` at the start as flags, and the rest as JavaScript does with the `u` flag.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let (flags, source) = Flags::split(text)?;
        let mut translation = Translation { source: source.chars().collect(), at: 0, flags, out: String::new() };
        translation.pattern()?;
        let regex = RegexBuilder::new(&translation.out)
            .case_insensitive(flags.ignore_case)
            .build()
            .map_err(|_| "is too large a regular expression".to_owned())?;
        Ok(Self { regex, folds_words: flags.ignore_case })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        let text = if self.folds_words && text.contains(['\u{17F}', '\u{212A}']) {
            Cow::Owned(text.replace('\u{17F}', "s").replace('\u{212A}', "k"))
        } else {
            Cow::Borrowed(text)
        };
        self.regex.is_match(&text)
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    multiline: bool,
    dot_all: bool,
}

impl Flags {
    fn split(text: &str) -> Result<(Self, &str), String> {
        let mut flags = Self::default();
        let leading = text.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
        let Some((letters, source)) = leading.filter(|(letters, _)| is_flags(letters)) else {
            return Ok((flags, text));
        };
        for letter in letters.chars() {
            let flag = match letter {
                'i' => &mut flags.ignore_case,
                'm' => &mut flags.multiline,
                _ => &mut flags.dot_all,
            };
            if std::mem::replace(flag, true) {
                return Err("names a flag twice".to_owned());
            }
        }
        Ok((flags, source))
    }
}

fn is_flags(letters: &str) -> bool {
    !letters.is_empty() && letters.chars().all(|letter| matches!(letter, 'i' | 'm' | 's'))
}

/// A member of a class.
enum Member {
    One(char),
    Set(&'static str),
}

struct Translation {
    source: Vec<char>,
    at: usize,
    flags: Flags,
    out: String,
}

impl Translation {
    fn peek(&self) -> Option<char> {
        self.source.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn take(&mut self, wanted: &str) -> bool {
        let length = wanted.chars().count();
        let found =
            self.source.get(self.at..self.at + length).is_some_and(|next| next.iter().copied().eq(wanted.chars()));
        if found {
            self.at += length;
        }
        found
    }

    fn literal(&mut self, c: char) {
        self.out.push_str(&hex(c));
    }

    fn pattern(&mut self) -> Result<(), String> {
        self.choice(0)?;
        if self.peek().is_some() { Err("closes a group that is not open".to_owned()) } else { Ok(()) }
    }

    fn choice(&mut self, nesting: usize) -> Result<(), String> {
        if nesting > MAX_NESTING {
            return Err(format!("nests groups deeper than {MAX_NESTING}"));
        }
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some('|' | ')')) {
                self.term(nesting, self.at == start)?;
            }
            if !self.take("|") {
                return Ok(());
            }
            self.out.push('|');
        }
    }

    fn term(&mut self, nesting: usize, is_first: bool) -> Result<(), String> {
        match self.next() {
            Some('^') => return self.line_start(nesting, is_first),
            Some('$') => return self.line_end(nesting),
            Some('\\') if self.take("b") => return self.assertion(r"(?-u:\b)"),
            Some('\\') if self.take("B") => return self.assertion(r"(?-u:\B)"),
            Some('(') => self.group(nesting)?,
            Some('[') => self.class()?,
            Some('.') => self.out.push_str(if self.flags.dot_all { ANY } else { NOT_LINE_END }),
            Some('\\') => match self.escape()? {
                Member::One(c) => self.literal(c),
                Member::Set(set) => self.out.push_str(set),
            },
            Some('*' | '+' | '?') => return Err("repeats nothing".to_owned()),
            Some(c @ ('{' | '}' | ']')) => return Err(format!("has a \"{c}\" that needs a backslash")),
            Some(c) => self.literal(c),
            None => {}
        }
        self.repetition()
    }

    /// With the `m` flag, a line end before the match may be part of it: only whether there is a match counts.
    fn line_start(&mut self, nesting: usize, is_first: bool) -> Result<(), String> {
        if !self.flags.multiline {
            return self.assertion(r"\A");
        }
        if nesting > 0 || !is_first {
            return Err("has a \"^\" inside; with the m flag it may only begin a pattern or an alternative".to_owned());
        }
        self.assertion(&format!(r"(?:\A|{LINE_END})"))
    }

    fn line_end(&mut self, nesting: usize) -> Result<(), String> {
        if !self.flags.multiline {
            return self.assertion(r"\z");
        }
        if nesting > 0 || !matches!(self.peek(), None | Some('|')) {
            return Err("has a \"$\" inside; with the m flag it may only end a pattern or an alternative".to_owned());
        }
        self.assertion(&format!(r"(?:\z|{LINE_END})"))
    }

    fn assertion(&mut self, written: &str) -> Result<(), String> {
        self.out.push_str(written);
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) {
            return Err("repeats a place, not a text".to_owned());
        }
        Ok(())
    }

    fn group(&mut self, nesting: usize) -> Result<(), String> {
        if self.take("?") && !self.take(":") {
            if !self.take("<") || matches!(self.peek(), Some('=' | '!')) {
                return Err("uses look-around or flags of a group, which are not supported".to_owned());
            }
            let name = self.source[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
            self.at += name;
            if name == 0 || !self.take(">") {
                return Err("names a group with other characters than A-Z a-z 0-9 _".to_owned());
            }
        }
        self.out.push_str("(?:");
        self.choice(nesting + 1)?;
        self.out.push(')');
        if self.take(")") { Ok(()) } else { Err("does not close a group".to_owned()) }
    }

    /// Whether a repetition is lazy makes no difference to whether there is a match.
    fn repetition(&mut self) -> Result<(), String> {
        match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                self.out.push(c);
            }
            Some('{') => {
                self.at += 1;
                let least = self.number().ok_or("has a \"{\" that needs a backslash")?;
                let most = if self.take(",") { self.number() } else { Some(least) };
                if !self.take("}") || most.is_some_and(|most| most < least) {
                    return Err("has a repetition that is not {n}, {n,} or {n,m}".to_owned());
                }
                let most = most.map(|most| most.to_string()).unwrap_or_default();
                self.out.push('{');
                self.out.push_str(&[least.to_string(), most].join(","));
                self.out.push('}');
            }
            _ => return Ok(()),
        }
        self.take("?");
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) {
            return Err("repeats a repetition".to_owned());
        }
        Ok(())
    }

    fn number(&mut self) -> Option<u32> {
        let digits: String = self.source[self.at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        self.at += digits.len();
        digits.parse().ok()
    }

    fn class(&mut self) -> Result<(), String> {
        let is_negated = self.take("^");
        let mut members = String::new();
        while !self.take("]") {
            let first = self.member()?;
            let is_range = self.peek() == Some('-') && self.source.get(self.at + 1).is_some_and(|c| *c != ']');
            match first {
                Member::One(low) if is_range => {
                    self.at += 1;
                    match self.member()? {
                        Member::One(high) if low <= high => members.push_str(&[hex(low), hex(high)].join("-")),
                        _ => return Err("has a range of characters that is not one".to_owned()),
                    }
                }
                Member::Set(_) if is_range => return Err("has a range of characters that is not one".to_owned()),
                Member::One(c) => members.push_str(&hex(c)),
                Member::Set(set) => members.push_str(set),
            }
        }
        match (members.is_empty(), is_negated) {
            (true, true) => self.out.push_str(ANY),
            (true, false) => self.out.push_str(NONE),
            (false, _) => {
                self.out.push_str(if is_negated { "[^" } else { "[" });
                self.out.push_str(&members);
                self.out.push(']');
            }
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Member, String> {
        match self.next() {
            Some('\\') if self.take("b") => Ok(Member::One('\u{8}')),
            Some('\\') if self.take("-") => Ok(Member::One('-')),
            Some('\\') => self.escape(),
            Some(c) => Ok(Member::One(c)),
            None => Err("does not close a \"[\"".to_owned()),
        }
    }

    fn escape(&mut self) -> Result<Member, String> {
        let c = self.next().ok_or("ends with a backslash")?;
        let one = match c {
            'd' => return Ok(Member::Set(DIGIT)),
            'D' => return Ok(Member::Set(NOT_DIGIT)),
            'w' => return Ok(Member::Set(WORD)),
            'W' => return Ok(Member::Set(NOT_WORD)),
            's' => return Ok(Member::Set(SPACE)),
            'S' => return Ok(Member::Set(NOT_SPACE)),
            't' => '\t',
            'n' => '\n',
            'v' => '\u{B}',
            'f' => '\u{C}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => '\0',
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => char::from(letter as u8 % 32),
                _ => return Err("has a \"\\c\" without a letter".to_owned()),
            },
            'x' => self.code(2).and_then(char::from_u32).ok_or("has a \"\\x\" without two hex digits")?,
            'u' => self.unicode().ok_or("has a \"\\u\" that is no character")?,
            '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' => c,
            'k' | '1'..='9' => return Err("refers back to a group, which is not supported".to_owned()),
            'p' | 'P' => return Err("names a property of Unicode, which is not supported".to_owned()),
            _ => return Err("has a backslash before a character that needs none".to_owned()),
        };
        Ok(Member::One(one))
    }

    fn code(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.source.get(self.at..self.at + digits)?.iter().collect();
        if !text.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(&text, 16).ok()
    }

    fn unicode(&mut self) -> Option<char> {
        if self.take("{") {
            let digits = self.source[self.at..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
            let code = self.code(digits)?;
            return if self.take("}") { char::from_u32(code) } else { None };
        }
        let high = self.code(4)?;
        if (0xD800..0xDC00).contains(&high) && self.take("\\u") {
            let low = self.code(4).filter(|low| (0xDC00..0xE000).contains(low))?;
            return char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
        }
        char::from_u32(high)
    }
}

/// A character as a pattern, whatever it is.
pub(super) fn hex(c: char) -> String {
    format!("\\x{{{:X}}}", u32::from(c))
}
