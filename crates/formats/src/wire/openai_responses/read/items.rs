//! Reading one Responses item into blocks.

use rejoin_record::{Media, MediaSource, Role, ToolResult, limits};

use super::{Hosted, Side};
use crate::{
    accounting::has_words,
    messages::{
        DEEPEST, Style,
        blocks::{BlockPlace, BlockReader, free_text, irregular},
        roles,
    },
    wire::{openai_responses, prelude::*},
};

pub const FORMAT: &str = "openai-responses";

/// A kind of call that the client answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The type of the call's item.
    pub call: &'static str,
    /// The type of the item that answers it.
    pub output: &'static str,
    /// The name of the tool, where the item does not give it.
    pub tool: Option<&'static str>,
    /// The field that holds the arguments.
    pub input: &'static str,
    /// What the ids of such items begin with; empty if any id is legal.
    prefix: &'static str,
}

const fn call(
    call: &'static str,
    output: &'static str,
    tool: Option<&'static str>,
    input: &'static str,
    prefix: &'static str,
) -> Call {
    Call { call, output, tool, input, prefix }
}

impl Call {
    /// A function with JSON arguments, the only kind of call in other dialects.
    pub const FUNCTION: Call = call("function_call", "function_call_output", None, "arguments", "fc_");

    const ALL: [Call; 7] = [
        Call::FUNCTION,
        call("custom_tool_call", "custom_tool_call_output", None, "input", "ctc_"),
        call("local_shell_call", "local_shell_call_output", Some("local_shell"), "action", "lsh_"),
        call("shell_call", "shell_call_output", Some("shell"), "action", "sh_"),
        call("apply_patch_call", "apply_patch_call_output", Some("apply_patch"), "operation", "apc_"),
        call("computer_call", "computer_call_output", Some("computer"), "action", "cu_"),
        call("tool_search_call", "tool_search_output", Some("tool_search"), "arguments", ""),
    ];

    /// The kind of call whose item has this type.
    pub fn of_call(kind: &str) -> Option<Call> {
        Self::ALL.into_iter().find(|call| call.call == kind)
    }

    /// The kind of call that an item of this type answers.
    pub fn of_output(kind: &str) -> Option<Call> {
        // Some agents use other names.
        if matches!(kind, "function_call_result" | "function_result") {
            return Some(Self::FUNCTION);
        }
        Self::ALL.into_iter().find(|call| call.output == kind)
    }

    /// The kind of call that an item is, if the client has to answer it.
    pub fn of(item: Value<'_>) -> Option<Call> {
        Self::of_call(&item.get("type")?.as_str()?).filter(|call| call.waits(item))
    }

    /// The kind of call that an item answers.
    pub fn answered_by(item: Value<'_>) -> Option<Call> {
        Self::of_output(&item.get("type")?.as_str()?).filter(|call| call.waits(item))
    }

    /// Whether the client answers the call: a search by the provider itself has no call id.
    fn waits(self, item: Value<'_>) -> bool {
        self.tool != Some("tool_search") || item.given("call_id").is_some()
    }

    /// The kind of call that an item's own bytes are.
    pub fn of_item(raw: &str) -> Option<Call> {
        let doc = Doc::parse(raw).ok()?;
        Self::of(doc.root()?)
    }
}

pub(super) enum Item {
    /// A piece of a model's answer.
    Answer(Vec<Block>),
    /// A message that is not the model's.
    Message(Role, Vec<Block>, Form),
    /// A snapshot of an agent's state.
    Snapshot,
}

/// An item, and whether it may be sent again unchanged.
pub(super) struct ReadItem {
    pub item: Item,
    pub regular: bool,
    /// The assumed role, if it names none.
    pub guessed: Option<Role>,
}

#[derive(Default, Clone)]
pub(super) struct ItemReader {
    pub model: Option<Text>,
    /// Ids of the items of this list so far, each of which may occur once.
    pub ids: hashbrown::HashSet<String>,
}

