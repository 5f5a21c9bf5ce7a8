//! OpenAI Responses: items, `reasoning` with `encrypted_content` on request, events with sequence numbers.
//!
//! Nothing is stored, whatever `store` says: the server only knows what a request contains.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::{
    Service,
    brain::{Ask, Called, PromptMessage, Say, Stop, Tool, streamed},
    issue::{Asker, Issued, Issuer, Piece, Secret, Why, Wrong, canonical, canonical_without},
    speak::{Answer, Asked, Objection, Speaker, Tokens, event, list, seconds, text, text_of},
};

/// The dialect.
pub(super) struct Responses;

impl Speaker for Responses {
    fn dialect(&self) -> Dialect {
        Dialect::OpenAiResponses
    }

    fn ask(&self, asked: &Asked<'_>) -> Ask {
        let body = asked.body;
        let mut said = Vec::new();
        let mut system = vec![text(body, "instructions").to_owned()];
        for item in items(body) {
            match kind(&item) {
                "message" => match text(&item, "role") {
                    "system" | "developer" => system.push(text_of(&item["content"])),
                    "user" => said.push(PromptMessage::User(text_of(&item["content"]))),
                    _ => {
                        said.push(PromptMessage::Model { text: text_of(&item["content"]), calls: Vec::new() })
                    }
                },
                "function_call" => {
                    let call = Called {
                        id: text(&item, "call_id").to_owned(),
                        name: text(&item, "name").to_owned(),
                        arguments: text(&item, "arguments").to_owned(),
                    };
                    // The text and the calls of one response are one message.
                    match said.last_mut() {
                        Some(PromptMessage::Model { calls, .. }) => calls.push(call),
                        _ => said.push(PromptMessage::Model { text: String::new(), calls: vec![call] }),
                    }
                }
                kind if kind.ends_with("_output") => said.push(PromptMessage::Result {
                    id: text(&item, "call_id").to_owned(),
                    text: text_of(&item["output"]),
                }),
                _ => {}
            }
        }
        let tools = list(body, "tools").iter().filter(|tool| tool["type"] == "function");
        let tools = tools
            .map(|tool| Tool { name: text(tool, "name").to_owned(), schema: tool["parameters"].clone() });
        Ask {
            service: asked.service,
            dialect: Dialect::OpenAiResponses,
            model: asked.model.clone(),
            system: system.join("\n"),
            tools: if body["tool_choice"] == "none" { Vec::new() } else { tools.collect() },
            said,
            reasoning: body["reasoning"].is_object() && body["reasoning"]["effort"] != "none",
            stream: asked.stream,
            body: body.clone(),
        }
    }

    fn pieces(&self, body: &Value) -> Vec<Piece> {
        let mut pieces = vec![Piece::plain("instructions", text(body, "instructions").to_owned())];
        for (k, tool) in list(body, "tools").iter().enumerate() {
            pieces.push(Piece::plain(format!("tools.{k}"), canonical(tool)));
        }
        let items = items(body);
        for (i, item) in items.iter().enumerate() {
            pieces.push(piece(format!("input.{i}"), item, items.get(i + 1)));
        }
        pieces
    }

    fn required(&self, asked: &Asked<'_>) -> Vec<Objection> {
        let body = asked.body;
        let mut found = Vec::new();
        let mut refuse = |rule, place: &str, message: &str| found.push(Objection::new(rule, place, message));
        if !body["model"].is_string() {
            refuse("RSP-schema", "model", "Missing required parameter: 'model'.");
        }
        if let Some(id) = body["previous_response_id"].as_str() {
            let words = format!("Previous response with id '{id}' not found.");
            refuse("RSP-14", "previous_response_id", &words);
        }
        if asked.service == Service::Codex {
            if body["store"] != false {
                refuse("RSP-06", "store", "Store must be set to false");
            }
            if !asked.stream {
                refuse("RSP-schema", "stream", "Stream must be set to true");
            }
            if text(body, "instructions").is_empty() {
                refuse("RSP-schema", "instructions", "Instructions are required");
            }
        }
        found
    }

