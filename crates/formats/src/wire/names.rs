//! Ids and tool names in a dialect's alphabet: legal ones stay, others are mapped by hash, the same on both sides.

use std::borrow::Cow;

use rejoin_record::{BlockKind, CallId, Message, Text, ToolCall, hash::short_name, json::Doc};
use rejoin_view::{Action, ExchangeRef, Layers, List, Position, Rule};

use super::{registry::Wire, render::Ledger};
use crate::context::ToolDeclaration;

/// Length of an id that we make, unless a dialect says otherwise: 24 letters and digits are legal wherever there is room.
pub const ID_LENGTH: usize = 24;

/// What the ids of tools begin with that a provider runs itself.
pub const SERVER_TOOLS: &[&str] = &["srvtoolu_", "mcptoolu_"];

/// Length of a tool name that every dialect takes.
const NAME_LENGTH: usize = 64;

/// Maps call ids in one forward pass. What comes later never changes what was mapped before.
#[derive(Debug, Clone)]
pub struct IdMap {
    legal: fn(&str) -> bool,
    /// How long an id is that we make.
    length: usize,
    /// Ids that are taken, of those that could be wanted twice: such as look like ours, or like a server tool's.
    taken: Layers<String>,
    renamed: List<(String, String)>,
}

impl IdMap {
    /// A map for a dialect in which `legal` ids stay as they are.
    #[must_use]
    pub fn new(legal: fn(&str) -> bool) -> Self {
        Self { legal, length: ID_LENGTH, taken: Layers::default(), renamed: List::default() }
    }

    /// The id that goes on the wire. Each call is mapped once; its result uses the same answer.
    pub fn map<'i>(&mut self, id: &'i str) -> Cow<'i, str> {
        let ours = id.len() == self.length && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let wanted_twice = ours || SERVER_TOOLS.iter().any(|prefix| id.starts_with(prefix));
        if (self.legal)(id) && (!wanted_twice || self.taken.insert(id.to_owned(), ())) {
            return Cow::Borrowed(id);
        }
        let mut count = 0usize;
        let mapped = loop {
            let candidate = if count == 0 {
                short_name(id, self.length)
            } else {
                short_name(&format!("{id}\n{count}"), self.length)
            };
            if self.taken.insert(candidate.clone(), ()) {
                break candidate;
            }
            count += 1;
        };
        self.renamed.push((id.to_owned(), mapped.clone()));
        Cow::Owned(mapped)
    }

    /// Takes the id of a server tool, which nobody may rename. False if it is taken.
    pub fn reserve(&mut self, id: &str) -> bool {
        self.taken.insert(id.to_owned(), ())
    }

    /// Every id that got another spelling.
    #[must_use]
    pub fn renamed(&self) -> &List<(String, String)> {
        &self.renamed
    }
}

/// What got another spelling in a request: the table that reads an answer to it.
#[derive(Debug, Clone, Default)]
pub struct Respelled {
    /// Call ids: ours, theirs.
    pub ids: List<(String, String)>,
    /// Tool names: ours, theirs.
    pub names: Vec<(String, String)>,
}

impl Respelled {
    /// Gives the calls of an answer the names and ids back that they have on our side. Their own bytes stay.
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

/// How calls and their tools are spelled in a dialect: one table for both sides of every exchange.
#[derive(Debug, Clone)]
pub struct Spelling {
    ids: IdMap,
    tool_name: fn(&str) -> Cow<'_, str>,
    /// Tools of the history, as they are spelled.
    seen: Layers<String>,
    /// The same, in the order in which they occur.
    used: List<String>,
    renamed: List<(String, String)>,
}

/// A call as it is spelled on the wire.
pub struct Spelled {
    /// The id of the call and of its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Whether both are what the source has.
    pub as_written: bool,
}

impl Spelling {
    /// The spelling of a dialect.
    #[must_use]
    pub fn new(wire: &Wire) -> Self {
        Self {
            ids: IdMap { length: wire.id_length, ..IdMap::new(wire.legal_id) },
            tool_name: wire.tool_name,
            seen: Layers::default(),
            used: List::default(),
            renamed: List::default(),
        }
    }

    /// Spells a call, and notes what had to change. `own` is what the dialect's own item has, if it may be repeated.
    pub fn of(
        &mut self,
        exchange: ExchangeRef<'_>,
        call: &ToolCall,
        own: Option<&str>,
        at: Position,
        ledger: &mut Ledger,
    ) -> Spelled {
        let view_id = exchange.renamed().unwrap_or(&call.id).as_str();
        let id = self.ids.map(view_id).into_owned();
        if id != view_id {
            ledger.change(Rule::IllegalId, at, Action::Renamed).about(view_id);
        }
        let (name, named) = self.tool(call, own, at, ledger);
        Spelled { as_written: named && id == call.id.as_str(), id, name }
    }

