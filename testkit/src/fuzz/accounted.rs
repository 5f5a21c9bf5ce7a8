//! The law *accounted for*, checked from outside: every string of at least four words in an input is in some part of the sessions,
//! or a finding is at its place.

use std::{borrow::Cow, collections::HashSet};

use rejoin_formats::{
    Session,
    accounting::{Known, has_words},
    session::{Aside, SourcePlace},
    sessions,
};
use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message, Role,
    json::{Doc, Value, literal},
};
use rejoin_view::{Finding, Position, Rule};

/// The strings of an input that nothing accounts for.
#[must_use]
pub fn unaccounted(input: &str, sessions: &[Session]) -> Vec<String> {
    if sessions.iter().any(|session| MARKDOWN.contains(&session.format)) {
        return unaccounted_lines(input, sessions);
    }
    let mut books = Books::default();
    sessions.iter().for_each(|session| books.add(session));
    let missing = |text: &Cow<'_, str>| has_words(text) && !books.hold(text);
    strings(input).into_iter().filter(missing).map(Cow::into_owned).collect()
}

/// Formats whose texts are Markdown, so that JSON in them is part of a message.
const MARKDOWN: [&str; 3] = ["aider", "ploke", "specstory"];

/// The lines of a text that is not JSON which are neither in a message nor in anything kept beside the messages.
fn unaccounted_lines(input: &str, sessions: &[Session]) -> Vec<String> {
    let mut kept: HashSet<String> = HashSet::new();
    let mut keep = |text: &str| kept.extend(text.lines().map(str::to_owned));
    for session in sessions {
        let hidden = session.set_aside.iter().filter_map(|item| match &item.what {
            Aside::Hidden(message, _) => Some(message),
            _ => None,
        });
        for message in session.messages.iter().chain(hidden) {
            let doc = Doc::parse(message.native_text());
            doc.iter().flat_map(Doc::strings).for_each(|text| keep(&text));
        }
        session.set_aside.iter().filter_map(|item| item.raw()).for_each(|text| keep(text));
    }
    input.lines().filter(|line| has_words(line) && !kept.contains(*line)).map(str::to_owned).collect()
}

/// Texts that carry one of these marks and have another role than the mark, without a finding there.
#[must_use]
pub fn misattributed(sessions: &[Session], marks: &[(&str, Role)]) -> Vec<String> {
    let mut found = Vec::new();
    for session in sessions {
        for (index, message) in session.messages.iter().enumerate() {
            let at = session.source_position(Position::message(index));
            // A speaker without a role at the beginning of a request is its user.
            let told = |finding: &Finding| stands_at(finding, at) && (finding.is_problem() || index == 0);
            if matches!(message.role, Role::Other(_)) || session.findings.iter().any(told) {
                continue;
            }
            for text in message.blocks.iter().filter_map(Block::as_text) {
                let wrong =
                    |(mark, role): &&(&str, Role)| text.contains(mark) && opposite(role, &message.role);
                found.extend(marks.iter().find(wrong).map(|_| format!("{}: {text}", message.role)));
            }
        }
    }
    found
}

fn opposite(one: &Role, other: &Role) -> bool {
    matches!((one, other), (Role::User, Role::Assistant) | (Role::Assistant, Role::User))
}

/// The strings of a text that is JSON or JSON lines; empty for other texts.
fn strings(input: &str) -> Vec<Cow<'_, str>> {
    let owned = |doc: &Doc<'_>| doc.strings().map(|text| Cow::Owned(text.into_owned())).collect::<Vec<_>>();
    match Doc::parse(input) {
        // A line break in the middle of a string is a fault: such a file is read line by line.
        Ok(doc) if doc.first_fault().is_none() || !input.contains('\n') => owned(&doc),
        _ => input
            .lines()
            .filter_map(|line| Doc::parse(line.trim()).ok())
            .flat_map(|doc| owned(&doc))
            .collect(),
    }
}

#[derive(Default)]
struct Books {
    texts: HashSet<String>,
}

impl Books {
    fn add(&mut self, session: &Session) {
        for (index, message) in session.messages.iter().enumerate() {
            let at = session.source_position(Position::message(index));
            self.message(session, message, at);
        }
        for item in &session.set_aside {
            let at = position(item.place);
            match &item.what {
                Aside::Hidden(message, _) => self.message(session, message, at),
                Aside::Unknown(text) => {
                    if session.findings.iter().any(|finding| stands_at(finding, at)) {
                        self.json(text);
                    }
                }
                Aside::Raw(text) => self.json(text),
                Aside::Snapshot(raw) => self.json(raw.as_str()),
                Aside::Compacted { summary } => self.text(summary),
                Aside::Title(title) => self.text(title),
                Aside::Scope(scope) => scope.parts().into_iter().for_each(|part| self.text(part)),
            }
        }
        for field in &session.context.fields {
            self.text(&field.name);
            self.json(field.value.as_str());
        }
    }

