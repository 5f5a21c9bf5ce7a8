//! The checkers, by dialect.

use crate::{
    Violation, anthropic::Anthropic, bedrock::Bedrock, check, gemini::Gemini, mistral::Mistral,
    ollama::Ollama, openai_chat::OpenAiChat, openai_responses::OpenAiResponses,
};

/// How much of a request a body is taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// All of it: these bytes are to be sent as they are.
    #[default]
    Request,
    /// All but the settings that only the caller can choose (`model`, `max_tokens`), which may still be missing.
    Draft,
    /// The messages alone: nothing around them is judged, and nothing that is missing there.
    Messages,
}

/// What a provider would say to a request body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it would be refused, in the order of the document.
    pub violations: Vec<Violation>,
    /// What this provider, or some servers of this dialect, may refuse, depending on the model or the server.
    pub notes: Vec<Violation>,
}

impl Verdict {
    /// Whether the provider would accept the body.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.violations.is_empty()
    }
}

/// The strict checker of one dialect.
#[derive(Debug)]
pub struct Checker {
    /// The name of the dialect, such as `openai-chat`.
    pub dialect: &'static str,
    /// Who answers requests in this dialect, for messages to people.
    pub provider: &'static str,
    /// The field of a request that holds its messages.
    pub list: &'static str,
    pub(crate) judge: fn(&[u8], Scope) -> Verdict,
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
    Checker { dialect, provider, list, judge: check::judge::<D> }
}

/// The checker of the dialect with this name.
#[must_use]
pub fn named(dialect: &str) -> Option<&'static Checker> {
    CHECKERS.iter().find(|checker| checker.dialect == dialect)
}

impl Checker {
    /// Judges bytes as they would be sent. A bare JSON array is taken for the list of messages, and nothing else is
    /// asked of it.
    #[must_use]
    pub fn check(&self, body: &[u8]) -> Verdict {
        if is_list(body) { self.check_list(body) } else { (self.judge)(body, Scope::Request) }
    }

    /// Judges a request whose `model` and `max_tokens` may still be missing.
    #[must_use]
    pub fn check_draft(&self, body: &[u8]) -> Verdict {
        if is_list(body) { self.check_list(body) } else { (self.judge)(body, Scope::Draft) }
    }

    fn check_list(&self, list: &[u8]) -> Verdict {
        let mut body = format!("{{\"{}\":", self.list).into_bytes();
        body.extend_from_slice(list);
        body.push(b'}');
        (self.judge)(&body, Scope::Messages)
    }
}

fn is_list(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"[")
}
