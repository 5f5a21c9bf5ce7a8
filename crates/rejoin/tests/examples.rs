//! The examples run and print what they promise. `cargo test` builds them next to the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]
#![cfg(feature = "agent")]

use std::{fs, path::Path, process::Command};

use rejoin::{Dialect, Input, ReadError, sessions};
use testkit::loopback::{Config, Loopback, Service};

/// The output of an example, line by line.
fn run(name: &str, arguments: &[&str]) -> Vec<String> {
    run_with(name, arguments, &[])
}

/// The output of an example with environment variables.
fn run_with(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let beside = std::env::current_exe().unwrap();
    let folder = beside.parent().and_then(Path::parent).unwrap().join("examples");
    let program = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if std::env::var_os("CARGO_LLVM_COV").is_some() {
        // Under coverage, only tests are built.
        let target = folder.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--package", "rejoin", "--example", name, "--target-dir"])
            .arg(target);
        assert!(build.status().unwrap().success(), "{name}");
    }
    assert!(program.is_file(), "{} is not there: `cargo test -p rejoin` builds it", program.display());
    let output = Command::new(program).args(arguments).envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs an example with a store in memory and with each kind on disk.
fn run_everywhere(name: &str) -> [Vec<String>; 3] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let places = [None, Some(format!("sqlite:{path}/chats.db")), Some(format!("jsonl:{path}/chats"))];
    let lines = places.map(|place| run(name, place.as_deref().as_slice()));
    println!("{}", lines.concat().join("\n"));
    assert!(folder.path().join("chats.db").is_file() && folder.path().join("chats").is_dir());
    lines
}

/// Runs an example that keeps its conversations in the folder `kept` of this one.
fn run_in_a_folder(name: &str) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let lines = run(name, &[&folder.path().join("kept").display().to_string()]);
    println!("{}", lines.join("\n"));
    (folder, lines)
}

/// The texts of the last line, which is a request body that its provider takes.
fn body_of(lines: &[String], dialect: Dialect) -> String {
    let body = lines.last().unwrap();
    assert_eq!(testkit::refusals(dialect, body.as_bytes()), [], "{body}");
    body.clone()
}

#[test]
fn store() {
    for lines in run_everywhere("store") {
        assert_eq!(lines[0], "saved: yes");
        assert!(lines[1].starts_with("unanswered-call: "), "{}", lines[1]);
        assert_eq!(lines[2], "2 messages are stored, 3 are in the view");
        let body = body_of(&lines, Dialect::Anthropic);
        assert!(body.contains("claude-x") && body.contains("no result was recorded"), "{body}");
    }
}

#[test]
fn recover() {
    let (folder, lines) = run_in_a_folder("recover");
    assert!(
        lines[0].contains(" is damaged at line 3: ") && lines[0].ends_with("[CORRUPTED_ROLLOUT]"),
        "{}",
        lines[0]
    );
    let begins = |beginning: &str| lines.iter().filter(|line| line.starts_with(beginning)).count();
    assert_eq!((begins("damaged-entry: "), begins("torn-tail: "), begins("saved: yes")), (1, 1, 1));
    let said: Vec<&String> =
        lines.iter().filter(|line| line.starts_with("user: ") || line.starts_with("assistant: ")).collect();
    assert_eq!(
        said,
        ["user: Who are you?", "user: What is 2 + 2?", "assistant: 4, as ever.", "user: And 3 + 3?"]
    );
    assert!(body_of(&lines, Dialect::OpenAiChat).contains("And 3 + 3?"));
    // Both of them, with the bytes that they had.
    let kept: Vec<String> = fs::read_dir(folder.path().join("kept/aside"))
        .unwrap()
        .map(|file| String::from_utf8(fs::read(file.unwrap().path()).unwrap()).unwrap())
        .collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().any(|text| text.contains("Another one")), "{kept:?}");
}

#[test]
fn turns() {
    let (folder, lines) = run_in_a_folder("turns");
    assert_eq!(
        lines[..6],
        [
            "demo: openai (gpt-x)",
            "turn of 2 items",
            "turn of 2 items",
            "compacted: Alice said hello.",
            "turn of 2 items",
            "Conversation nobody not found. Run: rejoin list [CONVERSATION_NOT_FOUND]",
        ]
    );
    let body = body_of(&lines, Dialect::OpenAiChat);
    assert!(body.contains("Alice said hello.") && body.contains("You are Alice."), "{body}");
    assert!(!body.contains("Little."), "what was compacted is not sent: {body}");
    // The file is in the format that everybody reads.
    let bytes = fs::read(folder.path().join("kept/demo.jsonl")).unwrap();
    let input = Input::new("demo.jsonl", &bytes).unwrap();
    let read: Result<_, ReadError> = sessions::read(&input, None);
    assert_eq!(read.unwrap()[0].format, "turns");
}

