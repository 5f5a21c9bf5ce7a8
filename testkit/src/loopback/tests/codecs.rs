//! The codecs with the server: a model's answer is decoded, recorded, encoded again, and must be accepted.

use rejoin_formats::{Context, Dialect, Target};
use rejoin_record::Message;
use rejoin_view::{History, OnBroken, repair};
use serde_json::Value;

use super::{super::Service, ask, first, server};

/// Everything but the messages of an ordinary request.
fn context(dialect: Dialect, service: Service, api: &str) -> Context {
    let mut context = Context { dialect: Some(dialect), whole_body: true, ..Context::default() };
    let body = first(service, api, "", false);
    for (name, value) in body.as_object().unwrap() {
        let of_another_place = service == Service::Gemini && name == "stream";
        if !["messages", "input", "contents"].contains(&name.as_str()) && !of_another_place {
            context.put(name, &value.to_string());
        }
    }
    // A codec alone need not know what was sent before, and may leave thinking out; the server must then not require it.
    if dialect == Dialect::Anthropic {
        context.put("thinking", r#"{"type":"adaptive"}"#);
    }
    context.before_messages = context.fields.len();
    context
}

/// A conversation of many turns with calls and reasoning, through the codec of each dialect.
#[test]
fn what_a_model_said_is_sent_back_as_it_was() {
    for (service, api, dialect) in [
        (Service::OpenAi, "chat", Dialect::OpenAiChat),
        (Service::OpenAi, "responses", Dialect::OpenAiResponses),
        (Service::Anthropic, "", Dialect::Anthropic),
        (Service::Gemini, "", Dialect::Gemini),
        (Service::Ollama, "", Dialect::Ollama),
        (Service::Mistral, "", Dialect::Mistral),
        (Service::OpenRouter, "", Dialect::OpenAiChat),
        (Service::DeepSeek, "", Dialect::OpenAiChat),
    ] {
        let server = server();
        let context = context(dialect, service, api);
        let mut messages = vec![Message::user("tools:3 steps:2 think")];
        for turn in 0..12 {
            let history: History = messages.iter().cloned().collect();
            let view = repair(&history, OnBroken::Keep).view;
            let encoded = dialect.wire().encode(&view, &Target::of(&context)).unwrap();
            let body: Value = serde_json::from_str(&encoded.body).unwrap();
            let got = ask(&server, service, api, &body);
            assert_eq!(got.status, 200, "{service} {api} {turn}: {}\n{}", got.text(), encoded.body);
            let said = dialect.wire().decode(&got.body).message.unwrap();
            let ids: Vec<String> = said.tool_calls().map(|call| call.id.as_str().to_owned()).collect();
            messages.push(said);
            for id in &ids {
                messages.push(Message::tool(id.as_str(), "42"));
            }
            if ids.is_empty() {
                messages.push(Message::user(format!("tools:3 steps:2 think after turn {turn}")));
            }
        }
        assert_eq!(server.violations(), [], "{service} {api}");
        // It is no feat to be accepted by leaving everything out.
        let sent = String::from_utf8_lossy(&server.requests().last().unwrap().body).into_owned();
        let carried = match (service, api) {
            (Service::Anthropic, _) => "thinking\",",
            (_, "responses") => "\"encrypted_content\":",
            (Service::Gemini, _) => "\"thoughtSignature\":",
            (Service::OpenRouter, _) => "\"reasoning_details\":",
            (Service::DeepSeek, _) => "\"reasoning_content\":",
            _ => "\"calculate\"",
        };
        let least = if service == Service::Anthropic { 1 } else { 4 };
        assert!(sent.matches(carried).count() >= least, "{service} {api}: {sent}");
    }
}
