//! Where the values of a JSON text stand, and which keys are there twice.
//!
//! Parses each level into raw slices and takes their addresses in the text. The text has been parsed
//! before, so its depth is bounded.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::problem::{Position, escaped};

/// No declaration has fields below `/mcpServers/<name>/<field>/<key>`.
const DEEPEST: usize = 4;
/// More of them would not be read.
const MOST_TWICE: usize = 20;

/// Where values stand; a member of an object stands where its key does.
pub(super) struct Places<'t> {
    cursor: Cursor<'t>,
    starts: HashMap<String, Position>,
    twice: Vec<(String, Position)>,
}

impl<'t> Places<'t> {
    /// Finds the places of a text that is valid JSON.
    pub(super) fn find(text: &'t str) -> Result<Self, serde_json::Error> {
        let mut places = Self { cursor: Cursor::new(text), starts: HashMap::new(), twice: Vec::new() };
        let whole = serde_json::from_str(text)?;
        places.enter(whole, &[]);
        places.walk(whole, &mut Vec::new())?;
        Ok(places)
    }

    /// The place of a JSON pointer, or of the nearest that holds it.
    pub(super) fn position(&self, pointer: &str) -> Position {
        let mut pointer = pointer;
        loop {
            if let Some(&position) = self.starts.get(pointer) {
                return position;
            }
            match pointer.rsplit_once('/') {
                Some((holder, _)) => pointer = holder,
                None => return Position::START,
            }
        }
    }

    /// The keys that are there twice: the pointer and the second place.
    pub(super) fn twice(&self) -> impl Iterator<Item = (&str, Position)> {
        self.twice.iter().map(|(pointer, position)| (pointer.as_str(), *position))
    }

    fn walk(&mut self, value: &'t RawValue, path: &mut Vec<String>) -> Result<(), serde_json::Error> {
        match value.get().as_bytes().first() {
            Some(b'{') => {
                let mut known = HashSet::new();
                for (raw_key, member) in serde_json::from_str::<Members<'t>>(value.get())?.0 {
                    let key: String = serde_json::from_str(raw_key.get())?;
                    path.push(escaped(&key));
                    let position = self.enter(raw_key, path);
                    if !known.insert(key) && self.twice.len() < MOST_TWICE {
                        self.twice.push((pointer(path), position));
                    }
                    self.walk(member, path)?;
                    path.pop();
                }
            }
            Some(b'[') => {
                for (index, item) in serde_json::from_str::<Vec<&'t RawValue>>(value.get())?.into_iter().enumerate() {
                    path.push(index.to_string());
                    self.enter(item, path);
                    self.walk(item, path)?;
                    path.pop();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, at: &RawValue, path: &[String]) -> Position {
        let start = at.get().as_ptr().addr().saturating_sub(self.cursor.text.as_ptr().addr());
        let position = self.cursor.advance(start);
        if path.len() <= DEEPEST {
            self.starts.insert(pointer(path), position);
        }
        position
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().flat_map(|step| ["/", step]).collect()
}

/// The place of a byte offset.
pub(super) fn position(text: &str, offset: usize) -> Position {
    Cursor::new(text).advance(offset)
}

/// Counts lines and columns on the way through a text, so that many places cost one pass.
struct Cursor<'t> {
    text: &'t str,
    offset: usize,
    at: Position,
}

impl<'t> Cursor<'t> {
    const fn new(text: &'t str) -> Self {
        Self { text, offset: 0, at: Position::START }
    }

    /// Goes on to a byte offset, which never lies before the last one.
    fn advance(&mut self, offset: usize) -> Position {
        for c in self.text.get(self.offset..offset).unwrap_or_default().chars() {
            if c == '\n' {
                self.at = Position { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
        self.offset = offset;
        self.at
    }
}

/// The members of an object in their order, duplicates included.
struct Members<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct AllMembers;

        impl<'t> Visitor<'t> for AllMembers {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(AllMembers)
    }
}
