//! Building a session: messages and everything else, in the order of the source, with compactions and rewinds applied.
//!
//! Readers whose items are those of a dialect use that dialect's reader, which builds on this. A reader of another shape makes
//! messages with [`item`] and the functions beside it, and adds them here. Every message keeps the exact text of its source, so
//! that accounting can tell what was not read.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Form, Media, Message, Native, Origin, Raw, Role, Text, ToolCall,
    ToolResult, json::Value,
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::lines::Line;
use crate::{
    context::Context,
    media,
    messages::{MessageReader, Style, blocks::document_at},
    session::{Aside, CompactionPart, Detail, Session, SetAside, SourcePlace, derive_id},
    wire::registry::Dialect,
};

/// A session under construction.
#[derive(Clone)]
pub struct SessionBuilder {
    format: &'static str,
    /// The name of the format, for every item.
    native_format: Text,
    /// Gives ids to calls and results that have none.
    ids: MessageReader,
    pub messages: Vec<Arc<Message>>,
    pub places: Vec<SourcePlace>,
    pub details: Vec<Detail>,
    pub findings: Vec<Finding>,
    pub set_aside: Vec<SetAside>,
    /// Messages that compactions hid, in order.
    hidden: Vec<SetAside>,
    /// How many messages stayed visible at the last compaction.
    stayed: usize,
}

impl SessionBuilder {
    /// A session of a format, without messages yet.
    pub fn new(format: &'static str) -> Self {
        Self {
            format,
            native_format: Text::new(format),
            ids: MessageReader::new(Style::ToolCalls, None),
            messages: Vec::new(),
            places: Vec::new(),
            details: Vec::new(),
            findings: Vec::new(),
            set_aside: Vec::new(),
            hidden: Vec::new(),
            stayed: 0,
        }
    }

    /// The name of the format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// A message that is one item of the source, as [`item`] makes it.
    pub fn item(&self, role: Role, blocks: Vec<Block>, raw: Raw) -> Message {
        let native = Native::one(self.native_format.clone(), raw, false);
        Message { role, blocks, form: Form::Parts, native: Some(native) }
    }

    /// Makes room for messages.
    pub fn reserve(&mut self, messages: usize) {
        self.messages.reserve(messages);
        self.places.reserve(messages);
        self.details.reserve(messages);
    }

    /// Adds a message whose calls and results have ids.
    pub fn push(&mut self, mut message: Message, place: SourcePlace, detail: Detail) {
        find_places(&mut message);
        self.messages.push(Arc::new(message));
        self.places.push(place);
        self.details.push(detail);
    }

    /// Adds a message. Calls without an id get one, and so do results without one, in the order of the calls.
    pub fn say(&mut self, mut message: Message, place: SourcePlace, detail: Detail) {
        self.ids.assign_ids(&mut message, self.messages.len(), false);
        self.push(message, place, detail);
    }

    /// Sets aside something that the model does not see.
    pub fn aside(&mut self, place: SourcePlace, what: Aside) {
        self.set_aside.push(SetAside { place, after: self.messages.len(), what });
    }

    /// Sets aside something that cannot be read, and reports it.
    pub fn damaged(&mut self, place: SourcePlace, text: impl Into<Text>, why: impl Into<Text>) {
        self.aside(place, Aside::Raw(text.into()));
        self.findings.push(damage(place, why));
    }

    /// Sets aside a line that cannot be read, with its finding.
    pub fn damaged_line(&mut self, line: &Line, finding: Finding) {
        self.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        self.findings.push(finding);
    }

    /// Keeps a message that the model does not see: one on another branch, or one that the agent leaves out.
    pub fn hide(&mut self, mut message: Message, place: SourcePlace, detail: Detail) {
        find_places(&mut message);
        self.aside(place, Aside::Hidden(Arc::new(message), detail));
    }

