//! Hooks without JavaScript: deadlines by the clock, and what never crosses to the host.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lite_agent::agent::run::RunOptions;
use lite_agent::base::emitter::{Emitter, Subscribers};
use lite_agent::base::fault::HostError;
use lite_agent::pipeline::call::ToolCall;
use lite_agent::pipeline::hooks::{HookEvent, HookHost, HookName, Hooks, RunHooks};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use support::{Conduct, StubHost, agent, said};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Remembers what crossed; handler 13 never answers, handler 7 fails.
#[derive(Default)]
struct Border(Mutex<Vec<(u32, Value)>>);

impl HookHost for Border {
    fn call<'a>(&'a self, handler: u32, event: &'a RawValue) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move {
            self.0.lock().unwrap().push((handler, serde_json::from_str(event.get()).unwrap()));
            match handler {
                13 => std::future::pending().await,
                7 => Err(HostError::border("a secret of the host")),
                _ => Ok(()),
            }
        })
    }
}

fn run_hooks(border: &Arc<Border>) -> (RunHooks, tokio::sync::mpsc::Receiver<Arc<str>>) {
    let (consumer, events) = tokio::sync::mpsc::channel(8);
    let subscribers = Subscribers::new(Arc::new(StubHost::default()), CancellationToken::new());
    let hooks = RunHooks {
        hooks: Hooks::new(Arc::clone(border) as _),
        run: "r".into(),
        session: "s".into(),
        emitter: Emitter::new("s".into(), Some(consumer), subscribers),
    };
    (hooks, events)
}

#[tokio::test(start_paused = true)]
async fn handlers_are_called_in_order_and_one_that_is_late_or_fails_is_told_of() {
    let border = Arc::new(Border::default());
    let (run, mut events) = run_hooks(&border);
    for (handler, name) in [
        (3, HookName::RunStart),
        (13, HookName::RunStart),
        (9, HookName::RunEnd),
        (7, HookName::RunStart),
        (2, HookName::RunStart),
    ] {
        run.hooks.add(handler, name, Duration::from_secs(10));
    }
    let started = Instant::now();
    run.tell(HookEvent::RunStart { input: &to_raw_value("go").unwrap() }).await;
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    let event = json!({ "event": "run:start", "runId": "r", "sessionId": "s", "source": "user", "input": "go" });
    let expected: Vec<(u32, Value)> = [3, 13, 7, 2].map(|handler| (handler, event.clone())).into();
    assert_eq!(*border.0.lock().unwrap(), expected);
    for why in ["gave no answer within 10000 ms", "failed"] {
        let told: Value = serde_json::from_str(&events.try_recv().unwrap()).unwrap();
        let message = format!("a handler of the hook `run:start` {why}; the agent goes on without it");
        assert_eq!(
            told,
            json!({ "type": "diagnostic", "level": "warning", "code": "hook_failed", "message": message })
        );
    }
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn nothing_crosses_without_a_handler_of_that_name() {
    let border = Arc::new(Border::default());
    let (run, _events) = run_hooks(&border);
    let call = ToolCall { id: "1".into(), name: "x".into(), input: json!({}) };
    run.hooks.add(1, HookName::RunEnd, Duration::from_secs(1));
    run.tell(HookEvent::ToolStart { call: &call }).await;
    run.hooks.add(2, HookName::ToolStart, Duration::from_secs(1));
    run.hooks.remove(2);
    run.hooks.remove(2);
    run.tell(HookEvent::ToolStart { call: &call }).await;
    assert_eq!(*border.0.lock().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_an_end_handler_no_longer_than_its_deadline() {
    let agent = agent(StubHost { tool: Conduct::Hangs, hook: Conduct::Hangs, ..StubHost::default() });
    agent.hooks().add(1, HookName::RunEnd, Duration::from_millis(700));
    let run = agent.start(RunOptions { session: None, input: said("go"), quiet: false }).unwrap();
    while !run.next_batch().await.unwrap().contains("permission_decision") {}
    let started = Instant::now();
    agent.close().await;
    assert_eq!(started.elapsed(), Duration::from_millis(700));
    while run.next_batch().await.is_some() {}
    assert_eq!(serde_json::to_value(run.take_result().unwrap()).unwrap()["stopReason"], "aborted");
}
