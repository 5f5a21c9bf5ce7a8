//! Compares the rules for commands with real shells: a line that the rules allow runs nothing but the allowed commands.
//!
//! Lines are assembled at random from commands, separators, quotes and expansions. `sh` and, if present, `bash` run the lines that
//! the rules allow, with a search path that contains only a script which logs its name and arguments. `REJOIN_SHELL_CASES` sets the
//! number of lines (default 800).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use rejoin_engine::approval::rules::{CallSubject, RuleVerdict, Rules};
use tempfile::TempDir;

const ALLOW: &[&str] = &["run:ok *", "run:no*", "run:exact one"];

/// Appends its name and arguments to the log in one write.
const STUB: &str = r#"#!/bin/sh
line="$0"
for word in "$@"; do line="$line<$word>"; done
printf '%s\036' "$line" >> "$STUB_LOG"
case "$0" in */no) exit 1;; esac
"#;

/// The parts of allowed lines.
const PLAIN: &[&str] = &[
    "ok",
    "ok a",
    "no",
    "exact one",
    "ok 'a b'",
    "ok \"x y\"",
    "exact",
    "one",
    " ",
    " ",
    " ",
    ";",
    "\n",
    " && ",
    " || ",
    " | ",
    " & ",
    "; ",
    "( ",
    " )",
    "{ ",
    "; }",
    "if ok; then ",
    "; else ",
    "; fi",
    "while no; do ",
    "until ok; do ",
    "; done",
    "for i in a b; do ",
    "! ",
    " 2>&1",
    " >/dev/null",
    " 2>/dev/null",
    " # ",
    " \\\n",
    "a",
    "-x",
    "*",
    "f?",
    "~",
    "{}",
];

/// Parts that make a line run something else, in the right place.
const SHARP: &[&str] = &[
    "bad",
    "; bad",
    "bad x",
    "\nbad\n",
    "'",
    "\"",
    "\\",
    "`",
    "$(bad)",
    "`bad`",
    "$",
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    ">x",
    ">>x",
    "&>",
    "&",
    "|",
    ";;",
    "#",
    "=",
    "A=1 ",
    "PATH=evil ",
    "PATH=evil; ",
    "for PATH in evil; do ",
    "$X",
    "${X}",
    "$'\\x62ad'",
    "<(bad)",
    "<<E\n",
    "\nE\n",
    "ok() { bad; }; ",
    "function ok { bad; }\n",
    "alias ok=bad\n",
    "eval ",
    "exec ",
    "command ",
    ". ",
    "case a in a) ",
    ";; esac",
    "[[ ",
    "]]",
    "((",
    "))",
    "time ",
    "12>&1",
    "2",
    ">&",
    "\t",
    "\r",
    "\\\n",
    "!",
    "in",
    "do",
    "then",
    "fi",
    "done",
    "'ok one'",
    "{bad,x}",
    "b''ad",
    "trap bad EXIT; ",
    "export PATH=evil; ",
    "cd evil; ",
    "|&",
    "coproc ",
    "[",
    "]",
    "+",
    "1>",
    "-",
    "\u{a0}",
    "set -- bad; ",
    "$@",
];

/// A folder with stubs, and the log that they write.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for (place, names) in [
            ("bin", &["ok", "no", "exact", "bad", "x", "a", "one", "env", "E"][..]),
            ("work/evil", &["ok", "no", "exact"][..]),
        ] {
            fs::create_dir_all(folder.path().join(place)).unwrap();
            for name in names {
                let path = folder.path().join(place).join(name);
                fs::write(&path, STUB).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        fs::write(folder.path().join("work/f1"), "").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a line and returns everything it did that the rules do not allow.
    fn violations(&self, shell: &str, line: &str) -> Vec<String> {
        let log = self.path("log");
        fs::write(&log, "").unwrap();
        // Background commands hold the pipe open, so this waits for them too.
        Command::new("/usr/bin/timeout")
            .args(["-k", "1", "5", shell, "-c", line])
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("STUB_LOG", &log)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let ok = self.path("bin/ok").display().to_string();
        let no = self.path("bin/no").display().to_string();
        let exact = format!("{}<one>", self.path("bin/exact").display());
        let begins = |entry: &str, name: &str| {
            entry.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('<'))
        };
        let mut found: Vec<String> = fs::read_to_string(&log)
            .unwrap()
            .split('\u{1e}')
            .filter(|entry| !entry.is_empty())
            .filter(|entry| !begins(entry, &ok) && !begins(entry, &no) && *entry != exact)
            .map(str::to_owned)
            .collect();
        for entry in fs::read_dir(self.path("work")).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("evil") && !path.ends_with("f1") {
                found.push(format!("a file: {}", path.display()));
                let _ = fs::remove_file(&path);
            }
        }
        found
    }
}

