//! The fields of a Converse request. The model is part of the address; some clients also send it as a field.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    optional("modelId", FilledText),
    optional("messages system toolConfig additionalModelRequestFields", Any),
    optional("inferenceConfig", Fields(INFERENCE_CONFIG)),
    optional("guardrailConfig promptVariables serviceTier outputConfig", Object),
    optional("additionalModelResponseFieldPaths", Texts(10)),
    optional("requestMetadata", TextMap(16)),
    optional("performanceConfig", Fields(&[optional("latency", OneOf(&["standard", "optimized"]))])),
];

const INFERENCE_CONFIG: &[Row] = &[
    optional("maxTokens", POSITIVE),
    optional("temperature topP", Number(0.0, 1.0)),
    optional("stopSequences", Texts(2500)),
];
