//! Sessions of other agents, datasets and logs: who says what, what is kept beside, and that every provider accepts the rest.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod sketching;

use std::{fs, path::Path};

use rejoin_formats::{Input, Session, input::Files, sessions};
use rejoin_record::{BlockKind, Timestamp};
use rejoin_view::OnBroken;
use sketching::{assert_sound, hidden, messages, rules};
use testkit::{corpus, fuzz::accounted};

fn fixture(path: &str) -> Input {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions").join(path);
    Input::new(path, &fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))).unwrap()
}

/// The sessions of a fixture, which is recognised as the format that its folder is named after.
fn all(path: &str) -> Vec<Session> {
    let input = fixture(path);
    let sessions = sessions::read(&input, None).unwrap_or_else(|why| panic!("{path}: {why}"));
    let format = path.split('/').next().unwrap();
    for session in &sessions {
        assert_eq!(session.format, format, "{path}");
        assert_sound(session);
    }
    let again = sessions::read(&input, None).unwrap();
    let entries = |sessions: &[Session]| {
        sessions.iter().map(|session| session.to_entries(Timestamp::UNIX_EPOCH)).collect::<Vec<_>>()
    };
    assert_eq!(entries(&sessions), entries(&again), "{path}");
    sessions
}

fn one(path: &str) -> Session {
    let mut sessions = all(path);
    assert_eq!(sessions.len(), 1, "{path}");
    sessions.remove(0)
}

fn is(path: &str, wanted: &[&str]) -> Session {
    let session = one(path);
    assert_eq!(messages(&session), wanted, "{path}");
    session
}

/// Files in memory.
#[derive(Debug)]
struct Stored {
    name: String,
    paths: Vec<String>,
    bytes: Vec<Vec<u8>>,
}

impl Stored {
    fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort();
        let (paths, bytes) = files.into_iter().unzip();
        Self { name: "folder".into(), paths, bytes }
    }
}

impl Files for Stored {
    fn name(&self) -> &str {
        &self.name
    }

    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let place = self.paths.iter().position(|own| own == path)?;
        Some(self.bytes[place].clone())
    }
}

const OPENCODE: &[&str] = &[
    "user QUESTION",
    "assistant ~THOUGHT LOOKING !c1:bash !c2:read",
    "tool =c1:OUTPUT =c2?FAILED",
    "assistant ANSWER",
];

#[test]
fn opencode_exports() {
    let session = is("opencode/sound.json", OPENCODE);
    assert_eq!(session.title().unwrap().as_str(), "TITLE of the opencode session");
    assert_eq!(session.context.model().as_deref(), Some("m1"));
    assert_eq!(session.details[0].time.as_deref(), Some("1"));
    is("opencode/unanswered.json", &["user QUESTION", "assistant RUNNING !c1:bash !c2:bash"]);
    // opencode sends a question in place of the compaction, and the summary as its answer.
    let session =
        is("opencode/compacted.json", &["user What", "assistant SUMMARY", "assistant ANSWER", "user NEXT"]);
    assert_eq!(session.messages[0].content().unwrap(), "What did we do so far?");
    assert_eq!(hidden(&session), OPENCODE);
    let session = is("opencode/failed.json", &["user QUESTION", "user AGAIN", "assistant ABORTED"]);
    assert_eq!(hidden(&session), ["assistant BROKEN"]);
    let session = is("opencode/undone.json", OPENCODE);
    assert_eq!(hidden(&session), ["user UNDONE", "assistant UNDONE"]);
    let session = is("opencode/torn.json", &OPENCODE[..3]);
    assert!(rules(&session).contains(&"damaged-entry"), "{:?}", session.findings);
}

