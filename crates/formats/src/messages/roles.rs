//! The author of a message, by the words that programs use. An unknown word is kept and reported; it is never taken for a user
//! or a model.

use rejoin_record::{
    Role,
    json::{Value, ValueKind},
};

/// Words for the model.
const MODELS: &str = "assistant ai model bot agent llm gemini claude gpt chatgpt copilot codex qwen cursor iflow openai \
                      anthropic deepseek mistral grok";

/// Words for the user.
const PEOPLE: &str = "user human person";

/// Fields in which programs name the author, instead of `role`.
const FIELDS: &[&str] = &["author", "sender", "from", "speaker", "who", "type", "kind", "sessionUpdate"];

/// The role of a name, in upper or lower case.
pub(crate) fn named(name: &str) -> Role {
    // The most common words, and those of collections with millions of messages.
    match name {
        "user" | "human" => return Role::User,
        "assistant" | "gpt" => return Role::Assistant,
        "tool" => return Role::Tool,
        _ => {}
    }
    let word = name.to_ascii_lowercase();
    match &*word {
        "system" => Role::System,
        "developer" => Role::Developer,
        "tool" | "function" => Role::Tool,
        word if is_among(word, MODELS) => Role::Assistant,
        word if is_among(word, PEOPLE) => Role::User,
        _ => Role::named(name),
    }
}

/// The author of an item without `role`, by another field, and the name of that field.
pub(crate) fn by_another_field(item: Value<'_>) -> Option<(Role, &'static str)> {
    FIELDS.iter().find_map(|field| {
        let value = item.given(field)?;
        let value = match value.kind() {
            ValueKind::Object => {
                value.given("role").or_else(|| value.given("type")).or_else(|| value.given("name"))?
            }
            _ => value,
        };
        let word = value.as_str().filter(|word| !word.is_empty())?;
        // These words do not name an author.
        let says = !matches!(&*word, "message" | "text" | "chat" | "msg");
        says.then(|| (of_word(&word), *field))
    })
}

/// Whether a word is in a list, which spaces separate.
pub(crate) fn is_among(word: &str, list: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The author that a word like `user` or `agent_message_chunk` names. A word that names both, or something other than a message,
/// stays unknown.
fn of_word(word: &str) -> Role {
    let role = named(word);
    if !matches!(role, Role::Other(_)) {
        return role;
    }
    let lower = word.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let any = |known: &str| words.iter().any(|word| is_among(word, known));
    let plain = words.iter().all(|word| {
        [MODELS, PEOPLE, "message chunk text msg turn"].iter().any(|known| is_among(word, known))
    });
    match (plain, any(PEOPLE), any(MODELS)) {
        (true, true, false) => Role::User,
        (true, false, true) => Role::Assistant,
        _ => role,
    }
}

#[cfg(test)]
mod tests {
    use rejoin_record::json::Doc;

    use super::*;

    #[test]
    fn who_speaks_is_told_by_known_words_only() {
        for (role, words) in [
            (Role::User, "user Human"),
            (Role::Assistant, "AI gemini model"),
            (Role::Tool, "function"),
            (Role::System, "SYSTEM"),
            (Role::Other("narrator".into()), "narrator"),
        ] {
            assert!(words.split(' ').all(|word| named(word) == role), "{role}");
        }
        for (item, role) in [
            (r#"{"type":"model"}"#, Some(Role::Assistant)),
            (r#"{"sessionUpdate":"agent_message_chunk"}"#, Some(Role::Assistant)),
            (r#"{"sessionUpdate":"user_message_chunk"}"#, Some(Role::User)),
            (r#"{"sessionUpdate":"agent_thought_chunk"}"#, Some(Role::Other("agent_thought_chunk".into()))),
            (r#"{"author":{"role":"assistant"}}"#, Some(Role::Assistant)),
            (r#"{"from":"gpt","value":"x"}"#, Some(Role::Assistant)),
            (r#"{"type":"message","sender":"human"}"#, Some(Role::User)),
            (r#"{"type":"user_to_assistant"}"#, Some(Role::Other("user_to_assistant".into()))),
            (r#"{"type":"message","content":"x"}"#, None),
            (r#"{"content":"x"}"#, None),
        ] {
            let doc = Doc::parse(item).unwrap();
            assert_eq!(by_another_field(doc.root().unwrap()).map(|(role, _)| role), role, "{item}");
        }
    }
}
