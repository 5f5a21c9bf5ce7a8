//! `rejoin history show --view`: what a model would see of a conversation, and at each message what was left out, moved or
//! added. With a dialect: the messages as it gets them.

use std::collections::{HashMap, HashSet};

use rejoin::{
    ConvertError, Converted, Dialect, Finding, Message, OnBroken, Session, convert,
    record::{
        EntryId,
        json::{Doc, Value},
    },
    repair,
    view::{ExchangeRef, ItemRef},
};

use super::{
    numbers::{Lines, Shown},
    shape::{fields, heading, said},
    show::Head,
};
use crate::{
    args::ShowArguments,
    commands::{convert::policy, report},
    desk::Desk,
    failure::Failure,
    json::{self, Object},
    output::{self, harmless, harmless_lines, paint},
};

/// What is viewed.
pub struct Viewed<'v> {
    /// The conversation.
    pub session: &'v Session,
    /// What of it has numbers.
    pub shown: &'v [Shown<'v>],
    /// Where it stands in a file.
    pub lines: &'v Lines,
    /// What stands above it.
    pub head: &'v Head,
}

/// Shows the view.
pub fn run(desk: &Desk, viewed: &Viewed<'_>, arguments: &ShowArguments) -> Result<(), Failure> {
    let on_broken = policy(&desk.settings);
    if let Some(dialect) = arguments.dialect {
        return encoded(desk, viewed, arguments, (dialect, on_broken));
    }
    let rows = rows(viewed, on_broken);
    let rows = &rows[window(&rows, arguments.limit)..];
    if arguments.json {
        return rows.iter().try_for_each(|row| output::json_data(&row.json()));
    }
    let mut text = viewed.head.for_people("messages of the view");
    rows.iter().for_each(|row| text.push_str(&row.for_people()));
    desk.show(&text)
}

/// One message of the view, or one that is not in it.
struct Row {
    /// Its number in the history; none for what was added.
    number: Option<usize>,
    role: String,
    remark: &'static str,
    message: Option<Message>,
    findings: Vec<Finding>,
    /// Whether it is the result of the call before it.
    answers: bool,
}

impl Row {
    fn for_people(&self) -> String {
        let number = self.number.map_or_else(|| String::from("+"), |number| number.to_string());
        let mut out = heading(&number, &self.role, self.remark);
        out.push_str(&self.message.as_ref().map_or_else(String::new, said));
        for finding in &self.findings {
            out.push_str(&format!(
                "  {} {} — {}\n",
                paint("→", output::HINT),
                report::line(finding),
                finding.deed()
            ));
        }
        out
    }

    fn json(&self) -> String {
        let number = self.number.map(|number| number.to_string());
        let object = Object::new()
            .raw("index", number.as_deref().unwrap_or("null"))
            .text("role", &self.role)
            .flag("in_view", self.message.is_some());
        let object = match &self.message {
            Some(message) => fields(object, message),
            None => object,
        };
        object.raw("findings", &report::json_list(&self.findings)).finish()
    }
}

/// Where the last so many begin; never behind a call and before its result.
fn window(rows: &[Row], limit: Option<usize>) -> usize {
    let mut from = limit.map_or(0, |limit| rows.len().saturating_sub(limit));
    while from > 0 && rows.get(from).is_some_and(|row| row.answers) {
        from -= 1;
    }
    from
}

fn rows(viewed: &Viewed<'_>, on_broken: OnBroken) -> Vec<Row> {
    let Viewed { session, shown, .. } = viewed;
    let numbers: HashMap<EntryId, usize> =
        shown.iter().enumerate().map(|(number, shown)| (shown.entry.id(), number)).collect();
    let number = |message: usize| {
        let entry = session.details.get(message).and_then(|detail| detail.id.as_ref()?.parse().ok());
        entry.and_then(|entry: EntryId| numbers.get(&entry).copied())
    };
    let policy = if on_broken == OnBroken::Drop { OnBroken::Drop } else { OnBroken::Keep };
    let repaired = repair(&session.history(), policy);
    let mut findings: HashMap<usize, Vec<Finding>> = HashMap::new();
    for mut finding in repaired.findings {
        let Some(message) = finding.at.message else { continue };
        finding.at.message = number(message);
        findings.entry(message).or_default().push(finding);
    }
    // What the view shows, by the places of its sources.
    let items: Vec<ItemRef<'_>> = repaired.view.items().collect();
    let in_view: HashSet<usize> = items
        .iter()
        .flat_map(|item| item.exchanges().flat_map(|(exchange, _)| sources(exchange)).chain([item.index()]))
        .collect();
    let mut messages = repaired.view.to_messages().into_iter();
    let mut rows = Vec::new();
    let mut reached = 0;
    for item in items {
        rows.extend((reached..item.index()).filter(|place| !in_view.contains(place)).map(|place| {
            left_out(&session.messages[place], number(place), findings.remove(&place).unwrap_or_default())
        }));
        reached = reached.max(item.index() + 1);
        let Some(message) = messages.next() else { break };
        rows.push(Row {
            number: number(item.index()),
            role: message.role.as_str().to_owned(),
            remark: if item.is_complete() { "" } else { "changed" },
            findings: findings.remove(&item.index()).unwrap_or_default(),
            message: Some(message),
            answers: false,
        });
        for (exchange, _) in item.exchanges() {
            let Some(message) = messages.next() else { break };
            let source = sources(exchange).next();
            rows.push(Row {
                number: source.and_then(number),
                role: String::from("tool"),
                remark: if source.is_none() { "added" } else { "" },
                findings: sources(exchange).flat_map(|place| findings.remove(&place)).flatten().collect(),
                message: Some(message),
                answers: true,
            });
        }
    }
    rows.extend((reached..session.messages.len()).filter(|place| !in_view.contains(place)).map(|place| {
        left_out(&session.messages[place], number(place), findings.remove(&place).unwrap_or_default())
    }));
    rows
}

