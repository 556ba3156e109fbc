//! May this call run? The policy judges, a person answers where it asks, and nothing else can say yes.
//!
//! Only [`Permission::decide`] makes a [`PermittedCall`], so nothing is executed unasked.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, FusedFuture};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::call::ToolCall;
use super::event::CallEvent;
use super::policy::{CompiledPolicy, Judgement, PolicyFuture, PolicyHost, Verdict};
use crate::base::emitter::Emitter;
use crate::base::fault::HostError;
use crate::base::limits::{HOST_DEADLINE, HOST_TEXT_CHARS};

/// The capability to connect to a server.
pub const CONNECT: &str = "mcp_connect";

/// Asks a person.
pub trait ApprovalHandler: Send + Sync {
    /// Resolves to the handler's answer; only `"allow"` allows.
    fn request<'a>(
        &'a self,
        call: &'a ToolCall,
        session: &'a str,
        reason: Option<&'a str>,
    ) -> BoxFuture<'a, Result<serde_json::Value, HostError>>;
}

/// Policies of the host's own code.
pub trait HostPolicies: Send + Sync {
    /// What the policy `id` answers.
    fn check<'a>(
        &'a self,
        id: u32,
        call: &'a ToolCall,
        session: &'a str,
    ) -> BoxFuture<'a, Result<serde_json::Value, HostError>>;
    /// Whether the `where` of a rule holds.
    fn where_matches<'a>(&'a self, id: u32, rule: usize, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, HostError>>;
}

/// The host's policies, asked for one session.
struct InSession<'a> {
    host: &'a dyn HostPolicies,
    session: &'a str,
}

impl PolicyHost for InSession<'_> {
    fn check<'a>(&'a self, id: u32, call: &'a ToolCall) -> PolicyFuture<'a, Judgement> {
        Box::pin(async move {
            let answer = self.host.check(id, call, self.session).await.map_err(|error| error.message)?;
            read_judgement(&answer).ok_or_else(|| "it answered no decision".to_owned())
        })
    }

    fn where_matches<'a>(&'a self, id: u32, rule_index: usize, call: &'a ToolCall) -> PolicyFuture<'a, bool> {
        Box::pin(async move { self.host.where_matches(id, rule_index, call).await.map_err(|error| error.message) })
    }
}

/// `"allow"`, or `{ decision: "allow", ruleId?, reason? }`; anything else is no answer.
fn read_judgement(answer: &serde_json::Value) -> Option<Judgement> {
    let decision = answer.get("decision").unwrap_or(answer);
    let verdict = match decision.as_str()? {
        "allow" => Verdict::Allow,
        "ask" => Verdict::Ask,
        "deny" => Verdict::Deny,
        _ => return None,
    };
    let text = |member: &str| answer.get(member).and_then(serde_json::Value::as_str).map(str::to_owned);
    Some(Judgement { verdict, rule_id: text("ruleId"), reason: text("reason") })
}

impl Judgement {
    /// A rule's id and its reason reach the model and every event.
    fn bounded(mut self) -> Self {
        for text in [&mut self.rule_id, &mut self.reason].into_iter().flatten() {
            if let Some((end, _)) = text.char_indices().nth(HOST_TEXT_CHARS) {
                text.truncate(end);
            }
        }
        self
    }
}

/// Who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The policy.
    Policy,
    /// A person, through the approval handler.
    User,
    /// Nobody: there is no handler.
    Auto,
}

impl DecidedBy {
    /// The word in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::User => "user",
            Self::Auto => "auto",
        }
    }
}

/// Whether verdicts hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// They do.
    #[default]
    Enforce,
    /// They are told, and tools run whatever they say. Connecting to a server is never relaxed.
    DryRun,
}

/// A call that may run.
#[derive(Debug)]
pub struct PermittedCall {
    call: ToolCall,
    by: DecidedBy,
}

impl PermittedCall {
    /// The call.
    #[must_use]
    pub const fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Who allowed it.
    #[must_use]
    pub const fn by(&self) -> DecidedBy {
        self.by
    }
}

/// A call that may not run.
#[derive(Debug)]
pub struct Denied {
    /// The sentence for the model or the caller.
    pub reason: String,
}

/// The policy of an agent and its approval handler.
pub struct Permission {
    policy: Option<CompiledPolicy>,
    mode: PermissionMode,
    host: Arc<dyn HostPolicies>,
    approval: Option<Arc<dyn ApprovalHandler>>,
    prompting: Mutex<()>,
}

