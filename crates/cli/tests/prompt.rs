//! The prompt, on a real pseudo-terminal.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::time::Duration;

use support::{
    BROKEN, Home,
    screen::Screen,
    services::{PROVIDERS, slow_server},
};

/// Ctrl-C and Ctrl-D.
const STOP: &str = "\u{3}";
const LEAVE: &str = "\u{4}";

fn on_terminal(home: &Home, arguments: &[&str]) -> Screen {
    let mut command = home.command(arguments);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    spawn(command)
}

fn spawn(command: std::process::Command) -> Screen {
    Screen::start(command, (100, 40))
}

/// Presses Ctrl-C, and waits for the reaction and for the next prompt.
fn interrupted(session: &mut Screen, says: &str) {
    session.send(STOP);
    session.expect(says);
    session.prompt();
}

/// S3-03: a prompt on a terminal; each line is a turn; Ctrl-D leaves; the next process sees all messages.
#[test]
fn lines_are_turns() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["chat", "--provider", "offline"]);
    session.prompt();
    session.say("my name is Alice");
    session.expect("remember that your name is Alice");
    session.prompt();
    session.say("/help");
    session.expect("Ctrl-C stops a turn or clears the line");
    session.prompt();
    session.say("/nosuch");
    session.expect("There is no command /nosuch");
    session.prompt();
    session.send(LEAVE);
    session.end();
    assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
    // Commands are part of the history, but not of what a model sees.
    let shown = home.out(&["history", "show", "@"]);
    assert!(shown.contains("/help") && !shown.contains("/nosuch"), "{shown}");
    assert!(!home.out(&["convert", "@", "--to", "openai-chat"]).contains("/help"));
}

/// S0-54, S3-67: the things that people try by hand. Commands at the prompt; the list, the history, its raw form and the newest
/// five messages; a conversation with an orphan; twenty messages in a row, pruned, compacted and resumed.
#[test]
fn what_people_try_by_hand() {
    for store in support::STORES {
        let home = Home::new(store);
        let mut session = on_terminal(&home, &["chat", "--provider", "offline"]);
        for (line, says) in
            [("my name is Alice", "your name is Alice"), ("/help", "Ctrl-C stops a turn or clears the line")]
        {
            session.prompt();
            session.say(line);
            session.expect(says);
        }
        session.prompt();
        session.say("/exit");
        session.end();
        for number in 1..=20 {
            assert_eq!(home.out(&["chat", &format!("{number}+1")]), format!("{number}+1 = {}\n", number + 1));
        }
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        assert!(home.out(&["list"]).contains(&id));
        let shown = home.out(&["history", "show", &id]);
        assert!(shown.contains("/help") && shown.contains("my name is Alice"), "{shown}");
        assert!(home.out(&["history", "show", &id, "--raw"]).contains("my name is Alice"));
        let newest = home.lines(&["history", "show", &id, "--json", "--limit", "5"]);
        assert_eq!(newest.iter().filter(|line| line["role"].is_string()).count(), 5, "{newest:?}");
        home.out(&["prune", &id, "--keep-last", "0"]);
        home.out(&["compact", &id]);
        assert!(home.out(&["history", "show", &id, "--view"]).contains("Summary of earlier conversation:"));
        assert_eq!(home.out(&["resume", &id, "What's my name?"]), "Your name is Alice.\n");
        let broken = home.import("broken.json", BROKEN);
        assert_eq!(home.run(&["resume", &broken, "go on", "--provider", "offline"]).code, 0);
        home.verifies();
    }
}

/// S2-48: on a terminal, `resume` shows the last exchange, names the calls without a result, and asks what to do about them.
#[test]
fn resume_asks_about_calls_without_a_result() {
    // Leaving calls out is decided immediately, also for later turns; showing them as interrupted is recorded with the next
    // request.
    for (answer, at_once, noted) in [
        ("k", false, "shown to the model as interrupted"),
        ("l", true, "left out from now on; the history keeps them"),
    ] {
        let (home, id) = Home::broken("sqlite");
        let mut session = on_terminal(&home, &["resume", &id, "--provider", "offline"]);
        session.expect("you:   still there?");
        session.expect("1 call without a result:");
        session.expect("  stat {}");
        session.expect("[k]eep as interrupted, [l]eave out? [k]");
        session.send(format!("{answer}\r"));
        if at_once {
            session.expect(noted);
        }
        session.prompt();
        session.say("go on");
        if !at_once {
            session.expect(noted);
        }
        session.prompt();
        session.say("/exit");
        session.end();
        assert_eq!(home.run(&["check", &id]).code, 1, "the record is as it was");
    }
}