/// The messages that the results of a call are from.
fn sources(exchange: ExchangeRef<'_>) -> impl Iterator<Item = usize> {
    exchange.results().map(|result| result.at().0)
}

fn left_out(message: &Message, number: Option<usize>, findings: Vec<Finding>) -> Row {
    let role = message.role.as_str().to_owned();
    Row { number, role, remark: "not in the view", message: None, findings, answers: false }
}

/// Shows the messages as a dialect gets them, and what had to be done for it.
fn encoded(
    desk: &Desk,
    viewed: &Viewed<'_>,
    arguments: &ShowArguments,
    (dialect, on_broken): (Dialect, OnBroken),
) -> Result<(), Failure> {
    let name = viewed.session.id.to_string();
    let on_broken = if on_broken == OnBroken::Refuse { OnBroken::Keep } else { on_broken };
    let converted = match convert(viewed.session, dialect, None, on_broken) {
        Ok(converted) => Converted { findings: viewed.lines.fill(converted.findings), ..converted },
        Err(ConvertError::TooLarge(error)) => {
            return Err(Failure::TooLarge { name, why: error.to_string() });
        }
        Err(ConvertError::Refused(_)) => return Err(Failure::Refused { name }),
    };
    if arguments.json {
        let object = Object::new()
            .text("dialect", dialect.name())
            .raw("body", &converted.body)
            .raw("findings", &report::json_list(&converted.findings));
        return output::json_data(&object.finish());
    }
    let mut text = viewed.head.for_people(&format!("messages for {dialect}"));
    let doc = Doc::parse(&converted.body).ok();
    let root = doc.as_ref().and_then(Doc::root);
    let list =
        root.and_then(|root| ["messages", "input", "contents"].iter().find_map(|name| root.given(name)));
    let items: Vec<Value<'_>> = list.into_iter().flat_map(|list| list.items().collect::<Vec<_>>()).collect();
    let mut from = arguments.limit.map_or(0, |limit| items.len().saturating_sub(limit));
    let calls = |place: usize| items.get(place).copied().is_some_and(is_call);
    while from > 0 && (items.get(from).copied().is_some_and(is_result) || (calls(from) && calls(from - 1))) {
        from -= 1;
    }
    for (number, item) in items.iter().enumerate().skip(from) {
        let role = item.given("role").or_else(|| item.given("type")).and_then(|role| role.as_str());
        text.push_str(&heading(&number.to_string(), role.as_deref().unwrap_or("item"), ""));
        text.push_str(&harmless_lines(&json::indented(item.raw())));
        text.push('\n');
    }
    if !converted.findings.is_empty() {
        text.push_str(&format!("\nWhat was done for {}:\n", harmless(dialect.wire().provider())));
    }
    for finding in &converted.findings {
        text.push_str(&format!("  {} — {}\n", report::line(finding), finding.deed()));
    }
    desk.show(&text)
}

/// Whether an item of a body holds results, in whatever dialect.
fn is_result(item: Value<'_>) -> bool {
    let is = |name: &str, word: &str| item.given(name).is_some_and(|value| value.is_str(word));
    let parts = item.given("content").or_else(|| item.given("parts"));
    is("role", "tool")
        || item.given("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.ends_with("_output"))
        || parts.into_iter().flat_map(|parts| parts.items().collect::<Vec<_>>()).any(|part| {
            part.given("type").is_some_and(|kind| kind.is_str("tool_result"))
                || part.given("functionResponse").is_some()
                || part.given("toolResult").is_some()
        })
}

/// Whether an item of a body is one call of a batch, in the dialect that makes an item of each.
fn is_call(item: Value<'_>) -> bool {
    item.given("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.ends_with("_call"))
}
