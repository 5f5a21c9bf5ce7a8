//! The fields of a Responses request.

use crate::shape::{Field, Kind, POSITIVE};

pub(super) const SETTINGS: &[Field] = &[
    Field::required("model", Kind::FilledText),
    Field::optional("input", Kind::Any),
    Field::nullable("instructions", Kind::Any),
    Field::nullable("tools", Kind::Any),
    Field::nullable("tool_choice", Kind::Any),
    Field::nullable("access_programs", Kind::Object),
    Field::nullable("background", Kind::Flag),
    // Sent by Codex.
    Field::nullable("client_metadata", Kind::Object),
    Field::nullable("context_management", Kind::List),
    Field::nullable("conversation", Kind::Any),
    Field::nullable("image", Kind::Object),
    Field::nullable("include", Kind::Texts(usize::MAX)),
    Field::nullable("max_output_tokens", Kind::Integer(16, i64::MAX)),
    Field::nullable("max_tool_calls", POSITIVE),
    Field::nullable("metadata", Kind::TextMap(16)),
    Field::nullable("moderation", Kind::Object),
    Field::nullable("parallel_tool_calls", Kind::Flag),
    Field::nullable("previous_response_id", Kind::FilledText),
    Field::nullable("prompt", Kind::Object),
    Field::nullable("prompt_cache_key", Kind::Text),
    Field::nullable("prompt_cache_options", Kind::Object),
    Field::nullable("prompt_cache_retention", Kind::OneOf(&["in_memory", "in-memory", "24h"])),
    Field::nullable(
        "reasoning",
        Kind::Fields(&[
            Field::nullable(
                "effort",
                Kind::OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
            ),
            Field::nullable("summary", Kind::OneOf(&["auto", "concise", "detailed", "none"])),
            Field::nullable("generate_summary", Kind::Text),
            Field::nullable("context", Kind::Text),
            Field::nullable("mode", Kind::Text),
        ]),
    ),
    Field::nullable("safety_identifier", Kind::Text),
    Field::nullable("service_tier", Kind::OneOf(&["auto", "default", "flex", "scale", "priority", "fast"])),
    Field::nullable("store", Kind::Flag),
    Field::nullable("stream", Kind::Flag),
    Field::nullable("stream_options", Kind::Object),
    Field::nullable("temperature", Kind::Number(0.0, 2.0)),
    Field::nullable(
        "text",
        Kind::Fields(&[
            Field::nullable("format", Kind::Object),
            Field::nullable("verbosity", Kind::OneOf(&["low", "medium", "high"])),
        ]),
    ),
    Field::nullable("top_logprobs", Kind::Integer(0, 20)),
    Field::nullable("top_p", Kind::Number(0.0, 1.0)),
    Field::nullable("truncation", Kind::OneOf(&["auto", "disabled"])),
    Field::nullable("user", Kind::Text),
];
