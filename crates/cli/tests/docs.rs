//! The commands and console sessions in the README and the guides are run, and print what the page says. So are the script and
//! the queries of the page on storage.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fs, io::Write as _, path::Path, process::Command};

use rejoin::record::Kind;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Fenced blocks of a language in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    for line in page.lines() {
        match &mut inside {
            None if line == format!("```{language}") => inside = Some(String::new()),
            None => {}
            Some(text) if line == "```" => {
                found.push(std::mem::take(text));
                inside = None;
            }
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found
}

/// A place to run a page's commands in, one after the other: the examples that ship, and a store with two of them.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        let examples = desk.folder.path().join("examples");
        fs::create_dir(&examples).unwrap();
        for file in fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, examples.join(file.file_name().unwrap())).unwrap();
            }
        }
        let (_, code) = desk.run("rejoin import examples/rollout.jsonl examples/transcript.jsonl");
        assert_eq!(code, 0);
        desk
    }

    fn run(&self, line: &str) -> (String, i32) {
        let arguments = line.split(" #").next().unwrap_or(line).trim();
        let arguments = arguments.strip_prefix("rejoin ").expect("a rejoin command");
        // What the pages call `session.json` is the example that ships.
        let arguments =
            arguments.replace("*.json", "session.json").replace("session.json", "examples/interrupted.json");
        let arguments = arguments.split(['|', '>']).next().unwrap_or_default().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REJOIN_"))
        {
            command.env_remove(name);
        }
        let output = command
            .args(arguments.split_whitespace())
            // Nobody's own sessions, and nobody's own store.
            .env("HOME", self.folder.path().join("nobody"))
            .env("REJOIN_HOME", self.folder.path().join("home"))
            .env("TZ", "UTC")
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    }
}

/// The README and the guides, by name.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    paths.extend(fs::read_dir(root().join("docs/guides")).unwrap().map(|entry| entry.unwrap().path()));
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn console_sessions_are_real() {
    for (name, page) in pages() {
        let sessions = blocks(&page, "console");
        assert!(!sessions.is_empty(), "{name}");
        let desk = Desk::new();
        for session in sessions {
            let (command, expected) = session.split_once('\n').unwrap();
            let (printed, _) = desk.run(command.strip_prefix("$ ").unwrap());
            assert_eq!(printed, expected, "{name}");
        }
    }
}

#[test]
fn commands_work() {
    let mut count = 0;
    for (name, page) in pages() {
        let commands = blocks(&page, "sh");
        let desk = Desk::new();
        for line in commands.iter().flat_map(|block| block.lines()).filter(|line| line.starts_with("rejoin "))
        {
            let (printed, code) = desk.run(line);
            let finds = line.contains("check") || line.contains("doctor");
            assert!(code == 0 || (code == 1 && finds), "{name}: {line} exited with {code}");
            // What changes something says so on stderr.
            let quiet = ["config set", "rename", "delete", "erase"].iter().any(|word| line.contains(word));
            assert!(!printed.is_empty() || quiet, "{name}: {line} printed nothing");
            count += 1;
        }
    }
    assert!(count >= 30, "{count}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("cargo run --release -- check examples/interrupted.json"));
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.contains("cargo xtask ci") && readme.contains("\ncargo xtask ci\n"),
        "CI runs the README's test command"
    );
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The script of the page on storage reads a folder of files, whole and torn; its queries read a database.
#[test]
fn the_page_on_storage_is_true() {
    let page = page("docs/reference/storage.md");
    let desk = Desk::new();
    let here = desk.folder.path();
    for line in blocks(&page, "sh").iter().flat_map(|block| block.lines()) {
        assert_eq!(desk.run(line).1, 0, "{line}");
    }
    for query in blocks(&page, "sql") {
        let of_the_index = query.starts_with("-- rejoin.db-index\n");
        let file = if of_the_index { "home/rejoin.db-index" } else { "home/rejoin.db" };
        let database = rusqlite::Connection::open(here.join(file)).unwrap();
        let mut query = database.prepare(&query).unwrap();
        let mut rows = query.query([]).unwrap();
        let first: String = rows.next().unwrap().expect("a row").get(0).unwrap();
        assert!(first.starts_with("conv_"), "{first}");
    }
    let script = blocks(&page, "python").concat();
    fs::write(here.join("read.py"), script).unwrap();
    let sessions = blocks(&page, "console");
    let (command, expected) = sessions[0].split_once('\n').unwrap();
    let file = command.strip_prefix("$ python3 read.py ").unwrap();
    let python = || Command::new("python3").arg("read.py").arg(file).current_dir(here).output();
    match python() {
        Err(why) => return println!("the script is not run: python3: {why}"),
        Ok(ran) => assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected, "{:?}", ran.stderr),
    }
    let mut torn = fs::OpenOptions::new().append(true).open(here.join(file)).unwrap();
    torn.write_all(b"{\"v\":\"1.0\",\"id\":\"0199").unwrap();
    assert_eq!(String::from_utf8(python().unwrap().stdout).unwrap(), expected, "a torn line is passed over");
}

/// The page on storage names every table and column that is there, and every kind of entry.
#[test]
fn the_page_on_storage_is_complete() {
    let page = page("docs/reference/storage.md");
    let desk = Desk::new();
    let database = rusqlite::Connection::open(desk.folder.path().join("home/rejoin.db")).unwrap();
    let mut names: Vec<String> = Kind::KNOWN.iter().map(|kind| kind.as_str().to_owned()).collect();
    let mut query = database
        .prepare(
            "SELECT DISTINCT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c \
             WHERE t.type = 'table'",
        )
        .unwrap();
    let columns =
        query.query_map([], |row| Ok([row.get::<_, String>(0)?, row.get::<_, String>(1)?])).unwrap();
    names.extend(columns.flat_map(Result::unwrap));
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
    }
}

/// S3-39: each of the eight choices is stated, with what holds.
#[test]
fn the_eight_choices_are_stated() {
    let page = page("docs/decisions.md");
    let (_, choices) = page.split_once("\n## Eight choices\n").unwrap();
    let rows: Vec<Vec<&str>> = choices
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| choice"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    // The choice, and what has to be said of it.
    let wanted: [(&str, &[&str]); 8] = [
        ("where files lie", &["$XDG_DATA_HOME/rejoin/rejoin.db", "REJOIN_STORE", "REJOIN_HOME", ".jsonl"]),
        ("threshold", &["0.8", "compact_threshold"]),
        ("budget", &["20,000", "40 %"]),
        ("summary model", &["own"]),
        ("what is visible", &["Compacting conversation history..."]),
        ("mismatch on resume", &["recorded", "flag"]),
        ("JSONL compatibility with Codex", &["codex", "turns", "jsonl"]),
        ("how a compaction is recorded", &["compacted", "truncated_count"]),
    ];
    assert_eq!(rows.len(), wanted.len(), "{rows:?}");
    for (row, (choice, says)) in rows.iter().zip(wanted) {
        assert_eq!(row[0], choice);
        for word in says {
            assert!(row[1].contains(word), "{choice}: {word} is not in {:?}", row[1]);
        }
        assert!(["holds", "decided"].contains(&row[2]), "{choice}: {}", row[2]);
    }
}
