//! What a request of the Messages API asks for. A limit on the answer is required.

use rejoin_record::json::Object;

use crate::wire::settings::{RequestSettings, SettingFields, Thinking};

/// The smallest budget for reasoning, in tokens.
const LEAST_BUDGET: u64 = 1_024;

pub fn fields(wanted: &RequestSettings) -> SettingFields {
    let max = wanted.limit.tokens().max(1);
    let mut fields = vec![("max_tokens", max.to_string()), ("stream", String::from("true"))];
    let thinking = |how: &str| Object::new().text("type", how);
    match (wanted.effort(), wanted.thinking) {
        (None, _) => {}
        (Some(effort), Some(Thinking::Budget)) => {
            // The budget must leave room for the answer.
            let budget = effort.budget().min(max.saturating_sub(LEAST_BUDGET));
            if budget >= LEAST_BUDGET {
                fields.push(("thinking", thinking("enabled").number("budget_tokens", budget).finish()));
            }
        }
        (Some(effort), _) => {
            fields.push(("thinking", thinking("adaptive").finish()));
            fields.push(("output_config", Object::new().text("effort", effort.word()).finish()));
        }
    }
    fields
}