impl Permission {
    /// Without a policy the default holds: host tools are trusted, servers and their tools ask.
    #[must_use]
    pub fn new(
        policy: Option<CompiledPolicy>,
        mode: PermissionMode,
        host: Arc<dyn HostPolicies>,
        approval: Option<Arc<dyn ApprovalHandler>>,
    ) -> Self {
        Self { policy, mode, host, approval, prompting: Mutex::default() }
    }

    /// Judges one call.
    ///
    /// # Errors
    /// [`Denied`] when the policy or the person says no, fails, or is late.
    pub async fn decide(&self, call: ToolCall, session: &str, emitter: &Emitter) -> Result<PermittedCall, Denied> {
        let judgement = self.judge(&call, session).await.bounded();
        let simulated = self.mode == PermissionMode::DryRun && call.name != CONNECT;
        emitter
            .emit(CallEvent::PermissionDecision {
                call: &call,
                decision: word(judgement.verdict),
                rule_id: judgement.rule_id.as_deref(),
                reason: judgement.reason.as_deref(),
                simulated: simulated.then_some(true),
                by: DecidedBy::Policy.as_str(),
            })
            .await;
        if simulated {
            return Ok(PermittedCall { call, by: DecidedBy::Policy });
        }
        match judgement.verdict {
            Verdict::Allow => Ok(PermittedCall { call, by: DecidedBy::Policy }),
            Verdict::Deny => Err(denied(&call.name, judgement.reason.as_deref().unwrap_or("by the permission policy"))),
            Verdict::Ask => self.ask(call, session, judgement.reason.as_deref(), emitter).await,
        }
    }

    async fn judge(&self, call: &ToolCall, session: &str) -> Judgement {
        let Some(policy) = &self.policy else {
            let asks = call.name == CONNECT || call.name.starts_with("mcp__");
            let verdict = if asks { Verdict::Ask } else { Verdict::Allow };
            return Judgement { verdict, rule_id: None, reason: None };
        };
        let in_session = InSession { host: &*self.host, session };
        tokio::time::timeout(HOST_DEADLINE, policy.decide(call, &in_session)).await.unwrap_or_else(|_| Judgement {
            verdict: Verdict::Deny,
            rule_id: None,
            reason: Some("the permission policy gave no answer within 10 s".into()),
        })
    }

    async fn ask(
        &self,
        call: ToolCall,
        session: &str,
        reason: Option<&str>,
        emitter: &Emitter,
    ) -> Result<PermittedCall, Denied> {
        let Some(handler) = &self.approval else {
            emitter
                .emit(CallEvent::ApprovalResolved { id: &call.id, decision: "deny", by: DecidedBy::Auto.as_str() })
                .await;
            return Err(denied(&call.name, "it needs approval and no onApproval handler is set"));
        };
        let answer = self.prompt(&**handler, &call, session, reason, emitter).await;
        let (allowed, why) = match &answer {
            Ok(value) if value == "allow" => (true, ""),
            Ok(value) if value == "deny" => (false, "by the user"),
            Ok(_) => (false, "the approval handler answered neither \"allow\" nor \"deny\""),
            Err(_) => (false, "the approval handler failed"),
        };
        let decision = if allowed { "allow" } else { "deny" };
        emitter.emit(CallEvent::ApprovalResolved { id: &call.id, decision, by: DecidedBy::User.as_str() }).await;
        if allowed { Ok(PermittedCall { call, by: DecidedBy::User }) } else { Err(denied(&call.name, why)) }
    }

    /// Shows one prompt when it is its turn; one that leaves the queue before is never told of.
    async fn prompt(
        &self,
        handler: &dyn ApprovalHandler,
        call: &ToolCall,
        session: &str,
        reason: Option<&str>,
        emitter: &Emitter,
    ) -> Result<serde_json::Value, HostError> {
        let mut told = std::pin::pin!(emitter.emit(CallEvent::ApprovalRequest { call, reason }).fuse());
        let answer = {
            let _one_at_a_time = self.prompting.lock().await;
            let mut asked = handler.request(call, session, reason);
            // A reader that is far behind must not hold up the prompts of other sessions.
            tokio::select! {
                biased;
                () = &mut told => asked.await,
                answer = &mut asked => answer,
            }
        };
        if !told.is_terminated() {
            told.await;
        }
        answer
    }
}

fn denied(name: &str, why: &str) -> Denied {
    Denied { reason: format!("`{name}` was denied: {why}") }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}
