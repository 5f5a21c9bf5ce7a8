//! Bodies in the shape of OpenAI Chat.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    anthropic::block,
    chat::{Content, JUNK, Message, content},
    plan::{Around, Call, Dress, IDS, NAMES, args, call, id},
    writer::Writer,
};

pub fn message() -> impl Strategy<Value = Message> {
    let role = select(vec!["user", "user", "user", "system", "developer", "assistant", "weird", "human"]);
    prop_oneof![
        5 => (role, content()).prop_map(|(role, content)| Message::Speaker(role, content)),
        5 => (content(), vec(call(), 0..4), option::weighted(0.2, 0..3usize), prop_oneof![9 => Just(0usize), 1 => 1..3usize])
            .prop_map(|(content, calls, reasoning, calls_field)| Message::Assistant { content, calls, reasoning, calls_field }),
        6 => (option::weighted(0.95, id()), content()).prop_map(|(id, content)| Message::Tool(id, content)),
        4 => (vec(call(), 1..4), vec(content(), 4), any::<bool>()).prop_map(|(c, r, t)| Message::Turn(c, r, t)),
        1 => args().prop_map(Message::LegacyCall), 1 => content().prop_map(Message::LegacyResult),
        1 => (0..JUNK.len()).prop_map(Message::Junk),
        1 => (select(vec!["user", "assistant"]), vec(block(), 0..3), Just(false)).prop_map(|(r, b, e)| Message::Blocks(r, b, e)),
    ]
}

impl Writer {
    /// A call: an element of `tool_calls`.
    pub fn tool_call(&mut self, call: &Call) -> String {
        if let Some(id) = call.id {
            self.truth.call_ids.push(IDS[id].into());
        }
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let (name, arguments) = (NAMES[call.name], self.arguments_as_text(call, "arguments"));
        format!("{{{id}\"type\":\"function\",\"function\":{{\"name\":\"{name}\"{arguments}}}}}")
    }

    /// An assistant message with calls, and a message for each result.
    pub fn openai_batch(&mut self, calls: &[Call], results: &[Content], text: bool) -> Vec<String> {
        let said = if text { format!("\"{}\"", self.said(Dress::Plain, 'a')) } else { "null".into() };
        let list: Vec<String> = calls.iter().map(|call| self.tool_call(call)).collect();
        let list = list.join(",");
        let mut messages =
            vec![format!("{{\"role\":\"assistant\",\"content\":{said},\"tool_calls\":[{list}]}}")];
        for (call, content) in calls.iter().zip(results) {
            self.message += 1;
            messages.push(self.tool(call.id, content));
        }
        messages
    }
}

/// The fields after the messages.
pub fn after(around: &Around) -> Vec<String> {
    let tools = match around.tools {
        0 => None,
        1 => Some(
            "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"parameters\":{\"type\":\"object\"}}}]",
        ),
        3 => Some(
            "\"tools\":[{\"type\":\"custom\",\"custom\":{\"name\":\"sql\"}}],\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"sql\"}}",
        ),
        _ => Some(
            "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"mcp.files:list\"}}],\"tool_choice\":\"auto\"",
        ),
    };
    tools.into_iter().chain(["\"max_tokens\": 1000"]).map(str::to_owned).collect()
}
