//! Dialects that are only written: what Bedrock's Converse, Mistral's hosted API and Ollama get of the same conversations. What
//! concerns one dialect alone is in its module.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod bedrock;
mod mistral;
mod ollama;
mod translation;

use rejoin_formats::{Context, Dialect, Target};
use rejoin_record::Message;
use rejoin_view::{Fate, History, KnownCall, OnBroken};
use serde_json::{Value, json};
use translation::{
    A, B, GONE, assistant, calls, converted, encoded, exactly, from_anthropic, from_chat, result, system,
    user, uses,
};

/// A dialect, and how a body of it is written on one line.
type Told = (Dialect, fn(&Value) -> String);

const DIALECTS: [Told; 3] =
    [(bedrock::TO, bedrock::sketch), (mistral::TO, mistral::sketch), (ollama::TO, ollama::sketch)];

#[test]
fn a_plain_chat() {
    let list = json!([system("be brief"), user("hi"), assistant("hello"), user("bye")]);
    let text = |text: &str| json!([{"text":text}]);
    let apart = json!({"system":text("be brief"),"messages":[
        {"role":"user","content":text("hi")},{"role":"assistant","content":text("hello")},{"role":"user","content":text("bye")}]});
    for (to, expected) in [
        (bedrock::TO, apart),
        (mistral::TO, json!({"messages":list})),
        (ollama::TO, json!({"messages":list})),
    ] {
        let out = from_chat(&list, to);
        assert_eq!(out.body, expected);
        assert_eq!(out.rules(), [""; 0], "{to}");
    }
}

/// What each dialect gets of each conversation, and what it gets under `drop` where that differs.
fn shown(cases: &[(&str, Value)]) -> String {
    let mut shown = String::new();
    for (name, source) in cases {
        shown += &format!("{name}\n");
        for (to, sketch) in DIALECTS {
            let [keep, drop] = [OnBroken::Keep, OnBroken::Drop].map(|on_broken| {
                let sent = sketch(&converted(source, "openai-chat", to, on_broken).body);
                sent.replace('\n', "\\n").replace('\t', "\\t").trim_end().to_owned()
            });
            shown += &format!("  {to}: {keep}\n");
            if drop != keep {
                shown += &format!("  {to} (drop): {drop}\n");
            }
        }
    }
    shown
}

#[test]
fn broken_states_are_reported() {
    for (name, source) in broken() {
        for (to, _) in DIALECTS {
            for on_broken in [OnBroken::Keep, OnBroken::Drop] {
                let out = converted(&source, "openai-chat", to, on_broken);
                assert!(!out.findings.is_empty(), "{name}, {to}, {on_broken:?}");
            }
        }
    }
}

