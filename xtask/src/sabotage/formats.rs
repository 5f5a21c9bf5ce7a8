//! Breaks in `formats`: what goes out, what comes in, and what is said about it.

use super::{Break, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "a history that ends with the assistant is not closed",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "self.ends_with_assistant.filter(|_| self.target.closes) {",
        to: "self.ends_with_assistant.filter(|_| false) {",
        tests: test("rejoin-formats", "laws", "sound"),
    },
    Break {
        what: "reasoning goes out without what the model did next",
        file: "crates/formats/src/wire/openai_responses/encode.rs",
        from: "            if !follows {",
        to: "            if !follows && false {",
        tests: test("rejoin-formats", "laws", "sound"),
    },
    Break {
        what: "text that was not read is not reported",
        file: "crates/formats/src/accounting/mod.rs",
        from: "left.retain(|left| !elsewhere.holds(&left.text));",
        to: "left.retain(|left| !elsewhere.holds(&left.text) && left.text.is_empty());",
        tests: test("rejoin-formats", "laws", "every_word_of_a_reshaped_body_is_accounted_for"),
    },
    Break {
        what: "a regular message is put together again",
        file: "crates/formats/src/wire/openai_chat/encode.rs",
        from: "&& message.native.as_ref().is_some_and(|native| native.regular)",
        to: "&& message.native.as_ref().is_some_and(|native| native.regular) && false",
        tests: test("rejoin-formats", "laws", "identity"),
    },
    Break {
        what: "a legal name with an underscore is renamed",
        file: "crates/formats/src/wire/names.rs",
        from: "if begun && name.len() <= max && name.chars().all(legal) {",
        to: "if begun && name.len() <= max && name.chars().all(legal) && !name.contains('_') {",
        tests: test("rejoin-formats", "laws", "idempotent"),
    },
    Break {
        what: "every system message is taken for a leading one",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "let leading = item.index() == self.leading && self.list.is_empty() && self.pending.is_none();",
        to: "let leading = true;",
        tests: test("rejoin-formats", "laws", "conserving"),
    },
    Break {
        what: "a part that is left out leaves no finding",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "        self.ledger.note(match extra {",
        to: "        let _ = (match extra {",
        tests: test("rejoin-formats", "laws", "nothing_happens_in_silence"),
    },
];
