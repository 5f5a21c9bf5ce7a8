//! Plain lists of messages: how `validate_message_sequence`, `sanitize_recovered_messages` and `validate_message_structure` treat
//! every broken state. The comment above a test names its rows.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::sync::Arc;

use serde_json::{Value, json};

use rejoin::{
    Block, BlockKind, CallId, Message, Role, ToolCall, ToolResult,
    compat::{
        SequenceError, Validation, sanitize_recovered_messages, validate_message_sequence,
        validate_message_structure,
    },
    record::{Form, Native, Origin, Raw, Reasoning, Text},
};

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "read_file", r#"{"path":"a.txt"}"#)
}

fn calls(ids: &[&str]) -> Message {
    Message::assistant_with_tools(ids.iter().map(|id| call(id)).collect())
}

/// An assistant message that says something and calls tools.
fn says_and_calls(text: &str, ids: &[&str]) -> Message {
    let mut blocks = vec![Block::text(text)];
    blocks.extend(ids.iter().map(|id| Block::call(call(id))));
    Message::new(Role::Assistant, blocks)
}

fn thinking(text: &str) -> Block {
    let origin = Origin { dialect: Some(Text::new("anthropic")), ..Origin::default() };
    Block::new(BlockKind::Reasoning(Box::new(Reasoning { text: Text::new(text), sealed: true, origin })))
}

/// A sketch of a list: `u` user, `s` system, `a` assistant, `a[..]` calls, `r..` a result.
fn sketch(messages: &[Message]) -> String {
    let mut words = Vec::new();
    for message in messages {
        let calls: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        let results: Vec<String> =
            message.tool_results().filter_map(|r| Some(format!("r{}", r.call_id.as_ref()?))).collect();
        words.push(match &message.role {
            Role::Tool => results.join(" "),
            Role::Assistant if !calls.is_empty() => format!("a[{}]", calls.join(",")),
            role => role.as_str()[..1].to_owned(),
        });
    }
    words.join(" ")
}

fn sanitized(messages: &[Message]) -> String {
    let sanitized = sanitize_recovered_messages(messages);
    assert_eq!(
        validate_message_structure(&sanitized.messages),
        Validation { valid: true, errors: Vec::new() },
        "what comes out is sound"
    );
    sketch(&sanitized.messages)
}

/// S0-33, S0-34: an orphan goes.
#[test]
fn drops_an_orphan() {
    let valid =
        rejoin::providers::validate_message_sequence(&[Message::user("hi"), Message::tool("call_9", "lost")]);
    assert_eq!(sketch(&valid), "u");
}

/// S0-34: a valid pair stays, with its id.
#[test]
fn preserves_a_valid_pair() {
    let valid =
        validate_message_sequence(&[Message::user("hi"), calls(&["call_1"]), Message::tool("call_1", "ok")]);
    assert_eq!(valid.len(), 3);
    assert_eq!(valid[2].tool_call_id(), Some(&CallId::from("call_1")));
}

/// S0-34: user and system messages pass through.
#[test]
fn user_and_system_pass_through() {
    let list = [Message::system("a"), Message::user("b"), Message::system("c"), Message::user("d")];
    assert_eq!(validate_message_sequence(&list), list);
}

/// S0-34, S0-26: a tool message without an id is removed, and the log says so.
#[test]
fn a_tool_message_without_an_id_goes() {
    let result = ToolResult { call_id: None, ..ToolResult::new("x", "who asked?") };
    let list = [Message::user("hi"), Message::new(Role::Tool, vec![Block::result(result)])];
    let log = testkit::logged(|| assert_eq!(sketch(&validate_message_sequence(&list)), "u"));
    assert!(log.contains("WARN Tool message missing tool_call_id, dropping message"), "{log}");
}

/// S0-09: an orphan is a result whose id no preceding assistant message has: a later one does not count.
#[test]
fn a_later_call_does_not_make_a_result_valid() {
    let list =
        [Message::user("hi"), Message::tool("c1", "early"), calls(&["c1"]), Message::tool("c1", "in time")];
    assert_eq!(sanitized(&list), "u a[c1] rc1");
    assert_eq!(sanitize_recovered_messages(&list).messages[2].content().as_deref(), Some("in time"));
}