#[test]
fn broken_states() {
    assert_eq!(
        shown(&broken()),
        r##"unanswered call
  bedrock: user: go / assistant: read#1{"p":1} / user: #1!=(NONE), next
  bedrock (drop): user: go, next
  mistral: user: go / assistant:  + read#1{"p":1} / tool read#1: NONE / assistant: Understood. / user: next
  mistral (drop): user: go / user: next
  ollama: user: go / assistant:  + read{"p":1} / tool read: NONE / user: next
  ollama (drop): user: go / user: next
partial batch
  bedrock: user: go / assistant: both, read#1{}, run#2{} / user: #1=(one), #2!=(NONE), next
  bedrock (drop): user: go / assistant: both / user: next
  mistral: user: go / assistant: both + read#1{} + run#2{} / tool read#1: one / tool run#2: NONE / assistant: Understood. / user: next
  mistral (drop): user: go / assistant: both / user: next
  ollama: user: go / assistant: both + read{} + run{} / tool read: one / tool run: NONE / user: next
  ollama (drop): user: go / assistant: both / user: next
orphan
  bedrock: user: go / assistant: ok / user: [tool result for call call0000X, LOST] lost, next
  bedrock (drop): user: go / assistant: ok / user: next
  mistral: user: go / assistant: ok / user: [tool result for call call0000X, LOST] lost / user: next
  mistral (drop): user: go / assistant: ok / user: next
  ollama: user: go / assistant: ok / user: [tool result for call call0000X, LOST] lost / user: next
  ollama (drop): user: go / assistant: ok / user: next
orphan in a batch
  bedrock: user: go / assistant: read#1{} / user: #1=(one), [tool result for call call0000X, LOST] lost, next
  bedrock (drop): user: go / assistant: read#1{} / user: #1=(one), next
  mistral: user: go / assistant:  + read#1{} / tool read#1: one / assistant: Understood. / user: [tool result for call call0000X, LOST] lost / user: next
  mistral (drop): user: go / assistant:  + read#1{} / tool read#1: one / assistant: Understood. / user: next
  ollama: user: go / assistant:  + read{} / tool read: one / user: [tool result for call call0000X, LOST] lost / user: next
  ollama (drop): user: go / assistant:  + read{} / tool read: one / user: next
result without id
  bedrock: user: go / assistant: ok / user: [tool result, LOST] lost, next
  bedrock (drop): user: go / assistant: ok / user: next
  mistral: user: go / assistant: ok / user: [tool result, LOST] lost / user: next
  mistral (drop): user: go / assistant: ok / user: next
  ollama: user: go / assistant: ok / user: [tool result, LOST] lost / user: next
  ollama (drop): user: go / assistant: ok / user: next
result before its call
  bedrock: user: go / assistant: read#1{} / user: #1=(early), next
  bedrock (drop): user: go, next
  mistral: user: go / assistant:  + read#1{} / tool read#1: early / assistant: Understood. / user: next
  mistral (drop): user: go / user: next
  ollama: user: go / assistant:  + read{} / tool read: early / user: next
  ollama (drop): user: go / user: next
detached result
  bedrock: user: go / assistant: read#1{} / user: #1=(late), wait / assistant: ok / user: next
  mistral: user: go / assistant:  + read#1{} / tool read#1: late / assistant: Understood. / user: wait / assistant: ok / user: next
  ollama: user: go / assistant:  + read{} / tool read: late / user: wait / assistant: ok / user: next
two results
  bedrock: user: go / assistant: read#1{} / user: #1=(one, two), next
  bedrock (drop): user: go / assistant: read#1{} / user: #1=(one), next
  mistral: user: go / assistant:  + read#1{} / tool read#1: one\n\ntwo / assistant: Understood. / user: next
  mistral (drop): user: go / assistant:  + read#1{} / tool read#1: one / assistant: Understood. / user: next
  ollama: user: go / assistant:  + read{} / tool read: one\n\ntwo / user: next
  ollama (drop): user: go / assistant:  + read{} / tool read: one / user: next
reused id
  bedrock: user: go / assistant: read#1{"n":1} / user: #1=(one) / assistant: read#2{"n":2} / user: #2=(two), next
  mistral: user: go / assistant:  + read#1{"n":1} / tool read#1: one / assistant:  + read#2{"n":2} / tool read#2: two / assistant: Understood. / user: next
  ollama: user: go / assistant:  + read{"n":1} / tool read: one / assistant:  + read{"n":2} / tool read: two / user: next
malformed and answered
  bedrock: user: go / assistant: read#1{"_raw_arguments":"{\"p\":"} / user: #1=(bad), next
  mistral: user: go / assistant:  + read#1{"_raw_arguments":"{\"p\":"} / tool read#1: bad / assistant: Understood. / user: next
  ollama: user: go / assistant:  + read{"_raw_arguments":"{\"p\":"} / tool read: bad / user: next
malformed and unanswered
  bedrock: user: go / assistant: hm / user: next
  mistral: user: go / assistant: hm / user: next
  ollama: user: go / assistant: hm / user: next
no arguments
  bedrock: user: go / assistant: read#1{} / user: #1=(one), next
  mistral: user: go / assistant:  + read#1{} / tool read#1: one / assistant: Understood. / user: next
  ollama: user: go / assistant:  + read{} / tool read: one / user: next
"##
    );
}

