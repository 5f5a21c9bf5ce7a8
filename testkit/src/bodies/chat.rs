//! Shared by bodies of the two chat shapes, OpenAI Chat and Anthropic Messages, because programs mix them up.

use proptest::prelude::*;

use super::{
    Shape,
    anthropic::Block,
    media,
    plan::{self, Args, Call, Dress, IDS, dress},
    writer::{Writer, quoted},
};

#[derive(Debug, Clone)]
pub enum Part {
    Text(Dress),
    Image(bool),
    /// Sound or damaged, in the shape's own spelling.
    Media(usize),
    Refusal(Dress),
    Odd(usize),
}

pub fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        8 => dress().prop_map(Part::Text), 1 => any::<bool>().prop_map(Part::Image), 3 => (0..media::count()).prop_map(Part::Media), 1 => dress().prop_map(Part::Refusal),
        1 => (0..4usize).prop_map(Part::Odd)
    ]
}

pub type Content = plan::Content<Part>;

pub fn content() -> impl Strategy<Value = Content> {
    plan::content(part())
}

#[derive(Debug, Clone)]
pub enum Message {
    Speaker(&'static str, Content),
    Assistant {
        content: Content,
        calls: Vec<Call>,
        reasoning: Option<usize>,
        calls_field: usize,
    },
    Tool(Option<usize>, Content),
    LegacyCall(Args),
    LegacyResult(Content),
    Blocks(&'static str, Vec<Block>, bool),
    Junk(usize),
    /// A user, a batch of calls, and all of its results: the usual content of a real conversation.
    Turn(Vec<Call>, Vec<Content>, bool),
}

pub const JUNK: &[&str] =
    &["null", "5", "[]", "{}", "\"%\"", "{\"content\":\"%\"}", "{\"role\":7,\"content\":\"%\"}"];

impl Writer {
    pub fn message(&mut self, message: &Message) -> Vec<String> {
        match message {
            Message::Speaker(role, content) => vec![self.speaker(role, content)],
            Message::Assistant { content, calls, reasoning, calls_field } => {
                let content = self
                    .content(content, 'a')
                    .map_or_else(String::new, |content| format!(",\"content\":{content}"));
                let list: Vec<String> = calls.iter().map(|call| self.call(call)).collect();
                let calls = match (calls_field, list.is_empty()) {
                    (0, true) => String::new(),
                    (1, true) => ",\"tool_calls\":null".into(),
                    (_, true) => ",\"tool_calls\":[]".into(),
                    (_, false) => format!(",\"tool_calls\":[{}]", list.join(",")),
                };
                let reasoning = match reasoning {
                    None => "",
                    Some(0) => ",\"reasoning_content\":\"hm\"",
                    Some(1) => ",\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"x\"}]",
                    Some(_) => ",\"refusal\":null",
                };
                vec![format!("{{\"role\":\"assistant\"{content}{calls}{reasoning}}}")]
            }
            Message::Tool(id, content) => vec![self.tool(*id, content)],
            Message::LegacyCall(args) => {
                let text = quoted(&self.arguments(args, None).unwrap_or_default());
                vec![format!(
                    "{{\"role\":\"assistant\",\"content\":null,\"function_call\":{{\"name\":\"read\",\"arguments\":{text}}}}}"
                )]
            }
            Message::LegacyResult(content) => {
                let content = self.content(content, 'r').unwrap_or_else(|| "null".into());
                vec![format!("{{\"role\":\"function\",\"name\":\"read\",\"content\":{content}}}")]
            }
            Message::Blocks(role, blocks, extra) => {
                let list: Vec<String> = blocks.iter().map(|block| self.block(block, role)).collect();
                let extra = if *extra { ",\"ts\":1700000000" } else { "" };
                vec![format!("{{\"role\":\"{role}\",\"content\":[{}]{extra}}}", list.join(","))]
            }
            Message::Junk(index) => vec![self.junk(JUNK[*index])],
            Message::Turn(calls, results, text) => self.turn(calls, results, *text),
        }
    }

    /// Something that is hardly a message, with words in it.
    pub fn junk(&mut self, pattern: &str) -> String {
        if !pattern.contains('%') {
            return pattern.into();
        }
        let said = self.said(Dress::Plain, 'u');
        pattern.replace('%', &said)
    }

    pub fn speaker(&mut self, role: &str, content: &Content) -> String {
        let letter = match role {
            "assistant" => 'a',
            "system" | "developer" => 's',
            _ => 'u',
        };
        match self.content(content, letter) {
            Some(content) => format!("{{\"role\":\"{role}\", \"content\":{content}}}"),
            None => format!("{{\"role\":\"{role}\",\"name\":\"x\"}}"),
        }
    }

    pub fn content(&mut self, content: &Content, letter: char) -> Option<String> {
        Some(match content {
            Content::Text(dress) => format!("\"{}\"", self.note(*dress, letter)),
            Content::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.part(part, letter)).collect();
                format!("[{}]", parts.join(", "))
            }
            Content::Null => "null".into(),
            Content::Absent => return None,
        })
    }

