//! What a request of Ollama's API asks for.

use rejoin_record::json::Object;

use crate::wire::settings::{RequestSettings, SettingFields};

pub fn fields(wanted: &RequestSettings) -> SettingFields {
    let mut fields = vec![("stream", String::from("true"))];
    if wanted.effort().is_some() {
        fields.push(("think", String::from("true")));
    }
    if let Some(max) = wanted.limit.set() {
        fields.push(("options", Object::new().number("num_predict", max).finish()));
    }
    fields
}
