//! The binary from outside: what it prints to which stream, and its exit codes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    fs,
    io::{Seek as _, Write as _},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

const SOUND: &str =
    r#"{"model":"gpt-x","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#;
const BROKEN: &str = r#"{"model":"gpt-x","messages":[
  {"role":"user","content":"list"},
  {"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
  {"role":"user","content":"still there?"},
  {"role":"tool","tool_call_id":"call_7","content":"who asked?"}]}"#;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.args(arguments).env_remove("DISABLE_MESSAGE_SANITIZATION").env_remove("REJOIN_DISABLE_REPAIR");
    command
}

fn rejoin(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn piped(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

#[test]
fn check_of_a_body_that_is_accepted_exits_0() {
    let home = Home::new();
    let output = rejoin(&["check", &home.file("a.json", SOUND)]);
    assert_eq!(code(&output), 0);
    let accepted = "accepted: OpenAI would accept this request: 2 messages, 0 calls, 0 results.\n";
    assert!(out(&output).ends_with(accepted), "{}", out(&output));
    assert_eq!(err(&output), "");
}

#[test]
fn check_names_place_answer_and_action_and_ends_with_counts() {
    let home = Home::new();
    let output = rejoin(&["check", &home.file("a.json", BROKEN)]);
    assert_eq!(code(&output), 1);
    let text = out(&output);
    for part in [
        "error at message 1 (line 3): An assistant message with 'tool_calls' must be followed by tool messages",
        "did not have response messages: call_1 [OAC-01]",
        "error at message 3 (line 5): Invalid parameter: messages with role 'tool' must be a response to",
        "note at message 1, block 0 (line 3): a tool call has no result (call_1, tool ls) [unanswered-call]",
        "rejoin: a result is added that says none was recorded",
        "note at message 3, block 0 (line 5): a tool result has no call (call_7) [orphan-result]",
        "refused: OpenAI would answer 400: 2 errors. `rejoin convert ",
        " --to openai-chat` writes a request that is accepted, and no text is lost.",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.trim_end().lines().last().unwrap().contains("refused: "));
}

#[test]
fn check_json_has_exactly_its_fields() {
    let home = Home::new();
    let output = rejoin(&["check", "--json", &home.file("a.json", BROKEN)]);
    assert_eq!(code(&output), 1);
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    let keys: Vec<_> = report.as_object().unwrap().keys().cloned().collect();
    let expected = "id path format kind messages calls results for accepted findings sound";
    assert_eq!(keys.join(" "), expected);
    assert_eq!((&report["kind"], &report["for"]), (&"request".into(), &"openai-chat".into()));
    assert_eq!(report["accepted"], false);
    assert!(report["id"].as_str().unwrap().starts_with("conv_"));
    assert_eq!(report["format"], "openai-chat");
    assert_eq!(
        (&report["messages"], &report["calls"], &report["results"]),
        (&4.into(), &1.into(), &1.into())
    );
    assert_eq!(report["sound"], false);
    let finding = &report["findings"][0];
    let keys: Vec<_> = finding.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["rule", "severity", "at", "path", "message", "action"]);
    assert_eq!((&finding["rule"], &finding["severity"]), (&"OAC-01".into(), &"error".into()));
    assert_eq!(finding["at"], serde_json::json!({"message":1,"block":null,"line":3}));
    let finding = &report["findings"][2];
    let keys: Vec<_> = finding.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["rule", "severity", "at", "message", "action"]);
    assert_eq!((&finding["rule"], &finding["severity"]), (&"unanswered-call".into(), &"note".into()));
    assert_eq!(finding["at"], serde_json::json!({"message":1,"block":0,"line":3}));
    assert_eq!(finding["action"], "synthesized");
}

/// A history whose text was not read is never called sound: the finding names the field, or the file is refused by name.
#[test]
fn check_never_says_sound_of_text_that_was_not_read() {
    let home = Home::new();
    let unread = r#"[{"role":"user","content":"list the files in this folder"},
        {"role":"assistant","content":"There is one file here.","note":"the second file is hidden"}]"#;
    let output = rejoin(&["check", &home.file("unread.json", unread)]);
    assert_eq!(code(&output), 1);
    let text = out(&output);
    let warning = "warning at message 1 (line 2): text of the source was not understood and is not part of the \
                   conversation: field `note` [unread-text]";
    assert!(text.contains(warning) && !text.contains("sound:"), "{text}");
    let stream = r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk",
        "content":{"type":"text","text":"There is one file in this folder."}}}}"#
        .replace('\n', "");
    let output = rejoin(&["check", &home.file("stream.jsonl", &stream)]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    let words = "it looks like an Agent Client Protocol stream, which rejoin does not read yet";
    assert!(err(&output).contains(words), "{}", err(&output));
}

