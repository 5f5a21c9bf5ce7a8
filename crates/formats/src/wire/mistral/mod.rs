//! Mistral's hosted API, which is strict about ids and about the order of roles.

mod stream;
mod write;

use super::prelude::*;

/// The descriptor of Mistral's dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Mistral,
    name: "mistral",
    provider: "Mistral",
    repeats: &[],
    ends_with_user: true,
    limits: RequestLimits::NONE,
    legal_id: |id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
    id_length: 9,
    encoder: write::encoder,
    own_mark,
    own_model,
    decoder: Decoder::<stream::MistralAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};

fn own_mark(request: Value<'_>) -> Option<&'static str> {
    let mut messages = request.get("messages").into_iter().flat_map(Value::items).peekable();
    messages.peek()?;
    let field = ["safe_prompt", "random_seed"].into_iter().find(|name| request.given(name).is_some());
    let of_own_model = || request.get("model").and_then(Value::as_str).is_some_and(|model| own_model(&model));
    let prefix = |message: Value<'_>| message.get("prefix").and_then(Value::as_bool) == Some(true);
    // DeepSeek has the same field.
    field.or_else(|| (of_own_model() && messages.any(prefix)).then_some("prefix"))
}

/// Other servers have Mistral's models under other names.
fn own_model(name: &str) -> bool {
    const FAMILIES: [&str; 9] = [
        "mistral-",
        "ministral-",
        "codestral-",
        "magistral-",
        "devstral-",
        "pixtral-",
        "voxtral-",
        "open-mistral-",
        "open-mixtral-",
    ];
    let is_version =
        |end: &str| end == "latest" || (end.len() == 4 && end.bytes().all(|byte| byte.is_ascii_digit()));
    let family = FAMILIES.iter().any(|family| name.starts_with(family));
    family && name.rsplit_once('-').is_some_and(|(_, end)| is_version(end))
}
