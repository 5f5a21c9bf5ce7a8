//! Breaks in `rejoin`, the facade: the functions over plain messages, and what `check` says.

use super::{Break, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "results without an id are left standing",
        file: "crates/rejoin/src/compat/sequence.rs",
        within: "remove_orphaned_tool_results",
        from: "OrphanResult, Rule::MissingCallId",
        to: "OrphanResult",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "results that came before their call are left standing",
        file: "crates/rejoin/src/compat/sequence.rs",
        within: "remove_orphaned_tool_results",
        from: "MissingCallId, Rule::ResultBeforeCall",
        to: "MissingCallId",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "a message that was cut keeps its native item, calls included",
        file: "crates/rejoin/src/compat/sequence.rs",
        within: "without",
        from: "Message { blocks, native: None, ..",
        to: "Message { blocks, ..",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "the preview of an orphan has 51 characters",
        file: "crates/view/src/repair/log.rs",
        within: "PREVIEW_CHARS",
        from: "const PREVIEW_CHARS: usize = 50;",
        to: "const PREVIEW_CHARS: usize = 51;",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "a message without anything left is counted as changed only",
        file: "crates/view/src/repair/log.rs",
        within: "removals",
        from: "if gone.contains(&message) => {",
        to: "if gone.contains(&message) && false => {",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "an early result passes validation",
        file: "crates/rejoin/src/compat/sequence.rs",
        within: "validate_message_structure",
        from: "OrphanResult | Rule::ResultBeforeCall",
        to: "ResultBeforeCall => continue, Rule::OrphanResult",
        tests: test("rejoin", "sequence", ""),
    },
];
