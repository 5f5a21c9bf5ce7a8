//! Every address answers correctly, and HTTP is handled correctly.

use std::io::Write as _;

use serde_json::{Value, json};

use super::{
    super::{Config, Framing, Loopback, Service},
    APIS, Client, KEY, ask, first, headers, path, server,
};

#[test]
fn every_model_answers_at_once_and_streamed() {
    let server = server();
    for (service, api) in APIS {
        for stream in [false, true] {
            let got = ask(&server, service, api, &first(service, api, "hello there", stream));
            assert_eq!((got.status, got.end), (200, "whole"), "{service} {api}: {}", got.text());
            let kind = got.header("content-type").unwrap();
            let expected = match (stream, service) {
                (false, _) => "application/json",
                (true, Service::Ollama) => "application/x-ndjson",
                (true, _) => "text/event-stream",
            };
            assert!(kind.starts_with(expected), "{service} {api} {stream}: {kind}");
            assert_eq!(stream, got.chunks > 2, "{service} {api}");
        }
    }
    assert_eq!(server.violations(), []);
    let requests = server.requests();
    assert_eq!(requests.len(), 2 * APIS.len());
    assert!(requests.iter().all(|heard| heard.whole && heard.is_turn() && heard.sent == heard.answer.len()));
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-loopback-0123456789"));
    assert_eq!(requests[0].say.as_ref().unwrap().text, "You said: hello there");
}

#[test]
fn a_stream_says_what_is_said_at_once() {
    let server = server();
    for (service, api) in APIS {
        let said = "tools:2 think \u{fc}ber";
        let whole = ask(&server, service, api, &first(service, api, said, false)).json();
        let got = ask(&server, service, api, &first(service, api, said, true));
        let (text, arguments, thought) = heard(service, api, &got.events());
        let (expected, calls, thoughts) = heard(service, api, &[wrapped(service, api, &whole)]);
        assert_eq!(text, expected, "{service} {api}");
        assert_eq!(arguments, calls, "{service} {api}");
        assert_eq!(thought, thoughts, "{service} {api}");
        let say = server.requests().last().unwrap().say.clone().unwrap();
        assert_eq!(text, say.text);
        assert_eq!(arguments, say.calls.iter().map(|call| call.arguments.as_str()).collect::<String>());
        assert_eq!(say.calls.len(), 2);
        if [Service::DeepSeek, Service::OpenRouter, Service::Ollama].contains(&service) || api == "responses"
        {
            let hidden = whole.to_string().contains("reasoning.encrypted");
            assert!(hidden || thought == say.reasoning.unwrap(), "{service} {api}");
        }
    }
}

/// An answer as if it were the only event of a stream.
fn wrapped(service: Service, api: &str, whole: &Value) -> Value {
    match (service, api) {
        (Service::Anthropic, _) | (_, "responses") => json!({"whole": whole}),
        (Service::Gemini | Service::Ollama, _) => whole.clone(),
        _ => json!({"choices": [{"delta": whole["choices"][0]["message"]}]}),
    }
}

