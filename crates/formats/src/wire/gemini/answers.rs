//! What Google's Gemini API answers, by rule. `{i}` and `{j}` stand for content and part.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        // Calls and responses are paired by their places, so ids that are used twice leave a call unanswered.
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DuplicateResult | Rule::ReusedCallId => {
            "Please ensure that the number of function response parts is equal to the number of function call \
             parts of the function call turn."
        }
        Rule::OrphanResult | Rule::ResultBeforeCall | Rule::DetachedResult | Rule::MissingCallId => {
            "Please ensure that function response turn comes immediately after a function call turn."
        }
        Rule::MalformedArguments | Rule::BlankArguments => {
            "Invalid value at 'contents[{i}].parts[{j}].function_call.args' \
             (type.googleapis.com/google.protobuf.Struct)"
        }
        Rule::IllegalName => {
            "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, \
             0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
        }
        Rule::EmptyMessage => {
            "* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty."
        }
        Rule::LateSystem | Rule::UnknownRole => {
            "Role '{id}' is not supported. Please use a valid role: user, model."
        }
        Rule::RoleOrder => "Please ensure that multiturn requests alternate between user and model.",
        Rule::ForeignReasoning => "Corrupted thought signature.",
        Rule::MovedMedia => {
            "Please ensure that the number of function response parts is equal to the number of function call \
             parts of the function call turn."
        }
        Rule::IrregularContent | Rule::UnknownField => {
            "Invalid JSON payload received. Unknown name at 'contents[{i}].parts[{j}]': Cannot find field."
        }
        Rule::LoneSurrogate => "Invalid JSON payload received. Unexpected token.",
        Rule::UnusableMedia => "Unable to process input image.",
        Rule::TooLarge => "Request payload size exceeds the limit.",
        _ => return None,
    })
}
