//! Session files of lines: Codex rollouts, turns, our own record. What is read, what is kept, what is written.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod sketching;

use std::sync::Arc;

use rejoin_formats::{
    Dialect, Input, ReadError, Session, convert,
    input::{Companions, InputError, Stream},
    session::Aside,
    sessions,
};
use rejoin_record::{BlockKind, Role, Timestamp};
use rejoin_view::{OnBroken, Rule};
use sketching::written;

fn read_as(text: &str, format: &str) -> Result<Vec<Session>, ReadError> {
    let input = Input::new("session.jsonl", text.as_bytes())?;
    sessions::read(&input, sessions::named(format))
}

fn read(text: &str) -> Session {
    let input = Input::new("session.jsonl", text.as_bytes()).unwrap();
    sessions::read(&input, None).unwrap().remove(0)
}

fn texts(session: &Session) -> Vec<String> {
    session.messages.iter().map(|message| message.content().unwrap_or_default()).collect()
}

fn rules(session: &Session) -> Vec<Rule> {
    let repaired = rejoin_view::repair(&session.history(), rejoin_view::OnBroken::Keep);
    session.findings.iter().chain(&repaired.findings).map(|finding| finding.rule).collect()
}

fn line(kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-11-15T12:00:00.000Z","type":"{kind}","payload":{payload}}}"#) + "\n"
}

fn item(payload: &str) -> String {
    line("response_item", payload)
}

