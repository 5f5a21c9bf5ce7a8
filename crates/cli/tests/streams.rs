//! Pipes and devices in place of files: read up to a limit, with a message about waiting, or refused. Never a silent hang.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use support::{Home, Ran, SOUND, has};

/// Long enough for a slow machine, and far less than for ever.
const AT_MOST: Duration = Duration::from_secs(60);

fn fifo(home: &Home, name: &str) -> String {
    let path = home.path(name).display().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Runs a command that must end by itself.
fn bounded(mut command: Command) -> Ran {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ended(child)
}

fn ended(mut child: Child) -> Ran {
    let began = Instant::now();
    // Its output is short, so it fits into the pipes.
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > AT_MOST {
            child.kill().unwrap();
            panic!("it hangs; it said {:?}", Ran::of(child.wait_with_output().unwrap()).err);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ran::of(child.wait_with_output().unwrap())
}

/// The first line on stderr, as soon as it arrives.
fn first_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && child.stderr.as_mut().unwrap().read(&mut byte).unwrap() > 0 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Devices without an end are read up to a bound; one that is empty is an empty file.
#[test]
fn devices_are_bounded() {
    let home = Home::new("sqlite");
    for device in ["/dev/zero", "/dev/urandom"] {
        for arguments in [
            &["check", device][..],
            &["convert", device, "--to", "anthropic"],
            &["import", device],
            &["check", "--from", "codex", device],
        ] {
            let ran = bounded(home.command(arguments));
            assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
            has(&ran.err, &[&format!("cannot read {device}: it is a device that sent more than 16 MiB")]);
        }
        let ran = bounded(home.command(&["doctor", device]));
        assert_eq!(ran.code, 1, "{}", ran.err);
        has(&ran.out, &["it is a device that sent more than 16 MiB"]);
    }
    let ran = bounded(home.command(&["check", "/dev/null"]));
    assert_eq!(ran.code, 2);
    has(&ran.err, &["cannot read /dev/null: there is nothing in it"]);
    let mut command = home.command(&["chat", "--provider", "offline"]);
    let ran = ended(
        command
            .stdin(File::open("/dev/zero").unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(ran.code, 2);
    has(&ran.err, &["cannot read standard input: it is a device that sent more than 16 MiB"]);
}

/// A pipe is read as a file is: `rejoin check <(cmd)`, `/dev/stdin`, and a pipe with a name.
#[test]
fn pipes_are_read() {
    let home = Home::new("sqlite");
    home.file("chat.json", SOUND);
    let binary = env!("CARGO_BIN_EXE_rejoin");
    for line in [
        "\"$0\" check <(cat \"$1\")",
        "\"$0\" check <(sleep 0.3; cat \"$1\")",
        "cat \"$1\" | \"$0\" check /dev/stdin",
        "\"$0\" check /dev/stdin < \"$1\"",
        "cat \"$1\" | \"$0\" check -",
        "mkfifo \"$1.fifo\"; cat \"$1\" > \"$1.fifo\" & \"$0\" check \"$1.fifo\"",
        "\"$0\" import <(cat \"$1\")",
    ] {
        let environment = home.command(&[]);
        let mut command = Command::new("bash");
        command.args(["-c", line, binary]).arg(home.path("chat.json"));
        for (name, value) in environment.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ran = bounded(command);
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
    }
}

/// While rejoin waits for a pipe it says so, and it continues when data arrives.
#[test]
fn waiting_for_a_pipe_is_said() {
    let home = Home::new("sqlite");
    let path = fifo(&home, "pipe");
    for arguments in [
        &["check", &path][..],
        &["convert", &path, "--to", "anthropic", "--max-tokens", "9"],
        &["import", &path],
    ] {
        let mut child =
            home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        has(&first_line(&mut child), &["note: waiting for "]);
        OpenOptions::new().write(true).open(&path).unwrap().write_all(SOUND.as_bytes()).unwrap();
        let ran = ended(child);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    }
    // Standard input is no different.
    let mut child = home
        .command(&["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    has(&first_line(&mut child), &["note: waiting for standard input"]);
    child.stdin.take().unwrap().write_all(SOUND.as_bytes()).unwrap();
    assert_eq!(ended(child).code, 0);
}

/// Output goes to a pipe once a program reads it; until then the user is told. A disk device is never overwritten.
#[test]
fn a_pipe_to_write_to_is_waited_for() {
    let home = Home::new("sqlite");
    let file = home.file("chat.json", SOUND);
    let path = fifo(&home, "pipe");
    for arguments in [
        &["convert", &file, "--to", "openai-chat", "-o", &path][..],
        &["convert", &file, "--to", "openai-chat", "--report", &path],
    ] {
        let mut child =
            home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        has(&first_line(&mut child), &["note: waiting for another program to read from "]);
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(['{', '[']), "{arguments:?}: {written}");
        assert_eq!(ended(child).code, 0, "{arguments:?}");
    }
    let ran = bounded(home.command(&["convert", &file, "--to", "openai-chat", "-o", "/dev/full"]));
    assert_eq!(ran.code, 1);
    has(&ran.err, &["cannot write /dev/full: "]);
    assert_eq!(bounded(home.command(&["convert", &file, "--to", "openai-chat", "-o", "/dev/null"])).code, 0);
    let out = bounded(home.command(&["convert", &file, "--to", "openai-chat", "-o", "/dev/stdout"])).out;
    assert!(out.starts_with('{'), "{out}");
}

/// A store or a settings file that is a pipe or a device is refused at once, by every command.
#[test]
fn a_store_or_settings_file_is_no_pipe() {
    let home = Home::new("sqlite");
    let pipe = fifo(&home, "pipe");
    for place in [&pipe, "/dev/zero", "/dev/null"] {
        for kind in ["sqlite", "jsonl"] {
            let store = format!("{kind}:{place}");
            for arguments in [&["list"][..], &["new"], &["verify"], &["import", &home.file("a.json", SOUND)]]
            {
                let mut command = home.command(arguments);
                command.env("REJOIN_STORE", &store);
                let ran = bounded(command);
                assert_eq!(ran.code, 1, "{store} {arguments:?}: {}{}", ran.out, ran.err);
                has(&ran.err, &[place]);
            }
        }
    }
    fs::create_dir_all(home.path("home")).unwrap();
    fifo(&home, "home/config.toml");
    for arguments in [&["list"][..], &["config", "list"], &["config", "set", "model", "m"]] {
        let ran = bounded(home.command(arguments));
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        has(&ran.err, &["config.toml: it is a pipe or a device, not a file"]);
    }
    fs::remove_file(home.path("home/config.toml")).unwrap();
    fifo(&home, "home/auth.json");
    for arguments in [&["auth", "status"][..], &["chat", "hello", "--provider", "openai"]] {
        let ran = bounded(home.command(arguments));
        has(&ran.err, &["auth.json", "it is a pipe or a device, not a file"]);
    }
}
