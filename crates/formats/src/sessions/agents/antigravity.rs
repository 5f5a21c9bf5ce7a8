//! Antigravity: an export, `{app, conversation: {id, messages}}`, whose messages are those of OpenAI Chat.

use super::parts::around;
use crate::{
    messages::{MessageReader, Style},
    sessions::prelude::*,
};

pub(crate) const FORMAT: &str = "antigravity";

/// Whether a text is an export of Antigravity.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_export = |root: Value<'_>| {
        root.says("app", "Antigravity")
            && root.get("conversation").is_some_and(|own| own.holds("messages", ValueKind::Array))
    };
    Claim::sure(sample.beginning().0.root().is_some_and(is_export), "an `app` that is Antigravity")
}

/// Reads an export.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let nothing = || {
        error.map_or(ReadError::NoConversation("it has no list of messages"), |error| {
            ReadError::not_json(input, error)
        })
    };
    let conversation = doc.root().and_then(|root| root.given("conversation")).ok_or_else(nothing)?;
    let list =
        conversation.get("messages").filter(|list| list.kind() == ValueKind::Array).ok_or_else(nothing)?;
    let mut builder = SessionBuilder::new(FORMAT);
    builder.findings.extend(replaced_bytes(input));
    let mut reader = MessageReader::new(Style::ToolCalls, None);
    let mut count = 0;
    for (index, item) in list.items().enumerate() {
        let place = SourcePlace { index, offset: item.start(), line: None };
        count = index + 1;
        if item.is_cut() {
            builder.aside(place, Aside::Raw(Text::new(&input.text[item.start()..])));
            continue;
        }
        let Some(read) = reader.read(item, &input.text, index) else {
            builder.aside(place, Aside::Unknown(Text::new(item.raw())));
            let finding = Finding::new(Rule::DamagedEntry, Position::message(index), Action::SetAside);
            builder.findings.push(finding.because("it is not a message"));
            continue;
        };
        builder.findings.extend(read.findings);
        let time = item.given("created_at").map(time_of);
        builder.push(read.message, place, Detail { time, ..Detail::default() });
    }
    if builder.messages.is_empty() {
        return Err(nothing());
    }
    if let Some(error) = error {
        builder.findings.push(unreadable_rest(input, error, count));
    }
    if let Some(title) = text_of(conversation, "title").filter(|title| !title.is_blank()) {
        builder.aside(
            SourcePlace { index: count, offset: conversation.start(), line: None },
            Aside::Title(title),
        );
    }
    // The object around the messages: times, version, settings.
    if let Some(text) = around(input, list) {
        builder.aside(SourcePlace { index: count, offset: 0, line: None }, Aside::Raw(text));
    }
    let context = Context::of_model(Dialect::OpenAiChat, None);
    Ok(vec![builder.finish(&input.name, text_of(conversation, "id").as_deref(), context)])
}
