//! The fields of an Ollama chat request. Like any Go program, Ollama ignores unknown fields.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    nullable("messages tools format keep_alive think", Any),
    nullable("stream truncate shift logprobs", Flag),
    nullable("options", Object),
    nullable("top_logprobs", NATURAL),
];