/// opencode sends a note in place of a result that it pruned. The output itself is kept beside.
#[test]
fn results_that_opencode_pruned_are_kept_beside() {
    let text = fixture("opencode/sound.json").text.replacen(
        r#""time":{"start":1,"end":2}}}"#,
        r#""time":{"start":1,"end":2,"compacted":3}}}"#,
        1,
    );
    let session = sessions::read(&Input::new("t", text.as_bytes()).unwrap(), None).unwrap().remove(0);
    let results: Vec<_> = session.messages[2].tool_results().collect();
    assert_eq!(results[0].content[0].as_text().unwrap().as_str(), "[Old tool result content cleared]");
    assert_eq!(hidden(&session), ["tool =c1:OUTPUT"]);
    assert_eq!(rules(&session), ["pruned-result"]);
}

/// A trajectory repeats the history with each request. Answers are read from their events, and also those of the last step, whose
/// request is not recorded.
#[test]
fn opencode_trajectories() {
    const ALL: &[&str] = &[
        "system INSTRUCTIONS",
        "user QUESTION",
        "assistant ~THOUGHT LOOKING !c1:bash",
        "tool =c1:OUTPUT",
        "assistant ANSWER",
        "user AGAIN",
        "assistant !c2:read",
        "tool =c2?FAILED",
        "assistant ENDING",
    ];
    let session = is("opencode/trajectory.jsonl", ALL);
    assert_eq!(hidden(&session), [""; 0]);
    assert_eq!(rules(&session), [""; 0]);
    assert_eq!(session.context.model().as_deref(), Some("m1"));
    let last = session.messages[8].blocks[0].as_text().unwrap();
    assert_eq!(last.as_str(), "ENDING without a line for the last request");
    let whole = fixture("opencode/trajectory.jsonl");
    assert_eq!(accounted::unaccounted(&whole.text, std::slice::from_ref(&session)), [""; 0]);

    // The record of the first run begins that of both.
    let (first, _) = whole.text.split_once("session_end").unwrap();
    let first = &first[..first.trim_end().rfind('\n').unwrap()];
    let first = sessions::read(&Input::new("t", first.as_bytes()).unwrap(), None).unwrap().remove(0);
    assert_eq!(messages(&first), ALL[..5]);
    let ids = |session: &Session| {
        let entries = session.to_entries(Timestamp::UNIX_EPOCH).into_iter();
        let spoken = entries.filter(|entry| entry.envelope().kind == rejoin_record::Kind::Message);
        spoken.map(|entry| entry.id()).collect::<Vec<_>>()
    };
    assert_eq!(first.id, session.id);
    assert_eq!(ids(&first), ids(&session)[..5]);

    // Without any request, what the model did is still there.
    let events = whole.text.lines().filter(|line| !line.contains("llm_interaction"));
    let events: String = events.map(|line| format!("{line}\n")).collect();
    let session = sessions::read(&Input::new("t", events.as_bytes()).unwrap(), None).unwrap().remove(0);
    let wanted = [&ALL[2..5], &ALL[6..]].concat();
    assert_eq!(messages(&session), wanted);
    assert_sound(&session);
}

