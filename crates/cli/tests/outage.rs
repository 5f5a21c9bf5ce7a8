//! A server that is unreachable, refuses, or has the wrong tables, from outside: no message is lost, and the reason is shown.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::path::{Path, PathBuf};

use support::{Home, has, screen::Screen};
use testkit::postgres::{own, shared};

const LEAVE: &str = "\u{4}";

fn home_at(address: String) -> Home {
    let mut home = Home::new("sqlite");
    home.store = address;
    home
}

/// The server that the tests share, a database in it, and a home whose store has one conversation there.
fn home_with_a_conversation() -> Option<(&'static testkit::postgres::Server, String, Home)> {
    let server = shared()?;
    let database = server.database();
    let home = home_at(server.address(&database));
    home.out(&chat(&[], "my name is Ann"));
    Some((server, database, home))
}

/// The files with entries that could not be saved.
fn unsaved(home: &Home) -> Vec<PathBuf> {
    fn add(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                add(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|ending| ending == "unsaved") {
                found.push(entry.path());
            }
        }
    }
    let mut found = Vec::new();
    add(&home.path("home"), &mut found);
    found
}

fn chat<'a>(scope: &[&'a str], text: &'a str) -> Vec<&'a str> {
    [&["chat", "--provider", "offline", text], scope].concat()
}

const SCOPES: [&[&str]; 2] = [&[], &["--scope", "user=kim"]];

#[test]
fn a_prompt_goes_on_while_the_server_is_down() {
    let Some(server) = own(&[]) else { return };
    for scope in SCOPES {
        let home = home_at(server.address(&server.database()));
        let mut command = home.command(&[&["chat", "--provider", "offline"], scope].concat());
        command.env("NO_COLOR", "1").env("TERM", "xterm");
        let mut session = Screen::start(command, (200, 60));
        session.prompt();
        session.say("my name is Ann");
        session.expect("remember that your name is Ann");
        session.prompt();
        server.kill();
        session.say("20+22");
        session.expect("20+22 = 42");
        session.prompt();
        session.say("What is my name?");
        session.expect("Your name is Ann.");
        let screen = session.prompt();
        let told = screen.matches("Failed to save").count();
        assert_eq!(told, 1, "it is said once: {screen}");
        session.send(LEAVE);
        assert_eq!(session.end(), 1);
        assert_eq!(unsaved(&home).len(), 1);
        server.restart();
        let shown = home.out(&[&["history", "show", "@1"], scope].concat());
        has(&shown, &["my name is Ann", "20+22 = 42", "Your name is Ann."]);
        assert_eq!(unsaved(&home).len(), 0);
        home.verifies();
    }
}

/// Whether or not the server was ever reached, and with any scope.
#[test]
fn one_message_while_the_server_is_down_is_delivered_later() {
    let Some(server) = own(&[]) else { return };
    for scope in SCOPES {
        for begins_before in [false, true] {
            let home = home_at(server.address(&server.database()));
            if begins_before {
                home.out(&chat(scope, "my name is Ann"));
            }
            server.kill();
            let ran = home.run(&chat(scope, "my name is Bo"));
            has(&ran.out, &["your name is Bo"]);
            assert_eq!((ran.code, unsaved(&home).len()), (1, 1), "{scope:?}: {}", ran.err);
            has(&ran.err, &["it is kept in", "check that the server runs"]);
            server.restart();
            // Even a command that only reads delivers it, also into a database without tables.
            let listed = home.lines(&[&["list", "--json"], scope].concat());
            assert_eq!(
                (listed.len(), unsaved(&home).len()),
                (1 + usize::from(begins_before), 0),
                "{scope:?}"
            );
            has(&home.out(&[&["history", "show", "@1"], scope].concat()), &["my name is Bo"]);
            home.verifies();
        }
    }
}

#[test]
fn what_is_said_with_a_wrong_password_is_saved_with_the_right_one() {
    let Some(server) = own(&[]) else { return };
    let database = server.database();
    let made = "CREATE ROLE me LOGIN PASSWORD 'right'; CREATE SCHEMA rejoin AUTHORIZATION me";
    server.psql(&database, made).unwrap();
    server.set_rules("local all all scram-sha-256");
    let with =
        |password: &str| format!("postgres://me:{password}@/{database}?host={}", server.socket().display());
    let mut home = home_at(with("wrong"));
    let ran = home.run(&chat(&[], "my name is Cy"));
    has(&ran.err, &["password authentication failed", "PGPASSWORD", "it is kept in"]);
    assert_eq!((ran.code, unsaved(&home).len()), (1, 1), "{}", ran.err);
    home.store = with("right");
    assert_eq!(home.lines(&["list", "--json"]).len(), 1);
    has(&home.out(&["history", "show", "@1"]), &["my name is Cy"]);
    assert_eq!(unsaved(&home).len(), 0);
}

/// A database that will not take the conversation even when it is asked again is refused before the provider is asked.
#[test]
fn a_database_with_other_tables_is_refused_before_anything_is_asked() {
    let Some(server) = shared() else { return };
    for (tables, why, hint) in [
        ("CREATE TABLE rejoin.cats (name text)", "another program", "use another database"),
        (
            "CREATE TABLE rejoin.schema_version (version bigint PRIMARY KEY); CREATE TABLE rejoin.conversation (id text)",
            "were not made to the end",
            "rename",
        ),
    ] {
        let database = server.database();
        server.psql(&database, &format!("CREATE SCHEMA rejoin; {tables}")).unwrap();
        let home = home_at(server.address(&database));
        for scope in SCOPES {
            let ran = home.run(&chat(scope, "my name is Di"));
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
            has(&ran.err, &[why, "hint:", hint]);
        }
        for command in [&["list"][..], &["run", "--provider", "offline", "my name is Di"], &["new"]] {
            let ran = home.run(command);
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command:?}: {}", ran.err);
            has(&ran.err, &[why, "hint:", hint]);
        }
        assert_eq!(unsaved(&home).len(), 0, "nothing waits for a database that will not take it");
    }
}