impl ItemReader {
    /// Reads an item of the text in `buffer`; spans count from `base`, which may wrap around. `None` if it is no item.
    pub fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, base: usize) -> Option<ReadItem> {
        let model = self.model.clone();
        let reader = Reader {
            blocks: BlockReader { style: Style::ToolCalls, buffer, base, model: None },
            model: model.as_ref(),
        };
        if let Some(text) = reader.blocks.text(item) {
            let message = Item::Message(Role::User, vec![Block::text(text)], Form::Text);
            return Some(ReadItem { item: message, regular: false, guessed: Some(Role::User) });
        }
        if item.kind() != ValueKind::Object {
            return None;
        }
        let clean = item.is_clean() && !item.is_deeper_than(DEEPEST);
        let mut read = reader.item(item)?;
        read.regular &= clean && self.id_fits(item);
        Some(read)
    }

    /// Whether an item's id, if it has one, has the prefix of its type and is new.
    fn id_fits(&mut self, item: Value<'_>) -> bool {
        let Some(id) = item.get("id") else { return true };
        let kind = item.word("type");
        let known = Hosted::of(&kind);
        if id.is_null() && (Call::of_output(&kind).is_some() || known.is_some_and(|known| !known.needs_id)) {
            return true;
        }
        let Some(text) = id.as_str() else { return false };
        let prefix = match &*kind {
            "reasoning" => "rs_",
            "message" | "" => "msg_",
            kind => Call::of_call(kind).map_or(known.map_or("", |known| known.prefix), |call| call.prefix),
        };
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = prefix.is_empty()
            || (text.starts_with(prefix)
                && text.bytes().all(word)
                && text.len() <= 64
                && !text.ends_with(['_', '-']));
        // Some shells repeat the id of the call in its output.
        let repeated = kind == "local_shell_call_output";
        // Where the API expects no prefix, it takes any id, but for this type.
        let can_be_empty = prefix.is_empty() && kind != "tool_search_call";
        (can_be_empty || !text.is_empty()) && (repeated || self.ids.insert(text.into_owned())) && fits
    }
}

struct Reader<'b> {
    blocks: BlockReader<'b>,
    model: Option<&'b Text>,
}

