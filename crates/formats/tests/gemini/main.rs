//! Gemini: reading its bodies, writing them, and what of a signature may be sent again.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod dialects;
mod generator;
mod laws;
mod reading;
mod rules;
mod signatures;
mod states;

use std::sync::Arc;

use proptest::prelude::*;
use rejoin_formats::{Converted, Dialect, Input, Session, Target, convert, sessions};
use rejoin_record::{BlockKind, Message, Role, Timestamp};
use rejoin_view::{Finding, OnBroken, Repairer, Rule, repair};
use serde_json::{Value, json};
use testkit::{bodies, scan};

const SENTINEL: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";
const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

fn read(text: &str, format: &str) -> Session {
    try_read(text, format).unwrap()
}

/// The session in a text; a list may hold nothing but junk.
fn try_read(text: &str, format: &str) -> Option<Session> {
    let input = Input::new("body.json", text.as_bytes()).unwrap();
    sessions::read(&input, sessions::registry::named(format)).ok()?.pop()
}

fn converted(body: &Value, from: &str, to: Dialect, model: Option<&str>) -> Converted {
    let out = convert(&read(&body.to_string(), from), to, model, OnBroken::Keep).unwrap();
    assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{}", out.body);
    if to == Dialect::Gemini {
        assert_eq!(rules::problems(&scan::parse(&out.body)), [] as [String; 0], "{}", out.body);
    }
    out
}

fn from_openai(body: &Value) -> Value {
    serde_json::from_str(&converted(body, "openai-chat", Dialect::Gemini, None).body).unwrap()
}

fn from_anthropic(body: &Value) -> Value {
    serde_json::from_str(&converted(body, "anthropic", Dialect::Gemini, None).body).unwrap()
}

/// The same dialect in and out: the body, and the names of the rules that were found.
fn mended(body: &Value) -> (Value, Vec<&'static str>) {
    let out = converted(body, "gemini", Dialect::Gemini, None);
    let rules = out.findings.iter().map(|finding| finding.rule.name()).collect();
    (serde_json::from_str(&out.body).unwrap(), rules)
}

fn user(text: &str) -> Value {
    json!({"role":"user","parts":[{"text":text}]})
}

fn says(text: &str) -> Value {
    json!({"role":"model","parts":[{"text":text}]})
}

fn calls(name: &str) -> Value {
    json!({"role":"model","parts":[{"functionCall":{"name":name,"args":{}},"thoughtSignature":"c2ln"}]})
}

fn result(name: &str, text: &str) -> Value {
    json!({"role":"user","parts":[{"functionResponse":{"name":name,"response":{"output":text}}}]})
}

/// A conversation with everything that the API takes, in spellings that no JSON library writes.
const RICH: &str = r#"{"system_instruction":{"role":"system","parts":[{"text":"be brief"}]},"contents":[{"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"fileData":{"mimeType":"application/pdf","fileUri":"gs://a/b.pdf"}}]},{ "role" : "model", "parts" : [{"text":"hm","thought":true},{"text":"","thoughtSignature":"c2ln"},{"functionCall":{"name":"a.b:c","args":{"n": 1e400,"n":2}},"thoughtSignature":"c2lnMg=="},{"functionCall":{"id":"x1","name":"b"}}]},{"parts":[{"functionResponse":{"name":"a.b:c","response":{"output":"one"}}},{"functionResponse":{"id":"x1","name":"b","response":{"code": 1.50,"lines":["a"]},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}],"role":"user"},{"role":"user","parts":[{"text":"and \ud83d\ude00?"}]},{"role":"model","parts":[{"executable_code":{"language":"PYTHON","code":"1+1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}},{"text":"2","thought_signature":"c2lnMw=="}]},{"role":"user","parts":[{"text":" "},{"text":null,"inline_data":{"mime_type":"audio/mp3","data":"AAAA"}}]}],"tools":[{"functionDeclarations":[{"name":"a.b:c","parameters":{"type":"OBJECT"}},{"name":"b"}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"generationConfig":{"temperature":0.50},"safetySettings":[]}"#;
