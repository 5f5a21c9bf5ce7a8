//! The places of agents' sessions: `doctor` and `import` find them there, `move` puts them there, and an import can be undone.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Home, SOUND, has};

/// The agents that a session can be moved to.
const TAKING: &[&str] =
    &["codex", "claude-code", "cody", "gemini-cli", "pi", "opencode", "goose", "llm", "xzatoma"];

/// Those of them that keep all sessions in one database.
const STORING: &[&str] = &["goose", "llm", "xzatoma"];

/// A home in which agents have sessions, each in its own place.
fn agents() -> Home {
    let home = Home::new("sqlite");
    let source = home.file("sound.json", SOUND);
    for agent in TAKING.iter().filter(|agent| **agent != "opencode") {
        home.out(&["move", &source, "--to", agent]);
    }
    // The output of other programs, in form only.
    home.file(
        ".copilot/session-state/s1/events.jsonl",
        concat!(
            r#"{"type":"session.start","id":"1","timestamp":"2026-11-16T08:00:00.000Z","parentId":null,"data":{"sessionId":"s1","version":1,"producer":"copilot-agent","copilotVersion":"0.0.1","startTime":"2026-11-16T08:00:00.000Z"}}"#,
            "\n",
            r#"{"type":"user.message","id":"2","timestamp":"2026-11-16T08:00:01.000Z","parentId":"1","data":{"content":"hello copilot","attachments":[]}}"#,
            "\n",
            r#"{"type":"assistant.message","id":"3","timestamp":"2026-11-16T08:00:02.000Z","parentId":"2","data":{"messageId":"m","content":"hello person","toolRequests":[]}}"#,
            "\n"
        ),
    );
    let roo = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/t1";
    home.file(
        &format!("{roo}/api_conversation_history.json"),
        r#"[{"role":"user","content":[{"type":"text","text":"hello roo"}],"ts":1763280000000},{"role":"assistant","content":[{"type":"text","text":"hello person"}],"ts":1763280001000}]"#,
    );
    home.file(
        "here/.aider.chat.history.md",
        "\n# aider chat started at 2026-11-16 08:00:00\n\n#### hello aider\n\nhello person\n",
    );
    home
}

fn found(home: &Home, arguments: &[&str]) -> Vec<(String, u64)> {
    let ran = home.run(&[&["doctor", "--json"], arguments].concat());
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let agents = json["agents"].as_array().unwrap();
    agents
        .iter()
        .map(|agent| (agent["agent"].as_str().unwrap().to_owned(), agent["sessions"].as_u64().unwrap()))
        .collect()
}

#[test]
fn doctor_looks_where_each_agent_keeps_its_sessions() {
    let home = agents();
    let names: Vec<String> = found(&home, &[]).into_iter().map(|(agent, _)| agent).collect();
    let all = [
        "Claude Code",
        "Codex",
        "Copilot CLI",
        "Gemini CLI",
        "Roo Code",
        "aider",
        "cody",
        "goose",
        "llm",
        "pi",
        "xzatoma",
    ];
    assert_eq!(names, all);
    assert_eq!(found(&home, &["--agent", "pi", "--agent", "codex"]).len(), 2);
    assert_eq!(found(&home, &["--agent", "droid"]), []);
    let ran = home.run(&["doctor", "--agent", "codexx"]);
    assert_eq!(ran.code, 2);
    has(&ran.err, &["codexx", "codex"]);
    // An empty list says where it looked.
    has(
        &home.out(&["doctor", "--agent", "droid"]),
        &["No sessions found. Looked in:", "Droid: ", ".factory/sessions"],
    );
    has(
        &home.out(&["doctor", "--self"]),
        &["Roo Code: ", "roo-cline/tasks", "Droid: ", ".factory/sessions (does not exist)"],
    );
}

