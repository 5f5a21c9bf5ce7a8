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
    decoder: Decoder::<stream::MistralAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};
