//! A sound view: the input of a codec. Only the repair pass can make one.
//!
//! Its types rule out illegal states: a call carries its result inside its [`Exchange`], so there is no call without a result, no
//! result without a call, and no wrong order.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::list::List;
use rejoin_record::{Arguments, Block, BlockKind, CallId, Message, Role, ToolCall, ToolResult, json::Object};

/// The speaker's role in a view. Tools have none: their results belong to the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundRole {
    /// Instructions.
    System,
    /// Instructions, under the newer name.
    Developer,
    /// A person.
    User,
    /// The model.
    Assistant,
}

impl SoundRole {
    /// The role in a view for a message of this role; `None` for a role that no provider knows.
    pub(crate) fn of(role: &Role) -> Option<Self> {
        Some(match role {
            Role::System => Self::System,
            Role::Developer => Self::Developer,
            Role::User | Role::Tool => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Other(_) => return None,
        })
    }
}

/// A stretch of a view: messages, and the items made from them. Views of one running conversation share their chunks.
#[derive(Debug)]
pub struct Chunk {
    /// The list that the items refer to; a chunk may show only a part of it.
    pub(crate) messages: Arc<Vec<Arc<Message>>>,
    /// The number of the first message in the list.
    pub(crate) base: u32,
    pub(crate) items: Vec<Item>,
}

impl Chunk {
    /// The items, in order.
    pub fn items(&self) -> impl Iterator<Item = ItemRef<'_>> {
        self.items.iter().map(|item| ItemRef { chunk: self, item })
    }

    fn message(&self, index: u32) -> &Arc<Message> {
        &self.messages[(index - self.base) as usize]
    }
}

/// Message and block of a result in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(crate) message: u32,
    pub(crate) block: u32,
}

/// A result in the source.
#[derive(Debug, Clone, Copy)]
pub struct ResultRef<'v> {
    chunk: &'v Chunk,
    place: Place,
}

impl<'v> ResultRef<'v> {
    /// The result.
    ///
    /// # Panics
    /// Never: a reference is made only for a result.
    pub fn result(self) -> &'v ToolResult {
        self.block().as_result().expect("BUG: a result reference names a result")
    }

    /// Its block.
    pub fn block(self) -> &'v Block {
        &self.message().blocks[self.place.block as usize]
    }

    /// The message that contains the result.
    pub fn message(self) -> &'v Arc<Message> {
        self.chunk.message(self.place.message)
    }

    /// Its message and block in the source.
    pub fn at(self) -> (usize, usize) {
        (self.place.message as usize, self.place.block as usize)
    }
}

/// How a call was answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// By the result directly after the call.
    InPlace(Place),
    /// By a result elsewhere, or by several, joined in order.
    Gathered(Vec<Place>),
    /// No result was recorded.
    Missing,
}

/// The text of the result that is added for a call without one.
pub const NO_RESULT: &str = "[no result was recorded for this call; it may or may not have run]";

/// The arguments of a call as they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentsUse {
    /// The exact text, which is an object.
    AsWritten,
    /// `{}`, because the call has no arguments.
    Empty,
    /// The raw text, wrapped in an object.
    Wrapped,
}

/// The most bytes of arguments that are sent. OpenAI refuses a text of more than 10 MiB; no tool needs as much.
pub(crate) const LONGEST_ARGUMENTS: usize = 8 * 1024 * 1024;

/// The arguments, or the text that replaces them if they are too long to send.
pub(crate) fn arguments_in_brief(arguments: &Arguments) -> Cow<'_, str> {
    let text = arguments.text().as_str();
    if text.len() > LONGEST_ARGUMENTS { wrapped_arguments(arguments).into() } else { text.into() }
}

/// Wraps arguments that are not an object in a JSON object with their raw text, or with its length if it is too long to send.
pub fn wrapped_arguments(arguments: &Arguments) -> String {
    let length = arguments.text().as_str().len();
    if length > LONGEST_ARGUMENTS {
        let label = format_args!("[{length} bytes, too many to be shown]");
        return Object::new().text("_raw_arguments", label).finish();
    }
    Object::with_room(length + 24).str("_raw_arguments", arguments.text()).finish()
}

/// A call together with its result.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) block: u32,
    pub(crate) arguments: ArgumentsUse,
    pub(crate) renamed: Option<Box<CallId>>,
    pub(crate) answer: Answer,
}

/// A call together with its result, and their chunk.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeRef<'v> {
    chunk: &'v Chunk,
    exchange: &'v Exchange,
    call: &'v ToolCall,
}

