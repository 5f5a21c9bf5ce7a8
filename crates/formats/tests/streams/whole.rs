//! One decoder for both: an answer that comes as a whole and the same answer as a stream, in any pieces, give the same message,
//! the same reason to stop and the same tokens.

use proptest::{prelude::*, test_runner::Config};
use rejoin_formats::{
    Dialect,
    wire::stream::{End, StopReason, Usage},
};
use serde_json::{Value, json};

use crate::{decoded, events};

/// An answer, without the form of any provider.
#[derive(Debug, Clone)]
struct Answer {
    /// In the pieces in which a stream has it.
    thought: Vec<String>,
    text: Vec<String>,
    /// The tool and its argument.
    calls: Vec<(String, String)>,
    stop: usize,
    usage: Usage,
}

fn answers() -> impl Strategy<Value = Answer> {
    let word = || "[a-zé😀\"\\\\\n ]{1,12}";
    let words = || prop::collection::vec(word(), 0..4);
    let calls = prop::collection::vec(("[a-z]{1,8}", word()), 0..3);
    let counts = (0..1000u64, 0..1000u64, 0..1000u64, 0..1000u64);
    (words(), words(), calls, 0..3usize, counts).prop_map(|(thought, text, calls, stop, counts)| {
        let (input, output, cached, reasoning) = counts;
        Answer { thought, text, calls, stop, usage: Usage { input, output, cached, reasoning } }
    })
}

impl Answer {
    /// The arguments of each call, with its number and its tool.
    fn calls(&self) -> impl Iterator<Item = (usize, &str, Value)> {
        self.calls.iter().enumerate().map(|(place, (name, value))| (place, &**name, json!({"value": value})))
    }

    fn stop(&self) -> StopReason {
        [StopReason::Done, StopReason::Length, StopReason::Refused][self.stop].clone()
    }
}

/// The answer as a body and as a stream of the dialect, and the tokens that both count.
fn written(answer: &Answer, dialect: Dialect) -> (String, String, Usage) {
    match dialect {
        Dialect::OpenAiChat | Dialect::Mistral => chat(answer),
        Dialect::OpenAiResponses => responses(answer),
        Dialect::Anthropic => anthropic(answer),
        Dialect::Gemini => gemini(answer),
        Dialect::Ollama => ollama(answer),
        Dialect::Bedrock => unreachable!("Bedrock has no streams here"),
    }
}

