//! What Bedrock's Converse API answers, by rule. `{i}` and `{j}` stand for message and block, `{id}` for a call's id.

use rejoin_view::Rule;

pub(super) fn answer(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::UnansweredCall | Rule::PartialBatch | Rule::DetachedResult => {
            "Expected toolResult blocks at messages.{i}.content for the following Ids: {id}"
        }
        Rule::OrphanResult | Rule::ResultBeforeCall | Rule::DuplicateResult => {
            "The number of toolResult blocks at messages.{i}.content exceeds the number of toolUse blocks of \
             previous turn."
        }
        Rule::MissingCallId => {
            "Value at 'messages.{i}.member.content.{j}.member.toolUse.toolUseId' failed to satisfy constraint: \
             Member must not be null"
        }
        Rule::ReusedCallId => "The toolUse blocks at messages.{i}.content contain duplicate Ids: {id}",
        Rule::MalformedArguments | Rule::BlankArguments => {
            "The format of the value at messages.{i}.content.{j}.toolUse.input is invalid."
        }
        Rule::IllegalId => {
            "Value at 'messages.{i}.member.content.{j}.member.toolUse.toolUseId' failed to satisfy constraint: \
             Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+"
        }
        Rule::IllegalName => {
            "Value at 'messages.{i}.member.content.{j}.member.toolUse.name' failed to satisfy constraint: \
             Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        }
        Rule::EmptyMessage => {
            "The text field in the ContentBlock object at messages.{i}.content.{j} is blank. Add text to the \
             text field, and try again."
        }
        Rule::LateSystem | Rule::RoleOrder => {
            "A conversation must alternate between user and assistant roles. Make sure the conversation \
             alternates between user and assistant roles and try again."
        }
        Rule::UnknownRole => {
            "Value at 'messages.{i}.member.role' failed to satisfy constraint: Member must satisfy enum value \
             set: [user, assistant]"
        }
        Rule::ForeignReasoning => "thinking.signature: Field required",
        Rule::StubTools => {
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        }
        Rule::MovedMedia => "ValidationException: media are only supported in user messages",
        Rule::UnusableMedia => "ValidationException: Could not process image",
        Rule::LoneSurrogate => "The request body is not valid JSON: no low surrogate in string",
        Rule::TooLarge => "ValidationException: above the maximum size or number of images and documents",
        _ => return None,
    })
}
