//! The prompt on a real pseudo-terminal, apart from plain messages: /commands, files, commands by hand, and the questions before
//! the first prompt.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, time::Duration};

use expectrl::{ControlCode, Eof, Expect as _, session::OsSession};
use support::{
    Home, Ran, has,
    services::{PROVIDERS, slow_server},
};
use testkit::loopback::{Config, Loopback};

/// A prompt that a test types at.
struct Prompt(OsSession);

impl Prompt {
    /// Starts one with the built-in responder, and waits for it.
    fn start(home: &Home) -> Self {
        Self::with(home.command(&["--color", "never", "chat", "--provider", "offline"]))
    }

    /// Runs a test at a prompt on every kind of store.
    fn each(test: impl Fn(&Home, Self)) {
        Home::each(|home| test(home, Self::start(home)));
    }

    fn with(command: std::process::Command) -> Self {
        let mut prompt = Self::spawn(command);
        prompt.expect("›");
        prompt
    }

    fn spawn(mut command: std::process::Command) -> Self {
        // This tests the commands and not the line editor, which has its own tests in `screens.rs`.
        command.env("TERM", "dumb").env("SHELL", "/bin/sh");
        let mut session = OsSession::spawn(command).unwrap();
        session.set_expect_timeout(Some(Duration::from_secs(30)));
        Self(session)
    }

