//! Runs every command in the README, the tutorial, the guides and the page on REST, and compares its output with the page; commands
//! that are not run must exist with their flags. The script and the queries of the page on storage are run, too. `docs/page.rs`
//! reads a page, `docs/shell.rs` runs it, `docs/kill.rs`, `docs/rest.rs` and `docs/providers.rs` compare pages with the code.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "docs/kill.rs"]
mod kill;
#[path = "docs/page.rs"]
mod page;
#[path = "docs/providers.rs"]
mod providers;
#[path = "docs/rest.rs"]
mod rest;
#[path = "docs/shell.rs"]
mod shell;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use page::{Kind as What, Step, mentioned, of_rejoin, steps};
use rejoin::record::Kind;
use shell::{Names, ShellHome};

/// Commands that the design has and that may not exist yet. Once they exist, they are tested like the others.
const DESIGNED: &[&str] = &["auth", "models", "set-provider", "set-auth", "serve"];

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

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Every page with commands, by name.
fn pages() -> Vec<(String, String)> {
    let mut names: Vec<PathBuf> =
        ["README.md", "docs/tutorial.md", "docs/reference/rest.md"].into_iter().map(PathBuf::from).collect();
    for folder in ["docs/guides", "docs/guides/providers"] {
        let found = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap());
        let files = found.filter(|entry| entry.file_type().unwrap().is_file());
        names.extend(files.map(|entry| Path::new(folder).join(entry.file_name())));
    }
    names.sort();
    names.into_iter().map(|name| name.display().to_string()).map(|name| (name.clone(), read(&name))).collect()
}

/// Whether there is a command of that name.
fn is_there(command: &str) -> bool {
    let known = help(&["--help"]);
    known.unwrap().lines().any(|line| line.trim_start().starts_with(&format!("{command} ")))
}

/// The help of a command.
fn help(arguments: &[&str]) -> Option<String> {
    let ran = Command::new(env!("CARGO_BIN_EXE_rejoin")).args(arguments).output().unwrap();
    ran.status.success().then(|| String::from_utf8(ran.stdout).unwrap())
}

/// Whether a command is designed only.
fn is_awaited(line: &str) -> bool {
    of_rejoin(line).is_some_and(|words| DESIGNED.contains(&words[1].as_str()) && !is_there(&words[1]))
}

/// Sorts results of tools that run in parallel, so that their order does not depend on which was faster.
fn settled(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for results in lines.chunk_by_mut(|one, other| one.starts_with("← ") && other.starts_with("← ")) {
        if results[0].starts_with("← ") {
            results.sort_unstable();
        }
    }
    lines.join("\n")
}

/// Runs a page in one place, in order, and compares the output. Returns the number of commands that were run, and of outputs that
/// were compared.
fn run(name: &str, page: &str, cli: &ShellHome) -> (usize, usize) {
    let steps = steps(page);
    let run: Vec<&Step> =
        steps.iter().filter(|step| step.kind != What::Named && !is_awaited(&step.line)).collect();
    let (mut wanted, mut printed) = (Names::default(), Names::default());
    let mut shown = 0;
    for (step, ran) in run.iter().zip(cli.all(&run)) {
        let Step { at, line, kind } = step;
        if let What::Shown(text) = kind {
            let (printed, wanted) = (settled(&printed.plain(&ran.out)), settled(&wanted.plain(text)));
            assert_eq!(printed, wanted, "{name}:{at}: {line}\n{}", ran.out);
            shown += 1;
            continue;
        }
        let finds = line.contains("check") || line.contains("doctor");
        assert!(
            ran.code == 0 || (ran.code == 1 && finds),
            "{name}:{at}: {line} exited with {}: {}",
            ran.code,
            ran.err
        );
        // Commands that change something report it on stderr; output into a file is not printed.
        let quiet = ["config set", "set-", "logout", "rename", "delete", "erase", ">", " -o "];
        let prints = line.starts_with("rejoin ") && !quiet.iter().any(|word| line.contains(word));
        assert!(!ran.out.is_empty() || !prints, "{name}:{at}: {line} printed nothing");
    }
    (run.len(), shown)
}

