//! The fields of a Responses request.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    optional("input", Any),
    nullable("instructions tools tool_choice conversation", Any),
    nullable(
        "access_programs client_metadata image moderation prompt prompt_cache_options stream_options",
        Object,
    ),
    nullable("background parallel_tool_calls store stream", Flag),
    nullable("context_management", List),
    nullable("include", Texts(usize::MAX)),
    nullable("max_output_tokens", Integer(16, i64::MAX)),
    nullable("max_tool_calls", POSITIVE),
    nullable("metadata", TextMap(16)),
    nullable("previous_response_id", FilledText),
    nullable("prompt_cache_key safety_identifier user", Text),
    nullable("prompt_cache_retention", OneOf(&["in_memory", "in-memory", "24h"])),
    nullable("reasoning", Fields(REASONING)),
    nullable("service_tier", OneOf(&["auto", "default", "flex", "scale", "priority", "fast"])),
    nullable("temperature", Number(0.0, 2.0)),
    nullable("text", Fields(TEXT)),
    nullable("top_logprobs", Integer(0, 20)),
    nullable("top_p", Number(0.0, 1.0)),
    nullable("truncation", OneOf(&["auto", "disabled"])),
];

const REASONING: &[Row] = &[
    nullable("effort", OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
    nullable("summary", OneOf(&["auto", "concise", "detailed", "none"])),
    nullable("generate_summary context mode", Text),
];

const TEXT: &[Row] = &[nullable("format", Object), nullable("verbosity", OneOf(&["low", "medium", "high"]))];
