//! `rejoin stats`: the tokens, cost and time of conversations.

use std::{
    io::{self, IsTerminal as _},
    ops::ControlFlow,
};

use rejoin::{
    ConversationId,
    engine::{self, Mode},
    providers::catalogue::{Dollars, PRICES_NOTED},
    stats::{Calls, Grouping, Stats, Tally, TokenSpending},
    store::{Filter, Store},
};

use crate::{
    amounts::{bar, bar_columns, count},
    args::StatsArguments,
    commands::prelude::*,
};

/// The width of bars, in columns.
const COLUMNS: usize = 24;

pub fn run(arguments: &StatsArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find_or_all(arguments.conversation.as_deref())?;
    let mut tally = Tally::since(arguments.since);
    let mut code = 0;
    if let Some(store) = &store {
        let spinner = output::spinner("adding up");
        for id in conversations(&**store, id)? {
            match engine::read(&**store, id, Mode::Recover) {
                Ok(recorded) => tally.add(&recorded),
                // The others still count.
                Err(error) => {
                    spinner.suspend(|| context::loading(&**store, error).say());
                    code = FAILED;
                }
            }
        }
        spinner.finish_and_clear();
    }
    let stats = tally.finish();
    if arguments.json {
        let ways = arguments.by.as_ref().map_or(Grouping::ALL, std::slice::from_ref);
        output::json_data(&stats.to_json(ways))?;
    } else {
        cli.show(&for_people(&stats, arguments.by))?;
    }
    Ok(code)
}

/// The requested conversation, or all of them.
fn conversations(store: &dyn Store, id: Option<ConversationId>) -> Result<Vec<ConversationId>, Failure> {
    if let Some(id) = id {
        return Ok(vec![id]);
    }
    let mut ids = Vec::new();
    rejoin::list::list(store, &Filter::default(), usize::MAX, |summary| {
        ids.push(summary.id);
        ControlFlow::Continue(())
    })
    .map_err(|why| context::unusable(store.location(), why))?;
    // Oldest first, so that messages shared with a fork are counted in the original.
    ids.reverse();
    Ok(ids)
}

fn for_people(stats: &Stats, by: Option<Grouping>) -> String {
    if stats.conversations == 0 {
        return String::from("Nothing to count: no conversation has an entry in this time.\n");
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<14} {value}\n"));
    line("Conversations", count(stats.conversations));
    line("Turns", format!("{}, with {}", count(stats.turns), plural(stats.requests, "request")));
    line("Tokens", tokens(&stats.spent));
    if let Some(share) = stats.spent.cached_share() {
        line("From cache", format!("{:.0}% of the tokens in", share * 100.0));
    }
    if stats.spent.requests > 0 {
        let dated = stats.spent.cost > Dollars::default();
        let dated = if dated { format!(" (prices of {PRICES_NOTED})") } else { String::new() };
        line("Cost", cost(&stats.spent) + &dated);
    }
    line("Tools", calls(&stats.calls));
    line("Repairs", plural(stats.repairs, "problem"));
    line("Pruned", plural(stats.pruned, "result"));
    line("Compactions", count(stats.compactions));
    for way in by.as_ref().map_or(&[Grouping::Model, Grouping::Tool][..], std::slice::from_ref) {
        let rows = rows(stats, *way);
        if !rows.is_empty() {
            text.push_str(&format!("\n{}\n", paint(&format!("By {}", way.name()), output::STRONG)));
            text.push_str(&table(&rows));
        } else if by.is_some() {
            text.push_str(&format!("\nThere is nothing to show by {}.\n", way.name()));
        }
    }
    text
}

/// A name, the amount that its bar shows, and the amounts in words.
type Row = (String, u64, String);

fn rows(stats: &Stats, way: Grouping) -> Vec<Row> {
    let spent = |name: String, spent: &TokenSpending| {
        let words = format!("{}, {}, {}", plural(spent.requests, "request"), tokens(spent), cost(spent));
        (name, spent.tokens(), words)
    };
    let mut rows: Vec<Row> = match way {
        Grouping::Model => {
            stats.models.iter().map(|(name, part)| spent(harmless(&name.to_string()), part)).collect()
        }
        Grouping::Tool => {
            stats.tools.iter().map(|(name, part)| (harmless(name), part.count, calls(part))).collect()
        }
        // Days stay in order.
        Grouping::Day => return stats.days.iter().map(|(day, part)| spent(day.clone(), part)).collect(),
        Grouping::Rule => {
            stats.rules.iter().map(|(rule, found)| ((*rule).to_owned(), *found, count(*found))).collect()
        }
    };
    rows.sort_by_key(|(_, amount, _)| std::cmp::Reverse(*amount));
    rows
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let largest = rows.iter().map(|(_, amount, _)| *amount).max().unwrap_or(0);
    // Print only numbers to a program or a file.
    let bars = io::stdout().is_terminal();
    let widest = rows.iter().map(|(_, _, words)| words.chars().count()).max().unwrap_or(0);
    let columns = bar_columns(COLUMNS, width + widest + 6);
    let mut text = String::new();
    for (name, amount, words) in rows {
        text.push_str(&format!("  {name:<width$}  "));
        if bars {
            text.push_str(&format!("{:<columns$}  ", bar(*amount, largest, columns)));
        }
        text.push_str(&format!("{words}\n"));
    }
    if bars { output::in_rows(&text).into_owned() } else { text }
}

fn tokens(spent: &TokenSpending) -> String {
    if spent.requests == 0 {
        return String::from("none counted");
    }
    crate::amounts::spent(&spent.usage, None)
}

/// The cost, and the number of tokens without a known price.
fn cost(spent: &TokenSpending) -> String {
    match (spent.tokens(), spent.unpriced) {
        (_, 0) => spent.cost.to_string(),
        (all, unpriced) if unpriced >= all => String::from("price not known"),
        (_, unpriced) => format!("{}, without {} whose price is not known", spent.cost, tokens_of(unpriced)),
    }
}

fn tokens_of(number: u64) -> String {
    format!("{} {}", count(number), output::agreeing(number, "token", "tokens"))
}

fn calls(calls: &Calls) -> String {
    let mut line = plural(calls.count, "call");
    if calls.failed > 0 {
        line += &format!(", {} failed", count(calls.failed));
    }
    match calls.took_ms {
        0 => {}
        took @ ..1_000 => line += &format!(", {took} ms"),
        took => line += &format!(", {:.1} s", took as f64 / 1_000.0),
    }
    line
}