/// A message of one process, while others write to the same conversation, is either stored once or refused.
#[test]
fn processes_in_one_conversation_lose_nothing() {
    let Some((server, database, home)) = home_with_a_conversation() else { return };
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let words: Vec<String> = (0..8).map(|number| format!("say word-{number}-")).collect();
    let children: Vec<_> = words
        .iter()
        .map(|word| {
            let mut command = home.command(&["chat", "--provider", "offline", "--session", &id, word]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut done = 0;
    for (child, word) in children.into_iter().zip(&words) {
        let ran = support::Ran::of(child.wait_with_output().unwrap());
        let count = format!(
            "SELECT count(*) FROM rejoin.entry WHERE convert_from(body, 'UTF8') LIKE '%\"user\"%{word}%'"
        );
        let count = server.psql(&database, &count).unwrap();
        if ran.code == 0 {
            done += 1;
            assert_eq!(count, "1", "{word}: {}", ran.err);
        } else {
            has(&ran.err, &["hint:"]);
            assert_eq!(count, "0", "{word}: {}", ran.err);
        }
    }
    assert!(done > 0, "one of them gets through");
    assert_eq!(unsaved(&home).len(), 0);
    home.verifies();
}

#[test]
fn what_a_server_does_not_take_now_is_kept_with_the_reason() {
    let Some(server) = shared() else { return };
    // A server that only reads, without tables and with them.
    for begins_before in [false, true] {
        let database = server.database();
        let home = home_at(server.address(&database));
        if begins_before {
            home.out(&chat(&[], "my name is Ann"));
        }
        let only_reads = |on: &str| {
            let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = {on}");
            server.psql("postgres", &set).unwrap();
        };
        only_reads("on");
        let ran = home.run(&chat(&[], "my name is Ed"));
        assert_eq!((ran.code, unsaved(&home).len()), (1, 1), "{}", ran.err);
        has(&ran.err, &["it is kept in", "name the primary server"]);
        assert!(!ran.err.contains("can be reached"), "{}", ran.err);
        only_reads("off");
        has(&home.out(&["history", "show", "@1"]), &["my name is Ed"]);
    }
    // A role without rights.
    let database = server.database();
    server.psql("postgres", "CREATE ROLE guest LOGIN").unwrap();
    let home = home_at(server.address(&database).replacen("postgres@", "guest@", 1));
    let ran = home.run(&chat(&[], "my name is Flo"));
    assert_eq!((ran.code, unsaved(&home).len()), (1, 1), "{}", ran.err);
    has(&ran.err, &["CREATE SCHEMA rejoin AUTHORIZATION"]);
    // Tables of a newer version, on a server that can be reached.
    let database = server.database();
    let home = home_at(server.address(&database));
    home.out(&chat(&[], "my name is Gus"));
    server.psql(&database, "INSERT INTO rejoin.schema_version (version) VALUES (99)").unwrap();
    for extra in [&[][..], &["--new"]] {
        let ran = home.run(&[&chat(&[], "my name is Hal"), extra].concat());
        assert_eq!(ran.code, 1, "{}", ran.err);
        has(&ran.err, &["newer version", "it is kept in"]);
        assert!(!ran.err.contains("can be reached"), "{}", ran.err);
    }
    assert_eq!(unsaved(&home).len(), 2);
    server.psql(&database, "DELETE FROM rejoin.schema_version WHERE version = 99").unwrap();
    assert_eq!(home.lines(&["list", "--json"]).len(), 2);
    assert_eq!(unsaved(&home).len(), 0);
}

/// Several processes each add a message to one conversation while the server refuses to write: no message is lost, whatever the
/// reason for the refusal.
#[test]
fn several_messages_that_a_server_refuses_are_all_kept() {
    let Some((server, database, home)) = home_with_a_conversation() else { return };
    let only_reads = |on: &str| {
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = {on}");
        server.psql("postgres", &set).unwrap();
    };
    let refuses = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$; \
                   CREATE TRIGGER refuse BEFORE INSERT ON rejoin.entry FOR EACH ROW EXECUTE FUNCTION refuse()";
    for (refuse, accept, messages) in [
        (&(|| only_reads("on")) as &dyn Fn(), &(|| only_reads("off")) as &dyn Fn(), ["one", "two", "three"]),
        (
            &|| _ = server.psql(&database, refuses).unwrap(),
            &|| _ = server.psql(&database, "DROP TRIGGER refuse ON rejoin.entry").unwrap(),
            ["four", "five", "six"],
        ),
    ] {
        refuse();
        for message in messages {
            let ran = home.run(&["chat", message]);
            assert_eq!(ran.code, 1, "{message}: {}", ran.err);
            has(&ran.err, &["it is kept in"]);
        }
        assert_eq!(unsaved(&home).len(), 3);
        accept();
        home.out(&["list"]);
        assert_eq!(unsaved(&home).len(), 0);
        for message in messages {
            assert!(!home.lines(&["history", "search", message, "--json"]).is_empty(), "{message}");
        }
    }
    home.out(&["verify"]);
}
