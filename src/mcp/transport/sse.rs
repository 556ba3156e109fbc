//! Server-sent events: bytes in, the data of each event out.
//!
//! Lines end with CR, LF or both; comments and the fields `id`, `retry` and `event` play no part.

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
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
            if self.has_data {
                event(&self.data);
            }
            self.data.clear();
            self.has_data = false;
        } else if let Some(rest) = line.strip_prefix(b"data") {
            let value = match rest {
                [] => rest,
                [b':', b' ', value @ ..] | [b':', value @ ..] => value,
                _ => return,
            };
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
            let text = "\u{feff}: hi\ndata: a\ndata:b\nid: 7\n\nevent: x\n\ndata: c\n\n".replace('\n', end);
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