/// The broken sessions in a folder: the state and the dialect of each file.
fn states(home: &Home, folder: &str) -> Vec<(String, String, Value)> {
    let ran = home.run(&["doctor", "--json", &home.path(folder).display().to_string()]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let state = |found: &Value| {
        let path = found["path"].as_str().unwrap().to_owned();
        let inside = path.split_once(&format!("/{folder}/"))?.1.to_owned();
        Some((inside, found["state"].as_str().unwrap_or("unreadable").to_owned(), found["for"].clone()))
    };
    let mut states: Vec<_> = json["found"].as_array().unwrap().iter().filter_map(state).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    states
}

fn lines_of(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn doctor_says_what_each_agent_does_about_a_broken_session() {
    let home = Home::new("sqlite");
    let file = |name: &str, content: String| home.file(&format!("broken/{name}"), content);

    // Gemini CLI sends a call without its result, and Gemini refuses that.
    let call = json!({"id": "c1", "name": "ls", "args": {}, "status": "success"});
    file(
        "gemini-open.jsonl",
        lines_of(&[
            json!({"sessionId": "g", "projectHash": "x", "startTime": "2026-11-15T12:00:00.000Z"}),
            json!({"id": "m1", "type": "user", "content": [{"text": "hello there"}]}),
            json!({"id": "m2", "type": "gemini", "content": "", "toolCalls": [call]}),
            json!({"id": "m3", "type": "gemini", "content": "good bye"}),
        ]),
    );

    // pi answers such a call, and sends a result without its call.
    let pi = |messages: &[Value]| {
        let mut lines = vec![
            json!({"type": "session", "version": 3, "id": "p", "timestamp": "2026-11-15T12:00:00.000Z", "cwd": "/w"}),
        ];
        for (number, message) in messages.iter().enumerate() {
            let parent = number.checked_sub(1).map(|parent| format!("{parent:08x}"));
            lines.push(json!({"type": "message", "id": format!("{number:08x}"), "parentId": parent,
                "timestamp": "2026-11-15T12:00:00.000Z", "message": message}));
        }
        lines_of(&lines)
    };
    let hello = json!({"role": "user", "content": "hello there"});
    let call = json!({"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}],
        "api": "anthropic-messages", "provider": "p", "model": "m", "stopReason": "toolUse"});
    let result = json!({"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "isError": false,
        "content": [{"type": "text", "text": "no files"}]});
    let reply = json!({"role": "assistant", "content": [{"type": "text", "text": "good bye"}],
        "api": "anthropic-messages", "provider": "p", "model": "m", "stopReason": "stop"});
    file("pi-open.jsonl", pi(&[hello.clone(), call.clone(), reply.clone()]));
    file("pi-orphan.jsonl", pi(&[hello.clone(), reply, result.clone()]));
    file("pi-reused.jsonl", pi(&[hello, call.clone(), result.clone(), call, result]));

    // goose leaves both halves of a broken pair out, but does not move a result to its call.
    let goose =
        |contents: &[(&str, Value)]| {
            let mut lines = vec![json!({"working_dir": "/w", "description": "d", "message_count": 3})];
            lines.extend(contents.iter().enumerate().map(
                |(number, (role, content))| json!({"role": role, "created": number, "content": [content]}),
            ));
            lines_of(&lines)
        };
    let hello = ("user", json!({"type": "text", "text": "hello there"}));
    let value = json!({"name": "ls", "arguments": {}});
    let call = (
        "assistant",
        json!({"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": value}}),
    );
    let value = json!({"content": [{"type": "text", "text": "no files"}], "isError": false});
    let result = (
        "user",
        json!({"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": value}}),
    );
    file("goose-late.jsonl", goose(&[hello.clone(), call.clone(), hello.clone(), result.clone()]));
    file("goose-open.jsonl", goose(&[hello.clone(), call, hello.clone()]));
    file("goose-orphan.jsonl", goose(&[hello.clone(), result, hello]));

    // Roo Code looks at the end of a task only.
    let roo = |messages: &[(&str, Value)]| {
        let timed = messages.iter().enumerate().map(|(number, (role, content))| {
            json!({"role": role, "content": [content], "ts": 1_763_280_000_000_u64 + number as u64})
        });
        Value::from_iter(timed).to_string()
    };
    let hello = ("user", json!({"type": "text", "text": "hello there"}));
    let call = ("assistant", json!({"type": "tool_use", "id": "c1", "name": "ls", "input": {}}));
    let reply = ("assistant", json!({"type": "text", "text": "good bye"}));
    let history = "api_conversation_history.json";
    home.file(&format!("tasks/end/{history}"), roo(&[hello.clone(), call.clone(), hello.clone()]));
    home.file(&format!("tasks/middle/{history}"), roo(&[hello.clone(), call, hello, reply]));

    // xzatoma removes results without a call, and nothing else.
    let database = home.path("broken/history.db");
    let connection = Connection::open(database).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE conversations (id TEXT PRIMARY KEY, title TEXT NOT NULL, created_at TEXT NOT NULL, \
             updated_at TEXT NOT NULL, model TEXT, messages JSON NOT NULL)",
        )
        .unwrap();
    let orphan = json!([{"role": "user", "content": "hello there"}, {"role": "tool", "content": "x", "tool_call_id": "c1"}]);
    let call = json!([{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]);
    let open = json!([{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "", "tool_calls": call}]);
    for (id, messages) in [("1", orphan), ("2", open)] {
        let row = [id, "t", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "m", &messages.to_string()];
        connection.execute("INSERT INTO conversations VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row).unwrap();
    }
    drop(connection);

    // Copilot CLI answers calls.
    let request = json!({"toolCallId": "c1", "name": "ls", "arguments": {}});
    file(
        "copilot/events.jsonl",
        lines_of(&[
            json!({"type": "session.start", "id": "1", "timestamp": "2026-11-16T08:00:00.000Z", "parentId": null,
                "data": {"sessionId": "s1", "version": 1, "producer": "copilot-agent", "copilotVersion": "0.0.1"}}),
            json!({"type": "user.message", "id": "2", "timestamp": "2026-11-16T08:00:01.000Z", "parentId": "1",
                "data": {"content": "hello there", "attachments": []}}),
            json!({"type": "assistant.message", "id": "3", "timestamp": "2026-11-16T08:00:02.000Z", "parentId": "2",
                "data": {"messageId": "m", "content": "", "toolRequests": [request]}}),
            json!({"type": "user.message", "id": "4", "timestamp": "2026-11-16T08:00:03.000Z", "parentId": "3",
                "data": {"content": "still there?", "attachments": []}}),
        ]),
    );

    let (mended, refused) = ("mended_by_its_agent", "refused");
    let expected = [
        ("copilot/events.jsonl", mended, "openai-chat".into()),
        ("gemini-open.jsonl", refused, "gemini".into()),
        ("goose-late.jsonl", refused, "openai-chat".into()),
        ("goose-open.jsonl", mended, "openai-chat".into()),
        ("goose-orphan.jsonl", mended, "openai-chat".into()),
        ("history.db", mended, "openai-chat".into()),
        ("history.db", refused, "openai-chat".into()),
        ("pi-open.jsonl", mended, "anthropic".into()),
        ("pi-orphan.jsonl", refused, "anthropic".into()),
        ("pi-reused.jsonl", refused, "anthropic".into()),
    ];
    let told = states(&home, "broken");
    let told: Vec<_> =
        told.iter().map(|(path, state, dialect)| (path.as_str(), state.as_str(), dialect.clone())).collect();
    assert_eq!(told, expected);
    let tasks: Vec<String> = ["end", "middle"]
        .map(|task| {
            let ran = home.run(&["doctor", "--json", &home.path("tasks").join(task).display().to_string()]);
            let json: Value = serde_json::from_str(&ran.out).unwrap();
            json["found"][0]["state"].as_str().unwrap().to_owned()
        })
        .into();
    assert_eq!(tasks, [mended, refused]);

    // People get the provider's words, and `check` gives the same verdict on one session.
    let path = |name: &str| home.path(&format!("broken/{name}")).display().to_string();
    has(
        &home.run(&["doctor", &path("gemini-open.jsonl"), "--agent", "gemini-cli"]).out,
        &["refused by the provider", "Google would answer 400: ", "number of function response parts"],
    );
    has(
        &home.run(&["check", &path("pi-open.jsonl")]).out,
        &["pi mends its history before it sends it: Anthropic would accept its next request."],
    );
    has(
        &home.run(&["check", &path("goose-late.jsonl")]).out,
        &["OpenAI would refuse the next request of goose."],
    );
}

#[test]
fn doctor_names_a_way_out_of_what_it_cannot_tell() {
    let home = Home::new("sqlite");
    let call = json!([{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]);
    let line = |parent: Value, id: &str, role: &str, content: Value| {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "session-041101e6-2a7f-4dfd-90b0-57888a353f6b",
            "timestamp": "2026-11-16T08:00:01.000Z", "type": role, "isSidechain": false, "userType": "external",
            "message": {"role": role, "content": content}, "cwd": "/p", "version": "0.5.1"})
    };
    let lines = [
        line(Value::Null, "1", "user", "hello there".into()),
        line("1".into(), "2", "assistant", call),
        line("2".into(), "3", "user", "still there?".into()),
    ];
    home.file("iflow.jsonl", lines_of(&lines));
    let path = home.path("iflow.jsonl").display().to_string();
    has(
        &home.run(&["doctor", &path]).out,
        &[
            "broken; rejoin does not know whether its agent mends it, unanswered-call",
            "1 of 1 is broken, and rejoin cannot tell what their own agents do about that (in the table: unclear; iFlow).",
            "rejoin move PATH --to codex ",
        ],
    );
}

