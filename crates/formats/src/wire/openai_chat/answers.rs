//! What OpenAI's Chat API answers, by rule. `{i}` and `{j}` stand for message and block, `{id}` for a call's id.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DetachedResult => {
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {id}"
        }
        Rule::OrphanResult | Rule::ResultBeforeCall | Rule::MissingCallId => {
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        }
        Rule::DuplicateResult | Rule::ReusedCallId => {
            "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{i}]."
        }
        Rule::IllegalId => {
            "Invalid 'messages[{i}].tool_calls[{j}].id': string too long. Expected a string with maximum length 40."
        }
        Rule::IllegalName => {
            "Invalid 'messages[{i}].tool_calls[{j}].function.name': string does not match pattern. \
             Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        }
        Rule::MalformedArguments | Rule::BlankArguments => "Expecting value: line 1 column 1 (char 0)",
        Rule::EmptyMessage | Rule::IrregularContent => {
            "Invalid value for 'content': expected a string, got null."
        }
        Rule::MovedMedia => {
            "Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', \
             but this message contains an image URL."
        }
        Rule::UnusableMedia => {
            "Invalid 'messages[{i}].content[{j}].image_url.url'. Expected a base64-encoded data URL with an \
             image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got empty \
             base64-encoded bytes."
        }
        Rule::SplitBatch => {
            "Invalid 'messages[{i}].tool_calls': array too long. Expected an array with maximum length 128."
        }
        Rule::RoleOrder => "Invalid 'messages': empty array. Expected an array with minimum length 1.",
        Rule::UnknownRole => {
            "Invalid value: '{id}'. Supported values are: 'system', 'assistant', 'user', 'function', and 'tool'."
        }
        Rule::LoneSurrogate => "We could not parse the JSON body of your request.",
        Rule::ForeignReasoning => "property 'reasoning_content' is unsupported",
        Rule::TooLarge => "string too long, or array too long: above the maximum length",
        _ => return None,
    })
}