/// Ctrl-C leaves only when it is pressed twice within two seconds on an empty line. On any other line it clears the line.
#[test]
fn control_c_leaves_when_pressed_twice_on_an_empty_line() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["--color", "never", "chat", "--provider", "offline"]);
    session.prompt();
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // Too late.
    std::thread::sleep(Duration::from_millis(2200));
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // A line that is not empty is cleared, and counts for nothing.
    session.send("my name is Bob");
    session.until("› my name is Bob");
    session.send(STOP);
    session.prompt();
    // Also if both come at once.
    let prompts = |screen: &str| screen.lines().filter(|line| line.starts_with('›')).count();
    let before = prompts(&session.now());
    session.send(format!("my name is Bob{STOP}"));
    session.until_it(|screen| prompts(screen) > before);
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // So does one that was sent.
    session.say("my name is Alice");
    session.expect("remember that your name is Alice");
    session.prompt();
    interrupted(&mut session, "Press Ctrl-C again to leave");
    session.send(STOP);
    assert_eq!(session.end(), 130);
    let said = home.lines(&["history", "show", "@", "--json"]);
    assert_eq!(said[0]["content"], "my name is Alice", "what was cleared was not said");
}

/// While a turn runs, Ctrl-C stops the turn, and the prompt appears again.
#[test]
fn control_c_stops_a_turn() {
    let server = slow_server();
    let home = Home::new("sqlite");
    let provider = &PROVIDERS[2];
    let mut session = spawn(provider.command(&home, &server, &["--color", "never", "chat"]));
    session.prompt();
    session.say("hello words:500");
    session.expect("word10");
    session.send(STOP);
    session.send(STOP);
    session.expect("stopped; everything so far is recorded");
    session.prompt();
    session.say("/exit");
    session.end();
    let said = home.lines(&["history", "show", "@", "--json"]);
    assert_eq!(said[1]["interrupted"], true, "{said:?}");
}

/// A waiting prompt holds no lock: two prompts take turns, and each shows the other's messages.
#[test]
fn two_prompts_take_turns_in_one_conversation() {
    Home::each(|home| {
        home.out(&["chat", "--provider", "offline", "my name is Alice"]);
        let mut one = on_terminal(home, &["--color", "never", "chat"]);
        one.prompt();
        let mut two = on_terminal(home, &["--color", "never", "resume", "@"]);
        two.prompt();
        one.say("my dog is called Rex");
        one.prompt();
        two.say("What's my name?");
        two.expect("Added by another process in the meantime");
        two.expect("my dog is called Rex");
        two.expect("Your name is Alice.");
        two.prompt();
        // A command in between, while both wait.
        home.out(&["chat", "my cat is called Tom"]);
        one.say("What's my name?");
        one.expect("Added by another process in the meantime");
        one.expect("What's my name?");
        one.expect("my cat is called Tom");
        one.expect("Your name is Alice.");
        one.prompt();
        two.say("2+2");
        two.expect("my cat is called Tom");
        two.expect("2+2 = 4");
        two.prompt();
        for session in [&mut one, &mut two] {
            session.send(LEAVE);
            session.end();
        }
        let said = home.lines(&["history", "show", "@", "--json"]);
        let by_person: Vec<&str> = said
            .iter()
            .filter(|one| one["role"] == "user")
            .map(|one| one["content"].as_str().unwrap())
            .collect();
        assert_eq!(
            by_person,
            [
                "my name is Alice",
                "my dog is called Rex",
                "What's my name?",
                "my cat is called Tom",
                "What's my name?",
                "2+2"
            ]
        );
        home.verifies();
        assert_eq!(home.lines(&["list", "--json"]).len(), 1);
    });
}

/// A message sent while another process is answering waits for it, and can be given up.
#[test]
fn a_prompt_waits_for_another_answer() {
    let home = Home::new("sqlite");
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().parse().unwrap();
    let mut session = on_terminal(&home, &["--color", "never", "chat"]);
    session.prompt();
    let store = home.open();
    let holder = rejoin::store::Holder::this("a test", rejoin::engine::Clock::now(&rejoin::SystemClock));
    let lock = store.lock(id, &holder).unwrap();
    session.say("2+2");
    session.expect("Waiting for process");
    interrupted(&mut session, "Nothing was sent");
    session.say("3+3");
    session.expect("Waiting for process");
    drop(lock);
    session.expect("3+3 = 6");
    session.prompt();
    session.say("/exit");
    session.end();
}

/// A conversation that was deleted while the prompt waited is not brought back.
#[test]
fn a_conversation_that_was_deleted_stays_deleted() {
    let home = Home::new("jsonl");
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let mut session = on_terminal(&home, &["--color", "never", "chat"]);
    session.prompt();
    home.out(&["history", "delete", "@", "--yes"]);
    session.say("What's my name?");
    session.expect("Conversation not found");
    session.end();
    assert_eq!(home.lines(&["list", "--json"]).len(), 0);
}

