//! What each agent does about a broken session when it resumes it: a sketch of a session for each kind of fault, and the verdict of
//! `doctor`. The rows marked "seen" are what the program itself sent when it was run with such a session.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{collections::BTreeSet, sync::Arc};

use rejoin::{
    Block, Context, Dialect, Input, Message, Role, Session, Text, ToolCall, ToolResult,
    check::{self, Sender},
    doctor::{
        ExaminedSession,
        Health::{self, Broken as Unknown, MendedByItsAgent as Mended, Refused, Sound},
    },
    session::{Aside, SetAside, SourcePlace, derive_id},
    sessions::{self, FORMATS, Resend},
};

/// A session: `u` and `a` are words of the user and the model, `c1,2` calls in one message, `r1` a result, `r1u` a result and words
/// in one message.
fn session(format: &'static str, dialect: Dialect, model: Option<&str>, sketch: &str) -> Session {
    let mut context = Context { dialect: Some(dialect), ..Context::default() };
    model.into_iter().for_each(|model| context.put("model", &format!("\"{model}\"")));
    let mut session = Session::new(format, derive_id(format, None, sketch, None), context);
    for (number, word) in sketch.split(' ').enumerate() {
        let ids = || word[1..].trim_end_matches('u').split(',').map(|id| format!("call_{id}"));
        let mut message = match &word[..1] {
            "u" => Message::user(format!("words {number}")),
            "a" => Message::assistant(format!("words {number}")),
            "c" => Message::assistant_with_tools(ids().map(|id| ToolCall::new(&*id, "ls", "{}")).collect()),
            _ => Message::new(
                Role::Tool,
                ids().map(|id| Block::result(ToolResult::new(&*id, "files"))).collect(),
            ),
        };
        if word.starts_with('r') && word.ends_with('u') {
            message.role = Role::User;
            message.blocks.push(Block::text("words"));
        }
        session.messages.push(Arc::new(message));
        session.places.push(SourcePlace { index: number, offset: 0, line: None });
    }
    session
}

struct Row {
    format: &'static str,
    dialect: Dialect,
    cases: &'static [(Health, &'static str)],
}

