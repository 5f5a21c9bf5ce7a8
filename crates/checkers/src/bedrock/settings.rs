//! The fields of a Converse request. The model is part of the address; some clients also write it beside the other fields.

use crate::shape::{Field, Kind, POSITIVE};

pub(super) const SETTINGS: &[Field] = &[
    Field::optional("modelId", Kind::FilledText),
    Field::optional("messages", Kind::Any),
    Field::optional("system", Kind::Any),
    Field::optional("toolConfig", Kind::Any),
    Field::optional(
        "inferenceConfig",
        Kind::Fields(&[
            Field::optional("maxTokens", POSITIVE),
            Field::optional("temperature", Kind::Number(0.0, 1.0)),
            Field::optional("topP", Kind::Number(0.0, 1.0)),
            Field::optional("stopSequences", Kind::Texts(2500)),
        ]),
    ),
    Field::optional("guardrailConfig", Kind::Object),
    Field::optional("additionalModelRequestFields", Kind::Any),
    Field::optional("additionalModelResponseFieldPaths", Kind::Texts(10)),
    Field::optional("promptVariables", Kind::Object),
    Field::optional("requestMetadata", Kind::TextMap(16)),
    Field::optional(
        "performanceConfig",
        Kind::Fields(&[Field::optional("latency", Kind::OneOf(&["standard", "optimized"]))]),
    ),
    Field::optional("serviceTier", Kind::Object),
    Field::optional("outputConfig", Kind::Object),
];
