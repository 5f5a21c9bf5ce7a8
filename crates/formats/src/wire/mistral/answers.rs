//! What Mistral's chat API answers, by rule. `{i}` and `{j}` stand for message and block, `{id}` for a call's id.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch => "Not the same number of function calls and responses",
        Rule::DetachedResult => "Unexpected role 'tool' after role 'user'",
        Rule::OrphanResult | Rule::ResultBeforeCall => "Unexpected tool call id {id} in tool results",
        Rule::MissingCallId => "Tool call id has to be defined.",
        Rule::DuplicateResult => "Duplicate tool call id {id} in tool results",
        Rule::ReusedCallId => "Duplicate tool call id {id} in assistant message",
        Rule::IllegalId => "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
        Rule::IllegalName => {
            "Function name was {id} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a \
             maximum length of 64."
        }
        Rule::EmptyMessage => "Assistant message must have either content or tool_calls, but not both.",
        Rule::RoleOrder => {
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        }
        Rule::LateSystem => "Unexpected role 'system' after role 'assistant'",
        Rule::UnknownRole => "messages.{i}.role: Input should be 'system', 'user', 'assistant' or 'tool'",
        Rule::UnknownField | Rule::ForeignReasoning => "messages.{i}: Extra inputs are not permitted",
        Rule::MovedMedia | Rule::ForeignBlock => {
            "messages.{i}.content.{j}: Input tag found using 'type' does not match any of the expected tags"
        }
        Rule::IrregularContent => "messages.{i}.content: Input should be a valid string or list",
        Rule::LoneSurrogate => "The request body is not valid JSON: no low surrogate in string",
        _ => return None,
    })
}