    pub fn part(&mut self, part: &Part, letter: char) -> String {
        match part {
            Part::Text(dress) => format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.note(*dress, letter)),
            Part::Refusal(dress) if self.shape == Shape::OpenAi => {
                format!("{{\"type\":\"refusal\",\"refusal\":\"{}\"}}", self.note(*dress, letter))
            }
            Part::Refusal(dress) => format!("\"{}\"", self.note(*dress, letter)),
            Part::Image(true) if self.shape == Shape::OpenAi => {
                "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}}".into()
            }
            Part::Image(true) => {
                "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}".into()
            }
            Part::Image(false) => {
                "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"\"}}".into()
            }
            Part::Media(index) => media::parts(self.shape)[*index].clone(),
            Part::Odd(0) => "{\"type\":\"future_block\",\"x\":[1,2]}".into(),
            Part::Odd(1) => "7".into(),
            Part::Odd(2) => "{\"type\":\"text\"}".into(),
            Part::Odd(_) => format!("{{\"type\":\"input_text\",\"text\":\"{}\"}}", self.note(Dress::Plain, letter)),
        }
    }

    fn call(&mut self, call: &Call) -> String {
        if self.shape == Shape::OpenAi { self.tool_call(call) } else { self.tool_use(call) }
    }

    pub fn tool(&mut self, id: Option<usize>, content: &Content) -> String {
        let before = self.truth.results.len();
        let content =
            self.content(content, 'r').map_or_else(String::new, |content| format!(",\"content\":{content}"));
        self.answered(before, id.map(|id| IDS[id]));
        let id = id.map_or_else(String::new, |id| format!(",\"tool_call_id\":\"{}\"", IDS[id]));
        format!("{{\"role\":\"tool\"{id}{content}}}")
    }

    fn turn(&mut self, calls: &[Call], results: &[Content], text: bool) -> Vec<String> {
        let mut messages = vec![self.speaker("user", &Content::Text(Dress::Plain))];
        self.message += 1;
        if self.shape == Shape::OpenAi {
            messages.extend(self.openai_batch(calls, results, text));
        } else {
            messages.extend(self.anthropic_batch(calls, results, text));
        }
        messages
    }

    /// The next messages: a user, then an assistant that calls tools, or only writes text.
    pub fn chat_continuation(&mut self, calls: &[Call]) -> Vec<String> {
        let plain = Content::Text(Dress::Plain);
        if calls.is_empty() {
            return vec![self.speaker("user", &plain), self.speaker("assistant", &plain)];
        }
        let first = self.speaker("user", &plain);
        let batch = self.turn(calls, &vec![plain; calls.len()], false).into_iter().skip(1);
        std::iter::once(first).chain(batch).collect()
    }
}