/// A history that does not continue the one before it replaces it.
#[test]
fn a_compacted_opencode_trajectory() {
    let session = is(
        "opencode/trajectory-compacted.jsonl",
        &["system INSTRUCTIONS", "user RECALL", "assistant SUMMARY", "user NEXT", "assistant DONE"],
    );
    assert_eq!(
        hidden(&session),
        ["system INSTRUCTIONS", "user QUESTION", "assistant ANSWER", "assistant SUMMARY"]
    );
    // Words that no message holds are reported, wherever they are.
    let text = fixture("opencode/trajectory-compacted.jsonl")
        .text
        .replace(r#""response":{"#, r#""response":{"remark":"words that nothing else here says","#);
    let session = sessions::read(&Input::new("t", text.as_bytes()).unwrap(), None).unwrap().remove(0);
    assert!(rules(&session).contains(&"unread-text"), "{:?}", session.findings);
}

/// An item that is no message is set aside, and what it says is reported.
#[test]
fn one_bad_item_spoils_only_itself() {
    let session = sessions::read(&fixture("opencode/one-bad.json"), None).unwrap().remove(0);
    assert_eq!(messages(&session), ["user QUESTION", "assistant ANSWER"]);
    assert_eq!(rules(&session), ["damaged-entry", "unread-text"]);
}

/// The storage folder holds the same as the export, one file per message and part.
#[test]
fn opencode_storage_folders() {
    let export: serde_json::Value = serde_json::from_str(&fixture("opencode/sound.json").text).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    for (root, old) in [("", false), ("storage/", false), ("", true)] {
        let mut files = Vec::new();
        let project = if old { "info" } else { "global" };
        files.push((format!("{root}session/{project}/ses_1.json"), export["info"].to_string().into_bytes()));
        for message in export["messages"].as_array().unwrap() {
            let id = text(&message["info"]["id"]);
            let folder = if old { "session/message" } else { "message" };
            files.push((format!("{root}{folder}/ses_1/{id}.json"), message["info"].to_string().into_bytes()));
            for part in message["parts"].as_array().unwrap() {
                let name = text(&part["id"]);
                let folder = if old { format!("session/part/ses_1/{id}") } else { format!("part/{id}") };
                files.push((format!("{root}{folder}/{name}.json"), part.to_string().into_bytes()));
            }
        }
        let whole = Stored::new(files.clone());
        assert_eq!(sessions::claim_files(&whole).unwrap().name, "opencode");
        let session = sessions::read_files(&whole, None).unwrap().remove(0);
        assert_eq!(messages(&session), OPENCODE);
        assert_eq!(session.title().unwrap().as_str(), "TITLE of the opencode session");
        assert_eq!(session.id, one("opencode/sound.json").id, "it is the same conversation");
        assert_sound(&session);
        // A file that was torn spoils only itself.
        let torn = files.iter_mut().find(|(path, _)| path.ends_with("prt_002d.json")).unwrap();
        torn.1.truncate(30);
        let session = sessions::read_files(&Stored::new(files), None).unwrap().remove(0);
        assert_eq!(messages(&session)[1..3], ["assistant ~THOUGHT LOOKING !c2:read", "tool =c2?FAILED"]);
        assert_eq!(rules(&session), ["damaged-entry"]);
    }
}

/// Messages and parts of a real folder, whose paths became the names of the files.
#[test]
fn a_real_opencode_storage_folder() {
    let Some(folder) = corpus::folder() else { return };
    let files = corpus::files(&folder.join("opencode")).into_iter().filter_map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (_, inside) = name.split_once("storage_")?;
        let (kind, rest) = inside.split_once('_')?;
        let inner = if kind == "message" { "_msg_" } else { "_prt_" };
        let (outer, file) = rest.split_once(inner)?;
        Some((format!("{kind}/{outer}/{}{file}", &inner[1..]), fs::read(&path).unwrap()))
    });
    let sessions = sessions::read_files(&Stored::new(files), None).unwrap();
    assert!(sessions.len() >= 10, "{}", sessions.len());
    sessions.iter().for_each(assert_sound);
    assert!(sessions.iter().any(|session| messages(session) == ["user Write"]), "a message with its part");
}

