//! Call ids and tool names in a dialect's alphabet. Legal ones stay; others are replaced by a hash, the same in calls and
//! results.

use std::borrow::Cow;

use rejoin_record::{BlockKind, CallId, Message, Text, ToolCall, hash::short_name, json::Doc};
use rejoin_view::{Action, ExchangeRef, Layers, List, Position, Rule};

use super::{registry::Wire, render::Ledger};
use crate::context::ToolDeclaration;

/// Default length of a replacement id: 24 letters and digits are legal in every dialect without a fixed length.
pub const ID_LENGTH: usize = 24;

/// Prefixes in the ids of tools that the provider runs.
pub const SERVER_TOOLS: &[&str] = &["srvtoolu_", "mcptoolu_"];

/// Length of a tool name that every dialect accepts.
const NAME_LENGTH: usize = 64;

/// Maps call ids in one forward pass: later ids never change earlier ones.
#[derive(Debug, Clone)]
struct IdMap {
    legal: fn(&str) -> bool,
    /// Length of the ids that replace illegal ones.
    length: usize,
    /// The ids in use that could be wanted twice: those that look like replacements or like a server tool's.
    taken: Layers<String>,
    renamed: List<(String, String)>,
}

impl IdMap {
    /// An empty map of a dialect: legal ids stay, others are replaced by ids of this length.
    fn new(legal: fn(&str) -> bool, length: usize) -> Self {
        Self { legal, length, taken: Layers::default(), renamed: List::default() }
    }

    /// The id to send. Each call is mapped once, and its result gets the same id.
    fn map<'i>(&mut self, id: &'i str) -> Cow<'i, str> {
        let ours = id.len() == self.length && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let wanted_twice = ours || SERVER_TOOLS.iter().any(|prefix| id.starts_with(prefix));
        if (self.legal)(id) && (!wanted_twice || self.taken.insert(id.to_owned(), ())) {
            return Cow::Borrowed(id);
        }
        let numbered = (1usize..).map(|count| format!("{id}\n{count}"));
        let mut candidates = std::iter::once(id.to_owned()).chain(numbered);
        let mapped = candidates
            .find_map(|seed| {
                let candidate = short_name(&seed, self.length);
                self.taken.insert(candidate.clone(), ()).then_some(candidate)
            })
            .expect("BUG: there are always more candidates");
        self.renamed.push((id.to_owned(), mapped.clone()));
        Cow::Owned(mapped)
    }
}

/// The ids and names that a request spells differently, needed to read its answer.
#[derive(Debug, Clone, Default)]
pub struct SpellingMap {
    /// Call ids: ours, theirs.
    pub ids: List<(String, String)>,
    /// Tool names: ours, theirs.
    pub names: Vec<(String, String)>,
}

impl SpellingMap {
    /// Restores our names and ids in the calls of an answer. Their own bytes stay.
    pub fn restore(&self, message: &mut Message) {
        for block in &mut message.blocks {
            let BlockKind::ToolCall(call) = &mut block.kind else { continue };
            if let Some((ours, _)) = self.names.iter().find(|(_, theirs)| **theirs == *call.name) {
                call.name = Text::new(ours.as_str());
            }
            if let Some((ours, _)) = self.ids.iter().find(|(_, theirs)| theirs == call.id.as_str()) {
                call.id = CallId::new(ours.as_str());
            }
        }
    }
}

/// How a dialect spells calls and their tools: one table for calls and results.
#[derive(Debug, Clone)]
pub struct Spelling {
    ids: IdMap,
    tool_name: fn(&str) -> Cow<'_, str>,
    /// Tools called so far, in the dialect's spelling.
    seen: Layers<String>,
    /// The same, in the order of their first calls.
    used: List<String>,
    renamed: List<(String, String)>,
}

/// The spelling of a call.
pub struct CallSpelling {
    /// The id in the call and in its result.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// Whether the source spells both the same way.
    pub as_written: bool,
}

impl Spelling {
    /// An empty table for a dialect.
    pub fn new(wire: &Wire) -> Self {
        Self {
            ids: IdMap::new(wire.legal_id, wire.id_length),
            tool_name: wire.tool_name,
            seen: Layers::default(),
            used: List::default(),
            renamed: List::default(),
        }
    }