    /// Spells the tool of a call, and notes if that had to change. Says whether the source has it so: a model that calls a tool
    /// whose name was respelled uses that spelling in its own item.
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

    /// Takes the id of a server tool, which nobody may rename. False if it is taken.
    pub fn reserve(&mut self, id: &str) -> bool {
        self.ids.reserve(id)
    }

    /// The tools of the history, in the order in which they occur.
    #[must_use]
    pub fn used_tools(&self) -> &List<String> {
        &self.used
    }

    /// What was spelled so far is shared by copies.
    pub fn settle(&mut self) {
        self.ids.taken.settle();
        self.seen.settle();
    }

    /// Every id and every name that got another spelling, names of tools that are declared and were not called yet included.
    #[must_use]
    pub fn respelled(&self, declared: &[ToolDeclaration]) -> Respelled {
        let mut renamed: Vec<(String, String)> = self.renamed.iter().cloned().collect();
        for tool in declared {
            let wire = (self.tool_name)(&tool.name).into_owned();
            if wire != *tool.name
                && !self.seen.contains(&wire)
                && !renamed.iter().any(|(_, known)| *known == wire)
            {
                renamed.push((tool.name.to_string(), wire));
            }
        }
        Respelled { ids: self.ids.renamed().clone(), names: renamed }
    }
}

/// Whether the item of a call names this tool.
fn calls(item: &str, tool: &str) -> bool {
    let doc = Doc::parse(item);
    let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { return false };
    let holder = ["function", "functionCall", "function_call"].into_iter().find_map(|name| root.given(name));
    holder.unwrap_or(root).get("name").is_some_and(|name| name.is_str(tool))
}

/// The tool name that goes on the wire, in letters, digits, `_` and `-`, at most `max` of them. The same name gives the
/// same answer everywhere, so declarations, history and choice agree.
#[must_use]
pub fn wire_name(name: &str, max: usize) -> Cow<'_, str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    spelled_name(name, max, word, word)
}

/// The tool name that goes on the wire of a dialect with an alphabet of its own: what a name may begin with, and what may
/// stand in it.
#[must_use]
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
mod tests {
    use super::*;

    #[test]
    fn legal_ids_stay_and_others_are_mapped_once() {
        let mut ids = IdMap::new(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(ids.map("abc"), "abc");
        let mapped = ids.map("functions.x:0").into_owned();
        assert_eq!(mapped.len(), 24);
        // Someone's own id that looks exactly like the one we made.
        assert_ne!(ids.map(&mapped), mapped);
        assert_eq!(ids.renamed().len(), 2);
    }

    #[test]
    fn ids_of_another_length() {
        let legal = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut ids = IdMap { length: 9, ..IdMap::new(legal) };
        assert_eq!(ids.map("abcdefghi"), "abcdefghi");
        let mapped = ids.map("call_1").into_owned();
        assert_eq!(mapped.len(), 9);
        assert_ne!(ids.map(&mapped), mapped, "it is taken");
        assert_ne!(ids.map("abcdefghi"), "abcdefghi", "it is taken");
    }

    #[test]
    fn names() {
        assert_eq!(wire_name("read_file", 64), "read_file");
        assert_eq!(wire_name("", 64), "unknown_tool");
        assert_ne!(wire_name("a.b", 64), wire_name("a:b", 64));
        assert!(wire_name(&"é".repeat(300), 64).len() <= 64);
        assert_eq!(wire_name(&wire_name("a.b", 64), 64), wire_name("a.b", 64));
    }

    #[test]
    fn names_of_another_alphabet() {
        fn spelled(name: &str) -> Cow<'_, str> {
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            spelled_name(name, 64, |c| c.is_ascii_alphabetic() || c == '_', legal)
        }
        assert_eq!(spelled("a.b"), "a.b");
        let long = format!("1{}", "x".repeat(70));
        for name in ["1a", ".a", "a-b", "é", &long] {
            let wire = spelled(name);
            assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{wire}");
            assert!(wire.len() <= 64 && *wire != *name);
            assert_eq!(spelled(&wire), wire);
        }
        assert_ne!(spelled("1a"), spelled("_1a"));
    }
}
