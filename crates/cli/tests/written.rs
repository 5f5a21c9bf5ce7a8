//! Files that commands write for people, with `-o` and the like: they are durable, with their folders, when the command ends.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::fs;

use support::{Home, Ran, SOUND};
use testkit::faults::{Fault, Kind};

/// Every file that is named on the command line is synced before it gets its name, and its folder after that.
#[test]
fn what_is_written_is_on_the_disk_when_the_command_is_done() {
    let Some(shim) = testkit::faults::shim(env!("CARGO_TARGET_TMPDIR")) else { return };
    let home = Home::new("jsonl");
    let id = home.import("a.json", SOUND);
    let file = home.file("b.json", SOUND);
    let under = fs::canonicalize(home.path("")).unwrap().join("out");
    fs::create_dir_all(&under).unwrap();
    fs::create_dir_all(home.path("notes")).unwrap();
    let out = under.join("x.md").display().to_string();
    let report = under.join("report.json").display().to_string();
    let commands: [(&[&str], &str); 5] = [
        (&["history", "export", &id, "-o", &out], "x.md"),
        (&["history", "export", &id, "--force", "-o", &out], "x.md"),
        (&["convert", &file, "--to", "anthropic", "--force", "-o", &out], "x.md"),
        (&["convert", &file, "--to", "anthropic", "--force", "-o", &out, "--report", &report], "report.json"),
        (&["convert", &id, "--to", "codex", "--install"], "sessions"),
    ];
    for (arguments, written) in commands {
        let _ = fs::remove_file(home.path("notes/trace"));
        let fault = Fault { kind: Kind::Eio, at: 0, under: under.clone(), notes: home.path("notes") };
        let mut command = home.command(arguments);
        command.env("CODEX_HOME", &under);
        shim.put_into(&mut command, &fault);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        assert!(under.join(written).exists(), "{arguments:?}");
        let trace = fs::read_to_string(home.path("notes/trace")).unwrap();
        let calls: Vec<(&str, &str)> = trace
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some((words.nth(1)?, words.next()?))
            })
            .collect();
        let is_sync = |call: &str| matches!(call, "fsync" | "fdatasync");
        for (at, (call, path)) in calls.iter().enumerate() {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            let later =
                |wanted: &str| calls[at..].iter().any(|(call, path)| is_sync(call) && *path == wanted);
            match *call {
                "open" | "open64" => assert!(later(path), "{arguments:?}: {path} is not synced\n{trace}"),
                "rename" | "mkdir" | "link" => {
                    assert!(later(above), "{arguments:?}: the folder of {path} is not synced\n{trace}");
                }
                _ => {}
            }
        }
        assert!(calls.iter().any(|(call, _)| is_sync(call)), "{arguments:?}: {trace}");
        assert!(
            is_sync(calls.iter().rfind(|(call, _)| *call != "unlink").unwrap().0),
            "{arguments:?}: {trace}"
        );
    }
}
