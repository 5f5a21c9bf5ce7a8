//! The fields of a Mistral chat request.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    required("model", FilledText),
    optional("messages", Any),
    nullable("tools tool_choice", Any),
    nullable("temperature", Number(0.0, 1.5)),
    nullable("top_p", Number(0.0, 1.0)),
    nullable("top_k max_tokens min_tokens random_seed top_logprobs top_prompt_logprobs", NATURAL),
    optional("stream", Flag),
    nullable("stop", TextOrTexts(usize::MAX)),
    nullable("metadata response_format prediction", Object),
    nullable("presence_penalty frequency_penalty", Number(-2.0, 2.0)),
    nullable("repetition_penalty", Number(0.0, f64::MAX)),
    nullable("logprobs prompt_logprobs parallel_tool_calls safe_prompt", Flag),
    nullable("n", POSITIVE),
    nullable("reasoning_effort prompt_mode prompt_cache_key", Text),
    nullable("guardrails", List),
    nullable("service_tier", OneOf(&["auto", "standard_only"])),
];