/// S0-20, S0-25: an orphan is dropped with a warning before a request, and the conversation continues.
#[test]
fn an_orphan_is_dropped_with_a_warning() {
    let long = "é".repeat(80);
    let list = [Message::user("hi"), Message::tool("call_9", long.as_str())];
    let log = testkit::logged(|| assert_eq!(validate_message_sequence(&list).len(), 1));
    let preview = "é".repeat(50);
    let line = format!(
        "WARN Orphan tool message detected and dropped: tool_call_id=call_9, content_preview=\"{preview}\""
    );
    assert!(log.contains(&line), "{log}");
}

/// S0-21, S0-31: a loaded conversation is sanitized, with its counts in the debug log.
#[test]
fn sanitizing_is_logged_with_counts() {
    let mut list = vec![Message::tool("x", "1"), Message::tool("y", "2")];
    list.extend((0..15).map(|n| Message::user(format!("message {n}"))));
    let log = testkit::logged(|| assert_eq!(validate_message_sequence(&list).len(), 15));
    assert!(log.contains("DEBUG Sanitized message sequence: dropped 2 orphans, kept 15 valid"), "{log}");
    assert!(log.contains("DEBUG Message validation: input=17, output=15, dropped=2"), "{log}");
}

/// S0-16..S0-19: the texts of the errors.
#[test]
fn error_texts() {
    for (error, text) in [
        (
            SequenceError::Orphan(CallId::from("call_9")),
            "Orphan tool message detected: tool_call_id=call_9, no matching assistant message found",
        ),
        (
            SequenceError::InvalidSequence("a call has no result".into()),
            "Invalid message sequence in conversation: a call has no result",
        ),
        (SequenceError::NotFound("conv_x".into()), "Conversation not found: id=conv_x"),
        (SequenceError::LoadFailed("disk full".into()), "Failed to load conversation: disk full"),
    ] {
        assert_eq!(error.to_string(), text);
    }
    let findings = sanitize_recovered_messages(&[Message::tool("call_9", "x")]).findings;
    assert_eq!(SequenceError::of(&findings[0]), Some(SequenceError::Orphan(CallId::from("call_9"))));
    let findings = sanitize_recovered_messages(&[calls(&["c1"])]).findings;
    assert!(matches!(SequenceError::of(&findings[0]), Some(SequenceError::InvalidSequence(_))));
}

/// S2-03, S2-24, B28: recovery works for any list and never fails.
#[test]
fn any_state_recovers() {
    let pieces = [
        Message::user("u"),
        Message::system("s"),
        Message::assistant("a"),
        calls(&["c1", "c2"]),
        Message::tool("c1", "1"),
        Message::tool("c2", "2"),
        says_and_calls("t", &["c1"]),
        Message::new(Role::Other(Text::new("alien")), vec![]),
    ];
    // Every list of up to four of them.
    for size in 0..=4u32 {
        for number in 0..pieces.len().pow(size) {
            let digit = |place| number / pieces.len().pow(place) % pieces.len();
            let list: Vec<Message> = (0..size).map(|place| pieces[digit(place)].clone()).collect();
            let clean = sanitize_recovered_messages(&list).messages;
            assert!(validate_message_structure(&clean).valid, "{} became {}", sketch(&list), sketch(&clean));
        }
    }
}

/// S2-04, S2-15: all text survives, whether calls are broken or not.
#[test]
fn text_and_thinking_survive() {
    let mut broken = says_and_calls("let me look", &["c1"]);
    broken.blocks.insert(0, thinking("where could it be"));
    let list = [Message::user("find it"), broken, Message::user("and?")];
    let clean = sanitize_recovered_messages(&list).messages;
    assert_eq!(sketch(&clean), "u a u");
    assert!(matches!(&clean[1].blocks[0].kind, BlockKind::Reasoning(r) if &*r.text == "where could it be"));
    assert_eq!(clean[1].content().as_deref(), Some("let me look"));
}

/// S2-06, S2-29: complete lists stay unchanged, and so do text-only and empty lists.
#[test]
fn sound_lists_are_untouched() {
    for list in [
        vec![],
        vec![Message::user("hi"), Message::assistant("hello")],
        vec![Message::user("hi"), calls(&["c1", "c2"]), Message::tool("c1", "1"), Message::tool("c2", "2")],
    ] {
        let clean = sanitize_recovered_messages(&list);
        assert_eq!(clean.messages, list);
        assert!(clean.findings.is_empty());
    }
}