impl Reader<'_> {
    fn item(&self, item: Value<'_>) -> Option<ReadItem> {
        let kind = item.word("type");
        if let Some(call) = Call::of(item) {
            let (block, regular) = self.call(item, call);
            return Some(ReadItem { item: Item::Answer(vec![block]), regular, guessed: None });
        }
        if let Some(call) = Call::answered_by(item) {
            let (block, regular) = self.output(item, call);
            let message = Item::Message(Role::Tool, vec![block], Form::Parts);
            return Some(ReadItem { item: message, regular, guessed: None });
        }
        match &*kind {
            "message" => Some(self.message(item)),
            "" if item.given("role").is_some() || item.given("content").is_some() => Some(self.message(item)),
            "" if item.fields().next().is_none() => None,
            _ if is_message(item, &kind) => Some(self.message(item)),
            "reasoning" => {
                let (block, regular) = self.reasoning(item);
                Some(ReadItem { item: Item::Answer(vec![block]), regular, guessed: None })
            }
            "ghost_snapshot" => Some(ReadItem { item: Item::Snapshot, regular: false, guessed: None }),
            // A content part in place of an item.
            "text" | "input_text" | "output_text" | "input_image" | "input_file" | "refusal" | "tool_use"
            | "tool_result" => {
                let role = match &*kind {
                    "output_text" | "refusal" | "tool_use" => Role::Assistant,
                    _ => Role::User,
                };
                let block = irregular(self.part(item, &role, BlockPlace::Role(&role)).0);
                let blocks = vec![block];
                let read = if role == Role::Assistant {
                    Item::Answer(blocks)
                } else {
                    Item::Message(Role::User, blocks, Form::Parts)
                };
                Some(ReadItem { item: read, regular: false, guessed: Some(role) })
            }
            _ => Some(self.other(item, &kind)),
        }
    }

    /// Reads an item of a tool that the provider ran, or of an unknown type. References to items that only the provider has
    /// cannot be resolved.
    fn other(&self, item: Value<'_>, kind: &str) -> ReadItem {
        let known = Hosted::of(kind);
        let fits = item.is_clean()
            && !item.is_deeper_than(limits::NESTING)
            && known.is_some_and(|known| known.fits(item));
        let named = item.given("id").is_some() || !known.is_some_and(|known| known.needs_id);
        let blocks =
            vec![Block::opaque(kind, self.blocks.raw(item), fits).at_if(fits, self.blocks.span(item))];
        let read = match known.map_or(Side::Provider, |known| known.side) {
            Side::Provider => Item::Answer(blocks),
            Side::User => Item::Message(Role::User, blocks, Form::Parts),
            Side::Developer => Item::Message(Role::Developer, blocks, Form::Parts),
        };
        let guessed = (known.is_none() && has_text_without_author(item, kind)).then_some(Role::Assistant);
        ReadItem { item: read, regular: fits && named, guessed }
    }

    fn message(&self, item: Value<'_>) -> ReadItem {
        let name = item.get("role").and_then(Value::as_str).filter(|name| !name.is_empty());
        let typed = item.get("type").is_none_or(|kind| kind.is_str("message"));
        let elsewhere = roles::by_another_field(item).filter(|_| name.is_none());
        let (role, known) = match name.as_deref() {
            Some(name @ ("user" | "assistant" | "system" | "developer")) => (Role::named(name), true),
            Some(other) => (roles::named(other), false),
            None if lists_calls(item) => (Role::Assistant, false),
            None => (elsewhere.map_or(Role::User, |(role, _)| role), false),
        };
        let guessed = name.is_none().then(|| role.clone());
        if role == Role::Tool {
            let given = item.given("tool_call_id").or_else(|| item.given("call_id"));
            let content = self.blocks.content(item.get("content"), BlockPlace::Result);
            let result = ToolResult {
                call_id: self.blocks.call_id(given),
                name: item.given("name").and_then(|name| self.blocks.text(name)),
                content: content.blocks.into_iter().map(irregular).collect(),
                form: content.form,
                is_error: false,
            };
            let message = Item::Message(Role::Tool, vec![Block::result(result)], Form::Parts);
            return ReadItem { item: message, regular: false, guessed };
        }
        let said =
            item.given("message").filter(|said| item.get("content").is_none() && said.as_str().is_some());
        let content = item.get("content").or(said);
        let (mut blocks, form, mut regular) = self.content(content, &role, BlockPlace::Role(&role));
        regular &= status_fits(item, false);
        regular &= said.is_none();
        regular &= known && typed;
        if let Some(calls) = item.given("tool_calls").filter(|calls| calls.items().next().is_some()) {
            // Calls in the form of Chat Completions.
            let calls = calls.items().filter(|call| call.kind() == ValueKind::Object);
            blocks.extend(calls.map(|call| irregular(self.blocks.tool_call(call))));
            regular = false;
        }
        let read =
            if role == Role::Assistant { Item::Answer(blocks) } else { Item::Message(role, blocks, form) };
        ReadItem { item: read, regular, guessed }
    }

    fn content(
        &self,
        content: Option<Value<'_>>,
        role: &Role,
        under: BlockPlace<'_>,
    ) -> (Vec<Block>, Form, bool) {
        match content {
            Some(list) if list.kind() == ValueKind::Array => {
                let read: Vec<_> = list.items().map(|part| self.part(part, role, under)).collect();
                let fits = |(block, legal): &(Block, bool)| *legal && block.span.is_some();
                // An empty list is not regular content.
                let regular = !read.is_empty() && read.iter().all(fits);
                (read.into_iter().map(|(block, _)| block).collect(), Form::Parts, regular)
            }
            other => {
                let read = self.blocks.content(other, under);
                (read.blocks, read.form, read.regular && read.form == Form::Text)
            }
        }
    }

    /// A content part, and whether the role may have it.
    fn part(&self, part: Value<'_>, role: &Role, under: BlockPlace<'_>) -> (Block, bool) {
        let kind = part.word("type");
        let answer = *role == Role::Assistant;
        let (block, legal) = match &*kind {
            "input_text" | "output_text" | "refusal" => {
                let field = if kind == "refusal" { "refusal" } else { "text" };
                let text = part.get(field).and_then(|text| self.blocks.text(text));
                let legal = if answer { kind != "input_text" } else { kind == "input_text" };
                let listed = part.given("annotations").is_none_or(|list| list.kind() == ValueKind::Array);
                let legal = legal && listed;
                (text.map(|text| Block::text(text).at(self.blocks.span(part))), legal)
            }
            "input_image" => (self.image(part), !answer),
            "input_file" => (self.file(part), !answer),
            _ => (None, false),
        };
        match block {
            Some(block) if legal && part.is_clean() => (block, true),
            Some(block) => (irregular(block), false),
            None => (irregular(self.blocks.block(part, under)), false),
        }
    }

    fn image(&self, part: Value<'_>) -> Option<Block> {
        let holder = part.given("image_url");
        let url = holder.and_then(|holder| self.blocks.text(holder.get("url").unwrap_or(holder)));
        let file = part.given("file_id").and_then(|id| self.blocks.text(id)).filter(|id| !id.is_empty());
        // Either of the two; an empty address does not count beside a file id.
        let url = url.filter(|url| !url.is_empty() || file.is_none());
        let alone = url.is_none() || file.is_none();
        let address = url.clone().unwrap_or_else(|| Text::new(""));
        let (media_type, source) = match (url, file) {
            (Some(url), _) => media::image_at(url),
            (None, Some(id)) => (None, MediaSource::ProviderFile(id)),
            (None, None) => (None, MediaSource::Unusable),
        };
        let kind = BlockKind::Image(Box::new(Media { media_type, source, name: None }));
        let whole = alone
            && openai_responses::WIRE.media.takes_address(&kind, &address)
            && are_texts(part, &["image_url", "file_id", "detail"]);
        Some(Block::new(kind).at_if(whole, self.blocks.span(part)))
    }

    fn file(&self, part: Value<'_>) -> Option<Block> {
        let sources = ["file_data", "file_url", "file_id"];
        let (kind, usable) = self.blocks.document(part, &sources, &openai_responses::WIRE.media);
        let usable = usable && are_texts(part, &["filename", "file_data", "file_url", "file_id", "detail"]);
        Some(Block::new(kind).at_if(usable, self.blocks.span(part)))
    }

    fn call(&self, item: Value<'_>, kind: Call) -> (Block, bool) {
        let given = item.given("call_id");
        // Some shell calls have only the id of the item.
        let id = self.blocks.call_id(given.or_else(|| item.given("id")));
        let id_written = given.is_some_and(|id| id.kind() == ValueKind::String && !id.is_str(""));
        let function = item.given("function").filter(|_| item.get("name").is_none());
        let named = function.unwrap_or(item).get("name").and_then(|name| self.blocks.text(name));
        let asked = item.get(kind.input);
        let (arguments, written) = match (kind.tool, kind.call) {
            (None, "custom_tool_call") => free_text(asked),
            (None, _) => {
                (self.blocks.arguments(asked), asked.is_some_and(|asked| asked.kind() == ValueKind::String))
            }
            (Some(_), _) => {
                (self.blocks.arguments(asked), asked.is_some_and(|asked| asked.kind() == ValueKind::Object))
            }
        };
        let regular = id_written
            && written
            && (kind.tool.is_some() || (named.is_some() && function.is_none()))
            && action_fits(item, kind)
            && match kind.tool {
                Some("tool_search") => Hosted::of(kind.call).is_some_and(|known| known.fits(item)),
                tool => status_fits(item, matches!(tool, Some("local_shell" | "apply_patch"))),
            };
        let call = ToolCall::read(id, kind.tool.map(Text::new).or(named), arguments);
        (Block::call(call).at_if(regular && item.is_clean(), self.blocks.span(item)), regular)
    }

    fn output(&self, item: Value<'_>, kind: Call) -> (Block, bool) {
        let given = item.given("call_id");
        let call_id = self.blocks.call_id(given.or_else(|| item.given("id")));
        let id_written = given.is_some_and(|id| id.kind() == ValueKind::String && !id.is_str(""));
        let searched = kind.tool == Some("tool_search");
        let field = if searched { "tools" } else { "output" };
        let output = item.get(field).or_else(|| item.get("output")).or_else(|| item.get("result"));
        let typed = item.says("type", kind.output);
        let (content, form, regular) = match output {
            Some(list) if list.kind() == ValueKind::Array && kind.tool != Some("shell") && !searched => {
                // A result holds no calls and no other results.
                self.content(output, &Role::User, BlockPlace::Result)
            }
            // The screenshot of a computer.
            Some(value) if kind.tool == Some("computer") && value.kind() == ValueKind::Object => {
                let screen = self.image(value).map(irregular);
                let known = value.says("type", "computer_screenshot");
                match screen.filter(|_| known) {
                    Some(screen) => {
                        (vec![screen], Form::Parts, self.image(value).is_some_and(|it| it.span.is_some()))
                    }
                    None => (vec![Block::text(value.to_raw_text(self.blocks.base))], Form::Text, false),
                }
            }
            // The payload of a result in the form that some agents store.
            Some(value) if kind.tool.is_none() && is_payload(value) => {
                let parts = value.given("content_items").filter(|list| list.items().next().is_some());
                let (blocks, form, _) = match parts {
                    Some(_) => self.content(parts, &Role::User, BlockPlace::Result),
                    None => self.content(value.get("content"), &Role::User, BlockPlace::Result),
                };
                (blocks, form, false)
            }
            // Shell output and found tools are kept as JSON.
            Some(value) if matches!(value.kind(), ValueKind::Array | ValueKind::Object) => {
                let text = Block::text(value.to_raw_text(self.blocks.base));
                (vec![text], Form::Text, kind.tool.is_some())
            }
            other => {
                let read = self.blocks.content(other, BlockPlace::Result);
                let absent = other.is_none() && kind.tool == Some("apply_patch");
                (read.blocks, read.form, (read.regular && read.form == Form::Text) || absent)
            }
        };
        let there = item.get(field).is_some() || kind.tool == Some("apply_patch");
        let own_form = match kind.tool {
            Some("shell") => output.is_some_and(is_shell_output),
            Some("computer") => output.is_some_and(|output| output.kind() == ValueKind::Object),
            Some("local_shell") => output.is_some_and(|output| output.kind() == ValueKind::String),
            Some("tool_search") => Hosted::of(kind.output).is_some_and(|known| known.fits(item)),
            Some(_) => status_fits(item, true),
            None => item.get("status").is_none_or(Value::is_null) || status_fits(item, false),
        };
        let regular = regular && id_written && typed && there && own_form;
        let unsuccessful = |output: Value<'_>| output.get("success").and_then(Value::as_bool) == Some(false);
        let failed = item.says("status", "failed")
            || output.filter(|output| is_payload(*output)).is_some_and(unsuccessful);
        let name = item.given("name").and_then(|name| self.blocks.text(name));
        let result = ToolResult { call_id, name, content, form, is_error: failed };
        (Block::result(result).at_if(regular && item.is_clean(), self.blocks.span(item)), regular)
    }

    fn reasoning(&self, item: Value<'_>) -> (Block, bool) {
        let texts = |field| item.given(field).into_iter().flat_map(Value::items);
        let said: Vec<Cow<'_, str>> =
            texts("summary").chain(texts("content")).filter_map(|part| part.get("text")?.as_str()).collect();
        let sealed =
            item.given("encrypted_content").and_then(Value::as_str).is_some_and(|blob| !blob.is_empty());
        let texts_fit = |list: Value<'_>, kind: &str| {
            let fits = |part: Value<'_>| part.says("type", kind) && part.holds("text", ValueKind::String);
            list.kind() == ValueKind::Array && list.items().all(fits)
        };
        let summed = item.given("summary").is_some_and(|list| texts_fit(list, "summary_text"));
        let told = item.given("content").is_none_or(|list| texts_fit(list, "reasoning_text"));
        let regular = sealed && summed && told && status_fits(item, false);
        let origin = Origin { incomplete: !sealed, ..Origin::of(FORMAT, self.model.cloned()) };
        let block = Block::reasoning(said.join("\n\n"), true, origin);
        (block.at_if(regular, self.blocks.span(item)), regular)
    }
}

