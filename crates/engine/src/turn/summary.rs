//! The request that asks a model for a summary.

use std::sync::Arc;

use rejoin_formats::{Context, wire::stream::Usage};
use rejoin_record::{Message, Role};
use rejoin_view::{History, OnBroken, TokenCounter, repair, window};

use super::Stop;
use crate::provider::{Provider, ProviderError, Request, draft_for};

/// The prompt. `{tokens}` is replaced by the longest summary that is allowed.
const PROMPT: &str = include_str!("summary.txt");

/// The text that replaces an empty summary.
pub const UNAVAILABLE: &str = "(summary unavailable)";

/// What other agents write in the place of an empty summary. A model that has read it may repeat it.
const UNAVAILABLE_ELSEWHERE: &str = "(no summary available)";

/// How often a summary is asked for again with less of the conversation, because it did not fit.
const ATTEMPTS: u32 = 6;

/// A summary and the tokens that were used to write it.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) usage: Usage,
    /// How many messages were left out because they did not fit.
    pub(super) trimmed: usize,
}

/// A request for a summary.
pub(super) struct SummaryRequest<'a> {
    pub(super) provider: &'a dyn Provider,
    /// Instructions and tools, the same as in every request, so that the provider has most of it in its cache.
    pub(super) context: &'a Arc<Context>,
    pub(super) counter: &'a TokenCounter,
    /// The window, without instructions and tools; none if it is not known.
    pub(super) window: Option<u64>,
    /// The longest summary, in tokens.
    pub(super) longest: u64,
    pub(super) stop: &'a Stop,
}

impl SummaryRequest<'_> {
    /// Asks for a summary of messages. They are sent as they are if they fit, and piece by piece as a transcript if they do not.
    ///
    /// # Errors
    /// If the provider does not answer.
    pub(super) async fn of(
        &self,
        messages: &[Arc<Message>],
        focus: Option<&str>,
    ) -> Result<Summary, ProviderError> {
        let mut prompt = PROMPT.replace("{tokens}", &self.longest.to_string());
        if let Some(focus) = focus {
            prompt.push_str(&format!("Keep in any case: {focus}\n"));
        }
        let room = self
            .window
            .map(|window| window.saturating_sub(self.counter.text(&prompt)).saturating_sub(self.longest));
        let tokens: u64 = messages.iter().map(|message| self.counter.message(message)).sum();
        let mut summary = Summary::default();
        // The counter may be slightly off.
        let fits = room.is_none_or(|room| tokens.saturating_mul(21) / 20 <= room);
        let refused = match fits {
            true => match self.ask(messages, &prompt, &mut summary).await {
                Err(error @ ProviderError::ContextLength(_)) => Some(error),
                Err(error) => return Err(error),
                Ok(()) => None,
            },
            false => None,
        };
        match refused {
            None if fits => {}
            // The count was too low: the provider says that it does not fit.
            Some(error) => self.with_less(messages, &prompt, &mut summary, error).await?,
            None => self.in_pieces(messages, &prompt, room.unwrap_or(0), &mut summary).await?,
        }
        let text = summary.text.trim();
        summary.text = match text {
            "" | UNAVAILABLE_ELSEWHERE => UNAVAILABLE.to_owned(),
            text => window::middle_left_out(text, self.longest.saturating_mul(2), self.counter),
        };
        Ok(summary)
    }

    /// Leaves out the oldest messages, more of them each time, until the provider accepts the rest.
    async fn with_less(
        &self,
        messages: &[Arc<Message>],
        prompt: &str,
        summary: &mut Summary,
        mut error: ProviderError,
    ) -> Result<(), ProviderError> {
        let instructions = messages
            .iter()
            .take_while(|message| matches!(message.role, Role::System | Role::Developer))
            .count();
        let (first, rest) = messages.split_at(instructions);
        let mut trimmed = 1;
        for _ in 0..ATTEMPTS {
            if trimmed >= rest.len() {
                break;
            }
            let fewer: Vec<Arc<Message>> = first.iter().chain(&rest[trimmed..]).cloned().collect();
            match self.ask(&fewer, prompt, summary).await {
                Err(again @ ProviderError::ContextLength(_)) => error = again,
                Err(other) => return Err(other),
                Ok(()) => {
                    summary.trimmed = trimmed;
                    return Ok(());
                }
            }
            trimmed = (trimmed * 2).max(rest.len() / 4);
        }
        Err(error)
    }

    /// Reads a long conversation as a transcript, a piece at a time. Each summary goes into the request for the next.
    async fn in_pieces(
        &self,
        messages: &[Arc<Message>],
        prompt: &str,
        room: u64,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        // The summary so far takes part of each request, and a counter may be wrong.
        let room = room.saturating_sub(self.longest.saturating_mul(2)) * 9 / 10;
        let told = window::transcript(messages, room / 4, self.counter);
        let mut piece: Vec<String> = Vec::new();
        let mut tokens = 0;
        for text in told {
            let size = self.counter.text(&text);
            if !piece.is_empty() && tokens + size > room {
                self.ask_about(&piece, prompt, summary).await?;
                piece.clear();
                tokens = 0;
            }
            tokens += size;
            piece.push(text);
        }
        if piece.is_empty() { Ok(()) } else { self.ask_about(&piece, prompt, summary).await }
    }

    async fn ask_about(
        &self,
        piece: &[String],
        prompt: &str,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        let before = match summary.text.is_empty() {
            true => String::new(),
            false => format!("A summary of what came before:\n\n{}\n\n", summary.text),
        };
        let text = format!("{before}A part of a conversation:\n\n{}\n", piece.join("\n\n"));
        self.ask(&[Arc::new(Message::user(text))], prompt, summary).await
    }

    /// Sends one request. The prompt is the last message, after everything that it is about.
    async fn ask(
        &self,
        messages: &[Arc<Message>],
        prompt: &str,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        let all = messages.iter().cloned().chain([Arc::new(Message::user(prompt))]);
        let view = repair(&History::of(all), OnBroken::Keep).view;
        let endpoint = self.provider.endpoint();
        let body = match endpoint.dialect {
            None => None,
            Some(dialect) => Some(draft_for(self.provider, dialect, self.context).request(&view)?.body),
        };
        let request = Request { view, context: Arc::clone(self.context), body, stop: self.stop.clone() };
        let received = self.provider.send(&request, &mut |_| {}).await?;
        if let Some(usage) = received.usage {
            summary.usage.add(&usage);
        }
        ProviderError::unless_complete(received.end, &endpoint.provider)?;
        summary.text = received.message.and_then(|message| message.content()).unwrap_or_default();
        Ok(())
    }
}