/// After giving up at the question for a key, typed text is visible again.
#[test]
fn giving_up_a_key_leaves_the_terminal_as_it_was() {
    let home = Home::new("sqlite");
    let mut rejoin = home.command(&[]);
    let path = rejoin.get_program().to_owned();
    let mut shell = std::process::Command::new("bash");
    let line = "\"$0\" auth login openai; echo \"left with $?\"; stty -a | grep -ow -e '-\\?echo'";
    shell
        .args(["-c", line])
        .arg(path)
        .current_dir(rejoin.current_dir(home.path("here")).get_current_dir().unwrap());
    for (name, value) in rejoin.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut session = spawn(shell);
    session.expect("it is not shown");
    session.send(STOP);
    session.expect("left with 130");
    session.end();
    let all = session.all();
    let rest = all.split_once("left with 130").unwrap().1;
    assert!(rest.contains("echo") && !rest.contains("-echo"), "{rest:?}");
}

/// The terminal changes its size while an answer arrives and while the list of conversations is open: nothing is lost or drawn twice.
#[test]
fn sizes_change_in_the_middle() {
    let server = slow_server();
    let home = Home::new("sqlite");
    let mut command = PROVIDERS[2].command(&home, &server, &["chat"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut screen = spawn(command);
    screen.prompt();
    screen.say("hello words:80");
    for (word, size) in [("word10", (40, 20)), ("word30", (120, 30)), ("word50", (60, 24))] {
        screen.until(word);
        screen.resize(size);
    }
    screen.until("% of");
    screen.prompt();
    let all = screen.all();
    let answer = all.split_once("hello words:80").unwrap().1;
    for number in 60..80 {
        let word = format!("word{number}");
        assert_eq!(answer.matches(&word).count(), 1, "{word} in:\n{answer}");
    }
    screen.send(LEAVE);
    screen.end();
    let mut screen = on_terminal(&home, &["resume", "--provider", "offline"]);
    screen.until("1 of 1");
    screen.resize((40, 14));
    let shown = screen.until("Enter resumes · Tab: folder · Esc");
    assert_eq!(shown.matches("Resume:").count(), 1, "{shown}");
    assert!(shown.contains("hello words:80"), "{shown}");
    screen.send("\u{1b}");
    assert_eq!(screen.end(), 0);
    assert!(screen.is_given_back());
}

/// Output that was shown as it came is not repeated: the line of the call says how it ended.
#[test]
fn shown_output_is_not_repeated() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["chat", "--provider", "offline", "--mode", "auto"]);
    session.prompt();
    session.say("run `seq 40 60`");
    session.expect("→ run {\"command\":\"seq 40 60\"}\n40\n41\n");
    session.expect("60\n← [2] run [exit code 0]\n");
    session.prompt();
    session.send(LEAVE);
    session.end();
}

/// Erased or deleted text does not come back at the prompt, in whichever folder it was typed.
#[test]
fn erased_messages_are_forgotten_by_the_prompt() {
    let home = Home::new("sqlite");
    let session = on_terminal(&home, &["chat", "--provider", "offline"]);
    session.prompt();
    for line in ["the tree is old", "\\/the house is red", "the sea is deep", "/title Trees"] {
        session.say(line);
        session.prompt();
    }
    session.send(LEAVE);
    session.end();
    let kept = || {
        let folder = std::fs::read_dir(home.path("home/prompts")).unwrap();
        let files = folder.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        files.collect::<String>()
    };
    assert_eq!(kept().lines().count(), 4, "{}", kept());
    home.out(&["history", "erase", "@", "-m", "2", "--dry-run"]);
    assert_eq!(kept().lines().count(), 4);
    home.out(&["history", "erase", "@", "-m", "2", "--yes"]);
    assert_eq!(kept(), "\"the tree is old\"\n\"the sea is deep\"\n\"/title Trees\"\n");
    home.out(&["history", "delete", "@", "--yes"]);
    assert_eq!(kept(), "");
}

/// On a terminal, `--yes` with the beginning of an id shows the conversation and asks.
#[test]
fn a_beginning_of_an_id_is_asked_about() {
    let (home, id) = Home::broken("sqlite");
    for (answer, then) in [("n", "Nothing was changed"), ("y", "Deleted conversation")] {
        let mut session = on_terminal(&home, &["history", "delete", &id[..10], "--yes"]);
        session.expect(&format!("Delete {id} (List the files, please, 5 messages)? This cannot"));
        session.expect("[y/N]");
        session.send(format!("{answer}\r"));
        session.expect(then);
        session.end();
    }
    assert_eq!(home.run(&["history", "show", &id]).code, 1);
}
