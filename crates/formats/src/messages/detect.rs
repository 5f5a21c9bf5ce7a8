//! Recognising the style of a list by features that only one style has.

use rejoin_record::json::Value;

const LOOK_AT: usize = 2_000;

/// How much of a list and the fields around it speaks for OpenAI Chat; a negative score speaks for Anthropic. A list of plain
/// texts looks the same in both styles: then the model's name decides, and without one OpenAI Chat, the more common style.
pub fn score(body: Option<Value<'_>>, messages: &[Value<'_>]) -> i32 {
    let mut score = 0i32;
    if let Some(body) = body {
        score -= i32::from(body.given("system").is_some()) * 3;
        score -= i32::from(body.given("anthropic_version").is_some()) * 3;
        score -= i32::from(body.given("stop_sequences").is_some());
        for tool in body.given("tools").into_iter().flat_map(Value::items).take(5) {
            score -= i32::from(tool.get("input_schema").is_some()) * 3;
            score += i32::from(tool.get("function").is_some()) * 3;
        }
    }
    for message in messages.iter().take(LOOK_AT) {
        score += message_score(*message);
    }
    if score == 0 {
        let model = body.and_then(|body| body.get("model")).and_then(Value::as_str);
        score -= i32::from(model.is_some_and(|model| model.contains("claude")));
    }
    score
}

fn message_score(message: Value<'_>) -> i32 {
    let mut score = 0;
    if let Some(role) = message.get("role").and_then(Value::as_str) {
        score += i32::from(matches!(&*role, "system" | "developer" | "tool" | "function")) * 2;
    }
    for field in ["tool_calls", "function_call", "tool_call_id"] {
        score += i32::from(message.get(field).is_some()) * 3;
    }
    for part in message.get("content").into_iter().flat_map(Value::items) {
        match part.get("type").and_then(Value::as_str).as_deref() {
            Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document") => {
                score -= 3
            }
            Some("image_url" | "input_audio" | "file" | "refusal") => score += 3,
            _ => {}
        }
    }
    score
}
