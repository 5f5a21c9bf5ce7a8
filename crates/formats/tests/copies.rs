//! Copies for other agents: what Codex and Claude Code show of a conversation that was written for them. That the real
//! programs resume them is proved by `cargo xtask peers`.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{
    Converted, Input, Session,
    sessions::{self, Writing},
};
use rejoin_record::Timestamp;
use rejoin_view::{OnBroken, Rule};
use serde_json::{Value, json};

fn read(text: &str) -> Session {
    let input = Input::new("session.jsonl", text.as_bytes()).unwrap();
    sessions::read(&input, None).unwrap().remove(0)
}

fn copy(session: &Session, format: &str, model: Option<&str>) -> Converted {
    let now = "2026-11-16T09:00:00Z".parse::<Timestamp>().unwrap();
    let writing = Writing { model, now, directory: "/here" };
    let format = sessions::named(format).unwrap();
    let written = sessions::write(session, format, OnBroken::Keep, &writing).unwrap();
    Converted { body: written.content.into_text().unwrap(), findings: written.findings }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A line of a rollout, this many minutes after noon.
fn line(minute: u32, kind: &str, payload: &Value) -> String {
    let time = format!("2026-11-15T12:{minute:02}:00.000Z");
    format!("{}\n", json!({"timestamp": time, "type": kind, "payload": payload}))
}

fn said(minute: u32, role: &str, text: &str) -> String {
    let part = if role == "assistant" { "output_text" } else { "input_text" };
    let content = json!([{"type": part, "text": text}]);
    line(minute, "response_item", &json!({"type": "message", "role": role, "content": content}))
}

fn event(minute: u32, payload: &Value) -> String {
    line(minute, "event_msg", payload)
}

fn meta(more: &Value) -> String {
    let mut meta = json!({"id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": "2026-11-15T11:59:00.000Z",
        "cwd": "/p", "originator": "codex_exec", "cli_version": "0.166.0"});
    for (name, value) in more.as_object().unwrap() {
        meta[name] = value.clone();
    }
    line(0, "session_meta", &meta)
}

/// What a rollout says that people said: Codex takes its title and its turns from there.
fn shown(copy: &str) -> Vec<String> {
    let events = lines(copy).into_iter().filter(|line| line["payload"]["type"] == "user_message");
    events.map(|line| line["payload"]["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_codex_copy_shows_only_what_people_said() {
    let context = [
        said(1, "user", "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>be kind</INSTRUCTIONS>"),
        said(1, "user", "<environment_context>\n<cwd>/p</cwd></environment_context>"),
    ];
    let bare =
        [meta(&json!({})), context.concat(), said(2, "user", "hello"), said(3, "assistant", "hi")].concat();
    let written = copy(&read(&bare), "codex", None).body;
    assert_eq!(shown(&written), ["hello"]);
    assert_eq!(written.matches("AGENTS.md").count(), 1, "it is sent all the same");
    // A rollout says itself what people said: also something that looks like context.
    let told = [
        meta(&json!({})),
        context.concat(),
        said(2, "user", "<system> is a tag, isn't it?"),
        event(2, &json!({"type": "user_message", "message": "<system> is a tag, isn't it?"})),
        said(3, "user", "hook output"),
        said(4, "assistant", "it is"),
    ];
    assert_eq!(shown(&copy(&read(&told.concat()), "codex", None).body), ["<system> is a tag, isn't it?"]);
    // Without any it would not be listed at all.
    let only_context = [meta(&json!({})), context.concat(), said(3, "assistant", "hi")].concat();
    assert_eq!(shown(&copy(&read(&only_context), "codex", None).body).len(), 1);
}

#[test]
fn a_codex_copy_of_a_transcript_shows_only_what_people_said() {
    let mut parent = Value::Null;
    let mut transcript = String::new();
    for (number, (kind, content, more)) in [
        ("user", json!("Caveat: not from a person"), json!({"isMeta": true})),
        ("user", json!("<command-name>/clear</command-name>"), json!({})),
        (
            "user",
            json!([{"type": "text", "text": "<system-reminder>be brief</system-reminder>"},
            {"type": "text", "text": "hello"}]),
            json!({}),
        ),
        ("assistant", json!([{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]), json!({})),
        ("user", json!([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]), json!({})),
        ("assistant", json!([{"type": "text", "text": "one file"}]), json!({})),
        ("user", json!("[Request interrupted by user]"), json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let uuid = format!("u{number}");
        let mut line = json!({"parentUuid": parent, "isSidechain": false, "sessionId": "S", "type": kind,
            "message": {"role": kind, "content": content}, "uuid": uuid,
            "timestamp": format!("2026-11-15T12:0{number}:00.000Z")});
        for (name, value) in more.as_object().unwrap() {
            line[name] = value.clone();
        }
        parent = json!(uuid);
        transcript.push_str(&format!("{line}\n"));
    }
    let written = copy(&read(&transcript), "codex", None).body;
    assert_eq!(shown(&written), ["hello"]);
    let times: Vec<Value> = lines(&written)
        .into_iter()
        .filter(|line| line["type"] == "response_item")
        .map(|line| line["timestamp"].clone())
        .collect();
    let minutes = times.iter().map(|time| &time.as_str().unwrap()[14..16]).collect::<Vec<_>>();
    assert_eq!(minutes, ["00", "01", "02", "03", "04", "05", "06"], "each message has its own time");
}

#[test]
fn a_codex_copy_keeps_times_and_never_goes_back() {
    let rollout = [
        meta(&json!({})),
        said(5, "user", "one"),
        said(6, "assistant", "1"),
        said(3, "user", "two"),
        said(9, "assistant", "2"),
    ];
    let written = lines(&copy(&read(&rollout.concat()), "codex", None).body);
    assert_eq!(
        written[0]["payload"]["timestamp"], "2026-11-15T11:59:00.000Z",
        "it began when the source began"
    );
    let items = written.iter().filter(|line| line["type"] == "response_item");
    let times: Vec<&str> = items.map(|line| &line["timestamp"].as_str().unwrap()[11..16]).collect();
    assert_eq!(times, ["12:05", "12:06", "12:06", "12:09"]);
    // A source without times: the time of writing.
    let body = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
    let written = lines(&copy(&read(body), "codex", None).body);
    assert!(written.iter().all(|line| line["timestamp"] == "2026-11-16T09:00:00.000Z"), "{written:#?}");
}

/// Answers that say the same, one after the other, are still different messages.
#[test]
fn a_copy_keeps_the_time_of_each_answer() {
    let turn = |minute: u32, items: Value| {
        format!("{}\n", json!({"timestamp": format!("2026-11-15T12:{minute:02}:00Z"), "items": items}))
    };
    let answer =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]});
    let turns = [
        turn(1, json!([{"role": "user", "content": "go"}])),
        turn(2, json!([answer])),
        turn(3, json!([answer])),
    ];
    for (format, kinds) in [("codex", &["response_item"][..]), ("claude-code", &["user", "assistant"])] {
        let written = lines(&copy(&read(&turns.concat()), format, None).body);
        let said = written.iter().filter(|line| kinds.iter().any(|kind| line["type"] == *kind));
        let minutes: Vec<&str> = said.map(|line| &line["timestamp"].as_str().unwrap()[14..16]).collect();
        assert_eq!(minutes, ["01", "02", "03"], "{format}");
    }
}

#[test]
fn a_codex_copy_names_a_provider_only_if_its_source_does() {
    let of = |more: &Value| {
        let text = meta(more) + &said(1, "user", "x");
        lines(&copy(&read(&text), "codex", None).body)[0]["payload"].clone()
    };
    assert_eq!(of(&json!({"model_provider": "azure"}))["model_provider"], "azure");
    assert!(of(&json!({})).get("model_provider").is_none());
    let body = r#"{"messages":[{"role":"user","content":"a"}]}"#;
    assert!(lines(&copy(&read(body), "codex", None).body)[0]["payload"].get("model_provider").is_none());
}

#[test]
fn a_codex_copy_of_a_rollout_keeps_token_counts_and_turns() {
    let usage =
        |tokens: u32| json!({"type": "token_count", "info": {"total_token_usage": {"total_tokens": tokens}}});
    let call = json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"});
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "x"});
    let rollout = [
        meta(&json!({})),
        event(1, &json!({"type": "task_started", "turn_id": "t"})),
        line(1, "turn_context", &json!({"cwd": "/p", "model": "gpt-5.5"})),
        said(1, "user", "one"),
        event(1, &json!({"type": "user_message", "message": "one"})),
        line(2, "response_item", &call),
        event(2, &usage(10)),
        line(3, "response_item", &output),
        said(4, "assistant", "1"),
        event(4, &usage(20)),
        event(4, &json!({"type": "task_complete", "turn_id": "t"})),
    ]
    .concat();
    let kinds = |copy: &str| {
        let lines = lines(copy).into_iter().skip(1);
        let name = |line: &Value| line["payload"]["type"].as_str().unwrap_or("turn_context").to_owned();
        lines.map(|line| name(&line)).collect::<Vec<_>>()
    };
    let written = copy(&read(&rollout), "codex", None).body;
    let expected = [
        "turn_context",
        "task_started",
        "message",
        "user_message",
        "function_call",
        "token_count",
        "function_call_output",
        "agent_message",
        "message",
        "token_count",
        "task_complete",
    ];
    assert_eq!(kinds(&written), expected);
    assert!(written.contains("\"total_tokens\":20"));
    // Another model counts otherwise.
    assert!(!copy(&read(&rollout), "codex", Some("gpt-6")).body.contains("token_count"));
    // What a compaction replaced does not count any more, nor do turns that were taken back.
    let summary = json!({"message": "", "replacement_history": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "sum"}]}]});
    let compacted =
        rollout.clone() + &line(5, "compacted", &summary) + &event(6, &usage(5)) + &said(7, "user", "two");
    assert_eq!(copy(&read(&compacted), "codex", None).body.matches("token_count").count(), 1);
    let again = [
        event(5, &json!({"type": "task_started", "turn_id": "v"})),
        said(5, "user", "no"),
        event(6, &usage(30)),
        event(6, &json!({"type": "thread_rolled_back", "num_turns": 1})),
    ];
    let taken_back = copy(&read(&(rollout + &again.concat())), "codex", None).body;
    assert_eq!(
        (taken_back.matches("task_started").count(), taken_back.matches("token_count").count()),
        (0, 3)
    );
}

