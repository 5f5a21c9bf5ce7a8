//! What a model would see of a conversation, with the messages that were left out, moved or added; and the messages in the form of
//! a dialect.

use std::collections::{HashMap, HashSet};

use rejoin_formats::{ConvertError, Converted, Dialect, Session, convert};
use rejoin_record::{
    EntryId, Message,
    json::{Doc, Object, Value},
};
use rejoin_view::{ExchangeRef, Finding, ItemRef, OnBroken, repair};

use super::{MessageLines, Shown, with_message};
use crate::shape;

/// One message of the view, or one that is not in it.
#[derive(Debug)]
pub struct ViewRow {
    /// The message's number in the history; `None` for an added message.
    pub number: Option<usize>,
    /// The role of the message.
    pub role: String,
    /// How the view differs from the message: `changed`, `added`, `not in the view`, or empty.
    pub remark: &'static str,
    /// The message in the form that the view shows; `None` if it is not in the view.
    pub message: Option<Message>,
    /// The findings about the message.
    pub findings: Vec<Finding>,
    /// Whether it is the result of the call before it.
    pub answers: bool,
}

impl ViewRow {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let object = Object::new()
            .number_or_null("index", self.number)
            .text("role", &self.role)
            .flag("in_view", self.message.is_some());
        let object = match &self.message {
            Some(message) => with_message(object, message),
            None => object,
        };
        object.raw("findings", &shape::findings(&self.findings)).finish()
    }
}

/// The last rows, at most `limit`, but never a result without its call.
#[must_use]
pub fn last(rows: &[ViewRow], limit: Option<usize>) -> &[ViewRow] {
    let mut from = limit.map_or(0, |limit| rows.len().saturating_sub(limit));
    while from > 0 && rows.get(from).is_some_and(|row| row.answers) {
        from -= 1;
    }
    &rows[from..]
}

/// The messages of the view in order, and between them those that are not in it.
#[must_use]
pub fn rows(session: &Session, shown: &[Shown<'_>], on_broken: OnBroken) -> Vec<ViewRow> {
    let numbers = super::numbers(shown);
    let number = |message: usize| {
        let entry = session.details.get(message).and_then(|detail| detail.id.as_ref()?.parse().ok());
        entry.and_then(|entry: EntryId| numbers.get(&entry).copied())
    };
    let repaired = repair(&session.history(), on_broken);
    let mut findings: HashMap<usize, Vec<Finding>> = HashMap::new();
    for mut finding in repaired.findings {
        let Some(message) = finding.at.message else { continue };
        finding.at.message = number(message);
        findings.entry(message).or_default().push(finding);
    }
    // The messages that the view shows, by the indexes of their sources.
    let items: Vec<ItemRef<'_>> = repaired.view.items().collect();
    let in_view: HashSet<usize> =
        items.iter().flat_map(|item| item.exchanges().flat_map(sources).chain([item.index()])).collect();
    let mut messages = repaired.view.to_messages().into_iter();
    let mut rows = Vec::new();
    let mut reached = 0;
    for item in items {
        rows.extend((reached..item.index()).filter(|place| !in_view.contains(place)).map(|place| {
            left_out(&session.messages[place], number(place), findings.remove(&place).unwrap_or_default())
        }));
        reached = reached.max(item.index() + 1);
        let Some(message) = messages.next() else { break };
        rows.push(ViewRow {
            number: number(item.index()),
            role: message.role.as_str().to_owned(),
            remark: if item.is_complete() { "" } else { "changed" },
            findings: findings.remove(&item.index()).unwrap_or_default(),
            message: Some(message),
            answers: false,
        });
        for exchange in item.exchanges() {
            let Some(message) = messages.next() else { break };
            let source = sources(exchange).next();
            rows.push(ViewRow {
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

/// The messages from which the results of a call come.
fn sources(exchange: ExchangeRef<'_>) -> impl Iterator<Item = usize> {
    exchange.results().map(|result| result.at().0)
}

fn left_out(message: &Message, number: Option<usize>, findings: Vec<Finding>) -> ViewRow {
    let role = message.role.as_str().to_owned();
    ViewRow { number, role, remark: "not in the view", message: None, findings, answers: false }
}

/// The messages in the form of a dialect, and the changes needed for it.
#[derive(Debug)]
pub struct EncodedView {
    /// The dialect.
    pub dialect: Dialect,
    /// The whole request body, JSON.
    pub body: String,
    /// The findings, with the numbers and lines of the history.
    pub findings: Vec<Finding>,
}

/// Encodes a conversation. Nothing is sent, so refusing makes no sense and is treated as `keep`.
///
/// # Errors
/// If it exceeds the dialect's size limit.
pub fn encoded(
    session: &Session,
    lines: &MessageLines,
    dialect: Dialect,
    on_broken: OnBroken,
) -> Result<EncodedView, ConvertError> {
    let on_broken = if on_broken == OnBroken::Refuse { OnBroken::Keep } else { on_broken };
    let Converted { body, findings, .. } = convert(session, dialect, None, on_broken)?;
    Ok(EncodedView { dialect, body, findings: lines.fill(findings) })
}

impl EncodedView {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let object = Object::new().text("dialect", self.dialect).raw("body", &self.body);
        object.raw("findings", &shape::findings(&self.findings)).finish()
    }

    /// The last items of the body's list of messages, at most `limit`, each with its number, its role or type, and its JSON. A
    /// result is never shown without its call.
    #[must_use]
    pub fn last_items(&self, limit: Option<usize>) -> Vec<(usize, String, String)> {
        let doc = Doc::parse(&self.body).ok();
        let root = doc.as_ref().and_then(Doc::root);
        let list = root.and_then(|root| root.given(crate::check::checker(self.dialect).list));
        let items: Vec<Value<'_>> = list.into_iter().flat_map(Value::items).collect();
        let mut from = limit.map_or(0, |limit| items.len().saturating_sub(limit));
        let continues = self.dialect.wire().continues;
        while from > 0 && items.get(from).is_some_and(|item| continues(items[from - 1], *item)) {
            from -= 1;
        }
        let named = |item: &Value<'_>| {
            let role = item.given("role").or_else(|| item.given("type")).and_then(Value::as_str);
            role.map_or_else(|| String::from("item"), std::borrow::Cow::into_owned)
        };
        let numbered = items.iter().enumerate().skip(from);
        numbered.map(|(number, item)| (number, named(item), item.raw().to_owned())).collect()
    }
}
