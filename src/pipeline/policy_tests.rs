//! What policies decide.

use std::sync::Mutex;

use serde_json::json;

use super::*;

#[derive(Default)]
struct Host {
    check: Option<Verdict>,
    holds: Option<bool>,
    asked: Mutex<Vec<(u32, usize)>>,
}

impl PolicyHost for Host {
    fn check<'a>(&'a self, _: u32, _: &'a ToolCall) -> PolicyFuture<'a, Judgement> {
        Box::pin(async { self.check.map(Judgement::bare).ok_or_else(|| "secret".to_owned()) })
    }

    fn where_matches<'a>(&'a self, id: u32, rule: usize, _: &'a ToolCall) -> PolicyFuture<'a, bool> {
        self.asked.lock().unwrap().push((id, rule));
        Box::pin(async { self.holds.ok_or_else(|| "secret".to_owned()) })
    }
}

fn compiled(spec: Value) -> CompiledPolicy {
    CompiledPolicy::compile(serde_json::from_value(spec).unwrap()).unwrap()
}

fn refused(spec: Value) -> String {
    CompiledPolicy::compile(serde_json::from_value(spec).unwrap()).unwrap_err().to_string()
}

fn judge_with(host: &Host, spec: Value, name: &str, input: Value) -> Judgement {
    let call = ToolCall { id: "1".into(), name: name.into(), input };
    let policy = compiled(spec);
    // Nothing here waits, so polling once is enough.
    let mut future = Box::pin(policy.decide(&call, host));
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(judgement) => judgement,
        std::task::Poll::Pending => panic!("a native policy waited"),
    }
}

fn verdict(spec: Value, name: &str, input: Value) -> Verdict {
    judge_with(&Host::default(), spec, name, input).verdict
}

fn when(condition: Value, input: Value) -> bool {
    let spec = json!({ "kind": "native", "id": 1, "rules": [
        { "when": { "a.b": condition }, "hasWhere": false, "effect": "deny" } ] });
    verdict(spec, "x", input) == Verdict::Deny
}

#[test]
fn deny_beats_ask_beats_allow_beats_the_default() {
    let spec = json!({ "kind": "native", "id": 1, "deny": ["mcp__a__*"], "ask": ["mcp__*"],
        "allow": ["*_b", "mcp__a__x"], "default": "deny" });

    assert_eq!(verdict(spec.clone(), "mcp__a__x", json!({})), Verdict::Deny);
    assert_eq!(verdict(spec.clone(), "mcp__c__b_b", json!({})), Verdict::Ask);
    assert_eq!(verdict(spec.clone(), "a/b_b", json!({})), Verdict::Allow);
    assert_eq!(verdict(spec, "other", json!({})), Verdict::Deny);
    assert_eq!(verdict(json!({ "kind": "native", "id": 1 }), "other", json!({})), Verdict::Allow);
}

#[test]
fn rules_and_patterns_share_one_precedence() {
    let rule =
        |effect: &str| json!({ "id": "r", "description": "why", "tool": "a*", "hasWhere": false, "effect": effect });
    let spec = json!({ "kind": "native", "id": 1, "allow": ["*"], "rules": [rule("allow"), rule("deny")] });

    let judgement = judge_with(&Host::default(), spec, "ab", json!({}));

    let expected = Judgement { verdict: Verdict::Deny, rule_id: Some("r".into()), reason: Some("why".into()) };
    assert_eq!(judgement, expected);
    let spec = json!({ "kind": "native", "id": 1, "deny": ["*"], "rules": [rule("allow")] });
    assert_eq!(verdict(spec, "ab", json!({})), Verdict::Deny);
}

#[test]
fn every_condition_reads_its_field() {
    let at = |value: Value| json!({ "a": { "b": value } });

    assert!(when(json!({ "glob": "rm *" }), at(json!("rm -rf /x\ny"))));
    assert!(when(json!({ "regex": "^r.$" }), at(json!("rm"))));
    assert!(!when(json!({ "regex": "^r.$" }), at(json!(["rm"]))));
    assert!(when(json!({ "equals": 1 }), at(json!(1.0))));
    assert!(when(json!({ "equals": null }), at(json!(null))));
    assert!(when(json!({ "in": ["x", 2] }), at(json!(2))));
    assert!(when(json!({ "startsWith": "/etc" }), at(json!("/etc/x"))));
    assert!(when(json!({ "contains": "tc" }), at(json!("/etc/x"))));
    assert!(when(json!({ "contains": 3 }), at(json!([1, 3]))));
    assert!(when(json!({ "not": { "startsWith": "/etc" } }), at(json!("/usr"))));
    assert!(!when(json!({ "not": { "startsWith": "/etc" } }), at(json!("/etc"))));
    assert!(when(json!({ "not": { "not": { "equals": 1 } } }), at(json!(1))));
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    conditions: Vec<(Value, Vec<Value>, Vec<Value>)>,
    paths: Vec<(String, Value, bool)>,
    refused: Vec<Value>,
    refused_natively: Vec<Value>,
}

/// The cases that the shim's own tests run too.
fn table() -> Table {
    serde_json::from_str(include_str!("../../__test__/tables/policies.json")).unwrap()
}

fn rule(field: &str, condition: &Value) -> Value {
    json!({ "kind": "native", "id": 1, "rules": [{ "when": { field: condition }, "hasWhere": false, "effect": "deny" }] })
}