/// Text, arguments and thoughts of a stream, read in the plainest way.
fn heard(service: Service, api: &str, events: &[Value]) -> (String, String, String) {
    let (mut text, mut arguments, mut thought) = (String::new(), String::new(), String::new());
    let add = |to: &mut String, value: &Value| to.push_str(value.as_str().unwrap_or_default());
    for event in events {
        match (service, api) {
            (Service::Anthropic, _) => {
                add(&mut text, &event["delta"]["text"]);
                add(&mut thought, &event["delta"]["thinking"]);
                add(&mut arguments, &event["delta"]["partial_json"]);
                for block in event["whole"]["content"].as_array().into_iter().flatten() {
                    add(&mut text, &block["text"]);
                    add(&mut thought, &block["thinking"]);
                    if block["input"].is_object() {
                        arguments.push_str(&block["input"].to_string());
                    }
                }
            }
            (_, "responses") => {
                match event["type"].as_str().unwrap_or_default() {
                    "response.output_text.delta" => add(&mut text, &event["delta"]),
                    "response.function_call_arguments.delta" => add(&mut arguments, &event["delta"]),
                    "response.reasoning_summary_text.delta" => add(&mut thought, &event["delta"]),
                    _ => {}
                }
                for item in event["whole"]["output"].as_array().into_iter().flatten() {
                    add(&mut text, &item["content"][0]["text"]);
                    add(&mut thought, &item["summary"][0]["text"]);
                    add(&mut arguments, &item["arguments"]);
                }
            }
            (Service::Gemini, _) => {
                for part in event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
                    add(if part["thought"] == true { &mut thought } else { &mut text }, &part["text"]);
                    if part["functionCall"].is_object() {
                        arguments.push_str(&part["functionCall"]["args"].to_string());
                    }
                }
            }
            (Service::Ollama, _) => {
                add(&mut text, &event["message"]["content"]);
                add(&mut thought, &event["message"]["thinking"]);
                for call in event["message"]["tool_calls"].as_array().into_iter().flatten() {
                    arguments.push_str(&call["function"]["arguments"].to_string());
                }
            }
            _ => {
                let delta = &event["choices"][0]["delta"];
                add(&mut text, &delta["content"]);
                add(&mut thought, &delta["reasoning_content"]);
                add(&mut thought, &delta["reasoning"]);
                for call in delta["tool_calls"].as_array().into_iter().flatten() {
                    add(&mut arguments, &call["function"]["arguments"]);
                }
            }
        }
    }
    (text, arguments, thought)
}

#[test]
fn streams_have_the_events_of_the_real_apis_in_their_order() {
    let server = server();
    let got = ask(&server, Service::Anthropic, "", &first(Service::Anthropic, "", "tools:1", true));
    let text = got.text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let mut kinds = names.clone();
    kinds.dedup();
    assert_eq!(kinds.first(), Some(&"message_start"));
    assert_eq!(kinds[kinds.len() - 2..], ["message_delta", "message_stop"]);
    let types: Vec<Value> = got.events().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(names, types.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>());

    let got =
        ask(&server, Service::OpenAi, "responses", &first(Service::OpenAi, "responses", "tools:1", true));
    let numbers: Vec<u64> =
        got.events().iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert!(got.text().starts_with("event: response.created\ndata: "));
    assert!(!got.text().contains("[DONE]"));
    let events = got.events();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    // Encrypted content is complete only when the item is done.
    let added = events.iter().find(|event| event["type"] == "response.output_item.added").unwrap();
    let done = events.iter().find(|event| event["type"] == "response.output_item.done").unwrap();
    assert_ne!(added["item"]["encrypted_content"], done["item"]["encrypted_content"]);
    assert_eq!(last["response"]["output"][0], done["item"]);

    let mut body = first(Service::OpenAi, "chat", "hello", true);
    let got = ask(&server, Service::OpenAi, "chat", &body);
    assert!(got.text().ends_with("data: [DONE]\n\n"));
    assert!(!got.text().contains("\"usage\""));
    body["stream_options"] = json!({"include_usage": true});
    let events = ask(&server, Service::OpenAi, "chat", &body).events();
    let last = events.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["total_tokens"].as_u64().unwrap() > 1);

    let got = ask(&server, Service::Gemini, "", &first(Service::Gemini, "", "hello", true));
    assert!(got.text().ends_with("}\r\n\r\n"));
    assert_eq!(got.events().last().unwrap()["candidates"][0]["finishReason"], "STOP");
    let list = Client::to(&server).post(
        "/v1beta/models/gemini-3:streamGenerateContent",
        &headers(Service::Gemini),
        br#"{"contents":[{"parts":[{"text":"hello you there"}]}]}"#,
    );
    assert!(list.json().as_array().unwrap().len() > 1);

    let events = ask(&server, Service::Ollama, "", &first(Service::Ollama, "", "hello", true)).events();
    assert_eq!(events.last().unwrap()["done_reason"], "stop");
    assert!(events[..events.len() - 1].iter().all(|line| line["done"] == false));
}

