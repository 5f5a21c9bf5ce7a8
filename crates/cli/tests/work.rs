//! Tools that change things, from the outside: `run`, approvals, rules, `history edits` and `undo`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use expectrl::{Eof, Expect as _, session::OsSession};
use serde_json::Value;
use support::{Home, Ran};

const WRITE: &str = "write `hello` to notes/a.txt";

fn task<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--provider", "offline"], arguments].concat()
}

/// S0-01, S0-05: a task that changes a file inside the workspace: its last words on standard output, everything else on standard
/// error, and a conversation that is active.
#[test]
fn a_task_in_mode_auto() {
    Home::each(|home| {
        let ran = home.run(&task(&["--mode", "auto", WRITE]));
        assert_eq!((ran.code, ran.out.as_str()), (0, "created `notes/a.txt` (1 line)\n"), "{}", ran.err);
        assert_eq!(fs::read_to_string(home.path("here/notes/a.txt")).unwrap(), "hello\n");
        let edits = home.lines(&["history", "edits", "--json"]);
        assert_eq!((&edits[0]["path"], &edits[0]["state"]), (&"notes/a.txt".into(), &"applied".into()));
        assert_eq!((&edits[0]["by"], &edits[0]["tool"]), (&"mode".into(), &"write_file".into()));
        home.verifies();
    });
}

/// S1-34: in a git repository, a change names the commit that was checked out; elsewhere it names none.
#[test]
fn a_change_names_the_commit() {
    let home = Home::new("sqlite");
    home.out(&task(&["--mode", "auto", WRITE]));
    let none = &home.lines(&["history", "edits", "--json"])[0];
    assert_eq!((&none["commit"], &none["confidence"]), (&Value::Null, &Value::Null));
    let commit = "1f7a7a472abf3dd9643fd615f6da379c4acb3e3a";
    fs::create_dir(home.path("here/.git")).unwrap();
    fs::write(home.path("here/.git/HEAD"), commit).unwrap();
    home.out(&task(&["--mode", "auto", "write `more` to notes/a.txt"]));
    assert_eq!(home.lines(&["history", "edits", "--json"])[0]["commit"], commit);
    assert!(home.out(&["history", "edits"]).contains(", turn 1, allowed by the mode, at commit 1f7a7a4)\n"));
}

/// Without a terminal, `ask` means no, with a result that says so; nothing waits and nothing changes.
#[test]
fn without_a_terminal_ask_means_no() {
    let home = Home::new("sqlite");
    let ran = home.run(&task(&[WRITE]));
    assert_eq!(ran.code, 0, "the model came to an end: {}", ran.err);
    assert!(ran.out.contains("there is no terminal to ask at"), "{}", ran.out);
    assert!(!home.path("here/notes").exists());
    let edits = home.lines(&["history", "edits", "--json"]);
    assert_eq!(edits[0]["state"], "denied");
    assert!(edits[0]["diff"].as_str().unwrap().contains("+hello"));
    // Reading is free.
    fs::write(home.path("here/b.txt"), "inside").unwrap();
    assert!(home.run(&task(&["read b.txt"])).out.contains("inside"));
}

#[test]
fn read_only_changes_nothing() {
    let home = Home::new("sqlite");
    for asked in [WRITE, "run `touch made`"] {
        let ran = home.run(&task(&["--mode", "read-only", asked]));
        assert!(ran.out.contains("the mode is read-only"), "{}", ran.out);
    }
    assert_eq!(fs::read_dir(home.path("here")).unwrap().count(), 0);
}

