//! `rejoin check`: its exit code is the strict checker's verdict on a body, and it never claims what it does not know about a
//! history.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::{Value, json};
use support::{Home, SOUND, has};
use testkit::bodies::{Shape, body};

/// The exit code of `check` with these arguments on a body, and its report.
fn check(home: &Home, body: &str, arguments: &[&str]) -> (i32, Value) {
    let file = home.file("body.json", body);
    let mut all = vec!["check", "--json", &file];
    all.extend(arguments);
    let ran = home.run(&all);
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}\n{}", ran.out, ran.err)))
}

fn rules(report: &Value, severity: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|f| f["severity"] == severity).map(|f| f["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_body_is_judged_by_the_checker_of_its_dialect() {
    let home = Home::new("sqlite");
    let body = json!({"model": "claude-opus-4-8", "max_tokens": 9, "messages": [
        {"role": "user", "content": "", "mood": "good"},
        {"role": "assistant", "content": "I see."},
    ]});
    let (code, report) = check(&home, &body.to_string(), &[]);
    assert_eq!((code, &report["sound"], &report["accepted"]), (1, &false.into(), &false.into()));
    assert_eq!(rules(&report, "error"), ["ANT-29", "ANT-11", "ANT-14"]);
    // An output may come after other items: the API accepts that, so it is only a note.
    let body = json!({"model": "m", "input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"role": "user", "content": "and?"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
    ]});
    let (code, report) = check(&home, &body.to_string(), &[]);
    assert_eq!((code, &report["sound"]), (0, &true.into()));
    assert_eq!(rules(&report, "note"), ["detached-result"]);
}

#[test]
fn required_settings_are_asked_of_a_body_and_not_of_a_bare_list() {
    let home = Home::new("sqlite");
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]);
    let body = json!({"model": "claude-sonnet-4-5", "messages": messages});
    let (code, report) = check(&home, &body.to_string(), &["--from", "anthropic"]);
    assert_eq!((code, rules(&report, "error")), (1, vec![String::from("ANT-30")]));
    let (code, report) = check(&home, &messages.to_string(), &["--from", "anthropic"]);
    assert_eq!((code, &report["kind"]), (0, &"messages".into()), "{report}");
}

#[test]
fn for_another_dialect_it_asks_about_the_same_bytes() {
    let home = Home::new("sqlite");
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello. What is it?"},
    ]});
    assert_eq!(check(&home, &body.to_string(), &[]).0, 0);
    let (code, report) = check(&home, &body.to_string(), &["--for", "mistral"]);
    assert_eq!((code, rules(&report, "error")), (1, vec![String::from("MIS-07")]));
    let (code, report) = check(&home, &body.to_string(), &["--for", "anthropic"]);
    assert_eq!((code, rules(&report, "error")), (1, vec![String::from("ANT-30"), String::from("ANT-14")]));
    // Dialects that are only written can be asked about, too.
    let body = json!({"messages": [{"role": "user", "content": [{"text": "Hello."}]}]});
    for dialect in ["--from", "--for"] {
        assert_eq!(check(&home, &body.to_string(), &[dialect, "bedrock"]).0, 0, "{dialect}");
    }
}