/// What is written can be read again, and says the same in the same order.
#[test]
fn opencode_exports_are_written() {
    let format = sessions::named("opencode").unwrap();
    let writing = sessions::Writing { model: Some("p/m1"), now: Timestamp::UNIX_EPOCH, directory: "/p" };
    // Thoughts of another provider are not passed on; a call without a result gets one that says so; instructions are a text of
    // the user, because opencode would not send them on otherwise.
    for (path, wanted) in [
        (
            "opencode/sound.json",
            &[
                "user QUESTION",
                "assistant LOOKING !c1:bash !c2:read",
                "tool =c1:OUTPUT =c2?FAILED",
                "assistant ANSWER",
            ][..],
        ),
        (
            "opencode/unanswered.json",
            &["user QUESTION", "assistant RUNNING !c1:bash !c2:bash", "tool =c1?[no =c2?[no"],
        ),
        (
            "goose/sound.jsonl",
            &[
                "user QUESTION",
                "assistant LOOKING !c1:developer__shell",
                "tool =c1:OUTPUT",
                "assistant ANSWER",
            ],
        ),
        (
            "inspect/log.json",
            &[
                "user <system>ATTACHED QUESTION",
                "assistant LOOKING !c1:bash",
                "tool =c1:OUTPUT",
                "assistant ANSWER",
            ],
        ),
    ] {
        let session = all(path).remove(0);
        let written = sessions::write(&session, format, OnBroken::Keep, &writing).unwrap();
        let written = written.content.into_text().unwrap();
        let again = sessions::read(&Input::new("written.json", written.as_bytes()).unwrap(), None).unwrap();
        assert_eq!(messages(&again[0]), wanted, "{path}: {}", written);
        assert_eq!(again[0].context.model().as_deref(), Some("m1"));
        assert_sound(&again[0]);
        // Every field that the import demands.
        let export: serde_json::Value = serde_json::from_str(&written).unwrap();
        for name in ["id", "slug", "title", "version", "time"] {
            assert!(!export["info"][name].is_null(), "{path}: {name}");
        }
        for message in export["messages"].as_array().unwrap() {
            let wanted: &[&str] = match message["info"]["role"].as_str().unwrap() {
                "user" => &["id", "time", "agent", "model"],
                _ => &["id", "parentID", "mode", "agent", "path", "cost", "tokens", "modelID", "time"],
            };
            for name in wanted {
                assert!(!message["info"][name].is_null(), "{path}: {name}");
            }
            for part in message["parts"].as_array().unwrap().iter().filter(|part| part["type"] == "tool") {
                let state = &part["state"];
                let completed = state["status"] == "completed";
                assert!(
                    !completed
                        || (state["title"].is_string()
                            && state["metadata"].is_object()
                            && state["time"].is_object())
                );
            }
        }
    }
}

const GOOSE: &[&str] = &[
    "user QUESTION",
    "assistant ~THOUGHT LOOKING !c1:developer__shell",
    "user =c1:OUTPUT",
    "assistant ANSWER",
];

#[test]
fn goose_files() {
    let session = is("goose/sound.jsonl", GOOSE);
    assert_eq!(session.title().unwrap().as_str(), "TITLE of the goose session");
    assert_eq!(hidden(&session), ["user =c1:SHOWN"]);
    let session = is("goose/hidden.jsonl", &["user QUESTION", "user SUMMARY", "user =c9?FAILED"]);
    assert_eq!(hidden(&session), ["assistant OLD"]);
    let session = is("goose/unanswered-torn.jsonl", &GOOSE[..2]);
    assert_eq!(rules(&session), ["damaged-entry", "torn-tail"]);
    let session = is("goose/export.json", GOOSE);
    assert_eq!(session.title().unwrap().as_str(), "TITLE of the goose session");
}

/// SWE-agent writes its steps before its messages, so they are what is left of a file that is damaged among them.
#[test]
fn steps_of_swe_agent() {
    let steps = r#"{"environment":"swe_main","trajectory":[
        {"action":"ls","observation":"OUTPUT of the first","response":"LOOKING around now: ls","thought":"LOOKING around now"},
        {"action":"EDITING the file now","observation":"","thought":"THINKING of it first"}"#;
    let expected = ["assistant LOOKING", "user OUTPUT", "assistant THINKING EDITING"];
    for (rest, damage) in [("]}", 0), (",\n        {\"response\": no JSON", 1), ("", 1)] {
        let input = Input::new("x.traj", format!("{steps}{rest}").as_bytes()).unwrap();
        let session = sessions::read(&input, None).unwrap().remove(0);
        assert_eq!((session.format, &messages(&session)[..]), ("swe-agent", &expected.map(String::from)[..]));
        assert_eq!(rules(&session), vec!["damaged-entry"; damage], "{rest}");
        assert_sound(&session);
    }
}