impl<'v> ExchangeRef<'v> {
    /// The call.
    pub fn call(self) -> &'v ToolCall {
        self.call
    }

    /// The block of the call in the item's message.
    pub fn block(self) -> usize {
        self.exchange.block as usize
    }

    /// The id of the call in the view.
    pub fn id(self) -> &'v CallId {
        self.renamed().unwrap_or(&self.call.id)
    }

    /// The id that replaces the call's own id, if that one was taken.
    pub fn renamed(self) -> Option<&'v CallId> {
        self.exchange.renamed.as_deref()
    }

    /// The arguments as they are sent.
    pub fn arguments(self) -> ArgumentsUse {
        self.exchange.arguments
    }

    /// The result directly after the call, if it is the only one.
    pub fn in_place(self) -> Option<ResultRef<'v>> {
        match &self.exchange.answer {
            Answer::InPlace(place) => Some(ResultRef { chunk: self.chunk, place: *place }),
            Answer::Gathered(_) | Answer::Missing => None,
        }
    }

    /// The result of a call with exactly one result.
    pub fn only_result(self) -> Option<ResultRef<'v>> {
        let mut results = self.results();
        results.next().filter(|_| results.len() == 0)
    }

    /// The results, in order; empty if none was recorded.
    pub fn results(self) -> impl ExactSizeIterator<Item = ResultRef<'v>> {
        let places = match &self.exchange.answer {
            Answer::InPlace(place) => std::slice::from_ref(place),
            Answer::Gathered(places) => places,
            Answer::Missing => &[],
        };
        places.iter().map(move |place| ResultRef { chunk: self.chunk, place: *place })
    }
}

/// A piece of an item.
#[derive(Debug, Clone)]
pub enum Part {
    /// A block of the item's message, by index: text, reasoning, media or opaque.
    Block(u32),
    /// A call with its result.
    Exchange(Exchange),
    /// A result without a call, to be shown as labelled text.
    Orphan(u32),
}

/// The pieces of an item.
#[derive(Debug, Clone)]
pub enum Parts {
    /// Every block of the message, none of them a call or a result.
    Whole,
    /// These pieces.
    Some(Vec<Part>),
}

/// The part of one message that a view shows.
#[derive(Debug, Clone)]
pub struct Item {
    pub(crate) role: SoundRole,
    /// Whether every block of the source message is here, in order, with calls unchanged (results move to their calls).
    pub(crate) complete: bool,
    pub(crate) index: u32,
    pub(crate) parts: Parts,
}

/// One message of a view.
#[derive(Clone, Copy)]
pub struct ItemRef<'v> {
    chunk: &'v Chunk,
    item: &'v Item,
}

impl fmt::Debug for ItemRef<'_> {
    /// Shows positions in the source, which are the same in every chunk that shows the same message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.item, f)
    }
}

impl<'v> ItemRef<'v> {
    /// The speaker's role.
    pub fn role(self) -> SoundRole {
        self.item.role
    }

    /// The source message.
    pub fn message(self) -> &'v Arc<Message> {
        self.chunk.message(self.item.index)
    }

    /// The index of the source message.
    pub fn index(self) -> usize {
        self.item.index as usize
    }

    /// Whether the whole source message is here, unchanged, under its own role.
    pub fn is_complete(self) -> bool {
        self.item.complete
    }

    /// The pieces, in order.
    pub fn parts(self) -> impl Iterator<Item = PartRef<'v>> {
        let blocks = &self.message().blocks;
        let whole = match &self.item.parts {
            Parts::Whole => blocks.len(),
            Parts::Some(parts) => parts.len(),
        };
        (0..whole).map(move |place| match &self.item.parts {
            Parts::Whole => PartRef::Block(place, &blocks[place]),
            Parts::Some(parts) => self.part(&parts[place]),
        })
    }

    fn part(self, part: &'v Part) -> PartRef<'v> {
        let blocks = &self.message().blocks;
        match part {
            Part::Block(block) => PartRef::Block(*block as usize, &blocks[*block as usize]),
            Part::Orphan(block) => {
                let result = blocks[*block as usize].as_result();
                PartRef::Orphan(*block as usize, result.expect("BUG: an orphan is a result"))
            }
            Part::Exchange(exchange) => {
                let call = blocks[exchange.block as usize].as_call().expect("BUG: an exchange names a call");
                PartRef::Exchange(ExchangeRef { chunk: self.chunk, exchange, call })
            }
        }
    }

    /// The calls with their results, in order.
    pub fn exchanges(self) -> impl Iterator<Item = ExchangeRef<'v>> {
        let parts: &[Part] = match &self.item.parts {
            Parts::Whole => &[],
            Parts::Some(parts) => parts,
        };
        parts.iter().filter_map(move |part| match self.part(part) {
            PartRef::Exchange(exchange) => Some(exchange),
            _ => None,
        })
    }
}

