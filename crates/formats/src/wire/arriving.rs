//! What the decoders of all dialects share: from bytes to events, and from the last event to the received message.
//!
//! A dialect implements [`Assembly`]: it interprets events and rebuilds the item that the provider would have sent without
//! streaming. Bytes are split into JSON objects here; a response that is not streamed is a single event.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Media, MediaSource, Message, Opaque, Raw, Reasoning, Role, Text,
    ToolCall,
    hash::short_name,
    json::{Doc, Value, ValueKind},
    limits,
};

use super::{
    documents::Documents,
    sse::Sse,
    stream::{Delta, End, Received, ReportedFault, StopReason, StreamDecoder, Usage},
    usage::{Counted, UsageFields},
};

/// Assembles the events of a response into a message.
pub(crate) trait Assembly: Default + Send + 'static {
    /// Takes an event or a whole response; false if `event` is neither.
    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool;
    /// Whether an event repeats what earlier ones said, and nothing of it is kept.
    fn repeats(_name: &str, _event: Value<'_>) -> bool {
        false
    }
    /// The item that the provider would have sent without streaming, as far as it was received; `None` if it is empty.
    fn item(self, seen: &Facts, complete: bool) -> Option<Item>;
    /// Reads the item, a value of the text in `buffer`.
    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message>;
}

/// The item that was assembled from a response.
pub(crate) struct Item {
    pub(crate) json: String,
    /// Whether it is complete, and is kept beside the message.
    pub(crate) whole: bool,
    /// Whether its last block is incomplete.
    pub(crate) halted: bool,
}

/// What a response says besides its message.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) stop: Option<StopReason>,
    pub(crate) fault: Option<ReportedFault>,
    pub(crate) model: Option<String>,
    usage: Option<Usage>,
    pub(crate) done: bool,
    counted: Counted,
    /// A hash of all events, different for every response.
    pub(crate) seed: String,
}

impl Facts {
    /// Records the model, if it is the first one named.
    pub(crate) fn model(&mut self, holder: Value<'_>, field: &str) {
        if self.model.is_none() {
            let name = holder.given(field).and_then(Value::as_str);
            self.model = name.filter(|name| !name.is_empty()).map(|name| name.into_owned());
        }
    }

    pub(crate) fn model_text(&self) -> Option<Text> {
        self.model.as_deref().map(Text::new)
    }

    pub(crate) fn count(&mut self, fields: &UsageFields, usage: Option<Value<'_>>) {
        usage.into_iter().for_each(|usage| self.counted.add(fields, usage));
        self.usage = self.counted.usage(fields);
    }
}

/// Emits a delta, unless it is empty.
pub(crate) fn show(piece: String, kind: fn(String) -> Delta, out: &mut Vec<Delta>) {
    if !piece.is_empty() {
        out.push(kind(piece));
    }
}

/// The text of a field; empty if there is none.
pub(crate) fn word(holder: Value<'_>, name: &str) -> String {
    holder.word(name).into_owned()
}

pub(crate) struct Decoder<A> {
    /// The first bytes, until they show the framing.
    head: Vec<u8>,
    framing: Framing,
    state: StreamState<A>,
}

enum Framing {
    Unknown,
    Events(Sse),
    Documents(Documents),
}

#[derive(Default)]
struct StreamState<A> {
    assembly: A,
    seen: Facts,
    /// Why the bytes are no response.
    broken: Option<String>,
    /// Bytes of all events so far, and their limit. Events that only repeat others are counted apart.
    taken: usize,
    limit: usize,
    repeated: usize,
    any: bool,
    /// The number of events with content, and the hash of the last event.
    said: u64,
    last: u64,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl<A: Assembly> Decoder<A> {
    pub(crate) fn boxed() -> Box<dyn StreamDecoder> {
        Box::new(Self::new())
    }

    fn new() -> Self {
        let state = StreamState { limit: limits::ANSWER_BYTES, ..StreamState::default() };
        Self { head: Vec::new(), framing: Framing::Unknown, state }
    }

    /// Detects the framing and returns the remaining bytes.
    fn begin<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        for (at, &byte) in bytes.iter().enumerate() {
            self.head.push(byte);
            let blank = matches!(self.head[..], [b' ' | b'\t' | b'\r' | b'\n']);
            if blank || self.head == BOM {
                self.head.clear();
            } else if !BOM.starts_with(&self.head) {
                self.framing = match self.head[0] {
                    b'{' | b'[' => Framing::Documents(Documents::default()),
                    _ => Framing::Events(Sse::default()),
                };
                return &bytes[at + 1..];
            }
        }
        &[]
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<Delta>) {
        let state = &mut self.state;
        let fed = match &mut self.framing {
            Framing::Unknown => Ok(()),
            Framing::Events(sse) => sse.feed(bytes, &mut |name, data| state.event(name, data, out)),
            Framing::Documents(documents) => documents.feed(bytes, &mut |text| state.document(text, out)),
        };
        if let Err(wrong) = fed {
            state.breaks(wrong.to_string());
        }
    }
}

