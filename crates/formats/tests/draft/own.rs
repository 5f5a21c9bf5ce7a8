//! Instructions and tools of the conversation's own, in every dialect.

use proptest::prelude::*;
use rejoin_formats::{Context, Dialect, Session, Target, convert};
use rejoin_record::{Content, Kind, Message, Raw, content};
use rejoin_view::{OnBroken, Rule, repair};
use serde_json::Value;

use super::support::*;

/// Names that bodies of the generator use and declare, names that dialects refuse, and one twice.
const OFFERED: [&str; 5] = ["read", "mcp.files:list", "1st tool", "read", "unused"];

fn with_own(mut session: Session, count: usize) -> Session {
    session.context.instructions = Some(INSTRUCTIONS.into());
    session.context.offered = OFFERED[..count].iter().map(|name| tool(name)).collect();
    session
}

proptest! {
    #![proptest_config(testkit::law_cases(2))]

    /// The checkers take the conversation's own instructions and tools, around any history, beside any fields.
    #[test]
    fn own_instructions_and_tools_are_sound(body in any_body(), count in 1..OFFERED.len()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let plain_tools = session.context.tools().len();
        let session = with_own(session, count);
        for to in Dialect::all() {
            for policy in [OnBroken::Keep, OnBroken::Drop] {
                let out = convert(&session, to, None, policy).unwrap();
                let violations = testkit::refusals(to, out.body.as_bytes());
                prop_assert!(violations.is_empty(), "{to} {policy:?}\n{}\n{:#?}", out.body, violations);
                let json: Value = testkit::scan::parse(&out.body);
                prop_assert!(first_text(&json, to).starts_with(INSTRUCTIONS), "{to}\n{}", out.body);
                let names = declared(&json, to);
                let offered = count.min(3);
                prop_assert!(names.len() >= offered && names.len() <= offered + plain_tools + 1, "{to}\n{names:?}");
                let mut once = names.clone();
                once.sort();
                once.dedup();
                prop_assert_eq!(once.len(), names.len(), "{} {:?}", to, names);
                prop_assert!(!out.findings.iter().any(|finding| finding.rule == Rule::StubTools));
            }
        }
    }

    /// They are no change: reasoning that a body carries stays in it, and so does every message.
    #[test]
    fn own_instructions_change_no_message(body in any_body()) {
        let Some(plain) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let Ok(to) = body.shape.name().parse::<Dialect>() else { return Ok(()) };
        let own = with_own(plain.clone(), 3);
        let view = repair(&plain.history(), OnBroken::Keep).view;
        let body = |session: &Session| {
            let out = to.wire().encode(&view, &Target::of(&session.context)).unwrap().body;
            testkit::scan::parse(&out)
        };
        let list = |value: &Value| value[body_list(to)].clone();
        let (without, with) = (list(&body(&plain)), list(&body(&own)));
        // A request of only instructions needs no placeholder message where instructions are themselves a message.
        if without.to_string().contains("[conversation resumed]") { return Ok(()) }
        match (&without, &with) {
            (Value::Array(without), Value::Array(with)) if to == Dialect::OpenAiChat => {
                prop_assert_eq!(&with[1..], &without[..]);
            }
            _ => prop_assert_eq!(&with, &without),
        }
    }
}

fn body_list(dialect: Dialect) -> &'static str {
    testkit::scan::list(dialect.name())
}

#[test]
fn tools_of_fields_stay_as_they_are_written() {
    let body = r#"{"model":"m","tools":[{ "name":"read", "input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut session = session(body, "anthropic").unwrap();
    session.context.offered = vec![tool("list")];
    let out = convert(&session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    assert!(out.body.contains(r#",{"type":"web_search_20250305","name":"web_search"}]"#), "{}", out.body);
    let json: Value = testkit::scan::parse(&out.body);
    assert_eq!(declared(&json, Dialect::Anthropic), ["list", "read", "web_search"]);
    assert!(out.findings.is_empty(), "{:?}", out.findings);
}

#[test]
fn instructions_are_joined_where_there_is_one_field() {
    let body = r#"{"model":"m","instructions":"theirs","input":[{"role":"user","content":"hi"}]}"#;
    let mut session = session(body, "openai-responses").unwrap();
    session.context.instructions = Some("ours".into());
    let out = convert(&session, Dialect::OpenAiResponses, None, OnBroken::Keep).unwrap();
    let json: Value = testkit::scan::parse(&out.body);
    assert_eq!(json["instructions"], "ours\n\ntheirs");
}

/// What an engine writes of a turn's surroundings is what requests are made with: in every dialect.
#[test]
fn a_recorded_conversation_has_its_instructions_and_tools() {
    for target in [
        r#"{"provider":"anthropic","dialect":"anthropic","model":"claude-x","url":"https://a"}"#,
        r#"{"provider":"offline","model":"echo"}"#,
    ] {
        let context = content::RecordedContext {
            system: Some("You keep words.".into()),
            tools: Some(Raw::new(
                r#"[{"name":"read","description":"Reads","input_schema":{"type":"object"}}]"#,
            )),
            target: Some(Raw::new(target)),
            ..content::RecordedContext::default()
        };
        let contents = [
            (Kind::Context, Content::Context(context)),
            (Kind::Message, Content::Message(Message::user("hi"))),
        ];
        let session = recorded(&contents);
        let named = target.contains("dialect");
        assert_eq!(session.context.dialect.is_some(), named);
        assert!(session.context.whole_body);
        assert_eq!(session.context.model().as_deref(), Some(if named { "claude-x" } else { "echo" }));
        for to in Dialect::all() {
            let out = convert(&session, to, None, OnBroken::Keep).unwrap();
            assert!(testkit::refusals(to, out.body.as_bytes()).is_empty(), "{to} {}", out.body);
            let json: Value = testkit::scan::parse(&out.body);
            assert_eq!(first_text(&json, to), "You keep words.");
            assert_eq!(declared(&json, to), ["read"]);
        }
    }
}

#[test]
fn surroundings_can_be_had_back() {
    let context = Context {
        instructions: Some(INSTRUCTIONS.into()),
        offered: vec![tool("read"), tool("a.b")],
        ..Context::default()
    };
    let back = Context::from_json(&context.to_json()).unwrap();
    assert_eq!(back.instructions, context.instructions);
    assert_eq!(back.offered.len(), 2);
    for (back, tool) in back.offered.iter().zip(&context.offered) {
        assert_eq!(
            (&back.name, &back.description, &back.schema),
            (&tool.name, &tool.description, &tool.schema)
        );
    }
}
