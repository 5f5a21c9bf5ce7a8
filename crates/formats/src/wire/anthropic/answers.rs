//! What Anthropic's API answers, by rule. `{i}` and `{j}` stand for message and block, `{id}` for a call's id.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DetachedResult => {
            "messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}. \
             Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        }
        Rule::OrphanResult | Rule::ResultBeforeCall => {
            "messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. \
             Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        }
        Rule::MissingCallId => "messages.{i}.content.{j}: tool_use_id: Field required",
        Rule::DuplicateResult => {
            "messages.{i}.content.{j}: each tool_use must have a single result. \
             Found multiple `tool_result` blocks with id: {id}"
        }
        Rule::ReusedCallId => "messages.{i}.content.{j}: `tool_use` ids must be unique",
        Rule::MalformedArguments | Rule::BlankArguments => {
            "messages.{i}.content.{j}.tool_use.input: Input should be a valid dictionary"
        }
        Rule::IllegalId => {
            "messages.{i}.content.{j}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        }
        Rule::IllegalName => "tools.{k}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        Rule::EmptyMessage => "messages: text content blocks must be non-empty",
        Rule::LateSystem => {
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter"
        }
        Rule::RoleOrder => {
            "This model does not support assistant message prefill. The conversation must end with a user message."
        }
        Rule::ForeignReasoning => "messages.{i}.content.{j}: Invalid `signature` in `thinking` block",
        Rule::LoneSurrogate => "The request body is not valid JSON: no low surrogate in string",
        Rule::StubTools => "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        Rule::UnknownField => "messages.{i}: Extra inputs are not permitted",
        Rule::UnknownRole => "messages.{i}.role: Input should be 'user' or 'assistant'",
        Rule::MovedMedia => "all content must be type `text` if `is_error` is true",
        Rule::UnusableMedia => "messages.{i}.content.{j}.image.source.base64: image cannot be empty",
        Rule::TooLarge => "request_too_large: Request exceeds the maximum size",
        _ => return None,
    })
}