impl<A: Assembly> StreamDecoder for Decoder<A> {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) {
        if self.is_done() {
            return;
        }
        let rest = match self.framing {
            Framing::Unknown => self.begin(bytes),
            _ => bytes,
        };
        if !matches!(self.framing, Framing::Unknown) {
            let head = std::mem::take(&mut self.head);
            self.take(&head, out);
            self.take(rest, out);
            // A response that is not streamed has no event before its last byte, but it is not silent while it arrives.
            let is_open = matches!(self.framing, Framing::Documents(_)) && !self.state.any;
            self.state.said += u64::from(is_open && !bytes.trim_ascii().is_empty());
        }
    }

    fn is_done(&self) -> bool {
        self.state.is_over()
    }

    fn events_with_content(&self) -> u64 {
        self.state.said
    }

    fn repeated(&self) -> usize {
        self.state.repeated
    }

    fn finish(self: Box<Self>) -> Received {
        let Self { framing, mut state, .. } = *self;
        if let Framing::Events(mut sse) = framing {
            let strangely = sse.ends_strangely();
            sse.finish(&mut |name, data| state.last_event(name, data));
            if !state.any && (strangely || sse.strange().is_some()) {
                let what = sse.strange().unwrap_or_default();
                state.breaks(format!("it is no stream of events: `{}`", beginning(&what)));
            }
        }
        state.finish()
    }
}

impl<A: Assembly> StreamState<A> {
    fn is_over(&self) -> bool {
        self.broken.is_some() || self.seen.done
    }

    fn breaks(&mut self, why: String) {
        if !self.is_over() {
            self.broken = Some(why);
        }
    }