/// S2-07, S2-26, B2: an unanswered call at the end is removed.
#[test]
fn incomplete_at_the_end() {
    assert_eq!(sanitized(&[Message::user("hi"), calls(&["c1"])]), "u");
    assert_eq!(sanitized(&[Message::user("hi"), says_and_calls("wait", &["c1"])]), "u a");
}

/// S2-26: the same in the middle, and with several calls in one message.
#[test]
fn incomplete_in_the_middle() {
    assert_eq!(sanitized(&[Message::user("a"), calls(&["c1"]), Message::user("b")]), "u u");
    assert_eq!(
        sanitized(&[Message::user("a"), says_and_calls("x", &["c1", "c2", "c3"]), Message::user("b")]),
        "u a u"
    );
}

/// S2-08, S2-19, S2-30, B22: three asked for, two done: all three go, and so do the two results.
#[test]
fn mid_parallel() {
    let list = [
        Message::user("go"),
        says_and_calls("three things", &["c1", "c2", "c3"]),
        Message::tool("c1", "1"),
        Message::tool("c2", "2"),
    ];
    assert_eq!(sanitized(&list), "u a");
}

/// B23, B24: second and later results of a complete batch stay; a message with two calls is valid.
#[test]
fn later_parallel_results_stay() {
    let list = [
        Message::user("go"),
        calls(&["c1", "c2"]),
        Message::tool("c1", "1"),
        Message::tool("c2", "2"),
        Message::user("so?"),
    ];
    assert_eq!(sanitized(&list), "u a[c1,c2] rc1 rc2 u");
    assert!(validate_message_structure(&list).valid);
}

/// S2-09, S2-28: results without calls go, one or several, and those of calls that were removed too.
#[test]
fn orphans_go() {
    assert_eq!(sanitized(&[Message::user("hi"), Message::tool("x", "1")]), "u");
    assert_eq!(
        sanitized(&[
            Message::tool("x", "1"),
            Message::user("hi"),
            Message::tool("y", "2"),
            Message::tool("z", "3")
        ]),
        "u"
    );
}

/// S2-14: a result goes with the batch that its call belonged to.
#[test]
fn results_of_removed_calls_go() {
    let list = [Message::user("hi"), calls(&["c1", "c2"]), Message::tool("c1", "1"), Message::user("stop")];
    assert_eq!(sanitized(&list), "u u");
}

/// S2-10: an item that is not a message is set aside with a warning, and the rest is used.
#[test]
fn corrupted_messages_are_skipped() {
    let body = r#"[{"role":"user","content":"hi"}, 17, null, {"role":"assistant","content":"hello"}]"#;
    let mended = rejoin::mend(rejoin::Dialect::OpenAiChat, body).unwrap();
    assert_eq!(mended.findings.iter().filter(|finding| finding.rule.name() == "damaged-entry").count(), 2);
    assert!(mended.body.contains("hello"));
}

/// S2-11, S2-18: empty, system only, thinking only, a lone assistant, a last message from the user.
#[test]
fn edges_are_usable() {
    assert_eq!(sanitized(&[]), "");
    assert_eq!(sanitized(&[Message::system("be kind")]), "s");
    assert_eq!(sanitized(&[Message::assistant("hello")]), "a");
    assert_eq!(sanitized(&[Message::assistant("hello"), Message::user("hi")]), "a u");
    let only_thinking = Message::new(Role::Assistant, vec![thinking("hm")]);
    assert_eq!(
        sanitize_recovered_messages(&[Message::user("hi"), only_thinking.clone()]).messages[1],
        only_thinking
    );
}

/// S2-12, B26: the layers end in a check that finds nothing, and no role is left in a place that no provider takes.
#[test]
fn the_layers_end_in_a_valid_list() {
    let list = [
        calls(&["c0"]),
        Message::user("a"),
        calls(&["c1"]),
        Message::assistant("b"),
        Message::tool("c1", "late"),
    ];
    let clean = sanitize_recovered_messages(&list).messages;
    assert_eq!(sketch(&clean), "u a[c1] rc1 a");
    for dialect in rejoin::Dialect::all() {
        let history: rejoin::History = clean.iter().cloned().collect();
        let view = rejoin::repair(&history, rejoin::OnBroken::Drop).view;
        let context = rejoin::Context::default();
        let body = dialect.wire().encode(&view, &rejoin::Target::of(&context)).unwrap().body;
        assert_eq!(testkit::refusals(dialect, body.as_bytes()), []);
    }
}