#[test]
fn rules_decide_before_the_mode() {
    let home = Home::new("sqlite");
    home.out(&["config", "set", "allow", r#"["write_file:notes/*", "run:echo *"]"#]);
    home.out(&["config", "set", "deny", "run:echo secret"]);
    assert_eq!(home.run(&task(&[WRITE])).out, "created `notes/a.txt` (1 line)\n");
    assert!(home.run(&task(&["write `x` to other.txt"])).out.contains("not approved"));
    assert!(home.run(&task(&["run `echo fine`"])).out.contains("fine\n[exit code 0]"));
    for evasion in ["echo fine; touch made", "echo $(touch made)", "echo fine > made"] {
        let ran = home.run(&task(&[&format!("run `{evasion}`")]));
        assert!(ran.out.contains("not approved"), "{evasion}: {}", ran.out);
    }
    assert!(!home.path("here/made").exists());
    let denied = home.run(&task(&["--mode", "auto", "run `echo secret`"]));
    assert!(denied.out.contains("the rule `run:echo secret` denies it"), "{}", denied.out);
    let bad = home.run(&["config", "set", "allow", "run:"]);
    assert_eq!(bad.code, 2, "{}", bad.out);
}

/// A program answers on standard input, by call id.
#[test]
fn approvals_on_standard_input() {
    for (answer, written) in [("yes", true), ("no", false)] {
        let home = Home::new("jsonl");
        let mut command = home.command(&task(&["--json", "--approvals", "stdin", WRITE]));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut answers = child.stdin.take().unwrap();
        let mut asked = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if event["type"] == "approval_wanted" {
                asked += 1;
                assert!(event["preview"].as_str().unwrap().contains("+hello"), "{event}");
                let reply =
                    serde_json::json!({"call_id": event["call_id"], "answer": answer, "reason": "not now"});
                writeln!(answers, "{reply}").unwrap();
            }
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!((asked, home.path("here/notes/a.txt").exists()), (1, written), "{answer}");
        let edit = &home.lines(&["history", "edits", "--json"])[0];
        assert_eq!(edit["by"], "program");
    }
}

/// If standard input ends, the answer is no. Nothing hangs.
#[test]
fn approvals_that_never_come() {
    let home = Home::new("sqlite");
    let mut command = home.command(&task(&["--approvals", "stdin", WRITE]));
    let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
    assert!(ran.code == 0 && ran.out.contains("no answer came"), "{}{}", ran.out, ran.err);
}

fn on_terminal(home: &Home, arguments: &[&str]) -> OsSession {
    let mut command = home.command(arguments);
    let editor = home.file("editor", "#!/bin/sh\necho edited > \"$1\"\n");
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    command.env("NO_COLOR", "1").env("TERM", "xterm").env("EDITOR", editor).env_remove("VISUAL");
    let mut session = OsSession::spawn(command).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(30)));
    session
}

/// At a terminal a person sees the difference, and answers yes, no with a reason, always, edit first, or stop.
#[test]
fn a_person_decides_at_the_terminal() {
    for (answers, content, said) in [
        (&["y"][..], Some("hello\n"), "created `notes/a.txt`"),
        (&["n", "wrong name"], None, "not approved: wrong name"),
        (&["maybe", "a"], Some("hello\n"), "created `notes/a.txt`"),
        (&["e"], Some("edited\n"), "a person edited"),
        (&["s"], None, "stopped"),
    ] {
        let home = Home::new("sqlite");
        let mut session = on_terminal(&home, &task(&[WRITE]));
        session.expect("+hello").unwrap();
        for answer in answers {
            session.expect("? ").unwrap();
            session.send_line(answer).unwrap();
            if *answer == "n" {
                session.expect("Reason for the model").unwrap();
                session.send_line(answers[1]).unwrap();
                break;
            }
        }
        session.expect(said).unwrap();
        session.expect(Eof).unwrap();
        let found = fs::read_to_string(home.path("here/notes/a.txt")).ok();
        assert_eq!(found.as_deref(), content, "{answers:?}");
        if let Some(content) = content {
            let edit = &home.lines(&["history", "edits", "--json"])[0];
            assert_eq!((&edit["by"], &edit["state"]), (&"person".into(), &"applied".into()));
            assert!(edit["diff"].as_str().unwrap().contains(content.trim()), "{edit}");
        }
    }
}