/// Cursor's transcripts lack all results, which need not mean that anything is wrong with the session.
#[test]
fn doctor_says_what_transcripts_of_cursor_lack() {
    let home = Home::new("sqlite");
    let line = |role: &str, block: Value| json!({"role": role, "message": {"content": [block]}});
    let lines = [
        line("user", json!({"type": "text", "text": "please list the files here"})),
        line("assistant", json!({"type": "tool_use", "name": "Shell", "input": {"command": "ls"}})),
        line("user", json!({"type": "text", "text": "go on with that"})),
    ];
    home.file(".cursor/projects/p/agent-transcripts/1/1.jsonl", lines_of(&lines));
    has(
        &home.run(&["doctor", "--agent", "cursor"]).out,
        &["(in the table: unclear; Cursor)", "Cursor writes no results of calls to its transcripts"],
    );
}

#[test]
fn import_without_a_path_names_the_flag_that_needs_none() {
    let ran = Home::new("sqlite").run(&["import"]);
    assert_eq!(ran.code, 2);
    has(
        &ran.err,
        &["<PATH>...", "hint: `rejoin import --all` imports the sessions of every agent on this machine"],
    );
}

/// A file that was changed is taken, however old its messages say they are.
#[test]
fn a_changed_file_with_old_messages_is_taken() {
    let home = Home::new("sqlite");
    home.file(
        ".copilot/session-state/s1/events.jsonl",
        concat!(
            r#"{"type":"user.message","id":"2","timestamp":"2020-01-01T08:00:01.000Z","parentId":"1","data":{"content":"hello copilot"}}"#,
            "\n",
            r#"{"type":"assistant.message","id":"3","timestamp":"2020-01-01T08:00:02.000Z","parentId":"2","data":{"messageId":"m","content":"hello person"}}"#,
            "\n"
        ),
    );
    // A session that a person saved under a name in Gemini CLI counts as one of its sessions.
    home.file(
        ".gemini/tmp/p/checkpoint-tag.json",
        r#"[{"role":"user","parts":[{"text":"hello gemini"}]},{"role":"model","parts":[{"text":"hello person"}]}]"#,
    );
    let agents: Vec<String> = found(&home, &["--since", "7d"]).into_iter().map(|(agent, _)| agent).collect();
    assert!(agents.contains(&String::from("Copilot CLI")), "{agents:?}");
    assert!(agents.contains(&String::from("Gemini CLI")), "{agents:?}");
    has(&home.run(&["import", "--all", "--since", "7d"]).err, &["2 new"]);
}

