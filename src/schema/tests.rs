//! What schemas are taken, and what violations say.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::*;
use crate::base::code::ErrorCode;

fn refused(schema: &Value) -> (ErrorCode, String) {
    match CompiledSchema::compile(schema) {
        Ok(_) => panic!("the schema compiled"),
        Err(error) => (error.code(), error.to_string()),
    }
}

fn violations(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let compiled = CompiledSchema::compile(schema).unwrap();
    let found = compiled.validate(value).err().unwrap_or_default();
    found.into_iter().map(|v| (v.path, v.rule)).collect()
}

fn rule(schema: Value, value: Value) -> String {
    violations(&schema, &value).into_iter().map(|(path, rule)| format!("{path} {rule}")).collect::<Vec<_>>().join("|")
}

#[test]
fn it_may_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<CompiledSchema>();
}

#[test]
fn violations_name_the_path_and_the_rule_and_never_the_value() {
    let object = json!({ "type": "object", "properties": { "q": { "type": "string", "maxLength": 3 }, "n": { "type": ["integer", "null"] } },
        "required": ["q"], "additionalProperties": false });

    assert_eq!(rule(object.clone(), json!({})), "/ required: missing \"q\"");
    assert_eq!(rule(object.clone(), json!({ "q": 5 })), "/q type: must be string");
    assert_eq!(rule(object.clone(), json!({ "q": "secret" })), "/q maxLength: has more than 3 characters");
    assert_eq!(rule(object.clone(), json!({ "q": "a", "n": "x" })), "/n type: must be null or integer");
    assert_eq!(
        rule(object.clone(), json!({ "q": "a", "secret": 1 })),
        "/ additionalProperties: has a property that is not allowed; allowed are \"q\", \"n\""
    );
    assert_eq!(rule(json!({ "enum": ["a", 1] }), json!("secret")), "/ enum: must be one of \"a\", 1");
    assert_eq!(rule(json!({ "const": "a" }), json!("secret")), "/ const: must be \"a\"");
    assert_eq!(rule(json!(false), json!("secret")), "/ falseSchema: no value is allowed here");
    let found = CompiledSchema::compile(&object).unwrap().validate(&json!({})).unwrap_err();
    assert_eq!(describe(&found), "at /: required: missing \"q\"");
}

#[test]
fn no_keyword_echoes_the_value() {
    let schemas = [
        json!({ "pattern": "^x$" }),
        json!({ "format": "date" }),
        json!({ "anyOf": [{ "const": 1 }, { "const": 2 }] }),
        json!({ "oneOf": [{ "const": 1 }] }),
        json!({ "oneOf": [true, true] }),
        json!({ "not": true }),
        json!({ "maxLength": 1 }),
        json!({ "type": "number" }),
        json!({ "enum": [1] }),
        json!({ "if": true, "then": false }),
        json!({ "allOf": [{ "const": 1 }] }),
    ];
    for schema in schemas {
        let told = rule(schema.clone(), json!("s3cr3t"));
        assert!(!told.is_empty() && !told.contains("s3cr3t"), "{schema}: {told}");
    }
    for schema in [
        json!({ "unevaluatedProperties": false }),
        json!({ "propertyNames": { "maxLength": 1 } }),
        json!({ "maxProperties": 0 }),
    ] {
        let told = rule(schema.clone(), json!({ "s3cr3t": "s3cr3t" }));
        assert!(!told.is_empty() && !told.replace("/s3cr3t ", "").contains("s3cr3t"), "{schema}: {told}");
    }
}

#[test]
fn at_most_twenty_violations_are_told() {
    let value = Value::Array((0..100_000).map(|_| json!("x")).collect());
    assert_eq!(violations(&json!({ "items": { "type": "number" } }), &value).len(), 20);
}

#[test]
fn the_dialect_is_2020_12_unless_the_schema_says() {
    let tuple = |uri: Option<&str>| {
        let mut schema = json!({ "items": [{ "type": "string" }] });
        if let Some(uri) = uri {
            schema["$schema"] = json!(uri);
        }
        CompiledSchema::compile(&schema)
    };

    assert!(tuple(None).is_err());
    for uri in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ] {
        assert!(tuple(Some(uri)).unwrap().validate(&json!([1])).is_err(), "{uri}");
    }
    assert!(tuple(Some("https://json-schema.org/draft/2020-12/schema#")).is_err());
    let (code, message) = refused(&json!({ "$schema": "https://example.com/mine" }));
    assert_eq!(code, ErrorCode::McpSchema);
    assert!(message.contains("https://example.com/mine"), "{message}");
    assert!(refused(&json!({ "$schema": 5 })).1.contains("/$schema"));
}

#[test]
fn formats_are_asserted_and_unknown_ones_ignored() {
    assert_eq!(
        rule(json!({ "format": "date-time" }), json!("yesterday")),
        "/ format: must be in the format \"date-time\""
    );
    assert_eq!(rule(json!({ "format": "date-time" }), json!("2024-01-01T00:00:00Z")), "");
    assert_eq!(rule(json!({ "format": "x-mine" }), json!("y")), "");
}