#[test]
fn one_bad_input_does_not_keep_the_others_from_being_checked() {
    let home = Home::new();
    let (good, bad) = (home.file("good.json", SOUND), home.file("bad.json", "nonsense"));
    let output = rejoin(&["check", "--json", &bad, &good, "/no/such/file"]);
    assert_eq!(code(&output), 1);
    assert_eq!(out(&output).lines().count(), 1);
    assert_eq!(err(&output).matches("error: cannot read").count(), 2);
    assert_eq!(err(&output).matches("hint: ").count(), 2);
}

#[test]
fn nothing_readable_exits_2_with_what_where_and_a_hint() {
    let home = Home::new();
    let deep = "[".repeat(100_000);
    for (name, content, says) in [
        ("empty", b"".to_vec(), "there is nothing in it"),
        ("blank", b" \n ".to_vec(), "there is nothing in it"),
        ("garbage", (0..4000u32).map(|n| (n * 7 % 251) as u8 | 0x80).collect(), "it is not text"),
        ("text", b"dear diary".to_vec(), "not JSON: not a JSON value (line 1, byte 0)"),
        ("cut", b"{\"messages\": [{\"role\":".to_vec(), "not JSON"),
        ("number", b"17".to_vec(), "the format is not known"),
        ("deep", deep.clone().into_bytes(), "not JSON"),
        ("deeper", (deep.clone() + &"]".repeat(100_000)).into_bytes(), "the format is not known"),
    ] {
        let file = home.file(name, content);
        for arguments in [vec!["check", &file], vec!["convert", &file, "--to", "anthropic"]] {
            let output = rejoin(&arguments);
            assert_eq!(code(&output), 2, "{name}: {}", err(&output));
            assert!(err(&output).contains(says), "{name}: {}", err(&output));
            assert!(err(&output).contains(&file), "{name}: it says where");
            assert!(err(&output).contains("hint: "), "{name}: it says what to do");
            assert_eq!(out(&output), "", "{name}");
        }
    }
    cannot_be_checked(home.folder.path(), "hint: give a file in it");
}

fn cannot_be_checked(path: &std::path::Path, says: &str) {
    let output = rejoin(&["check", &path.display().to_string()]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains(says), "{}", err(&output));
}

#[test]
fn a_file_past_the_limit_is_refused_without_being_read_into_memory() {
    let home = Home::new();
    let path = home.path("huge.json");
    fs::File::create(&path).unwrap().set_len(300 * 1024 * 1024).unwrap();
    cannot_be_checked(&path, "larger than the limit of 256 MiB");
}