#[test]
fn models_are_listed_in_each_shape() {
    let server = Loopback::start(Config {
        key: Some(KEY.into()),
        models: vec!["one".into(), "two".into(), "three".into()],
        ..Config::default()
    });
    let list = |service, path: &str| Client::to(&server).get(path, &headers(service));
    for (service, path, place) in [
        (Service::OpenAi, "/v1/models", "/data/1/id"),
        (Service::OpenAi, "/models", "/data/1/id"),
        (Service::Anthropic, "/v1/models", "/data/1/id"),
        (Service::OpenRouter, "/api/v1/models", "/data/1/id"),
        (Service::Ollama, "/api/tags", "/models/1/model"),
    ] {
        let got = list(service, path);
        assert_eq!(got.json().pointer(place), Some(&json!("two")), "{service}: {}", got.text());
    }
    assert_eq!(list(Service::Gemini, "/v1beta/models").json()["models"][1]["name"], "models/two");
    assert_eq!(list(Service::Gemini, "/v1beta/models?pageSize=2").json()["nextPageToken"], "2");
    assert_eq!(
        list(Service::Gemini, "/v1beta/models?pageSize=2&pageToken=2").json()["models"][0]["name"],
        "models/three"
    );
    let page = list(Service::Anthropic, "/v1/models?limit=2&after_id=one").json();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!("two"), &json!(false)));
    for (service, path) in [(Service::OpenAi, "/v1/models"), (Service::Gemini, "/v1beta/models")] {
        let got = Client::to(&server).get(path, &[(headers(service)[0].0, "Bearer wrong".into())]);
        assert!([400, 401].contains(&got.status), "{service}");
    }
}

/// Every service says in its own way that a key is wrong, that there is none, and that it has no such model.
#[test]
fn keys_and_models_are_refused_in_each_services_own_shape() {
    let server = server();
    for (service, api) in APIS {
        let mut body = first(service, api, "hello", false);
        if service != Service::Ollama {
            let path = path(service, api, false);
            let sent =
                if service == Service::Gemini { json!({"contents": body["contents"]}) } else { body.clone() };
            let none = Client::to(&server).post(
                &path,
                &[("anthropic-version", "x".into())],
                sent.to_string().as_bytes(),
            );
            let wrong: Vec<_> =
                headers(service).into_iter().map(|(name, value)| (name, value + "x")).collect();
            let wrong = Client::to(&server).post(&path, &wrong, sent.to_string().as_bytes());
            let expected = if service == Service::Gemini { (403, 400) } else { (401, 401) };
            assert_eq!((none.status, wrong.status), expected, "{service}");
            assert!(!wrong.text().contains(KEY));
        }
        body["model"] = json!("no-such-model");
        let got = match service {
            Service::Gemini => Client::to(&server).post(
                "/v1beta/models/no-such-model:generateContent",
                &headers(service),
                json!({"contents": body["contents"]}).to_string().as_bytes(),
            ),
            _ => ask(&server, service, api, &body),
        };
        let (status, place, words) = match service {
            Service::Anthropic => (404, "/error/message", "model: no-such-model"),
            Service::Gemini => (404, "/error/message", "models/no-such-model is not found"),
            Service::Ollama => (404, "/error", "model 'no-such-model' not found"),
            Service::Mistral => (400, "/message", "Invalid model: no-such-model"),
            Service::OpenRouter => (400, "/error/message", "no-such-model is not a valid model ID"),
            Service::DeepSeek => (400, "/error/message", "Model Not Exist"),
            _ => (404, "/error/message", "The model `no-such-model` does not exist"),
        };
        let said = got.json().pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert!(got.status == status && said.starts_with(words), "{service}: {} {}", got.status, got.text());
    }
    assert_eq!(server.violations(), []);
    assert_eq!(Client::to(&server).get("/nothing/here", &[]).status, 404);
}

