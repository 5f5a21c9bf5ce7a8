//! What Google's API answers, by rule.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DuplicateResult => {
            "Please ensure that the number of function response parts is equal to the number of function call parts \
             of the function call turn."
        }
        Rule::OrphanResult
        | Rule::MissingCallId
        | Rule::ResultBeforeCall
        | Rule::DetachedResult
        | Rule::ReusedCallId => {
            "Please ensure that function response turn comes immediately after a function call turn."
        }
        Rule::MalformedArguments => "Invalid value at 'contents[{i}].parts[{j}].function_call.args'",
        Rule::TooLarge => "Request payload size exceeds the limit",
        _ => return None,
    })
}
