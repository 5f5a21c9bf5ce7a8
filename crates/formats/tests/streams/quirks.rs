//! What servers do that no reference says, errors in the middle, and whole bodies where a stream was asked for.

use rejoin_formats::{
    Dialect,
    wire::stream::{End, ReportedFault, StopReason, Usage},
};
use rejoin_record::{ArgumentsClass, BlockKind};

use crate::{STREAMS, calls, chat, decoded, events, native, received, shown, text, thoughts};

/// Id, tool and arguments.
type Call = (String, String, String);

fn call(id: &str, name: &str, arguments: &str) -> Call {
    (id.into(), name.into(), arguments.into())
}

/// Calls in every way that services cut them.
#[test]
fn calls_of_compatible_services() {
    let read = |id: &str| call(id, "read", r#"{"p":1}"#);
    let list = |id: &str| call(id, "list", "{}");
    let cases: &[(&str, &[&str], &[Call])] = &[
        (
            "whole calls in one delta, without numbers",
            &[
                r#"{"tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"b","type":"function","function":{"name":"list","arguments":"{}"}}]}"#,
            ],
            &[read("a"), list("b")],
        ),
        (
            "every call has the number 0",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\":1}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"list","arguments":"{}"}}]}"#,
            ],
            &[read("a"), list("b")],
        ),
        (
            "id and name again and again",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":":1}"}}]}"#,
            ],
            &[read("a")],
        ),
        (
            "another id with every piece",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"z","function":{"name":null,"arguments":":1}"}}]}"#,
            ],
            &[read("a")],
        ),
        (
            "pieces without number and id belong to the last call",
            &[
                r#"{"tool_calls":[{"id":"a","function":{"name":"read","arguments":""}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"{\"p\""}}]}"#,
                r#"{"tool_calls":[{"id":"","function":{"name":"","arguments":":1}"}}]}"#,
                r#"{"tool_calls":[{"id":"b","function":{"name":"list","arguments":"{}"}}]}"#,
            ],
            &[read("a"), list("b")],
        ),
        (
            "without a number, by id",
            &[
                r#"{"tool_calls":[{"id":"a","function":{"name":"read","arguments":"{\"p\""}}]}"#,
                r#"{"tool_calls":[{"id":"b","function":{"name":"list","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"id":"a","function":{"arguments":":1}"}}]}"#,
            ],
            &[read("a"), list("b")],
        ),
        (
            "numbers that begin anywhere, in any order",
            &[
                r#"{"tool_calls":[{"index":9,"id":"a","function":{"name":"read"}},{"index":3,"id":"b","function":{"name":"list","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":3,"function":{"arguments":"}"}},{"index":9,"function":{"arguments":"{\"p\":1}"}}]}"#,
            ],
            &[read("a"), list("b")],
        ),
        (
            "arguments that are an object",
            &[r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":{"p":1}}}]}"#],
            &[read("a")],
        ),
        (
            "a name in pieces",
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"re","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"ad","arguments":"{\"p\":1}"}}]}"#,
            ],
            &[read("a")],
        ),
    ];
    for (what, deltas, expected) in cases {
        let (shown_as, got) = decoded(Dialect::OpenAiChat, [chat(deltas, "tool_calls").as_bytes()]);
        let message = got.message.unwrap();
        assert_eq!(calls(&message), *expected, "{what}");
        assert!(message.native.as_ref().unwrap().regular, "{what}: {}", native(&message));
        assert_eq!(shown(&shown_as).2.len(), expected.len(), "{what}");
    }
}