/// A line past the limit costs itself; the lines around it are read.
#[test]
fn a_line_past_the_limit_is_set_aside() {
    let home = Home::new();
    let path = home.path("lines.jsonl");
    let line = |role: &str| format!("{{\"role\":\"{role}\",\"content\":\"words\"}}\n");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(line("user").as_bytes()).unwrap();
    // A hole in the file: 257 MiB that need not be written.
    file.seek(std::io::SeekFrom::Current(257 * 1024 * 1024)).unwrap();
    file.write_all(format!("\n{}", line("assistant")).as_bytes()).unwrap();
    let output = rejoin(&["check", "--json", &path.display().to_string()]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["messages"], 2);
    assert_eq!(report["findings"][0]["rule"], "damaged-entry");
    assert_eq!(report["findings"][0]["at"], serde_json::json!({"message":1,"block":null,"line":2}));
    let output = rejoin(&["convert", &path.display().to_string(), "--to", "anthropic"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let output = command(&["check", "-"]).stdin(fs::File::open(&path).unwrap()).output().unwrap();
    assert!(out(&output).contains("2 messages"), "{}{}", out(&output), err(&output));
}

#[test]
fn deep_nesting_inside_a_message_is_set_apart() {
    let home = Home::new();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"ok","x":{deep}}},
        {{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":{}}}}}]}},
        {{"role":"tool","tool_call_id":"c","content":"done"}}]}}"#,
        serde_json::to_string(&format!("{{\"a\":{deep}}}")).unwrap()
    );
    let output = rejoin(&["convert", &home.file("deep.json", body), "--to", "anthropic"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let body: Value = serde_json::from_str(&out(&output)).unwrap();
    assert!(body["messages"][2]["content"][0]["input"]["_raw_arguments"].is_string());
    assert!(err(&output).contains("malformed-arguments"));
}

#[test]
fn invalid_utf8_is_replaced_and_said() {
    let home = Home::new();
    let file = home.file("a.json", b"[{\"role\":\"user\",\"content\":\"caf\xe9 ok\"}]");
    let output = rejoin(&["check", "--json", &file]);
    assert_eq!(code(&output), 1);
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    let rules: Vec<_> = report["findings"].as_array().unwrap().iter().map(|found| &found["rule"]).collect();
    assert_eq!(rules, ["OAC-schema", "invalid-utf8"]);
    let output = rejoin(&["convert", &file, "--to", "openai-chat"]);
    assert!(out(&output).contains("caf\u{fffd} ok"));
}

#[test]
fn convert_prints_the_body_and_nothing_else_on_stdout() {
    let home = Home::new();
    let file = home.file("a.json", BROKEN);
    let report = home.path("report.json");
    let output = rejoin(&[
        "convert",
        &file,
        "--to",
        "anthropic",
        "--model",
        "claude-x",
        "--report",
        &report.display().to_string(),
    ]);
    assert_eq!(code(&output), 0);
    let body: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(body["model"], "claude-x");
    assert_eq!(body["messages"].as_array().unwrap().len(), 5);
    assert_eq!(body["tools"][0]["name"], "ls");
    assert!(err(&output).contains("[unanswered-call]") && err(&output).contains("[stub-tools]"));
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report[0]["rule"], "unanswered-call");
}

#[test]
fn convert_in_the_same_dialect_keeps_the_other_fields() {
    let body = r#"{"model":"gpt-x","temperature":0.70,"messages":[{"role":"user","content":"hi"}],"x_unknown":{"a":[1]}}"#;
    let output = piped(&["convert", "-", "--from", "openai-chat", "--to", "openai-chat"], body);
    assert_eq!(out(&output).trim_end(), body);
    assert_eq!(err(&output), "warning: OpenAI would refuse this request: Unknown parameter: 'x_unknown'.\n");
}

#[test]
fn drop_leaves_out_what_keep_keeps() {
    let output = piped(&["convert", "-", "--to", "openai-chat", "--on-broken", "drop"], BROKEN);
    let body: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
}

/// S2-43: repairing can be switched off: then nothing unsound is sent, and the faults are printed.
#[test]
fn refuse_prints_findings_and_exits_1() {
    let refuse = [
        (vec!["--on-broken", "refuse"], None),
        (vec![], Some(("DISABLE_MESSAGE_SANITIZATION", "true"))),
        (vec![], Some(("REJOIN_DISABLE_REPAIR", "true"))),
    ];
    let home = Home::new();
    let (broken, sound) = (home.file("broken.json", BROKEN), home.file("sound.json", SOUND));
    for (flags, variables) in refuse {
        let run = |file: &str| {
            let arguments = [&["convert", file, "--to", "openai-chat"], &flags[..]].concat();
            command(&arguments).envs(variables).output().unwrap()
        };
        let output = run(&broken);
        assert_eq!(code(&output), 1);
        assert_eq!(out(&output), "");
        assert!(
            err(&output).contains("[orphan-result]") && err(&output).contains("hint: "),
            "{}",
            err(&output)
        );
        assert_eq!(code(&run(&sound)), 0);
    }
    // The flag wins over the environment.
    let output = command(&["convert", &broken, "--to", "openai-chat", "--on-broken", "keep"])
        .env("DISABLE_MESSAGE_SANITIZATION", "true")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0);
}

