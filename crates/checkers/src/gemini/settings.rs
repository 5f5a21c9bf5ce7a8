//! The fields of a `generateContent` request, in the spelling of the API; `snake_case` is the same field.

use crate::shape::{Field, Kind, NATURAL, POSITIVE};

pub(super) const SETTINGS: &[Field] = &[
    Field::nullable("contents", Kind::Any),
    Field::nullable("systemInstruction", Kind::Any),
    Field::nullable("tools", Kind::Any),
    Field::nullable("toolConfig", Kind::Object),
    Field::nullable("safetySettings", Kind::List),
    Field::nullable("generationConfig", Kind::Fields(GENERATION)),
    Field::nullable("cachedContent", Kind::Text),
    Field::nullable("model", Kind::Text),
    Field::nullable("labels", Kind::Object),
    Field::nullable("serviceTier", Kind::Any),
    Field::nullable("store", Kind::Flag),
    Field::nullable("modelArmorConfig", Kind::Object),
];

const GENERATION: &[Field] = &[
    Field::nullable("temperature", Kind::Number(0.0, 2.0)),
    Field::nullable("topP", Kind::Number(0.0, 1.0)),
    Field::nullable("topK", Kind::Number(0.0, f64::MAX)),
    Field::nullable("candidateCount", POSITIVE),
    Field::nullable("maxOutputTokens", NATURAL),
    Field::nullable("stopSequences", Kind::Texts(5)),
    Field::nullable("responseLogprobs", Kind::Flag),
    Field::nullable("logprobs", NATURAL),
    Field::nullable("presencePenalty", Kind::Number(-2.0, 2.0)),
    Field::nullable("frequencyPenalty", Kind::Number(-2.0, 2.0)),
    Field::nullable("seed", Kind::Integer(i64::MIN, i64::MAX)),
    Field::nullable("responseMimeType", Kind::Text),
    Field::nullable("responseSchema", Kind::Object),
    Field::nullable("responseJsonSchema", Kind::Any),
    Field::nullable("responseModalities", Kind::Texts(usize::MAX)),
    Field::nullable("routingConfig", Kind::Object),
    Field::nullable("modelSelectionConfig", Kind::Object),
    Field::nullable("mediaResolution", Kind::Text),
    Field::nullable("speechConfig", Kind::Object),
    Field::nullable("audioTimestamp", Kind::Flag),
    Field::nullable("thinkingConfig", Kind::Object),
    Field::nullable("imageConfig", Kind::Object),
    Field::nullable("enableAffectiveDialog", Kind::Flag),
    Field::nullable("enableEnhancedCivicAnswers", Kind::Flag),
    Field::nullable("generationOutputConfig", Kind::Object),
    Field::nullable("audioTranscriptionConfig", Kind::Object),
];
