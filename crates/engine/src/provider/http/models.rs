//! Reads the list of models of any service: the shapes differ only in the names of a few fields. Facts that a service does not give
//! stay empty here; `catalogue.rs` may know them.

use rejoin_record::json::{Doc, Value, ValueKind};

use crate::provider::Model;

/// The models of a list; `None` if the text is not a list of models.
pub fn read(text: &str) -> Option<Vec<Model>> {
    let doc = Doc::parse(text.trim_start_matches('\u{feff}').trim()).ok()?;
    let root = doc.root()?;
    let list = match root.kind() {
        ValueKind::Array => root,
        _ => ["data", "models"].iter().find_map(|name| root.get(name))?,
    };
    // A server without models may send `null`.
    if !matches!(list.kind(), ValueKind::Array | ValueKind::Null) {
        return None;
    }
    Some(list.items().filter(|model| talks(*model)).filter_map(model).collect())
}

fn model(value: Value<'_>) -> Option<Model> {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| value.given(name)?.as_str()).map(std::borrow::Cow::into_owned)
    };
    let id = text(&["id", "model", "name"])?;
    let id = id.strip_prefix("models/").unwrap_or(&id).to_owned();
    let limits = value.given("capabilities").and_then(|able| able.given("limits"));
    let top = value.given("top_provider");
    let number = |names: &[&str]| {
        let holders = [Some(value), limits, top].into_iter().flatten();
        holders.flat_map(|holder| names.iter().filter_map(move |name| holder.given(name)?.as_u64())).next()
    };
    let window = number(&[
        "context_window",
        "context_length",
        "max_context_length",
        "max_model_len",
        "inputTokenLimit",
        "max_input_tokens",
        "max_context_window_tokens",
    ]);
    let max_output =
        number(&["max_completion_tokens", "outputTokenLimit", "max_output_tokens", "max_tokens"]);
    Some(Model {
        name: text(&["display_name", "displayName", "name"])
            .filter(|name| name.strip_prefix("models/").unwrap_or(name) != id),
        window,
        max_output,
        id,
    })
}

/// Whether a model can chat. Only models that the list marks otherwise are left out.
fn talks(model: Value<'_>) -> bool {
    let able = |list: Value<'_>| list.items().any(|method| method.is_str("generateContent"));
    let generates = model.given("supportedGenerationMethods").is_none_or(able);
    let kind = model.given("capabilities").and_then(|able| able.given("type"));
    generates && kind.is_none_or(|kind| kind.is_str("chat") || kind.as_str().is_none())
}