fn sent(data: &[Value]) -> String {
    events(
        &data.iter().map(Value::to_string).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn chat(answer: &Answer) -> (String, String, Usage) {
    let Usage { input, output, cached, reasoning } = answer.usage;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": reasoning}});
    let reason = ["stop", "length", "content_filter"][answer.stop];
    let calls: Vec<Value> = answer.calls().map(|(place, name, arguments)| {
        json!({"id": format!("c{place}"), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
    }).collect();
    let mut message =
        json!({"role": "assistant", "content": answer.text.concat(), "made_up": {"kept": 1.50}});
    if !answer.thought.is_empty() {
        message["reasoning_content"] = answer.thought.concat().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.clone().into();
    }
    let body = json!({"model": "m", "usage": usage, "choices": [{"index": 0, "message": message, "finish_reason": reason}]});
    let thoughts = answer.thought.iter().map(|piece| json!({"reasoning_content": piece}));
    let texts = answer.text.iter().map(|piece| json!({"content": piece}));
    let pieces = calls.into_iter().enumerate().flat_map(|(index, mut call)| {
        let arguments = call["function"]["arguments"].take();
        call["index"] = index.into();
        call["function"]["arguments"] = "".into();
        let rest = json!({"index": index, "function": {"arguments": arguments}});
        [json!({"tool_calls": [call]}), json!({"tool_calls": [rest]})]
    });
    let first = json!({"role": "assistant", "content": "", "refusal": null});
    let deltas =
        std::iter::once(first).chain(thoughts).chain(texts).chain([json!({"made_up": {"kept": 1.50}})]);
    let chunk = |delta: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut data: Vec<Value> = deltas.chain(pieces).map(chunk).collect();
    data.push(json!({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
    data.push(json!({"model": "m", "choices": [], "usage": usage}));
    (body.to_string(), sent(&data) + "data: [DONE]\n\n", answer.usage)
}

fn anthropic(answer: &Answer) -> (String, String, Usage) {
    let Usage { input, output, cached, .. } = answer.usage;
    let reason = ["end_turn", "max_tokens", "refusal"][answer.stop];
    let counted = json!({"input_tokens": input, "cache_read_input_tokens": cached, "output_tokens": output});
    let mut content = Vec::new();
    let mut data = vec![json!({"type": "message_start", "message": {"model": "m", "usage":
        {"input_tokens": input, "cache_read_input_tokens": cached, "output_tokens": 1}}})];
    let mut block = |begin: Value, deltas: Vec<Value>, whole: Value| {
        let index = content.len();
        content.push(whole);
        data.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        data.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        data.push(json!({"type": "content_block_stop", "index": index}));
    };
    if !answer.thought.is_empty() {
        let pieces = answer.thought.iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
        let signature = json!({"type": "signature_delta", "signature": "c2ln"});
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            pieces.chain([signature]).collect(),
            json!({"type": "thinking", "thinking": answer.thought.concat(), "signature": "c2ln"}),
        );
    }
    if !answer.text.is_empty() {
        let pieces = answer.text.iter().map(|piece| json!({"type": "text_delta", "text": piece}));
        block(
            json!({"type": "text", "text": ""}),
            pieces.collect(),
            json!({"type": "text", "text": answer.text.concat()}),
        );
    }
    for (place, name, input) in answer.calls() {
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        let call = |input: Value| json!({"type": "tool_use", "id": format!("toolu_{place}"), "name": name, "input": input});
        block(call(json!({})), vec![delta], call(input));
    }
    data.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}}));
    data.push(json!({"type": "message_stop"}));
    let body = json!({"type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason, "usage": counted});
    let usage = Usage { input: input + cached, reasoning: 0, ..answer.usage };
    (body.to_string(), sent(&data), usage)
}

fn responses(answer: &Answer) -> (String, String, Usage) {
    let Usage { input, output, cached, reasoning } = answer.usage;
    let usage = json!({"input_tokens": input, "output_tokens": output, "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": reasoning}});
    let mut items = Vec::new();
    if !answer.thought.is_empty() {
        let summary = json!([{"type": "summary_text", "text": answer.thought.concat()}]);
        items.push(
            json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "AAAA"}),
        );
    }
    if !answer.text.is_empty() {
        let content = json!([{"type": "output_text", "text": answer.text.concat(), "annotations": []}]);
        items.push(json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}));
    }
    for (place, name, arguments) in answer.calls() {
        items.push(json!({"type": "function_call", "id": format!("fc_{place}"), "call_id": format!("c{place}"), "name": name,
            "arguments": arguments.to_string(), "status": "completed"}));
    }
    let (status, reason) =
        [("completed", ""), ("incomplete", "max_output_tokens"), ("incomplete", "content_filter")]
            [answer.stop];
    let mut response = json!({"model": "m", "status": status, "usage": usage, "output": items});
    if !reason.is_empty() {
        response["incomplete_details"] = json!({"reason": reason});
    }
    let mut data =
        vec![json!({"type": "response.created", "response": {"model": "m", "status": "in_progress"}})];
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        begun["arguments"] = "".into();
        data.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        let pieces = match item["type"].as_str() {
            Some("reasoning") => ("response.reasoning_summary_text.delta", &answer.thought),
            Some("message") => ("response.output_text.delta", &answer.text),
            _ => ("", &Vec::new()),
        };
        data.extend(
            pieces.1.iter().map(|piece| json!({"type": pieces.0, "output_index": index, "delta": piece})),
        );
        data.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    data.push(json!({"type": format!("response.{status}"), "response": response}));
    (response.to_string(), sent(&data), answer.usage)
}