#[test]
fn only_what_changed_since() {
    let home = agents();
    let old = std::time::SystemTime::now() - Duration::from_secs(10 * 24 * 3600);
    let rollout = home.lines(&["doctor", "--json", "--agent", "codex"])[0]["found"][0]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::File::options().append(true).open(&rollout).unwrap().set_modified(old).unwrap();
    let names =
        |since| found(&home, &["--since", since]).into_iter().map(|(agent, _)| agent).collect::<Vec<_>>();
    let (week, month) = (names("7d"), names("30d"));
    assert!(
        !week.contains(&String::from("Codex")) && month.contains(&String::from("Codex")),
        "{week:?} {month:?}"
    );
    let nothing = home.run(&["import", "--agent", "codex", "--since", "7d"]);
    has(&nothing.err, &["There is nothing to import.", "hint: `rejoin doctor --self`"]);
    let nothing = home.run(&["doctor", "--agent", "codex", "--since", "2026-11-17T00:00:00Z"]);
    has(&nothing.out, &["No sessions found that changed since 2026-11-17T00:00:00Z. Looked in:"]);
    has(&home.run(&["import", "--agent", "codex", "--since", "30d"]).err, &["1 new"]);
    assert_eq!(home.run(&["doctor", "--since", "yesterday"]).code, 2);
}

