//! Session files of other coding agents: who said what, in which order, which results answer which calls, and what their own
//! agents would not send. Every text of a fixture has a marker, a word of the spelling alphabet.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod sketching;

use std::{fs, path::PathBuf};

use rejoin_formats::{
    Dialect, Input, Session, convert,
    input::Files,
    session::{Aside, CompactionPart},
    sessions::{self, FORMATS, Writing, Written},
};
use rejoin_record::{Block, BlockKind, Message, Role, Timestamp, verify::verify};
use rejoin_view::{Finding, OnBroken, Rule, repair};
use serde_json::json;
use testkit::fuzz::accounted;

const MARKERS: &str =
    "alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa zulu";

fn folder(format: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions").join(format)
}

fn text(format: &str, name: &str) -> String {
    fs::read_to_string(folder(format).join(name)).unwrap()
}

/// Reads a text that must be recognised as this format.
fn read(format: &str, text: &str) -> Session {
    let input = Input::new("file.jsonl", text.as_bytes()).unwrap();
    let mut sessions =
        sessions::read(&input, None).unwrap_or_else(|error| panic!("{format}: {error}\n{text}"));
    assert_eq!(sessions.len(), 1);
    let session = sessions.remove(0);
    assert_eq!(session.format, format);
    assert_eq!(accounted::unaccounted(&input.text, std::slice::from_ref(&session)), [""; 0]);
    session
}

/// Reads a fixture, and checks what holds of every session.
fn fixture(format: &str, name: &str) -> Session {
    let session = read(format, &text(format, name));
    sound(&session);
    session
}

fn sound(session: &Session) {
    let unread: Vec<_> = session.findings.iter().filter(|finding| finding.rule == Rule::UnreadText).collect();
    assert!(unread.is_empty(), "{unread:?}");
    assert_eq!(verify(&session.to_entries(Timestamp::UNIX_EPOCH)), []);
    for to in Dialect::all() {
        for policy in [OnBroken::Keep, OnBroken::Drop] {
            let out = convert(session, to, None, policy).unwrap();
            assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{to} {policy:?}");
        }
    }
}

/// The marker in a text.
fn marker(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let found: Vec<&str> = words.filter(|word| MARKERS.split(' ').any(|known| known == *word)).collect();
    found.join("+")
}

fn block(block: &Block) -> String {
    match &block.kind {
        BlockKind::Text(text) => marker(text),
        BlockKind::Reasoning(reasoning) => format!("({})", marker(&reasoning.text)),
        BlockKind::ToolCall(call) => format!("{}>{}", call.name, call.id.as_str()),
        BlockKind::ToolResult(result) => {
            let told: Vec<String> = result.content.iter().map(self::block).collect();
            let id = result.call_id.as_ref().map_or("?", |id| id.as_str());
            format!("{id}={}{}", told.join("+"), if result.is_error { "!" } else { "" })
        }
        BlockKind::Image(_) => String::from("[image]"),
        BlockKind::Document(_) => String::from("[document]"),
        BlockKind::Opaque(opaque) => format!("[{}]", opaque.kind),
    }
}

fn told_in(message: &Message) -> String {
    let told: Vec<String> = message.blocks.iter().map(block).collect();
    format!("{}: {}", message.role, told.join(" "))
}

/// The messages that a model would see.
fn told(session: &Session) -> Vec<String> {
    session.messages.iter().map(|message| told_in(message)).collect()
}

/// Reads a fixture that tells this.
fn tells(file: &str, expected: &[&str]) -> Session {
    let (format, name) = file.split_once('/').unwrap();
    let session = fixture(format, name);
    assert_eq!(told(&session), expected, "{file}");
    session
}

/// The same of a session with a title.
fn titled(file: &str, title: &str, expected: &[&str]) {
    assert_eq!(tells(file, expected).title().unwrap().as_str(), title);
}

/// A reader marks what an agent added when it compacted the conversation: its summary, and what it repeats.
#[test]
fn what_came_with_a_compaction_is_known() {
    for (file, summary, repeats) in [
        ("gemini-cli/compacted.jsonl", "user: charlie", &["assistant: delta"][..]),
        ("pi/compacted.jsonl", "user: delta", &[]),
        ("pi/instructed-again.jsonl", "user: delta", &["system: alfa"]),
        ("qwen-code/compressed.jsonl", "user: charlie", &["assistant: delta"]),
        ("droid/compacted.jsonl", "user: delta", &[]),
        ("kiro/session.jsonl", "user: bravo", &[]),
        ("roo-code/condensed.json", "user: charlie", &[]),
    ] {
        let (format, name) = file.split_once('/').unwrap();
        let session = fixture(format, name);
        let marked = |part: CompactionPart| -> Vec<String> {
            let messages = session.messages.iter().zip(&session.details);
            let of_part = messages.filter(|(_, detail)| detail.of_compaction == Some(part));
            of_part.map(|(message, _)| told_in(message)).collect()
        };
        assert_eq!(marked(CompactionPart::Summary), [summary], "{file}");
        assert_eq!(marked(CompactionPart::Repeat), repeats, "{file}");
    }
}

