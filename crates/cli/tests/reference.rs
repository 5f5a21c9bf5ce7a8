//! The reference pages are generated from the registries. `cargo xtask docs` writes them; these tests compare them with its output.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fmt::Write as _, fs, path::Path, process::Command};

use rejoin::{Dialect, Rule, sessions::FORMATS};

const MADE: &str = "<!-- Made by `cargo xtask docs`; do not edit. -->\n";

#[test]
fn the_reference_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages =
        [("dialects.md", dialects()), ("formats.md", formats()), ("rules.md", rules()), ("cli.md", cli())];
    for (name, text) in pages {
        let path = folder.join(name);
        if std::env::var_os("REJOIN_WRITE_DOCS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/reference/{name} is not up to date: run `cargo xtask docs`");
    }
}

fn dialects() -> String {
    let mut page = format!("{MADE}# Dialects\n\n");
    page.push_str(
        "A dialect is the shape of a provider's request body. `rejoin convert … --to DIALECT` writes one,\n\
         `rejoin check --for DIALECT` says what would have to change for it. Without `--for`, a request in a dialect whose bodies\n\
         are not read is judged by the checker of that dialect if something that only it has tells the dialect, such as\n\
         `toolConfig` (Bedrock), `keep_alive` (Ollama) or `safe_prompt` (Mistral).\n\n\
         | dialect | provider | bodies are read | reference of its answers |\n|---|---|---|---|\n",
    );
    for dialect in Dialect::all() {
        let read = FORMATS.iter().any(|format| format.name == dialect.name());
        let read = if read { "yes" } else { "as `openai-chat`, where they have that shape" };
        let read = if dialect == Dialect::Bedrock { "no" } else { read };
        let provider = dialect.wire().provider;
        writeln!(page, "| `{dialect}` | {provider} | {read} | [below](#{dialect}) |").unwrap();
    }
    for dialect in Dialect::all() {
        write!(page, "\n## {dialect}\n\n").unwrap();
        page.push_str("What the provider answers to a history in which rejoin finds this:\n\n");
        page.push_str("| finding | answer |\n|---|---|\n");
        let mut any = false;
        for rule in Rule::ALL {
            if let Some(answer) = dialect.wire().answer(*rule) {
                any = true;
                let answer = answer.replace('|', "\\|");
                writeln!(page, "| [`{rule}`](rules.md#{rule}) | {answer} |").unwrap();
            }
        }
        if !any {
            page.push_str("| – | it refuses nothing, and loses what it does not understand |\n");
        }
    }
    page
}

fn formats() -> String {
    let mut page = format!("{MADE}# Formats\n\n");
    page.push_str(
        "What conversations are read from and written to. The format of a file is told by what is in it;\n\
         `--from FORMAT` says it where that fails. A dialect's name after `--to` always means a request body.\n\
         A file may be packed: with gzip or zstd, or as the only session in a zip archive. If it is cut off,\n\
         rejoin reads everything before the cut.\n\n\
         | format | what it is | read | written |\n|---|---|---|---|\n",
    );
    for format in FORMATS {
        let read = match &format.read {
            None => "no",
            Some(reading) if reading.is_lines() => "line by line",
            Some(_) => "yes",
        };
        let dialect = format.name.parse::<Dialect>().is_ok();
        let written = if format.write.is_some() || dialect { "yes" } else { "no" };
        writeln!(page, "| `{}` | {} | {read} | {written} |", format.name, format.about).unwrap();
    }
    page
}

fn rules() -> String {
    let mut page = format!("{MADE}# Findings\n\n");
    page.push_str(
        "What `rejoin check` can find. A name is a promise: scripts may match on it. `rejoin explain NAME` prints\n\
         the same pages.\n\n| finding | severity | |\n|---|---|---|\n",
    );
    for rule in Rule::ALL {
        let severity = rule.severity().name();
        writeln!(page, "| [`{rule}`](#{rule}) | {severity} | {} |", rule.summary()).unwrap();
    }
    for rule in Rule::ALL {
        // The page's own heading goes one level down.
        write!(page, "\n#{}", rule.page().trim_end()).unwrap();
        page.push('\n');
    }
    page
}

