//! Where references lead inside one document.
//!
//! Owns the identifiers and anchors of a schema. A reference that leaves the document is refused.

use std::{collections::HashMap, rc::Rc};

use jsonschema::Draft;
use serde_json::{Map, Value};
use url::Url;

use super::{
    compile::{SchemaError, cut},
    dialect::is_old,
    keywords::parts,
};

/// The identity of a schema inside its document.
pub(super) type Key = *const Value;

/// A schema that was seen, and how its references are read.
pub(super) struct Place<'s> {
    pub(super) schema: &'s Value,
    /// The JSON pointer from the root.
    pub(super) path: String,
    base: Rc<Url>,
}

/// All schemas of a document, with their identifiers.
pub(super) struct Refs<'s> {
    draft: Draft,
    root: &'s Value,
    places: HashMap<Key, Place<'s>>,
    /// Schemas in the order they were seen.
    order: Vec<Key>,
    resources: HashMap<String, &'s Value>,
    anchors: HashMap<(String, String), &'s Value>,
    dynamic: Vec<(String, &'s Value)>,
    recursive: Vec<&'s Value>,
}

impl<'s> Refs<'s> {
    /// Sees every schema under `root`; `max_depth` is how deep they may nest.
    pub(super) fn index(root: &'s Value, draft: Draft, max_depth: usize) -> Result<Self, SchemaError> {
        let mut refs = Self {
            draft,
            root,
            places: HashMap::new(),
            order: Vec::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: Vec::new(),
            recursive: Vec::new(),
        };
        let Ok(base) = Url::parse("json-schema:///") else {
            return Err(SchemaError::Invalid { path: String::new(), keyword: "$id".into() });
        };
        refs.resources.insert(base.to_string(), root);
        refs.walk(root, String::new(), Rc::new(base), max_depth)?;
        Ok(refs)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn nth(&self, index: usize) -> Option<&'s Value> {
        self.order.get(index).and_then(|key| self.places.get(key)).map(|place| place.schema)
    }

    pub(super) fn path(&self, schema: &Value) -> &str {
        self.places.get(&std::ptr::from_ref(schema)).map_or("", |place| place.path.as_str())
    }

    fn walk(&mut self, from: &'s Value, path: String, base: Rc<Url>, max_depth: usize) -> Result<(), SchemaError> {
        let mut open = vec![(from, path, base, 1)];
        while let Some((schema, path, base, depth)) = open.pop() {
            if depth > max_depth {
                return Err(SchemaError::Depth { path: cut(&path), limit: max_depth });
            }
            let key = std::ptr::from_ref(schema);
            if self.places.contains_key(&key) {
                continue;
            }
            let mut base = base;
            if let Some(map) = schema.as_object() {
                base = self.identify(schema, map, base)?;
                for part in parts(map).into_iter().rev() {
                    open.push((part.schema, format!("{path}{}", part.path), Rc::clone(&base), depth + 1));
                }
            }
            self.places.insert(key, Place { schema, path, base });
            self.order.push(key);
        }
        Ok(())
    }

    /// Notes the identifiers of a schema and tells its base.
    fn identify(&mut self, schema: &'s Value, map: &Map<String, Value>, base: Rc<Url>) -> Result<Rc<Url>, SchemaError> {
        let mut base = base;
        let keyword = if self.draft == Draft::Draft4 { "id" } else { "$id" };
        let hidden = is_old(self.draft) && map.contains_key("$ref");
        if let Some(id) = map.get(keyword).and_then(Value::as_str).filter(|_| !hidden) {
            let Ok(mut url) = base.join(id) else {
                return Err(SchemaError::Invalid { path: String::new(), keyword: keyword.into() });
            };
            let fragment = url.fragment().map(str::to_owned).unwrap_or_default();
            url.set_fragment(None);
            if fragment.is_empty() {
                if std::ptr::eq(schema, self.root) {
                    self.resources.insert(url.to_string(), schema);
                } else if self.resources.insert(url.to_string(), schema).is_some() {
                    return Err(SchemaError::DuplicateId { id: cut(id) });
                }
                base = Rc::new(url);
            } else {
                self.anchors.insert((url.to_string(), fragment), schema);
            }
        }
        for anchor in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = map.get(anchor).and_then(Value::as_str) {
                self.anchors.insert((base.to_string(), name.to_owned()), schema);
                if anchor == "$dynamicAnchor" {
                    self.dynamic.push((name.to_owned(), schema));
                }
            }
        }
        if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.recursive.push(schema);
        }
        Ok(base)
    }

    /// The schemas that the references of `schema` may lead to.
    pub(super) fn targets(&mut self, schema: &'s Value) -> Result<Vec<&'s Value>, SchemaError> {
        let Some(map) = schema.as_object() else {
            return Ok(Vec::new());
        };
        let mut found: Vec<&'s Value> = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = map.get(keyword).and_then(Value::as_str) else {
                continue;
            };
            found.push(self.resolve(schema, reference)?);
            if keyword == "$dynamicRef" {
                let name = reference.rsplit_once('#').map_or("", |(_, name)| name);
                found.extend(self.dynamic.iter().filter(|(n, _)| n == name).map(|(_, s)| *s));
            } else if keyword == "$recursiveRef" {
                found.extend(&self.recursive);
            }
        }
        let mut seen: Vec<Key> = Vec::new();
        found.retain(|schema| {
            let key = std::ptr::from_ref(*schema);
            let new = !seen.contains(&key);
            seen.push(key);
            new
        });
        Ok(found)
    }

    fn resolve(&mut self, from: &'s Value, reference: &str) -> Result<&'s Value, SchemaError> {
        let Some(place) = self.places.get(&std::ptr::from_ref(from)) else {
            return Err(SchemaError::MissingRef { reference: cut(reference), path: String::new() });
        };
        let path = place.path.clone();
        let missing = || SchemaError::MissingRef { reference: cut(reference), path: cut(&path) };
        let mut url = place.base.join(reference).map_err(|_| missing())?;
        let fragment = decoded(url.fragment().unwrap_or_default()).ok_or_else(missing)?;
        url.set_fragment(None);
        let Some(resource) = self.resources.get(url.as_str()).copied() else {
            return Err(SchemaError::ExternalRef { reference: cut(reference), path: cut(&path) });
        };
        if fragment.is_empty() {
            return Ok(resource);
        }
        if !fragment.starts_with('/') {
            let anchor = self.anchors.get(&(url.to_string(), fragment));
            return anchor.copied().ok_or_else(missing);
        }
        let target = resource.pointer(&fragment).ok_or_else(missing)?;
        if !self.places.contains_key(&std::ptr::from_ref(target)) {
            // The target is not where schemas usually are, so it was not seen yet.
            let root = self.path(resource).to_owned();
            self.walk(target, format!("{root}{fragment}"), Rc::new(url), super::MAX_DEPTH)?;
        }
        Ok(target)
    }
}

/// Undoes percent-encoding; `None` when that does not give text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = tail.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