/// Requests to some providers are read as another's, or not at all. Their checker judges them all the same.
#[test]
fn a_request_in_a_dialect_that_is_not_read_is_judged_by_its_checker() {
    let home = Home::new("sqlite");
    let call = json!({"toolUse": {"toolUseId": "t1", "name": "ls", "input": {}}});
    let result = json!({"toolResult": {"toolUseId": "t1", "content": [{"text": "a list"}]}});
    let bedrock = |answer: &Value| {
        json!({"messages": [{"role": "user", "content": [{"text": "Hello."}]}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": [answer]}],
            "toolConfig": {"tools": [{"toolSpec": {"name": "ls", "inputSchema": {"json": {"type": "object"}}}}]}})
    };
    let (code, report) = check(&home, &bedrock(&result).to_string(), &[]);
    assert_eq!(
        (code, &report["format"], &report["for"]),
        (0, &"bedrock".into(), &"bedrock".into()),
        "{report}"
    );
    assert_eq!((&report["calls"], &report["results"]), (&1.into(), &1.into()));
    let (code, report) = check(&home, &bedrock(&json!({"text": "Go on."})).to_string(), &[]);
    assert_eq!((code, rules(&report, "error")), (1, vec![String::from("BED-01")]));
    let asked =
        home.run(&["check", &home.file("asked.json", bedrock(&json!({"text": "Go on."})).to_string())]);
    has(&asked.out, &["bedrock request, recognized by its toolConfig", "cannot mend it"]);

    // A content without types may be anybody's mistake. A request to Bedrock names no model.
    let texts = json!([{"role": "user", "content": [{"text": "Hello."}]}]);
    assert_eq!(check(&home, &json!({"messages": texts}).to_string(), &[]).1["format"], "bedrock");
    assert_eq!(
        check(&home, &json!({"model": "m", "messages": texts}).to_string(), &[]).1["format"],
        "openai-chat"
    );

    let ollama = |more: Value| {
        let mut body = json!({"model": "llama3.2", "options": {"num_ctx": 4096}, "messages": [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "ls", "arguments": {}}}]},
            {"role": "tool", "tool_name": "ls", "content": "a list"}]});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        body.to_string()
    };
    let (code, report) = check(&home, &ollama(json!({})), &[]);
    assert_eq!((code, &report["format"], &report["calls"]), (0, &"ollama".into(), &1.into()), "{report}");
    let unanswered = json!({"messages": [{"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "ls", "arguments": {}}}]}]});
    let ran = home.run(&["check", &home.file("unanswered.json", ollama(unanswered))]);
    assert_eq!(ran.code, 1);
    has(
        &ran.out,
        &["[OLL-04]", "broken: Ollama would accept this request, but the model would not see it unchanged"],
    );
    // A field of another API: it may be meant for another server.
    assert_eq!(check(&home, &ollama(json!({"max_tokens": 9})), &[]).1["format"], "openai-chat");
    assert_eq!(check(&home, &ollama(json!({})), &["--from", "openai-chat"]).1["format"], "openai-chat");
}

/// Requests to Mistral and to OpenAI have one shape. What only Mistral has tells it; else the answer names the assumption where it matters.
#[test]
fn a_request_that_may_be_mistrals_says_so_where_the_answers_differ() {
    let home = Home::new("sqlite");
    let body = |id: &str, more: Value| {
        let mut body = json!({"model": "mistral-large-latest", "messages": [{"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function",
                "function": {"name": "ls", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": id, "name": "ls", "content": "a list"}]});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        body.to_string()
    };
    let (code, report) = check(&home, &body("abc123def", json!({"safe_prompt": true})), &[]);
    assert_eq!((code, &report["format"]), (0, &"mistral".into()), "{report}");
    let said = |body: String| home.run(&["check", &home.file("body.json", body)]);
    let long = said(body("call_0123456789", json!({})));
    assert_eq!(long.code, 0);
    has(
        &long.out,
        &[
            "openai-chat request",
            "OpenAI would accept",
            "But Mistral, whose model it names, would answer 400",
        ],
    );
    assert!(!said(body("abc123def", json!({}))).out.contains("Mistral"), "the answers are the same");
    let other = body("call_0123456789", json!({"model": "mistralai/mistral-large-2411"}));
    assert!(!said(other).out.contains("Mistral"), "another server's name of the model");
}

#[test]
fn an_object_without_messages_is_refused_and_not_unreadable_if_its_dialect_is_named() {
    let home = Home::new("sqlite");
    let (code, report) = check(&home, r#"{"model":"m","max_tokens":1}"#, &["--from", "anthropic"]);
    assert_eq!((code, rules(&report, "error")), (1, vec![String::from("ANT-schema")]));
    let file = home.file("nothing.json", r#"{"model":"m"}"#);
    assert_eq!(home.run(&["check", &file]).code, 2);
}

#[test]
fn text_that_was_not_read_keeps_a_body_from_being_called_accepted() {
    let home = Home::new("sqlite");
    // Some of it, and most of it.
    for said in ["Hello, and here is a longer story that is understood well enough.", "Hello."] {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": said, "whisper": "nobody has read these words yet"},
        ]});
        let (code, report) = check(&home, &body.to_string(), &[]);
        assert_eq!((code, &report["sound"], &report["accepted"]), (1, &false.into(), &true.into()), "{said}");
        assert_eq!(rules(&report, "warning"), ["unread-text"], "{said}");
    }
}

#[test]
fn a_stored_file_of_another_program_is_no_request() {
    let home = Home::new("sqlite");
    let file = json!({"session_id": "s", "created_at": 5, "title": "A talk about nothing in particular",
        "messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello yourself."}]});
    let (code, report) = check(&home, &file.to_string(), &[]);
    assert_eq!(
        (code, &report["kind"], &report["accepted"]),
        (0, &"session".into(), &Value::Null),
        "{report}"
    );
    let body = home.out(&["convert", &home.file("stored.json", file.to_string()), "--to", "openai-chat"]);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["messages"]);
}

/// A rollout of Codex with a call that has no output.
const ROLLOUT: &str = concat!(
    r#"{"timestamp":"2026-11-15T12:00:00Z","type":"session_meta","payload":{"id":"0199aaaa-0000-7000-8000-000000000001","timestamp":"2026-11-15T12:00:00Z","cwd":"/w","originator":"o","cli_version":"1"}}"#,
    "\n",
    r#"{"timestamp":"2026-11-15T12:00:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"look around"}]}}"#,
    "\n",
    r#"{"timestamp":"2026-11-15T12:00:02Z","type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}}"#,
    "\n",
);

#[test]
fn a_session_is_judged_by_its_history_and_the_request_by_what_its_agent_sends() {
    let home = Home::new("sqlite");
    let file = home.file("rollout.jsonl", ROLLOUT);
    let ran = home.run(&["check", "--json", "--for", "openai-responses", &file]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["sound"], &report["accepted"]), (1, &false.into(), &true.into()));
    let told = home.run(&["check", &file]).out;
    assert!(told.contains("Codex mends its history before it sends it: OpenAI would accept"), "{told}");
    assert!(!told.contains("would answer 400"), "{told}");
    // A fault that Codex does not mend is refused.
    let twice = format!("{ROLLOUT}{}\n", ROLLOUT.lines().last().unwrap());
    let ran = home.run(&["check", "--json", "--for", "openai-responses", &home.file("twice.jsonl", twice)]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["accepted"]), (1, &false.into()));
    assert!(rules(&report, "error").contains(&String::from("RSP-10")), "{report}");
}

#[test]
fn nothing_is_said_about_the_next_request_of_an_agent_that_refuses_to_open_the_session() {
    let home = Home::new("sqlite");
    let (_, unopened) = ROLLOUT.split_once('\n').unwrap();
    let file = home.file("rollout.jsonl", unopened);
    let told = home.run(&["check", &file]).out;
    assert!(told.contains("cannot-be-opened") && told.contains("Codex refuses to open it."), "{told}");
    for other in ["next request", "mends its history", "would answer", "would accept", "would refuse the"] {
        assert!(!told.contains(other), "{other}: {told}");
    }
    let ran = home.run(&["doctor", "--json", &file]);
    assert!(ran.out.contains(r#""state":"cannot_be_opened","for":null"#), "{}", ran.out);
    // What rejoin would send can still be asked.
    let ran = home.run(&["check", "--for", "openai-responses", &file]);
    assert!(ran.out.contains("would accept the request that rejoin makes of it"), "{}", ran.out);
}

#[test]
fn convert_says_what_the_provider_still_refuses() {
    let home = Home::new("sqlite");
    let body = json!({"model": "m", "max_completion_tokens": 77, "messages": [{"role": "user", "content": "Hello."}]});
    let file = home.file("chat.json", body.to_string());
    let ran = home.run(&["convert", &file, "--to", "anthropic"]);
    let sent: Value = serde_json::from_str(&ran.out).unwrap();
    // The limit is carried over; a model of another provider is not.
    assert_eq!((ran.code, &sent["max_tokens"], &sent["model"]), (0, &77.into(), &Value::Null));
    assert!(ran.err.contains("Anthropic would refuse this request: model: Field required"), "{}", ran.err);
    assert!(ran.err.contains("hint: add `--model MODEL`\n"), "{}", ran.err);
    let ran = home.run(&["convert", &file, "--to", "anthropic", "--model", "x", "--max-tokens", "5"]);
    let sent: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&sent["max_tokens"], &sent["model"]), (&5.into(), &"x".into()));
    assert!(!ran.err.contains("would refuse"), "{}", ran.err);
    assert_eq!(home.run(&["check", &home.file("sent.json", ran.out)]).code, 0);
    for (dialect, place) in [
        ("openai-responses", "/max_output_tokens"),
        ("gemini", "/generationConfig/maxOutputTokens"),
        ("bedrock", "/inferenceConfig/maxTokens"),
        ("ollama", "/options/num_predict"),
        ("mistral", "/max_tokens"),
        ("openai-chat", "/max_completion_tokens"),
    ] {
        let sent: Value = serde_json::from_str(&home.out(&["convert", &file, "--to", dialect])).unwrap();
        assert_eq!(sent.pointer(place), Some(&77.into()), "{dialect}: {sent}");
    }
}

/// The binary's verdict on many bodies equals the checker's, with the dialect named or detected, on bodies with every fault, on the
/// fixtures, and on the output of `convert` for them.
#[test]
fn check_and_the_checker_never_disagree() {
    let home = Home::new("sqlite");
    let mut runner = TestRunner::deterministic();
    for shape in Shape::ALL {
        let name = shape.name();
        let mut bodies: Vec<String> = (0..60)
            .map(|number| {
                let json = body(shape).new_tree(&mut runner).unwrap().current().json;
                // Half of them name what only a caller can choose.
                let settings = if name == "anthropic" {
                    r#"{"model":"m","max_tokens":4000,"#
                } else {
                    r#"{"model":"m","#
                };
                if number % 2 == 0 && json.starts_with('{') { json.replacen('{', settings, 1) } else { json }
            })
            .collect();
        let fixtures =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../checkers/fixtures").join(name);
        for fixture in std::fs::read_dir(fixtures).unwrap() {
            bodies.push(std::fs::read_to_string(fixture.unwrap().path()).unwrap());
        }
        let named = |number: usize, what: &str| format!("{name}/{number}-{what}.json");
        let files: Vec<String> =
            bodies.iter().enumerate().map(|(number, body)| home.file(&named(number, "body"), body)).collect();
        assert_agreement(&home, &files, &["--from", name]);
        assert_agreement(&home, &files, &[]);
        // Both directions: mended bodies are accepted, by the checker and by `check`.
        let mended: Vec<String> = files
            .iter()
            .enumerate()
            .step_by(8)
            .map(|(number, file)| {
                let body = home.out(&[
                    "convert",
                    file,
                    "--from",
                    name,
                    "--to",
                    name,
                    "--model",
                    "m",
                    "--max-tokens",
                    "4000",
                ]);
                home.file(&named(number, "mended"), body)
            })
            .collect();
        for verdict in assert_agreement(&home, &mended, &["--from", name]) {
            assert!(verdict, "{name}: a mended body is refused");
        }
    }
}

/// Compares the verdicts of the binary with the checker's, and gives them.
fn assert_agreement(home: &Home, files: &[String], arguments: &[&str]) -> Vec<bool> {
    let mut all = vec!["check", "--json"];
    all.extend(arguments);
    all.extend(files.iter().map(String::as_str));
    let ran = home.run(&all);
    let reports: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut verdicts = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        let Some(report) = reports.iter().find(|report| report["path"] == file.as_str()) else {
            // Only a body without a model, or a list without a message, may be taken for another format.
            let request =
                bytes.starts_with(b"{\"model\"") || (bytes.starts_with(b"{") && !arguments.is_empty());
            assert!(!request, "{file} has no report: {}\n{}", ran.err, String::from_utf8_lossy(&bytes));
            continue;
        };
        let dialect = report["for"].as_str().unwrap_or_else(|| panic!("{file} is no body: {report}"));
        let verdict = rejoin::checkers::named(dialect).unwrap().check(&bytes);
        assert_eq!(report["accepted"], verdict.accepts(), "{file} {report}\n{verdict:#?}");
        let read = rules(report, "warning").is_empty();
        assert_eq!(report["sound"], verdict.accepts() && read, "{file} {report}");
        verdicts.push(verdict.accepts());
    }
    verdicts
}

#[test]
fn the_shape_is_shown_and_no_value() {
    let home = Home::new("sqlite");
    let text = "{\"kind\":\"secret\",\"who\":{\"name\":\"Ada Lovelace\"}}\n{\"kind\":7}\n";
    let file = &home.file("odd.jsonl", text);
    let shown = home.out(&["check", "--describe", file]);
    let expected = "59 bytes, 2 lines, 2 of them JSON
  (each value)  object × 2
  kind          number × 1, string × 1
  who           object × 1
  who.name      string × 1
";
    assert_eq!(shown, expected);
    let json = home.out(&["check", "--describe", "--json", file]);
    assert!(json.contains(r#""who.name":{"string":1}"#), "{json}");
    // The hint for an unknown file leads here.
    let refused = home.run(&["check", file]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("check --describe"), "{}", refused.err);
    let words = home.file("words.txt", "only words");
    assert_eq!(home.out(&["check", "--describe", &words]), "10 bytes, one line of text that is not JSON\n");
    let utf16: Vec<u8> = "\u{feff}{\"kind\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let shown = home.out(&["check", "--describe", &home.file("utf16.json", utf16)]);
    assert!(shown.starts_with("22 bytes, one JSON value\n"), "{shown}");
    let binary = home.run(&["check", "--describe", &home.file("binary", [0x80; 200])]);
    assert_eq!(binary.code, 2);
    assert!(binary.err.contains("it is not text"), "{}", binary.err);
}

#[test]
fn a_word_that_is_no_file_and_no_conversation() {
    let home = Home::new("sqlite");
    home.import("chat.json", SOUND);
    let ran = home.run(&["check", "nonesuch"]);
    assert_eq!(ran.code, 2);
    let lines = [
        "cannot read nonesuch: there is no such file, and no such conversation in the store",
        "`rejoin list` lists conversations",
    ];
    has(&ran.err, &lines);
}

/// A dialect after `--from` names a request. The flag is not ignored for a session of an agent.
#[test]
fn a_session_is_not_checked_as_a_request() {
    let home = support::Home::new("sqlite");
    let session =
        home.file("session.jsonl", std::fs::read_to_string("../../examples/transcript.jsonl").unwrap());
    let ran = home.run(&["check", "--from", "ollama", &session]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    support::has(&ran.err, &["it is not a request for ollama, but a session in the format `claude-code`"]);
}