#[test]
fn a_file_of_many_conversations() {
    let home = Home::new();
    let file = home.file("many.jsonl", format!("{SOUND}\n{}\n", BROKEN.replace('\n', " ")));
    let output = rejoin(&["check", "--json", &file]);
    assert_eq!((code(&output), out(&output).lines().count()), (1, 2));
    let output = rejoin(&["convert", &file, "--to", "anthropic"]);
    assert_eq!((code(&output), out(&output)), (2, String::new()));
    assert!(err(&output).contains("2 conversations") && err(&output).contains("--session N"));
    let output = rejoin(&["convert", &file, "--to", "openai-chat", "--session", "1"]);
    assert_eq!((code(&output), out(&output).trim_end()), (0, SOUND));
    assert_eq!(code(&rejoin(&["convert", &file, "--to", "anthropic", "--session", "3"])), 2);
}

#[test]
fn explain_prints_a_page_for_every_rule() {
    let list = out(&rejoin(&["explain"]));
    assert!(list.lines().count() >= 30);
    for line in list.lines() {
        let rule = line.split_whitespace().next().unwrap();
        let output = rejoin(&["explain", rule]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).starts_with(&format!("# {rule}\n")), "{rule}");
        let json: Value = serde_json::from_str(&out(&rejoin(&["explain", "--json", rule]))).unwrap();
        assert_eq!(json["rule"], rule);
    }
    for mistyped in ["orphan-reslt", "orphn", "reslt"] {
        let output = rejoin(&["explain", mistyped]);
        assert_eq!(code(&output), 2);
        assert!(err(&output).contains("orphan-result"), "it says what was meant: {}", err(&output));
    }
}

#[test]
fn usage_and_help() {
    assert_eq!(code(&rejoin(&["--version"])), 0);
    // `--version` alone is answered at once; with other arguments, these are parsed first. The output is the same.
    let version = out(&rejoin(&["--version"]));
    assert_eq!(version, format!("rejoin {}\n", env!("CARGO_PKG_VERSION")));
    for other in [&["-V"][..], &["--color", "never", "--version"]] {
        assert_eq!(out(&rejoin(other)), version, "{other:?}");
    }
    for command in ["check", "convert", "explain", "completions"] {
        let output = rejoin(&[command, "--help"]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains("Usage: rejoin"), "{command}");
    }
    assert!(out(&rejoin(&["check", "--help"])).contains("Examples:"));
    assert_eq!(code(&rejoin(&["convert", "x"])), 2);
    let output = rejoin(&["convert", "x", "--to", "antropic"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("'anthropic'"), "{}", err(&output));
    assert_eq!(code(&rejoin(&["chek"])), 2);
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&rejoin(&["completions", shell])).contains("rejoin"));
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let home = Home::new();
    let file = home.file("a.json", BROKEN);
    assert!(!out(&rejoin(&["check", &file])).contains('\u{1b}'), "no terminal, no colour");
    assert!(out(&rejoin(&["check", &file, "--color", "always"])).contains('\u{1b}'));
    let output = command(&["check", &file]).env("NO_COLOR", "1").output().unwrap();
    assert!(!out(&output).contains('\u{1b}'));
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let body = r#"[{"role":"tool","tool_call_id":"\u001b[2J\u202eevil","content":"x"}]"#;
    let output = piped(&["check", "-"], body);
    assert!(!out(&output).contains('\u{1b}') && !out(&output).contains('\u{202e}'), "{}", out(&output));
    assert!(out(&output).contains("evil"));
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_quiet_success() {
    let home = Home::new();
    let long = format!(r#"[{{"role":"user","content":"{}"}}]"#, "word ".repeat(400_000));
    let file = home.file("long.json", long);
    let mut child = command(&["convert", &file, "--to", "anthropic", "--model", "m", "--max-tokens", "9"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (0, String::new()));
}

#[test]
fn too_large_for_the_provider_is_an_error_with_a_hint() {
    let home = Home::new();
    let long = format!(r#"[{{"role":"user","content":"{}"}}]"#, "word ".repeat(6_500_000));
    let output = rejoin(&["convert", &home.file("long.json", long), "--to", "anthropic"]);
    assert_eq!((code(&output), out(&output)), (1, String::new()));
    assert!(err(&output).contains("ANT-28") && err(&output).contains("hint: "), "{}", err(&output));
}

/// A rollout whose call has no result, in a new home.
fn with_rollout() -> (Home, String) {
    let home = Home::new();
    let source = home.file("rollout.jsonl", format!("{ROLLOUT}{CALL}\n"));
    (home, source)
}

const ROLLOUT: &str = concat!(
    r#"{"timestamp":"t","type":"session_meta","payload":{"id":"0199aaaa-0000-7000-8000-000000000001","timestamp":"t","cwd":"/p","originator":"x","cli_version":"0"}}"#,
    "\n",
    r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}"#,
    "\n",
);
const CALL: &str = r#"{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"ls","arguments":"{}","call_id":"c1"}}"#;

/// The home of someone who uses Codex and Claude Code: one sound session, one broken one, one empty, one cut to nothing.
fn home_with_sessions() -> Home {
    let home = Home::new();
    let day = home.path(".codex/sessions/2026/11/15");
    let project = home.path(".claude/projects/-p");
    fs::create_dir_all(&day).unwrap();
    fs::create_dir_all(&project).unwrap();
    fs::write(day.join("rollout-2026-11-15T12-00-00-0199aaaa-0000-7000-8000-000000000001.jsonl"), ROLLOUT)
        .unwrap();
    fs::write(
        day.join("rollout-2026-11-15T12-00-01-0199aaaa-0000-7000-8000-000000000002.jsonl"),
        format!("{ROLLOUT}{CALL}\n"),
    )
    .unwrap();
    fs::write(day.join("rollout-2026-11-15T12-00-02-0199aaaa-0000-7000-8000-000000000003.jsonl"), "")
        .unwrap();
    let line = r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"},"uuid":"u1","timestamp":"t"}"#;
    fs::write(project.join("s.jsonl"), format!("{line}\n")).unwrap();
    fs::write(home.path(".claude/history.jsonl"), "{}\n").unwrap();
    home
}

fn doctor(home: &Home, arguments: &[&str]) -> Output {
    let mut all = vec!["doctor"];
    all.extend(arguments);
    let mut command = command(&all);
    command.env("HOME", home.folder.path()).env_remove("CODEX_HOME").env_remove("CLAUDE_CONFIG_DIR");
    command.output().unwrap()
}

/// Every file below a folder, with its bytes and when it was written.
fn snapshot(folder: &std::path::Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(snapshot(&path));
        } else {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            found.push((path.clone(), fs::read(&path).unwrap(), modified));
        }
    }
    found.sort();
    found
}

