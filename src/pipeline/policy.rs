//! The permission policy: what a call may do before anyone is asked.
//!
//! Owns the precedence (deny, ask, allow, default) and the composition. Leaves conditions to
//! [`condition`], and what only the caller's code can tell to a [`PolicyHost`].

mod condition;
mod glob;
mod pattern;

use std::{fmt, future::Future, pin::Pin};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::condition::{When, glob};
use self::glob::Glob;
use super::call::ToolCall;
use crate::base::code::ErrorCode;

/// Policies nest at most this deep.
const MAX_NESTING: usize = 32;
const FAILED: &str = "policy failed";

/// What a policy says about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// Someone is asked.
    Ask,
    /// The call does not run.
    Deny,
}

/// A verdict and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The id of the rule that decided, if it has one.
    pub rule_id: Option<String>,
    /// Why, in words.
    pub reason: Option<String>,
}

impl Judgement {
    /// A verdict without a rule or a reason.
    #[must_use]
    pub const fn bare(verdict: Verdict) -> Self {
        Self { verdict, rule_id: None, reason: None }
    }

    fn failed() -> Self {
        Self { verdict: Verdict::Deny, rule_id: None, reason: Some(FAILED.to_owned()) }
    }
}

/// A policy as it arrives from the caller.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PolicySpec {
    /// Name patterns and rules, evaluated here.
    Native(NativeSpec),
    /// The caller's own `check`.
    Host(HostSpec),
    /// Several policies; the strictest verdict wins.
    Compose(ComposeSpec),
}

impl PolicySpec {
    /// The policy when none is given: connecting a server and its tools ask, all else is allowed.
    #[must_use]
    pub fn standard() -> Self {
        let ask = vec!["mcp_connect".to_owned(), "mcp__*".to_owned()];
        Self::Native(NativeSpec { ask, ..NativeSpec::default() })
    }
}

/// A policy that the caller's own code decides.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// How the host knows it.
    pub id: u32,
}

/// Policies that all have a say.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComposeSpec {
    /// The policies, in order.
    pub of: Vec<PolicySpec>,
}

/// Name patterns and rules.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeSpec {
    /// How the host knows it, for `where`.
    #[serde(default)]
    pub id: u32,
    /// Patterns of names that are allowed.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Patterns of names that ask.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Patterns of names that are denied.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Rules that also look at the input.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    /// The verdict when nothing matches; absent means allow.
    #[serde(default)]
    pub default: Option<Verdict>,
}

/// One rule: it applies when its tool, its conditions and its `where` all match.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleSpec {
    /// A name for the rule, shown with its verdict.
    #[serde(default)]
    pub id: Option<String>,
    /// Why the rule is there; becomes the reason.
    #[serde(default)]
    pub description: Option<String>,
    /// A pattern of tool names; absent means every tool.
    #[serde(default)]
    pub tool: Option<String>,
    /// Conditions by dot-path into the input.
    #[serde(default)]
    pub when: Map<String, Value>,
    /// Whether the host has a function to ask as well.
    #[serde(default)]
    pub has_where: bool,
    /// The verdict of the rule.
    pub effect: Verdict,
}

