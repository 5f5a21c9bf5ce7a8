//! The fields of an Ollama chat request. As Go reads JSON, fields that it does not know are passed over.

use crate::shape::{Field, Kind, NATURAL};

pub(super) const SETTINGS: &[Field] = &[
    Field::required("model", Kind::FilledText),
    Field::nullable("messages", Kind::Any),
    Field::nullable("tools", Kind::Any),
    Field::nullable("stream", Kind::Flag),
    Field::nullable("options", Kind::Object),
    Field::nullable("format", Kind::Any),
    Field::nullable("keep_alive", Kind::Any),
    Field::nullable("think", Kind::Any),
    Field::nullable("truncate", Kind::Flag),
    Field::nullable("shift", Kind::Flag),
    Field::nullable("logprobs", Kind::Flag),
    Field::nullable("top_logprobs", NATURAL),
];