/// S2-17: the steps of sanitizing can be had one by one; together they give what `sanitize_recovered_messages` gives.
#[test]
fn the_steps_of_sanitizing() {
    let list = [
        Message::user("go"),
        says_and_calls("two things", &["c1", "c2"]),
        Message::tool("c1", "1"),
        calls(&["c3"]),
        Message::tool("x", "lost"),
        calls(&["c4"]),
        Message::tool("c4", "4"),
    ];
    let incomplete: Vec<String> = rejoin::compat::find_incomplete_tool_calls(&list)
        .iter()
        .map(|(message, id)| format!("{message} {id}"))
        .collect();
    assert_eq!(incomplete, ["1 c2", "3 c3"]);
    let without_calls = rejoin::compat::remove_incomplete_tool_calls(&list);
    assert_eq!(sketch(&without_calls), "u a rc1 rx a[c4] rc4");
    let clean = rejoin::compat::remove_orphaned_tool_results(&without_calls);
    assert_eq!(sketch(&clean), "u a a[c4] rc4");
    assert_eq!(sketch(&clean), sketch(&sanitize_recovered_messages(&list).messages));
    assert!(validate_message_structure(&clean).valid);
}

/// S2-17, B17: a result without an id, and one before its call, also belong to no call: the step that removes orphans removes them,
/// and validation names them.
#[test]
fn results_without_an_id_and_early_ones_are_orphans() {
    let nameless = Message {
        form: Form::Text,
        ..Message::new(
            Role::Tool,
            vec![Block::result(ToolResult { call_id: None, ..ToolResult::new("", "?") })],
        )
    };
    for (odd, id) in [(nameless, "none"), (Message::tool("c1", "too early"), "c1")] {
        let list =
            [Message::user("go"), odd, calls(&["c1"]), Message::tool("c1", "1"), Message::assistant("ok")];
        let validation = validate_message_structure(&list);
        assert!(!validation.valid, "{id}");
        assert!(validation.errors.iter().any(|error| error.starts_with("Message 1: ")), "{validation:?}");
        let clean = rejoin::compat::remove_orphaned_tool_results(&list);
        assert_eq!(sketch(&clean), "u a[c1] rc1 a", "{id}");
        assert!(validate_message_structure(&clean).valid, "{id}");
        let sanitized = sanitize_recovered_messages(&list);
        assert_eq!(sketch(&sanitized.messages), sketch(&clean), "{id}");
        assert_eq!(sanitized.log_lines(), [format!("Removed orphaned tool_result 1 (id: {id})")]);
    }
}

/// S2-17: a logger that is passed gets the line, and it goes nowhere else. If nothing was removed, nothing is logged.
#[test]
fn a_logger_may_be_given() {
    let list = [Message::user("go"), says_and_calls("looking", &["c1"]), Message::tool("x", "lost")];
    let mut lines = Vec::new();
    let elsewhere = testkit::logged(|| {
        let clean =
            rejoin::compat::sanitize_recovered_messages_with(&list, &mut |line| lines.push(line.to_owned()));
        assert_eq!(sketch(&clean.messages), "u a");
    });
    let line = "Message sanitization: Removed incomplete tool_calls from message 1; \
                Removed orphaned tool_result 2 (id: x)";
    assert_eq!(lines, [line]);
    assert!(!elsewhere.contains("Message sanitization"), "{elsewhere}");
    let usual = testkit::logged(|| drop(sanitize_recovered_messages(&list)));
    assert!(usual.contains(&format!("INFO {line}")), "{usual}");
    let _ = rejoin::compat::sanitize_recovered_messages_with(&list[..1], &mut |line| panic!("{line}"));
}

/// S2-17, B25: a message that loses its calls no longer has the item that it was read from: that item still has the calls.
#[test]
fn what_is_left_of_a_message_is_not_its_own_item() {
    let raw = r#"{"role":"assistant","content":"looking","tool_calls":[{"id":"c1"}]}"#;
    let native = Native::one("openai-chat", Raw::new(raw), true);
    let asking = Message { native: Some(native), ..says_and_calls("looking", &["c1"]) };
    let clean = rejoin::compat::remove_incomplete_tool_calls(&[Message::user("go"), asking.clone()]);
    assert_eq!((sketch(&clean).as_str(), &clean[1].native), ("u a", &None));
    let whole = [Message::user("go"), asking, Message::tool("c1", "1")];
    assert!(
        rejoin::compat::remove_incomplete_tool_calls(&whole)[1].native.is_some(),
        "one that loses nothing keeps it"
    );
}