/// Whether an item of an unknown type holds text without an author. Calls and results of tools are the model's.
fn has_text_without_author(item: Value<'_>, kind: &str) -> bool {
    let of_tools = ["_call", "_output", "_request", "_response"].iter().any(|end| kind.ends_with(end));
    let own = matches!(kind, "compaction_summary" | "context_compaction");
    let says = || Doc::parse(item.raw()).is_ok_and(|doc| doc.strings().any(|text| has_words(&text)));
    !of_tools && !own && says()
}

/// Whether an item of an unknown type is a message, since it has an author and content.
pub(super) fn is_message(item: Value<'_>, kind: &str) -> bool {
    const KNOWN: [&str; 2] = ["reasoning", "ghost_snapshot"];
    let speaker = || {
        item.holds("role", ValueKind::String)
            || roles::by_another_field(item).is_some_and(|(role, _)| !matches!(role, Role::Other(_)))
    };
    !KNOWN.contains(&kind) && Hosted::of(kind).is_none() && item.given("content").is_some() && speaker()
}

/// Whether a message has the calls of OpenAI Chat, so that it can only be the model's.
pub(super) fn lists_calls(item: Value<'_>) -> bool {
    let is_call = |call: Value<'_>| call.kind() == ValueKind::Object;
    item.get("tool_calls").is_some_and(|calls| calls.kind() == ValueKind::Array && calls.items().any(is_call))
}

