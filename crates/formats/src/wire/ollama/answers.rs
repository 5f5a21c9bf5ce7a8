//! What Ollama answers, by rule; of pairing and order it says nothing, since it does not look.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::MalformedArguments | Rule::BlankArguments => {
            "json: cannot unmarshal string into Go struct field \
             ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"
        }
        Rule::IrregularContent | Rule::MovedMedia | Rule::ForeignBlock => {
            "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
        }
        _ => return None,
    })
}
