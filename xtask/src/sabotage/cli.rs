//! Breaks in `cli`: what commands print, where they write, and how they end.

use super::{Break, bins, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "one character too many is shown of long content",
        file: "crates/cli/src/commands/history/shape.rs",
        from: "match text.char_indices().nth(CONTENT_CHARS) {",
        to: "match text.char_indices().nth(CONTENT_CHARS + 1) {",
        tests: test("rejoin-cli", "store", "long_content"),
    },
    Break {
        what: "what was cut is counted in bytes",
        file: "crates/cli/src/commands/history/shape.rs",
        from: "let total = text.chars().count();",
        to: "let total = text.len();",
        tests: test("rejoin-cli", "store", "long_content"),
    },
    Break {
        what: "a result loses the id of its call in raw output",
        file: "crates/rejoin/src/history/shape.rs",
        from: "result.call_id.as_ref().map(|id| quoted(id.as_str())).as_deref()",
        to: "None",
        tests: test("rejoin-cli", "store", "raw_is"),
    },
    Break {
        what: "a command is not shown",
        file: "crates/rejoin/src/history/mod.rs",
        from: "Kind::Message | Kind::Command | Kind::Compacted)",
        to: "Kind::Message | Kind::Compacted)",
        tests: test("rejoin-cli", "store", "commands_are"),
    },
    Break {
        what: "`show` says that it has displayed before it has",
        file: "crates/cli/src/commands/history/show.rs",
        from: r#"        desk.show(&text)?;
    }
    tracing::info!("Displayed"#,
        to: r#"        tracing::info!("Displayed conversation: id={id}, message_count={count}");
        desk.show(&text)?;
        return Ok(0);
    }
    tracing::info!("Displayed"#,
        tests: test("rejoin-cli", "store", "showing_is_logged"),
    },
    Break {
        what: "a list that is cut does not say so",
        file: "crates/rejoin/src/list.rs",
        from: "self.total.saturating_sub(self.shown)",
        to: "self.shown.saturating_sub(self.total)",
        tests: test("rejoin-cli", "store", "a_long_list"),
    },
    Break {
        what: "the active conversation is not marked",
        file: "crates/cli/src/commands/list.rs",
        from: r#"let mark = if self.active == Some(summary.id) { "*" }"#,
        to: r#"let mark = if self.active != Some(summary.id) { "*" }"#,
        tests: test("rejoin-cli", "store", "the_active"),
    },
    Break {
        what: "a list with a filter stops at the first page",
        file: "crates/rejoin/src/list.rs",
        from: "let mut left = if filter.is_open() { limit } else { usize::MAX };",
        to: "let mut left = limit;",
        tests: test("rejoin-cli", "store", "lists_are_filtered"),
    },
    Break {
        what: "`check` of something unsound exits with 0",
        file: "crates/cli/src/commands/check.rs",
        from: "        (_, true, _) | (_, _, true) => FAILED,",
        to: "        (_, _, true) => FAILED,",
        tests: test("rejoin-cli", "cli", "check"),
    },
    Break {
        what: "`check` of nothing readable exits with 1",
        file: "crates/cli/src/commands/check.rs",
        from: "        (0, _, _) => UNREADABLE,",
        to: "        (0, _, _) => FAILED,",
        tests: test("rejoin-cli", "cli", "nothing_readable"),
    },
    Break {
        what: "a closed pipe is an error",
        file: "crates/cli/src/output.rs",
        from: "if error.kind() == io::ErrorKind::BrokenPipe {",
        to: "if error.kind() == io::ErrorKind::UnexpectedEof {",
        tests: test("rejoin-cli", "cli", "a_closed_pipe"),
    },
    Break {
        what: "`-o` writes over the file that is being read",
        file: "crates/cli/src/outfile.rs",
        from: "    if source.is(path) {",
        to: "    if source.is(path) && !output.force {",
        tests: test("rejoin-cli", "upkeep", "results_are_written"),
    },
    Break {
        what: "`-o` writes over a file without `--force`",
        file: "crates/cli/src/outfile.rs",
        from: "if is_file && !is_stream(path) && !output.force {",
        to: "if is_file && is_stream(path) && !output.force {",
        tests: test("rejoin-cli", "upkeep", "results_are_written"),
    },
    Break {
        what: "a replaced file is open to everybody",
        file: "crates/cli/src/home.rs",
        from: "            file.set_permissions(old.permissions())?;
",
        to: "",
        tests: bins("rejoin-cli", "home"),
    },
    Break {
        what: "one pointer is kept for all stores of a folder",
        file: "crates/cli/src/active.rs",
        from: r#"format!("{folder}\0{store}").as_bytes()"#,
        to: r#"format!("{folder}").as_bytes()"#,
        tests: bins("rejoin-cli", "active"),
    },
    Break {
        what: "a copy in which something failed exits with 0",
        file: "crates/cli/src/commands/copy.rs",
        from: "if failed > 0 { Err(",
        to: "if failed > ids.len() { Err(",
        tests: test("rejoin-cli", "upkeep", "copies_are"),
    },
    Break {
        what: "an import counts what grew as new",
        file: "crates/cli/src/commands/import.rs",
        from: "self.counts.new += usize::from(imported.new);",
        to: "self.counts.new += usize::from(imported.added > 0);",
        tests: test("rejoin-cli", "upkeep", "import"),
    },
    Break {
        what: "a file that was named and cannot be read is passed over in silence",
        file: "crates/cli/src/commands/import.rs",
        from: "if candidate.agent.is_some() || candidate.named {",
        to: "if candidate.agent.is_some() {",
        tests: test("rejoin-cli", "upkeep", "what_cannot"),
    },
    Break {
        what: "`resume --on-broken refuse` goes on all the same",
        file: "crates/cli/src/commands/resume.rs",
        from: "let problems = if on_broken == OnBroken::Refuse { talking.problems() }",
        to: "let problems = if on_broken == OnBroken::Drop { talking.problems() }",
        tests: test("rejoin-cli", "chat", "a_broken_history"),
    },
    Break {
        what: "`resume` says nothing of a message that was not an id",
        file: "crates/cli/src/commands/resume.rs",
        from: "    if given.trim().contains(char::is_whitespace) {",
        to: "    if given.trim().contains(char::is_control) {",
        tests: test("rejoin-cli", "chat", "a_broken_history"),
    },
    Break {
        what: "a share of nothing is taken for a share",
        file: "crates/cli/src/settings/mod.rs",
        from: "share > 0.0 && share <= 1.0",
        to: "share >= 0.0 && share <= 1.0",
        tests: bins("rejoin-cli", "settings"),
    },
    Break {
        what: "a login of another tool is used although only keys are wanted",
        file: "crates/cli/src/answering.rs",
        from: r#"claude.filter(|_| matches!(method, "any" | "claude"))"#,
        to: r#"claude.filter(|_| matches!(method, "any" | "claude" | "key"))"#,
        tests: test("rejoin-cli", "keys", "logins"),
    },
    Break {
        what: "a ChatGPT login is used although a Claude login is wanted",
        file: "crates/cli/src/answering.rs",
        from: r#"codex.filter(|_| matches!(method, "any" | "chatgpt"))"#,
        to: r#"codex.filter(|_| matches!(method, "any" | "chatgpt" | "claude"))"#,
        tests: test("rejoin-cli", "keys", "four_ways"),
    },
];