/// The broken states of a conversation, by name.
fn broken() -> Vec<(&'static str, Value)> {
    let read = |arguments| calls(None, &[(A, "read", arguments)]);
    vec![
        ("unanswered call", json!([user("go"), read("{\"p\":1}"), user("next")])),
        (
            "partial batch",
            json!([
                user("go"),
                calls(Some("both"), &[(A, "read", "{}"), (B, "run", "{}")]),
                result(A, "one"),
                user("next")
            ]),
        ),
        ("orphan", json!([user("go"), assistant("ok"), result(GONE, "lost"), user("next")])),
        (
            "orphan in a batch",
            json!([user("go"), read("{}"), result(A, "one"), result(GONE, "lost"), user("next")]),
        ),
        (
            "result without id",
            json!([user("go"), assistant("ok"), {"role":"tool","content":"lost"}, user("next")]),
        ),
        ("result before its call", json!([user("go"), result(A, "early"), read("{}"), user("next")])),
        (
            "detached result",
            json!([user("go"), read("{}"), user("wait"), result(A, "late"), assistant("ok"), user("next")]),
        ),
        ("two results", json!([user("go"), read("{}"), result(A, "one"), result(A, "two"), user("next")])),
        (
            "reused id",
            json!([
                user("go"),
                read("{\"n\":1}"),
                result(A, "one"),
                read("{\"n\":2}"),
                result(A, "two"),
                user("next")
            ]),
        ),
        ("malformed and answered", json!([user("go"), read("{\"p\":"), result(A, "bad"), user("next")])),
        (
            "malformed and unanswered",
            json!([user("go"), calls(Some("hm"), &[(A, "read", "{\"p\":")]), user("next")]),
        ),
        ("no arguments", json!([user("go"), read(""), result(A, "one"), user("next")])),
    ]
}

#[test]
fn odd_conversations() {
    assert_eq!(
        shown(&odd()),
        r##"no message
  bedrock: user: [conversation resumed]
  mistral: user: [conversation resumed]
  ollama: user: [conversation resumed]
only a system message
  bedrock: user: [conversation resumed]
  mistral: system: s / user: [conversation resumed]
  ollama: system: s
only an answer
  bedrock: user: [conversation resumed] / assistant: a / user: Continue.
  mistral: user: [conversation resumed] / assistant: a / user: Continue.
  ollama: assistant: a
an answer first
  bedrock: user: [conversation resumed] / assistant: a / user: b
  mistral: user: [conversation resumed] / assistant: a / user: b
  ollama: assistant: a / user: b
only reasoning
  bedrock: user: a
  mistral: user: a
  ollama: user: a
an empty answer
  bedrock: user: a, b
  mistral: user: a / user: b
  ollama: user: a / user: b
a blank answer
  bedrock: user: a, b
  mistral: user: a / assistant:  \n / user: b
  ollama: user: a / assistant:  \n / user: b
empty questions
  bedrock: user: (empty), (empty)
  mistral: user:  / user:
  ollama: user:  / user:
a blank part
  bedrock: user: a
  mistral: user:   | a
  ollama: user:  \n\na
an empty part of an answer
  bedrock: user: a / assistant: b / user: c
  mistral: user: a / assistant: b / user: c
  ollama: user: a / assistant: b / user: c
an unknown role
  bedrock: user: a
  mistral: user: a
  ollama: user: a
an empty result
  bedrock: user: a / assistant: read#1{} / user: #1=((empty))
  mistral: user: a / assistant:  + read#1{} / tool read#1:
  ollama: user: a / assistant:  + read{} / tool read:
a blank result
  bedrock: user: a / assistant: read#1{} / user: #1=((empty))
  mistral: user: a / assistant:  + read#1{} / tool read#1: \t
  ollama: user: a / assistant:  + read{} / tool read: \t
results in another order
  bedrock: user: go / assistant: read#1{}, run#2{} / user: #1=(one), #2=(two) / assistant: ok / user: Continue.
  mistral: user: go / assistant:  + read#1{} + run#2{} / tool read#1: one / tool run#2: two / assistant: ok / user: Continue.
  ollama: user: go / assistant:  + read{} + run{} / tool read: one / tool run: two / assistant: ok
system texts anywhere
  bedrock: user: a, <system>four</system> / assistant: read#1{} / user: #1=(r), <system>five</system> / assistant: b / user: c
  mistral: system: one / system: two | three / user: a / user: <system>four</system> / assistant:  + read#1{} / tool read#1: r / assistant: Understood. / user: <system>five</system> / assistant: b / user: c
  ollama: system: one / system: two\n\nthree / user: a / system: four / assistant:  + read{} / tool read: r / system: five / assistant: b / user: c
a system message that calls, so that the next is not at the front
  bedrock: user: [conversation resumed] / assistant: read#1{} / user: #1=(r), <system>two</system>, a
  mistral: system: one / user: [conversation resumed] / assistant:  + read#1{} / tool read#1: r / assistant: Understood. / user: <system>two</system> / user: a
  ollama: system: one / assistant:  + read{} / tool read: r / system: two / user: a
"##
    );
}

