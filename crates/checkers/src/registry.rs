//! The checkers, by dialect.

use serde_json::Value;

use crate::{
    Violation, anthropic::Anthropic, bedrock::Bedrock, check, gemini::Gemini, mistral::Mistral,
    ollama::Ollama, openai_chat::OpenAiChat, openai_responses::OpenAiResponses,
};

/// How complete a body must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// A whole request, to be sent byte for byte.
    #[default]
    Request,
    /// A request in which the settings that only the caller can choose (`model`, `max_tokens`) may be missing.
    Draft,
    /// The messages alone; settings are not judged.
    Messages,
}

/// A provider's verdict on a request body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The reasons for a refusal, in the order of the document.
    pub violations: Vec<Violation>,
    /// Points that some models of the provider, or some servers of the dialect, would refuse.
    pub notes: Vec<Violation>,
}

impl Verdict {
    /// Whether the provider would accept the body.
    pub fn accepts(&self) -> bool {
        self.violations.is_empty()
    }
}

/// The strict checker of one dialect.
#[derive(Debug)]
pub struct Checker {
    /// The name of the dialect, such as `openai-chat`.
    pub dialect: &'static str,
    /// The provider's name, for messages to people.
    pub provider: &'static str,
    /// The field of a request that holds its messages.
    pub list: &'static str,
    pub(crate) judge: fn(&[u8], Extent) -> Verdict,
    judge_list: fn(&str, Vec<Value>, usize) -> Verdict,
}

/// Every checker.
pub const CHECKERS: &[Checker] = &[
    checker::<OpenAiChat>("openai-chat", "OpenAI", "messages"),
    checker::<OpenAiResponses>("openai-responses", "OpenAI", "input"),
    checker::<Anthropic>("anthropic", "Anthropic", "messages"),
    checker::<Gemini>("gemini", "Google", "contents"),
    checker::<Ollama>("ollama", "Ollama", "messages"),
    checker::<Mistral>("mistral", "Mistral", "messages"),
    checker::<Bedrock>("bedrock", "AWS Bedrock", "messages"),
];

const fn checker<D: check::Dialect>(
    dialect: &'static str,
    provider: &'static str,
    list: &'static str,
) -> Checker {
    Checker { dialect, provider, list, judge: check::judge::<D>, judge_list: check::judge_list::<D> }
}

/// The checker of the dialect with this name.
pub fn named(dialect: &str) -> Option<&'static Checker> {
    CHECKERS.iter().find(|checker| checker.dialect == dialect)
}

impl Checker {
    /// Judges bytes exactly as they would be sent. A bare JSON array is judged as the list of messages, without settings.
    #[must_use]
    pub fn check(&self, body: &[u8]) -> Verdict {
        if is_list(body) { self.check_list(body) } else { (self.judge)(body, Extent::Request) }
    }

    /// Judges a request in which `model` and `max_tokens` may be missing.
    #[must_use]
    pub fn check_draft(&self, body: &[u8]) -> Verdict {
        if is_list(body) { self.check_list(body) } else { (self.judge)(body, Extent::Draft) }
    }

    /// Judges a list of messages that was already parsed, in a request of this many bytes.
    #[must_use]
    pub fn check_messages(&self, messages: Vec<Value>, bytes: usize) -> Verdict {
        (self.judge_list)(self.list, messages, bytes)
    }

    fn check_list(&self, list: &[u8]) -> Verdict {
        let mut body = format!("{{\"{}\":", self.list).into_bytes();
        body.extend_from_slice(list);
        body.push(b'}');
        (self.judge)(&body, Extent::Messages)
    }
}

fn is_list(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"[")
}