#[test]
fn doctor_finds_every_session_and_changes_nothing() {
    let home = home_with_sessions();
    let before = snapshot(home.folder.path());
    let told = doctor(&home, &[]);
    assert_eq!(code(&told), 1, "{}", err(&told));
    let text = out(&told);
    for words in ["Codex", "Claude Code", "1 of 4 cannot be resumed: 1 unreadable", "rejoin check PATH"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let json: Value = serde_json::from_str(&out(&doctor(&home, &["--json"]))).unwrap();
    assert_eq!((&json["sessions"], &json["broken"], &json["unreadable"]), (&4.into(), &1.into(), &1.into()));
    let broken: Vec<_> =
        json["found"].as_array().unwrap().iter().filter(|found| found["resumable"] == false).collect();
    assert_eq!(broken.len(), 1);
    // Codex answers its unanswered calls itself.
    let mended = |found: &&Value| found["problems"]["unanswered-call"] == 1;
    let mended = json["found"].as_array().unwrap().iter().find(mended).unwrap();
    assert_eq!((&mended["resumable"], &mended["state"]), (&true.into(), &"mended_by_its_agent".into()));
    assert_eq!(snapshot(home.folder.path()), before);
    // A folder that the user names is searched, too.
    let more = Home::new();
    let sound = more.file("one.json", SOUND);
    let json: Value = serde_json::from_str(&out(&doctor(&home, &["--json", &sound]))).unwrap();
    assert_eq!(json["sessions"], 5);
}

#[test]
fn doctor_in_an_empty_home() {
    let home = Home::new();
    let told = doctor(&home, &[]);
    assert_eq!(code(&told), 0);
    assert!(out(&told).contains("No sessions found"));
    assert_eq!(code(&doctor(&home, &["/nowhere/at/all"])), 2);
    // A file that someone names is never passed over.
    let empty = home.file("empty.jsonl", "");
    let named = doctor(&home, &[&empty]);
    assert_eq!(code(&named), 1);
    assert!(out(&named).contains("there is nothing in it"), "{}", out(&named));
    let about = doctor(&home, &["--self"]);
    assert_eq!(code(&about), 0);
    assert!(out(&about).contains("claude-code"), "{}", out(&about));
}

/// A mended copy is a separate session; the source stays unchanged.
#[test]
fn convert_writes_session_files() {
    let (home, source) = with_rollout();
    for format in ["codex", "claude-code", "turns", "jsonl", "markdown"] {
        let done = rejoin(&["convert", &source, "--to", format]);
        assert_eq!(code(&done), 0, "{format} {}", err(&done));
        assert!(out(&done).contains("go"), "{format}");
        if format == "markdown" {
            continue;
        }
        let copy = home.file(&format!("copy.{format}"), out(&done));
        let checked = rejoin(&["check", "--json", &copy]);
        let json: Value = serde_json::from_str(&out(&checked)).unwrap();
        assert_eq!(json["format"], format);
        // rejoin's own record keeps broken states unchanged; the other formats are mended.
        assert_eq!(json["sound"], format != "jsonl", "{json}");
        assert_eq!(json["calls"], 1);
    }
    assert_eq!(fs::read_to_string(&source).unwrap(), format!("{ROLLOUT}{CALL}\n"));
    let wrong = rejoin(&["convert", &source, "--to", "nothing"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("claude-code"), "{}", err(&wrong));
}

/// A database goes to a file or into a pipe, and can be read like any other source.
#[test]
fn convert_writes_databases() {
    let (home, source) = with_rollout();
    for format in ["goose", "llm", "xzatoma"] {
        let piped = rejoin(&["convert", &source, "--to", format]);
        assert_eq!(code(&piped), 0, "{format} {}", err(&piped));
        assert!(piped.stdout.starts_with(b"SQLite format 3\0"), "{format}");
        let piped = home.file(&format!("{format}-piped.db"), &piped.stdout);
        let saved = home.path(&format!("{format}.db")).display().to_string();
        let save = ["convert", &source, "--to", format, "-o", &saved];
        let done = rejoin(&save);
        assert_eq!(code(&done), 0, "{format} {}", err(&done));
        assert!(done.stdout.is_empty(), "{format}");
        for copy in [&piped, &saved] {
            let checked = rejoin(&["check", "--json", copy]);
            let json: Value = serde_json::from_str(&out(&checked)).unwrap();
            assert_eq!(json["format"], format);
            assert_eq!(json["sound"], true, "{json}");
            assert_eq!(json["calls"], 1, "{json}");
        }
        // An existing file is only replaced on request.
        let before = fs::read(&saved).unwrap();
        let refused = rejoin(&save);
        assert_eq!(code(&refused), 1, "{format}");
        assert!(err(&refused).contains("already exists"), "{}", err(&refused));
        assert_eq!(fs::read(&saved).unwrap(), before, "{format}");
        let forced = rejoin(&["convert", &source, "--to", format, "-o", &saved, "--force"]);
        assert_eq!(code(&forced), 0, "{format} {}", err(&forced));
    }
}

/// A fork is read with the file next to it; a path in a transcript opens nothing else.
#[test]
fn a_fork_finds_its_parent() {
    let home = home_with_sessions();
    let day = home.path(".codex/sessions/2026/11/15");
    let meta = format!(
        r#"{{"timestamp":"t","ordinal":2,"type":"session_meta","payload":{{"id":"0199bbbb-0000-7000-8000-00000000000b","timestamp":"t","cwd":"/p","originator":"x","cli_version":"0","history_mode":"paginated","history_base":{{"thread_id":"0199aaaa-0000-7000-8000-000000000001","end_ordinal_exclusive":2,"end_byte_offset":{}}}}}}}"#,
        ROLLOUT.len()
    );
    let path = day.join("rollout-2026-11-15T13-00-00-0199bbbb-0000-7000-8000-00000000000b.jsonl");
    fs::write(&path, format!("{meta}\n")).unwrap();
    let json: Value =
        serde_json::from_str(&out(&rejoin(&["check", "--json", path.to_str().unwrap()]))).unwrap();
    assert_eq!((&json["messages"], &json["sound"]), (&1.into(), &true.into()));
    let other = meta.replace("0199aaaa-0000-7000-8000-000000000001", "../../../secret");
    fs::write(&path, format!("{other}\n")).unwrap();
    let json: Value =
        serde_json::from_str(&out(&rejoin(&["check", "--json", path.to_str().unwrap()]))).unwrap();
    assert_eq!(json["findings"][0]["rule"], "broken-chain");
}