#[test]
fn only_objects_and_booleans_are_schemas() {
    for schema in [json!(null), json!([]), json!("x"), json!(1)] {
        assert_eq!(refused(&schema).0, ErrorCode::McpSchema);
    }
    assert!(CompiledSchema::compile(&json!(true)).unwrap().validate(&json!(1)).is_ok());
    assert!(refused(&json!({ "type": "strin" })).1.contains("/type"));
    assert!(refused(&json!({ "properties": { "a": { "minLength": -1 } } })).1.contains("/properties/a/minLength"));
}

#[test]
fn references_outside_the_schema_are_refused_by_name() {
    for reference in [
        "https://example.com/s.json",
        "file:///etc/passwd",
        "other.json",
        "//example.com/x",
        "http://json-schema.org/draft-07/schema#",
    ] {
        for keyword in ["$ref", "$dynamicRef"] {
            let (code, message) = refused(&json!({ "properties": { "a": { keyword: reference } } }));
            assert_eq!(code, ErrorCode::McpSchema);
            assert!(message.contains(reference) && message.contains("/properties/a"), "{message}");
        }
    }
    assert!(refused(&json!({ "$ref": "#/$defs/none" })).1.contains("#/$defs/none"));
    assert!(refused(&json!({ "$ref": "#none" })).1.contains("#none"));
}

#[test]
fn references_inside_the_schema_work() {
    let cases = [
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } }),
        json!({ "$ref": "#/$defs/a%20b~1c", "$defs": { "a b/c": { "type": "string" } } }),
        json!({ "$ref": "#x", "$defs": { "a": { "$anchor": "x", "type": "string" } } }),
        json!({ "$id": "https://example.com/root", "$ref": "a", "$defs": { "a": { "$id": "a", "type": "string" } } }),
        json!({ "$id": "https://example.com/root", "$ref": "https://example.com/root#/$defs/a", "$defs": { "a": { "type": "string" } } }),
        json!({ "$id": "urn:example:root", "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } }),
        json!({ "$ref": "#/elsewhere/a", "elsewhere": { "a": { "type": "string" } } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": { "a": { "type": "string" } } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{ "$ref": "#x" }], "definitions": { "a": { "$id": "#x", "type": "string" } } }),
        json!({ "$dynamicRef": "#x", "$defs": { "a": { "$dynamicAnchor": "x", "type": "string" } } }),
    ];
    for schema in cases {
        assert_eq!(rule(schema.clone(), json!("x")), "", "{schema}");
        assert!(rule(schema.clone(), json!(5)).contains("type: must be string"), "{schema}");
    }
}

#[test]
fn recursion_through_properties_is_fine() {
    let tree = json!({ "$defs": { "node": { "type": "object", "required": ["v"], "properties": { "v": { "type": "integer" },
        "kids": { "type": "array", "items": { "$ref": "#/$defs/node" } } } } }, "$ref": "#/$defs/node" });

    assert_eq!(rule(tree.clone(), json!({ "v": 1, "kids": [{ "v": 2 }] })), "");
    assert_eq!(
        rule(tree, json!({ "v": 1, "kids": [{ "v": 2, "kids": [{}] }] })),
        "/kids/0/kids/0 required: missing \"v\""
    );
}

#[test]
fn loops_of_references_compile_and_end() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "allOf": [{ "$ref": "#" }] }),
    ] {
        assert!(CompiledSchema::compile(&schema).unwrap().validate(&json!(1)).is_ok());
    }
}

#[test]
fn exponential_schemas_are_refused() {
    let doubling = |keyword: &str, levels: usize| {
        let mut defs = Map::new();
        for i in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            defs.insert(format!("d{i}"), json!({ keyword: [next, next] }));
        }
        defs.insert(format!("d{levels}"), json!({ "type": "string" }));
        json!({ "$ref": "#/$defs/d0", "$defs": defs })
    };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let (code, message) = refused(&doubling(keyword, 26));
        assert_eq!(code, ErrorCode::McpLimit);
        assert!(message.contains("10000"), "{message}");
    }
    assert!(CompiledSchema::compile(&doubling("allOf", 8)).is_ok());
    // Every definition applies all the others: a factorial number of paths.
    let all: Vec<_> = (0..12).map(|i| json!({ "$ref": format!("#/$defs/d{i}") })).collect();
    let defs: Map<_, _> = (0..12).map(|i| (format!("d{i}"), json!({ "allOf": all }))).collect();
    assert_eq!(refused(&json!({ "$ref": "#/$defs/d0", "$defs": defs })).0, ErrorCode::McpLimit);
    // Each level looks for what is unevaluated, which applies the next level twice.
    let mut nested = json!({ "type": "object" });
    for _ in 0..30 {
        nested = json!({ "allOf": [nested], "unevaluatedProperties": false });
    }
    assert_eq!(refused(&nested).0, ErrorCode::McpLimit);
}