#[test]
fn encrypted_reasoning_behind_an_unchanged_prefix_is_kept() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let rollout = [
        meta(&json!({})),
        line(1, "turn_context", &json!({"cwd": "/p", "model": "gpt-5.5"})),
        said(1, "user", "one"),
        line(2, "response_item", &reasoning),
        said(3, "assistant", "1"),
        said(4, "user", "two"),
        line(
            5,
            "response_item",
            &json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"}),
        ),
    ];
    let written = copy(&read(&rollout.concat()), "codex", None).body;
    assert!(written.contains("gAAA"), "{written}");
    assert!(written.contains("no result was recorded"), "the call at the end was answered");
}

/// What Codex is told to be is no word of a person, and nothing that Claude Code should be told.
#[test]
fn instructions_of_another_agent_are_set_aside() {
    let rollout = [
        meta(&json!({"base_instructions": {"text": "You are Codex, based on GPT-5."}})),
        said(1, "developer", "<permissions instructions>sandboxed</permissions instructions>"),
        said(1, "user", "<environment_context>\n<cwd>/p</cwd></environment_context>"),
        said(2, "user", "hello"),
        said(3, "assistant", "hi"),
        said(4, "developer", "The mode is now: plan."),
        said(5, "user", "go on"),
    ];
    let session = read(&rollout.concat());
    let written = copy(&session, "claude-code", None);
    let texts: Vec<String> = lines(&written.body)
        .iter()
        .map(|line| match &line["message"]["content"] {
            Value::String(text) => text.clone(),
            content => content[0]["text"].as_str().unwrap().to_owned(),
        })
        .collect();
    assert_eq!(texts, ["<environment_context>\n<cwd>/p</cwd></environment_context>", "hello", "hi", "go on"]);
    let about: Vec<_> = written
        .findings
        .iter()
        .filter(|finding| finding.rule == Rule::ForeignInstructions)
        .map(|finding| finding.at.line)
        .collect();
    assert_eq!(about, [None, Some(2), Some(6)], "each is named");
    let again = read(&written.body);
    assert_eq!(again.messages.len(), 4);
    // Codex itself gets them back.
    let own = copy(&session, "codex", None).body;
    assert!(own.contains("You are Codex") && own.contains("The mode is now"), "{own}");
    // A request body is no agent's session: its instructions are the user's.
    let body = r#"{"system":"be brief","messages":[{"role":"user","content":"a"}]}"#;
    assert!(copy(&read(body), "claude-code", None).body.contains("<system>be brief</system>"));
}