const fn row(format: &'static str, dialect: Dialect, cases: &'static [(Health, &'static str)]) -> Row {
    Row { format, dialect, cases }
}

use Dialect::{Anthropic, Gemini, OpenAiChat, OpenAiResponses};

/// A format, the dialect that its reader names, and for each health the sketches that have it.
const ROWS: &[Row] = &[
    // Seen with 0.61. Gemini counts results and does not look at their ids.
    row(
        "gemini-cli",
        Gemini,
        &[
            (Sound, "u c1 r1 a u"),
            (
                Refused,
                "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u c1,2 r1 a; u r1 c1 a; u c1 a u r1 a",
            ),
            (Mended, "u c1 r1 a u c1 r1 a"),
        ],
    ),
    // Seen with 0.36.
    row(
        "llm",
        OpenAiChat,
        &[
            (Sound, "u c1 r1 a u"),
            (
                Refused,
                "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u c1,2 r1 a; u r1 c1 a; u c1 a u r1 a; u c1 r1 a u c1 r1 a",
            ),
        ],
    ),
    // Seen with 1.34.
    row(
        "goose",
        OpenAiChat,
        &[
            (Sound, "u c1 r1 a u"),
            (Mended, "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1,2 r1 a; u r1 c1 a"),
            (Refused, "u c1 u r1 a; u c1 a u r1 a; u c1 r1 a u c1 r1 a"),
        ],
    ),
    // Seen with 1.18.33. Its files hold no result without a call.
    row(
        "opencode",
        OpenAiChat,
        &[
            (Sound, "u c1 r1 a u"),
            (Mended, "u c1 a u a; u c1; u c1,2 r1 a"),
            (Refused, "u c1 r1 a u c1 r1 a"),
        ],
    ),
    // Seen with pi 0.87.1. Sessions of OpenClaw have a separate test.
    row(
        "pi",
        Anthropic,
        &[
            (Sound, "u c1 r1 a u"),
            (Mended, "u c1 a u a; u c1; u c1,2 r1 a"),
            (Refused, "u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u r1 c1 a; u c1 a u r1 a"),
            (Refused, "u c1 r1 a u c1 r1 a"),
        ],
    ),
    row(
        "qwen-code",
        Gemini,
        &[(Mended, "u c1 a u a; u c1,2 r1 a; u a r1 u a"), (Refused, "u c1 r1 r1 a; u c1 u r1 a")],
    ),
    row(
        "crush",
        OpenAiChat,
        &[
            (Mended, "u c1 a u a; u a r1 u a; u c1,2 r1 a"),
            (Refused, "u c1 r1 r1 a"),
            // Later versions may move the result.
            (Unknown, "u c1 u r1 a"),
        ],
    ),
    row(
        "cline",
        Anthropic,
        &[(Mended, "u c1 u a; u c1,2 r1u a; u c1 r1,2 a"), (Refused, "u a r1u a; u c1 a u; u c1 r1,1 a")],
    ),
    row("roo-code", Anthropic, &[(Mended, "u c1; u c1,2 r1"), (Refused, "u c1 u a u; u a r1u a")]),
    row(
        "openhands",
        OpenAiChat,
        &[
            (Mended, "u c1 a u a; u c1,2 r1 a; u a r1 u a"),
            (Unknown, "u c1 r1 r1 a"),
            (Refused, "u c1 u r1 a"),
        ],
    ),
    row("openai-agents", OpenAiResponses, &[(Mended, "u c1 a u a; u c1 r1 r1 a"), (Refused, "u a r1 u a")]),
    row("xzatoma", OpenAiChat, &[(Mended, "u a r1 u a"), (Refused, "u c1 a u a; u c1 r1 r1 a")]),
    row("cody", OpenAiResponses, &[(Mended, "u c1 a u a; u a r1 u a"), (Refused, "u c1 r1 r1 a")]),
    // It removes until nothing is left that it objects to.
    row("agent-orchestration", OpenAiChat, &[(Mended, "u c1 a u a; u a r1 u a; u c1 a u r1 a")]),
    row("prometheus", OpenAiChat, &[(Refused, "r1 a u a; u c1")]),
    // Seen with 1.0.102.
    row(
        "copilot-cli",
        OpenAiChat,
        &[
            (Sound, "u c1 r1 a u"),
            (Mended, "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u c1,2 r1 a"),
            (Mended, "u r1 c1 a; u c1 a u r1 a; u c1 r1 a u c1 r1 a"),
        ],
    ),
    // Seen with 0.225.2.
    row(
        "droid",
        Anthropic,
        &[
            (Sound, "u c1 r1 a u"),
            (Mended, "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u c1,2 r1 a"),
            (Mended, "u c1 a u r1 a; u c1 r1 a u c1 r1 a"),
            (Refused, "u r1 c1 a"),
        ],
    ),
    // No verdict is given if the agent's versions differ, or about what its service refuses.
    row("kiro", Anthropic, &[(Mended, "u c1; u c1,2 r1"), (Unknown, "u c1 u a; u a r1 u a; u c1 a u")]),
    // Nothing is known of these.
    row("iflow", Anthropic, &[(Sound, "u c1 r1 a u"), (Unknown, "u c1 a u a")]),
    row("antigravity", OpenAiChat, &[(Unknown, "u c1 a u a")]),
];

#[test]
fn each_agent_mends_what_it_is_known_to_mend() {
    let mut wrong = Vec::new();
    for Row { format, dialect, cases } in ROWS {
        assert!(sessions::named(format).is_some(), "{format}");
        for (expected, sketches) in *cases {
            for sketch in sketches.split("; ") {
                let examined = ExaminedSession::of(&session(format, *dialect, None, sketch));
                if examined.health != *expected {
                    wrong.push(format!("{format}, {sketch}: {:?}, {:?}", examined.health, examined.answer));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_agent_of_which_something_is_known_is_tested() {
    let known = FORMATS.iter().filter(|format| {
        let is_told = |resend: &Resend| matches!(resend, Resend::Pairs { .. } | Resend::ByWriter(_));
        format.agent.as_ref().is_some_and(|agent| is_told(&agent.resend))
    });
    let known: BTreeSet<&str> = known.map(|format| format.name).collect();
    let tested: BTreeSet<&str> = ROWS.iter().map(|row| row.format).collect();
    let untested: Vec<&&str> = known.difference(&tested).collect();
    assert!(untested.is_empty(), "{untested:?}");
    for Row { format, cases, .. } in ROWS.iter().filter(|row| known.contains(row.format)) {
        let any = |wanted| cases.iter().any(|(health, _)| *health == wanted);
        // An agent that sends everything unchanged repairs nothing, and some agents repair every case in this table.
        let mends = any(Mended) || ["llm", "prometheus"].contains(format);
        let sends = any(Refused) || ["agent-orchestration", "copilot-cli", "kiro"].contains(format);
        assert!(mends && sends, "{format}");
    }
}

#[test]
fn the_model_tells_whom_the_request_goes_to() {
    let judged = |model| {
        let session = session("goose", OpenAiChat, Some(model), "u c1 u r1 a");
        check::resumed(&session).unwrap()
    };
    for (model, dialect, rule) in [
        ("claude-x", Anthropic, "ANT-03"),
        ("gemini-x", Gemini, "GEM-04"),
        ("gpt-x", OpenAiChat, "OAC-01"),
        ("anthropic/claude-x", OpenAiChat, "OAC-01"),
    ] {
        let judged = judged(model);
        assert_eq!(judged.dialect, dialect, "{model}");
        let rules: Vec<&str> = judged.refusals.iter().map(|refusal| refusal.violation.rule).collect();
        assert!(rules.contains(&rule), "{model}: {rules:?}");
    }
}

#[test]
fn copilot_tells_calls_with_one_id_apart_only_in_chat_completions() {
    let reused = |model| session("copilot-cli", OpenAiChat, Some(model), "u c1 r1 a u c1 r1 a");
    let health = |model| ExaminedSession::of(&reused(model)).health;
    assert_eq!([health("gpt-x"), health("claude-x")], [Mended, Refused]);
}

#[test]
fn other_damage_is_not_taken_for_mended() {
    let mut session = session("goose", OpenAiChat, None, "u c1 a u a");
    assert_eq!(ExaminedSession::of(&session).health, Mended);
    let call = ToolCall::new("call_9", "ls", "not JSON");
    session.messages.push(Arc::new(Message::assistant_with_tools(vec![call])));
    session.messages.push(Arc::new(Message::tool("call_9", "x")));
    assert_eq!(ExaminedSession::of(&session).health, Unknown);
}

#[test]
fn an_agent_that_refuses_to_open_a_session_sends_no_request() {
    let said = r#"{"timestamp":"2026-11-15T12:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}"#;
    let input = Input::new("rollout.jsonl", said.as_bytes()).unwrap();
    let session = sessions::read(&input, None).unwrap().remove(0);
    assert!(check::resumed(&session).is_none());
    let examined = ExaminedSession::of(&session);
    assert_eq!((examined.health, examined.dialect, examined.answer), (Health::CannotBeOpened, None, None));
    assert_eq!(check::history(&session, Some(OpenAiResponses)).judged.unwrap().sender, Sender::Rejoin);
}

/// A session of pi's format with an answer that was aborted after its call, the call's result, and this line in it.
fn with_an_aborted_answer(line: &str) -> Session {
    let lines = [
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/w"}"#,
        line,
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"hello there"}}"#,
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"ls","arguments":{}}],"api":"anthropic-messages","stopReason":"aborted"}}"#,
        r#"{"type":"message","id":"3","parentId":"2","message":{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":"files"}}"#,
        r#"{"type":"message","id":"4","parentId":"3","message":{"role":"user","content":"and now"}}"#,
    ];
    let input = Input::new("s.jsonl", lines.join("\n").as_bytes()).unwrap();
    sessions::read(&input, sessions::named("pi")).unwrap().remove(0)
}

#[test]
fn results_of_an_aborted_answer_are_sent_by_pi_and_left_out_by_openclaw() {
    for (line, expected, answer) in [
        ("", Refused, "pi"),
        (
            r#"{"type":"custom","id":"0","parentId":null,"customType":"an-extension","data":{}}"#,
            Refused,
            "pi",
        ),
        (
            r#"{"type":"custom","id":"0","parentId":null,"customType":"model-snapshot","data":{}}"#,
            Mended,
            "OpenClaw",
        ),
        (
            r#"{"type":"custom","id":"0","parentId":null,"customType":"openclaw:prompt-error","data":{}}"#,
            Mended,
            "OpenClaw",
        ),
        (
            r#"{"type":"message","id":"0","parentId":null,"message":{"role":"assistant","provider":"openclaw","model":"delivery-mirror","content":[{"type":"text","text":"sent"}]}}"#,
            Mended,
            "OpenClaw",
        ),
    ] {
        let session = with_an_aborted_answer(line);
        assert_eq!(ExaminedSession::of(&session).health, expected, "{line}");
        assert_eq!(check::resumed(&session).unwrap().sender, Sender::Agent(answer), "{line}");
    }
}

#[test]
fn openclaw_mends_what_pi_sends() {
    let mark = Text::new(r#"{"type":"custom","customType":"model-snapshot"}"#);
    let place = SourcePlace { index: 0, offset: 0, line: None };
    for (expected, sketches) in [
        (Sound, "u c1 r1 a u"),
        (Mended, "u c1 a u a; u c1; u a r1 u a; u c1 r1 r1 a; u c1 u r1 a; u r1 c1 a; u c1 a u r1 a"),
    ] {
        for sketch in sketches.split("; ") {
            let mut session = session("pi", Anthropic, None, sketch);
            session.set_aside.push(SetAside { place, after: 0, what: Aside::Raw(mark.clone()) });
            assert_eq!(ExaminedSession::of(&session).health, expected, "{sketch}");
        }
    }
}