#[test]
fn http_is_spoken_as_clients_speak_it() {
    let server = server();
    let body = first(Service::OpenAi, "chat", "hello", true).to_string();
    let path = path(Service::OpenAi, "chat", true);
    // One connection, three requests; the second in chunks, the third after a question whether it may come.
    let mut client = Client::to(&server);
    let one = client.post(&path, &headers(Service::OpenAi), body.as_bytes());
    assert_eq!((one.status, one.end), (200, "whole"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {KEY}\r\n"
    );
    let (left, right) = body.split_at(20);
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{left}\r\n{:x};x=y\r\n{right}\r\n0\r\n\r\n",
        left.len(),
        right.len()
    );
    client.stream.write_all(chunked.as_bytes()).unwrap();
    assert_eq!(client.receive().status, 200);
    let expecting = format!("{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    client.stream.write_all(expecting.as_bytes()).unwrap();
    assert_eq!(client.receive().status, 200);
    assert!(server.requests().iter().all(|heard| *heard.body == *body.as_bytes()));
    // A client that sends nonsense gets an error.
    let mut client = Client::to(&server);
    client.stream.write_all(b"what?\r\n\r\n").unwrap();
    assert_eq!(client.receive().status, 400);
    // Without chunks, the end is the end.
    let server = Loopback::start(Config { framing: Framing::UntilClose, ..Config::default() });
    let got = ask(&server, Service::OpenAi, "chat", &first(Service::OpenAi, "chat", "hello", true));
    assert_eq!(got.header("connection"), Some("close"));
    assert!(got.text().ends_with("data: [DONE]\n\n"));
}

#[test]
fn a_server_of_one_service_needs_no_prefix() {
    let server = Loopback::start(Config { service: Some(Service::Mistral), ..Config::default() });
    let body = first(Service::Mistral, "", "tools:1", false).to_string();
    let got = Client::to(&server).post("/v1/chat/completions", &headers(Service::Mistral), body.as_bytes());
    assert_eq!(got.json()["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().len(), 9);
    assert_eq!(
        Client::to(&server).post("/v1/messages", &headers(Service::Anthropic), body.as_bytes()).status,
        404
    );
}

#[test]
fn what_a_request_must_have_is_asked_for() {
    let server = server();
    let post = |path: &str, headers: &[(&str, String)], body: &Value| {
        Client::to(&server).post(path, headers, body.to_string().as_bytes())
    };
    let mut body = first(Service::Anthropic, "", "hello", false);
    let got = post("/v1/messages", &[("x-api-key", KEY.into())], &body);
    assert_eq!(got.json()["error"]["message"], "anthropic-version: header is required");
    body.as_object_mut().unwrap().remove("max_tokens");
    let got = ask(&server, Service::Anthropic, "", &body);
    assert_eq!(got.json()["error"]["message"], "max_tokens: Field required");
    // ChatGPT's own backend wants three things.
    let body = json!({"model": "gpt", "input": [{"role": "user", "content": "hello"}], "stream": true, "instructions": "i"});
    let got = post("/backend-api/codex/responses", &headers(Service::OpenAi), &body);
    assert_eq!((got.status, got.json()["detail"].as_str()), (400, Some("Store must be set to false")));
    let mut body = body;
    body["store"] = json!(false);
    assert_eq!(post("/backend-api/codex/responses", &headers(Service::OpenAi), &body).status, 200);
    // Groq takes no field that it does not know.
    let mut body = first(Service::Groq, "", "hello", false);
    body["messages"][0]["reasoning_content"] = json!("x");
    let got = ask(&server, Service::Groq, "", &body);
    assert!(got.text().contains("property 'reasoning_content' is unsupported"), "{}", got.text());
    assert_eq!(ask(&server, Service::DeepSeek, "", &body).status, 200);
}