/// Ids that the server forgot are made up: other ones for every call, and for every response.
#[test]
fn calls_without_ids_get_some() {
    let whole = r#"{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}"#;
    let legacy = r#"{"function_call":{"name":"f","arguments":"{}"}}"#;
    let ids = |delta: &str, said: &str| -> Vec<String> {
        let bytes = chat(&[&format!(r#"{{"content":"{said}"}}"#), delta], "tool_calls");
        calls(&received(Dialect::OpenAiChat, bytes).message.unwrap()).into_iter().map(|call| call.0).collect()
    };
    let mut all = [ids(whole, "a"), ids(whole, "b"), ids(legacy, "a")].concat();
    assert_eq!(
        all,
        [ids(whole, "a"), ids(whole, "b"), ids(legacy, "a")].concat(),
        "the same bytes, the same ids"
    );
    assert_eq!(all.len(), 5);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "{all:?}");
}

/// Additional fields of a call are sent back, such as another API's signature, which is bound to the call.
#[test]
fn more_in_a_call_is_kept() {
    let delta = r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}"#;
    let message = received(Dialect::OpenAiChat, chat(&[delta], "tool_calls")).message.unwrap();
    assert!(
        native(&message).contains(r#","extra_content":{"google":{"thought_signature":"c2ln"}}}"#),
        "{message:?}"
    );
    let custom = r#"{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"free "}},{"index":0,"custom":{"input":"text"}}]}"#;
    let message = received(Dialect::OpenAiChat, chat(&[custom], "tool_calls")).message.unwrap();
    assert!(
        native(&message).contains(r#""type":"custom","custom":{"name":"f","input":"free text"}"#),
        "{message:?}"
    );
}

/// Arguments that ran into the limit are kept as they are; so is everything before them.
#[test]
fn an_answer_that_is_too_long_keeps_its_malformed_call() {
    let delta = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"p\":\"lo"}}]}"#;
    let got = received(Dialect::OpenAiChat, chat(&[r#"{"content":"x"}"#, delta], "length"));
    assert_eq!(got.end, End::Complete(StopReason::Length));
    let message = got.message.unwrap();
    assert_eq!((text(&message), calls(&message)), ("x".into(), vec![call("a", "f", "{\"p\":\"lo")]));
    let (dialect, bytes) = STREAMS[4];
    let cut = bytes
        .replace(".rs\\\", \\\"n\\\": 1.50}", "")
        .replace("\"tool_use\",\"stop_seq", "\"max_tokens\",\"stop_seq");
    let got = received(dialect, cut);
    assert_eq!(got.end, End::Complete(StopReason::Length));
    let message = got.message.unwrap();
    let first = message.tool_calls().next().unwrap();
    assert_eq!(
        (first.arguments.class(), &**first.arguments.text()),
        (ArgumentsClass::Malformed, "{\"path\": \"a\\u00e9")
    );
    assert!(message.native.is_none(), "no provider gave that");
    assert_eq!(text(&message), "I look at two files.");
}

#[test]
fn why_a_model_stopped() {
    let ends = |dialect, bytes: String| received(dialect, bytes).end;
    for (word, stop) in [
        ("stop", StopReason::Done),
        ("tool_calls", StopReason::Done),
        ("length", StopReason::Length),
        ("content_filter", StopReason::Refused),
        ("whatever", StopReason::Other("whatever".into())),
    ] {
        assert_eq!(ends(Dialect::OpenAiChat, chat(&[r#"{"content":"x"}"#], word)), End::Complete(stop));
    }
    let refused =
        received(Dialect::OpenAiChat, chat(&[r#"{"refusal":"I can"}"#, r#"{"refusal":"not"}"#], "stop"));
    assert_eq!(refused.end, End::Complete(StopReason::Refused));
    assert_eq!(text(refused.message.as_ref().unwrap()), "I cannot");
    for (word, stop) in [
        ("end_turn", StopReason::Done),
        ("max_tokens", StopReason::Length),
        ("refusal", StopReason::Refused),
        ("pause_turn", StopReason::Paused),
    ] {
        let bytes = STREAMS[4].1.replace("\"tool_use\",\"stop_seq", &format!("\"{word}\",\"stop_seq"));
        assert_eq!(ends(Dialect::Anthropic, bytes), End::Complete(stop));
    }
    for (word, stop) in [
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Refused),
        ("MALFORMED_FUNCTION_CALL", StopReason::Other("MALFORMED_FUNCTION_CALL".into())),
    ] {
        assert_eq!(
            ends(Dialect::Gemini, STREAMS[5].1.replace("\"STOP\"", &format!("\"{word}\""))),
            End::Complete(stop)
        );
    }
    let blocked = received(
        Dialect::Gemini,
        events(&[r#"{"promptFeedback":{"blockReason":"SAFETY"},"modelVersion":"g"}"#]),
    );
    assert_eq!((blocked.end, blocked.message), (End::Complete(StopReason::Refused), None));
    assert_eq!(
        ends(Dialect::Ollama, STREAMS[6].1.replace("\"stop\"", "\"length\"")),
        End::Complete(StopReason::Length)
    );
    let incomplete = STREAMS[3].1.replace(
        r#""status":"completed","error":null,"incomplete_details":null"#,
        r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    assert_eq!(ends(Dialect::OpenAiResponses, incomplete), End::Complete(StopReason::Length));
}

fn fault(kind: &str, message: &str) -> End {
    End::Failed(ReportedFault { kind: Some(kind.into()), message: message.into() })
}

/// An error in the middle: what it says, and what came before it.
#[test]
fn errors_in_the_middle() {
    let half = |stream: usize| {
        let (dialect, bytes) = STREAMS[stream];
        let middle = bytes.rfind("ook").unwrap();
        (dialect, &bytes[..bytes[..middle].rfind("\n\n").or(bytes[..middle].rfind('\n')).unwrap()])
    };
    let cases = [
        (
            1,
            "\n\ndata: {\"error\":{\"code\":502,\"message\":\"Provider returned error\",\"metadata\":{\"raw\":\"overloaded\"}},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
            fault("502", "Provider returned error: overloaded"),
        ),
        (
            1,
            "\n\nevent: error\ndata: {\"message\":\"gone\",\"type\":\"server_error\",\"code\":null}\n\n",
            fault("server_error", "gone"),
        ),
        (
            2,
            "\n\ndata: {\"object\":\"error\",\"message\":\"bad\",\"type\":\"invalid_request\",\"code\":\"3000\"}\n\n",
            fault("3000", "bad"),
        ),
        (
            3,
            "\n\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow down\",\"param\":null}\n\n",
            fault("rate_limit_exceeded", "slow down"),
        ),
        (
            3,
            "\n\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"output\":[],\"error\":{\"code\":\"server_error\",\"message\":\"sorry\"}}}\n\n",
            fault("server_error", "sorry"),
        ),
        (
            4,
            "\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            fault("overloaded_error", "Overloaded"),
        ),
        (
            5,
            "\n\ndata: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n",
            fault("UNAVAILABLE", "busy"),
        ),
        (
            6,
            "\n{\"error\":\"an error was encountered\"}\n",
            End::Failed(ReportedFault { kind: None, message: "an error was encountered".into() }),
        ),
    ];
    for (stream, error, expected) in cases {
        let (dialect, bytes) = half(stream);
        let got = received(dialect, format!("{bytes}{error}"));
        assert_eq!(got.end, expected, "{dialect}");
        let message = got.message.unwrap();
        assert!(message.native.is_none() && !(text(&message) + &thoughts(&message)).is_empty(), "{dialect}");
    }
}

/// Errors as whole bodies, in the ways of providers and of what stands before them.
#[test]
fn errors_as_bodies() {
    for dialect in Dialect::all() {
        for (body, kind, message) in [
            (
                r#"{"error":{"message":"No such model","type":"invalid_request_error","code":"model_not_found"}}"#,
                Some("model_not_found"),
                "No such model",
            ),
            (
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                Some("authentication_error"),
                "invalid x-api-key",
            ),
            (
                r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
                Some("INVALID_ARGUMENT"),
                "bad",
            ),
            (r#"{"error":"model 'x' not found"}"#, None, "model 'x' not found"),
            ("{\n  \"detail\": \"Not Found\"\n}", None, "Not Found"),
            (r#"{"message":"no body","code":"x"}"#, Some("x"), "no body"),
        ] {
            let expected = ReportedFault { kind: kind.map(Into::into), message: message.into() };
            assert_eq!(received(dialect, body).end, End::Failed(expected), "{dialect} {body}");
        }
    }
}

/// A server that does not stream is understood: the same message, shown at once.
#[test]
fn whole_bodies() {
    let bodies = [
        (
            Dialect::OpenAiChat,
            r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        ),
        (
            Dialect::Mistral,
            r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        ),
        (
            Dialect::OpenAiResponses,
            r#"{"object":"response","status":"completed","error":null,"model":"m","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":4}}"#,
        ),
        (
            Dialect::Anthropic,
            r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"a","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}"#,
        ),
        (
            Dialect::Gemini,
            r#"{"modelVersion":"m","candidates":[{"content":{"role":"model","parts":[{"text":"Hi"},{"functionCall":{"id":"a","name":"f","args":{}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4}}"#,
        ),
        (
            Dialect::Ollama,
            r#"{"model":"m","message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}"#,
        ),
        (
            Dialect::Bedrock,
            r#"{"output":{"message":{"role":"assistant","content":[{"text":"Hi"},{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":3,"outputTokens":4}}"#,
        ),
    ];
    for (dialect, body) in bodies {
        // Also with line breaks, after blank lines, and in pieces.
        let pretty = format!("\r\n{}", body.replace(":{", ":\n {"));
        for bytes in [body, &pretty] {
            let (deltas, got) = decoded(dialect, bytes.as_bytes().chunks(7));
            assert_eq!(got.end, End::Complete(StopReason::Done), "{dialect}");
            assert_eq!(got.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }), "{dialect}");
            // Of Bedrock's models only the address of the request says which it was.
            assert_eq!(got.model.as_deref(), Some("m").filter(|_| dialect != Dialect::Bedrock));
            let message = got.message.unwrap();
            assert_eq!(
                (text(&message), calls(&message)),
                ("Hi".into(), vec![call("a", "f", "{}")]),
                "{dialect}"
            );
            assert!(message.native.is_some());
            assert_eq!(shown(&deltas), ("Hi".into(), String::new(), vec!["f".into()]), "{dialect}");
            let cut = received(dialect, &bytes[..bytes.len() - 1]);
            assert_eq!(cut.end, End::Cut, "{dialect}");
        }
    }
}

/// Gemini without `alt=sse` sends a list of chunks.
#[test]
fn gemini_as_a_list() {
    let chunks: Vec<&str> = STREAMS[5].1.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let list = format!("[{}\n]\n", chunks.join("\n,\r\n"));
    let (deltas, got) = decoded(Dialect::Gemini, list.as_bytes().chunks(11));
    let (expected_deltas, expected) = decoded(Dialect::Gemini, [STREAMS[5].1.as_bytes()]);
    assert_eq!((deltas, got.message, got.end), (expected_deltas, expected.message, expected.end));
    let half = received(Dialect::Gemini, &list[..list.find("functionCall").unwrap()]);
    assert_eq!((half.end, text(&half.message.unwrap())), (End::Cut, "I look.".into()));
}

/// A Responses server that says everything at the end, and one that says it item by item only.
#[test]
fn responses_in_fewer_events() {
    let events: Vec<&str> = STREAMS[3].1.split_inclusive("\n\n").collect();
    let only = |words: &[&str]| -> String {
        events.iter().filter(|event| words.iter().any(|word| event.contains(word))).copied().collect()
    };
    for words in [
        &["event: response.completed"][..],
        &["event: response.output_item.done", "event: response.completed"],
    ] {
        let (deltas, got) = decoded(Dialect::OpenAiResponses, [only(words).as_bytes()]);
        assert_eq!(got.end, End::Complete(StopReason::Done));
        assert_eq!(text(got.message.as_ref().unwrap()), "I look at a.rs.");
        let (said, _, tools) = shown(&deltas);
        assert_eq!((said.as_str(), tools), ("I look at a.rs.", vec!["read".to_owned()]));
    }
}

/// Text that arrives after its item is done was shown, so it is kept; so is an item that comes without a number.
#[test]
fn responses_keep_what_arrives_after_an_item_is_done() {
    let done = |text: &str| {
        format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}}}"#
        )
    };
    let delta = r#"{"type":"response.output_text.delta","delta":" late"}"#;
    for (stream, expected) in [
        (vec![done("r"), delta.to_owned()], "r late"),
        (vec![delta.to_owned(), done("r"), delta.to_owned()], " late late"),
        (vec![delta.to_owned(), done("a late"), delta.to_owned()], "a late late"),
        (vec![done("one"), done(" two")], "one two"),
    ] {
        let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
        let (deltas, got) = decoded(Dialect::OpenAiResponses, [events(&stream).as_bytes()]);
        assert_eq!(text(got.message.as_ref().unwrap()), expected);
        assert!(shown(&deltas).0.len() <= expected.len(), "{deltas:?}");
    }
}

/// Half of a surrogate pair waits for the other half, also where a block begins with it.
#[test]
fn a_block_of_anthropic_may_begin_with_half_a_character() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"\ud83d"}}"#;
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    let stop = r#"{"type":"message_stop"}"#;
    for (rest, expected, seen) in [
        (vec![delta("\\ude00")], "😀", "😀"),
        (vec![delta("\\ude00"), stop.to_owned()], "😀", "😀"),
        (vec![delta(""), stop.to_owned()], "\u{fffd}", ""),
        (vec![stop.to_owned()], "\u{fffd}", ""),
    ] {
        let stream: Vec<&str> = std::iter::once(start).chain(rest.iter().map(String::as_str)).collect();
        let (deltas, got) = decoded(Dialect::Anthropic, [events(&stream).as_bytes()]);
        assert_eq!((text(&got.message.unwrap()).as_str(), shown(&deltas).0.as_str()), (expected, seen));
    }
}

/// Blocks of unknown types are kept as they came, and grow with their deltas.
#[test]
fn unknown_blocks_of_anthropic() {
    let stream = events(&[
        r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\": \"x\"}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"u","title":"\u0041"}]}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"compaction","content":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"compaction_delta","content":"so far"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"cited"}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"u"}}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"something_new","x":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
    ]);
    // The end was said, though the last event is missing.
    let got = received(Dialect::Anthropic, stream);
    assert_eq!(got.end, End::Complete(StopReason::Done));
    let message = got.message.unwrap();
    assert_eq!(
        native(&message),
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "x"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"u","title":"\u0041"}]},{"type":"compaction","content":"so far"},{"type":"text","text":"cited","citations":[{"type":"web_search_result_location","url":"u"}]}]}"#
    );
    assert_eq!(message.blocks.iter().filter(|block| matches!(block.kind, BlockKind::Opaque(_))).count(), 3);
}

