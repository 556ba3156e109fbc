//! A host that panics or never answers: each has a defined end, and the agent stays usable.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod support;

use lite_agent::base::code::ErrorCode;
use serde_json::{Value, json};
use support::{Conduct, StubHost, agent, agent_with, said, send};

fn tool_result(events: &[Value]) -> &Value {
    &events.iter().find(|event| event["type"] == "tool_result").unwrap()["result"]
}

#[tokio::test]
async fn a_panic_inside_a_call_is_an_internal_fault_and_the_agent_lives() {
    let agent = agent(StubHost { tool: Conduct::Panics, ..StubHost::default() });

    let fault = send(&agent).await.1.unwrap_err();
    assert_eq!(fault.code(), ErrorCode::Internal);
    assert!(!fault.message().contains("planted"));

    assert_eq!(send(&agent).await.1.unwrap()["text"], "alive");
    agent.close().await;
    assert_eq!(send(&agent).await.1.unwrap_err().code(), ErrorCode::Closed);
}

#[tokio::test]
async fn a_panic_inside_a_call_lets_go_of_the_session_and_the_call_gets_a_result() {
    let home = std::env::temp_dir().join(format!("lite-agent-host-{}", uuid::Uuid::new_v4()));
    for home in [None, Some(home.as_path())] {
        let broken = agent_with(StubHost { tool: Conduct::Panics, ..StubHost::default() }, home);
        assert_eq!(send(&broken).await.1.unwrap_err().code(), ErrorCode::Internal);
        // In memory the session is the agent's own; on disk another agent may have it at once.
        let next = if home.is_some() { agent_with(StubHost::default(), home) } else { broken.clone() };
        next.resume(&broken.session_id()).unwrap();
        let (events, outcome) = send(&next).await;
        let told = events.iter().find(|event| event["type"] == "diagnostic").unwrap();
        assert_eq!(told["code"], "calls_interrupted");
        let outcome = outcome.unwrap_or_else(|fault| panic!("{}", fault.message()));
        assert_eq!(outcome["stopReason"], "stop");
        broken.close().await;
        next.close().await;
    }
    std::fs::remove_dir_all(home).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_never_answers_is_a_deny_after_its_deadline() {
    let agent = agent(StubHost { policy: Conduct::Hangs, ..StubHost::default() });
    let (events, outcome) = send(&agent).await;
    assert_eq!(
        *tool_result(&events),
        json!({
            "id": "c1", "name": "work", "isError": true,
            "content": "`work` was denied: the permission policy gave no answer within 10 s",
        })
    );
    assert_eq!(outcome.unwrap()["text"], "alive");
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_never_answers_is_an_error_result_after_its_deadline() {
    let agent = agent(StubHost { schema: Conduct::Hangs, ..StubHost::default() });
    let (events, outcome) = send(&agent).await;
    assert_eq!(
        *tool_result(&events),
        json!({
            "id": "c1", "name": "work", "isError": true,
            "content": "the tool's schema gave no answer within 10 s; the tool was not run",
        })
    );
    assert_eq!(outcome.unwrap()["text"], "alive");
}

#[tokio::test]
async fn closing_ends_a_run_whose_tool_never_answers_and_whose_events_nobody_reads() {
    let agent = agent(StubHost { tool: Conduct::Hangs, ..StubHost::default() });
    let options = lite_agent::agent::run::RunOptions { session: None, input: said("go"), quiet: false };
    let run = agent.start(options).unwrap();
    agent.close().await;
    while run.next_batch().await.is_some() {}
    let ended = run.take_result().map(|result| serde_json::to_value(result).unwrap());
    // Before the first model call an abort is an error, later it is a result.
    match ended {
        Ok(result) => assert_eq!(result["stopReason"], "aborted"),
        Err(fault) => assert_eq!(fault.code(), ErrorCode::Aborted),
    }
}
