//! Breaks in `view`: who answers whom, what a broken state becomes, the path through the record.

use super::{Break, lib, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "a second call of the same id keeps that id",
        file: "crates/view/src/repair/emit.rs",
        from: "if !reused && !self.state.derived.contains(id) {",
        to: "if !(reused && self.state.derived.contains(id)) {",
        tests: test("rejoin-formats", "laws", "sound"),
    },
    Break {
        what: "an orphan is thrown away instead of shown as text",
        file: "crates/view/src/repair/emit.rs",
        from: "                return keep;",
        to: "                return false;",
        tests: test("rejoin-formats", "laws", "conserving"),
    },
    Break {
        what: "a result from before a request answers a call behind it",
        file: "crates/view/src/pairing.rs",
        from: "if result.epoch == self.epoch {",
        to: "if result.epoch <= self.epoch {",
        tests: test("rejoin-formats", "laws", "stable"),
    },
    Break {
        what: "a running view counts its first change from the last seal",
        file: "crates/view/src/repair/mod.rs",
        from: "let first_change = work.first_change.or(emit::shift(emitted.first_change, work.items));",
        to: "let first_change = work.first_change.or(emitted.first_change);",
        tests: test("rejoin-formats", "laws", "running_equals_fresh"),
    },
    Break {
        what: "every call walks again over what is closed",
        file: "crates/view/src/pairing.rs",
        from: "        let mut steps = Self::settle(state, &self.calls, self.epoch);",
        to: "        let (open, newest) = (state.open, state.newest);
        let mut steps = Self::settle(state, &self.calls, self.epoch);
        (state.open, state.newest) = (open, newest);",
        tests: lib("rejoin-view", "repair::linear"),
    },
    Break {
        what: "every message is looked for in all items before it",
        file: "crates/view/src/repair/emit.rs",
        from: "        let slot = self.pairing.messages[index];
",
        to: "        let slot = self.pairing.messages[index];
        let _ = std::hint::black_box(self.items.iter().filter(|item| item.index as usize == index).count());
",
        tests: lib("rejoin-view", "repair::linear"),
    },
    Break {
        what: "every result walks over all calls of its stretch",
        file: "crates/view/src/repair/emit.rs",
        from: "        let slot = &self.pairing.results[self.state.next_result];
",
        to: "        let slot = &self.pairing.results[self.state.next_result];
        let _ = std::hint::black_box(self.left_out.iter().filter(|out| **out).count());
",
        tests: lib("rejoin-view", "repair::linear"),
    },
    Break {
        what: "a second result replaces nothing and is said nothing of",
        file: "crates/view/src/pairing.rs",
        from: "slot.tie = Tie::Duplicate;",
        to: "slot.tie = Tie::Answer;",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "of two open calls in one message the second is answered first",
        file: "crates/view/src/pairing.rs",
        from: "            self.calls[state.newest as usize].next_in_group = this;
",
        to: "            self.calls[state.newest as usize].next_in_group = NONE;
",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "results in another order are not noticed",
        file: "crates/view/src/pairing.rs",
        from: "slot.out_of_order = slot.direct && slot.call < self.batch_reached;",
        to: "slot.out_of_order = false;",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "text between a call and its result is not noticed",
        file: "crates/view/src/pairing.rs",
        from: "        } else if !only_results {
            self.batch = None;",
        to: "        } else if only_results {
            self.batch = None;",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "a call that never began is answered with a note",
        file: "crates/view/src/pairing.rs",
        from: "Fate::Unknown | Fate::Started if !policy.drops() && !malformed",
        to: "Fate::Unknown | Fate::Started | Fate::NotStarted if !policy.drops() && !malformed",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "drop leaves out only the unanswered calls of a batch",
        file: "crates/view/src/repair/emit.rs",
        from: "let all_out = policy.drops() && unanswered > 0;",
        to: "let all_out = false;",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "drop forgets to leave out what stands with a blank text",
        file: "crates/view/src/repair/emit.rs",
        from: "(flush == Flush::UnlessBlank && parts.iter().all(blank))",
        to: "(flush == Flush::UnlessBlank && parts.is_empty())",
        tests: test("rejoin", "sequence", "a_message_goes_only_when_empty"),
    },
    Break {
        what: "a made-up id may be one that is taken",
        file: "crates/view/src/repair/emit.rs",
        from: "if !natural && !self.state.derived.contains(&candidate) {",
        to: "if !self.state.derived.contains(&candidate) {",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "malformed arguments are sent as they are",
        file: "crates/view/src/repair/emit.rs",
        from: "                ArgumentsUse::Wrapped
",
        to: "                ArgumentsUse::AsWritten
",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "refuse lets a history through that is not sound",
        file: "crates/view/src/repair/mod.rs",
        from: "if on_broken == OnBroken::Refuse && repaired.findings.iter().any(Finding::is_problem) {",
        to: "if on_broken == OnBroken::Refuse && repaired.findings.iter().all(Finding::is_problem) && false {",
        tests: lib("rejoin-view", "repair::tests"),
    },
    Break {
        what: "a decision to leave a call out is forgotten",
        file: "crates/view/src/path.rs",
        from: "Decision::LeftOut => Fate::ClosedLeftOut,",
        to: "Decision::LeftOut => Fate::Unknown,",
        tests: test("rejoin-view", "path", ""),
    },
    Break {
        what: "a summary stands behind what it replaced",
        file: "crates/view/src/path.rs",
        from: "                    self.messages.rotate_right(1);
",
        to: "",
        tests: test("rejoin-view", "path", ""),
    },
    Break {
        what: "a damaged entry is passed over in silence",
        file: "crates/view/src/path.rs",
        from: "                self.found(entry, finding.about(entry.to_string()));
",
        to: "                let _ = finding.about(entry.to_string());
",
        tests: test("rejoin-view", "path", ""),
    },
    Break {
        what: "a copy of a list sees what was pushed after it",
        file: "crates/view/src/list.rs",
        from: "if index >= self.len {",
        to: "if index > self.len {",
        tests: lib("rejoin-view", "list"),
    },
];