/// An event of a kind that is not known is reported, and so is one without a kind.
#[test]
fn unknown_events_of_openhands_are_reported() {
    let text = fixture("openhands/trajectory.json").text;
    let end = text.trim_end().len() - 1;
    for event in [
        r#"{"kind":"MessageEvent","llm_message":{"text":"words of a newer version"}}"#,
        r#"{"action2":"message","args":{"content":"words of a newer version"}}"#,
    ] {
        let input = Input::new("x.json", format!("{},{event}]", &text[..end]).as_bytes()).unwrap();
        let session = sessions::read(&input, None).unwrap().remove(0);
        assert!(rules(&session).contains(&"unread-text"), "{event}: {:?}", session.findings);
    }
}

#[test]
fn openhands_events() {
    let old = ["user QUESTION", "assistant LOOKING !:run", "tool =:OUTPUT", "assistant ANSWER"];
    let sessions = all("openhands/output.jsonl");
    assert_eq!(messages(&sessions[0]), old);
    assert_eq!(messages(&sessions[1]), old[..2]);
    assert!(rules(&sessions[0]).contains(&"torn-tail"), "{:?}", sessions[0].findings);
    let new = [
        "system SYSTEM",
        "user QUESTION",
        "assistant LOOKING !c1:execute_bash",
        "tool =c1:OUTPUT",
        "assistant ANSWER",
    ];
    is("openhands/trajectory.json", &new);
    let session =
        is("openhands/condensed.json", &["system SYSTEM", "user QUESTION", "user SUMMARY", "user NEXT"]);
    assert_eq!(hidden(&session), new[2..4]);
    // The same events, a file each.
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&fixture("openhands/trajectory.json").text).unwrap();
    for folder in ["", "events/"] {
        let files = events.iter().enumerate();
        let files = Stored::new(
            files.map(|(n, event)| (format!("{folder}{n}.json"), event.to_string().into_bytes())),
        );
        let session = sessions::read_files(&files, None).unwrap().remove(0);
        assert_eq!((session.format, messages(&session)), ("openhands", new.map(String::from).to_vec()));
        assert_sound(&session);
    }
}

#[test]
fn trajectories_of_benchmarks() {
    let swe = ["system SYSTEM", "user QUESTION", "assistant LOOKING !c1:open", "tool =c1:OUTPUT"];
    is("swe-agent/sound.traj", &swe);
    is("swe-agent/history.json", &swe);
    let mini = ["system SYSTEM", "user QUESTION", "assistant LOOKING", "user OUTPUT"];
    is("mini-swe-agent/sound.traj.json", &mini);
    is("mini-swe-agent/sound.yaml", &mini);
    let tau = ["system SYSTEM", "user QUESTION", "assistant !c1:get_user", "tool =c1:OUTPUT"];
    let sessions = all("tau-bench/sound.json");
    assert_eq!(sessions.len(), 2);
    sessions.iter().for_each(|session| assert_eq!(messages(session), tau));
    is(
        "tau2-bench/sound.json",
        &["assistant HELLO", "user QUESTION", "assistant ~THOUGHT !c1:get_user", "tool =c1:OUTPUT"],
    );
}