/// Conversations with empty parts or an unusual order, by name.
fn odd() -> Vec<(&'static str, Value)> {
    let read = || calls(None, &[(A, "read", "{}")]);
    let texts =
        |texts: &[&str]| texts.iter().map(|text| json!({"type":"text","text":text})).collect::<Value>();
    let mut calling_system = calls(Some("one"), &[(A, "read", "{}")]);
    calling_system["role"] = json!("system");
    vec![
        ("no message", json!([])),
        ("only a system message", json!([system("s")])),
        ("only an answer", json!([assistant("a")])),
        ("an answer first", json!([assistant("a"), user("b")])),
        ("only reasoning", json!([user("a"), {"role":"assistant","content":null,"reasoning_content":"hm"}])),
        ("an empty answer", json!([user("a"), assistant(""), user("b")])),
        ("a blank answer", json!([user("a"), assistant(" \n"), user("b")])),
        ("empty questions", json!([user(""), {"role":"user","content":[]}])),
        ("a blank part", json!([{"role":"user","content":texts(&[" ", "a"])}])),
        (
            "an empty part of an answer",
            json!([user("a"), {"role":"assistant","content":texts(&["", "b"])}, user("c")]),
        ),
        ("an unknown role", json!([{"role":"weird","content":[]}, user("a")])),
        ("an empty result", json!([user("a"), read(), result(A, "")])),
        ("a blank result", json!([user("a"), read(), result(A, "\t")])),
        (
            "results in another order",
            json!([
                user("go"),
                calls(None, &[(A, "read", "{}"), (B, "run", "{}")]),
                result(B, "two"),
                result(A, "one"),
                assistant("ok")
            ]),
        ),
        ("system texts anywhere", system_texts()),
        (
            "a system message that calls, so that the next is not at the front",
            json!([calling_system, system("two"), result(A, "r"), user("a")]),
        ),
    ]
}

/// System texts at the front, between messages and after a result.
fn system_texts() -> Value {
    let parts = ["two", " ", "three"].map(|text| json!({"type":"text","text":text}));
    json!([
        system("one"),
        {"role":"developer","content":parts},
        system(" "),
        user("a"),
        system("four"),
        calls(None, &[(A, "read", "{}")]),
        result(A, "r"),
        system("five"),
        assistant("b"),
        user("c")
    ])
}

/// Nothing but a blank text beside a result: that is no message of the user.
#[test]
fn blank_text_beside_a_result() {
    let list = json!([user("go"), uses(&[(A, "read")]),
        {"role":"user","content":[{"type":"tool_result","tool_use_id":A,"content":"one"},{"type":"text","text":" "}]}]);
    assert_eq!(
        DIALECTS.map(|(to, sketch)| sketch(&from_anthropic(&list, to).body)),
        [
            "user: go / assistant: read#1{} / user: #1=(one)",
            "user: go / assistant:  + read#1{} / tool read#1: one",
            "user: go / assistant:  + read{} / tool read: one"
        ]
    );
}

#[test]
fn calls_that_never_ran() {
    let list = json!([user("go"), calls(Some("let me"), &[(A, "read", "{}")]), user("next")]);
    let session = translation::read(&list.to_string(), Some("openai-chat"));
    for fate in [Fate::NotStarted, Fate::AwaitingApproval] {
        let known = vec![KnownCall { message: 1, block: 1, fate }];
        let history = History::with(session.messages.clone(), known, Vec::new());
        for (to, sketch) in DIALECTS {
            let body = encoded(&history, &Target::of(&session.context), to);
            assert_eq!(sketch(&body), "user: go / assistant: let me / user: next", "{to}");
            assert!(body.get("toolConfig").is_none(), "{to}");
        }
    }
}

/// A session file may end with a message of the model; nothing is added after it.
#[test]
fn a_body_that_is_not_closed() {
    let history = [Message::user("a"), Message::assistant("b")].into_iter().collect();
    let context = Context::default();
    let target = Target { closes: false, ..Target::of(&context) };
    for (to, sketch) in DIALECTS {
        assert_eq!(sketch(&encoded(&history, &target, to)), "user: a / assistant: b", "{to}");
    }
}