#[test]
fn folders_from_the_settings_are_looked_at() {
    let home = Home::new("sqlite");
    let rollout = fs::read_to_string("../../examples/rollout.jsonl").unwrap();
    home.file("backup/deep/rollout-2026.jsonl", rollout);
    let folder = home.path("backup").display().to_string();
    home.out(&["config", "set", "agent_folders", &format!("codex={folder}")]);
    assert_eq!(found(&home, &[]), [(String::from("Codex"), 1)]);
    assert_eq!(found(&home, &["--agent", "pi"]), []);
    has(&home.run(&["import", "--all"]).err, &["1 new"]);
    let wrong = home.run(&["config", "set", "agent_folders", "codexx=/tmp"]);
    assert_eq!(wrong.code, 2);
    has(&wrong.err, &["`codexx=/tmp` is not AGENT=FOLDER", "gemini-cli"]);
}

const ROO: &str = r#"[{"role":"user","content":[{"type":"text","text":"hello roo"}],"ts":1763280000000},{"role":"assistant","content":[{"type":"text","text":"hello person"}],"ts":1763280001000}]"#;
const CLAUDE: &str = concat!(
    r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","timestamp":"2026-11-16T08:00:00.000Z","message":{"role":"user","content":"hello claude"}}"#,
    "\n",
    r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s1","timestamp":"2026-11-16T08:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"hello person"}]}}"#,
    "\n"
);

/// A task folder hides no session of another agent, neither around it nor in it.
#[test]
fn sessions_of_several_agents_in_one_folder_are_all_found() {
    let rollout = fs::read_to_string("../../examples/rollout.jsonl").unwrap();
    for (task, codex, claude) in [
        ("all/roo/tasks/t1", "all/codex/rollout-1.jsonl", "all/claude/s1.jsonl"),
        ("all/tasks/t1", "all/tasks/rollout-1.jsonl", "all/s1.jsonl"),
        ("all", "all/rollout-1.jsonl", "all/deep/down/s1.jsonl"),
        ("all/t1", "all/t1/rollout-1.jsonl", "all/t1/more/s1.jsonl"),
    ] {
        let home = Home::new("sqlite");
        home.file(&format!("{task}/api_conversation_history.json"), ROO);
        home.file(&format!("{task}/ui_messages.json"), "[]");
        home.file(&format!("{task}/more/t2/api_conversation_history.json"), ROO.replace("roo", "roo again"));
        home.file(codex, &rollout);
        home.file(claude, CLAUDE);
        let folder = home.path("all").display().to_string();
        let all = [("Claude Code", 1), ("Codex", 1), ("Roo Code", 2)];
        assert_eq!(found(&home, &[&folder]), all.map(|(agent, count)| (agent.to_owned(), count)), "{task}");
        has(&home.run(&["import", &folder]).err, &["4 new"]);
        // `check` says nothing about a part of them as if it were all, except of a task that is named.
        let checked = home.run(&["check", &folder]);
        assert_eq!(checked.code == 0, task == "all", "{task}: {}", checked.err);
        assert!(task == "all" || checked.err.contains("rejoin doctor"), "{}", checked.err);
        assert_eq!(home.run(&["check", &home.path(task).display().to_string()]).code, 0, "{task}");
    }
}