/// Whether each of these fields is a text or missing.
fn are_texts(part: Value<'_>, names: &[&str]) -> bool {
    names.iter().all(|name| {
        part.get(name).is_none_or(|value| matches!(value.kind(), ValueKind::String | ValueKind::Null))
    })
}

/// Whether an item's status is one of the API's words; some items need one.
fn status_fits(item: Value<'_>, needed: bool) -> bool {
    let words = ["in_progress", "completed", "incomplete", "failed"];
    item.get("status").map_or(!needed, |status| {
        let said = words.iter().find(|word| status.is_str(word));
        // Only a patch can fail.
        said.is_some_and(|word| *word != "failed" || needed)
    })
}

/// Whether the action of a shell or patch call has the API's form.
fn action_fits(item: Value<'_>, kind: Call) -> bool {
    let texts = |list: Value<'_>| {
        list.kind() == ValueKind::Array && list.items().all(|text| text.kind() == ValueKind::String)
    };
    let asked = item.get(kind.input);
    match kind.tool {
        Some("local_shell") => {
            asked.is_some_and(|asked| asked.says("type", "exec") && asked.get("command").is_some_and(texts))
        }
        Some("shell") => asked.is_some_and(|asked| asked.get("commands").is_some_and(texts)),
        Some("apply_patch") => asked.is_some_and(|asked| {
            let text = |name| asked.holds(name, ValueKind::String);
            let deletes = asked.says("type", "delete_file");
            text("type") && text("path") && (deletes || text("diff"))
        }),
        _ => true,
    }
}

/// Whether an output is an object around a text, `{content, success, content_items}`.
fn is_payload(output: Value<'_>) -> bool {
    const FIELDS: [&str; 3] = ["content", "success", "content_items"];
    let known = |(key, _): (Value<'_>, Value<'_>)| FIELDS.iter().any(|name| key.is_str(name));
    let said = output.holds("content", ValueKind::String) || output.holds("content_items", ValueKind::Array);
    output.kind() == ValueKind::Object && said && output.fields().all(known)
}

fn is_shell_output(output: Value<'_>) -> bool {
    let text = |chunk: Value<'_>, name| chunk.holds(name, ValueKind::String);
    let whole = |chunk: Value<'_>| {
        let outcome = chunk.holds("outcome", ValueKind::Object);
        text(chunk, "stdout") && text(chunk, "stderr") && outcome
    };
    output.kind() == ValueKind::Array && output.items().next().is_some() && output.items().all(whole)
}