/// S2-13, S2-27: a message is removed only if nothing else is left in it.
#[test]
fn a_message_goes_only_when_empty() {
    assert_eq!(sanitized(&[Message::user("hi"), says_and_calls("text", &["c1"])]), "u a");
    assert_eq!(
        sanitized(&[Message::user("hi"), says_and_calls(" ", &["c1"])]),
        "u",
        "white space is nothing"
    );
    assert_eq!(sanitized(&[Message::user("hi"), calls(&["c1"])]), "u");
    let mut thoughtful = calls(&["c1"]);
    thoughtful.blocks.insert(0, thinking("hm"));
    assert_eq!(sanitized(&[Message::user("hi"), thoughtful]), "u a");
}

/// S2-16, S2-05: every call has its result right after it, also for a result that came late.
#[test]
fn results_stand_right_behind_their_calls() {
    let list = [
        Message::user("a"),
        calls(&["c1"]),
        Message::user("b"),
        Message::tool("c1", "late"),
        Message::user("c"),
    ];
    assert_eq!(sanitized(&list), "u a[c1] rc1 u u");
}

/// S2-20, S2-21: the summary of a recovery.
#[test]
fn the_summary_of_a_recovery() {
    let clean = sanitize_recovered_messages(&[Message::user("hi"), calls(&["c1"]), Message::tool("x", "1")]);
    assert_eq!(
        clean.summary("s-42"),
        [
            "Session s-42: Removed 2 incomplete messages",
            "Recovered and sanitized 1 messages from session s-42"
        ]
    );
    let log = testkit::logged(|| {
        drop(rejoin::compat::recover_session("s-42", &[Message::user("hi"), calls(&["c1"])]))
    });
    assert!(log.contains("INFO Session s-42: Removed 1 incomplete messages"), "{log}");
    assert!(log.contains("INFO Recovered and sanitized 1 messages from session s-42"), "{log}");
    let sound = sanitize_recovered_messages(&[Message::user("hi")]);
    assert_eq!(sound.summary("s-42"), ["Recovered and sanitized 1 messages from session s-42"]);
}

/// S0-20, S0-25, S0-26, S0-31, S2-20, S2-21: the log lines come from the repairing code. Under `drop` they have the words of the
/// rows, under `keep` they say what was done.
#[test]
fn repairing_is_logged_under_both_policies() {
    let nameless = ToolResult { call_id: None, ..ToolResult::new("", "who asked?") };
    let list = [
        Message::user("hi"),
        calls(&["c1"]),
        Message::tool("call_9", "left over"),
        Message::new(Role::Tool, vec![Block::result(nameless)]),
    ];
    let repaired = |policy| {
        let history: rejoin::History = list.iter().cloned().collect();
        testkit::logged(|| drop(rejoin::repair(&history.of_session("s-42"), policy)))
    };
    let dropped = [
        r#" WARN Orphan tool message detected and dropped: tool_call_id=call_9, content_preview="left over""#,
        " WARN Tool message missing tool_call_id, dropping message",
        "DEBUG Sanitized message sequence: dropped 2 orphans, kept 1 valid",
        "DEBUG Message validation: input=4, output=1, dropped=3",
        " INFO Session s-42: Removed 3 incomplete messages",
        " INFO Recovered and sanitized 1 messages from session s-42",
    ];
    assert_eq!(repaired(rejoin::OnBroken::Drop).lines().collect::<Vec<_>>(), dropped);
    let kept = [
        r#" INFO Orphan tool message detected and kept as labelled text: tool_call_id=call_9, content_preview="left over""#,
        " INFO Tool message missing tool_call_id, keeping message as labelled text",
        "DEBUG Sanitized message sequence: labelled 2 orphans, kept 5 valid",
        "DEBUG Message validation: input=4, output=5, dropped=0",
        " INFO Session s-42: Repaired 3 incomplete messages",
        " INFO Recovered and sanitized 5 messages from session s-42",
    ];
    assert_eq!(repaired(rejoin::OnBroken::Keep).lines().collect::<Vec<_>>(), kept);
}