    /// Hides everything so far, except the messages that stay.
    pub fn compact(&mut self, place: SourcePlace, stays: impl Fn(&Message) -> bool, summary: Text) {
        // Messages that stayed at the last compaction were kept then.
        let from = if self.stayed <= self.messages.len() { self.stayed } else { 0 };
        let messages = self.messages.split_off(from);
        let places = self.places.split_off(from);
        let details = self.details.split_off(from);
        let mut aside = std::mem::take(&mut self.set_aside).into_iter().peekable();
        let mut keep = |item: SetAside| self.hidden.push(SetAside { after: 0, ..item });
        for (number, ((message, place), detail)) in messages.into_iter().zip(places).zip(details).enumerate()
        {
            while let Some(item) = aside.next_if(|item| item.after <= from + number) {
                keep(item);
            }
            if stays(&message) {
                self.messages.push(Arc::clone(&message));
                self.places.push(place);
                // The record keeps both, and no two of its entries have the same id.
                let of_compaction = Some(CompactionPart::Repeat);
                self.details.push(Detail { id: None, of_compaction, ..detail.clone() });
            }
            keep(SetAside { place, after: 0, what: Aside::Hidden(message, detail) });
        }
        aside.for_each(&mut keep);
        keep(SetAside { place, after: 0, what: Aside::Compacted { summary } });
        self.stayed = self.messages.len();
    }

    /// Hides everything so far.
    pub fn replace(&mut self, place: SourcePlace) {
        self.compact(place, |_| false, Text::new(""));
        self.messages.clear();
        self.places.clear();
        self.details.clear();
        self.stayed = 0;
    }

    /// Marks the messages from an index on as those that came with the last compaction, and one of them as its summary.
    pub fn came_with_compaction(&mut self, from: usize, summary: Option<usize>) {
        for (index, detail) in self.details.iter_mut().enumerate().skip(from) {
            let is_summary = summary == Some(index);
            let part = if is_summary { CompactionPart::Summary } else { CompactionPart::Repeat };
            detail.of_compaction = Some(part);
        }
    }

    /// Hides the last turns. A turn starts at a message for which `begins` is true.
    pub fn roll_back(&mut self, turns: usize, begins: impl Fn(&Message) -> bool) {
        let starts = self.messages.iter().enumerate().rev().filter(|(_, message)| begins(message));
        let Some(from) = starts.map(|(index, _)| index).take(turns).last() else { return };
        self.roll_back_to(from);
    }

    /// Hides the message with this number, and all after it.
    pub fn roll_back_to(&mut self, from: usize) {
        // Only the end of the list changes.
        let tail = self.set_aside.partition_point(|item| item.after <= from);
        let mut tail = self.set_aside.split_off(tail);
        tail.iter_mut().for_each(|item| item.after = from);
        let places = self.places.drain(from..);
        let details = self.details.drain(from..);
        for ((message, place), detail) in self.messages.drain(from..).zip(places).zip(details) {
            let detail = Detail { is_elsewhere: true, ..detail };
            tail.push(SetAside { place, after: from, what: Aside::Hidden(message, detail) });
        }
        // Everything that is set aside stays in the order of the source.
        tail.sort_by_key(|item| item.place.index);
        self.set_aside.extend(tail);
        self.stayed = self.stayed.min(self.messages.len());
    }

    /// Returns the session of a file; its id derives from the source's own id, if there is one.
    pub fn finish(mut self, name: &str, own_id: Option<&str>, context: Context) -> Session {
        self.hidden.append(&mut self.set_aside);
        let first = self.messages.first().and_then(|message| message.native.as_ref());
        let id = derive_id(self.format, own_id, name, first.map(|native| &native.raw));
        Session {
            messages: self.messages,
            places: self.places,
            details: self.details,
            findings: self.findings,
            set_aside: self.hidden,
            ..Session::new(self.format, id, context)
        }
    }
}

/// Gives the texts of a message their places in its item, so that accounting need not search for them and the record stores them
/// once. In an item that may be sent again, the reader of its dialect has given them.
fn find_places(message: &mut Message) {
    if message.native.as_ref().is_none_or(|native| !native.regular) {
        message.find_places();
    }
}

/// A message that is one item of its source. The item's exact text is kept, but no codec sends that text.
pub fn item(format: &'static str, role: Role, blocks: Vec<Block>, raw: impl Into<Raw>) -> Message {
    let native = Native::one(Text::new(format), raw.into(), false);
    Message { role, blocks, form: Form::Parts, native: Some(native) }
}

