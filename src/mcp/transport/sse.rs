//! Server-sent events: bytes in, the data of each event out.
//!
//! Lines end with CR, LF or both; comments and the fields `id` and `retry` play no part. Events of another type
//! than `message` are none of ours.

/// The type of the event that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Message,
    Other,
}

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    kind: Kind,
    after_cr: bool,
    past_first_line: bool,
}

impl SseParser {
    /// Takes the next bytes and hands the data of every finished event to `event`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut event: impl FnMut(&[u8])) {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) {
            let (head, tail) = bytes.split_at(end);
            self.line.extend_from_slice(head);
            self.finish_line(&mut event);
            bytes = match tail {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.line.extend_from_slice(bytes);
    }

    /// How many bytes of an unfinished event are kept.
    pub(crate) fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    fn finish_line(&mut self, event: &mut impl FnMut(&[u8])) {
        let mut line = std::mem::take(&mut self.line);
        if !self.past_first_line {
            self.past_first_line = true;
            if line.starts_with(b"\xEF\xBB\xBF") {
                line.drain(..3);
            }
        }
        if line.is_empty() {
            if self.has_data && self.kind == Kind::Message {
                event(&self.data);
            }
            self.data.clear();
            self.has_data = false;
            self.kind = Kind::Message;
        } else if let Some(kind) = field(&line, b"event") {
            self.kind = if matches!(kind, b"" | b"message") { Kind::Message } else { Kind::Other };
        } else if let Some(value) = field(&line, b"data") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(value);
        }
        line.clear();
        self.line = line;
    }
}

/// The value of a line, when it is that field.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::SseParser;

    fn events(chunks: &[&str]) -> Vec<String> {
        let (mut parser, mut found) = (SseParser::default(), Vec::new());
        for chunk in chunks {
            parser.push(chunk.as_bytes(), |data| found.push(String::from_utf8_lossy(data).into_owned()));
        }
        found
    }

    #[test]
    fn every_line_end_and_split_gives_the_same_events() {
        let expected = vec!["a\nb".to_owned(), "c".to_owned()];
        for end in ["\n", "\r", "\r\n"] {
            let text = "\u{feff}: hi\ndata: a\ndata:b\nid: 7\n\nevent: x\n\nevent: ping\ndata: {}\n\nevent: message\ndata: c\n\n".replace('\n', end);
            assert_eq!(events(&[&text]), expected);
            let bytes: Vec<String> = text.chars().map(String::from).collect();
            let split: Vec<&str> = bytes.iter().map(String::as_str).collect();
            assert_eq!(events(&split), expected);
        }
    }

    #[test]
    fn an_unfinished_event_is_dropped() {
        assert_eq!(events(&["data: a\n"]), Vec::<String>::new());
    }
}