/// S0-05: an agent with its own calculator.
#[test]
fn agent() {
    let lines = run("agent", &[]);
    println!("{}", lines.join("\n"));
    assert!(
        lines.contains(&String::from(r#"  calculate {"expression":"6 * 7"}"#))
            && lines.contains(&"  = 42".into())
    );
    assert!(lines.contains(&String::from("6 * 7 = 42 (4 new messages)")));
    assert!(lines.contains(&String::from("Your name is Alice. (2 new messages)")));
    assert_eq!(lines.last().unwrap(), "8 messages, state COMPLETE");
}

/// An agent on a provider over real HTTP, with a tool, kept in a store.
#[test]
fn http() {
    let server = Loopback::start(Config::default());
    let folder = tempfile::tempdir().unwrap();
    let store = format!("jsonl:{}", folder.path().join("chats").display());
    let base = server.base(Service::OpenAi);
    let variables =
        [("OPENAI_BASE_URL", base.as_str()), ("OPENAI_API_KEY", "sk-loopback"), ("OPENAI_MODEL", "gpt-4.1")];
    let lines = run_with("http", &["tools:1 What is the weather?", &store], &variables);
    println!("{}", lines.join("\n"));
    assert_eq!(lines[0], format!("asking {base}/chat/completions"));
    assert!(lines[1].starts_with("calls weather {"), "{}", lines[1]);
    assert!(lines[2].starts_with("result: It is sunny in "), "{}", lines[2]);
    assert!(lines.last().unwrap().starts_with("4 messages are kept in conv_"), "{lines:?}");
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "the question, and the result of the tool");
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer sk-loopback")));
    assert_eq!(
        fs::read_dir(folder.path().join("chats"))
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "jsonl")
            })
            .count(),
        1
    );
}

/// S3-01, S3-04: a manager whose conversation another manager continues.
#[test]
fn manager() {
    for lines in run_everywhere("manager") {
        assert_eq!(lines[..2], ["runs calculate", "ended: Done"]);
        assert!(lines[3..5] == ["resumed with 4 messages", "Your name is Alice."], "{lines:?}");
        assert!(lines[5].ends_with(": 6 messages, offline, ready"), "{}", lines[5]);
        assert_eq!(lines[6], "Conversation nobody not found. Run: rejoin list [CONVERSATION_NOT_FOUND]");
    }
}

/// S0-37: a test of an agent, as people write it.
#[test]
fn scripted() {
    let lines = run("scripted", &[]);
    println!("{}", lines.join("\n"));
    assert_eq!(
        lines[..3],
        ["failed: the answer was cut off [CUT]", "kept: 6 messages", "answered: It was 4."]
    );
    let requests: Vec<&String> = lines.iter().filter(|line| line.starts_with("request ")).collect();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|line| line.ends_with(", 0 things that Anthropic refuses")), "{requests:?}");
    let body = body_of(&lines, Dialect::Anthropic);
    assert!(!body.contains("an orphan") && body.contains(r#""tool_use_id":"call_1""#), "{body}");
}

#[test]
fn mend_and_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body.json");
    fs::write(&body, r#"[{"role":"assistant","content":"Where was I?"}]"#).unwrap();
    let lines = run("mend", &[&body.display().to_string(), "anthropic"]);
    body_of(&lines, Dialect::Anthropic);
    let lines = run("sequence", &[]);
    assert_eq!(lines.last().unwrap(), "after: []");
}

/// S4-12, S4-15: a bot saves only the new messages of each turn, and remembers its users in the next process.
#[test]
fn a_bot_remembers_its_users() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", folder.path().join("bot.db").display());
    let first = run("bot", &[&place]);
    assert_eq!(first[0], "ann in red: You told me 0 things before \"hello\".");
    assert_eq!(first[2], "ann in red: You told me 1 things before \"what did I say?\".");
    let second = run("bot", &[&place]);
    assert_eq!(second[0], "ann in red: You told me 2 things before \"hello\".");
    assert_eq!(second[1], "bob in red: You told me 1 things before \"good evening\".");
}