    fn message(&mut self, session: &Session, message: &Message, at: Position) {
        message.blocks.iter().for_each(|block| self.block(block));
        let Some(native) = &message.native else { return };
        let reported =
            session.findings.iter().any(|finding| finding.rule == Rule::UnreadText && stands_at(finding, at));
        if reported || session.format == "jsonl" {
            self.json(&format!("[{}]", native.raw.as_str()));
        } else if let Some(reading) = sessions::named(&native.format).and_then(|format| format.read.as_ref())
            && let Ok(doc) = Doc::parse(&format!("[{}]", native.raw.as_str()))
        {
            doc.root()
                .into_iter()
                .for_each(|root| self.declared(root, &mut Vec::new(), reading.known, native.raw.as_str()));
        }
    }

    /// The strings of declared fields.
    fn declared(&mut self, value: Value<'_>, path: &mut Vec<String>, known: &[Known], raw: &str) {
        let keys: Vec<Cow<'_, str>> = path.iter().map(|key| Cow::Borrowed(&**key)).collect();
        let is_declared = known.iter().any(|known| known.covers(&keys, raw));
        if is_declared {
            // The names of fields below a declared one are as well known as their values.
            let names = value.fields().filter_map(|(key, _)| key.as_str());
            self.texts.extend(value.as_str().into_iter().chain(names).map(Cow::into_owned));
        }
        value.items().for_each(|item| self.declared(item, path, known, raw));
        for (key, value) in value.fields() {
            path.push(key.as_str().unwrap_or_default().into_owned());
            self.declared(value, path, known, raw);
            path.pop();
        }
    }

    fn block(&mut self, block: &Block) {
        match &block.kind {
            BlockKind::Text(text) => self.text(text),
            BlockKind::Reasoning(reasoning) => self.text(&reasoning.text),
            BlockKind::ToolCall(call) => {
                self.text(call.id.as_str());
                self.text(&call.name);
                self.text(call.arguments.text());
            }
            BlockKind::ToolResult(result) => {
                result.name.iter().for_each(|name| self.text(name));
                result.call_id.iter().for_each(|id| self.text(id.as_str()));
                result.content.iter().for_each(|block| self.block(block));
            }
            BlockKind::Image(media) | BlockKind::Document(media) => self.media(media),
            BlockKind::Opaque(opaque) => self.json(opaque.raw.as_str()),
        }
    }

    fn media(&mut self, media: &Media) {
        media.name.iter().for_each(|name| self.text(name));
        match &media.source {
            MediaSource::Base64(text)
            | MediaSource::Url(text)
            | MediaSource::ProviderFile(text)
            | MediaSource::Plain(text) => {
                self.text(text);
            }
            MediaSource::Unusable => {}
        }
    }

    /// A text, whole and in the paragraphs that it may have been joined from; JSON in it counts too.
    fn text(&mut self, text: &str) {
        self.texts.extend(text.split("\n\n").map(str::to_owned));
        self.texts.insert(text.to_owned());
        if text.trim_start().starts_with(['{', '[']) {
            self.json(text);
        }
        // In a source that is no JSON, a line of a text may still be some.
        for line in
            text.lines().filter(|line| text.contains('\n') && line.trim_start().starts_with(['{', '[', '"']))
        {
            self.json(line.trim());
        }
    }

    fn json(&mut self, text: &str) {
        match Doc::parse(text) {
            Ok(doc) => self.texts.extend(doc.strings().map(Cow::into_owned)),
            Err(_) => self.damaged(text),
        }
    }

    /// Text that cannot be parsed is kept whole, so everything between two of its quotes is kept.
    fn damaged(&mut self, text: &str) {
        for (at, _) in text.match_indices('"') {
            let end = literal::end(text.as_bytes(), at).unwrap_or(text.len());
            self.texts.extend(text.get(at..end).map(|string| literal::decode(string).0.into_owned()));
        }
    }

    fn hold(&self, text: &str) -> bool {
        self.texts.contains(text) || text.split("\n\n").all(|part| self.texts.contains(part))
    }
}

fn position(place: SourcePlace) -> Position {
    Position { message: place.line.is_none().then_some(place.index), block: None, line: place.line }
}

fn stands_at(finding: &Finding, at: Position) -> bool {
    let tells =
        matches!(finding.rule, Rule::UnreadText | Rule::UnknownRole | Rule::DamagedEntry | Rule::TornTail);
    tells
        && (at.message.is_some() && finding.at.message == at.message
            || at.line.is_some() && finding.at.line == at.line)
}