    /// Takes an event that a blank line ended.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<Delta>) {
        let data = data.trim();
        if self.is_over() || data.is_empty() {
            return;
        }
        if data == LAST {
            self.any = true;
            self.seen.stop.get_or_insert(StopReason::Done);
            self.seen.done = true;
            return;
        }
        let doc = Doc::of(data);
        let root = doc.root();
        if let Some(event) = root.filter(|root| root.kind() == ValueKind::Object) {
            self.object(name, event, data, out);
            return;
        }
        self.breaks(format!("an event in it is not a JSON object: `{}`", beginning(data)));
    }

    /// Takes what is left at the end of the bytes, unless it is incomplete.
    fn last_event(&mut self, name: &str, data: &str) {
        let whole = data.trim() == LAST || Doc::parse(data).is_ok();
        if whole {
            self.event(name, data, &mut Vec::new());
        }
    }

    /// Takes a JSON object outside a stream of events.
    fn document(&mut self, text: &str, out: &mut Vec<Delta>) {
        if self.is_over() {
            return;
        }
        let doc = Doc::of(text);
        let Some(root) = doc.root() else {
            self.breaks(format!("it is no JSON: `{}`", beginning(text)));
            return;
        };
        if !self.object("", root, text, out) && self.seen.fault.is_none() {
            // Servers between us and the provider report errors in many forms.
            let words = ["message", "Message", "detail", "error_description", "errors"];
            match words.iter().find_map(|name| root.given(name)) {
                Some(words) => {
                    let message = words.as_str().unwrap_or_else(|| words.raw().into()).into_owned();
                    self.fails(ReportedFault { kind: kind_of(root), message });
                }
                None => self.breaks(format!("it is JSON, but no response: `{}`", beginning(text))),
            }
        }
    }

    fn object(&mut self, name: &str, event: Value<'_>, text: &str, out: &mut Vec<Delta>) -> bool {
        self.any = true;
        // Everything is repeated twice at most, so that a stream of nothing else has an end, too.
        let room = (2 * self.taken).saturating_sub(self.repeated);
        let repeated = if A::repeats(name, event) { text.len().min(room) } else { 0 };
        self.repeated += repeated;
        self.taken += text.len() - repeated;
        if self.taken > self.limit {
            self.breaks(format!("it exceeds {} MiB", self.limit >> 20));
            return true;
        }
        self.seen.seed = short_name(&format!("{} {text}", self.seen.seed), 24);
        let says = |field| event.says(field, "error");
        let shown = out.len();
        let known = self.assembly.event(name, event, &mut self.seen, out);
        let before = std::mem::replace(&mut self.last, hash(text));
        let is_ping = event.get("type").is_some_and(|kind| kind.is_str("ping") || kind.is_str("keepalive"));
        // Some servers repeat an empty event to keep the connection open.
        if out.len() > shown || (self.last != before && !is_ping) {
            self.said += 1;
        }
        if let Some(error) = event.given("error") {
            self.fails(fault_in(error));
        } else if name == "error" || says("type") || says("object") {
            self.fails(fault_in(event));
        }
        known
    }

    fn fails(&mut self, fault: ReportedFault) {
        self.seen.fault.get_or_insert(fault);
        self.seen.done = true;
    }

    fn finish(self) -> Received {
        let Self { assembly, seen, broken, .. } = self;
        let complete = seen.fault.is_none() && seen.stop.is_some();
        let message = assembly.item(&seen, complete).and_then(|Item { json, whole, halted }| {
            let buffer: Arc<str> = json.into();
            let doc = Doc::parse(&buffer).ok()?;
            let message = A::read(doc.root()?, &buffer, &seen)?;
            Some(if whole { message } else { without_item(message, halted) })
        });
        let end = match (seen.fault, seen.stop, broken) {
            (Some(fault), ..) => End::Failed(fault),
            (None, Some(stop), _) => End::Complete(stop),
            (None, None, Some(why)) => End::Garbage(why),
            (None, None, None) => End::Cut,
        };
        let is_filled = |block: &Block| block.as_text().is_none_or(|text| !text.is_empty());
        let message = message.filter(|message| message.blocks.iter().any(is_filled));
        // Whatever role the item names, it is the model's answer.
        let message = message.map(|message| Message { role: Role::Assistant, ..message });
        Received { message, end, model: seen.model, usage: seen.usage }
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The data of the last event, in the streams of some servers.
const LAST: &str = "[DONE]";

/// The beginning of a text, for an error message.
fn beginning(text: &str) -> String {
    const SHOWN: usize = 120;
    let mut characters = text.chars();
    let shown: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() { shown + "…" } else { shown }
}

/// Reads a provider's error: a text, or an object with a message.
pub(crate) fn fault_in(error: Value<'_>) -> ReportedFault {
    let said = error.as_str().or_else(|| error.given("message")?.as_str());
    let mut message = said.unwrap_or_else(|| error.raw().into()).into_owned();
    // A service that forwards requests quotes the provider's refusal.
    let quoted = error.given("metadata").and_then(|more| more.given("raw")).and_then(Value::as_str);
    if let Some(quoted) = quoted.filter(|quoted| !quoted.is_empty()) {
        message = format!("{message}: {quoted}");
    }
    ReportedFault { kind: kind_of(error), message }
}

/// The most specific word for the kind of an error.
fn kind_of(error: Value<'_>) -> Option<String> {
    let word = |name| {
        let word = error.given(name)?.as_str()?;
        (!word.is_empty() && word != "error").then(|| word.into_owned())
    };
    let number =
        || error.given("code").filter(|code| code.kind() == ValueKind::Number).map(|code| code.raw().into());
    word("code").or_else(|| word("type")).or_else(|| word("status")).or_else(number)
}

/// Detaches an incomplete message from its item. `halted` means that its last block is incomplete as well.
pub(crate) fn without_item(message: Message, halted: bool) -> Message {
    let own = Text::without_place;
    let mut blocks: Vec<Block> = Vec::with_capacity(message.blocks.len());
    for block in message.blocks {
        let kind = match block.kind {
            BlockKind::Text(text) if text.is_empty() => continue,
            BlockKind::Text(text) => BlockKind::Text(own(&text)),
            BlockKind::Reasoning(held) => {
                let held = Reasoning { text: own(&held.text), ..*held };
                BlockKind::Reasoning(Box::new(held))
            }
            BlockKind::ToolCall(call) => BlockKind::ToolCall(ToolCall {
                id: CallId::new(own(call.id.text())),
                name: own(&call.name),
                arguments: Arguments::new(own(call.arguments.text())),
                ..call
            }),
            BlockKind::Image(media) => BlockKind::Image(Box::new(own_media(&media))),
            BlockKind::Document(media) => BlockKind::Document(Box::new(own_media(&media))),
            BlockKind::Opaque(opaque) => BlockKind::Opaque(Box::new(Opaque {
                kind: own(&opaque.kind),
                raw: Raw::new(opaque.raw.as_str()),
                fits: false,
            })),
            // Models do not send results.
            BlockKind::ToolResult(result) => BlockKind::ToolResult(result),
        };
        blocks.push(Block::new(kind));
    }
    if halted {
        // Several blocks of reasoning at the end are one thought in several forms.
        for block in blocks.iter_mut().rev() {
            let BlockKind::Reasoning(held) = &mut block.kind else { break };
            held.origin.incomplete = true;
        }
    }
    Message { blocks, native: None, ..message }
}

fn own_media(media: &Media) -> Media {
    let own = Text::without_place;
    let source = match &media.source {
        MediaSource::Base64(data) => MediaSource::Base64(own(data)),
        MediaSource::Url(url) => MediaSource::Url(own(url)),
        MediaSource::ProviderFile(id) => MediaSource::ProviderFile(own(id)),
        MediaSource::Plain(text) => MediaSource::Plain(own(text)),
        MediaSource::Unusable => MediaSource::Unusable,
    };
    Media { media_type: media.media_type.as_ref().map(own), source, name: media.name.as_ref().map(own) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::openai_chat::stream::ChatAssembly;

    /// Comments, pings and an empty event that comes again and again keep a connection open and say nothing.
    #[test]
    fn signs_of_life_say_nothing() {
        let mut decoder = Decoder::<ChatAssembly>::new();
        let mut feed = |bytes: &str| {
            decoder.feed(bytes.as_bytes(), &mut Vec::new());
            decoder.events_with_content()
        };
        assert_eq!(feed(": comment\n\n\n\ndata:\n\n"), 0);
        let empty = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n";
        assert_eq!(feed(empty), 1, "the first may say who answers");
        assert_eq!(feed(&empty.repeat(9)), 1);
        assert_eq!(feed("data: {\"type\":\"ping\"}\n\ndata: {\"type\": \"ping\"}\n\n"), 1);
        let word = empty.replace("\"\"", "\"ha\"");
        assert_eq!(feed(&word.repeat(3)), 4, "the same word three times is said three times");
        let call = |arguments| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n"
            )
        };
        assert_eq!(feed(&(call("1") + &call("2"))), 6, "what is not shown is said all the same");
    }

    /// Small events without end are given up as well; what they said stays.
    #[test]
    fn a_response_without_end_is_given_up() {
        let mut decoder = Decoder::<ChatAssembly>::new();
        decoder.state.limit = 1 << 20;
        let event = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ha\"}}]}\n\n";
        let mut deltas = Vec::new();
        let mut fed = 0;
        while !decoder.is_done() {
            decoder.feed(event, &mut deltas);
            fed += event.len();
            assert!(fed < 2 << 20, "it goes on for ever");
        }
        let received = Box::new(decoder).finish();
        assert!(matches!(&received.end, End::Garbage(why) if why.contains("1 MiB")), "{:?}", received.end);
        assert!(received.message.and_then(|message| message.content()).is_some_and(|text| text.len() > 1000));
    }

    /// Says nothing, and repeats itself.
    #[derive(Default)]
    struct Echo;

    impl Assembly for Echo {
        fn event(&mut self, _: &str, _: Value<'_>, _: &mut Facts, _: &mut Vec<Delta>) -> bool {
            true
        }
        fn repeats(name: &str, _: Value<'_>) -> bool {
            name == "again"
        }
        fn item(self, _: &Facts, _: bool) -> Option<Item> {
            None
        }
        fn read(_: Value<'_>, _: &Arc<str>, _: &Facts) -> Option<Message> {
            None
        }
    }

    /// Events that repeat others do not count, as long as there is something to repeat.
    #[test]
    fn repetitions_have_an_end() {
        let mut decoder = Decoder::<Echo>::new();
        decoder.state.limit = 1 << 20;
        let mut feed = |name: &str| {
            let event = format!("event: {name}\ndata: {{\"text\":\"{}\"}}\n\n", "ha".repeat(3 << 17));
            decoder.feed(event.as_bytes(), &mut Vec::new());
            decoder.is_done()
        };
        assert_eq!(["first", "again", "again"].map(&mut feed), [false; 3], "it was repeated twice");
        assert!(feed("again"), "it is repeated for ever");
    }
}