/// A message that shares its item with the message before it, such as the result beside its call.
pub fn beside(role: Role, blocks: Vec<Block>) -> Message {
    Message { role, blocks, form: Form::Parts, native: None }
}

/// A call, with arguments as JSON or as a string that holds JSON.
pub fn call(id: Option<&str>, name: Option<&str>, arguments: Option<Value<'_>>) -> Block {
    let arguments = match arguments {
        None => Arguments::absent(),
        Some(given) if given.is_null() => Arguments::absent(),
        Some(given) => Arguments::new(as_text(given)),
    };
    Block::call(ToolCall::read(id.map(CallId::from), name.map(Text::new), arguments))
}

/// A result with these blocks.
pub fn result(id: Option<&str>, name: Option<&str>, content: Vec<Block>, is_error: bool) -> Block {
    let (call_id, name) = (id.map(CallId::from), name.map(Text::new));
    Block::result(ToolResult { call_id, name, content, form: Form::Parts, is_error })
}

/// A value as text: the content of a string, or the JSON of anything else. The text remembers its place in the document. When the
/// message is added to a session, that becomes a place in the message's item.
pub fn as_text(value: Value<'_>) -> Text {
    value.to_text(0).unwrap_or_else(|| value.to_raw_text(0))
}

/// The text of a string field, with its place as [`as_text`] gives it.
pub fn text_in(value: Value<'_>, name: &str) -> Option<Text> {
    value.given(name)?.to_text(0)
}

/// A part of a text as a text that shares it.
pub fn part_of(text: &Arc<str>, part: &str) -> Text {
    Text::slice(slice_of(text, part))
}

/// Makes part of a text the item of a message: a JSON string, wrapped in `{field: …}` if a field is named.
pub fn plain_item(text: &Arc<str>, part: &str, field: Option<&'static str>) -> Raw {
    Raw::plain(slice_of(text, part), field)
}

fn slice_of(text: &Arc<str>, part: &str) -> Raw {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    Raw::slice(text, start, start.wrapping_add(part.len())).unwrap_or_else(|| Raw::new(part))
}

/// The context of a source that names no dialect, and perhaps the model that spoke.
pub fn context(model: Option<&str>) -> Context {
    Context::of_model(Dialect::OpenAiChat, model)
}

/// The place of an item in a source without lines.
pub fn nth(index: usize) -> SourcePlace {
    SourcePlace { index, offset: 0, line: None }
}

/// The text after a list, or after its last whole item if an error cut the list off between two items. An item that was cut off keeps
/// the rest itself.
pub fn rest_after<'t>(list: Value<'_>, text: &'t str) -> Option<&'t str> {
    let last = list.items().last().filter(|last| !last.is_cut())?;
    let end = if list.is_cut() { last.end() } else { list.end() };
    text.get(end..).filter(|rest| !rest.trim().is_empty())
}

/// Reports an item that cannot be read.
pub fn damage(place: SourcePlace, why: impl Into<Text>) -> Finding {
    let message = place.line.is_none().then_some(place.index);
    let at = Position { message, block: None, line: place.line };
    Finding::new(Rule::DamagedEntry, at, Action::SetAside).because(why)
}

/// What a model thought, as far as it can be read. No provider can verify it.
pub fn thought(text: Text, format: &str, model: Option<&str>) -> Block {
    Block::reasoning(text, false, Origin::of(format, model.map(Text::new)))
}

/// An image or a document at an address, or in a data URL.
pub fn medium(url: &str, media_type: Option<&str>, name: Option<&str>) -> Block {
    let image = media_type.map_or_else(|| url.starts_with("data:image/"), |kind| kind.starts_with("image/"));
    let (told, source) = if image { media::image_at(Text::new(url)) } else { document_at(Text::new(url)) };
    let media_type = told.or_else(|| media_type.map(Text::new));
    let media = Box::new(Media { media_type, source, name: name.map(Text::new) });
    Block::new(if image { BlockKind::Image(media) } else { BlockKind::Document(media) })
}

/// A block that has no counterpart in other formats, kept verbatim.
pub fn opaque(kind: &str, value: Value<'_>) -> Block {
    Block::opaque(kind, Raw::new(value.raw()), false)
}
