//! Sources in the shape of Chat Completions or Anthropic, and what they become.

use rejoin_formats::{Converted, Dialect, Input, Session, Target, convert, sessions};
use rejoin_view::{Finding, History, OnBroken, repair};
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

/// An assistant message of Anthropic with calls: id, tool.
pub fn uses(calls: &[(&str, &str)]) -> Value {
    let list: Vec<Value> =
        calls.iter().map(|(id, name)| json!({"type":"tool_use","id":id,"name":name,"input":{}})).collect();
    json!({"role":"assistant","content":list})
}

/// A picture in the form of Anthropic.
pub fn picture(media_type: Option<&str>, data: &str) -> Value {
    json!({"type":"image","source":{"type":"base64","media_type":media_type,"data":data}})
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

/// Reads a body; without a format, the reader recognises it.
pub fn read(body: &str, from: Option<&str>) -> Session {
    let input = Input::new("body", body.as_bytes()).unwrap();
    sessions::read(&input, from.and_then(sessions::named)).unwrap().remove(0)
}

/// Converts a body whose format the reader recognises, for tests about exact bytes.
pub fn exactly(body: &str, to: Dialect) -> Converted {
    convert(&read(body, None), to, None, OnBroken::Keep).unwrap()
}

/// Converts a source of a format.
pub fn converted(source: &Value, from: &str, to: Dialect, on_broken: OnBroken) -> Out {
    let session = read(&source.to_string(), Some(from));
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

/// The body that a history becomes.
pub fn encoded(history: &History, target: &Target, to: Dialect) -> Value {
    let body = to.wire().encode(&repair(history, OnBroken::Keep).view, target).unwrap().body;
    serde_json::from_str(&body).unwrap()
}

/// Texts as they are, but short for a result that is missing and for a result whose call is.
pub fn short(text: &str) -> String {
    text.replace(rejoin_view::sound::NO_RESULT, "NONE")
        .replace(", whose call is not in this conversation]\n", ", LOST] ")
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