/// Numbers and repeated keys of arguments go out as they were written.
#[test]
fn arguments_stay_as_they_are() {
    let text = "{ \"n\": 12345678901234567890.50, \"n\": 1e3 }";
    let list = json!([user("go"), calls(None, &[(A, "read", text)]), result(A, "one")]);
    for (to, field) in [(bedrock::TO, "input"), (ollama::TO, "arguments")] {
        let body = exactly(&list.to_string(), to).body;
        assert!(body.contains(&format!("\"{field}\":{text}")), "{body}");
    }
}

/// Half a character is replaced: in the text of a user, in arguments (if they are no string, in which the escape is harmless), in
/// results, and in a field for the system.
#[test]
fn lone_surrogates() {
    let list = r#"[{"role":"user","content":"a\ud83d"},{"role":"assistant","content":null,"tool_calls":[
        {"id":"call0000A","type":"function","function":{"name":"read","arguments":"{\"s\":\"\\ud83d\"}"}}]},
        {"role":"tool","tool_call_id":"call0000A","content":"b\ud83d"},{"role":"tool","tool_call_id":"x","content":"c\ud83d"}]"#;
    let expected = [
        "user: a\u{fffd} / assistant: read#1{\"s\":\"\u{fffd}\"} / user: #1=(b\u{fffd}), [tool result for call x, LOST] c\u{fffd}",
        "user: a\u{fffd} / assistant:  + read#1{\"s\":\"\\ud83d\"} / tool read#1: b\u{fffd} / assistant: Understood. / \
         user: [tool result for call x, LOST] c\u{fffd}",
        "user: a\u{fffd} / assistant:  + read{\"s\":\"\u{fffd}\"} / tool read: b\u{fffd} / \
         user: [tool result for call x, LOST] c\u{fffd}",
    ];
    for ((to, sketch), expected) in DIALECTS.into_iter().zip(expected) {
        let out = exactly(list, to);
        assert_eq!(sketch(&serde_json::from_str(&out.body).unwrap()), expected);
        let found = out.findings.iter().filter(|finding| finding.rule.name() == "lone-surrogate").count();
        assert_eq!(found, if to == mistral::TO { 3 } else { 4 }, "{to}");
        assert_eq!(out.body.contains(r#"{"s":"\ufffd"}"#), to != mistral::TO, "{}", out.body);

        let out = exactly(r#"{"system":"s\ud83d","messages":[{"role":"user","content":"a"}]}"#, to);
        assert!(out.body.contains("s\u{fffd}"), "{to}");
        assert_eq!(out.findings[0].rule.name(), "lone-surrogate", "{to}");
    }
}

#[test]
fn what_was_sent_stays() {
    check_stable(bedrock::TO, bedrock::pieces);
    check_stable(mistral::TO, mistral::pieces);
    check_stable(ollama::TO, |body| {
        body["messages"].as_array().unwrap().iter().map(Value::to_string).collect()
    });
}

/// Checks that whatever is sent of the beginning of a conversation is a prefix of what is sent of more of it. The pieces are those
/// of `pieces`: role and block. A closing message is not part of it.
fn check_stable(to: Dialect, pieces: fn(&Value) -> Vec<String>) {
    let list = growing();
    let mut before = Vec::new();
    for length in 0..=list.len() {
        if length > 0 && list[length - 1].get("tool_calls").is_some() {
            // No request leaves while a call is open.
            continue;
        }
        let out = from_chat(&json!(list[..length]), to);
        let mut body = out.body.clone();
        let closes = |detail: &str| detail.contains("ends with") || detail.contains("needs a message");
        if out.findings.iter().any(|finding| finding.detail.as_ref().is_some_and(|detail| closes(detail))) {
            body["messages"].as_array_mut().unwrap().pop();
        }
        let now = pieces(&body);
        assert!(now.starts_with(&before), "{length} messages\nbefore {before:#?}\nnow {now:#?}");
        assert!(length < 3 || !now.is_empty());
        before = now;
    }
}

/// A conversation with every way of going on in it.
fn growing() -> Vec<Value> {
    let picture = json!({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}});
    let document =
        json!({"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}});
    vec![
        system("be brief"),
        system("be kind"),
        user("go"),
        calls(None, &[(A, "read", "{\"p\":1}")]),
        result(A, "one"),
        user("thanks"),
        json!({"role":"user","content":[document]}),
        user("and this"),
        assistant("fine"),
        assistant("more"),
        system("late"),
        calls(Some("again"), &[("x", "run", "{}")]),
        json!({"role":"tool","tool_call_id":"x","content":[picture]}),
        result(GONE, "lost"),
        user("next"),
    ]
}
