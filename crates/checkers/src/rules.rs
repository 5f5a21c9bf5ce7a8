//! Every rule that a checker can report, in one sentence. A rule's name is a promise: scripts match on it.

/// What a provider demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderRule {
    /// The name that violations carry, such as `ANT-01`. `-schema` covers everything that the types of a request refuse.
    pub name: &'static str,
    /// The demand, in one sentence.
    pub demands: &'static str,
}

const fn rule(name: &'static str, demands: &'static str) -> ProviderRule {
    ProviderRule { name, demands }
}

/// Every rule, by dialect.
pub const RULES: &[ProviderRule] = &[
    rule("ANT-01", "Every tool_use of an assistant message needs its tool_result in the very next message."),
    rule("ANT-02", "Every tool_result must name a tool_use of the message before it."),
    rule("ANT-03", "The tool_result blocks of a message come first, before text and images."),
    rule("ANT-04", "A tool_use has one tool_result, not two."),
    rule("ANT-05", "The ids of tool_use blocks are unique in the whole request."),
    rule("ANT-06", "Ids of tool calls consist of letters, digits, _ and -."),
    rule("ANT-07", "The input of a tool_use is a JSON object."),
    rule("ANT-08", "Tool names have 1 to 128 letters, digits, _ and -."),
    rule("ANT-09", "A request with tool_use or tool_result blocks declares its tools."),
    rule("ANT-10", "Text blocks hold more than white space."),
    rule("ANT-11", "Every message has content."),
    rule("ANT-12", "There is at least one message, and the first is the user's."),
    rule("ANT-13", "An assistant message at the end does not end in white space."),
    rule("ANT-14", "From Claude 4.6 on, the last message is the user's."),
    rule(
        "ANT-16",
        "System text goes into `system`; only models from Claude 4.8 on take system messages in the list.",
    ),
    rule("ANT-17", "A message's role is user or assistant."),
    rule(
        "ANT-18",
        "With thinking enabled, the message that opens the last tool loop begins with a thinking block.",
    ),
    rule("ANT-20", "A thinking block carries its signature."),
    rule("ANT-22", "With thinking disabled, an assistant message at the end holds no thinking."),
    rule("ANT-23", "With thinking enabled, tool_choice does not force a tool."),
    rule("ANT-24", "A tool_result that is an error holds text only."),
    rule("ANT-25", "Images and documents are not empty, decode, and are of the type that they name."),
    rule("ANT-26", "At most four blocks have cache_control, and none of them is empty."),
    rule("ANT-27", "The result of a server tool follows its call in the same message."),
    rule("ANT-28", "A request has at most 32 MB and 100,000 messages."),
    rule("ANT-29", "A message has a role and content, and nothing else."),
    rule("ANT-30", "A request names its model and max_tokens."),
    rule("ANT-schema", "Every field is known to the Messages API and has the type that it expects."),
    rule(
        "OAC-01",
        "After an assistant message with tool_calls come its tool messages, one per call, before anything else.",
    ),
    rule("OAC-02", "A tool message answers a call of the assistant message before it."),
    rule("OAC-03", "A call is answered by one tool message, and its id is used once."),
    rule("OAC-04", "Ids of tool calls have at most 40 characters."),
    rule("OAC-05", "tool_calls has 1 to 128 entries."),
    rule("OAC-06", "Tool names have 1 to 64 letters, digits, _ and -."),
    rule("OAC-07", "Only an assistant message with tool_calls may be without content."),
    rule("OAC-08", "The arguments of a call are a string."),
    rule("OAC-09", "A message's role is system, developer, user, assistant or tool."),
    rule("OAC-10", "Images are allowed in user messages only."),
    rule("OAC-11", "messages is not empty; tools, where it is given, has 1 to 128 entries."),
    rule("OAC-12", "A text has at most 10,485,760 characters."),
    rule("OAC-13", "Functions are declared, called and answered as tools; the older fields are deprecated."),
    rule("OAC-schema", "Every field is known to the API and has the type that it expects."),
    rule("VLL-01", "The arguments of every call hold a JSON object; vLLM reads them all again."),
    rule("RSP-01", "Every call has its output, of the type that belongs to it."),
    rule(
        "RSP-02",
        "Every output has its call, in the list or in an earlier response that the request goes on from.",
    ),
    rule("RSP-04", "A reasoning item is followed by what the model did next."),
    rule(
        "RSP-06",
        "With nothing stored, an item is sent whole and not by its id; reasoning carries its encrypted content.",
    ),
    rule("RSP-07", "Encrypted content is sent as it was issued."),
    rule("RSP-09", "An item's id begins with the prefix of its type."),
    rule("RSP-10", "Ids of items and of calls are unique."),
    rule("RSP-11", "A call_id has at most 64 characters."),
    rule(
        "RSP-12",
        "An assistant's content is output_text or refusal; everyone else's is input_text, input_image or input_file.",
    ),
    rule("RSP-13", "A message's role is assistant, system, developer or user."),
    rule("RSP-16", "The arguments of a function_call and the input of a custom_tool_call are strings."),
    rule("RSP-schema", "Every field is known to the Responses API and has the type that it expects."),
    rule("GEM-01", "A turn of function calls follows a user turn or a turn of function responses."),
    rule("GEM-02", "A turn of function responses follows its function calls."),
    rule("GEM-03", "There are as many function responses as function calls, all in one content."),
    rule("GEM-04", "A content with function responses holds nothing else."),
    rule("GEM-05", "User and model take turns."),
    rule("GEM-06", "The last content is the user's or a function response."),
    rule("GEM-07", "There are contents, and each has parts."),
    rule("GEM-08", "A content's role is user or model."),
    rule(
        "GEM-09",
        "Function names begin with a letter or _ and have at most 64 letters, digits, _, ., : and -.",
    ),
    rule("GEM-10", "The args of a call and the response to it are objects."),
    rule(
        "GEM-11",
        "From Gemini 3 on, the first call of each step of the current turn carries its thought signature.",
    ),
    rule("GEM-12", "A thought signature is sent as it was issued."),
    rule("GEM-14", "A function response names the function that was called."),
    rule("GEM-schema", "Every field is known to the API and has the type that it expects."),
    rule("OLL-01", "The arguments of a call are an object."),
    rule("OLL-02", "A message's content is a string; images stand beside it."),
    rule("OLL-03", "A message's role is system, user, assistant or tool; templates pass over any other."),
    rule("OLL-04", "The results of a message's calls come directly after it, one per call."),
    rule("OLL-schema", "Every field has the type that Ollama expects."),
    rule("MIS-01", "There are as many results as calls before the next assistant message and at the end."),
    rule("MIS-02", "A tool message follows an assistant or tool message."),
    rule("MIS-03", "A user message does not follow a tool message."),
    rule("MIS-04", "A system message does not follow an assistant or tool message."),
    rule("MIS-05", "Ids of tool calls have exactly nine letters and digits."),
    rule("MIS-06", "Ids are unique in a message, and each result answers a call of it."),
    rule("MIS-07", "The last message is the user's or a tool's, or the assistant's with prefix."),
    rule("MIS-08", "An assistant message has content or tool calls."),
    rule(
        "MIS-09",
        "Tool names have 1 to 64 letters, digits, _ and -, and roles are system, user, assistant and tool.",
    ),
    rule("MIS-10", "There is at least one message; a single one is the user's or the system's."),
    rule("MIS-schema", "Every field is known to the API and has the type that it expects."),
    rule("BED-01", "Every toolUse is answered in the next user message."),
    rule("BED-02", "There are no more toolResult blocks than toolUse blocks in the turn before."),
    rule("BED-03", "The ids of a turn's toolUse blocks are unique."),
    rule("BED-04", "User and assistant take turns."),
    rule("BED-05", "The first and the last message are the user's."),
    rule("BED-06", "A request with toolUse or toolResult blocks has a toolConfig with tools."),
    rule(
        "BED-07",
        "Ids have 1 to 64 letters, digits, _, ., : and -; tool names 1 to 64 letters, digits, _ and -.",
    ),
    rule("BED-08", "The input of a toolUse is a JSON object."),
    rule("BED-09", "Texts hold more than white space."),
    rule("BED-10", "Reasoning of Claude carries its signature."),
    rule(
        "BED-11",
        "A message has at most 20 images and 5 documents, within their sizes, and documents have unique names and a text beside them.",
    ),
    rule("BED-schema", "Every field is known to the API and has the type that it expects."),
    rule("SAN-02", "Strings hold no half of a surrogate pair."),
    rule("SAN-07", "A request is not nested deeper than servers read."),
    rule("SAN-09", "Images and documents are not empty, decode, and are of the type that they name."),
];

/// Finds a rule by its name, in any case.
#[must_use]
pub fn rule_named(name: &str) -> Option<&'static ProviderRule> {
    RULES.iter().find(|rule| rule.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// `explain` must have a page for every rule that a checker reports.
    #[test]
    fn every_rule_that_is_reported_is_explained_and_nothing_else() {
        let mut reported = BTreeSet::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![source.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name != "tests.rs" && name != "rules.rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                    let words = code.split('"').filter(|word| {
                        let (kind, rest) = word.split_once('-').unwrap_or_default();
                        kind.len() == 3
                            && kind.bytes().all(|byte| byte.is_ascii_uppercase())
                            && (rest == "schema" || (rest.len() == 2 && rest.parse::<u8>().is_ok()))
                    });
                    reported.extend(words.map(str::to_owned));
                }
            }
        }
        let explained: BTreeSet<String> = RULES.iter().map(|rule| rule.name.to_owned()).collect();
        assert_eq!(reported, explained);
        assert_eq!(explained.len(), RULES.len(), "a rule is explained twice");
        assert_eq!(rule_named("ant-01").map(|rule| rule.name), Some("ANT-01"));
    }
}