/// S0-52, S0-59: the index leads to every page, and to the topics that people look for: how it works, the commands with examples
/// and error texts, that nothing must be migrated, and how to debug tool messages. All code is documented inline: `missing_docs` is
/// denied.
#[test]
fn the_index_leads_to_every_page() {
    let index = read("docs/README.md");
    let mut folders = vec![root().join("docs")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                let name = path.strip_prefix(root().join("docs")).unwrap().display().to_string();
                assert!(
                    name == "README.md" || index.contains(&format!("({name})")),
                    "{name} is not in the index"
                );
                count += 1;
            }
        }
    }
    assert!(count > 20 && index.contains("(../ARCHITECTURE.md)"), "{count}");
    let commands = read("docs/reference/cli.md");
    for wanted in ["\nExamples:\n", "\n## What is said when something goes wrong\n", "\nRelated: "] {
        assert!(commands.contains(wanted), "the page on commands has no {wanted:?}");
    }
    let upgrading = read("docs/guides/upgrading.md");
    for wanted in
        ["nothing to migrate by hand", "no conversation is rewritten", "rejoin.db.backup", "Breaking changes"]
    {
        assert!(upgrading.contains(wanted), "upgrading does not say {wanted:?}");
    }
    let debugging = read("docs/guides/debugging-tool-messages.md");
    for rule in rejoin::Rule::ALL.iter().map(|rule| rule.name()) {
        let of_pairing = ["call", "result", "batch"].iter().any(|word| rule.contains(word));
        let named = debugging.contains(&format!("`{rule}`"));
        assert!(named || !of_pairing, "debugging does not name {rule}");
    }
    assert!(read("Cargo.toml").contains("missing_docs = \"deny\""));
}

/// S0-52, S2-46: the README and the guides, each in a place where two examples are stored. None of them advises to delete
/// sessions.
#[test]
fn pages_are_real() {
    for (name, page) in pages() {
        assert!(!page.contains("rm -rf"), "{name} advises to delete something");
    }
    let mut count = 0;
    for (name, page) in pages().iter().filter(|(name, _)| name != "docs/tutorial.md") {
        let (run, shown) = run(name, page, &ShellHome::new());
        assert!(shown > 0, "{name} shows nothing");
        count += run;
    }
    assert!(count >= 60, "{count}");
    let readme = read("README.md");
    assert!(readme.contains("cargo run --release -- demo"));
    assert!(readme.lines().count() <= 150);
    let ci = read(".ci/run");
    assert!(
        ci.contains("cargo xtask ci") && readme.contains("\ncargo xtask ci\n"),
        "CI runs the README's test command"
    );
}

/// S2-38: the tutorial starts from nothing: no store, no settings, no provider. In it, a process is killed before its tools finish,
/// and the conversation continues.
#[test]
fn the_tutorial_is_real() {
    let cli = ShellHome::empty();
    let (run, shown) = run("docs/tutorial.md", &read("docs/tutorial.md"), &cli);
    assert!(run >= 20 && shown >= 10, "{run} {shown}");
    assert!(!cli.path().join("home").exists(), "it stays in the folder that it makes");
}

/// A command that is not run must exist, with each of its flags and their values.
#[test]
fn commands_that_are_not_run_exist() {
    let mut helps: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let (mut count, mut awaited) = (0, 0);
    for (name, page) in pages() {
        // Commands that are run are tested by that.
        let blocks = steps(&page).into_iter().filter(|step| step.kind == What::Named);
        for Step { at, line, .. } in blocks.chain(mentioned(&page)) {
            let Some(words) = of_rejoin(&line) else { continue };
            if is_awaited(&line) {
                awaited += 1;
                continue;
            }
            let complaint = complaint(&words[1..], &mut helps);
            assert_eq!(complaint, None, "{name}:{at}: {line}");
            count += 1;
        }
    }
    println!("{count} commands exist, {awaited} are designed only");
    assert!(count >= 60, "{count}");
    // Check that the test finds such faults.
    let mut wrong = |line: &str| complaint(&of_rejoin(line).unwrap()[1..], &mut helps);
    assert!(wrong("rejoin chat --provider x --model y -c hello").is_none());
    assert!(wrong("rejoin history show @ --view --for anthropic").is_none());
    assert!(wrong("rejoin chatt hello").unwrap().contains("chatt"));
    assert!(wrong("rejoin history shwo @").unwrap().contains("shwo"));
    assert!(wrong("rejoin chat --providr x").unwrap().contains("--providr"));
    assert!(wrong("rejoin chat --mode x").unwrap().contains("--mode"));
    assert!(wrong("rejoin chat -x").unwrap().contains("-x"));
    assert!(wrong("rejoin chat --api chatter hello").unwrap().contains("chatter"));
    assert!(wrong("rejoin resume @ --on-broken").is_none(), "a value that is left open is any");
    assert!(wrong("rejoin resume @ --on-broken=rrun").unwrap().contains("rrun"));
}