/// The messages that are kept and not sent.
fn hidden(session: &Session) -> Vec<String> {
    sketching::hidden_as(session, told_in)
}

fn is_compacted(session: &Session) -> bool {
    session.set_aside.iter().any(|item| matches!(item.what, Aside::Compacted { .. }))
}

/// The text of a written file.
fn body(written: &Written) -> &str {
    written.content.as_text().unwrap()
}

fn rules(session: &Session) -> Vec<&'static str> {
    session.findings.iter().map(|finding| finding.rule.name()).collect()
}

#[test]
fn gemini_cli_reads_each_result_once() {
    let session = tells(
        "gemini-cli/sound.jsonl",
        &[
            "user: alfa",
            "assistant: (charlie+delta) bravo shell>shell__c1",
            "tool: shell__c1=echo",
            "assistant: foxtrot",
        ],
    );
    assert_eq!(session.title().unwrap().as_str(), "Listing the files marker golf");
    assert_eq!(session.context.model().as_deref(), Some("gemini-x"));
    assert_eq!(hidden(&session), ["assistant: (charlie+delta) bravo"], "it was written again with its call");
    assert_eq!(rules(&session), [""; 0]);
}

#[test]
fn gemini_cli_replays_its_log() {
    let session = tells("gemini-cli/rewound.jsonl", &["user: alfa", "assistant: bravo", "user: echo"]);
    assert_eq!(hidden(&session), ["user: charlie", "assistant: delta"]);

    let session = tells("gemini-cli/compacted.jsonl", &["user: charlie", "assistant: delta", "user: echo"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
    assert!(is_compacted(&session));

    let session = tells(
        "gemini-cli/restated.jsonl",
        &["user: alfa", "assistant: (zulu) bravo read>c1", "tool: c1=charlie", "user: delta"],
    );
    assert_eq!(hidden(&session), ["assistant: bravo read>c1", "tool: c1=charlie"]);
    assert!(!is_compacted(&session));

    let expected = ["user: alfa", "assistant: bravo read>c1"];
    titled("gemini-cli/legacy.json", "An older file marker golf", &expected);
}

/// A message is read although the program, which gives every message an id, would not show it.
#[test]
fn gemini_cli_messages_without_an_id_are_read() {
    tells("gemini-cli/without-id.jsonl", &["user: alfa", "assistant: bravo"]);
}

/// A compaction of pi repeats the instructions that it hides.
#[test]
fn pi_is_instructed_again_after_a_compaction() {
    let expected = ["system: alfa", "user: delta", "assistant: charlie", "user: echo"];
    let session = tells("pi/instructed-again.jsonl", &expected);
    assert_eq!(hidden(&session), ["system: alfa", "user: bravo"]);
}

/// A section of pi's instructions replaces the one of the same name, and a null removes it.
#[test]
fn pi_sends_the_sections_of_its_instructions_as_they_were_written_last() {
    let spoken = ["user: echo", "assistant: foxtrot", "user: hotel", "assistant: kilo"];
    let changed = text("pi", "instructions-changed.jsonl");
    let session = tells(
        "pi/instructions-changed.jsonl",
        &[&["system: alfa india golf delta juliett"], &spoken[..]].concat(),
    );
    assert_eq!(
        hidden(&session),
        ["system: alfa bravo charlie delta", "system: golf", "system: india juliett"]
    );
    // A message that replaces everything.
    let session =
        read("pi", &changed.replace("\"india content marker\"", "\"india content marker\",\"replace\":true"));
    assert_eq!(told(&session)[0], "system: india juliett");
    // The instructions that a compaction repeats replace those of the messages that it keeps.
    let compaction = concat!(
        r#"{"type":"compaction","id":"00000008","parentId":"00000007","timestamp":"2026-11-16T08:00:09.000Z","summary":"lima summary marker","#,
        r#""firstKeptEntryId":"00000004","tokensBefore":9,"systemMessage":{"role":"system","content":"","sections":{"preamble":"mike preamble marker"}}}"#,
        "\n",
        r#"{"type":"message","id":"00000009","parentId":"00000008","message":{"role":"system","content":"","sections":{"tools":"november tools marker"}}}"#,
        "\n",
    );
    let session = read("pi", &(changed + compaction));
    assert_eq!(told(&session), ["system: mike november", "user: lima", "user: hotel", "assistant: kilo"]);
    sound(&session);
}

/// pi sends a message as it was edited last, or not at all.
#[test]
fn pi_sends_messages_as_they_were_edited() {
    let expected = ["user: alfa", "assistant: charlie bash>c1", "tool: c1=echo", "user: foxtrot"];
    let session = tells("pi/edited.jsonl", &expected);
    assert_eq!(hidden(&session), ["assistant: bravo", "tool: c1=delta"]);
}

#[test]
fn pi_follows_the_last_line() {
    let session = tells(
        "pi/sound.jsonl",
        &[
            "system: alfa",
            "user: bravo [image]",
            "assistant: (charlie) delta bash>c1",
            "tool: c1=echo",
            "user: foxtrot",
        ],
    );
    assert_eq!(session.title().unwrap().as_str(), "Listing files marker golf");
    assert_eq!(session.directory().as_deref(), Some("/p"));

    let session = tells(
        "pi/branches.jsonl",
        &["user: alfa", "user: charlie", "user: echo foxtrot", "assistant: bash>c1"],
    );
    assert_eq!(hidden(&session), ["assistant: bravo", "assistant: delta"]);
}

#[test]
fn pi_keeps_what_a_compaction_keeps() {
    let session = tells("pi/compacted.jsonl", &["user: delta", "user: charlie", "assistant: echo"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
    assert!(is_compacted(&session));
    let session = tells("pi/first-version.jsonl", &["user: delta", "user: charlie"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
}

#[test]
fn qwen_code_follows_the_last_line() {
    let session = tells(
        "qwen-code/sound.jsonl",
        &["user: alfa", "assistant: (bravo)", "assistant: charlie list>c1", "tool: c1=delta"],
    );
    assert_eq!(session.title().unwrap().as_str(), "Listing files marker golf");
    let session = tells("qwen-code/branches.jsonl", &["user: alfa", "assistant: list>c1"]);
    assert_eq!(hidden(&session), ["assistant: bravo"]);
    let session = tells("qwen-code/compressed.jsonl", &["user: charlie", "assistant: delta", "user: echo"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
    assert!(is_compacted(&session));
}

#[test]
fn copilot_cli_keeps_sub_agents_beside() {
    let session = tells(
        "copilot-cli/sound.jsonl",
        &[
            "system: alfa",
            "user: bravo",
            "assistant: (delta) charlie shell>c1 task>c2",
            "tool: c1=echo",
            "tool: c2=foxtrot!",
        ],
    );
    assert_eq!(hidden(&session), ["assistant: hotel"]);
    assert_eq!(session.title().unwrap().as_str(), "Listing files marker golf");
    let session = tells("copilot-cli/compacted.jsonl", &["system: alfa", "user: charlie", "user: echo"]);
    assert_eq!(hidden(&session), ["system: alfa", "user: bravo", "user: delta"]);
    tells(
        "copilot-cli/started.jsonl",
        &[
            "user: alfa",
            "assistant: bravo shell>c1",
            "tool: c1=charlie",
            "assistant: shell>c2",
            "tool: c2=delta",
            "assistant: shell>c3",
        ],
    );
}

#[test]
fn cursor_records_no_results() {
    let session = fixture("cursor", "sound.jsonl");
    let id = session.messages[1].tool_calls().next().unwrap().id.clone();
    let call = format!("assistant: bravo Shell>{}", id.as_str());
    assert_eq!(told(&session), ["user: alfa", &call, "assistant: charlie"]);
}

#[test]
fn droid_in_its_two_forms() {
    let session =
        tells("droid/sound.jsonl", &["user: alfa", "assistant: (bravo) charlie LS>c1", "user: c1=delta"]);
    assert_eq!(session.title().unwrap().as_str(), "Listing files marker golf");
    let session = tells("droid/compacted.jsonl", &["user: delta", "user: charlie", "assistant: echo"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
    tells("droid/stream.jsonl", &["user: alfa", "assistant: LS>c1", "tool: c1=bravo", "assistant: charlie"]);
}

/// Since 0.225 at the latest, each answer names its model.
#[test]
fn the_model_of_droid_is_that_of_its_last_answer() {
    let line = |model: &str| {
        let content = json!([{"type": "text", "text": "words"}]);
        let message = json!({"role": "assistant", "content": content, "modelId": model});
        json!({"type": "message", "id": model, "message": message}).to_string()
    };
    let model = |models: &[&str]| {
        let lines: Vec<String> = models.iter().map(|model| line(model)).collect();
        let start = r#"{"type":"session_start","id":"d1","version":2}"#;
        let session = read("droid", &format!("{start}\n{}\n", lines.join("\n")));
        session.context.model().map(|model| model.to_string())
    };
    assert_eq!(model(&["claude-x", "gpt-x"]).as_deref(), Some("gpt-x"));
    assert_eq!(model(&["claude-x", "custom:mine-0"]).as_deref(), Some("claude-x"));
    assert_eq!(model(&["custom:mine-0"]), None);
}

#[test]
fn kiro_in_its_two_forms() {
    tells(
        "kiro/export.json",
        &["user: echo", "user: alfa", "assistant: bravo fs_ls>c1", "tool: c1=charlie!", "assistant: delta"],
    );
    let session = tells(
        "kiro/session.jsonl",
        &["user: bravo", "user: charlie", "assistant: delta ls>c1", "tool: c1=echo"],
    );
    assert_eq!(hidden(&session), ["user: alfa"]);
}

#[test]
fn iflow_and_antigravity() {
    tells("iflow/sound.jsonl", &["user: alfa", "assistant: bravo list_directory>c1", "user: c1=charlie"]);
    let expected = ["user: alfa", "assistant: bravo shell>c1", "tool: c1=charlie"];
    titled("antigravity/export.json", "Listing files marker golf", &expected);
}

#[test]
fn cline_and_roo_code_read_histories() {
    let session = tells(
        "cline/history.json",
        &[
            "user: alfa",
            "assistant: (bravo) charlie list_files>c1",
            "user: c1=delta",
            "assistant: (echo) foxtrot",
        ],
    );
    assert_eq!(session.context.model().as_deref(), Some("claude-x"));
    // What the provider signed goes back to it as it came.
    let out = convert(&session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    assert!(out.body.contains("\"signature\": \"c2ln\""), "{}", out.body);
    let session = tells("cline/session.json", &["user: bravo", "assistant: charlie list_files>c1"]);
    assert_eq!(marker(&session.context.system()[0].text), "alfa");

    let session =
        tells("roo-code/condensed.json", &["user: charlie", "user: echo", "assistant: foxtrot read_file>c1"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo", "assistant: delta"]);
    assert!(is_compacted(&session));
    let session = tells("roo-code/older.json", &["user: alfa", "assistant: charlie", "user: delta"]);
    assert_eq!(hidden(&session), ["assistant: bravo"]);

    tells("roo-code/plain.json", &["user: alfa", "assistant: (bravo)", "assistant: charlie"]);
}

/// A display log is read if it is all that there is, and a finding says that it is not everything. A request answers the call before
/// it, unless it only repeats what a person said.
#[test]
fn display_logs_of_cline_and_roo_code_are_read_with_losses() {
    let session = tells(
        "roo-code/displayed.json",
        &[
            "user: alfa",
            "assistant: (bravo)",
            "assistant: charlie",
            "assistant: readFile>shown_4",
            "tool: shown_4=echo",
            "user: delta",
            "assistant: execute_command>shown_7",
            "tool: shown_7=foxtrot+golf",
            "assistant: hotel",
            "user: india [image]",
            "assistant: juliett",
            "user: kilo",
            "assistant: lima",
        ],
    );
    assert_eq!(rules(&session), ["foreign-block"]);
    assert_eq!(session.details[0].time.as_deref(), Some("1760000000001"));
    let session = tells("roo-code/displayed-condensed.json", &["user: charlie", "assistant: delta"]);
    assert_eq!(hidden(&session), ["user: alfa", "assistant: bravo"]);
    let session = tells(
        "cline/displayed.json",
        &[
            "user: alfa",
            "assistant: bravo",
            "assistant: listFilesTopLevel>shown_3",
            "tool: shown_3=charlie",
            "assistant: delta",
            "user: echo",
        ],
    );
    assert_eq!(rules(&session), ["foreign-block"]);
}

/// What a command printed belongs to that command, even if another call follows at once.
#[test]
fn shown_output_answers_the_call_before_it() {
    let log = r#"[{"ts":1,"type":"say","say":"text","text":"alfa"},{"ts":2,"type":"ask","ask":"command","text":"ls"},
        {"ts":3,"type":"say","say":"command_output","text":"bravo"},{"ts":4,"type":"ask","ask":"command","text":"pwd"}]"#;
    let session = read("roo-code", log);
    let calls =
        ["assistant: execute_command>shown_1", "tool: shown_1=bravo", "assistant: execute_command>shown_3"];
    assert_eq!(told(&session)[1..], calls);
    sound(&session);
}

/// A display log has no ids, and results only if they were shown: a call without one is no fault of the agent.
#[test]
fn calls_whose_results_were_not_shown_are_no_faults() {
    let log = r#"[{"ts":1,"type":"say","say":"task","text":"alfa marker"},{"ts":2,"type":"say","say":"command","text":"ls"},
        {"ts":3,"type":"say","say":"api_req_started","text":"{\"tokensIn\":9}"},{"ts":4,"type":"say","say":"text","text":"bravo marker"},
        {"ts":5,"type":"ask","ask":"tool","text":"{\"tool\":\"readFile\",\"path\":\"a.txt\"}"}]"#;
    let session = read("cline", log);
    assert_eq!(
        told(&session)[1..],
        ["assistant: execute_command>shown_1", "assistant: bravo", "assistant: readFile>shown_4"]
    );
    let repaired = repair(&session.history(), OnBroken::Keep).findings;
    assert_eq!(repaired.len(), 2);
    assert!(!repaired.iter().any(Finding::is_problem), "{repaired:?}");
    sound(&session);
}

/// An item of a type that is not known is set aside, and its words are reported.
#[test]
fn unknown_items_of_a_display_log_are_reported() {
    let whole = text("roo-code", "displayed.json").replace("completion_result", "something_new");
    let session = read("roo-code", &whole);
    assert_eq!(told(&session).last().unwrap(), "user: kilo");
    assert!(rules(&session).contains(&"unread-text"), "{:?}", session.findings);
}

#[test]
fn codex_exec_prints_what_the_model_did() {
    tells(
        "codex-exec/sound.jsonl",
        &[
            "assistant: (alfa)",
            "assistant: command_execution>item_1",
            "tool: item_1=bravo!",
            "assistant: search>item_2",
            "tool: item_2=charlie",
            "assistant: file_change>item_3",
            "tool: item_3=",
            "assistant: delta",
        ],
    );
    let half: String =
        text("codex-exec", "sound.jsonl").lines().take(4).map(|line| format!("{line}\n")).collect();
    let session = read("codex-exec", &half);
    assert_eq!(told(&session), ["assistant: (alfa)", "assistant: command_execution>item_1"]);
}

/// A document that was cut off gives the messages that are whole.
#[test]
fn a_torn_document_gives_what_is_whole() {
    for (format, name) in [
        ("gemini-cli", "legacy.json"),
        ("kiro", "export.json"),
        ("antigravity", "export.json"),
        ("cline", "history.json"),
        ("roo-code", "condensed.json"),
        ("roo-code", "displayed.json"),
        ("cline", "displayed.json"),
    ] {
        let whole = text(format, name);
        let words = ["that is all", "look into", "look for"];
        let cut = words.iter().find_map(|words| whole.rfind(words)).unwrap();
        let session = read(format, &whole[..cut]);
        sound(&session);
        assert!(rules(&session).contains(&"damaged-entry"), "{format}: {:?}", rules(&session));
        assert!(!session.messages.is_empty(), "{format}");
    }
}

#[derive(Debug)]
struct Folder {
    name: &'static str,
    paths: Vec<String>,
    contents: Vec<String>,
}

impl Files for Folder {
    fn name(&self) -> &str {
        self.name
    }

    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let place = self.paths.iter().position(|own| own == path)?;
        Some(self.contents[place].clone().into_bytes())
    }
}

#[test]
fn the_folder_of_a_task() {
    let displayed = r#"[{"ts":1,"type":"say","say":"text","text":"list everything please, marker alfa","conversationHistoryDeletedRange":[1,2]}]"#;
    let task = |name, history: String| Folder {
        name,
        paths: vec!["api_conversation_history.json".into(), "ui_messages.json".into()],
        contents: vec![history, displayed.into()],
    };
    let read = |folder: &Folder| sessions::read_files(folder, None).unwrap().remove(0);
    let session = read(&task("/x/tasks/1794816001000", text("cline", "history.json")));
    assert_eq!(session.format, "cline");
    assert_eq!(told(&session), ["user: alfa", "assistant: (echo) foxtrot"]);
    assert_eq!(hidden(&session), ["assistant: (bravo) charlie list_files>c1", "user: c1=delta"]);
    assert!(session.set_aside.iter().any(|item| item.raw().is_some_and(|text| text.contains("Deleted"))));
    sound(&session);
    let other = read(&task("/x/tasks/1794816002000", text("cline", "history.json")));
    assert_ne!(session.id, other.id, "the name of the folder is the id of the task");
    let session = read(&task("/x/tasks/a", text("roo-code", "condensed.json")));
    assert_eq!((session.format, session.messages.len()), ("roo-code", 3));
    let named = read(&task("/globalStorage/rooveterinaryinc.roo-cline/tasks/a", text("cline", "plain.json")));
    assert_eq!(named.format, "roo-code");
}

/// The display log of a task is read only if its history is missing. Other tasks of the folder have theirs.
#[test]
fn the_folder_of_a_task_without_a_history() {
    let alone = Folder {
        name: "/x/tasks/1794816001000",
        paths: vec!["ui_messages.json".into(), "task_metadata.json".into()],
        contents: vec![text("cline", "displayed.json"), "{\"files_in_context\":[]}".into()],
    };
    let session = sessions::read_files(&alone, None).unwrap().remove(0);
    assert_eq!((session.format, session.messages.len()), ("cline", 6));
    assert!(session.set_aside.iter().any(|item| item.raw().is_some_and(|text| text.contains("in_context"))));
    sound(&session);
    let two = Folder {
        name: "/x/tasks",
        paths: ["1/ui_messages.json", "2/api_conversation_history.json", "2/ui_messages.json"]
            .map(String::from)
            .to_vec(),
        contents: vec![
            text("roo-code", "displayed.json"),
            text("roo-code", "condensed.json"),
            text("roo-code", "displayed.json"),
        ],
    };
    let sessions = sessions::read_files(&two, None).unwrap();
    let lengths: Vec<usize> = sessions.iter().map(|session| session.messages.len()).collect();
    assert_eq!(lengths, [13, 3]);
}

/// The formats of lines, each with a fixture.
const LINES: &[(&str, &str)] = &[
    ("gemini-cli", "sound.jsonl"),
    ("pi", "sound.jsonl"),
    ("qwen-code", "sound.jsonl"),
    ("copilot-cli", "sound.jsonl"),
    ("cursor", "sound.jsonl"),
    ("droid", "sound.jsonl"),
    ("droid", "stream.jsonl"),
    ("kiro", "session.jsonl"),
    ("iflow", "sound.jsonl"),
    ("codex-exec", "sound.jsonl"),
];

#[test]
fn a_torn_end_and_a_bad_line_spoil_only_themselves() {
    for (format, name) in LINES {
        let whole = text(format, name);
        let torn = &whole[..whole.trim_end().len() - 9];
        let session = read(format, torn);
        sound(&session);
        let found: Vec<&str> = rules(&session).into_iter().filter(|rule| *rule != "foreign-block").collect();
        assert_eq!(found, ["torn-tail"], "{format}");
        let before = told(&read(format, &whole));
        let last = whole.trim_end().rfind('\n').unwrap() + 1;
        let bad = format!("{}{{\"this\": is not JSON\n{}", &whole[..last], &whole[last..]);
        let session = read(format, &bad);
        sound(&session);
        assert!(rules(&session).contains(&"damaged-entry"), "{format}");
        assert_eq!(told(&session), before, "{format}");
    }
}

/// The record of a file that has grown begins with the messages that it had, under the same ids.
#[test]
fn a_file_that_grows_keeps_its_ids() {
    let mut formats: Vec<&str> = LINES.iter().map(|(format, _)| *format).collect();
    formats.dedup();
    for format in formats {
        let files = fs::read_dir(folder(format)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")) {
            let whole = fs::read_to_string(&file).unwrap();
            let half = whole.lines().count().div_ceil(2).max(2);
            let half: String = whole.lines().take(half).map(|line| format!("{line}\n")).collect();
            let known = FORMATS.iter().find(|known| known.name == format);
            let input = |text: &str| Input::new("file.jsonl", text.as_bytes()).unwrap();
            let Ok(half) = sessions::read(&input(&half), known) else { continue };
            let whole = sessions::read(&input(&whole), known).unwrap();
            assert_eq!(half[0].id, whole[0].id, "{}", file.display());
            let ids = |session: &Session| {
                let entries = session.to_entries(Timestamp::UNIX_EPOCH);
                let spoken =
                    entries.into_iter().filter(|entry| entry.envelope().kind == rejoin_record::Kind::Message);
                spoken.map(|entry| entry.id()).collect::<Vec<_>>()
            };
            let (before, after) = (ids(&half[0]), ids(&whole[0]));
            let lost = before.iter().filter(|id| !after.contains(id)).count();
            assert_eq!(lost, 0, "{}", file.display());
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (format, name) in LINES {
        let session = fixture(format, name);
        for target in ["gemini-cli", "pi"] {
            let target = sessions::named(target).unwrap();
            let writing = Writing { model: Some("m"), now: Timestamp::UNIX_EPOCH, directory: "/w" };
            let written = sessions::write(&session, target, OnBroken::Keep, &writing).unwrap();
            let written = written.content.into_text().unwrap();
            let again = read(target.name, &written);
            sound(&again);
            // Reasoning of another provider is not passed on, and neither are instructions of another agent. Calls may get
            // other ids.
            let spoken = |session: &Session| {
                let messages = session.messages.iter().filter(|message| message.role != Role::System);
                let blocks = messages.flat_map(|message| &message.blocks);
                let kept = blocks.filter(|block| !matches!(block.kind, BlockKind::Reasoning(_)));
                let told = kept.map(block).map(|told| match told.split_once(['>', '=']) {
                    Some((_, answer)) if told.contains('=') => format!("={}", answer.trim_end_matches('!')),
                    Some((name, _)) => format!("{name}>"),
                    None => told,
                });
                // What repair adds has no marker.
                told.filter(|told| !told.is_empty() && told != "=" && told != "alfa").collect::<Vec<String>>()
            };
            assert_eq!(spoken(&again), spoken(&session), "{format} to {}\n{}", target.name, written);
            assert_eq!(again.title(), session.title());
        }
    }
}

/// Gemini CLI deletes sessions that were last updated more than 30 days ago.
#[test]
fn an_old_session_is_written_as_updated_now() {
    let (format, name) = LINES.iter().find(|(format, _)| *format == "pi").unwrap();
    let session = fixture(format, name);
    let now: Timestamp = "2099-01-02T03:04:05Z".parse().unwrap();
    let writing = Writing { model: None, now, directory: "/w" };
    let target = sessions::named("gemini-cli").unwrap();
    let written = sessions::write(&session, target, OnBroken::Keep, &writing).unwrap();
    let header = body(&written).lines().next().unwrap();
    assert!(header.contains(r#""lastUpdated":"2099-01-02T03:04:05.000Z""#), "{header}");
    assert!(!header.contains(r#""startTime":"2099"#), "{header}");
}

/// Gemini CLI joins user messages that follow each other, and Gemini refuses results beside a text.
#[test]
fn a_user_text_after_results_stays_a_turn_of_its_own_in_gemini_cli() {
    let source = r#"{"messages": [{"role": "user", "content": "alfa"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "bravo"}, {"role": "user", "content": "charlie"}]}"#;
    let session = read("openai-chat", source);
    let target = sessions::named("gemini-cli").unwrap();
    let writing = Writing { model: None, now: Timestamp::UNIX_EPOCH, directory: "/w" };
    let written = sessions::write(&session, target, OnBroken::Keep, &writing).unwrap();
    let kinds: Vec<&str> = body(&written)
        .lines()
        .filter_map(|line| line.split_once(r#""type":""#)?.1.split('"').next())
        .collect();
    assert_eq!(kinds, ["user", "gemini", "gemini", "user"], "{}", body(&written));
    assert!(written.findings.iter().any(|finding| finding.rule == Rule::RoleOrder));
    let last = read("openai-chat", &source.replace(r#", {"role": "user", "content": "charlie"}"#, ""));
    let written = sessions::write(&last, target, OnBroken::Keep, &writing).unwrap();
    assert!(!body(&written).contains("interrupted"), "{}", body(&written));
}

/// After a resume, Gemini CLI 0.61.0 writes the results of all calls of a message beside each of them.
#[test]
fn gemini_cli_may_repeat_results_beside_every_call() {
    let response = |id: &str, word: &str| {
        format!(r#"{{"functionResponse":{{"id":"{id}","name":"ls","response":{{"output":"{word}"}}}}}}"#)
    };
    let both = format!("[{},{}]", response("c1", "bravo"), response("c2", "charlie"));
    let call =
        |id: &str| format!(r#"{{"id":"{id}","name":"ls","args":{{}},"result":{both},"status":"success"}}"#);
    let log = format!(
        "{}\n{}\n{}\n{}\n",
        r#"{"sessionId":"5e","projectHash":"x","startTime":"2026-11-16T08:00:00.000Z","kind":"main"}"#,
        r#"{"id":"m1","type":"user","content":[{"text":"alfa"}]}"#,
        format_args!(
            r#"{{"id":"m2","type":"gemini","content":"","toolCalls":[{},{}]}}"#,
            call("c1"),
            call("c2")
        ),
        format_args!(r#"{{"id":"m2_response","type":"user","content":{both}}}"#),
    );
    let session = read("gemini-cli", &log);
    assert_eq!(told(&session), ["user: alfa", "assistant: ls>c1 ls>c2", "tool: c1=bravo c2=charlie"]);
    assert_eq!(rules(&session), [""; 0]);
}

/// After a resume, Gemini CLI keeps results by the ids of their calls, so two calls must not share one.
#[test]
fn ids_of_calls_are_unique_in_a_session_for_gemini_cli() {
    let turn = |word: &str| {
        format!(
            r#"{{"role":"user","parts":[{{"text":"alfa"}}]}},
            {{"role":"model","parts":[{{"functionCall":{{"id":"c1","name":"ls","args":{{}}}}}}]}},
            {{"role":"user","parts":[{{"functionResponse":{{"id":"c1","name":"ls","response":{{"output":"{word}"}}}}}}]}},
            {{"role":"model","parts":[{{"text":"delta"}}]}}"#
        )
    };
    let session = read("gemini", &format!(r#"{{"contents": [{}, {}]}}"#, turn("bravo"), turn("charlie")));
    let writing = Writing { model: None, now: Timestamp::UNIX_EPOCH, directory: "/w" };
    let target = sessions::named("gemini-cli").unwrap();
    let written = sessions::write(&session, target, OnBroken::Keep, &writing).unwrap();
    let again = read("gemini-cli", body(&written));
    let results: Vec<String> = told(&again).into_iter().filter(|told| told.starts_with("tool")).collect();
    assert_eq!(results, ["tool: c1=bravo", "tool: ls-5-0=charlie"], "{}", body(&written));
}

/// A line of the log holds no line breaks, and a response on one line would be another text.
#[test]
fn a_response_with_line_breaks_is_the_same_text_in_gemini_cli() {
    let writing = Writing { model: None, now: Timestamp::UNIX_EPOCH, directory: "/w" };
    let target = sessions::named("gemini-cli").unwrap();
    for (response, expected) in [
        ("{\r}", "{\r}"),
        ("{\n \"a\": [1,\r\n2]}", "{\n \"a\": [1,\r\n2]}"),
        ("{\n\"note\": \"bravo\"}", "{\n\"note\": \"bravo\"}"),
        ("{\n\"output\": \"bravo\"\n}", "bravo"),
        (r#"{"a": 1}"#, r#"{"a": 1}"#),
    ] {
        let body_of = format!(
            r#"{{"contents": [{{"role":"user","parts":[{{"text":"alfa"}}]}},
            {{"role":"model","parts":[{{"functionCall":{{"id":"c1","name":"ls","args":{{}}}}}}]}},
            {{"role":"user","parts":[{{"functionResponse":{{"id":"c1","name":"ls","response":{response}}}}}]}}]}}"#
        );
        let written = sessions::write(&read("gemini", &body_of), target, OnBroken::Keep, &writing).unwrap();
        assert!(!body(&written).contains('\r'), "{}", body(&written));
        let again = read("gemini-cli", body(&written));
        let result = again.messages.last().and_then(|message| message.tool_results().next()).unwrap();
        let texts: Vec<String> =
            result.content.iter().filter_map(Block::as_text).map(ToString::to_string).collect();
        assert_eq!(texts, [expected], "{response}");
        let reported = written.findings.iter().any(|finding| {
            finding.rule == Rule::IrregularContent
                && finding.detail.as_ref().is_some_and(|why| why.contains("line breaks"))
        });
        assert_eq!(reported, expected.starts_with('{') && !expected.contains("\"a\": 1}"), "{response}");
    }
}

/// opencode sends only the system prompt of the last user message, and its import wants to know whose part an attachment is.
#[test]
fn opencode_gets_instructions_as_a_text_and_attachments_of_a_message() {
    let source = r#"{"system": "alfa", "messages": [{"role": "user", "content": "bravo"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "camera", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}]},
        {"role": "assistant", "content": "charlie"}, {"role": "user", "content": "delta"}]}"#;
    let session = read("anthropic", source);
    let writing = Writing { model: None, now: Timestamp::UNIX_EPOCH, directory: "/w" };
    let target = sessions::named("opencode").unwrap();
    let written = sessions::write(&session, target, OnBroken::Keep, &writing).unwrap();
    assert_eq!(body(&written).matches("<system>alfa</system>").count(), 1, "{}", body(&written));
    assert!(!body(&written).contains(r#""system":"#) && !body(&written).contains(r#""messageID":"""#));
    let told = told(&read("opencode", body(&written)));
    assert_eq!(told.first().map(String::as_str), Some("user: alfa bravo"), "{told:?}");
}