/// A piece of an item, resolved.
#[derive(Debug, Clone, Copy)]
pub enum PartRef<'v> {
    /// A block, with its index.
    Block(usize, &'v Block),
    /// A call with its result.
    Exchange(ExchangeRef<'v>),
    /// A result without a call, with its block index.
    Orphan(usize, &'v ToolResult),
}

/// The label at the beginning of an orphan's text.
pub fn orphan_label(result: &ToolResult) -> String {
    let tool = result.name.as_ref().filter(|name| !name.is_blank()).map(|name| format!(" of tool {name}"));
    let call = result.call_id.as_ref().map(|id| format!(" for call {id}"));
    format!(
        "[tool result{}{}, whose call is not in this conversation]",
        tool.unwrap_or_default(),
        call.unwrap_or_default()
    )
}

/// The first place that the repair pass changed. Everything before it is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstChange {
    /// The index of the item.
    pub item: usize,
    /// The index of the piece in the item.
    pub part: usize,
}

/// A view in which every call has exactly one result and every result its call.
#[derive(Debug, Clone)]
pub struct SoundView {
    /// The chunks of sent requests. Views of one running conversation share them.
    pub(crate) sealed: List<Arc<Chunk>>,
    /// The chunk that was added since.
    pub(crate) open: Option<Arc<Chunk>>,
    pub(crate) first_change: Option<FirstChange>,
}

impl SoundView {
    /// The messages of the view, in order.
    pub fn items(&self) -> impl Iterator<Item = ItemRef<'_>> {
        self.chunks().flat_map(|chunk| chunk.items())
    }

    /// Its last message.
    pub fn last(&self) -> Option<ItemRef<'_>> {
        // Chunks are never empty.
        let chunk = self.open.as_ref().or(self.sealed.last())?;
        Some(ItemRef { chunk, item: chunk.items.last()? })
    }

    /// The chunks of the view, which views of one running conversation share.
    pub fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.sealed.iter().chain(&self.open)
    }

    /// The final chunks, with which requests were sent. A chunk belongs to one place in one conversation, so everything before it
    /// is the same in every view that has it.
    pub fn sealed(&self) -> &List<Arc<Chunk>> {
        &self.sealed
    }

    /// The chunk after the final ones, if there is one.
    pub fn open(&self) -> Option<&Arc<Chunk>> {
        self.open.as_ref()
    }

    /// The first place that the repair pass changed.
    pub fn first_change(&self) -> Option<FirstChange> {
        self.first_change
    }

    /// The view as plain messages: each result becomes a message after its call, unless the source had both in one message.
    /// Unchanged messages are those of the source.
    pub fn to_messages(&self) -> Vec<Message> {
        self.items().flat_map(ItemRef::to_messages).collect()
    }
}

impl ItemRef<'_> {
    /// The item as plain messages: first its own, then the results of its calls.
    pub fn to_messages(self) -> Vec<Message> {
        let own = if self.is_complete() { Message::clone(self.message()) } else { plain_message(self) };
        let results = self.exchanges().map(result_message);
        [own].into_iter().chain(results).collect()
    }
}

fn plain_message(item: ItemRef<'_>) -> Message {
    let role = match item.role() {
        SoundRole::System => Role::System,
        SoundRole::Developer => Role::Developer,
        SoundRole::User => Role::User,
        SoundRole::Assistant => Role::Assistant,
    };
    let mut blocks = Vec::new();
    for part in item.parts() {
        match part {
            PartRef::Block(_, block) => blocks.push(Block { span: None, ..block.clone() }),
            PartRef::Orphan(_, result) => {
                blocks.push(Block::text(orphan_label(result)));
                blocks.extend(result.content.iter().map(plain_block));
            }
            PartRef::Exchange(exchange) => blocks.push(Block::call(exchange.sound_call())),
        }
    }
    Message { form: item.message().form, ..Message::new(role, blocks) }
}

/// A block of a result as part of a separate message. A call or a result inside the result becomes text: as a block, it would be a
/// call that was never made.
fn plain_block(block: &Block) -> Block {
    match &block.kind {
        BlockKind::ToolCall(call) => Block::text(format!("{} {}", call.name, call.arguments.text()).trim()),
        BlockKind::ToolResult(result) => {
            let texts: Vec<&str> =
                result.content.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
            Block::text(texts.join("\n"))
        }
        _ => Block { span: None, ..block.clone() },
    }
}

impl ExchangeRef<'_> {
    /// The call in the form in which it is sent: with its final id, and an object as arguments.
    pub fn sound_call(self) -> ToolCall {
        let (id, call) = (self.id().clone(), self.call);
        match self.arguments() {
            ArgumentsUse::AsWritten => ToolCall { id, id_given: true, ..call.clone() },
            ArgumentsUse::Empty => ToolCall::new(id, call.name.clone(), "{}"),
            ArgumentsUse::Wrapped => ToolCall::new(id, call.name.clone(), wrapped_arguments(&call.arguments)),
        }
    }
}

fn result_message(exchange: ExchangeRef<'_>) -> Message {
    let id = exchange.id().clone();
    if let Some(result) = exchange.in_place() {
        // A message that consists of just this result is sent unchanged.
        let speaks = matches!(result.message().role, Role::Tool | Role::User);
        if exchange.renamed().is_none() && result.message().blocks.len() == 1 && speaks {
            return Message::clone(result.message());
        }
    }
    let mut results = exchange.results();
    let mut result = match results.next() {
        None => ToolResult { is_error: true, ..ToolResult::new(id.clone(), NO_RESULT) },
        Some(first) => {
            let mut joined = first.result().clone();
            for other in results {
                joined.content.extend(other.result().content.iter().cloned());
                joined.is_error &= other.result().is_error;
            }
            joined
        }
    };
    result.call_id = Some(id);
    result.content.iter_mut().for_each(|block| block.span = None);
    let form = result.form;
    Message { form, ..Message::new(Role::Tool, vec![Block::result(result)]) }
}