/// All code that repairs writes the same lines: a conversion, a conversation's view, and a turn.
#[test]
fn every_path_that_repairs_logs() {
    let orphan =
        "WARN Orphan tool message detected and dropped: tool_call_id=call_9, content_preview=\"left over\"";
    let recovered = "messages from session conv_";
    let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"call_9","content":"left over"}]}"#;
    let read = || {
        let input = rejoin::Input::new("x.json", body.as_bytes()).unwrap();
        rejoin::sessions::read(&input, None).unwrap().remove(0)
    };
    let converted = testkit::logged(|| {
        drop(rejoin::convert(&read(), rejoin::Dialect::Anthropic, None, rejoin::OnBroken::Drop).unwrap());
    });
    let begin = || {
        let clock = Arc::new(rejoin::SystemClock);
        let mut conversation = rejoin::Conversation::in_memory(clock, &rejoin::New::default());
        conversation.say(Message::user("hi"));
        conversation.say(Message::tool("call_9", "left over"));
        conversation
    };
    let viewed = testkit::logged(|| drop(begin().view(rejoin::OnBroken::Drop)));
    let answered = testkit::logged(|| {
        let provider = Arc::new(rejoin::ScriptedProvider::new([rejoin::Step::says("Hello.")]));
        let on_broken = rejoin::engine::turn::OnBroken::Drop;
        let settings = rejoin::TurnSettings { on_broken, ..rejoin::TurnSettings::default() };
        let mut worker = rejoin::Worker::new(begin(), provider, rejoin::Tools::default(), settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(worker.turn("again".into(), &mut |_| {}, &rejoin::Stop::new())).unwrap();
    });
    for log in [converted, viewed, answered] {
        assert!(log.contains(orphan) && log.contains(recovered), "{log}");
    }
}

/// S2-22, B27: each change is logged separately, not only the difference in length.
#[test]
fn the_log_names_each_change() {
    let list = [
        Message::user("hi"),
        says_and_calls("looking", &["c1"]),
        Message::user("?"),
        calls(&["c2"]),
        Message::tool("x", "lost"),
    ];
    let log = testkit::logged(|| {
        let clean = sanitize_recovered_messages(&list);
        assert_eq!(
            clean.log_lines(),
            [
                "Removed incomplete tool_calls from message 1",
                "Removed assistant message 3 (incomplete tool_calls only)",
                "Removed orphaned tool_result 4 (id: x)",
            ]
        );
    });
    assert!(
        log.contains("Message sanitization: Removed incomplete tool_calls from message 1; Removed"),
        "{log}"
    );
}

/// S2-23: the strings of the structural check.
#[test]
fn validation_strings() {
    let list = [Message::user("hi"), calls(&["c1", "c2"]), Message::tool("c1", "1"), Message::tool("x", "2")];
    assert_eq!(
        validate_message_structure(&list),
        Validation {
            valid: false,
            errors: vec![
                "Message 1: tool_call c2 missing matching tool_result".into(),
                "Message 3: tool_result x missing matching tool_call".into(),
            ]
        }
    );
}

/// S2-25, B28: one bad pair in the middle costs itself and nothing else.
#[test]
fn one_bad_pair_costs_itself() {
    let mut list = Vec::new();
    for turn in 0..50 {
        let id = format!("c{turn}");
        list.push(Message::user(format!("question {turn}")));
        list.push(Message::assistant_with_tools(vec![call(&id)]));
        if turn != 25 {
            list.push(Message::tool(id, "answer"));
        }
    }
    assert_eq!(sanitize_recovered_messages(&list).messages.len(), list.len() - 1);
}