#[test]
fn deep_schemas_are_refused_before_they_end_the_process() {
    let nested = |levels: usize| {
        (0..levels).fold(json!({ "type": "string" }), |inner, _| {
            // Not `json!`, which copies by recursion.
            Value::Object(Map::from_iter([("not".to_owned(), inner)]))
        })
    };

    assert!(CompiledSchema::compile(&nested(63)).is_ok());
    assert_eq!(refused(&nested(64)).0, ErrorCode::McpLimit);
    let mut deep = nested(5_000);
    assert_eq!(refused(&deep).0, ErrorCode::McpLimit);
    // Dropping a deep value recurses as well: take it apart.
    while let Some(inner) = deep.get_mut("not") {
        deep = inner.take();
    }
    let chain: Map<_, _> =
        (0..3_000).map(|i| (format!("d{i}"), json!({ "$ref": format!("#/$defs/d{}", (i + 1).min(2_999)) }))).collect();
    assert_eq!(refused(&json!({ "$ref": "#/$defs/d0", "$defs": chain })).0, ErrorCode::McpLimit);
}

#[test]
fn long_chains_through_properties_and_deep_values_do_not_overflow() {
    let mut defs: Map<_, _> = (0..15_000)
        .map(|i| (format!("d{i}"), json!({ "properties": { "a": { "$ref": format!("#/$defs/d{}", i + 1) } } })))
        .collect();
    defs.insert("d15000".into(), json!({ "type": "string" }));
    let schema = json!({ "$ref": "#/$defs/d0", "$defs": defs });
    assert!(CompiledSchema::compile(&schema).unwrap().validate(&json!({ "a": { "a": 1 } })).is_ok());

    let mut node = json!({ "properties": { "a": { "$ref": "#" } }, "required": ["b"] });
    for _ in 0..58 {
        node = json!({ "anyOf": [node] });
    }
    let value = (0..120).fold(json!({ "b": 1, "a": { } }), |inner, _| json!({ "b": 1, "a": inner }));
    let compiled = CompiledSchema::compile(&node).unwrap();
    let start = Instant::now();
    assert!(compiled.validate(&value).is_err());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn patterns_run_in_linear_time_or_not_at_all() {
    for pattern in ["(?=a)b", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1"] {
        let (code, message) = refused(&json!({ "properties": { "p": { "pattern": pattern } } }));
        assert_eq!(code, ErrorCode::McpSchema);
        assert!(message.contains("/properties/p/pattern"), "{message}");
        assert!(refused(&json!({ "patternProperties": { pattern: {} } })).1.contains("/patternProperties/"));
    }
    assert!(CompiledSchema::compile(&json!({ "pattern": r"^[(?=\]]+\(?=$" })).is_ok());
    assert!(refused(&json!({ "pattern": "(" })).1.contains("/pattern"));
    assert!(refused(&json!({ "pattern": "(?:a{1000}){1000}" })).1.contains("/pattern"));
    let evil = CompiledSchema::compile(&json!({ "pattern": "^(a+)+$" })).unwrap();
    assert!(evil.validate(&json!(format!("{}b", "a".repeat(50_000)))).is_err());
}

#[test]
fn paths_that_double_with_each_level_of_the_value_end_soon() {
    let twice = |keyword: &str, next: Value| {
        let level = json!({ "properties": { "a": next } });
        json!({ "type": "object", keyword: [level, level] })
    };
    let nested = |levels: usize, leaf: Value| (0..levels).fold(leaf, |inner, _| json!({ "a": inner }));
    let start = Instant::now();
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let recursive = CompiledSchema::compile(&twice(keyword, json!({ "$ref": "#" }))).unwrap();
        for levels in [14, 19, 100] {
            assert!(recursive.validate(&nested(levels, json!(1))).is_err());
        }
        let mut defs: Map<_, _> = (0..60)
            .map(|i| (format!("d{i}"), twice(keyword, json!({ "$ref": format!("#/$defs/d{}", i + 1) }))))
            .collect();
        defs.insert("d60".to_owned(), json!({}));
        let chain = json!({ "$ref": "#/$defs/d0", "$defs": defs });
        let found = CompiledSchema::compile(&chain).unwrap().validate(&nested(60, json!(1)));
        assert!(describe(&found.unwrap_err()).contains("5000000"));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_wide_tree_is_no_trouble() {
    let tree = json!({ "type": "object", "properties": { "l": { "$ref": "#" }, "r": { "$ref": "#" } }, "additionalProperties": false });
    let value = (0..12).fold(json!({}), |inner, _| json!({ "l": inner, "r": inner }));
    assert!(CompiledSchema::compile(&tree).unwrap().validate(&value).is_ok());
    let value = (0..12).fold(json!({ "x": 1 }), |inner, _| json!({ "l": inner, "r": {} }));
    let told = rule(tree, value);
    assert!(told.starts_with("/l/l/") && told.contains("allowed are \"l\", \"r\""), "{told}");
}