    /// RSP-05: an item that is sent with its id wants the reasoning that it came with.
    fn missing(&self, asked: &Asked<'_>, issued: &Issued, asker: &Asker) -> Vec<Objection> {
        let items = items(asked.body);
        let reasoning = items.iter().filter(|item| kind(item) == "reasoning");
        let given: Vec<&str> =
            reasoning.flat_map(|item| [text(item, "id"), text(item, "encrypted_content")]).collect();
        let mut found = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let id = text(item, "id");
            let wanted = issued.attached(id, asker);
            if let Some(first) = wanted.first()
                && !wanted.iter().any(|wanted| given.contains(&wanted.as_str()))
            {
                let words = format!(
                    "Item '{id}' of type '{}' was provided without its required 'reasoning' item: '{first}'.",
                    kind(item)
                );
                found.push(Objection::new("RSP-05", format!("input.{i}"), words));
            }
        }
        found
    }

    fn wrong(&self, wrong: &Wrong, body: &Value) -> Objection {
        let place = &wrong.place;
        if wrong.why == Why::Bereft {
            let index =
                place.rsplit('.').next().and_then(|index| index.parse::<usize>().ok()).unwrap_or_default();
            let items = items(body);
            let id = items.get(index).map_or("", |item| text(item, "id"));
            let words =
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            return Objection::new("RSP-04", place, words);
        }
        let short: String = wrong.key.chars().take(12).collect();
        let words = format!(
            "The encrypted content {short}... could not be verified. Reason: Encrypted content could not be decrypted or \
             parsed."
        );
        Objection::new("RSP-07", format!("{place}.encrypted_content"), words)
    }

    fn answer(&self, ask: &Ask, say: &Say, mut issuer: Issuer<'_>, tokens: Tokens) -> Answer {
        let id = issuer.id("resp_", 48);
        let mut output = Vec::new();
        if let Some(thought) = &say.reasoning {
            let summary = if ask.body["reasoning"]["summary"].is_string() {
                json!([{"type": "summary_text", "text": thought}])
            } else {
                json!([])
            };
            let mut item = json!({"id": issuer.id("rs_", 48), "type": "reasoning", "summary": summary});
            if list(&ask.body, "include").iter().any(|field| field == "reasoning.encrypted_content") {
                item["encrypted_content"] = json!(format!("gAAAAA{}", issuer.secret(thought, 180)));
            }
            output.push(item);
        }
        // A response without an item after its reasoning could never be sent back.
        if !say.text.is_empty() || say.calls.is_empty() {
            let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": say.text});
            output.push(json!({"id": issuer.id("msg_", 48), "type": "message", "status": "completed", "content": [part], "role": "assistant"}));
        }
        for call in &say.calls {
            let (id, call_id) = (issuer.id("fc_", 48), issuer.id("call_", 24));
            output.push(json!({"id": id, "type": "function_call", "status": "completed", "arguments": call.arguments, "call_id": call_id, "name": call.name}));
        }
        let reasoning = output.first().filter(|item| item["type"] == "reasoning");
        let secrets: Option<Vec<String>> = reasoning.map(|item| {
            let blob = item["encrypted_content"].as_str().map(str::to_owned);
            std::iter::once(text(item, "id").to_owned()).chain(blob).collect()
        });
        for (number, item) in output.iter().enumerate() {
            if item["type"] != "reasoning"
                && let Some(secrets) = &secrets
            {
                issuer.attach(text(item, "id"), secrets);
            }
            issuer.say(&piece("", item, output.get(number + 1)));
        }
        issuer.done();
        let usage = json!({
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.output,
        });
        let cut = say.stop == Stop::Length;
        let body = &ask.body;
        let or = |name: &str, usual: Value| {
            body.get(name).filter(|value| !value.is_null()).cloned().unwrap_or(usual)
        };
        let whole = json!({
            "id": id, "object": "response", "created_at": seconds(),
            "status": if cut { "incomplete" } else { "completed" },
            "background": false, "error": null,
            "incomplete_details": if cut { json!({"reason": "max_output_tokens"}) } else { Value::Null },
            "instructions": body["instructions"], "max_output_tokens": body["max_output_tokens"],
            "max_tool_calls": null, "model": ask.model, "output": output,
            "parallel_tool_calls": or("parallel_tool_calls", json!(true)), "previous_response_id": null,
            "prompt_cache_key": body["prompt_cache_key"],
            "reasoning": or("reasoning", json!({"effort": null, "summary": null})),
            "safety_identifier": null, "service_tier": "default", "store": or("store", json!(true)),
            "temperature": or("temperature", json!(1.0)), "text": or("text", json!({"format": {"type": "text"}})),
            "tool_choice": or("tool_choice", json!("auto")), "tools": or("tools", json!([])), "top_logprobs": 0,
            "top_p": or("top_p", json!(1.0)), "truncation": "disabled", "usage": usage, "user": null,
            "metadata": or("metadata", json!({})),
        });
        let pieces = Stream::of(&whole);
        Answer { whole, pieces }
    }
}

/// The type of an item; a message may come without one.
fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" if item["role"].is_string() => "message",
        kind => kind,
    }
}

/// The items of a request; a text is one message.
fn items(body: &Value) -> Vec<Value> {
    match &body["input"] {
        Value::String(text) => vec![json!({"type": "message", "role": "user", "content": text})],
        Value::Array(items) => items.clone(),
        _ => Vec::new(),
    }
}

