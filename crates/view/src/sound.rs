//! A sound view: what a codec may encode. Only the repair pass can make one.
//!
//! Illegal states cannot be written: a call carries its result inside its [`Exchange`], so there is no call without a
//! result, no result without a call, and no order to get wrong.

use std::sync::Arc;

use rejoin_record::{Block, BlockKind, CallId, Message, Role, Text, ToolCall, ToolResult};

/// Who speaks in a view. Tools do not: their results belong to the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundRole {
    /// Instructions.
    System,
    /// Instructions, under the other name.
    Developer,
    /// A person.
    User,
    /// The model.
    Assistant,
}

/// A result as it stands in the source.
#[derive(Debug, Clone)]
pub struct ResultRef {
    pub(crate) message: Arc<Message>,
    pub(crate) index: u32,
    pub(crate) block: u32,
}

impl ResultRef {
    /// The result.
    ///
    /// # Panics
    /// Never: a reference is made only for a result.
    #[must_use]
    pub fn result(&self) -> &ToolResult {
        self.block().as_result().expect("BUG: a result reference names a result")
    }

    /// Its block.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.message.blocks[self.block as usize]
    }

    /// The message that it stands in.
    #[must_use]
    pub fn message(&self) -> &Arc<Message> {
        &self.message
    }

    /// Message and block in the source.
    #[must_use]
    pub fn at(&self) -> (usize, usize) {
        (self.index as usize, self.block as usize)
    }
}

/// How a call was answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// By the result that stands directly after it.
    InPlace(ResultRef),
    /// By results that stood elsewhere, or by more than one: joined in order.
    Gathered(Vec<ResultRef>),
    /// Not at all: no result was recorded.
    Missing,
}

impl Answer {
    /// The results, in order.
    #[must_use]
    pub fn results(&self) -> &[ResultRef] {
        match self {
            Self::InPlace(result) => std::slice::from_ref(result),
            Self::Gathered(results) => results,
            Self::Missing => &[],
        }
    }
}

/// The text that stands for a result that was never recorded.
pub const NO_RESULT: &str = "[no result was recorded for this call; it may or may not have run]";

/// What goes out as the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentsUse {
    /// The exact text: it holds an object.
    AsWritten,
    /// `{}`, for there are none.
    Empty,
    /// The raw text, wrapped in an object.
    Wrapped,
}

/// The field that wraps raw arguments.
pub const RAW_ARGUMENTS: &str = "_raw_arguments";

/// A call together with its result.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) block: u32,
    pub(crate) renamed: Option<CallId>,
    pub(crate) arguments: ArgumentsUse,
    pub(crate) answer: Answer,
}

impl Exchange {
    /// The block of the call in the item's message.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block as usize
    }

    /// The id that replaces the call's own, where that one was taken.
    #[must_use]
    pub fn renamed(&self) -> Option<&CallId> {
        self.renamed.as_ref()
    }

    /// What goes out as arguments.
    #[must_use]
    pub fn arguments(&self) -> ArgumentsUse {
        self.arguments
    }

    /// How it was answered.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

/// A piece of an item.
#[derive(Debug, Clone)]
pub enum Part {
    /// A block of the item's message, by index: text, reasoning, media or opaque.
    Block(u32),
    /// A call with its result.
    Exchange(Box<Exchange>),
    /// A result whose call is not there, to be shown as labelled text.
    Orphan(u32),
}

/// The pieces of an item.
#[derive(Debug, Clone)]
pub enum Parts {
    /// Every block of the message, none of them a call or a result.
    Whole,
    /// These.
    Some(Vec<Part>),
}

/// One message of a view.
#[derive(Debug, Clone)]
pub struct Item {
    pub(crate) role: SoundRole,
    pub(crate) message: Arc<Message>,
    pub(crate) index: u32,
    pub(crate) parts: Parts,
    /// Every block of the source message is here, in order, calls unchanged (results go with their calls).
    pub(crate) complete: bool,
}

impl Item {
    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> SoundRole {
        self.role
    }

    /// The source message.
    #[must_use]
    pub fn message(&self) -> &Arc<Message> {
        &self.message
    }

    /// The place of the source message.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Whether all of the source message is here, unchanged, under its own role.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The pieces, in order.
    pub fn parts(&self) -> impl Iterator<Item = PartRef<'_>> {
        let whole = match &self.parts {
            Parts::Whole => self.message.blocks.len(),
            Parts::Some(parts) => parts.len(),
        };
        (0..whole).map(|place| match &self.parts {
            Parts::Whole => PartRef::Block(place, &self.message.blocks[place]),
            Parts::Some(parts) => self.part(&parts[place]),
        })
    }

    fn part<'i>(&'i self, part: &'i Part) -> PartRef<'i> {
        match part {
            Part::Block(block) => PartRef::Block(*block as usize, &self.message.blocks[*block as usize]),
            Part::Orphan(block) => {
                let result = self.message.blocks[*block as usize].as_result();
                PartRef::Orphan(*block as usize, result.expect("BUG: an orphan is a result"))
            }
            Part::Exchange(exchange) => {
                let call = self.message.blocks[exchange.block()].as_call();
                PartRef::Exchange(exchange, call.expect("BUG: an exchange names a call"))
            }
        }
    }

    /// The calls with their results, in order.
    pub fn exchanges(&self) -> impl Iterator<Item = (&Exchange, &ToolCall)> {
        let parts: &[Part] = match &self.parts {
            Parts::Whole => &[],
            Parts::Some(parts) => parts,
        };
        parts.iter().filter_map(|part| match self.part(part) {
            PartRef::Exchange(exchange, call) => Some((exchange, call)),
            _ => None,
        })
    }
}

