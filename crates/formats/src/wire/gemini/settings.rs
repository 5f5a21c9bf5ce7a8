//! What a request of `generateContent` asks for. Its address asks for the stream.

use rejoin_record::json::Object;

use crate::wire::settings::{Effort, RequestSettings, SettingFields, Thinking};

pub fn fields(wanted: &RequestSettings) -> SettingFields {
    let mut config = Object::new();
    if let Some(max) = wanted.limit.set() {
        config = config.number("maxOutputTokens", max);
    }
    if let Some(effort) = wanted.effort() {
        let thinking = Object::new().flag("includeThoughts", true);
        let thinking = match (wanted.thinking, effort) {
            (Some(Thinking::Budget), effort) => thinking.number("thinkingBudget", effort.budget()),
            (_, Effort::Low) => thinking.text("thinkingLevel", "low"),
            (_, Effort::Medium | Effort::High) => thinking.text("thinkingLevel", "high"),
        };
        config = config.object("thinkingConfig", thinking);
    }
    let config = config.finish();
    if config == "{}" { Vec::new() } else { vec![("generationConfig", config)] }
}
