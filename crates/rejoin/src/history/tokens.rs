//! The use of a model's window: the tokens of instructions, tools, and each kind of message in the view.

use rejoin_engine::{
    ProviderChoice,
    turn::{context_tokens, last_counted},
};
use rejoin_formats::Session;
use rejoin_record::{Content, Entry, Kind, Message, Role, Tree, content::TokenUsage, json::Object};
use rejoin_view::{Correction, OnBroken, TokenCounter, path};

use super::{Shown, ShownContent, view};

/// The tokens of the next request, by purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUse {
    /// The model for which they are counted.
    pub model: String,
    /// The size of the model's window; `None` if it is not known.
    pub window: Option<u64>,
    /// Whether texts are counted exactly and not estimated.
    pub exact: bool,
    /// Whether the counts are corrected by the provider's count of the last request.
    pub corrected: bool,
    /// The tokens of each part, in the order of [`PARTS`].
    pub parts: [u64; PARTS.len()],
    /// The tokens that the provider counted for the last request; `None` if it did not.
    pub last_request: Option<TokenUsage>,
}

/// The names of the purposes, in the order of [`WindowUse::parts`].
pub const PARTS: [&str; 6] = ["instructions", "tools", "people", "answers", "results", "summaries"];

/// The purpose of tokens.
#[derive(Clone, Copy)]
enum Part {
    Instructions,
    Tools,
    People,
    Answers,
    Results,
    Summaries,
}

impl WindowUse {
    /// Counts the tokens that a model would get. `entries` are all entries of the conversation.
    #[must_use]
    pub fn of(
        session: &Session,
        entries: &[Entry],
        shown: &[Shown<'_>],
        model: &str,
        window: Option<u64>,
    ) -> Self {
        // Very long results lose their middle before they are sent.
        let limit = rejoin_engine::turn::ToolLimits::default().shown;
        let counter = TokenCounter::for_model(model).showing(limit);
        let mut parts = [0; PARTS.len()];
        let (instructions, tools) = context_tokens(&session.context, &counter);
        (parts[Part::Instructions as usize], parts[Part::Tools as usize]) = (instructions, tools);
        let last = last_counted(entries, None).filter(|_| is_of_last_request(entries, model));
        let mut correction = None;
        let imported = path::imported_summaries(&Tree::new(entries).path().0);
        for row in view::rows(session, shown, OnBroken::Keep) {
            let Some(message) = &row.message else { continue };
            let from = row.number.and_then(|number| shown.get(number));
            if let Some((usage, _)) =
                last.filter(|(_, answer)| from.is_some_and(|from| from.entry.id() == *answer))
            {
                // So far, the parts are those of the last request.
                correction = Correction::learned(&counter, parts.iter().sum(), usage.input);
            }
            let part = match from.map(|from| &from.what) {
                Some(ShownContent::Summary(_)) => Part::Summaries,
                _ if from.is_some_and(|from| imported.contains(&from.entry.id())) => Part::Summaries,
                _ => part_of(message),
            };
            parts[part as usize] += counter.message(message);
        }
        if let Some(correction) = correction {
            parts = parts.map(|part| correction.provider_tokens(part));
        }
        let last_request =
            entries.iter().rev().filter(|entry| entry.envelope().kind == Kind::Turn).find_map(|entry| {
                match Content::of(entry) {
                    Content::Turn(turn) if turn.unused_summary.is_none() => turn.usage,
                    _ => None,
                }
            });
        Self {
            model: model.to_owned(),
            window,
            exact: counter.is_exact(),
            corrected: correction.is_some(),
            parts,
            last_request,
        }
    }

    /// The tokens of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let parts = PARTS
            .iter()
            .zip(self.parts)
            .fold(Object::new(), |object, (name, tokens)| object.number(name, tokens));
        Object::new()
            .text("model", &self.model)
            .number_or_null("window", self.window.and_then(|window| usize::try_from(window).ok()))
            .flag("exact", self.exact)
            .flag("corrected", self.corrected)
            .number("total", self.total())
            .object("parts", parts)
            .number_or_null(
                "last_request",
                self.last_request.and_then(|usage| usize::try_from(usage.input).ok()),
            )
            .finish()
    }
}

/// Whether the last request went to this model. Counts for one model do not apply to another.
fn is_of_last_request(entries: &[Entry], model: &str) -> bool {
    let contexts = entries.iter().rev().filter(|entry| entry.envelope().kind == Kind::Context);
    let mut wanted = contexts.filter_map(|entry| match Content::of(entry) {
        Content::Context(context) => ProviderChoice::in_context(&context),
        _ => None,
    });
    wanted.next().is_some_and(|wanted| wanted.model.as_deref() == Some(model))
}

fn part_of(message: &Message) -> Part {
    match message.role {
        Role::Assistant => Part::Answers,
        Role::User if message.tool_results().next().is_none() => Part::People,
        Role::User | Role::Tool => Part::Results,
        _ => Part::Instructions,
    }
}
