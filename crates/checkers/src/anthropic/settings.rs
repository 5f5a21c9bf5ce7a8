//! The fields of a Messages request, those of the beta endpoints included.

use crate::shape::{Field, Kind, NATURAL, POSITIVE};

pub(super) const SETTINGS: &[Field] = &[
    Field::required("model", Kind::FilledText),
    Field::required("max_tokens", POSITIVE),
    Field::optional("messages", Kind::Any),
    Field::optional("system", Kind::Any),
    Field::nullable("tools", Kind::Any),
    Field::nullable(
        "tool_choice",
        Kind::Fields(&[
            Field::optional("type", Kind::Any),
            Field::optional("name", Kind::Any),
            Field::optional("disable_parallel_tool_use", Kind::Flag),
        ]),
    ),
    Field::nullable(
        "thinking",
        Kind::Fields(&[
            Field::optional("type", Kind::Any),
            Field::optional("budget_tokens", Kind::Any),
            Field::nullable("display", Kind::Text),
            Field::nullable("block_binding", Kind::Object),
        ]),
    ),
    Field::nullable("cache_control", Kind::Object),
    Field::optional("stream", Kind::Flag),
    Field::nullable("temperature", Kind::Number(0.0, 1.0)),
    Field::nullable("top_p", Kind::Number(0.0, 1.0)),
    Field::nullable("top_k", NATURAL),
    Field::nullable("stop_sequences", Kind::Texts(usize::MAX)),
    Field::nullable("metadata", Kind::Fields(&[Field::nullable("user_id", Kind::Text)])),
    Field::nullable("service_tier", Kind::OneOf(&["auto", "standard_only"])),
    Field::nullable("speed", Kind::OneOf(&["standard", "fast"])),
    Field::nullable("inference_geo", Kind::Text),
    Field::nullable(
        "output_config",
        Kind::Fields(&[
            Field::nullable("effort", Kind::OneOf(&["low", "medium", "high", "xhigh", "max"])),
            Field::nullable("format", Kind::Object),
            Field::nullable("task_budget", Kind::Object),
        ]),
    ),
    Field::nullable("output_format", Kind::Object),
    Field::nullable("container", Kind::Any),
    Field::nullable("diagnostics", Kind::Object),
    Field::nullable("context_management", Kind::Object),
    Field::nullable("mcp_servers", Kind::List),
    Field::nullable("compaction", Kind::Object),
    Field::nullable("fallback_credit_token", Kind::Any),
    Field::nullable("fallbacks", Kind::Any),
    Field::nullable("thread", Kind::Object),
    Field::nullable("betas", Kind::Texts(usize::MAX)),
    Field::nullable("anthropic_beta", Kind::Texts(usize::MAX)),
    Field::nullable("anthropic_version", Kind::Text),
    Field::optional("user_profile_id", Kind::Text),
    Field::optional("workspace_id", Kind::Text),
];
