//! Breaks in `formats`: what goes out, what comes in, and what is said about it.

use super::{Break, lib, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "a history that ends with the assistant is not closed",
        file: "crates/formats/src/wire/pass.rs",
        from: "Last::Model(index) if self.sheet().wire.ends_with_user && self.sheet().target.closes => {",
        to: "Last::Model(index) if self.sheet().wire.ends_with_user && false => {",
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
        file: "crates/formats/src/wire/registry.rs",
        from: "is_some_and(|native| native.regular && &*native.format == self.name)",
        to: "is_some_and(|native| native.regular && native.format.is_empty())",
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
        file: "crates/formats/src/wire/pass.rs",
        from: "let leading = index == self.sheet().leading && self.last() == Last::Nobody;",
        to: "let leading = true;",
        tests: test("rejoin-formats", "laws", "conserving"),
    },
    Break {
        what: "a part that is left out leaves no finding",
        file: "crates/formats/src/wire/anthropic/encode.rs",
        from: "        self.sheet.ledger.note(match extra {",
        to: "        let _ = (match extra {",
        tests: test("rejoin-formats", "encode", "fields_that_are"),
    },
    Break {
        what: "a CR and an LF end two lines",
        file: "crates/formats/src/wire/sse.rs",
        from: r"self.after_cr = rest[end] == b'\r';",
        to: "self.after_cr = false;",
        tests: lib("rejoin-formats", "wire::sse"),
    },
    Break {
        what: "lines of data are joined without a line break",
        file: "crates/formats/src/wire/sse.rs",
        from: r"                    self.data.push(b'\n');
",
        to: "",
        tests: lib("rejoin-formats", "wire::sse"),
    },
    Break {
        what: "a piece of a call without a number begins a call of its own",
        file: "crates/formats/src/wire/openai_chat/stream_calls.rs",
        from: "None if name.is_empty() => self.list.len().checked_sub(1),",
        to: "None if name.is_empty() => None,",
        tests: test("rejoin-formats", "streams", ""),
    },
    Break {
        what: "a whim of the server makes two calls of one",
        file: "crates/formats/src/wire/openai_chat/stream_calls.rs",
        from: "own == id || name.is_empty()",
        to: "own == id",
        tests: test("rejoin-formats", "streams", ""),
    },
    Break {
        what: "base64 of another alphabet is refused",
        file: "crates/formats/src/wire/base64.rs",
        from: "                b'-' => out.push('+'),
",
        to: "",
        tests: lib("rejoin-formats", "wire::base64"),
    },
    Break {
        what: "base64 with one letter too many passes",
        file: "crates/formats/src/wire/base64.rs",
        from: r#"        3 => "=",
        _ => return None,"#,
        to: r#"        3 => "=",
        _ => "===","#,
        tests: lib("rejoin-formats", "wire::base64"),
    },
    Break {
        what: "Anthropic: a failed result is no error any more",
        file: "crates/formats/src/wire/anthropic/results.rs",
        from: r#"        if is_error {
            out.push_str(",\"is_error\":true");"#,
        to: r#"        if is_error && false {
            out.push_str(",\"is_error\":true");"#,
        tests: test("rejoin-formats", "encode", "errors_stay"),
    },
    Break {
        what: "Anthropic: a blank result goes out as it is",
        file: "crates/formats/src/wire/anthropic/results.rs",
        from: "let refused = blank || empty_list ||",
        to: "let refused = empty_list ||",
        tests: test("rejoin-formats", "laws", "sound"),
    },
    Break {
        what: "Bedrock: a failed result is no error any more",
        file: "crates/formats/src/wire/bedrock/encode.rs",
        from: "            if failed {
                json",
        to: "            if failed && false {
                json",
        tests: test("rejoin-formats", "bedrock", ""),
    },
    Break {
        what: "Ollama: a failed result does not say so",
        file: "crates/formats/src/wire/ollama/encode.rs",
        from: "        if result.result().is_error {
            let at",
        to: "        if result.result().is_error && false {
            let at",
        tests: test("rejoin-formats", "ollama", ""),
    },
    Break {
        what: "a tool too many is sent",
        file: "crates/formats/src/wire/pass.rs",
        from: "too_large(limits.tools, \"the number of tools\", tools.len())",
        to: "too_large(limits.tools, \"the number of tools\", tools.len() - 1)",
        tests: test("rejoin-formats", "regressions", "many_tools"),
    },
    Break {
        what: "OpenAI Responses: a block of another dialect is sent as its own",
        file: "crates/formats/src/wire/openai_responses/encode.rs",
        from: "BlockKind::Opaque(opaque) if own && opaque.fits && self.is_free",
        to: "BlockKind::Opaque(opaque) if own && self.is_free",
        tests: test("rejoin-formats", "laws", "sound"),
    },
    Break {
        what: "Gemini: a history that ends with the model is not closed",
        file: "crates/formats/src/wire/gemini/encode.rs",
        from: "Some(content) if content.speaker == Speaker::Model => Last::Model(content.index),",
        to: "Some(content) if content.speaker == Speaker::Model && false => Last::Model(content.index),",
        tests: test("rejoin-formats", "gemini", ""),
    },
    Break {
        what: "Gemini: a second result of a name answers the first call again",
        file: "crates/formats/src/gemini/pairing.rs",
        from: "                open.answered = true;
                self.last.insert",
        to: "                self.last.insert",
        tests: test("rejoin-formats", "gemini", ""),
    },
    Break {
        what: "refuse converts a session in which damage was found",
        file: "crates/formats/src/convert.rs",
        from: "if on_broken == OnBroken::Refuse && session.findings.iter().any(Finding::is_problem) {",
        to: "if on_broken == OnBroken::Refuse && session.findings.iter().any(Finding::is_problem) && false {",
        tests: test("rejoin-formats", "rollouts", "refuse_looks"),
    },
    Break {
        what: "a picture under a wrong name is sent",
        file: "crates/formats/src/media.rs",
        from: "(Some(named), found) if found.is_some() || is_sniffed(&named) => {",
        to: "(Some(named), found) if found.is_some() && is_sniffed(&named) && false => {",
        tests: test("rejoin-formats", "media", ""),
    },
    Break {
        what: "a torn line in the middle of a file is called torn",
        file: "crates/formats/src/sessions/lines.rs",
        from: "let rule = if next.is_none() && !ended {",
        to: "let rule = if next.is_none() {",
        tests: test("rejoin-formats", "rollouts", ""),
    },
    Break {
        what: "a mark at the beginning of a file makes its first line damage",
        file: "crates/formats/src/sessions/lines.rs",
        from: "            line = rest;
            place.offset += 3;",
        to: "                place.offset += 3;
                let _ = rest;",
        tests: test("rejoin-formats", "claude_code_cases", "reading"),
    },
    Break {
        what: "milliseconds are read as seconds",
        file: "crates/formats/src/session.rs",
        from: "n if n < 1e14 => n / 1e3,",
        to: "n if n < 1e14 => n,",
        tests: test("rejoin-engine", "digest", "times_are"),
    },
    Break {
        what: "two lines of one id that differ are not noticed",
        file: "crates/formats/src/sessions/claude_code/tree.rs",
        from: "if first != index && !says_the_same(&lines[first], line) {",
        to: "if first != index && !says_the_same(&lines[first], line) && false {",
        tests: test("rejoin-formats", "claude_code_cases", ""),
    },
    Break {
        what: "a call that is written twice is two calls",
        file: "crates/formats/src/chat/message.rs",
        from: "            all.retain(|block| !twice(block));
",
        to: "",
        tests: test("rejoin-formats", "regressions", ""),
    },
    Break {
        what: "an answer of several items becomes several messages",
        file: "crates/formats/src/responses/assemble.rs",
        from: "let open = self.open.as_ref().filter(|_| is_answer(item));",
        to: "let open = self.open.as_ref().filter(|_| is_answer(item) && false);",
        tests: test("rejoin-formats", "rollouts", ""),
    },
];