/// The output of `--help`, command by command.
fn cli() -> String {
    let mut page = format!("{MADE}# The command line\n\n");
    page.push_str(
        "stdout is data, stderr is talk. Exit codes: 0 done, 1 failed or something found, 2 usage or unreadable\n\
         input, 130 interrupted, 255 a bug of ours.\n",
    );
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
            .args(arguments)
            .arg("--help")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let main = help(&[]);
    write!(page, "\n## rejoin\n\n```text\n{}\n```\n", main.trim_end()).unwrap();
    for command in commands(&main) {
        let text = help(&[&command]);
        write!(page, "\n## rejoin {command}\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
        for inner in commands(&text) {
            let text = help(&[&command, &inner]);
            write!(page, "\n### rejoin {command} {inner}\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
        }
    }
    page.push_str(ERRORS);
    page
}

/// The messages on stderr when a command fails.
const ERRORS: &str = r#"
## What is said when something goes wrong

One line says what, a `hint:` what to do. The texts in this table are fixed; `…` stands for what differs.

| text | when | exit code |
|---|---|---|
| `Conversation not found: id=…` | nothing goes by that id; `rejoin list` shows what there is | 1 (`check`: 2) |
| `Failed to load conversation: …` | the store exists but cannot be read; the message names the reason and the store | 1 |
| `Conversation … is damaged at line …: …` (`row …` in a database) | something is not as it was saved, and `--strict` was asked for | 1 |
| `Conversation … has no turns` | nothing was said in it, and `--strict` was asked for | 1 |
| `` `…` could mean several conversations `` | the ids that begin like that, or the conversations with such a title, are listed | 2 |
| `there is no active conversation here` | `@`, in a folder where `rejoin new` was never run | 1 |
| `another process is writing to the conversation: process …` | its process, command and since when; reading works | 1 |
| `the store … cannot be used: …` | it cannot be opened, or only be read | 1 |
| `Failed to save turn: …` | a warning: the conversation goes on in memory and is saved when the store is back | – |

Related: [when something is wrong with the store](../guides/recovery.md), [findings](rules.md).
"#;

/// S0-19: the page lists the messages about a store that cannot be read, and about other troubles with a store.
#[test]
fn the_page_lists_what_is_said_when_something_goes_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], store: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
            .args(arguments)
            .current_dir(folder.path())
            .env("REJOIN_HOME", folder.path().join("home"))
            .env("REJOIN_STORE", store)
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(folder.path().join("file"), "no folder").unwrap();
    let id = run(&["new"], "jsonl:chats").0.trim_end().to_owned();
    let said = [
        run(&["history", "show", "conv_aaaaaaaaaaaa"], "jsonl:chats").1,
        run(&["history", "show", &id], "jsonl:file").1,
        run(&["history", "show", &id, "--strict"], "jsonl:chats").1,
        run(&["history", "show", "@"], "jsonl:other").1,
        run(&["new"], "jsonl:file").1,
    ];
    // The test above makes sure that they are on the page.
    let lines: Vec<&str> = ERRORS
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|row| !row.is_empty())
        .collect();
    for words in &said {
        let first = words.lines().next().unwrap().strip_prefix("error: ").unwrap();
        // A row is a message, with `…` for the parts that differ.
        let fits = |row: &&&str| {
            let mut rest = first;
            row.split('…').all(|piece| match rest.split_once(piece) {
                Some((_, behind)) => {
                    rest = behind;
                    true
                }
                None => false,
            })
        };
        let row = lines.iter().find(fits).unwrap_or_else(|| panic!("the page does not list: {first}"));
        assert!(row.len() > 12, "{row}");
    }
    assert!(
        lines.contains(&"Failed to load conversation: …")
            && said[1].contains("Failed to load conversation: ")
    );
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The continuation of a long line is indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