/// Killed while a question is open: nothing ran, the list shows it, and `resume` asks again.
#[test]
fn a_question_survives_a_kill() {
    Home::each(|home| {
        let mut session = on_terminal(home, &["chat", "--provider", "offline", WRITE]);
        session.expect("[y]es").unwrap();
        let process = session.get_process().pid().to_string();
        assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
        session.expect(Eof).unwrap();
        assert!(!home.path("here/notes").exists());
        let list = home.lines(&["list", "--json"]);
        assert_eq!(list[0]["state"], "approval", "{list:?}");
        let mut session = on_terminal(home, &["resume", "@"]);
        session.expect("+hello").unwrap();
        session.expect("[y]es").unwrap();
        session.send_line("y").unwrap();
        session.expect("created `notes/a.txt`").unwrap();
        session.expect("›").unwrap();
        session.send_line("/exit").unwrap();
        session.expect(Eof).unwrap();
        assert_eq!(fs::read_to_string(home.path("here/notes/a.txt")).unwrap(), "hello\n");
        home.verifies();
    });
}

/// Escape sequences in a diff, a command or its output never reach the terminal.
#[test]
fn escapes_in_previews_and_output_are_shown() {
    let home = Home::new("sqlite");
    let evil = "run `printf '\\033]0;title\\007\\033[2J'; echo \u{1b}[31m\u{202e}`";
    let mut session = on_terminal(&home, &task(&[evil]));
    let asked = session.expect("[y]es").unwrap();
    session.send_line("y").unwrap();
    let rest = session.expect(Eof).unwrap();
    for part in [asked.as_bytes(), rest.as_bytes()] {
        let text = String::from_utf8_lossy(part).replace("\r\n", "\n");
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}') && !text.contains('\u{202e}'),
            "{text:?}"
        );
    }
}

/// A turn that overwrites a file with this content.
fn overwrite(home: &Home, content: &str) {
    fs::create_dir_all(home.path("here/notes")).unwrap();
    fs::write(home.path("here/notes/a.txt"), content).unwrap();
    home.out(&task(&["--mode", "auto", WRITE]));
}

/// `undo` restores the files of the last turn, and leaves alone what something else has changed since.
#[test]
fn undo_restores_and_leaves_alone() {
    Home::each(|home| {
        overwrite(home, "before\n");
        let dry = home.run(&["undo", "--dry-run"]);
        assert_eq!((dry.code, dry.out.as_str()), (0, "notes/a.txt: would be restored\n"));
        assert_eq!(home.out(&["undo"]), "notes/a.txt: restored\n");
        assert_eq!(fs::read_to_string(home.path("here/notes/a.txt")).unwrap(), "before\n");
        assert_eq!(home.lines(&["history", "edits", "--json"])[0]["state"], "reverted");
        assert_eq!(home.run(&["undo"]).out, "", "there is nothing left");
        // A new file goes away again.
        home.out(&task(&["--mode", "auto", "write `new` to b.txt"]));
        assert_eq!(home.out(&["undo"]), "b.txt: removed, as it did not exist before\n");
        assert!(!home.path("here/b.txt").exists());
        // Something else has changed it.
        home.out(&task(&["--mode", "auto", "write `new` to c.txt"]));
        fs::write(home.path("here/c.txt"), "mine").unwrap();
        let left = home.run(&["undo", "--json"]);
        let line: Value = serde_json::from_str(&left.out).unwrap();
        assert_eq!((left.code, &line["outcome"]), (1, &"left_alone".into()));
        assert_eq!(fs::read_to_string(home.path("here/c.txt")).unwrap(), "mine");
        home.verifies();
    });
}

/// Erasing the message of a call erases the file that the record kept for it.
#[test]
fn erasing_a_call_erases_the_file_before() {
    Home::each(|home| {
        overwrite(home, "swordfish is the password\n");
        assert!(home.out(&["history", "export", "@", "--to", "jsonl"]).contains("swordfish"));
        let dry = home.out(&["history", "erase", "@", "-m", "1", "--dry-run"]);
        assert!(dry.contains("  1 message and 2 recorded changes in 3 entries, "), "{dry}");
        home.out(&["history", "erase", "@", "-m", "1", "--yes"]);
        assert!(!home.out(&["history", "export", "@", "--to", "jsonl"]).contains("swordfish"));
        let edits = home.run(&["history", "edits"]);
        assert_eq!(edits.code, 0, "{}", edits.err);
        home.verifies();
    });
}

