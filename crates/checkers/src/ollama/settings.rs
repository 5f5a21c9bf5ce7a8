//! The fields of an Ollama chat request. As Go reads JSON, fields that it does not know are passed over.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    nullable("messages tools format keep_alive think", Any),
    nullable("stream truncate shift logprobs", Flag),
    nullable("options", Object),
    nullable("top_logprobs", NATURAL),
];
