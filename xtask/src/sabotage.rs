//! Breaking the code on purpose, to see that each law notices: a law that cannot fail proves nothing.
//!
//! Works on a copy of the sources under `target/`; the tree itself is never touched.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::run::{cargo, files};

/// What is broken, and the test that must notice.
struct Sabotage {
    law: &'static str,
    package: &'static str,
    test: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const SABOTAGES: &[Sabotage] = &[
    Sabotage {
        law: "sound",
        package: "rejoin-formats",
        test: "sound",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "self.ends_with_assistant.filter(|_| self.target.closes) {",
        to: "self.ends_with_assistant.filter(|_| false) {",
    },
    Sabotage {
        law: "sound",
        package: "rejoin-formats",
        test: "sound",
        file: "crates/view/src/repair/emit.rs",
        from: "if !reused && !self.state.derived.contains(id) {",
        to: "if !(reused && self.state.derived.contains(id)) {",
    },
    Sabotage {
        law: "sound",
        package: "rejoin-formats",
        test: "sound",
        file: "crates/formats/src/wire/openai_responses/encode.rs",
        // Reasoning goes out without what the model did next.
        from: "            if !follows {",
        to: "            if !follows && false {",
    },
    Sabotage {
        law: "accounted for",
        package: "rejoin-formats",
        test: "every_word_of_a_reshaped_body_is_accounted_for",
        file: "crates/formats/src/accounting/mod.rs",
        // What was not read is not reported.
        from: "left.retain(|left| !elsewhere.holds(&left.text));",
        to: "left.retain(|left| !elsewhere.holds(&left.text) && left.text.is_empty());",
    },
    Sabotage {
        law: "identity",
        package: "rejoin-formats",
        test: "identity",
        file: "crates/formats/src/wire/openai_chat/encode.rs",
        from: "&& message.native.as_ref().is_some_and(|native| native.regular)",
        to: "&& message.native.as_ref().is_some_and(|native| native.regular) && false",
    },
    Sabotage {
        law: "idempotent",
        package: "rejoin-formats",
        test: "idempotent",
        file: "crates/formats/src/wire/names.rs",
        from: "if begun && name.len() <= max && name.chars().all(legal) {",
        to: "if begun && name.len() <= max && name.chars().all(legal) && !name.contains('_') {",
    },
    Sabotage {
        law: "conserving",
        package: "rejoin-formats",
        test: "conserving",
        file: "crates/view/src/repair/emit.rs",
        from: "                return keep;",
        to: "                return false;",
    },
    Sabotage {
        law: "conserving",
        package: "rejoin-formats",
        test: "conserving",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "let leading = item.index() == self.leading && self.list.is_empty() && self.pending.is_none();",
        to: "let leading = true;",
    },
    Sabotage {
        law: "stable",
        package: "rejoin-formats",
        test: "stable",
        file: "crates/view/src/repair/pairing.rs",
        from: "if result.epoch == self.epoch {",
        to: "if result.epoch <= self.epoch {",
    },
    Sabotage {
        law: "linear",
        package: "rejoin-formats",
        test: "running_equals_fresh",
        file: "crates/view/src/repair/mod.rs",
        from: "let first_change = work.first_change.or(emit::shift(emitted.first_change, work.items));",
        to: "let first_change = work.first_change.or(emitted.first_change);",
    },
    Sabotage {
        law: "linear",
        package: "rejoin-view",
        test: "repair_is_linear",
        file: "crates/view/src/repair/pairing.rs",
        // What was taken off the stacks is put back: every call walks over it again.
        from: "        let mut steps = Self::settle(state, &self.calls, self.epoch);",
        to: "        let (open, newest) = (state.open, state.newest);
        let mut steps = Self::settle(state, &self.calls, self.epoch);
        (state.open, state.newest) = (open, newest);",
    },
    Sabotage {
        law: "every change has a finding",
        package: "rejoin-formats",
        test: "nothing_happens_in_silence",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "        self.ledger.note(match extra {",
        to: "        let _ = (match extra {",
    },
];

/// Sabotages that have nothing to break any more: the code has moved on.
pub fn stale() -> Vec<String> {
    let gone = |sabotage: &&Sabotage| {
        !fs::read_to_string(sabotage.file).is_ok_and(|source| source.contains(sabotage.from))
    };
    let stale = SABOTAGES.iter().filter(gone);
    stale.map(|sabotage| format!("{}: sabotage has no `{}` to break", sabotage.file, sabotage.from)).collect()
}

pub fn sabotage() -> Result<()> {
    let copy = Path::new("target/sabotage");
    for sabotage in SABOTAGES {
        lay_out(copy)?;
        let file = copy.join(sabotage.file);
        let source = fs::read_to_string(&file)?;
        ensure!(
            source.contains(sabotage.from),
            "{}: there is no `{}` to break",
            sabotage.file,
            sabotage.from
        );
        fs::write(&file, source.replacen(sabotage.from, sabotage.to, 1))?;
        let mut command: Command = cargo(&["test", "--quiet", "--package", sabotage.package, sabotage.test]);
        command
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", "../sabotage-target")
            .env("REJOIN_LAW_CASES", "6000");
        let output = command.output().context("cannot run cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            text.contains("test result: FAILED"),
            "law `{}`: `{}` did not notice that {} was broken\n{text}\n{}",
            sabotage.law,
            sabotage.test,
            sabotage.file,
            String::from_utf8_lossy(&output.stderr)
        );
        println!("law `{}`: `{}` noticed what was done to {}", sabotage.law, sabotage.test, sabotage.file);
    }
    Ok(())
}

/// Copies the sources, changing only files that differ, so that only what was broken is built again.
fn lay_out(copy: &Path) -> Result<()> {
    let mut paths: Vec<_> =
        ["Cargo.toml", "Cargo.lock", "clippy.toml"].iter().map(|name| Path::new(name).to_owned()).collect();
    for folder in ["crates", "testkit", "xtask"] {
        paths.extend(files(Path::new(folder), "")?);
    }
    for path in paths {
        let target = copy.join(&path);
        let bytes = fs::read(&path)?;
        if fs::read(&target).is_ok_and(|old| old == bytes) {
            continue;
        }
        fs::create_dir_all(target.parent().context("a file has a folder")?)?;
        fs::write(target, bytes)?;
    }
    Ok(())
}