/// S2-30: a delegated call in the middle of another, and a tool that timed out.
#[test]
fn nested_delegation_and_timeouts() {
    let child = ToolCall::new("d1", "delegate", r#"{"task":"count"}"#);
    let list = [
        Message::user("go"),
        Message::assistant_with_tools(vec![child]),
        calls(&["c1"]),
        Message::tool("c1", "7"),
        Message::tool("d1", "the child says 7"),
    ];
    assert_eq!(sanitized(&list), "u a[d1] rd1 a[c1] rc1");
    let timed_out =
        [Message::user("go"), calls(&["c1", "c2", "c3"]), Message::tool("c1", "1"), Message::tool("c3", "3")];
    assert_eq!(sanitized(&timed_out), "u");
}

/// S2-31, B25: raw content with thinking, system messages anywhere, assistants in a row.
#[test]
fn raw_content_and_odd_neighbours() {
    let list = [
        Message::system("one"),
        Message::assistant("a"),
        Message::assistant("b"),
        Message::system("two"),
        Message::user("c"),
    ];
    assert_eq!(sanitize_recovered_messages(&list).messages, list);
    // The provider's own item still holds the call that was left out; it must not go out again.
    let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"wait"},
        {"type":"tool_use","id":"toolu_1","name":"read","input":{}}]}]}"#;
    let input = rejoin::Input::new("b", body.as_bytes()).unwrap();
    let sessions = rejoin::sessions::read(&input, None).unwrap();
    let out =
        rejoin::convert(&sessions[0], rejoin::Dialect::Anthropic, None, rejoin::OnBroken::Drop).unwrap().body;
    assert!(
        out.contains("\"signature\":\"c2ln\"") && out.contains("wait") && !out.contains("toolu_1"),
        "{out}"
    );
}

/// B3: a second result, a result after a later turn, and a reused id: each call has exactly its own result.
#[test]
fn ids_are_consumed() {
    let twice =
        [Message::user("a"), calls(&["c1"]), Message::tool("c1", "first"), Message::tool("c1", "second")];
    assert_eq!(sanitize_recovered_messages(&twice).messages[2].content().as_deref(), Some("first"));
    assert_eq!(sanitized(&twice), "u a[c1] rc1");
    let reused = [
        Message::user("a"),
        calls(&["c1"]),
        Message::tool("c1", "1"),
        Message::user("b"),
        calls(&["c1"]),
        Message::tool("c1", "2"),
    ];
    assert_eq!(sanitized(&reused), "u a[c1] rc1 u a[c1_2] rc1_2");
}

/// B30: under `keep`, a call that ran is never forgotten, so a model does not repeat it.
#[test]
fn what_ran_is_not_forgotten() {
    let list = [Message::user("deploy"), calls(&["c1", "c2"]), Message::tool("c1", "deployed to production")];
    let history: rejoin::History = list.iter().cloned().collect();
    let kept = rejoin::repair(&history, rejoin::OnBroken::Keep).view.to_messages();
    assert_eq!(sketch(&kept), "u a[c1,c2] rc1 rc2");
    assert_eq!(kept[2].content().as_deref(), Some("deployed to production"));
    assert!(kept[3].content().unwrap().contains("may or may not have run"));
}

/// S2-42: lists without ids, timestamps or native items, as older versions stored them, load and pass.
#[test]
fn old_lists_load() {
    let body = r#"[{"role":"user","content":"2+2"},
        {"role":"assistant","content":null,"function_call":{"name":"calculate","arguments":"{\"e\":\"2+2\"}"}},
        {"role":"function","name":"calculate","content":"4"},{"role":"assistant","content":"4"}]"#;
    let mended = rejoin::mend(rejoin::Dialect::OpenAiChat, body).unwrap();
    assert!(mended.findings.iter().all(|finding| !finding.is_problem()), "{:?}", mended.findings);
    assert_eq!(testkit::refusals(rejoin::Dialect::OpenAiChat, mended.body.as_bytes()), []);
}