/// Folders that hold nothing but tasks of one agent are read as one.
#[test]
fn a_folder_of_tasks_is_checked_as_a_whole() {
    let home = Home::new("sqlite");
    for task in ["t1", "t2"] {
        home.file(&format!("roo/tasks/{task}/api_conversation_history.json"), ROO.replace("roo", task));
        home.file(&format!("roo/tasks/{task}/checkpoints/a.jsonl"), "{}");
    }
    home.file("roo/settings/mcp_settings.json", r#"{"mcpServers":{}}"#);
    home.file("roo/state/taskHistory.json", r#"[{"id":"t1","ts":1763280000000,"task":"hello"}]"#);
    let folder = home.path("roo").display().to_string();
    assert_eq!(found(&home, &[&folder]), [(String::from("Roo Code"), 2)]);
    assert_eq!(home.lines(&["check", "--json", &folder]).len(), 2);
}

/// A session goes to every agent that takes one, and a second copy does not replace the first.
#[test]
fn a_session_moves_to_each_agent() {
    let home = Home::new("sqlite");
    let id = home.import("sound.json", SOUND);
    for agent in TAKING {
        let first = &home.lines(&["move", &id, "--to", agent, "--json"])[0];
        let second = &home.lines(&["move", &id, "--to", agent, "--json"])[0];
        assert_eq!(first["path"] == second["path"], STORING.contains(agent), "{agent}");
        assert_ne!(first["id"], second["id"], "{agent}");
        for copy in [first, second] {
            let path = copy["path"].as_str().unwrap();
            assert!(Path::new(path).starts_with(home.path("")), "{path}");
            let checked = home.lines(&["check", "--json", path]);
            assert!(checked.len() == 1 || STORING.contains(agent), "{path}");
            for checked in checked {
                assert_eq!(
                    (&checked["format"], &checked["sound"]),
                    (&(*agent).into(), &true.into()),
                    "{path}"
                );
            }
            // The command names the session that was written.
            let command = copy["command"].as_str().unwrap();
            has(command, &[copy["id"].as_str().unwrap()]);
        }
        let said = home.out(&["move", &id, "--to", agent]);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let ran = home.run(&["move", &id, "--to", "markdown"]);
    assert_eq!(ran.code, 2);
    has(&ran.err, &["gemini-cli"]);
}

#[test]
fn an_import_is_taken_back() {
    Home::each(|home| {
        let lines: Vec<String> =
            fs::read_to_string("../../examples/rollout.jsonl").unwrap().lines().map(str::to_owned).collect();
        let part = home.file("rollout-1.jsonl", lines[..lines.len() - 2].join("\n") + "\n");
        let kept = home.import("kept.json", SOUND);
        let id = home.lines(&["import", "--json", &part])[0]["id"].as_str().unwrap().to_owned();
        let before = home.out(&["history", "show", &id]);
        fs::write(&part, lines.join("\n") + "\n").unwrap();
        home.out(&["import", &part]);
        let after = home.out(&["history", "show", &id]);
        assert_ne!(before, after);

        // The conversation that had grown has its former head; importing again brings the rest back.
        has(&home.out(&["import", "--undo"]), &[&id, "restored"]);
        assert_eq!(home.out(&["history", "show", &id]), before);
        home.out(&["import", &part]);
        assert_eq!(home.out(&["history", "show", &id]), after);
        home.out(&["import", "--undo"]);
        assert_eq!(home.out(&["history", "show", &id]), before);
        home.out(&["verify"]);

        // The previous import had added the conversation: it is deleted, unless entries were added since.
        home.out(&["history", "rename", &id, "Mine"]);
        let ran = home.run(&["import", "--undo"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        has(&ran.out, &["kept: it was continued after the import"]);
        assert_eq!(home.lines(&["list", "--json"]).len(), 2);
        assert!(home.out(&["history", "show", &kept]).contains("Two."));
    });
}

/// An import that a later one extended is undone after it, and that is no continuation.
#[test]
fn imports_of_a_growing_file_are_taken_back_one_by_one() {
    Home::each(|home| {
        let lines: Vec<String> =
            fs::read_to_string("../../examples/rollout.jsonl").unwrap().lines().map(str::to_owned).collect();
        let mut file = String::new();
        for left in [2, 1, 0] {
            file = home.file("rollout-1.jsonl", lines[..lines.len() - left].join("\n") + "\n");
            home.out(&["import", &file]);
        }
        for _ in 0..2 {
            has(&home.out(&["import", "--undo"]), &["restored"]);
        }
        home.out(&["verify"]);
        home.out(&["import", "--undo"]);
        assert_eq!(home.lines(&["list", "--json"]).len(), 0, "{file}");
    });
}

#[test]
fn a_new_conversation_goes_with_its_import() {
    let home = Home::new("sqlite");
    let file = home.file("sound.json", SOUND);
    has(&home.run(&["import", "--undo"]).err, &["There is no import to undo."]);
    home.out(&["import", &file]);
    let gone = home.file("gone.json", SOUND.replace("Two.", "Three."));
    home.out(&["import", &gone]);
    fs::remove_file(&gone).unwrap();
    // The only copy stays.
    assert_eq!(home.run(&["import", "--undo", &file]).code, 2);
    let ran = home.run(&["import", "--undo", "--store", &home.store]);
    assert_eq!(ran.code, 1);
    has(&ran.out, &["its file is gone, so this is the only copy"]);
    fs::write(&gone, SOUND).unwrap();
    home.out(&["import", "--undo"]);
    home.out(&["import", "--undo"]);
    assert_eq!(home.lines(&["list", "--json"]).len(), 0);
    assert!(fs::read_to_string(&file).unwrap().contains("Two."));
}

/// A database of goose, while goose has it open.
const GOOSE: &str = r#"
    PRAGMA journal_mode = WAL;
    CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT, model_config_json TEXT);
    CREATE TABLE messages(id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
    INSERT INTO sessions VALUES('20261116_1', 'Greeting', '/work', NULL);
    INSERT INTO messages VALUES(1, 'm1', '20261116_1', 'user', '[{"type":"text","text":"hello goose"}]', 1, '{}');
"#;

/// A process whose lines are read as they come.
struct Watching {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watching {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ctrl-C in the middle of an import stops it after a file. What was imported is whole, is counted, and can be undone.
#[cfg(unix)]
#[test]
fn an_import_that_is_interrupted_can_be_undone() {
    let home = Home::new("sqlite");
    for number in 0..3000 {
        home.file(&format!("chats/{number}.json"), SOUND.replace("Two.", &format!("Two {number}.")));
    }
    let chats = home.path("chats").display().to_string();
    let mut child = home
        .command(&["import", "--json", &chats])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = vec![out.next().unwrap()];
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    lines.extend(out);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(lines.len() < 3000, "it was over before the signal");
    for line in &lines {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["new"], true, "one object per line");
    }
    let count = format!("{0} conversations read: {0} new", lines.len());
    has(&err, &[&count, &format!("Stopped after {} of 3000 files", lines.len())]);
    has(&home.out(&["verify"]), &["sound: "]);
    assert_eq!(home.lines(&["import", "--undo", "--json"]).len(), lines.len());
    assert_eq!(home.lines(&["list", "--json"]).len(), 0, "nothing is left over");
}

/// An agent's session is imported while the agent writes it, from files and from databases.
#[test]
fn what_is_written_is_imported_as_it_is_written() {
    let home = Home::new("sqlite");
    let lines: Vec<String> =
        fs::read_to_string("../../examples/rollout.jsonl").unwrap().lines().map(str::to_owned).collect();
    let (first, rest) = lines.split_at(lines.len() - 2);
    let name =
        ".codex/sessions/2026/11/16/rollout-2026-11-16T08-00-00-5e0c1234-0000-7000-8000-000000000001.jsonl";
    let rollout = home.file(name, first.join("\n") + "\n");
    let watching = Watching::start(&home, &["import", "--watch", "--json"]);
    let id = watching.next()["id"].clone();
    // A new file, then a line that is written in two pieces.
    home.file(".copilot/session-state/s1/events.jsonl", concat!(
        r#"{"type":"session.start","id":"1","timestamp":"2026-11-16T08:00:00.000Z","parentId":null,"data":{"sessionId":"s1","version":1,"producer":"copilot-agent","copilotVersion":"0.0.1","startTime":"2026-11-16T08:00:00.000Z"}}"#, "\n",
        r#"{"type":"user.message","id":"2","timestamp":"2026-11-16T08:00:01.000Z","parentId":"1","data":{"content":"hello copilot","attachments":[]}}"#, "\n"));
    let new = watching.next();
    assert_eq!((&new["format"], &new["new"]), (&"copilot-cli".into(), &true.into()));
    let began = Instant::now();
    let text = fs::read_to_string(&rollout).unwrap();
    fs::write(&rollout, text + &rest.join("\n") + "\n").unwrap();
    let grown = watching.next();
    println!("imported after {:?}", began.elapsed());
    assert_eq!((&grown["id"], &grown["new"]), (&id, &false.into()));
    assert!(grown["added"].as_u64().unwrap() > 0);
    let folder = home.path(".local/share/goose/sessions");
    fs::create_dir_all(&folder).unwrap();
    let goose = Connection::open(folder.join("sessions.db")).unwrap();
    goose.execute_batch(GOOSE).unwrap();
    let new = watching.next();
    assert_eq!((&new["format"], &new["messages"]), (&"goose".into(), &1.into()));
    goose.execute("INSERT INTO messages VALUES(2,'m2','20261116_1','assistant','[{\"type\":\"text\",\"text\":\"hello person\"}]',2,'{}')", []).unwrap();
    assert_eq!(watching.next()["messages"], 2);
    drop(watching);
    // A search covers imported conversations.
    has(&home.out(&["history", "search", "hello copilot"]), &["hello copilot"]);
}