/// The fault in a command line, judged by its help.
fn complaint(words: &[String], helps: &mut BTreeMap<Vec<String>, String>) -> Option<String> {
    let mut path = Vec::new();
    let mut known = help(&["--help"]).unwrap();
    for word in words.iter().take(2) {
        // Only a command with subcommands takes a subcommand as its second word.
        if !path.is_empty() && !known.contains("\nCommands:\n") {
            break;
        }
        if word.starts_with('-') {
            break;
        }
        let commands = known.split("\nCommands:\n").nth(1)?.split("\n\n").next()?;
        if !commands.lines().any(|line| line.split_whitespace().next() == Some(word)) {
            return Some(format!("there is no command `{word}`"));
        }
        path.push(word.clone());
        known = helps
            .entry(path.clone())
            .or_insert_with(|| {
                let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
                help(&arguments).unwrap()
            })
            .clone();
    }
    let mut rest = words[path.len()..].iter().peekable();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            continue;
        }
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (word.as_str(), rest.peek().map(|next| next.to_string())),
        };
        let Some(about) = about(&known, flag) else { return Some(format!("there is no flag `{flag}`")) };
        if let (Some(values), Some(value)) = (values(about), value)
            && !values.contains(&value)
        {
            return Some(format!("`{flag}` does not take `{value}`, but {}", values.join(", ")));
        }
    }
    None
}

/// The help page's text about a flag: from its line to the next flag.
fn about<'h>(help: &'h str, flag: &str) -> Option<&'h str> {
    let is_flag = |line: &str| line.starts_with("  -") || line.starts_with("      --");
    let mut at = 0;
    let mut starts = Vec::new();
    for line in help.split_inclusive('\n') {
        if is_flag(line) {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(help.len());
    let of = |start: usize, end: usize| {
        let line = help[start..].lines().next()?;
        let names = line.split([' ', ',', '=']).any(|word| word == flag);
        names.then(|| &help[start..end])
    };
    starts.windows(2).find_map(|pair| of(pair[0], pair[1]))
}

/// The values that a flag takes, where they are listed.
fn values(about: &str) -> Option<Vec<String>> {
    if let Some((_, list)) = about.split_once("[possible values: ") {
        let list = list.split(']').next()?;
        return Some(list.split(',').map(|value| value.trim().to_owned()).collect());
    }
    let (_, list) = about.split_once("Possible values:\n")?;
    let lines = list.lines().map(str::trim).take_while(|line| !line.is_empty());
    let value = |line: &str| line.strip_prefix("- ")?.split(':').next().map(str::to_owned);
    Some(lines.filter_map(value).collect())
}

/// Every document, by name.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(PathBuf::from).into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap().map(|entry| entry.unwrap()) {
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The name of a heading in a link.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        _ => (letter.is_alphanumeric() || letter == '-' || letter == '_').then_some(letter),
    };
    plain.chars().filter_map(letter).collect()
}

/// A link within the project leads to an existing page, and to an existing heading in it.
#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document.display().to_string());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            if link.contains("://") || link.contains(['`', ' ', '\n']) {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let here = document.parent().unwrap();
            let target = if file.is_empty() { document.clone() } else { here.join(file) };
            assert!(root().join(&target).exists(), "{}: {link} leads nowhere", document.display());
            if !heading.is_empty() {
                let page = read(&target.display().to_string());
                let found = page.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{}: {link} has no such heading", document.display());
            }
            count += 1;
        }
    }
    assert!(count >= 50, "{count}");
}

/// The script of the page on storage reads a folder of files, whole and torn; its queries read a database.
#[test]
fn the_page_on_storage_is_true() {
    let page = read("docs/reference/storage.md");
    let cli = ShellHome::new();
    let here = cli.path();
    for line in blocks(&page, "sh").iter().flat_map(|block| block.lines()) {
        assert_eq!(cli.run(line).code, 0, "{line}");
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

/// The page on storage names every table and column that exists, and every kind of entry.
#[test]
fn the_page_on_storage_is_complete() {
    let page = read("docs/reference/storage.md");
    let cli = ShellHome::new();
    let database = rusqlite::Connection::open(cli.path().join("home/rejoin.db")).unwrap();
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
    let page = read("docs/decisions.md");
    let (_, choices) = page.split_once("\n## Eight choices\n").unwrap();
    let rows: Vec<Vec<&str>> = choices
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| choice"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    // The choices, and what the page must say about each.
    let wanted: [(&str, &[&str]); 8] = [
        ("where files lie", &["$XDG_DATA_HOME/rejoin/rejoin.db", "REJOIN_STORE", "REJOIN_HOME", ".jsonl"]),
        ("threshold", &["0.8", "compact_threshold"]),
        ("budget", &["20,000", "half"]),
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
    }
}