/// A policy that cannot be used. `path` says where, as in `rules[0].when["a.b"].regex`.
#[derive(Debug, thiserror::Error)]
#[error("permission: {path}: {problem}")]
pub struct PolicyError {
    /// The place in the policy.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

impl PolicyError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::ConfigInvalid
    }

    fn at(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

/// What a [`PolicyHost`] answers, later. An `Err` denies the call.
pub type PolicyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The parts of a policy that only the caller's code can tell.
pub trait PolicyHost: Send + Sync {
    /// The judgement of the host policy `id`.
    fn check<'a>(&'a self, id: u32, call: &'a ToolCall) -> PolicyFuture<'a, Judgement>;

    /// Whether the `where` of rule `rule_index` of policy `id` holds.
    fn where_matches<'a>(&'a self, id: u32, rule_index: usize, call: &'a ToolCall) -> PolicyFuture<'a, bool>;
}

/// A policy that is ready to judge calls.
#[derive(Debug)]
pub struct CompiledPolicy(Node);

#[derive(Debug)]
enum Node {
    Native(Native),
    Host(u32),
    Compose(Vec<Node>),
}

#[derive(Debug)]
struct Native {
    id: u32,
    names: [(Verdict, Vec<Glob>); 3],
    rules: Vec<Rule>,
    default: Verdict,
}

#[derive(Debug)]
struct Rule {
    id: Option<String>,
    description: Option<String>,
    tool: Option<Glob>,
    when: When,
    has_where: bool,
    effect: Verdict,
}

impl CompiledPolicy {
    /// Checks every pattern and condition of `spec`.
    ///
    /// # Errors
    /// Names the first pattern or condition that is not valid.
    pub fn compile(spec: PolicySpec) -> Result<Self, PolicyError> {
        compile(spec, "policy", 0).map(Self)
    }

    /// Judges `call`. Whatever fails on the host's side denies.
    pub async fn decide(&self, call: &ToolCall, host: &dyn PolicyHost) -> Judgement {
        decide(&self.0, call, host).await
    }
}

fn compile(spec: PolicySpec, path: &str, nesting: usize) -> Result<Node, PolicyError> {
    if nesting > MAX_NESTING {
        return Err(PolicyError::at(path, format!("policies nest deeper than {MAX_NESTING}")));
    }
    Ok(match spec {
        PolicySpec::Native(spec) => Node::Native(compile_native(spec, path)?),
        PolicySpec::Host(spec) => Node::Host(spec.id),
        PolicySpec::Compose(spec) => {
            let parts = spec.of.into_iter().enumerate();
            let compiled = parts.map(|(i, part)| compile(part, &format!("{path}.of[{i}]"), nesting + 1));
            Node::Compose(compiled.collect::<Result<_, _>>()?)
        }
    })
}

fn compile_native(spec: NativeSpec, path: &str) -> Result<Native, PolicyError> {
    let names = |list: &[String], key: &str| {
        let patterns = list.iter().enumerate();
        patterns.map(|(i, text)| glob(text, &format!("{path}.{key}[{i}]"))).collect::<Result<Vec<_>, _>>()
    };
    let names = [
        (Verdict::Deny, names(&spec.deny, "deny")?),
        (Verdict::Ask, names(&spec.ask, "ask")?),
        (Verdict::Allow, names(&spec.allow, "allow")?),
    ];
    let mut rules = Vec::with_capacity(spec.rules.len());
    for (i, rule) in spec.rules.into_iter().enumerate() {
        let path = format!("{path}.rules[{i}]");
        let tool = rule.tool.map(|text| glob(&text, &format!("{path}.tool"))).transpose()?;
        rules.push(Rule {
            id: rule.id,
            description: rule.description,
            tool,
            when: When::compile(&rule.when, &format!("{path}.when"))?,
            has_where: rule.has_where,
            effect: rule.effect,
        });
    }
    Ok(Native { id: spec.id, names, rules, default: spec.default.unwrap_or(Verdict::Allow) })
}

fn decide<'a>(
    node: &'a Node,
    call: &'a ToolCall,
    host: &'a dyn PolicyHost,
) -> Pin<Box<dyn Future<Output = Judgement> + Send + 'a>> {
    Box::pin(async move {
        match node {
            Node::Native(native) => native.decide(call, host).await,
            Node::Host(id) => host.check(*id, call).await.unwrap_or_else(|_| Judgement::failed()),
            Node::Compose(parts) => {
                let mut strictest = Judgement::bare(Verdict::Allow);
                for part in parts {
                    let judgement = decide(part, call, host).await;
                    match judgement.verdict {
                        Verdict::Deny => return judgement,
                        Verdict::Ask if strictest.verdict == Verdict::Allow => {
                            strictest = judgement;
                        }
                        Verdict::Allow if strictest == Judgement::bare(Verdict::Allow) => {
                            strictest = judgement;
                        }
                        Verdict::Ask | Verdict::Allow => {}
                    }
                }
                strictest
            }
        }
    })
}

impl Native {
    async fn decide(&self, call: &ToolCall, host: &dyn PolicyHost) -> Judgement {
        for (verdict, patterns) in &self.names {
            for (index, rule) in self.rules.iter().enumerate() {
                if rule.effect != *verdict || !rule.matches(call) {
                    continue;
                }
                if rule.has_where {
                    match host.where_matches(self.id, index, call).await {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(_) => {
                            return Judgement { rule_id: rule.id.clone(), ..Judgement::failed() };
                        }
                    }
                }
                return Judgement { verdict: *verdict, rule_id: rule.id.clone(), reason: rule.description.clone() };
            }
            if let Some(pattern) = patterns.iter().find(|pattern| pattern.is_match(&call.name)) {
                let reason = format!("the pattern \"{}\" says {verdict}", pattern.text());
                return Judgement { verdict: *verdict, rule_id: None, reason: Some(reason) };
            }
        }
        Judgement::bare(self.default)
    }
}

impl Rule {
    fn matches(&self, call: &ToolCall) -> bool {
        self.tool.as_ref().is_none_or(|tool| tool.is_match(&call.name)) && self.when.matches(&call.input)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