/// What a response cost stays with it.
#[test]
fn a_transcript_copy_keeps_usage() {
    let usage = json!({"input_tokens": 1200, "output_tokens": 34, "cache_read_input_tokens": 9});
    let line = |uuid: &str, parent: Value, kind: &str, message: &Value| {
        let line = json!({"parentUuid": parent, "isSidechain": false, "sessionId": "S", "type": kind,
            "message": message, "uuid": uuid, "timestamp": "2026-11-15T12:00:00.000Z"});
        format!("{line}\n")
    };
    let answer = |block: &Value, output: u32| {
        let mut usage = usage.clone();
        usage["output_tokens"] = output.into();
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus", "content": [block],
            "usage": usage})
    };
    let transcript = [
        line("u", Value::Null, "user", &json!({"role": "user", "content": "go"})),
        line("a", "u".into(), "assistant", &answer(&json!({"type": "text", "text": "now"}), 1)),
        line("b", "a".into(), "assistant", &answer(&json!({"type": "text", "text": "then"}), 34)),
    ];
    let written = lines(&copy(&read(&transcript.concat()), "claude-code", None).body);
    assert_eq!(written[1]["message"]["usage"], usage, "the last line has the final counts");
    assert_eq!(written[2]["message"]["usage"], usage);
    let body = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
    let written = lines(&copy(&read(body), "claude-code", None).body);
    assert_eq!(written[1]["message"]["usage"]["output_tokens"], 0);
}