/// A command in the sandbox: both streams in order, its exit code, no key, no file outside.
#[test]
fn a_command_in_the_sandbox() {
    let home = Home::new("sqlite");
    home.file("outside", "secret");
    let run = |command: &str| {
        let mut command = home.command(&task(&["--mode", "auto", &format!("run `{command}`")]));
        Ran::of(command.env("OPENAI_API_KEY", "sk-very-secret").output().unwrap())
    };
    let ran = run("echo one; echo two >&2; echo three; exit 3");
    assert!(ran.out.contains("one\ntwo\nthree\n[exit code 3]"), "{}{}", ran.out, ran.err);
    assert!(!run("env").out.contains("very-secret"));
    let doctor = home.out(&["doctor", "--self", "--json"]);
    if doctor.contains(r#""none""#) {
        println!("there is no sandbox here: what it keeps out is not tested");
        return;
    }
    let read = run(&format!("cat {}", home.path("outside").display()));
    assert!(!read.out.contains("secret"), "{}", read.out);
    let written = run(&format!("echo x > {}", home.path("escaped").display()));
    assert!(!home.path("escaped").exists(), "{}", written.out);
}

/// A command that never ends, floods, forks for ever or closes its streams: a clear result, a bounded cost, and the turn continues.
#[test]
fn commands_that_misbehave_are_stopped() {
    let home = Home::new("sqlite");
    for (command, said) in [
        ("yes", "more bytes were not kept]\n[stopped after 2 seconds, with everything that it had started]"),
        ("sleep 600 & sleep 600", "[stopped after 2 seconds, with everything that it had started]"),
        ("exec >&- 2>&-; sleep 0.1; exit 4", "[exit code 4]"),
        ("printf '\\377\\376'; kill -9 $$", "[ended by signal 9]"),
        // Slow enough that other tests can start processes meanwhile.
        ("while :; do sleep 600 & done", "[stopped"),
    ] {
        let mut ran = home.command(&task(&["--mode", "auto", &format!("run `{command}`")]));
        ran.env("REJOIN_LIMITS_TOOL_SECONDS", "2").env("REJOIN_LIMITS_OUTPUT_KEPT", "50000");
        let ran = Ran::of(ran.output().unwrap());
        assert_eq!(ran.code, 0, "the model came to an end: {}", ran.err);
        assert!(ran.out.contains(said), "{command}: {}", &ran.out[ran.out.len().saturating_sub(300)..]);
        assert!(ran.out.len() < 60_000, "{command}");
    }
}

/// A store inside the workspace is named, and every command asks, also in mode auto.
#[test]
fn a_store_in_the_workspace_makes_commands_ask() {
    let home = Home::new("sqlite");
    let mut command = home.command(&task(&["--mode", "auto", "run `echo hi`"]));
    command.env("REJOIN_STORE", format!("sqlite:{}", home.path("here/chats.db").display()));
    let ran = Ran::of(command.output().unwrap());
    assert!(ran.out.contains("not approved"), "{}", ran.out);
    assert!(ran.err.contains("belongs to rejoin and is inside the workspace"), "{}", ran.err);
}

#[test]
fn limits_of_a_task() {
    let home = Home::new("sqlite");
    let ran = home.run(&task(&["--max-requests", "1", "What is 6*7?"]));
    assert_eq!(ran.code, 1, "the model did not come to its end: {}", ran.err);
    assert_eq!(home.run(&task(&["--max-requests", "0", "hi"])).code, 2);
    assert_eq!(home.run(&task(&["--max-cost", "1", "hi"])).code, 0, "the responder is free");
    let mut command = home.command(&[
        "run",
        "--provider",
        "openai",
        "--base-url",
        "http://127.0.0.1:9",
        "--max-cost",
        "1",
        "hi",
    ]);
    let ran = Ran::of(command.env("OPENAI_API_KEY", "sk-x").output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("price"), "{}", ran.err);
}