/// S2-41, S2-44: how much text survives recovery, by the kind of fault; the remainder can always be sent without a 400.
#[test]
fn how_much_context_survives() {
    let pair = |n: usize| {
        let call =
            json!({"id":format!("c{n}"),"type":"function","function":{"name":"read","arguments":"{}"}});
        vec![
            json!({"role":"user","content":format!("question {n}")}),
            json!({"role":"assistant","content":format!("looking {n}"),"tool_calls":[call]}),
            json!({"role":"tool","tool_call_id":format!("c{n}"),"content":format!("result {n}")}),
            json!({"role":"assistant","content":format!("answer {n}")}),
        ]
    };
    let normal: Vec<Value> = (0..10).flat_map(pair).collect();
    let said = |list: &[Value]| -> Vec<String> {
        list.iter().filter_map(|message| message["content"].as_str().map(str::to_owned)).collect()
    };
    let survives = |list: &[Value], of: usize| {
        let body = Value::from(list.to_vec()).to_string();
        let input = rejoin::Input::new("b", body.as_bytes()).unwrap();
        let session = rejoin::sessions::read(&input, rejoin::sessions::registry::named("openai-chat"))
            .unwrap()
            .remove(0);
        let mut worst = 100;
        for dialect in rejoin::Dialect::all() {
            let out = rejoin::convert(&session, dialect, None, rejoin::OnBroken::Drop).unwrap().body;
            assert_eq!(testkit::refusals(dialect, out.as_bytes()), [], "no 400");
            worst = worst.min(100 * said(&normal).iter().filter(|text| out.contains(*text)).count() / of);
        }
        worst
    };
    assert_eq!(survives(&normal, 40), 100, "normal");
    let incomplete = &normal[..normal.len() - 2];
    assert!(survives(incomplete, said(incomplete).len()) >= 95, "a call at the end without its result");
    let mut corrupted = normal.clone();
    *corrupted.last_mut().unwrap() = json!(17);
    assert!(survives(&corrupted, 40) >= 90, "the last message is damaged");
    let mut several = normal.clone();
    several.retain(|message| message["tool_call_id"] != "c3" && message["tool_call_id"] != "c7");
    several[20] = json!(null);
    assert!(survives(&several, 40) >= 80, "several problems");
    assert_eq!(
        survives(&[json!(1), json!(2), json!({"role":"user","content":""})], 40),
        0,
        "nothing is left, and it works"
    );
}

/// S4-06, S4-07: a stored message has a role, a content that may be null, calls as `{id, type, function}`, an id and a tool
/// name; all of it is read.
#[test]
fn stored_message_fields_are_read() {
    let body = r#"[{"role":"assistant","content":null,"timestamp":"2026-01-02T03:04:05Z","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"lookup","arguments":"{\"q\":1}"}}]},
        {"role":"tool","content":"found","tool_call_id":"call_1","tool_name":"lookup"}]"#;
    let input = rejoin::Input::new("b", body.as_bytes()).unwrap();
    let messages = rejoin::sessions::read(&input, None).unwrap().remove(0).messages;
    assert_eq!(messages[0].content(), None);
    let call = messages[0].tool_calls().next().unwrap();
    assert_eq!(
        (call.id.as_str(), &*call.name, call.arguments.text().as_str()),
        ("call_1", "lookup", "{\"q\":1}")
    );
    assert_eq!(messages[1].tool_call_id(), Some(&CallId::from("call_1")));
    assert_eq!(messages[1].tool_name().map(Text::as_str), Some("lookup"));
    assert!(
        messages[0].native.as_ref().unwrap().raw.as_str().contains("2026-01-02T03:04:05Z"),
        "nothing is lost"
    );
}

/// S4-13, S4-14, B49: rebuilt for Anthropic: results of one batch in one user message, calls as blocks, arguments that do not
/// parse as an object of raw text, all leading system texts.
#[test]
fn rebuilt_for_anthropic() {
    let body = r#"[{"role":"system","content":"one"},{"role":"system","content":"two"},{"role":"user","content":"go"},
        {"role":"assistant","content":"ok","tool_calls":[
          {"id":"c1","type":"function","function":{"name":"a","arguments":"{\"x\":"}},
          {"id":"c2","type":"function","function":{"name":"b","arguments":"{\"y\":2}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"}]"#;
    let input = rejoin::Input::new("b", body.as_bytes()).unwrap();
    let session = rejoin::sessions::read(&input, None).unwrap().remove(0);
    let out =
        rejoin::convert(&session, rejoin::Dialect::Anthropic, None, rejoin::OnBroken::Keep).unwrap().body;
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["system"], serde_json::json!([{"type":"text","text":"one"},{"type":"text","text":"two"}]));
    assert_eq!(
        out["messages"],
        serde_json::json!([
            {"role":"user","content":"go"},
            {"role":"assistant","content":[
                {"type":"text","text":"ok"},
                {"type":"tool_use","id":"c1","name":"a","input":{"_raw_arguments":"{\"x\":"}},
                {"type":"tool_use","id":"c2","name":"b","input":{"y":2}}]},
            {"role":"user","content":[
                {"type":"tool_result","tool_use_id":"c1","content":"1"},
                {"type":"tool_result","tool_use_id":"c2","content":"2"}]},
        ])
    );
}
