//! The request that asks a model for a summary.

use std::sync::Arc;

use rejoin_formats::{Context, wire::stream::Usage};
use rejoin_record::{Message, Role, content::TokenUsage};
use rejoin_view::{History, OnBroken, TokenCounter, repair, window};

use super::{Event, Sink, Stop};
use crate::provider::{Provider, ProviderError, ProviderFault, Request, draft_for};

/// The prompt. `{tokens}` is replaced by the length limit of the summary.
const PROMPT: &str = include_str!("summary.txt");

/// The text that replaces an empty summary.
pub const UNAVAILABLE: &str = "(summary unavailable)";

/// The text that other agents use for an empty summary. A model that has read it may repeat it.
const UNAVAILABLE_ELSEWHERE: &str = "(no summary available)";

/// The fewest tokens of a conversation that are worth a separate request.
const SHORTEST_PIECE: u64 = 256;

/// The most pieces into which a conversation is split, with one request each.
const MOST_PIECES: usize = 16;

/// The fewest tokens to which a message in a piece is shortened.
const SHORTEST_MESSAGE: u64 = 32;

/// How often a summary that did not fit is requested again with less of the conversation.
const ATTEMPTS: u32 = 6;

/// A summary and its cost in tokens, which is known even if the summary failed.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    pub(super) text: String,
    /// The tokens that the provider reported; `None` if it reported none.
    pub(super) usage: Option<Usage>,
    /// The number of requests that were answered.
    pub(super) requests: u64,
    /// Whether the model wrote nothing usable, so that a placeholder replaces the summary.
    pub(super) is_unavailable: bool,
    /// The number of messages that were left out because they did not fit.
    pub(super) trimmed: usize,
}

/// A request for a summary.
pub(super) struct SummaryRequest<'a> {
    pub(super) provider: &'a dyn Provider,
    /// The instructions and tools of every request of the conversation, so that the provider finds most of this one in its cache.
    pub(super) context: &'a Arc<Context>,
    pub(super) counter: &'a TokenCounter,
    /// The summary of earlier messages, if it is one of the messages to summarise.
    pub(super) earlier: Option<Arc<Message>>,
    /// The window of the model that writes the summary; `None` if it is not known.
    pub(super) window: Option<u64>,
    /// The tokens of instructions and tools.
    pub(super) context_tokens: u64,
    /// The longest summary, in tokens.
    pub(super) longest: u64,
    pub(super) stop: &'a Stop,
}

