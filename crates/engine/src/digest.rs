//! Derives the summary of a conversation that a store lists: title, state, time, and the words to search for.

use rejoin_formats::{Context, session};
use rejoin_record::{
    Block, BlockKind, Content, Entry, Kind, Message, Scope, Text, Timestamp, Tree, content,
    json::{Doc, Value},
};
use rejoin_store::{About, Digest, ReportRows, SessionState, Summarize, Title, Words};
use rejoin_view::PathState;

use crate::{calls::CallKey, report};

/// Makes the digester for rejoin's stores. It starts at the beginning of a conversation, or continues from `kept`, the state that
/// it saved.
pub fn digest(kept: Option<&str>) -> Box<dyn Summarize> {
    Box::new(PathDigester(kept.map_or_else(PathState::default, PathState::from_text)))
}

struct PathDigester(PathState);

impl Summarize for PathDigester {
    fn add(&mut self, entry: &Entry) -> Digest {
        let content = match entry.envelope().kind {
            // Do not parse the list, which may be long: neither the state nor the digest depends on it.
            Kind::Prune => Content::Prune(content::Prune::default()),
            _ => Content::of(entry),
        };
        self.0.add(entry, &content);
        digest_of(entry, content)
    }

    fn state(&self) -> Option<SessionState> {
        (!self.0.is_lost()).then(|| crate::state::listed(&self.0))
    }

    fn messages(&self) -> Option<u64> {
        Some(self.0.messages())
    }

    fn review(&mut self, entries: &[Entry]) {
        self.0 = PathState::of(&Tree::new(entries));
    }

    fn report(&self, entries: &[Entry], key: &[u8; 32]) -> ReportRows {
        report::of(entries, &CallKey(*key))
    }

    fn keep(&self) -> String {
        self.0.to_text()
    }
}

pub(crate) fn digest_of(entry: &Entry, content: Content) -> Digest {
    let mut digest = Digest { time: counted_time(entry), ..Digest::default() };
    match content {
        Content::Header(header) => {
            digest.about = About {
                provider: own(header.provider),
                model: own(header.model),
                directory: own(header.directory),
                format: own(header.format),
            };
        }
        Content::Message(message) => {
            digest.title = session::line_said_in(&message).map(Title::FromMessage);
            digest.is_message = true;
            digest.words = words(message.role.as_str(), text_of(&message));
        }
        Content::Meta(meta) => {
            let one_line = |title: Text| title.split_whitespace().collect::<Vec<_>>().join(" ");
            let title = meta.title.map(one_line).filter(|title| !title.is_empty());
            digest.words = title.clone().and_then(|title| words("title", title));
            digest.title = title.map(Title::Given);
            digest.forked_from = meta.scope.as_ref().and_then(|scope| forked_from(scope.as_str()));
            digest.scope = meta.scope.as_ref().and_then(Scope::read);
        }
        Content::Context(context) => (digest.about.provider, digest.about.model) = target(&context),
        Content::Command(command) => {
            digest.words = words("command", format!("{}\n{}", command.command, command.output));
        }
        Content::Compacted(compacted) => digest.words = words("summary", compacted.summary),
        _ => {}
    }
    digest
}

/// The time of an entry: for an imported one the source's own time, if it has one; otherwise the time when it was appended.
pub fn time_of(entry: &Entry) -> Option<Timestamp> {
    let envelope = entry.envelope();
    let source = envelope.source_time.as_ref().and_then(|time| session::instant(time));
    source.or_else(|| (!entry.id().is_derived()).then_some(envelope.timestamp))
}

/// The time of an entry if it counts as activity. A new title or an erasure does not.
fn counted_time(entry: &Entry) -> Option<Timestamp> {
    let kind = &entry.envelope().kind;
    time_of(entry).filter(|_| !matches!(kind, Kind::Meta | Kind::Erased))
}

fn own(text: Option<Text>) -> Option<String> {
    text.map(|text| text.to_string()).filter(|text| !text.is_empty())
}

fn words(role: &str, text: impl Into<Text>) -> Option<Words> {
    let text = text.into();
    (!text.trim().is_empty()).then(|| Words { role: role.to_owned(), text })
}

/// The searchable texts of a message, one per line. A single text is shared, not copied.
fn text_of(message: &Message) -> Text {
    let mut texts: Vec<&Text> = Vec::new();
    for block in &message.blocks {
        match &block.kind {
            BlockKind::Text(text) => texts.push(text),
            BlockKind::Reasoning(reasoning) => texts.push(&reasoning.text),
            BlockKind::ToolCall(call) => texts.extend([&call.name, call.arguments.text()]),
            BlockKind::ToolResult(result) => texts.extend(result.content.iter().filter_map(Block::as_text)),
            BlockKind::Image(media) | BlockKind::Document(media) => texts.extend(&media.name),
            BlockKind::Opaque(_) => {}
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    match texts[..] {
        [only] => only.clone(),
        _ => texts.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n").into(),
    }
}

/// The id of the conversation from which a fork was made.
fn forked_from(scope: &str) -> Option<String> {
    let doc = Doc::parse(scope).ok()?;
    let from = doc.root()?.given("forked_from")?.given("conversation")?.as_str()?.into_owned();
    Some(from)
}

/// The provider and the model of a context, in the engine's own form or as an imported request names them.
fn target(context: &content::RecordedContext) -> (Option<String>, Option<String>) {
    let Some(target) = &context.target else { return (None, None) };
    let doc = Doc::parse(target.as_str());
    let root = doc.as_ref().ok().and_then(Doc::root);
    let field = |name: &str| {
        let text = root?.given(name).and_then(Value::as_str)?.into_owned();
        (!text.is_empty()).then_some(text)
    };
    let imported = || Context::from_json(target.as_str())?.model();
    (field("provider"), field("model").or_else(imported))
}