/// An item in canonical form: without ids, states and notes beside its text.
fn spelled(item: &Value) -> String {
    let mut item = item.clone();
    item["type"] = json!(kind(&item));
    if item["type"] == "message" {
        let of_the_model = item["role"] == "assistant";
        if let Value::String(words) = &item["content"] {
            let kind = if of_the_model { "output_text" } else { "input_text" };
            item["content"] = json!([{"type": kind, "text": words}]);
        }
    }
    let beside: &[&str] = match text(&item, "type") {
        "reasoning" => &["id", "status", "content"],
        _ => &["id", "status", "annotations", "logprobs", "phase"],
    };
    canonical_without(&item, beside)
}

fn piece(place: impl Into<String>, item: &Value, next: Option<&Value>) -> Piece {
    let feed = spelled(item);
    let blob = item["encrypted_content"].as_str().filter(|_| item["type"] == "reasoning");
    let secret =
        blob.map(|blob| Secret { key: blob.to_owned(), block: feed.clone(), next: next.map(spelled) });
    Piece { place: place.into(), feed: Some(feed), secret }
}

/// The same response as a stream.
struct Stream {
    events: Vec<Vec<u8>>,
    number: u64,
}

impl Stream {
    fn of(whole: &Value) -> Vec<Vec<u8>> {
        let mut stream = Self { events: Vec::new(), number: 0 };
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        begun["output"] = json!([]);
        begun["usage"] = Value::Null;
        begun["incomplete_details"] = Value::Null;
        stream.say("response.created", json!({"response": begun}));
        stream.say("response.in_progress", json!({"response": begun}));
        for (index, item) in list(whole, "output").iter().enumerate() {
            match text(item, "type") {
                "reasoning" => stream.reasoning(index, item),
                "message" => stream.message(index, item),
                _ => stream.call(index, item),
            }
            stream.say("response.output_item.done", json!({"output_index": index, "item": item}));
        }
        let end = if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        stream.say(end, json!({"response": whole}));
        stream.events
    }

    fn say(&mut self, kind: &str, rest: Value) {
        let mut data = json!({"type": kind, "sequence_number": self.number});
        if let (Some(data), Value::Object(rest)) = (data.as_object_mut(), rest) {
            data.extend(rest);
        }
        self.number += 1;
        self.events.push(event(kind, &data));
    }

    fn reasoning(&mut self, index: usize, item: &Value) {
        let id = &item["id"];
        let mut begun = item.clone();
        begun["summary"] = json!([]);
        // The first event does not hold all of it (RSP-08).
        if let Some(blob) = item["encrypted_content"].as_str() {
            begun["encrypted_content"] = json!(blob.chars().take(40).collect::<String>());
        }
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
        for (part, summary) in list(item, "summary").iter().enumerate() {
            let at = json!({"item_id": id, "output_index": index, "summary_index": part});
            let with = |name: &str, value: Value| {
                let mut at = at.clone();
                at[name] = value;
                at
            };
            let empty = json!({"type": "summary_text", "text": ""});
            self.say("response.reasoning_summary_part.added", with("part", empty));
            for piece in streamed(text(summary, "text")) {
                self.say("response.reasoning_summary_text.delta", with("delta", json!(piece)));
            }
            self.say("response.reasoning_summary_text.done", with("text", summary["text"].clone()));
            self.say("response.reasoning_summary_part.done", with("part", summary.clone()));
        }
    }

    fn message(&mut self, index: usize, item: &Value) {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        begun["content"] = json!([]);
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
        for (number, part) in list(item, "content").iter().enumerate() {
            let at = json!({"item_id": item["id"], "output_index": index, "content_index": number});
            let with = |more: Value| {
                let mut at = at.clone();
                if let (Some(at), Value::Object(more)) = (at.as_object_mut(), more) {
                    at.extend(more);
                }
                at
            };
            let empty = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": ""});
            self.say("response.content_part.added", with(json!({"part": empty})));
            for piece in streamed(text(part, "text")) {
                self.say("response.output_text.delta", with(json!({"delta": piece, "logprobs": []})));
            }
            self.say("response.output_text.done", with(json!({"text": part["text"], "logprobs": []})));
            self.say("response.content_part.done", with(json!({"part": part})));
        }
    }

    fn call(&mut self, index: usize, item: &Value) {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        begun["arguments"] = json!("");
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
        for piece in streamed(text(item, "arguments")) {
            let delta = json!({"item_id": item["id"], "output_index": index, "delta": piece});
            self.say("response.function_call_arguments.delta", delta);
        }
        let done = json!({"item_id": item["id"], "output_index": index, "arguments": item["arguments"]});
        self.say("response.function_call_arguments.done", done);
    }
}