/// A piece of an item, resolved.
#[derive(Debug, Clone, Copy)]
pub enum PartRef<'i> {
    /// A block, with its index.
    Block(usize, &'i Block),
    /// A call with its result.
    Exchange(&'i Exchange, &'i ToolCall),
    /// A result without a call, with its block index.
    Orphan(usize, &'i ToolResult),
}

/// The label that an orphan's text begins with.
#[must_use]
pub fn orphan_label(result: &ToolResult) -> String {
    let tool = result.name.as_ref().filter(|name| !name.is_blank()).map(|name| format!(" of tool {name}"));
    let call = result.call_id.as_ref().map(|id| format!(" for call {id}"));
    format!(
        "[tool result{}{}, whose call is not in this conversation]",
        tool.unwrap_or_default(),
        call.unwrap_or_default()
    )
}

/// Where the repair pass first changed something: everything before it is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstChange {
    /// The item.
    pub item: usize,
    /// The piece of it.
    pub part: usize,
}

/// A view in which every call has exactly one result and every result its call.
#[derive(Debug, Clone)]
pub struct SoundView {
    pub(crate) chunks: Vec<Arc<Vec<Item>>>,
    pub(crate) first_change: Option<FirstChange>,
}

impl SoundView {
    /// The messages of the view, in order.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The same, in the chunks that views of one running conversation share.
    #[must_use]
    pub fn chunks(&self) -> &[Arc<Vec<Item>>] {
        &self.chunks
    }

    /// Where the repair pass first changed something.
    #[must_use]
    pub fn first_change(&self) -> Option<FirstChange> {
        self.first_change
    }

    /// The view as plain messages: each result a message of its own behind its call, unless the source had them together.
    /// Messages that need no change are the source's own.
    #[must_use]
    pub fn to_messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for item in self.items() {
            if item.complete {
                messages.push(Message::clone(&item.message));
            } else {
                messages.push(plain_message(item));
            }
            for (exchange, call) in item.exchanges() {
                messages.push(result_message(exchange, call));
            }
        }
        messages
    }
}

fn plain_message(item: &Item) -> Message {
    let role = match item.role {
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
                blocks.extend(result.content.iter().cloned());
            }
            PartRef::Exchange(exchange, call) => blocks.push(Block::call(exchange.sound_call(call))),
        }
    }
    Message { form: item.message.form, ..Message::new(role, blocks) }
}

impl Exchange {
    /// The call as it goes out: with its final id and arguments that are an object.
    #[must_use]
    pub fn sound_call(&self, call: &ToolCall) -> ToolCall {
        let id = self.renamed.clone().unwrap_or_else(|| call.id.clone());
        match self.arguments {
            ArgumentsUse::AsWritten => ToolCall { id, id_given: true, ..call.clone() },
            ArgumentsUse::Empty => ToolCall::new(id, call.name.clone(), "{}"),
            ArgumentsUse::Wrapped => {
                let mut wrapped = String::from("{");
                rejoin_record::json::write::key(&mut wrapped, RAW_ARGUMENTS);
                rejoin_record::json::write::string(&mut wrapped, call.arguments.text());
                wrapped.push('}');
                ToolCall::new(id, call.name.clone(), wrapped)
            }
        }
    }
}

fn result_message(exchange: &Exchange, call: &ToolCall) -> Message {
    let id = exchange.renamed.clone().unwrap_or_else(|| call.id.clone());
    if let Answer::InPlace(result) = &exchange.answer {
        // A message that is just this result goes out as it is.
        let speaks = matches!(result.message.role, Role::Tool | Role::User);
        if exchange.renamed.is_none() && result.message.blocks.len() == 1 && speaks {
            return Message::clone(&result.message);
        }
    }
    let mut result = match exchange.answer.results() {
        [] => ToolResult { is_error: true, ..ToolResult::new(id.clone(), NO_RESULT) },
        [first, rest @ ..] => {
            let mut joined = first.result().clone();
            for other in rest {
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

/// The text of a block that is nothing but text.
#[must_use]
pub fn text_of(block: &Block) -> Option<&Text> {
    if let BlockKind::Text(text) = &block.kind { Some(text) } else { None }
}