fn gemini(answer: &Answer) -> (String, String, Usage) {
    let Usage { input, output, cached, reasoning } = answer.usage;
    let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output, "thoughtsTokenCount": reasoning,
        "cachedContentTokenCount": cached});
    let reason = ["STOP", "MAX_TOKENS", "SAFETY"][answer.stop];
    let thoughts = answer.thought.iter().map(|piece| json!({"text": piece, "thought": true}));
    let texts = answer.text.iter().map(|piece| json!({"text": piece}));
    let calls = answer.calls().map(|(place, name, args)| {
        json!({"functionCall": {"id": format!("c{place}"), "name": name, "args": args}, "thoughtSignature": "c2ln"})
    });
    let parts: Vec<Value> = thoughts.chain(texts).chain(calls).collect();
    let of = |parts: &[Value], reason: Value| {
        json!({"modelVersion": "m", "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}],
            "usageMetadata": usage})
    };
    let mut data: Vec<Value> = parts.iter().map(|part| of(std::slice::from_ref(part), Value::Null)).collect();
    data.push(of(&[json!({"text": ""})], reason.into()));
    let counted = Usage { output: output + reasoning, ..answer.usage };
    (of(&parts, reason.into()).to_string(), sent(&data), counted)
}

fn ollama(answer: &Answer) -> (String, String, Usage) {
    let Usage { input, output, .. } = answer.usage;
    // It knows no filter.
    let reason = ["stop", "length", "stop"][answer.stop];
    let calls: Vec<Value> = answer.calls().map(|(place, name, arguments)| {
        json!({"id": format!("c{place}"), "function": {"name": name, "arguments": arguments}})
    }).collect();
    let line = |content: &str, thinking: Option<&str>, calls: &[Value], done: bool| {
        let mut message = json!({"role": "assistant", "content": content});
        thinking.into_iter().for_each(|thinking| message["thinking"] = thinking.into());
        if !calls.is_empty() {
            message["tool_calls"] = calls.to_vec().into();
        }
        let mut line = json!({"model": "m", "message": message, "done": done});
        if done {
            line["done_reason"] = reason.into();
            line["prompt_eval_count"] = input.into();
            line["eval_count"] = output.into();
        }
        line.to_string() + "\n"
    };
    let thought = (!answer.thought.is_empty()).then(|| answer.thought.concat());
    let body = line(&answer.text.concat(), thought.as_deref(), &calls, true);
    let thoughts = answer.thought.iter().map(|piece| line("", Some(piece), &[], false));
    let texts = answer.text.iter().map(|piece| line(piece, None, &[], false));
    let called = calls.iter().map(|call| line("", None, std::slice::from_ref(call), false));
    let stream: String = thoughts.chain(texts).chain(called).chain([line("", None, &[], true)]).collect();
    (body, stream, Usage { cached: 0, reasoning: 0, ..answer.usage })
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_body_and_a_stream_are_one_answer(answer in answers(), length in 1..400usize) {
        for dialect in Dialect::all().filter(|dialect| *dialect != Dialect::Bedrock) {
            let (body, stream, usage) = written(&answer, dialect);
            let (_, whole) = decoded(dialect, [body.as_bytes()]);
            let (_, streamed) = decoded(dialect, stream.as_bytes().chunks(length));
            prop_assert_eq!(&whole.message, &streamed.message, "{}\n{}\n{}", dialect, body, stream);
            prop_assert_eq!((&whole.end, &whole.model), (&streamed.end, &streamed.model), "{}", dialect);
            prop_assert_eq!((whole.usage, streamed.usage), (Some(usage), Some(usage)), "{}", dialect);
            let stop = if dialect == Dialect::Ollama && answer.stop == 2 { StopReason::Done } else { answer.stop() };
            prop_assert_eq!(whole.end, End::Complete(stop), "{}", dialect);
        }
    }
}