/// Shells to compare with.
fn shells() -> Vec<&'static str> {
    ["/bin/sh", "/bin/dash", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists()).collect()
}

fn is_allowed(rules: &Rules, line: &str) -> bool {
    matches!(rules.verdict(&CallSubject::Command(line)), RuleVerdict::Allow(_))
}

/// Joins commands by separators, and then puts a few sharp parts in at random places.
fn lines() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(PLAIN);
    let sharp = prop::sample::select(SHARP);
    let command = prop::sample::select(
        &["ok", "ok a", "no b", "exact one", "ok 'x y'", "( ok )", "{ ok; }", "if ok; then no; fi"][..],
    );
    let separator =
        prop::sample::select(&["; ", " && ", " || ", " | ", " & ", "\n", ";", "&&", "|", " "][..]);
    let regular = prop::collection::vec((command, separator), 1..4).prop_map(|parts| {
        parts.iter().map(|(command, separator)| format!("{command}{separator}")).collect::<String>()
    });
    let loose = prop::collection::vec(plain, 1..7).prop_map(|parts| parts.concat());
    let insertions = prop::collection::vec((sharp, any::<prop::sample::Index>()), 0..4);
    (prop_oneof![2 => regular, 1 => loose], insertions).prop_map(|(mut line, insertions)| {
        for (part, place) in insertions {
            let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
            line.insert_str(places[place.index(places.len())], part);
        }
        line
    })
}

#[test]
fn the_bench_notices_what_other_commands_do() {
    let bench = Bench::new();
    for shell in shells() {
        for line in [
            "bad",
            "ok; bad",
            "ok $(bad)",
            "PATH=evil ok",
            "PATH=evil; ok",
            "for PATH in evil; do ok; done",
            "ok > x",
            "exact two",
            "exact one two",
            "ok & bad &",
            "ok() { bad; }; ok",
            "eval bad",
            "exact one 12>&1 x",
            "b''ad",
            "alias no=bad; >x",
        ] {
            assert!(!bench.violations(shell, line).is_empty(), "{shell}: {line}");
        }
        for line in ["ok", "ok a; exact one", "no || ok", "ok a b >/dev/null 2>&1 & ok"] {
            assert_eq!(bench.violations(shell, line), Vec::<String>::new(), "{shell}: {line}");
        }
    }
}

#[test]
fn allowed_lines_run_only_allowed_commands_in_real_shells() {
    let cases = std::env::var("REJOIN_SHELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(800);
    let rules = Rules::parse(ALLOW, &[]).unwrap();
    let bench = Bench::new();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let strategy = lines();
    let mut allowed = 0;
    for _ in 0..cases {
        let line = strategy.new_tree(&mut runner).unwrap().current();
        if !is_allowed(&rules, &line) {
            continue;
        }
        allowed += 1;
        for shell in shells() {
            let violations = bench.violations(shell, &line);
            assert!(
                violations.is_empty(),
                "{shell} ran more than the rules allow: {line:?} did {violations:?}"
            );
        }
    }
    println!("{allowed} of {cases} lines were allowed");
    assert!(
        allowed * 20 > cases,
        "only {allowed} of {cases} lines were allowed, so this compares too little"
    );
}