#[test]
fn forms_of_frameworks() {
    let sessions = all("agent-framework/sound.jsonl");
    let flight =
        ["user QUESTION", "assistant LOOKING !c1:get", "tool =c1:{\"text\":\"OUTPUT", "assistant ANSWER"];
    assert_eq!(messages(&sessions[0]), flight);
    assert_eq!(messages(&sessions[1]), flight[..2]);
    assert!(rules(&sessions[0]).contains(&"torn-tail"));
    is(
        "langchain/dict.json",
        &["system SYSTEM", "user QUESTION", "assistant LOOKING !c1:get", "tool =c1:OUTPUT"],
    );
    is("langchain/dumps.json", &["user QUESTION", "assistant !c1:get", "tool =c1:OUTPUT"]);
    let share = ["system SYSTEM", "user QUESTION", "assistant !:get", "tool =:OUTPUT", "assistant ANSWER"];
    for path in ["sharegpt/list.json", "sharegpt/lines.jsonl"] {
        let sessions = all(path);
        assert_eq!(messages(&sessions[0]), share, "{path}");
        assert_eq!(messages(&sessions[1]), share[..2], "{path}");
    }
    is("sharegpt/bare.json", &share);
    let entire =
        ["user QUESTION", "assistant LOOKING !c1:Read !c2:Grep", "tool =c1:OUTPUT", "assistant ANSWER"];
    is("entire/sound.jsonl", &entire);
    let session = is("entire/damaged.jsonl", &entire[..3]);
    assert_eq!(rules(&session), ["damaged-entry", "torn-tail"]);
}