    /// Spells a call and reports changes. `own` is the call's item, if it is in the dialect and may be repeated.
    pub fn of(
        &mut self,
        exchange: ExchangeRef<'_>,
        own: Option<&str>,
        at: Position,
        ledger: &mut Ledger,
    ) -> CallSpelling {
        let (call, view_id) = (exchange.call(), exchange.id().as_str());
        let id = self.ids.map(view_id).into_owned();
        if id != view_id {
            ledger.change(Rule::IllegalId, at, Action::Renamed).about(view_id);
        }
        let (name, named) = self.tool(call, own, at, ledger);
        CallSpelling { as_written: named && id == call.id.as_str(), id, name }
    }

    /// Spells the tool of a call and reports a change. The flag is true if the source has the same spelling; a model that was
    /// given a respelled tool uses the new spelling in its item.
    pub fn tool(
        &mut self,
        call: &ToolCall,
        own: Option<&str>,
        at: Position,
        ledger: &mut Ledger,
    ) -> (String, bool) {
        let name = (self.tool_name)(&call.name).into_owned();
        let named = name == *call.name || own.is_some_and(|own| calls(own, &name));
        if !named {
            ledger.change(Rule::IllegalName, at, Action::Renamed).about(call.name.clone());
        }
        if !self.seen.contains(&name) {
            self.seen.insert(name.clone(), ());
            self.used.push(name.clone());
            if name != *call.name {
                self.renamed.push((call.name.to_string(), name.clone()));
            }
        }
        (name, named)
    }

    /// Reserves the id of a server tool, which cannot be renamed. False if it is in use.
    pub fn reserve(&mut self, id: &str) -> bool {
        self.ids.taken.insert(id.to_owned(), ())
    }

    /// The tools called so far, in the order of their first calls.
    pub fn used_tools(&self) -> &List<String> {
        &self.used
    }

    /// Lets copies share everything spelled so far.
    pub fn settle(&mut self) {
        self.ids.taken.settle();
        self.seen.settle();
    }

    /// The ids and names that are spelled differently, including tools that are declared but not called yet. If the history calls a
    /// tool by the spelling of a declared one, as after a conversion, the declared tool is meant.
    pub fn respelled(&self, declared: &[ToolDeclaration]) -> SpellingMap {
        let mut renamed: Vec<(String, String)> = self.renamed.iter().cloned().collect();
        let is_declared = |name: &str| declared.iter().any(|tool| &*tool.name == name);
        for tool in declared {
            let wire = (self.tool_name)(&tool.name);
            if *wire != *tool.name && !is_declared(&wire) {
                renamed.retain(|(_, known)| *known != wire);
                renamed.push((tool.name.to_string(), wire.into_owned()));
            }
        }
        SpellingMap { ids: self.ids.renamed.clone(), names: renamed }
    }
}

/// Whether a call's item names this tool.
fn calls(item: &str, tool: &str) -> bool {
    let doc = Doc::of(item);
    let Some(root) = doc.root() else { return false };
    let holder = ["function", "functionCall", "function_call"].into_iter().find_map(|name| root.given(name));
    holder.unwrap_or(root).says("name", tool)
}

/// Spells a tool name with at most `max` letters, digits, `_` and `-`. The result depends only on the name, so declarations,
/// history and tool choice agree.
pub fn wire_name(name: &str, max: usize) -> Cow<'_, str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    spelled_name(name, max, word, word)
}

/// Spells a tool name in an alphabet: the characters that a name may begin with, and those that it may hold.
pub fn spelled_name(
    name: &str,
    max: usize,
    begins: fn(char) -> bool,
    legal: fn(char) -> bool,
) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("unknown_tool");
    }
    let begun = name.starts_with(begins);
    if begun && name.len() <= max && name.chars().all(legal) {
        return Cow::Borrowed(name);
    }
    let hash = short_name(name, 8);
    let room = NAME_LENGTH - 9;
    let mut head: String = name.chars().map(|c| if legal(c) { c } else { '_' }).take(room).collect();
    if !head.starts_with(begins) {
        head.insert(0, '_');
        head = head.chars().take(room).collect();
    }
    Cow::Owned(format!("{head}_{hash}"))
}

#[cfg(test)]
mod tests;
