//! The way back: what was received goes out again, byte for byte, in the next request of the same dialect.

use rejoin_formats::{Context, Dialect, Target};
use rejoin_record::Message;
use rejoin_view::{Finding, History, OnBroken, repair};

use crate::{STREAMS, native, received};

/// The request after an answer and its results, and what was noted.
fn next_request(dialect: Dialect, message: &Message, model: &str) -> (String, Vec<Finding>) {
    let mut history = vec![Message::user("look"), message.clone()];
    history.extend(message.tool_calls().map(|call| Message::tool(call.id.clone(), "fn main() {}")));
    let view = repair(&history.into_iter().collect::<History>(), OnBroken::Keep).view;
    let mut context = Context { dialect: Some(dialect), whole_body: true, ..Context::default() };
    if dialect == Dialect::Anthropic {
        context.put("max_tokens", "4000");
        context.put("thinking", r#"{"type":"enabled","budget_tokens":1024}"#);
    }
    let target = Target { model: Some(model.into()), ..Target::of(&context) };
    let encoded = dialect.wire().encode(&view, &target).unwrap();
    assert_eq!(testkit::refusals(dialect, encoded.body.as_bytes()), [], "{}", encoded.body);
    (encoded.body, encoded.findings)
}

/// ANT-19, RSP-06, GEM-11, OR-01: reasoning with its signature goes back with everything else.
#[test]
fn an_answer_goes_back_byte_for_byte() {
    for (dialect, bytes) in STREAMS {
        let got = received(*dialect, bytes);
        let message = got.message.unwrap();
        let (body, findings) = next_request(*dialect, &message, got.model.as_deref().unwrap());
        match dialect {
            // Their requests are always written from scratch; the calls are the same.
            Dialect::Mistral | Dialect::Ollama => {
                assert!(body.contains("read") && body.contains("ook"), "{body}");
            }
            _ => {
                assert!(body.contains(native(&message)), "{dialect}\n{body}\n{}", native(&message));
                // What the test itself says has no item.
                assert!(
                    findings.iter().all(|finding| finding.at.message != Some(1)),
                    "{dialect} {findings:?}"
                );
            }
        }
    }
}

/// ANT-20: to another model it goes without what was sealed for this one.
#[test]
fn another_model_gets_no_signature() {
    for (number, secret) in [(1, "c2lnbmVk"), (3, "gAAAAwhole"), (4, "EqQBCg==")] {
        let (dialect, bytes) = STREAMS[number];
        let message = received(dialect, bytes).message.unwrap();
        let (body, findings) = next_request(dialect, &message, "another");
        assert!(!body.contains(secret), "{dialect}\n{body}");
        assert!(findings.iter().any(|finding| finding.rule.name() == "foreign-reasoning"), "{dialect}");
    }
}

/// An answer that was cut off is sent back: its text is kept, and its sealed reasoning is left out.
#[test]
fn a_cut_answer_goes_on() {
    for (number, at, said) in
        [(3, "logprobs\":[]}\n\nevent: response.output_text.done", "I look"), (4, "at two", "I look ")]
    {
        let (dialect, bytes) = STREAMS[number];
        let message = received(dialect, &bytes[..bytes.find(at).unwrap()]).message.unwrap();
        let (body, _) = next_request(dialect, &message, "claude-z");
        assert!(body.contains(said) && !body.contains("EqQBCg") && !body.contains("gAAAA"), "{body}");
    }
}