/// Claude Code takes `call_1_2` beside `call_1` for a part of it and throws its result away.
#[test]
fn ids_that_mislead_claude_code_are_spelled_otherwise() {
    let call = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "ls", "input": {}}]});
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": id}]});
    let ids = |body: &Value| -> Vec<String> {
        let written = copy(&read(&body.to_string()), "claude-code", None).body;
        let blocks = lines(&written).into_iter().map(|line| line["message"]["content"][0].clone());
        let id = |block: Value| Some(block.get("id").or(block.get("tool_use_id"))?.as_str()?.to_owned());
        blocks.filter_map(id).collect()
    };
    let user = json!({"role": "user", "content": [{"type": "text", "text": "go"}]});
    let reused =
        json!({"messages": [user, call("call_1"), result("call_1"), call("call_1"), result("call_1")]});
    assert_eq!(ids(&reused), ["call_1", "call_1", "call_1-2", "call_1-2"]);
    let written = copy(&read(&reused.to_string()), "claude-code", None);
    assert!(written.findings.iter().any(|finding| finding.rule == Rule::IllegalId), "{:?}", written.findings);
    let apart = json!({"messages": [user, call("a_1"), result("a_1"), call("b_2"), result("b_2")]});
    assert_eq!(ids(&apart), ["a_1", "a_1", "b_2", "b_2"]);
}
