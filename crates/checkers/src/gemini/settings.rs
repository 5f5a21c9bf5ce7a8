//! The fields of a `generateContent` request, in the spelling of the API; `snake_case` is the same field.

use crate::shape::{Kind::*, *};

pub(super) const SETTINGS: &[Row] = &[
    nullable("contents systemInstruction tools serviceTier", Any),
    nullable("toolConfig labels modelArmorConfig", Object),
    nullable("safetySettings", List),
    nullable("generationConfig", Fields(GENERATION)),
    nullable("cachedContent model", Text),
    nullable("store", Flag),
];

const GENERATION: &[Row] = &[
    nullable("temperature", Number(0.0, 2.0)),
    nullable("topP", Number(0.0, 1.0)),
    nullable("topK", Number(0.0, f64::MAX)),
    nullable("candidateCount", POSITIVE),
    nullable("maxOutputTokens logprobs", NATURAL),
    nullable("stopSequences", Texts(5)),
    nullable("responseLogprobs audioTimestamp enableAffectiveDialog enableEnhancedCivicAnswers", Flag),
    nullable("presencePenalty frequencyPenalty", Number(-2.0, 2.0)),
    nullable("seed", Integer(i64::MIN, i64::MAX)),
    nullable("responseMimeType mediaResolution", Text),
    nullable(
        "responseSchema routingConfig modelSelectionConfig speechConfig thinkingConfig imageConfig generationOutputConfig audioTranscriptionConfig",
        Object,
    ),
    nullable("responseJsonSchema", Any),
    nullable("responseModalities", Texts(usize::MAX)),
];
