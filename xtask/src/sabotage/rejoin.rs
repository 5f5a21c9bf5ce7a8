//! Breaks in `rejoin`, the facade: the functions over plain messages, and what `check` says.

use super::{Break, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "results without an id are left standing",
        file: "crates/rejoin/src/compat/sequence.rs",
        from: "&[Rule::OrphanResult, Rule::MissingCallId, Rule::ResultBeforeCall]",
        to: "&[Rule::OrphanResult, Rule::ResultBeforeCall]",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "results that came before their call are left standing",
        file: "crates/rejoin/src/compat/sequence.rs",
        from: "let orphans = found(messages, &[Rule::OrphanResult, Rule::MissingCallId, Rule::ResultBeforeCall]);",
        to: "let orphans = found(messages, &[Rule::OrphanResult, Rule::MissingCallId]);",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "a message that was cut keeps its native item, calls included",
        file: "crates/rejoin/src/compat/sequence.rs",
        from: "Message { blocks, native: None, ..message.clone() }",
        to: "Message { blocks, ..message.clone() }",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "the preview of an orphan has 51 characters",
        file: "crates/view/src/repair/log.rs",
        from: "const PREVIEW_CHARS: usize = 50;",
        to: "const PREVIEW_CHARS: usize = 51;",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "a message without anything left is counted as changed only",
        file: "crates/view/src/repair/log.rs",
        from: "Rule::UnansweredCall | Rule::AwaitingApproval if gone.contains(&message) => {",
        to: "Rule::UnansweredCall | Rule::AwaitingApproval if gone.contains(&message) && false => {",
        tests: test("rejoin", "sequence", ""),
    },
    Break {
        what: "an early result passes validation",
        file: "crates/rejoin/src/compat/sequence.rs",
        from: "Rule::OrphanResult | Rule::ResultBeforeCall | Rule::DuplicateResult => {",
        to: "Rule::ResultBeforeCall => continue,
            Rule::OrphanResult | Rule::DuplicateResult => {",
        tests: test("rejoin", "sequence", ""),
    },
];