#[test]
fn conditions_say_what_the_shared_table_says() {
    let mut wrong = Vec::new();
    for (condition, yes, no) in table().conditions {
        let spec = serde_json::from_value(rule("v", &condition)).unwrap();
        if let Err(error) = CompiledPolicy::compile(spec) {
            wrong.push(error.to_string());
            continue;
        }
        for (value, expected) in yes.iter().map(|v| (v, Verdict::Deny)).chain(no.iter().map(|v| (v, Verdict::Allow))) {
            if verdict(rule("v", &condition), "t", json!({ "v": value })) != expected {
                wrong.push(format!("{condition} on {value} is not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_lead_where_the_shared_table_says() {
    for (path, input, found) in table().paths {
        let expected = if found { Verdict::Deny } else { Verdict::Allow };
        let spec = rule(&path, &json!({ "not": { "equals": "never" } }));
        assert_eq!(verdict(spec, "t", input.clone()), expected, "{path} in {input}");
    }
}

#[test]
fn what_cannot_be_carried_over_is_refused() {
    let table = table();
    for condition in table.refused.iter().chain(&table.refused_natively) {
        let spec = serde_json::from_value(rule("v", condition)).unwrap();
        assert!(CompiledPolicy::compile(spec).is_err(), "{condition} is accepted");
    }
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    refused(rule("v", &json!({ "regex": deep })));
    refused(rule("v", &json!({ "regex": "a{100000}{2}" })));
    refused(rule("v", &json!({ "regex": "(?:a{1000}){1000}" })));
}

#[test]
fn a_missing_field_matches_nothing_not_even_not() {
    assert!(!when(json!({ "not": { "equals": 1 } }), json!({ "a": {} })));
    assert!(!when(json!({ "not": { "equals": 1 } }), json!({ "a": "b" })));
    assert!(!when(json!({ "equals": null }), json!({})));
}

#[test]
fn list_items_are_reached_by_index() {
    let spec = json!({ "kind": "native", "id": 1, "rules": [
        { "when": { "files.1": { "equals": "x" } }, "effect": "deny", "hasWhere": false } ] });

    assert_eq!(verdict(spec.clone(), "t", json!({ "files": ["y", "x"] })), Verdict::Deny);
    assert_eq!(verdict(spec, "t", json!({ "files": ["x"] })), Verdict::Allow);
}

#[test]
fn where_is_asked_only_for_a_rule_that_matches_so_far() {
    let spec = json!({ "kind": "native", "id": 7, "rules": [
        { "tool": "other", "hasWhere": true, "effect": "deny" },
        { "when": { "a": { "equals": 2 } }, "hasWhere": true, "effect": "deny" },
        { "id": "third", "hasWhere": true, "effect": "deny" } ] });
    let host = Host { holds: Some(true), ..Host::default() };

    let judgement = judge_with(&host, spec.clone(), "t", json!({ "a": 1 }));

    assert_eq!(judgement.rule_id.as_deref(), Some("third"));
    assert_eq!(*host.asked.lock().unwrap(), [(7, 2)]);
    let host = Host { holds: Some(false), ..Host::default() };
    assert_eq!(judge_with(&host, spec, "t", json!({})).verdict, Verdict::Allow);
}

#[test]
fn what_fails_on_the_host_denies_without_its_text() {
    let failing = json!({ "kind": "native", "id": 1, "rules": [{ "hasWhere": true, "effect": "allow" }] });

    for spec in [failing, json!({ "kind": "host", "id": 2 })] {
        let judgement = judge_with(&Host::default(), spec, "t", json!({}));
        assert_eq!(judgement, Judgement::failed());
    }
}

#[test]
fn composed_policies_take_the_strictest_verdict() {
    let with = |list: &[&str]| {
        let of: Vec<_> = list.iter().map(|v| json!({ "kind": "native", "id": 1, "default": v })).collect();
        verdict(json!({ "kind": "compose", "of": of }), "t", json!({}))
    };

    assert_eq!(with(&["allow", "ask", "deny"]), Verdict::Deny);
    assert_eq!(with(&["ask", "allow"]), Verdict::Ask);
    assert_eq!(with(&["allow", "allow"]), Verdict::Allow);
    assert_eq!(with(&[]), Verdict::Allow);
    let host = Host { check: Some(Verdict::Ask), ..Host::default() };
    let spec = json!({ "kind": "compose", "of": [{ "kind": "native", "id": 1 }, { "kind": "host", "id": 2 }] });
    assert_eq!(judge_with(&host, spec, "t", json!({})).verdict, Verdict::Ask);
}

#[test]
fn the_standard_policy_asks_for_servers_only() {
    let policy = CompiledPolicy::compile(PolicySpec::standard());
    assert!(policy.is_ok());
    assert_eq!(
        verdict(json!({ "kind": "native", "ask": ["mcp_connect", "mcp__*"] }), "mcp_connect", json!({})),
        Verdict::Ask
    );
}

#[test]
fn bad_patterns_and_conditions_are_refused_with_their_place() {
    let with = |when: Value| json!({ "kind": "native", "id": 1, "rules": [{ "when": when, "hasWhere": false, "effect": "ask" }] });

    assert!(refused(json!({ "kind": "native", "id": 1, "deny": ["[x"] })).contains("policy.deny[0]"));
    let message = refused(with(json!({ "a.b": { "regex": "(?=x)" } })));
    assert!(message.contains("policy.rules[0].when[\"a.b\"].regex"), "{message}");
    assert!(refused(with(json!({ "a": { "startWith": "x" } }))).contains("did you mean \"startsWith\""));
    assert!(refused(with(json!({ "a": { "glob": "x", "equals": 1 } }))).contains("exactly one"));
    assert!(refused(with(json!({ "a": "x" }))).contains("exactly one"));
    assert!(refused(with(json!({ "a": { "not": "x" } }))).contains("exactly one"));
    assert!(refused(with(json!({ "a..b": { "equals": 1 } }))).contains("empty part"));
    let unknown = serde_json::from_value::<PolicySpec>(json!({ "kind": "native", "id": 1, "dney": [] }));
    assert!(unknown.is_err());
}