/// Reasoning under the names that other services have for it.
#[test]
fn reasoning_of_compatible_services() {
    for (deltas, fields) in [
        (
            &[r#"{"reasoning_content":"hm "}"#, r#"{"reasoning_content":"so"}"#][..],
            r#""reasoning_content":"hm so""#,
        ),
        (
            &[r#"{"reasoning_text":"hm ","reasoning_opaque":"b3Bh"}"#, r#"{"reasoning_text":"so"}"#],
            r#""reasoning_text":"hm so","reasoning_opaque":"b3Bh""#,
        ),
        (
            &[
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"hm "}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"so"},{"type":"reasoning.encrypted","data":"x"},{"type":"reasoning.encrypted","data":"y"}]}"#,
            ],
            r#""reasoning_details":[{"type":"reasoning.summary","summary":"hm so"},{"type":"reasoning.encrypted","data":"x"},{"type":"reasoning.encrypted","data":"y"}]"#,
        ),
    ] {
        let (shown_as, got) = decoded(
            Dialect::OpenAiChat,
            [chat(&[deltas, &[r#"{"content":"x"}"#]].concat(), "stop").as_bytes()],
        );
        assert_eq!(shown(&shown_as).1, "hm so");
        let message = got.message.unwrap();
        assert!(native(&message).contains(fields), "{}", native(&message));
        assert!(matches!(message.blocks[0].kind, BlockKind::Reasoning(_)));
        assert!(!thoughts(&message).contains("b3Bh"), "what is sealed is not text");
    }
}

/// Nothing said is no message.
#[test]
fn silence() {
    for delta in [r#"{"role":"assistant","content":""}"#, r#"{"content":null}"#, "{}"] {
        let got = received(Dialect::OpenAiChat, chat(&[delta], "stop"));
        assert_eq!((got.end, got.message), (End::Complete(StopReason::Done), None));
    }
    let empty = STREAMS[4].1.find("event: content_block_start").map(|at| &STREAMS[4].1[..at]);
    let got = received(Dialect::Anthropic, empty.unwrap());
    assert_eq!((got.end, got.message), (End::Cut, None));
}

/// A decoder that has seen the end takes nothing more.
#[test]
fn the_end_is_the_end() {
    for (dialect, bytes) in STREAMS {
        let mut decoder = dialect.wire().decoder();
        let mut deltas = Vec::new();
        decoder.feed(bytes.as_bytes(), &mut deltas);
        // Gemini says no last word.
        assert_eq!(decoder.is_done(), *dialect != Dialect::Gemini, "{dialect}");
        let count = deltas.len();
        decoder.feed(b"data: oops\n\n<html>\n", &mut deltas);
        assert_eq!(
            (deltas.len(), decoder.finish().end),
            (count, End::Complete(StopReason::Done)),
            "{dialect}"
        );
    }
}
