//! Cache marks: at most four, never on what cannot have one, and nothing else is changed by them.

use std::sync::Arc;

use proptest::prelude::*;
use rejoin_formats::{Context, Dialect, Draft, Target, convert::CacheMarks};
use rejoin_record::{Message, Origin, ToolCall};
use rejoin_view::{OnBroken, Repairer, repair};
use serde_json::{Value, json};

use super::support::*;

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn draft(context: &Context) -> Draft {
    Draft::new(Dialect::Anthropic, context.clone(), Some("m".into()), Origin::default())
}

/// Everything in a body that has a mark.
fn marked(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(list) => todo.extend(list),
            Value::Object(fields) => {
                if fields.contains_key("cache_control") {
                    found.push(value.clone());
                }
                todo.extend(fields.values());
            }
            _ => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(testkit::law_cases(4))]

    /// ANT-26: with marks a body is the one without, and the marks; the provider takes it.
    #[test]
    fn marks_are_all_that_is_added(body in any_body(), own in any::<bool>()) {
        let Some(mut session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        if own {
            session.context.instructions = Some(INSTRUCTIONS.into());
            session.context.offered = vec![tool("read")];
        }
        let view = repair(&session.history(), OnBroken::Keep).view;
        let issuer = Origin::default();
        let encode = |marks| {
            let target = Target { marks, issuer: Some(issuer.clone()), ..Target::of(&session.context) };
            Dialect::Anthropic.wire().encode(&view, &target).unwrap()
        };
        let (placed, plain) = (encode(CacheMarks::Placed), encode(CacheMarks::LeftOut));
        prop_assert_eq!(placed.body.replace(MARK, ""), plain.body.replace(MARK, ""));
        prop_assert!(plain.prefix.is_some() && placed.prefix == plain.prefix, "no part of the prefix");
        let violations = testkit::refusals(Dialect::Anthropic, placed.body.as_bytes());
        prop_assert!(violations.is_empty(), "{}\n{:#?}", placed.body, violations);
        let count = placed.body.matches(MARK).count();
        prop_assert!(count <= 4, "{count} marks");
        for block in marked(&testkit::scan::parse(&placed.body)["messages"]) {
            prop_assert!(block["type"] != "thinking" && block["type"] != "redacted_thinking");
        }
    }
}

#[test]
fn marks_stand_at_the_end_of_what_stays() {
    let context = Context {
        dialect: Some(Dialect::Anthropic),
        instructions: Some("You keep words.".into()),
        offered: vec![tool("read")],
        ..Context::default()
    };
    let mut running = Repairer::new(OnBroken::Keep);
    let mut draft = draft(&context).with_cache_marks();
    let request = |running: &mut Repairer, draft: &mut Draft| {
        running.seal();
        testkit::scan::parse(&draft.request(&running.view().view).unwrap().body.to_string())
    };
    running.push(Arc::new(Message::user("one")), &[]);
    let first = request(&mut running, &mut draft);
    let mark = json!({"type":"ephemeral"});
    assert_eq!(first["system"], json!([{"type":"text","text":"You keep words.","cache_control":mark}]));
    assert_eq!(
        first["messages"],
        json!([{"role":"user","content":[{"type":"text","text":"one","cache_control":mark}]}])
    );
    assert!(first["tools"][0].get("cache_control").is_none(), "the one behind it is enough");
    running.push(Arc::new(Message::assistant_with_tools(vec![ToolCall::new("toolu_1", "read", "{}")])), &[]);
    running.push(Arc::new(Message::tool("toolu_1", "result")), &[]);
    request(&mut running, &mut draft);
    running.push(Arc::new(Message::assistant("answer")), &[]);
    running.push(Arc::new(Message::user("two")), &[]);
    let third = request(&mut running, &mut draft);
    let list = third["messages"].as_array().unwrap();
    let has_mark: Vec<bool> = list.iter().map(|message| !marked(message).is_empty()).collect();
    assert_eq!(has_mark, [false, false, true, false, true], "the last two of a user's");
    assert_eq!(list[0]["content"], json!([{"type":"text","text":"one"}]));
    assert_eq!(list[2]["content"][0]["type"], "tool_result");
    assert_eq!(list[2]["content"][0]["cache_control"], mark);
    assert_eq!(marked(&third).len(), 3);
}

#[test]
fn without_a_system_prompt_the_tools_are_marked() {
    let context = Context {
        dialect: Some(Dialect::Anthropic),
        offered: vec![tool("read"), tool("list")],
        ..Context::default()
    };
    let mut running = Repairer::new(OnBroken::Keep);
    running.push(Arc::new(Message::user("one")), &[]);
    let body = draft(&context).with_cache_marks().request(&running.view().view).unwrap().body.to_string();
    let body = testkit::scan::parse(&body);
    assert!(body["tools"][0].get("cache_control").is_none());
    assert!(body["tools"][1].get("cache_control").is_some());
}

/// Marks that a source wrote would be too many with ours.
#[test]
fn marks_of_the_source_go() {
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let block = |text: &str| format!(r#"{{"type":"text","text":"{text}",{mark}}}"#);
    let body = format!(
        r#"{{"max_tokens":9,"system":[{}],"messages":[{{"role":"user","content":[{},{}]}},{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}]}}"#,
        block("s"),
        block("a"),
        block("b"),
        block("c"),
        block("d")
    );
    let session = session(&body, "anthropic").unwrap();
    let mut running = Repairer::new(OnBroken::Keep);
    session.messages.iter().for_each(|message| running.push(Arc::clone(message), &[]));
    let view = running.view().view;
    let count = |draft: Draft| {
        let mut draft = draft;
        marked(&testkit::scan::parse(&draft.request(&view).unwrap().body.to_string())).len()
    };
    assert_eq!(count(draft(&session.context)), 0);
    assert_eq!(count(draft(&session.context).with_cache_marks()), 3);
}
