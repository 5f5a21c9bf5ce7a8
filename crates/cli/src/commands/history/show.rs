//! `rejoin history show`: shows the messages of a conversation, with stable numbers.

use rejoin::{
    engine::{self, Mode},
    history::{self, Shown},
    shape,
    store::Summary,
};

use super::{
    change,
    follow::{self, Printing},
    shape::{numbered, whole},
    tokens, view,
};
use crate::{
    args::ShowArguments,
    commands::{list::shown_scope, prelude::*, report},
    json,
};

const RULE: usize = 80;

pub fn run(arguments: &ShowArguments, flags: &Flags) -> Result<u8, Failure> {
    let mut cli = CliContext::new(flags)?;
    if arguments.follow {
        // A pager would replace this process.
        cli = cli.without_pager();
    }
    let (store, id) = cli.find(arguments.which.given())?;
    let mode = if arguments.strict { Mode::Strict } else { Mode::Recover };
    let mut recorded = context::read(&*store, id, mode)?;
    let lines = history::renumber(&recorded.entries, &mut recorded.session);
    let summary = engine::summary(&*store, id).unwrap_or_else(|_| Summary::new(id));
    let title = summary.title.clone().unwrap_or_else(|| recorded.session.headline());
    let model = summary.about.model.clone().or_else(|| recorded.session.context.model());
    let shown = history::shown(&recorded.entries);
    let count = shown.len();
    tracing::info!("Displaying conversation: id={id}, message_count={count}");
    for finding in &recorded.session.findings {
        output::talk(&report::line_with_action(finding));
    }
    if let Some(number) = arguments.message {
        change::entry(&shown, number)?;
    }
    let part = |shown| window(shown, arguments.limit, arguments.message);
    let scope = shown_scope(&summary.scope);
    let head = Head { id: id.to_string(), title, model, scope, count, limit: arguments.limit };
    if arguments.tokens {
        let model = arguments.model.clone().or_else(|| head.model.clone());
        let used = tokens::used(&cli, &recorded, &shown, model.as_deref());
        tokens::run(&cli, &used, arguments.json)?;
    } else if arguments.view {
        let viewed =
            view::ConversationView { session: &recorded.session, shown: &shown, lines: &lines, head: &head };
        view::run(&cli, &viewed, arguments)?;
    } else if arguments.json {
        for (number, message) in part(&shown) {
            output::json_data(&message.to_json(number))?;
        }
    } else if arguments.raw {
        let messages = part(&shown).flat_map(|(_, message)| message.to_openai());
        let Head { id, title, model, .. } = &head;
        let whole = shape::whole_conversation(id, title, model.as_deref(), count, messages);
        output::json_data(&json::indented(&whole))?;
    } else if let Some((number, message)) = part(&shown).next().filter(|_| arguments.message.is_some()) {
        cli.show(output::data_in_rows(&whole(message, number)).trim_start_matches('\n'))?;
    } else {
        let mut text = head.for_people("messages");
        for (number, message) in part(&shown) {
            text.push_str(&numbered(message, number));
        }
        cli.show(&output::data_in_rows(&text))?;
    }
    tracing::info!("Displayed conversation: id={id}, message_count={count}");
    if !arguments.follow {
        return Ok(0);
    }
    drop(shown);
    // The remainder of an answer that a killed process left is not stored yet.
    let mut entries = recorded.entries;
    entries.truncate(entries.len() - recorded.drafted);
    let printing = if arguments.json { Printing::Json } else { Printing::ForPeople };
    follow::run(&*store, id, entries, printing)
}

/// The last items, or a single one, with their own numbers.
fn window<'s, 'e>(
    shown: &'s [Shown<'e>],
    limit: Option<usize>,
    only: Option<usize>,
) -> impl Iterator<Item = (usize, &'s Shown<'e>)> {
    let from = limit.map_or(0, |limit| shown.len().saturating_sub(limit));
    shown.iter().enumerate().skip(from).filter(move |(number, _)| only.is_none_or(|only| only == *number))
}

pub struct Head {
    id: String,
    title: String,
    model: Option<String>,
    /// `None` if it has no scope.
    scope: Option<String>,
    count: usize,
    limit: Option<usize>,
}

impl Head {
    pub fn for_people(&self, what: &str) -> String {
        let title = if self.title.is_empty() { "(untitled)" } else { &self.title };
        let mut text = format!(
            "Conversation: {}\nID: {}\nModel: {}\nMessages: {} total\n",
            harmless(title),
            self.id,
            harmless(self.model.as_deref().unwrap_or("unknown")),
            self.count
        );
        if let Some(scope) = &self.scope {
            text.push_str(&format!("Scope: {scope}\n"));
        }
        if let Some(limit) = self.limit {
            text.push_str(&format!("Showing: last {limit} {what}\n"));
        }
        text.push_str(&"=".repeat(RULE));
        text.push('\n');
        text
    }
}