/// Words beside a list, and elements of a list that are no conversations, are kept and reported.
#[test]
fn words_beside_the_messages_are_reported() {
    let turn = r#"{"from":"human","value":"ALPHA question about all of the files in this folder"}"#;
    for text in [
        format!(
            r#"{{"conversations":[{turn}],"more":[{{"from":"gpt","value":"words that nobody else says"}}]}}"#
        ),
        format!(r#"[{{"conversations":[{turn}]}},{{"note":"words that nobody else says"}}]"#),
        format!(
            "{{\"conversations\":[{turn}],\"response\":\"words that nobody else says\"}}\n{{\"conversations\":[{turn}]}}\n"
        ),
    ] {
        let session = sessions::read(&Input::new("x", text.as_bytes()).unwrap(), None).unwrap().remove(0);
        assert_eq!(
            (session.format, messages(&session)),
            ("sharegpt", vec!["user ALPHA".to_owned()]),
            "{text}"
        );
        assert!(rules(&session).contains(&"unread-text"), "{text}: {:?}", session.findings);
    }
}

const INSPECT: &[&str] = &[
    "system ATTACHED",
    "user QUESTION",
    "assistant ~THOUGHT LOOKING !c1:bash",
    "tool =c1:OUTPUT",
    "assistant ANSWER",
];

#[test]
fn inspect_logs() {
    let sessions = all("inspect/log.json");
    assert_eq!(messages(&sessions[0]), INSPECT);
    let BlockKind::ToolCall(call) = &sessions[0].messages[2].blocks[2].kind else { panic!() };
    assert_eq!(call.arguments.text().as_str(), r#"{"cmd":"ATTACHED text that is long"}"#);
    let file = |path: &str| {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions/inspect/eval").join(path);
        (path.to_owned(), fs::read(place).unwrap())
    };
    let files = ["header.json", "samples/1_epoch_1.json", "samples/2_epoch_1.json"].map(file);
    let session = sessions::read_files(&Stored::new(files), None).unwrap().remove(0);
    assert_eq!(
        (session.format, messages(&session)),
        ("inspect", INSPECT.iter().map(|line| (*line).to_owned()).collect())
    );
    assert_eq!(rules(&session), ["damaged-entry"]);
    assert_sound(&session);
}

#[test]
fn markdown_says_that_it_is_lossy() {
    let session =
        is("aider/sound.md", &["user QUESTION", "assistant LOOKING", "user NEXT", "assistant ANSWER"]);
    assert_eq!(session.messages[0].content().unwrap(), "QUESTION about the files here\nand a second line");
    assert_eq!(rules(&session), ["foreign-block"]);
    let session = is(
        "specstory/sound.md",
        &["user QUESTION", "assistant ~THOUGHT", "assistant <tool-use", "user NEXT"],
    );
    assert_eq!(hidden(&session), ["assistant ASIDE"]);
    assert_eq!(session.context.model().as_deref(), Some("some-model"));
    assert_eq!(session.details[0].time.as_deref(), Some("2026-01-01 00:00:00Z"));
    assert_eq!(rules(&session), ["foreign-block"]);
}

/// No prefix of a file makes a reader fail in another way than with an error.
#[test]
fn every_prefix_of_a_file_is_read_or_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    for path in corpus::files(&root) {
        let bytes = fs::read(&path).unwrap();
        let Some(format) =
            path.strip_prefix(&root).unwrap().iter().next().and_then(|name| sessions::named(name.to_str()?))
        else {
            continue;
        };
        for cut in (0..bytes.len()).step_by(37) {
            if let Ok(input) = Input::new("cut", &bytes[..cut]) {
                let _ = sessions::read(&input, Some(format));
                let _ = sessions::read(&input, None);
            }
        }
    }
}

/// A document of Gemini CLI may have its header behind its messages, so that a cut takes the header away.
#[test]
fn a_torn_document_of_gemini_cli_without_its_header() {
    let whole = fixture("gemini-cli/legacy.json").text.to_string();
    let mut value: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let messages = value["messages"].take();
    for text in [
        serde_json::to_string_pretty(&serde_json::json!({"messages": messages})).unwrap(),
        serde_json::json!({"messages": messages}).to_string(),
    ] {
        let torn = &text[..text.rfind("\"id\"").unwrap() + 8];
        let session = sessions::read(&Input::new("t", torn.as_bytes()).unwrap(), None).unwrap().remove(0);
        assert_eq!(session.format, "gemini-cli");
        assert!(!session.messages.is_empty());
        assert!(rules(&session).contains(&"damaged-entry"), "{:?}", session.findings);
    }
}

/// A sub-agent of Gemini CLI keeps its session in a folder that is named by the session that it works for.
#[test]
fn sub_agents_of_gemini_cli_name_their_session() {
    let text = fixture("gemini-cli/sound.jsonl").text.to_string();
    let read = |path: &str, text: &str| {
        sessions::read(&Input::new(path, text.as_bytes()).unwrap(), None).unwrap().remove(0)
    };
    let main = read("/h/.gemini/tmp/p/chats/session-2026-01-01T00-00-x.jsonl", &text);
    let own: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let id = own["sessionId"].as_str().unwrap();
    let sub = read(&format!("/h/.gemini/tmp/p/chats/{id}/sub.jsonl"), &text.replace(id, "another"));
    let link = format!(r#"{{"delegated_by":"{}"}}"#, main.id);
    assert_eq!(sub.set_aside[0].raw().unwrap().as_str(), link);
    assert!(main.set_aside.iter().all(|item| item.raw().is_none_or(|raw| !raw.contains("delegated_by"))));
}

/// A line that occurs twice, with the same id, is one entry for an agent that looks entries up by their ids.
#[test]
fn doubled_lines_are_read_once_and_reported() {
    for name in ["pi/sound.jsonl", "copilot-cli/sound.jsonl", "qwen-code/sound.jsonl"] {
        let text = fixture(name).text.to_string();
        let read =
            |text: &str| sessions::read(&Input::new("t", text.as_bytes()).unwrap(), None).unwrap().remove(0);
        let once = read(&text);
        let lines: Vec<&str> = text.lines().flat_map(|line| [line, line]).collect();
        let twice = read(&(lines.join("\n") + "\n"));
        assert_eq!(messages(&twice), messages(&once), "{name}");
        let doubled = rules(&twice).iter().filter(|rule| **rule == "doubled-entry").count();
        assert!(doubled >= once.messages.len(), "{name}: {doubled}");
        let kept = twice.set_aside.iter().filter(|item| item.raw().is_some()).count();
        assert!(kept >= doubled, "{name}: {kept}");
    }
}