fn said(role: &str, text: &str) -> String {
    let part = if role == "assistant" { "output_text" } else { "input_text" };
    item(&format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{part}","text":"{text}"}}]}}"#))
}

fn called(id: &str) -> String {
    item(&format!(r#"{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"{id}"}}"#))
}

fn answered(id: &str, output: &str) -> String {
    item(&format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{output}"}}"#))
}

fn meta() -> String {
    line(
        "session_meta",
        r#"{"id":"0199aaaa-0000-7000-8000-000000000001","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/p","originator":"codex_exec","cli_version":"0.166.0","base_instructions":{"text":"be brief"}}"#,
    )
}

/// With repairing turned off, damage in the file is a reason to send nothing, however sound the messages around it are.
#[test]
fn refuse_looks_at_damage_too() {
    let (hi, hello, on) = (said("user", "hi"), said("assistant", "hello"), said("user", "on"));
    for (damage, refused) in [("", false), ("{\"timestamp\":\n", true)] {
        let text = format!("{}{hi}{damage}{hello}{on}", meta());
        let session = read_as(&text, "codex").unwrap().remove(0);
        assert_eq!(texts(&session), ["hi", "hello", "on"]);
        assert_eq!(rules(&session).contains(&Rule::DamagedEntry), refused);
        let out = convert(&session, Dialect::OpenAiResponses, None, OnBroken::Refuse);
        assert_eq!(out.is_err(), refused, "{out:?}");
        assert!(convert(&session, Dialect::OpenAiResponses, None, OnBroken::Keep).is_ok());
    }
}

/// S3-05, B36: messages with typed content, calls and outputs, reasoning and ghost snapshots each have their place.
#[test]
fn every_kind_of_item_has_its_place() {
    let rollout = meta()
        + &line("turn_context", r#"{"cwd":"/p","model":"gpt-5.5"}"#)
        + &said("user", "list it")
        + &item(r#"{"type":"ghost_snapshot","ghost_commit":{"id":"abc"}}"#)
        + &item(
            r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I will"}],"encrypted_content":"gAAAx"}"#,
        )
        + &called("call_1")
        + &item(r#"{"type":"custom_tool_call","call_id":"call_2","name":"apply_patch","input":"*** Begin"}"#)
        + &answered("call_1", "a.txt")
        + &item(r#"{"type":"custom_tool_call_output","call_id":"call_2","output":"done"}"#)
        + &line("event_msg", r#"{"type":"token_count","info":null}"#)
        + &said("assistant", "there is one");
    let session = read(&rollout);
    assert_eq!(session.format, "codex");
    assert_eq!(session.context.model().as_deref(), Some("gpt-5.5"));
    assert_eq!(texts(&session), ["list it", "", "a.txt", "done", "there is one"]);
    // One answer of the model is one message: reasoning and both calls.
    let answer = &session.messages[1];
    assert_eq!(answer.role, Role::Assistant);
    assert!(matches!(answer.blocks[0].kind, BlockKind::Reasoning(_)));
    assert_eq!(answer.tool_calls().map(|call| &*call.name).collect::<Vec<_>>(), ["shell", "apply_patch"]);
    assert!(rules(&session).is_empty(), "{:?}", rules(&session));
    let snapshots = session.set_aside.iter().filter(|item| matches!(item.what, Aside::Snapshot(_)));
    assert_eq!(snapshots.count(), 1);
    // It goes back to where it came from as it was: reasoning, a custom call, ids and all.
    let body = convert(&session, Dialect::OpenAiResponses, None, OnBroken::Keep).unwrap();
    assert!(body.body.contains(r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I will"}],"encrypted_content":"gAAAx"}"#));
    assert!(body.body.contains(r#""instructions":"be brief""#));
    assert!(body.findings.is_empty(), "{:?}", body.findings);
    // Another model cannot read that reasoning.
    let other = convert(&session, Dialect::OpenAiResponses, Some("gpt-6"), OnBroken::Keep).unwrap();
    assert!(!other.body.contains("gAAAx"));
}

/// Nothing is lost on the way in: every line is found again, in a message's own bytes or beside them.
#[test]
fn every_line_is_kept() {
    let rollout = meta()
        + &said("user", "one")
        + &line("world_state", r#"{"full":true}"#)
        + "garbage\n"
        + &called("call_1")
        + &line("something_new", r#"{"x":1}"#)
        + r#"{"timestamp":"2026-11-15T12:00:00.000Z","type":"response_item","payl"#;
    let session = read(&rollout);
    for source in rollout.lines() {
        let in_message = session.messages.iter().filter_map(|message| message.native.as_ref());
        let kept = in_message.map(|native| native.raw.as_str().to_owned());
        let mut all = kept.chain(session.set_aside.iter().filter_map(|item| Some(item.raw()?.to_string())));
        assert!(all.any(|text| text.contains(source)), "{source}");
    }
    let entries = session.to_entries(Timestamp::from_second(0).unwrap());
    assert!(rejoin_record::verify::verify(&entries).is_empty());
    let again = read(&rollout).to_entries(Timestamp::from_second(0).unwrap());
    assert_eq!(entries.len(), again.len());
    assert!(entries.iter().zip(&again).all(|(one, other)| one.id() == other.id()));
}

/// S3-14, B42: damage has its line and the parser's words; a torn last line is told apart from it, and a line that was
/// glued onto a torn one is read.
#[test]
fn damage_has_a_line() {
    let torn = r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","ro"#;
    let session = read(&(meta() + &said("user", "one") + torn + "\n" + &said("assistant", "two")));
    assert_eq!(texts(&session), ["one", "two"]);
    let found = &session.findings[0];
    assert_eq!((found.rule, found.at.line), (Rule::DamagedEntry, Some(3)));
    assert!(found.detail.as_ref().unwrap().contains("ends"), "{found:?}");

    let session = read(&(meta() + &said("user", "one") + torn));
    assert_eq!((session.findings[0].rule, session.findings[0].at.line), (Rule::TornTail, Some(3)));
    assert_eq!(session.set_aside.last().unwrap().raw().unwrap().as_str(), torn);

    let glued = meta() + &said("user", "one") + torn + &said("assistant", "two");
    let session = read(&glued);
    assert_eq!(texts(&session), ["one", "two"]);
    assert_eq!(session.findings[0].rule, Rule::DamagedEntry);

    let empty = Input::new("x", b"").unwrap_err();
    assert_eq!(empty, InputError::Empty);
    assert!(matches!(read_as("{\"a\":1}\n", "codex"), Err(ReadError::NoConversation(_))));
}

/// B32, B35: the last compaction counts. With a replacement, that is what the model sees; without one, the words of people
/// stay, but neither what Codex put before them nor an earlier summary.
#[test]
fn a_compaction_is_applied() {
    let before = meta()
        + &said("user", "<environment_context>linux</environment_context>")
        + &said("user", "first")
        + &called("call_1")
        + &said("assistant", "answer");
    let replaced = before.clone()
        + &line(
            "compacted",
            r#"{"message":"sum","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"kept"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"the summary"}]}]}"#,
        )
        + &said("user", "next");
    let session = read(&replaced);
    assert_eq!(texts(&session), ["kept", "the summary", "next"]);
    // The unanswered call is hidden, and nothing of it is lost.
    assert!(rules(&session).is_empty());
    let hidden = session.set_aside.iter().filter(|item| matches!(item.what, Aside::Hidden(..)));
    assert_eq!(hidden.count(), 3);
    let told = "_Left out: 3 messages that the model no longer sees (summarized, pruned, or on another branch). `--to jsonl` writes";
    assert!(written(&session, "markdown").contains(told));

    let summed = before + &line("compacted", r#"{"message":"summary one"}"#) + &said("user", "second");
    assert_eq!(texts(&read(&summed)), ["first", "summary one", "second"]);
    let twice = summed + &line("compacted", r#"{"message":"summary two"}"#) + &said("user", "third");
    assert_eq!(texts(&read(&twice)), ["first", "second", "summary two", "third"]);
}

#[test]
fn turns_that_were_taken_back_are_hidden() {
    let rollout = meta()
        + &said("user", "one")
        + &said("assistant", "1")
        + &said("user", "two")
        + &called("call_1")
        + &line("event_msg", r#"{"type":"thread_rolled_back","num_turns":1}"#)
        + &said("user", "three");
    let session = read(&rollout);
    assert_eq!(texts(&session), ["one", "1", "three"]);
    assert!(rules(&session).is_empty());
}

#[derive(Debug)]
struct Parent(String);

impl Companions for Parent {
    fn open(&self, name: &str) -> Option<Vec<u8>> {
        (name == "0199aaaa-0000-7000-8000-000000000001").then(|| self.0.clone().into_bytes())
    }
}

/// Both history modes, and a fork: it has a prefix of another file before its own lines.
#[test]
fn a_fork_goes_on_from_a_prefix_of_its_parent() {
    let inherited = meta() + &said("user", "one") + &said("assistant", "1");
    let parent = inherited.clone() + &said("user", "not inherited");
    let base = format!(
        r#"{{"id":"0199bbbb-0000-7000-8000-000000000002","timestamp":"t","cwd":"/p","originator":"x","cli_version":"0","history_mode":"paginated","history_base":{{"thread_id":"0199aaaa-0000-7000-8000-000000000001","end_ordinal_exclusive":3,"end_byte_offset":{}}}}}"#,
        inherited.len()
    );
    let number =
        |text: String| text.replace("\"type\":\"response_item\"", "\"ordinal\":4,\"type\":\"response_item\"");
    let fork = line("session_meta", &base) + &number(said("user", "two"));
    let mut input = Input::new("fork.jsonl", fork.as_bytes()).unwrap();
    // Alone, it says what is missing.
    let alone = sessions::read(&input, None).unwrap().remove(0);
    assert_eq!(texts(&alone), ["two"]);
    assert_eq!(rules(&alone), [Rule::BrokenChain]);
    input.companions = Some(Arc::new(Parent(parent)));
    let whole = sessions::read(&input, None).unwrap().remove(0);
    assert_eq!(texts(&whole), ["one", "1", "two"]);
    assert!(rules(&whole).is_empty(), "{:?}", whole.findings);
    // Without its number the last line is refused by Codex.
    let unnumbered = line("session_meta", &base.replace("history_base", "other")) + &said("user", "two");
    assert_eq!(rules(&read(&unnumbered)), [Rule::CannotBeOpened]);
}

/// S1-29: what the first versions wrote has no types, no envelopes and fewer fields.
#[test]
fn old_rollouts_are_read() {
    let old = concat!(
        r#"{"id":"05997ac9-0e06-4251-8576-cc16266d3022","timestamp":"2025-08-06T18:02:11.653Z","instructions":"old rules"}"#,
        "\n",
        r#"{"record_type":"state"}"#,
        "\n",
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#,
        "\n",
        r#"{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}"#,
        "\n",
    );
    let session = read(old);
    assert_eq!((session.format, texts(&session)), ("codex", vec!["hi".to_owned(), String::new()]));
    assert_eq!(rules(&session), [Rule::UnansweredCall]);
    assert_eq!(&*session.context.system()[0].text, "old rules");
}

/// What is written is read back: the same words, calls and results, and nothing broken.
#[test]
fn what_is_written_is_read_back() {
    let body = r#"{"model":"m","system":"be kind","messages":[
        {"role":"user","content":"look"},
        {"role":"assistant","content":[{"type":"text","text":"now"},{"type":"tool_use","id":"t1","name":"ls","input":{"d":"."}},{"type":"tool_use","id":"t2","name":"ls","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"},{"type":"text","text":"and?"}]}]}"#;
    let session = read(body);
    for format in ["codex", "turns"] {
        let file = written(&session, format);
        let again = read(&file);
        assert_eq!(again.format, format, "{file}");
        assert!(rules(&again).is_empty(), "{format} {:?}", rules(&again));
        for word in ["be kind", "look", "now", "and?", "{\\\"d\\\":\\\".\\\"}", "no result was recorded"] {
            assert!(file.contains(word), "{format} {word}\n{file}");
        }
        let calls = again.messages.iter().map(|message| message.tool_calls().count()).sum::<usize>();
        assert_eq!(calls, 2, "{format}");
        let back = convert(&again, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
        assert_eq!(
            testkit::refusals(Dialect::Anthropic, back.body.as_bytes()),
            [],
            "{format}\n{}",
            back.body
        );
    }
}

/// S3-08, S3-13, B40: turns are read line by line and flattened; a time keeps its unit, and can be read as an instant.
#[test]
fn turns_are_flattened() {
    let turns = concat!(
        r#"{"timestamp":1763200000,"items":[{"type":"message","role":"user","content":"hi"},{"type":"message","role":"assistant","content":[{"type":"text","text":"yes"}]}],"metadata":{"provider":"openai","model":"gpt-5","tokens":12}}"#,
        "\n",
        r#"{"timestamp":1763200000000,"items":[{"type":"message","role":"user","content":"more"},{"type":"function_call","name":"f","arguments":"{}","call_id":"c1"}]}"#,
        "\n",
        r#"{"timestamp":"2025-11-15T09:46:40Z","items":[{"type":"function_call_output","call_id":"c1","output":"r"}]}"#,
        "\n",
    );
    let session = read(turns);
    assert_eq!((session.format, session.context.model().as_deref()), ("turns", Some("gpt-5")));
    assert_eq!(texts(&session), ["hi", "yes", "more", "", "r"]);
    assert!(rules(&session).is_empty());
    let times: Vec<_> = session.details.iter().map(|detail| detail.time.as_ref().unwrap().as_str()).collect();
    assert_eq!(times, ["1763200000", "1763200000", "1763200000000", "1763200000000", "2025-11-15T09:46:40Z"]);
    let instants: Vec<_> = times.iter().map(|time| rejoin_formats::session::instant(time).unwrap()).collect();
    assert!(instants.iter().all(|instant| *instant == instants[0]), "{instants:?}");
    // The same again after a compaction: people's words stay, then the summary.
    let compacted = format!("{turns}{}\n", r#"{"timestamp":1,"summary":"all of it","truncatedCount":0}"#);
    assert_eq!(texts(&read(&compacted)), ["hi", "more", "all of it"]);
}

/// S1-28: our own record round-trips calls, results, roles and everything around them.
#[test]
fn our_record_round_trips() {
    let body = r#"{"model":"gpt-5","temperature":0.5,"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}]}"#;
    let session = read(body);
    let file = written(&session, "jsonl");
    let again = read(&file);
    assert_eq!((again.format, again.id), ("jsonl", session.id));
    assert_eq!(again.messages[3].role, Role::Tool);
    assert_eq!(again.messages[3].tool_call_id().unwrap().as_str(), "c1");
    assert!(rules(&again).is_empty(), "{:?}", again.findings);
    let out = convert(&again, Dialect::OpenAiChat, None, OnBroken::Keep).unwrap();
    assert_eq!(out.body, body, "the request that it was");
    // A flipped letter is found.
    let changed = file.replace("\\\"a\\\": 1", "\\\"a\\\": 2");
    assert_ne!(changed, file);
    assert!(rules(&read(&changed)).contains(&Rule::DamagedEntry));
}

/// S1-30: for people, beside the structured formats.
#[test]
fn markdown_shows_everything() {
    let body = r#"[{"role":"user","content":"look at `x`"},{"role":"assistant","content":"I do","tool_calls":[{"id":"c","type":"function","function":{"name":"cat","arguments":"{\"f\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"```\nfenced\n```"}]"#;
    let text = written(&read(body), "markdown");
    for word in
        ["# look at `x`", "## User", "## Assistant", "I do", "**cat**", "{\"f\":1}", "````\n```\nfenced"]
    {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

/// S3-66: ids are data. One that looks like a path is a word like any other.
#[test]
fn an_id_is_never_a_path() {
    let rollout =
        meta().replace("0199aaaa-0000-7000-8000-000000000001", "../../etc/passwd") + &said("user", "x");
    let session = read(&rollout);
    assert!(session.id.to_string().starts_with("conv_"));
    assert!(!written(&session, "codex").contains("etc/passwd"));
}

/// A file need not be one text: lines are read as they come.
#[test]
fn lines_are_read_as_they_come() {
    let text = meta() + &said("user", "one");
    let mut source = std::io::BufReader::with_capacity(7, text.as_bytes());
    let reading = sessions::named("codex").unwrap().read.as_ref().unwrap();
    let stream = Stream { name: "x", source: &mut source, companions: None };
    let session = reading.read_stream(stream).unwrap().remove(0);
    assert_eq!(texts(&session), ["one"]);
}

/// Codex sends these on, so they come back byte for byte with the reasoning before them; what it would drop is text.
#[test]
fn items_of_hosted_tools_stay_in_a_rollout() {
    let reasoning = r#"{"type":"reasoning","summary":[],"encrypted_content":"gAAAAABo"}"#;
    let items = [
        r#"{"type":"web_search_call","status":"completed","action":{"type":"open_page","url":"https://example.org"}}"#,
        r#"{"type":"tool_search_call","call_id":"c1","status":"completed","execution":"client","arguments":{"query":"q"}}"#,
        r#"{"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[{"type":"function","name":"x"}]}"#,
        r#"{"type":"image_generation_call","id":"ig_1","status":"completed","revised_prompt":"a","result":"iVBORw0KGgo="}"#,
        r#"{"type":"compaction","encrypted_content":"gAAAAABq"}"#,
    ];
    let other =
        r#"{"type":"file_search_call","id":"fs_1","queries":["some words to find"],"status":"completed"}"#;
    let mut lines = line("session_meta", r#"{"id":"a","cwd":"/w","model_provider":"openai"}"#);
    lines += &said("user", "go");
    lines += &items.map(|payload| item(reasoning) + &item(payload)).concat().replacen(
        // An output directly follows its call, without a thought between them.
        &format!("{}{}", item(reasoning), item(items[2])),
        &item(items[2]),
        1,
    );
    lines += &item(other);
    let session = read(&lines);
    let copy = written(&session, "codex");
    for payload in items {
        assert!(copy.contains(&format!("\"payload\":{payload}")), "{payload}\n{copy}");
    }
    assert_eq!(copy.matches(reasoning).count(), 4, "{copy}");
    assert!(copy.contains("[file_search_call] ") && copy.contains("some words to find"), "{copy}");
}

/// A long file is parsed by another thread, a few lines at a time. Nothing is lost or moved where one batch meets the next.
#[test]
fn a_long_rollout_is_read_in_order() {
    let meta =
        r#"{"id":"s","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/w","originator":"x","cli_version":"1"}"#;
    let mut text = line("session_meta", meta);
    let (mut expected, mut damaged) = (Vec::new(), Vec::new());
    for number in 0..2_000 {
        let words = format!("number {number} {}", "x".repeat(number % 700));
        text.push_str(&said("user", &words));
        expected.push(words);
        if number % 250 == 249 {
            text.push_str("{\"timestamp\":\n");
            damaged.push(text.lines().count());
        }
    }
    assert!(text.len() > 900_000, "several batches");
    let session = read(&text);
    assert_eq!(texts(&session), expected);
    let found = session.findings.iter().filter(|finding| finding.rule == Rule::DamagedEntry);
    assert_eq!(found.map(|finding| finding.at.line.unwrap()).collect::<Vec<_>>(), damaged);
    let lines: Vec<usize> = session.places.iter().map(|place| place.line.unwrap()).collect();
    assert!(lines.is_sorted() && lines[0] == 2 && lines[1_999] == 2_000 + damaged.len());
}

/// Codex sends an item twice that the file has twice, so it stays; that the line is doubled is said.
#[test]
fn doubled_items_stay_and_are_reported() {
    let line = r#"{"timestamp":"t","ordinal":3,"type":"response_item","payload":{"type":"message","id":"m1","role":"user","content":[{"type":"input_text","text":"hello"}]}}"#;
    let meta = r#"{"timestamp":"t","ordinal":0,"type":"session_meta","payload":{"id":"x","timestamp":"t","cwd":"/w","originator":"o","cli_version":"1"}}"#;
    // Without a number and an id, the same may have been said twice.
    let plain = line.replace(r#""ordinal":3,"#, "").replace(r#""id":"m1","#, "");
    let of_codebuddy =
        r#"{"type":"message","sessionId":"s","timestamp":1777651201000,"role":"user","content":"hello"}"#;
    for (line, wanted) in [(line, 1), (&*plain, 0), (of_codebuddy, 1)] {
        let text = [meta, line, line, ""].join("\n");
        let input = rejoin_formats::Input::new("t", text.as_bytes()).unwrap();
        let session = rejoin_formats::sessions::read(&input, None).unwrap().remove(0);
        assert_eq!(session.messages.len(), 2);
        let doubled = session.findings.iter().filter(|finding| finding.rule.name() == "doubled-entry");
        assert_eq!(doubled.count(), wanted);
    }
}

/// What another agent says is input of the model, in the older form and in the newer one.
#[test]
fn other_agents_are_heard() {
    let text = r#"{"timestamp":"t","type":"session_meta","payload":{"id":"x","timestamp":"t","cwd":"/w","originator":"o","cli_version":"1"}}
{"timestamp":"t","type":"inter_agent_communication","payload":{"author":"/root/worker","recipient":"/root","content":"All tests pass.","trigger_turn":true}}
{"timestamp":"t","type":"response_item","payload":{"type":"agent_message","author":"/root/worker","recipient":"/root","content":[{"type":"input_text","text":"It is merged."}]}}
"#;
    let input = rejoin_formats::Input::new("t", text.as_bytes()).unwrap();
    let session = rejoin_formats::sessions::read(&input, None).unwrap().remove(0);
    let said: Vec<_> = session.messages.iter().map(|message| message.content().unwrap()).collect();
    assert_eq!(said, ["All tests pass.", "It is merged."]);
    assert!(session.messages.iter().all(|message| message.role == rejoin_record::Role::User));
    assert!(session.findings.is_empty());
}
