//! For tests of dialects that are only written: sources in the shape of Chat Completions or Anthropic, and what they became.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses some of it, and a test may")]

use rejoin_formats::{Converted, Dialect, Input, Target, convert, sessions};
use rejoin_view::{Finding, History, KnownCall, OnBroken, repair};
use serde_json::{Value, json};

/// Ids that every dialect takes as they are.
pub const A: &str = "call0000A";
pub const B: &str = "call0000B";
/// An id that no call has.
pub const GONE: &str = "call0000X";

pub fn user(text: &str) -> Value {
    json!({"role":"user","content":text})
}

pub fn assistant(text: &str) -> Value {
    json!({"role":"assistant","content":text})
}

pub fn system(text: &str) -> Value {
    json!({"role":"system","content":text})
}

/// An assistant message with calls: id, tool, arguments.
pub fn calls(text: Option<&str>, calls: &[(&str, &str, &str)]) -> Value {
    let list: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id":id,"type":"function","function":{"name":name,"arguments":arguments}})
        })
        .collect();
    json!({"role":"assistant","content":text,"tool_calls":list})
}

pub fn result(id: &str, text: &str) -> Value {
    json!({"role":"tool","tool_call_id":id,"content":text})
}

/// What a source became.
pub struct Out {
    pub body: Value,
    pub findings: Vec<Finding>,
}

impl Out {
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().unwrap()
    }

    pub fn rules(&self) -> Vec<&'static str> {
        self.findings.iter().map(|finding| finding.rule.name()).collect()
    }

    /// What the findings of a rule are about.
    pub fn about(&self, rule: &str) -> Vec<String> {
        let of_rule = self.findings.iter().filter(|finding| finding.rule.name() == rule);
        of_rule.filter_map(|finding| Some(finding.subject.as_ref()?.to_string())).collect()
    }
}

/// Converts a source of a format.
pub fn converted(source: &Value, from: &str, to: Dialect, on_broken: OnBroken) -> Out {
    let input = Input::new("body", source.to_string().as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named(from)).unwrap().remove(0);
    let Converted { body, findings } = convert(&session, to, None, on_broken).unwrap();
    assert_eq!(testkit::refusals(to, body.as_bytes()), [], "{body}");
    Out { body: serde_json::from_str(&body).unwrap(), findings }
}

pub fn from_chat(source: &Value, to: Dialect) -> Out {
    converted(source, "openai-chat", to, OnBroken::Keep)
}

pub fn from_anthropic(source: &Value, to: Dialect) -> Out {
    converted(source, "anthropic", to, OnBroken::Keep)
}

/// Converts a list of which more is known than it says.
pub fn with_known(list: &Value, known: Vec<KnownCall>, to: Dialect) -> Value {
    let input = Input::new("body", list.to_string().as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named("openai-chat")).unwrap().remove(0);
    let view = repair(&History::with(session.messages.clone(), known, Vec::new()), OnBroken::Keep).view;
    let body = to.wire().encode(&view, &Target::of(&session.context)).unwrap().body;
    serde_json::from_str(&body).unwrap()
}

/// The broken states of a conversation, by name.
pub fn broken() -> Vec<(&'static str, Value)> {
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

/// Checks every broken state under both policies against what is expected, written as `sketch` writes it.
pub fn check_broken(to: Dialect, sketch: fn(&Value) -> String, expected: &[(&str, &str, &str)]) {
    let states = broken();
    let names: Vec<&str> = states.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    for ((name, source), (_, keep, drop)) in states.iter().zip(expected) {
        for (on_broken, expected) in [(OnBroken::Keep, keep), (OnBroken::Drop, drop)] {
            let out = converted(source, "openai-chat", to, on_broken);
            assert_eq!(sketch(&out.body), *expected, "{name}, {on_broken:?}");
            assert!(!out.findings.is_empty(), "{name}");
        }
    }
}

/// Checks that whatever is sent of the beginning of a list is a prefix of what is sent of more of it. The pieces are those
/// of `pieces`: role and block. A closing message is not part of it.
pub fn check_stable(list: &[Value], to: Dialect, pieces: fn(&Value) -> Vec<String>) {
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
pub fn growing() -> Vec<Value> {
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

/// Texts as they are, the words for a missing result as `NONE`.
pub fn short(text: &str) -> String {
    text.replace(rejoin_view::sound::NO_RESULT, "NONE")
}

/// Call ids as the numbers in which they first occur: what an id is called is another test's business.
#[derive(Default)]
pub struct Numbers(Vec<String>);

impl Numbers {
    pub fn of(&mut self, id: &Value) -> String {
        let id = id.as_str().unwrap().to_owned();
        let place = self.0.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.0.push(id);
            self.0.len() - 1
        });
        format!("#{}", place + 1)
    }
}
