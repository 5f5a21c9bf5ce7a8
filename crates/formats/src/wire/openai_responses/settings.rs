//! What a request of the Responses API asks for.

use rejoin_record::json::{Object, quoted};

use crate::wire::settings::{RequestSettings, SettingFields, Thinking};

/// The instructions for the service that requires some, if the conversation has none.
const INSTRUCTIONS: &str = "You are a helpful assistant.";

pub fn fields(wanted: &RequestSettings) -> SettingFields {
    let mut fields = vec![("store", String::from("false")), ("stream", String::from("true"))];
    if wanted.is_subscription {
        fields.push(("instructions", quoted(INSTRUCTIONS)));
    }
    // Models that do not reason refuse a request for their reasoning.
    if wanted.thinking != Some(Thinking::None) {
        fields.push(("include", String::from("[\"reasoning.encrypted_content\"]")));
    }
    if let Some(max) = wanted.limit.set().filter(|_| !wanted.is_subscription) {
        fields.push(("max_output_tokens", max.to_string()));
    }
    if let Some(effort) = wanted.effort() {
        let reasoning = Object::new().text("effort", effort.word()).text("summary", "auto");
        fields.push(("reasoning", reasoning.finish()));
    }
    fields
}
