//! What a request of Chat Completions asks for. Services differ here more than anywhere else: see
//! [`Quirks`](crate::wire::settings::Quirks).

use rejoin_record::json::{Object, quoted};

use crate::wire::settings::{RequestSettings, SettingFields, Thinking};

pub fn fields(wanted: &RequestSettings) -> SettingFields {
    let mut fields = vec![("stream", String::from("true"))];
    if wanted.quirks.stream_options {
        fields.push(("stream_options", Object::new().flag("include_usage", true).finish()));
    }
    if let Some(max) = wanted.limit.set() {
        fields.push((wanted.quirks.max_tokens, max.to_string()));
    }
    if let Some(effort) = wanted.effort().filter(|_| wanted.quirks.effort) {
        fields.push(("reasoning_effort", quoted(effort.word())));
    }
    let reasons = wanted.effort.is_some() || wanted.thinking == Some(Thinking::Adaptive);
    if wanted.quirks.thinking_field && reasons {
        fields.push(("thinking", Object::new().text("type", "enabled").finish()));
    }
    fields
}