impl SummaryRequest<'_> {
    /// Estimates the tokens that a summary will cost. `tokens` are those of the messages.
    pub(super) fn expected(&self, tokens: u64) -> TokenUsage {
        let prompt = self.counter.text(PROMPT);
        let around = prompt.saturating_add(self.context_tokens);
        let whole = tokens.saturating_add(around);
        if self.window.is_none_or(|window| whole.saturating_add(self.longest) <= window) {
            return TokenUsage { input: whole, output: self.longest, ..TokenUsage::default() };
        }
        // Each piece fills the window, and long messages are shortened until there are few enough pieces.
        let window = self.window.unwrap_or(u64::MAX).max(1);
        let pieces = tokens.div_ceil(window).saturating_add(1).min(MOST_PIECES as u64);
        let each = prompt.saturating_add(self.longest.saturating_mul(2));
        let input = tokens.min(window.saturating_mul(pieces)).saturating_add(each.saturating_mul(pieces));
        TokenUsage { input, output: self.longest.saturating_mul(pieces), ..TokenUsage::default() }
    }

    /// Requests a summary of messages. They are sent unchanged if they fit, and otherwise piece by piece as a transcript. `summary`
    /// receives the tokens that were used, also after an error.
    ///
    /// # Errors
    /// If the provider does not answer.
    pub(super) async fn of(
        &self,
        messages: &[Arc<Message>],
        focus: Option<&str>,
        sink: Sink<'_>,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        let mut prompt = PROMPT.replace("{tokens}", &self.longest.to_string());
        if let Some(focus) = focus {
            prompt.push_str(&format!("Keep in any case: {focus}\n"));
        }
        let room = self
            .window
            .map(|window| window.saturating_sub(self.counter.text(&prompt)).saturating_sub(self.longest));
        let tokens: u64 = messages.iter().map(|message| self.counter.message(message)).sum();
        // Leave five percent, because the counter may be slightly off.
        let whole = tokens.saturating_add(self.context_tokens);
        let fits = room.is_none_or(|room| whole.saturating_mul(21) / 20 <= room);
        let refused = match fits {
            true => match self.ask(messages, self.context, &prompt, summary).await {
                Err(error @ ProviderError::ContextLength(_)) => Some(error),
                Err(error) => return Err(error),
                Ok(()) => None,
            },
            false => None,
        };
        match refused {
            None if fits => {}
            // The count was too low: the provider reports that the request does not fit.
            Some(error) => self.with_less(messages, &prompt, summary, error).await?,
            None => self.in_pieces(messages, &prompt, room.unwrap_or(0), summary).await?,
        }
        if is_empty(&summary.text) && fits {
            sink(Event::Warning(String::from(
                "the model called a tool or said nothing instead of writing a summary; it is asked once more, without tools",
            )));
            // Some providers refuse calls of undeclared tools, so this one gets a transcript.
            self.in_pieces(messages, &prompt, room.unwrap_or(u64::MAX), summary).await?;
        }
        if is_empty(&summary.text) {
            sink(Event::Warning(format!(
                "the model wrote no summary, so `{UNAVAILABLE}` takes its place; `rejoin uncompact` shows the messages again"
            )));
            summary.is_unavailable = true;
            summary.text = UNAVAILABLE.to_owned();
        }
        let longest = self.longest.saturating_mul(2);
        summary.text = window::middle_left_out(summary.text.trim(), longest, self.counter);
        Ok(())
    }

    /// Leaves out the oldest messages, more each time, until the provider accepts the rest.
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
            match self.ask(&fewer, self.context, prompt, summary).await {
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

    /// Sends a long conversation as a transcript, one piece at a time. The request for each piece contains the summary so far.
    /// Instructions and tools are left out: none of these requests is in a cache, and the model has nothing to call.
    async fn in_pieces(
        &self,
        messages: &[Arc<Message>],
        prompt: &str,
        room: u64,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        // Leave room for the summary so far, and for errors of the counter.
        let room = room.saturating_sub(self.longest.saturating_mul(2)) / 10 * 9;
        if room < SHORTEST_PIECE {
            let model = self.provider.endpoint().model.clone();
            return Err(ProviderError::ContextLength(ProviderFault {
                provider: self.provider.endpoint().provider.clone(),
                status: None,
                kind: None,
                message: format!("the window of {model} is too small for a summary"),
            }));
        }
        let mut longest = room / 4;
        let mut pieces = self.pieces(messages, room, longest);
        while pieces.len() > MOST_PIECES && longest > SHORTEST_MESSAGE {
            longest = (longest / 2).max(SHORTEST_MESSAGE);
            pieces = self.pieces(messages, room, longest);
        }
        let surplus = pieces.len().saturating_sub(MOST_PIECES);
        summary.trimmed += pieces.drain(..surplus).map(|piece| piece.len()).sum::<usize>();
        for piece in pieces {
            self.ask_about(&piece, prompt, summary).await?;
        }
        Ok(())
    }

    /// The messages as a transcript, in pieces of at most `room` tokens.
    fn pieces(&self, messages: &[Arc<Message>], room: u64, longest: u64) -> Vec<Vec<String>> {
        let mut pieces: Vec<Vec<String>> = Vec::new();
        let mut left = 0;
        for text in window::transcript(messages, longest, self.counter) {
            let size = self.counter.text(&text);
            match pieces.last_mut().filter(|_| size <= left) {
                Some(piece) => {
                    left -= size;
                    piece.push(text);
                }
                None => {
                    left = room.saturating_sub(size);
                    pieces.push(vec![text]);
                }
            }
        }
        pieces
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
        self.send(&[Arc::new(Message::user(text))], vec![0], &Arc::default(), prompt, summary).await
    }

    /// Asks about messages of the conversation.
    async fn ask(
        &self,
        messages: &[Arc<Message>],
        context: &Arc<Context>,
        prompt: &str,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        let is_earlier = |message: &Arc<Message>| {
            self.earlier.as_ref().is_some_and(|earlier| Arc::ptr_eq(earlier, message))
        };
        let retold = messages.iter().position(is_earlier).into_iter().collect();
        self.send(messages, retold, context, prompt, summary).await
    }

    /// Sends one request. The prompt is the last message, after the text to summarise.
    async fn send(
        &self,
        messages: &[Arc<Message>],
        retold: Vec<usize>,
        context: &Arc<Context>,
        prompt: &str,
        summary: &mut Summary,
    ) -> Result<(), ProviderError> {
        let all = messages.iter().cloned().chain([Arc::new(Message::user(prompt))]);
        let view = repair(&History::of(all), OnBroken::Keep).view;
        let endpoint = self.provider.endpoint();
        let body = match endpoint.dialect {
            None => None,
            Some(dialect) => Some(draft_for(self.provider, dialect, context).request(&view)?.body),
        };
        let request = Request { view, retold, context: Arc::clone(context), body, stop: self.stop.clone() };
        let received = self.provider.send(&request, &mut |_| {}).await?;
        summary.requests += 1;
        if let Some(usage) = received.usage {
            summary.usage.get_or_insert_default().add(&usage);
        }
        ProviderError::unless_complete(received.end, &endpoint.provider)?;
        let text = received.message.and_then(|message| message.content()).unwrap_or_default();
        // An empty answer about one piece must not erase the summary of the earlier pieces.
        if !is_empty(&text) {
            summary.text = text;
        }
        Ok(())
    }
}

/// Whether a text is empty or a placeholder, and so no summary.
fn is_empty(text: &str) -> bool {
    matches!(text.trim(), "" | UNAVAILABLE | UNAVAILABLE_ELSEWHERE)
}
