//! What OpenAI's Responses API answers, by rule. `{i}` and `{j}` stand for item and part, `{id}` for a call's id.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DetachedResult => {
            "No tool output found for function call {id}."
        }
        Rule::OrphanResult | Rule::ResultBeforeCall => {
            "No tool call found for function call output with call_id {id}."
        }
        Rule::MissingCallId => "Missing required parameter: 'input[{i}].call_id'.",
        Rule::DuplicateResult | Rule::ReusedCallId => "Duplicate 'call_id': {id}",
        Rule::IllegalId => {
            "Invalid 'input[{i}].call_id': string too long. Expected a string with maximum length 64."
        }
        Rule::IllegalName => {
            "Invalid 'input[{i}].name': string does not match pattern. \
             Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        }
        Rule::MalformedArguments | Rule::BlankArguments => {
            "Invalid type for 'input[{i}].arguments': expected a string."
        }
        Rule::EmptyMessage | Rule::IrregularContent => {
            "Invalid type for 'input[{i}].content': expected one of a string or array of objects."
        }
        Rule::MovedMedia | Rule::ForeignBlock => {
            "Invalid value: 'input_image'. Supported values are: 'output_text' and 'refusal'."
        }
        Rule::UnusableMedia => {
            "Invalid 'input[{i}].content[{j}].image_url'. Expected a base64-encoded data URL with an image MIME \
             type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got empty base64-encoded bytes."
        }
        Rule::RoleOrder => "Invalid 'input': empty array. Expected an array with minimum length 1.",
        Rule::UnknownRole => {
            "Invalid value: '{id}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
        }
        Rule::LoneSurrogate => "We could not parse the JSON body of your request.",
        Rule::ForeignReasoning => {
            "The encrypted content could not be verified. \
             Reason: Encrypted content could not be decrypted or parsed."
        }
        Rule::TooLarge => "string too long, or array too long: above the maximum length",
        _ => return None,
    })
}