    fn expect(&mut self, text: &str) -> String {
        let found = self.0.expect(text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        String::from_utf8_lossy(found.before()).into_owned()
    }

    /// Types a line, and returns the output until the next prompt.
    fn say(&mut self, line: &str) -> String {
        self.0.send_line(line).unwrap();
        self.expect("›")
    }

    /// Types a line, and checks for parts of the output.
    fn says(&mut self, line: &str, parts: &[&str]) {
        has(&self.say(line).replace("\r\n", "\n"), parts);
    }

    /// Replies to a question, and waits for a text.
    fn replies(&mut self, line: impl AsRef<str>, text: &str) {
        self.0.send_line(line.as_ref()).unwrap();
        self.expect(text);
    }

    fn leave(mut self) {
        self.0.send_line("/exit").unwrap();
        self.0.expect(Eof).unwrap();
    }
}

fn contents(home: &Home) -> Vec<String> {
    let shown = home.lines(&["history", "show", "@", "--json"]);
    shown.iter().map(|one| one["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// S0-08, S0-10, S0-11, S0-12, S0-13, S0-44, S0-45: every command does its work, and is recorded with its result; no model sees it.
#[test]
fn commands_work_and_are_recorded() {
    Prompt::each(|home, mut prompt| {
        prompt.says("my name is Alice", &["your name is Alice"]);
        prompt.say(&"A long story about a dog. ".repeat(40));
        for (line, parts) in [
            ("/help", &["/models [list]", "/rewind N", "Ctrl-C stops a turn"][..]),
            ("/help pin", &["/pin N", "/history numbers the messages"]),
            ("/models list", &["offline", "tiny"]),
            ("/model tiny", &["Provider: offline, model: tiny"]),
            ("/provider", &["Provider: offline, model: tiny"]),
            ("/tools", &["read_file", "calculate"]),
            ("/mode read-only", &["Mode: read-only"]),
            ("/mcp", &["There are no MCP servers."]),
            ("/history", &["[0] USER", "my name is Alice"]),
            ("/show 0", &["my name is Alice"]),
            ("/view", &["my name is Alice"]),
            ("/findings", &["sound"]),
            ("/search Alice", &["[0] USER"]),
            ("/title Names of people", &["is now called: Names of people"]),
            ("/title", &["Names of people"]),
            ("/pin 0", &["Message 0 of", "is pinned"]),
            ("/branches", &["* 1  my name is Alice"]),
            ("/context", &["You are rejoin", "the usual ones", "tokens"]),
            ("2+2", &["2+2 = 4"]),
            ("3+3", &["3+3 = 6"]),
            ("/compact the names", &["The record keeps every word"]),
            ("/uncompact", &["after"]),
            ("/prune", &["No result needs to be removed"]),
            ("/stats", &["By model", "By tool"]),
            ("/export", &["## User", "my name is Alice"]),
            ("/export kept.md", &["written to kept.md"]),
            ("/export --to openai-chat", &["my name is Alice"]),
            ("/show", &["/show needs N"]),
            ("/show 999", &["there is no message 999", "/history numbers the messages"]),
            ("/resume nosuch", &["not found", "/resume lists the conversations"]),
            ("/undo", &["There is nothing to undo"]),
            ("/resume", &["/resume ID"]),
            ("/clear", &[]),
            ("What's my name?", &["Your name is Alice."]),
        ] {
            println!("{line}");
            prompt.says(line, parts);
        }
        prompt.0.send_line("exit").unwrap();
        prompt.0.expect(Eof).unwrap();
        let said = contents(home);
        for result in [
            "User executed command: /models list\nCommand result: 2 models available",
            "User executed command: /help\nCommand result: User viewed help",
            "User executed command: /mode read-only\nCommand result: Mode: read-only",
            "User executed command: exit",
        ] {
            assert!(said.iter().any(|one| one == result), "{result:?} in {said:#?}");
        }
        let show = said.iter().find(|one| one.contains("/show 0")).unwrap();
        assert!(!show.contains("Alice"), "what the record shows is not copied into it: {show}");
        let commands = home.lines(&["history", "show", "@", "--json"]);
        assert!(commands.iter().filter(|one| one["type"] == "command").all(|one| one["role"] == "system"));
        let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
        assert!(!sent.contains("/models") && !sent.contains("/help"), "{sent}");
        home.verifies();
    });
}

/// S0-54: commands alone can be looked up; help and leaving alone leave nothing behind.
#[test]
fn commands_before_the_first_message_are_recorded() {
    Prompt::each(|home, mut prompt| {
        prompt.says("/help", &["/models"]);
        prompt.leave();
        assert_eq!(home.lines(&["list", "--json"]).len(), 0, "help begins no conversation");
        let mut prompt = Prompt::start(home);
        prompt.say("/help");
        prompt.say("/models list");
        prompt.0.send_line("exit").unwrap();
        prompt.0.expect(Eof).unwrap();
        let said = contents(home);
        let parts = [
            "/help\nCommand result: User viewed help",
            "/models list\nCommand result: 2 models available",
            "exit",
        ];
        assert_eq!(said, parts.map(|part| format!("User executed command: {part}")));
        // The next prompt continues it.
        let mut prompt = Prompt::with(home.command(&["--color", "never", "chat", "--provider", "offline"]));
        prompt.says("my name is Bob", &["your name is Bob"]);
        prompt.leave();
        assert_eq!(home.lines(&["list", "--json"]).len(), 1);
        assert_eq!(contents(home)[3], "my name is Bob");
    });
}

/// S0-14, S0-44: nothing is recorded while the setting is off.
#[test]
fn commands_are_not_recorded_when_that_is_off() {
    let home = Home::new("sqlite");
    home.out(&["config", "set", "persist_special_commands", "false"]);
    let mut prompt = Prompt::start(&home);
    prompt.say("/models list");
    prompt.say("my name is Alice");
    prompt.say("/help");
    prompt.say("!echo hello");
    prompt.leave();
    assert_eq!(contents(&home).len(), 2, "{:?}", contents(&home));
}

/// B12, B13, S0-30: a failed command has a result; an unknown one is neither sent nor recorded; a key is never recorded, and the
/// log shows which commands are.
#[test]
fn failures_are_recorded_and_keys_are_not() {
    let home = Home::new("jsonl");
    let mut command = home.command(&["--color", "never", "chat", "--provider", "offline"]);
    command.env("RUST_LOG", "debug").env("OPENAI_API_KEY", "plainwords");
    let mut prompt = Prompt::with(command);
    prompt.say("my name is Alice");
    prompt.says("/hlep", &["There is no command /hlep. Did you mean `/help`?"]);
    prompt.says("/show 99", &["there is no message 99"]);
    prompt.says("/show", &["usage: /show N"]);
    prompt.says("/pin x", &["invalid value 'x'"]);
    prompt.says(
        "/provider openai sk-proj-abcdef1234567890",
        &["this looks like a key", "Persisted special command: /provider openai [key], result_length="],
    );
    prompt.says("/nosuch/path is broken", &[]);
    prompt.says("/title about plainwords", &["is now called"]);
    prompt.says("!echo plainwords", &["plainwords"]);
    prompt.says("\\/help is what I typed", &[]);
    prompt.leave();
    let said = contents(&home);
    assert!(
        said.iter()
            .any(|one| one
                .starts_with("User executed command: /show 99\nCommand result: there is no message 99")),
        "{said:#?}"
    );
    assert!(said.iter().any(|one| one == "/nosuch/path is broken"), "{said:#?}");
    assert!(said.iter().any(|one| one == "/help is what I typed"), "{said:#?}");
    assert!(!said.iter().any(|one| one.contains("/hlep")), "{said:#?}");
    let record = home.out(&["history", "export", "@"]);
    assert!(!record.contains("sk-proj"), "{record}");
    has(&record, &["\"command\":\"!echo [key]\",\"output\":\"[key]\"", "/title about [key]"]);
    assert!(record.contains("\"failed\":true"), "{record}");
    // A provider that cannot be asked is a result, too.
    let mut command = home.command(&["--color", "never", "chat", "--provider", "openai", "--model", "gpt-5"]);
    command.args(["--base-url", "http://127.0.0.1:1"]);
    command.env("OPENAI_API_KEY", "plainwords").env("REJOIN_LIMITS_RETRIES", "0");
    let mut prompt = Prompt::with(command);
    prompt.says("/models list", &["error:"]);
    prompt.says("/provider nosuch", &["error:"]);
    prompt.leave();
    let said = contents(&home);
    let asked = said.iter().rfind(|one| one.contains("/models list")).unwrap();
    assert!(asked.contains("Command result: ") && !asked.contains("available"), "{asked}");
}

/// S1-02: going back makes a branch and loses nothing; branches are listed, and each can be gone on in.
#[test]
fn branches_can_be_made_and_visited() {
    Prompt::each(|home, mut prompt| {
        prompt.say("my name is Alice");
        prompt.say("my dog is called Rex");
        prompt.says("/rewind 1", &["follows message 1", "stay in the record"]);
        prompt.says("/branches", &["You went back: your next message begins a new branch."]);
        prompt.says("my name is Bob", &["your name is Bob"]);
        prompt.says(
            "/branches",
            &["  1  my name is Alice", "* └─ 2  my name is Bob", "parts from 1 after 2 messages"],
        );
        prompt.says("/branches 1", &["follows the 4 messages of branch 1", "Rex"]);
        prompt.says("What's my name?", &["Your name is Alice."]);
        prompt.says("/branches 2", &["follows the 4 messages of branch 2"]);
        prompt.says("What's my name?", &["Your name is Bob."]);
        prompt.says("/branches 7", &["there is no branch 7"]);
        prompt.says("/rewind 0", &["Enter lets the model go on"]);
        prompt.says("", &["your name is Alice"]);
        prompt.says("/branches 2", &["Your name is Bob."]);
        prompt.says("/rewind", &["which message?"]);
        prompt.leave();
        assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Bob.\n");
        let record = home.out(&["history", "export", "@"]);
        has(&record, &["Rex", "went back to message 1"]);
        home.verifies();
    });
}

/// A long conversation of which only the end is read when it is opened can be gone back in, to before its compaction and back.
#[test]
fn going_back_to_before_a_compaction() {
    Prompt::each(|home, mut prompt| {
        prompt.say("my name is Alice");
        for number in 1..=12 {
            prompt.say(&format!("{number}+1"));
        }
        prompt.says("/compact", &["The record keeps every word"]);
        prompt.say("40+2");
        prompt.leave();
        let mut prompt = Prompt::with(home.command(&["--color", "never", "chat"]));
        prompt.says("/rewind 1", &["The next message follows message 1."]);
        prompt.says("my name is Bob", &["your name is Bob"]);
        prompt.leave();
        let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
        assert!(!sent.contains("Summary of earlier") && !sent.contains("3+1"), "{sent}");
        let mut prompt = Prompt::with(home.command(&["--color", "never", "chat"]));
        prompt.says("/branches 1", &["of branch 1"]);
        prompt.says("What's my name?", &["Your name is Alice"]);
        prompt.leave();
        has(&home.out(&["convert", "@", "--to", "openai-chat"]), &["Summary of earlier", "40+2"]);
        home.verifies();
    });
}

/// S1-31: from end to end, tool messages are on the screen, in the request and under their numbers, and obey pruning.
#[test]
fn tool_messages_are_shown_and_pruned() {
    Home::each(|home| {
        home.file("here/notes.txt", "remember the milk\n".repeat(200));
        let mut prompt = Prompt::start(home);
        prompt.says(
            "read notes.txt",
            &["→ read_file {\"path\":\"notes.txt\"", "← [2] read_file remember the milk"],
        );
        prompt.say("2+2");
        prompt.says("/history", &["[2] TOOL", "Tool Call ID:", "Tool Calls: 1 total"]);
        prompt.says("/show 1", &["{\"path\":\"notes.txt\"}"]);
        prompt.says("/view", &["remember the milk"]);
        prompt.says("/prune --keep-last 0", &["1 result left out"]);
        let view = prompt.say("/view");
        assert!(!view.contains("← remember") && view.contains("recall"), "{view}");
        prompt.leave();
        let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
        has(&sent, &["\"role\":\"tool\"", "The result of read_file (3600 bytes) was left out"]);
        assert!(home.out(&["history", "export", "@"]).contains("remember the milk"));
    });
}

/// `/rewind N --files` restores what file tools changed since, and names what something else has changed.
#[test]
fn rewinding_restores_files() {
    let home = Home::new("sqlite");
    let mut prompt =
        Prompt::with(home.command(&["--color", "never", "chat", "--provider", "offline", "--mode", "auto"]));
    prompt.says("write `zero` to z.txt", &["created"]);
    prompt.say("my name is Alice");
    prompt.says("write `one` to a.txt", &["created"]);
    prompt.says("write `two` to b.txt", &["created"]);
    prompt.says("write `three` to a.txt", &["a.txt"]);
    fs::write(home.path("here/b.txt"), "mine").unwrap();
    prompt.says(
        "/rewind 5 --files",
        &["a.txt: removed, as it did not exist before", "b.txt: left alone", "follows message 5"],
    );
    assert!(!home.path("here/a.txt").exists());
    assert!(home.path("here/z.txt").exists(), "it was written before");
    assert_eq!(fs::read_to_string(home.path("here/b.txt")).unwrap(), "mine");
    prompt.leave();
    home.verifies();
}

/// S3-03: `/new`, `/fork` and `/resume` switch the conversation of a running prompt, and the active one with it.
#[test]
fn the_prompt_switches_conversations() {
    Prompt::each(|home, mut prompt| {
        prompt.says("/new", &["still empty"]);
        prompt.says("/title The first", &["is now called: The first"]);
        prompt.say("my name is Alice");
        let first = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        prompt.says("/new", &["A new conversation begins", &first]);
        prompt.say("my name is Bob");
        prompt.says(&format!("/resume {first}"), &["Resumed conversation", "State: ready, 2 messages"]);
        prompt.says("What's my name?", &["Your name is Alice."]);
        prompt.says("/fork 1", &["a fork of"]);
        prompt.says("my name is Carol", &["Carol"]);
        prompt.says("/resume nosuch", &["not found"]);
        prompt.says(&format!("/resume {first}"), &["State: ready, 4 messages"]);
        prompt.leave();
        assert_eq!(home.lines(&["list", "--json"]).len(), 3);
        assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
        home.verifies();
    });
}

/// `/resume` asks about calls without a result, as `rejoin resume` does.
#[test]
fn resuming_at_the_prompt_asks_about_open_calls() {
    let (home, id) = Home::broken("jsonl");
    let mut prompt = Prompt::start(&home);
    prompt.replies(format!("/resume {}", &id[..12]), "1 call without a result:");
    prompt.expect("[k]eep as interrupted, [l]eave out? [k]");
    prompt.replies("l", "left out from now on");
    prompt.expect("›");
    prompt.says("my name is Alice", &["your name is Alice"]);
    prompt.leave();
    assert_eq!(home.lines(&["list", "--json"]).len(), 1, "the prompt left nothing else behind");
    let said = contents(&home);
    let resumed = said.iter().position(|one| one.starts_with("User executed command: /resume")).unwrap();
    assert_eq!(said[resumed + 1], "my name is Alice", "{said:#?}");
}

/// `!` runs a command by hand: shown, recorded, not seen by the model unless it is `!!`. Ctrl-C stops it.
#[test]
fn commands_by_hand() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    let mut prompt = Prompt::with(PROVIDERS[2].command(&home, &server, &["--color", "never", "chat"]));
    prompt.says("!echo one; printf '\\033[31mtwo\\n' >&2; exit 3", &["one", "two", "[exit code 3]"]);
    prompt.says("!!echo token=hunter2hunter2", &["The model sees this"]);
    prompt.replies("!echo begun; sleep 100", "begun");
    prompt.0.send(ControlCode::EndOfText).unwrap();
    prompt.expect("[stopped]");
    prompt.expect("›");
    prompt.says("!sleep 100 & echo behind", &["behind"]);
    prompt.says("hello words:3", &["You said: I ran this command"]);
    prompt.says("/provider offline", &["Provider: offline"]);
    prompt.says("my name is Zoe", &["I will remember that your name is Zoe."]);
    prompt.leave();
    let said = contents(&home);
    assert_eq!(
        said[0],
        "User executed command: !echo one; printf '\\033[31mtwo\\n' >&2; exit 3\nCommand result: one\ntwo\n[exit code 3]"
    );
    assert!(said[1].contains("token=[key]") && !said[1].contains("hunter2"), "{said:#?}");
    let message = said.iter().find(|one| one.contains("words:3")).unwrap();
    assert!(message.starts_with("hello words:3\nI ran this command:\necho token=[key]\n"), "{message}");
    let sent = home.out(&["convert", "@", "--to", "anthropic"]);
    assert!(
        sent.contains("I ran this command") && !sent.contains("echo one") && !sent.contains("begun"),
        "{sent}"
    );
}

/// `@path` puts a file into the message: text with its name, an image as an image. The conversation continues without the file.
#[test]
fn files_in_messages() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    home.file("here/src/a.rs", "fn attached() {}\n");
    home.file(
        "here/pic.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89",
    );
    home.file("here/big.log", "x".repeat(300_000));
    let mut prompt = Prompt::with(PROVIDERS[2].command(&home, &server, &["--color", "never", "chat"]));
    prompt.says(
        "look at @src/a.rs and @pic.png, @big.log, \\@src/a.rs and @nowhere words:2",
        &["attached src/a.rs (1 line)", "attached pic.png (image/png", "big.log stays as typed"],
    );
    prompt.leave();
    fs::remove_dir_all(home.path("here/src")).unwrap();
    fs::remove_file(home.path("here/pic.png")).unwrap();
    let sent = home.out(&["convert", "@", "--to", "anthropic"]);
    has(
        &sent,
        &[
            "fn attached() {}",
            "\"image/png\"",
            "look at @src/a.rs and @pic.png, @big.log, @src/a.rs and @nowhere",
        ],
    );
    // If images are not accepted, the path stays in the text.
    home.file("here/pic.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01");
    let mut prompt =
        Prompt::with(home.command(&["--color", "never", "chat", "--new", "--provider", "offline"]));
    prompt.says("what is @pic.png", &["it is an image, and the current model takes none"]);
    prompt.leave();
}

/// S3-28, S3-68: AGENTS.md is part of the instructions, reported once, recorded, read again when it changes, and survives
/// compaction.
#[test]
fn instructions_of_the_project() {
    let home = Home::new("jsonl");
    home.file("here/.git/HEAD", "ref: refs/heads/main\n");
    home.file("here/AGENTS.md", "Speak like a pirate.\n");
    let ran = home.run(&["chat", "--provider", "offline", "my name is Alice"]);
    has(&ran.err, &["note: instructions of this project: AGENTS.md (20 characters)"]);
    let record = home.out(&["history", "export", "@"]);
    let context = record.lines().find(|line| line.contains("\"type\":\"context\"")).unwrap();
    has(context, &["You are rejoin", "Speak like a pirate."]);
    // Unchanged instructions are not recorded again.
    home.out(&["chat", "2+2"]);
    let count = |home: &Home| home.out(&["history", "export", "@"]).matches("\"type\":\"context\"").count();
    assert_eq!(count(&home), 1);
    // A change between two processes, and one at a prompt.
    home.file("here/AGENTS.md", "Speak like a sailor.\n");
    let ran = home.run(&["chat", "3+3"]);
    has(&ran.err, &["they have changed since the last turn; the new text is used"]);
    assert_eq!(count(&home), 2);
    let mut prompt = Prompt::with(home.command(&["--color", "never", "chat"]));
    prompt.say("4+4");
    home.file("here/AGENTS.md", "Speak like a captain.\n");
    prompt.says("5+5", &["the instructions of this project have changed; the new text is used"]);
    prompt.says("/context", &["Speak like a captain."]);
    prompt.leave();
    home.out(&["compact", "@"]);
    let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
    has(&sent, &["Summary of earlier conversation:", "Speak like a captain.", "You are rejoin"]);
    assert!(!sent.contains("sailor"), "{sent}");
    // A request after the compaction has them, too, and on another provider.
    let server = Loopback::start(Config::default());
    let ran = Ran::of(PROVIDERS[2].command(&home, &server, &["chat", "hello words:2"]).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let body = String::from_utf8(server.requests().pop().unwrap().body.to_vec()).unwrap();
    has(&body, &["Summary of earlier conversation:", "Speak like a captain.", "You are rejoin"]);
    home.out(&["chat", "--provider", "offline", "6+6"]);
    // The user's instructions replace the default ones, but not those of the project.
    home.out(&["chat", "--system", "Be brief.", "6+6"]);
    home.out(&["chat", "7+7"]);
    let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
    has(&sent, &["Be brief.", "Speak like a captain."]);
    assert!(!sent.contains("You are rejoin"), "{sent}");
    home.out(&["config", "set", "agents_md", "false"]);
    home.out(&["chat", "8+8"]);
    assert!(!home.out(&["convert", "@", "--to", "openai-chat"]).contains("captain"));
    home.verifies();
}

/// The `system` setting replaces the usual instructions, also in a conversation that had them.
#[test]
fn usual_instructions_can_be_replaced() {
    let home = Home::new("sqlite");
    home.out(&["chat", "--provider", "offline", "2+2"]);
    has(&home.out(&["convert", "@", "--to", "openai-chat"]), &["You are rejoin"]);
    home.out(&["config", "set", "system", "Be a poet."]);
    home.out(&["chat", "3+3"]);
    let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
    assert!(sent.contains("Be a poet.") && !sent.contains("You are rejoin"), "{sent}");
}

/// Instructions are taken from the record as they were given, even if they look like rejoin's own.
#[test]
fn instructions_with_our_heading_stay_whole() {
    let home = Home::new("sqlite");
    home.file("here/.git/HEAD", "ref: refs/heads/main\n");
    home.file("here/AGENTS.md", "Speak like a pirate.\n");
    let own = "You are rejoin, an agent that helps a person with the work in one folder of their machine.\n\n\
               # Instructions of this project\n\nNever name a colour.";
    home.out(&["chat", "--provider", "offline", "--system", own, "2+2"]);
    home.file("here/AGENTS.md", "Speak like a sailor.\n");
    home.out(&["chat", "3+3"]);
    let sent = home.out(&["convert", "@", "--to", "openai-chat"]);
    has(&sent, &["Never name a colour.", "Speak like a sailor."]);
    assert!(!sent.contains("pirate") && !sent.contains("Look before you act"), "{sent}");
    home.verifies();
}

/// The first start without a key asks who should answer; later ones do not, and a script is never asked.
#[test]
fn the_first_start_asks_who_answers() {
    let home = Home::new("sqlite");
    let chat = |home: &Home| {
        let mut command = home.command(&["--color", "never"]);
        // Nothing answers there.
        command.env("OLLAMA_HOST", "127.0.0.1:1");
        command
    };
    let mut prompt = Prompt::spawn(chat(&home));
    prompt.expect("Who should answer?");
    prompt.expect("[b] ");
    prompt.replies("m", "ollama pull");
    prompt.expect("[b] ");
    prompt.replies("x", "Please answer l, m or b.");
    prompt.replies("", "offline responder");
    prompt.expect("›");
    prompt.says("my name is Alice", &["Alice"]);
    prompt.leave();
    let mut prompt = Prompt::spawn(chat(&home));
    assert!(!prompt.expect("›").contains("Who should answer?"));
    prompt.leave();
    let at_the_key = |home: &Home| {
        let mut prompt = Prompt::spawn(chat(home));
        prompt.expect("[b] ");
        prompt.replies("l", "Provider: [anthropic] ");
        prompt.replies("", "it is not shown");
        prompt
    };
    // A key that is given is used at once.
    let other = Home::new("sqlite");
    let mut prompt = at_the_key(&other);
    prompt.replies("sk-ant-not-a-key", "The key for anthropic is stored");
    prompt.expect("new conversation with anthropic");
    prompt.expect("›");
    prompt.leave();
    // Ctrl-C at the key leaves: nothing waits for an answer behind it.
    let left = Home::new("sqlite");
    let mut prompt = at_the_key(&left);
    prompt.0.send("\u{3}").unwrap();
    prompt.0.expect(Eof).unwrap();
    let script = Home::new("sqlite");
    let mut command = script.command(&["chat", "2+2"]);
    command.env("OLLAMA_HOST", "127.0.0.1:1");
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), "2+2 = 4\n");
}

/// A folder with an interrupted conversation offers it.
#[test]
fn an_interrupted_conversation_is_offered() {
    let server = slow_server();
    let home = Home::new("sqlite");
    let mut prompt = Prompt::with(PROVIDERS[2].command(&home, &server, &["--color", "never", "chat"]));
    prompt.replies("hello words:500", "word");
    prompt.0.send(ControlCode::EndOfText).unwrap();
    prompt.expect("everything so far is recorded");
    prompt.expect("›");
    prompt.leave();
    let chat = || Prompt::spawn(home.command(&["--color", "never", "chat", "--provider", "offline"]));
    // It is the active conversation: Enter continues.
    let mut prompt = chat();
    prompt.expect("The last turn was interrupted: Enter continues it.");
    prompt.expect("›");
    prompt.0.send(ControlCode::EndOfTransmission).unwrap();
    prompt.0.expect(Eof).unwrap();
    // Without an active one, the newest of the folder is offered.
    fs::remove_dir_all(home.path("home/active")).unwrap();
    let mut prompt = chat();
    prompt.expect("here was interrupted: hello words:500. Continue it? [Y/n] ");
    prompt.replies("n", "new conversation with");
    prompt.expect("›");
    prompt.leave();
    let mut prompt = chat();
    prompt.expect("Continue it? [Y/n] ");
    prompt.replies("", "The last turn was interrupted: Enter continues it.");
    prompt.expect("›");
    prompt.say("");
    prompt.leave();
    assert_eq!(home.lines(&["list", "--json"]).len(), 1);
    let said = home.lines(&["history", "show", "@", "--json"]);
    let answers = said.iter().filter(|one| one["role"] == "assistant").count();
    assert!(answers > 1, "{said:#?}");
    home.verifies();
}
