//! Bodies in the shape of Anthropic Messages.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    chat::{Content, JUNK, Message, Part, content, part},
    plan::{Around, Call, Dress, IDS, NAMES, call, dress, id},
    writer::Writer,
};

#[derive(Debug, Clone)]
pub enum Thinking {
    Signed,
    Unsigned,
    Redacted,
}

#[derive(Debug, Clone)]
pub enum Block {
    Part(Part),
    Call(Call),
    Result(Option<usize>, Content, bool),
    Thinking(Thinking),
    ServerTool { call: bool, result: bool },
    Marked(Dress),
}

pub fn block() -> impl Strategy<Value = Block> {
    let thinking = prop_oneof![3 => Just(Thinking::Signed), 1 => Just(Thinking::Unsigned), 1 => Just(Thinking::Redacted)];
    prop_oneof![
        5 => part().prop_map(Block::Part), 5 => call().prop_map(Block::Call),
        5 => (option::weighted(0.95, id()), content(), prop::bool::weighted(0.2)).prop_map(|(i, c, e)| Block::Result(i, c, e)),
        2 => thinking.prop_map(Block::Thinking),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(call, result)| Block::ServerTool { call, result }),
        1 => dress().prop_map(Block::Marked)
    ]
}

pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        3 => (select(vec!["user", "assistant", "system", "weird"]), content()).prop_map(|(r, c)| Message::Speaker(r, c)),
        4 => (vec(call(), 1..4), vec(content(), 4), any::<bool>()).prop_map(|(c, r, t)| Message::Turn(c, r, t)),
        8 => (select(vec!["user", "assistant", "assistant"]), vec(block(), 0..4), prop::bool::weighted(0.1))
            .prop_map(|(role, blocks, extra)| Message::Blocks(role, blocks, extra)),
        1 => (option::weighted(0.95, id()), content()).prop_map(|(id, content)| Message::Tool(id, content)),
        1 => (0..JUNK.len()).prop_map(Message::Junk),
    ]
}

impl Writer {
    /// A call: a `tool_use` block.
    pub fn tool_use(&mut self, call: &Call) -> String {
        if let Some(id) = call.id {
            self.truth.call_ids.push(IDS[id].into());
        }
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let (name, input) = (NAMES[call.name], self.arguments_as_json(call, "input"));
        format!("{{\"type\":\"tool_use\",{id}\"name\":\"{name}\"{input}}}")
    }

    fn result_block(&mut self, id: Option<usize>, content: &Content, error: bool) -> String {
        let before = self.truth.results.len();
        let content =
            self.content(content, 'r').map_or_else(String::new, |content| format!(",\"content\":{content}"));
        self.answered(before, id.map(|id| IDS[id]));
        let id = id.map_or_else(String::new, |id| format!(",\"tool_use_id\":\"{}\"", IDS[id]));
        let error = if error { ",\"is_error\":true" } else { "" };
        format!("{{\"type\":\"tool_result\"{id}{content}{error}}}")
    }

    pub fn block(&mut self, block: &Block, role: &str) -> String {
        let letter = if role == "assistant" { 'a' } else { 'u' };
        match block {
            Block::Part(part) => self.part(part, letter),
            Block::Call(call) => self.tool_use(call),
            Block::Result(id, content, error) => self.result_block(*id, content, *error),
            Block::Thinking(Thinking::Signed) => {
                "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig==\"}".into()
            }
            Block::Thinking(Thinking::Unsigned) => "{\"type\":\"thinking\",\"thinking\":\"hm\"}".into(),
            Block::Thinking(Thinking::Redacted) => "{\"type\":\"redacted_thinking\",\"data\":\"xyz\"}".into(),
            Block::ServerTool { call, result } => {
                let mut halves = Vec::new();
                if *call {
                    halves.push("{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":\"web_search\",\"input\":{}}");
                }
                if *result || !*call {
                    halves.push(
                        "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_1\",\"content\":[]}",
                    );
                }
                halves.join(",")
            }
            Block::Marked(dress) => format!(
                "{{\"type\":\"text\",\"text\":\"{}\",\"cache_control\":{{\"type\":\"ephemeral\"}}}}",
                self.said(*dress, letter)
            ),
        }
    }

    /// An assistant message with calls, and a user message with the results.
    pub fn anthropic_batch(&mut self, calls: &[Call], results: &[Content], text: bool) -> Vec<String> {
        let mut blocks = Vec::new();
        if text {
            blocks.push(format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.said(Dress::Plain, 'a')));
        }
        blocks.extend(calls.iter().map(|call| self.tool_use(call)).collect::<Vec<_>>());
        let assistant = format!("{{\"role\":\"assistant\",\"content\":[{}]}}", blocks.join(","));
        self.message += 1;
        let mut blocks = Vec::new();
        for (call, content) in calls.iter().zip(results) {
            blocks.push(self.result_block(call.id, content, false));
        }
        if text {
            blocks.push(format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.said(Dress::Plain, 'u')));
        }
        vec![assistant, format!("{{\"role\":\"user\",\"content\":[{}]}}", blocks.join(","))]
    }

    /// The fields before the messages that only this shape has.
    pub fn anthropic_before(&mut self, around: &Around) -> Vec<String> {
        let mut fields = Vec::new();
        if let Some(dress) = around.system {
            let text = self.said(dress, 's');
            let mark = r#","cache_control":{"type":"ephemeral"}"#;
            fields.push(match around.tools + usize::from(around.spaced) {
                0 => format!("\"system\":[{{\"type\":\"text\",\"text\":\"{text}\"{mark}}}]"),
                1 => format!("\"system\":[\"{text}\",{{\"type\":\"text\",\"text\":\" \"}}]"),
                2 => format!("\"system\":{{\"type\":\"text\",\"text\":\"{text}\"}}"),
                _ => format!("\"system\":\"{text}\""),
            });
        } else {
            fields.push("\"system\":null".into());
        }
        if around.thinking {
            fields.push("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}".into());
        }
        fields
    }
}

/// The fields after the messages.
pub fn after(around: &Around) -> Vec<String> {
    let tools = match around.tools {
        0 => None,
        1 => Some("\"tools\":[{\"name\":\"read\",\"input_schema\":{\"type\":\"object\"}}]"),
        3 => Some(
            "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"web_search\"}",
        ),
        _ => Some(
            "\"tools\":[{\"name\":\"mcp.files:list\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"auto\"}",
        ),
    };
    tools.into_iter().chain(["\"max_tokens\": 4000"]).map(str::to_owned).collect()
}
