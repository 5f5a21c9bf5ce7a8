//! The fields of a Chat Completions request, and those that compatible servers add.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    optional("messages tools tool_choice functions function_call", Any),
    nullable(
        "audio logit_bias moderation prediction prompt_cache_options response_format web_search_options",
        Object,
    ),
    nullable("frequency_penalty presence_penalty", Number(-2.0, 2.0)),
    nullable("logprobs parallel_tool_calls store stream", Flag),
    nullable("max_completion_tokens max_tokens", POSITIVE),
    nullable("metadata", TextMap(16)),
    nullable("modalities", Texts(usize::MAX)),
    nullable("n", Integer(1, 128)),
    nullable("prompt_cache_key safety_identifier user", Text),
    nullable("prompt_cache_retention", OneOf(&["in_memory", "in-memory", "24h"])),
    nullable("reasoning_effort", OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
    nullable("seed", Integer(i64::MIN, i64::MAX)),
    nullable("service_tier", OneOf(&["auto", "default", "flex", "scale", "priority", "fast"])),
    nullable("stop", TextOrTexts(4)),
    nullable("stream_options", Fields(&[optional("include_usage include_obfuscation", Flag)])),
    nullable("temperature", Number(0.0, 2.0)),
    nullable("top_logprobs", Integer(0, 20)),
    nullable("top_p", Number(0.0, 1.0)),
    nullable("verbosity", OneOf(&["low", "medium", "high"])),
];

/// Fields that OpenAI refuses but widely used compatible servers accept.
pub(super) const ELSEWHERE: &str = "add_generation_prompt best_of cache_prompt chat_template_kwargs continue_final_message \
    enable_thinking extra_body guided_json ignore_eos include include_reasoning keep_alive \
    length_penalty min_p min_tokens models num_ctx options plugins prompt_mode provider random_seed \
    reasoning reasoning_format repetition_penalty route safe_prompt skip_special_tokens thinking \
    thinking_budget top_a top_k transforms truncate_prompt_tokens usage";

/// The fields of a message.
pub(super) const MESSAGE: &str =
    "role content name tool_calls tool_call_id function_call refusal audio annotations";
