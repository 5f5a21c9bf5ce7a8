//! The fields of a Messages request, those of the beta endpoints included.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    required("max_tokens", POSITIVE),
    optional("messages system", Any),
    nullable("tools container fallback_credit_token fallbacks", Any),
    nullable("tool_choice", Fields(TOOL_CHOICE)),
    nullable("thinking", Fields(THINKING)),
    nullable("cache_control output_format diagnostics context_management compaction thread", Object),
    optional("stream", Flag),
    nullable("temperature top_p", Number(0.0, 1.0)),
    nullable("top_k", NATURAL),
    nullable("stop_sequences betas anthropic_beta", Texts(usize::MAX)),
    nullable("metadata", Fields(&[nullable("user_id", Text)])),
    nullable("service_tier", OneOf(&["auto", "standard_only"])),
    nullable("speed", OneOf(&["standard", "fast"])),
    nullable("inference_geo anthropic_version", Text),
    nullable("output_config", Fields(OUTPUT_CONFIG)),
    nullable("mcp_servers", List),
    optional("user_profile_id workspace_id", Text),
];

const TOOL_CHOICE: &[Row] = &[optional("type name", Any), optional("disable_parallel_tool_use", Flag)];

const THINKING: &[Row] =
    &[optional("type budget_tokens", Any), nullable("display", Text), nullable("block_binding", Object)];

const OUTPUT_CONFIG: &[Row] = &[
    nullable("effort", OneOf(&["low", "medium", "high", "xhigh", "max"])),
    nullable("format task_budget", Object),
];
