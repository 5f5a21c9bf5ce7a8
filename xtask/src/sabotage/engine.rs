//! Breaks in `engine`: turns, saving, importing, copying, keys, providers.

use super::{Break, lib, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "a call of a tool with a respelled name keeps the other spelling",
        file: "crates/engine/src/turn/request.rs",
        from: "        stands_on.respelled.restore(&mut message);
",
        to: "",
        tests: test("rejoin-engine", "loopback", "respelled"),
    },
    Break {
        what: "a turn of a file of turns is acknowledged before it is synced",
        file: "crates/engine/src/compat/rollout.rs",
        from: ".and_then(|()| file.sync_data());",
        to: ".and_then(|()| file.flush());",
        tests: test("rejoin-engine", "faults", "a_recorder"),
    },
    Break {
        what: "the folder of a new file of turns is not synced",
        file: "crates/engine/src/compat/rollout.rs",
        from: r#"            folder.sync().map_err(io_error("writing", &self.base))?;
"#,
        to: "",
        tests: test("rejoin-engine", "faults", "a_recorder"),
    },
    Break {
        what: "an id of a file of turns may begin with a dot",
        file: "crates/engine/src/compat/rollout.rs",
        from: "&& !id.starts_with('.') ",
        to: "",
        tests: test("rejoin-engine", "rollout", ""),
    },
    Break {
        what: "a turn is glued onto a torn line",
        file: "crates/engine/src/compat/rollout.rs",
        from: r"            line.insert(0, '\n');
",
        to: "",
        tests: test("rejoin-engine", "rollout", ""),
    },
    Break {
        what: "a file of turns is listed by its oldest time",
        file: "crates/engine/src/compat/rollout.rs",
        from: "b.updated_at.cmp(&a.updated_at)",
        to: "a.updated_at.cmp(&b.updated_at)",
        tests: test("rejoin-engine", "rollout", ""),
    },
    Break {
        what: "results are counted as no tokens",
        file: "crates/engine/src/conversation.rs",
        from: "result.content.iter().filter_map(Block::as_text).map(|text| text.len()).sum()",
        to: "result.content.iter().filter_map(Block::as_text).map(|_| 0).sum()",
        tests: test("rejoin-engine", "agent", ""),
    },
    Break {
        what: "what stands in memory only is forgotten when the store is well again",
        file: "crates/engine/src/conversation.rs",
        from: "match store.append(self.id, self.after, &self.entries[self.stored..]) {",
        to: "match store.append(self.id, self.after, &self.entries[self.entries.len() - 1..]) {",
        tests: test("rejoin-engine", "conversation", ""),
    },
    Break {
        what: "damage is not set aside before a conversation goes on",
        file: "crates/engine/src/conversation.rs",
        from: "            for damage in &recorded.damage {
                if",
        to: "            for damage in recorded.damage.iter().skip(recorded.damage.len()) {
                if",
        tests: test("rejoin-engine", "conversation", ""),
    },
    Break {
        what: "a conversation that another process holds is opened all the same",
        file: "crates/engine/src/conversation.rs",
        from: "Err(why @ StoreError::Locked(_)) => return Err(why.into()),",
        to: "Err(StoreError::Locked(_)) => None,",
        tests: test("rejoin-engine", "conversation", ""),
    },
    Break {
        what: "a call that waits for approval counts as a safe point",
        file: "crates/engine/src/state.rs",
        from: "!matches!(self, Self::WaitingForTools | Self::WaitingForApproval)",
        to: "!matches!(self, Self::WaitingForTools)",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "an old call that nobody answered holds a conversation up",
        file: "crates/engine/src/state.rs",
        from: "let awaited = |call: &PendingCall| path.waits_for(call);",
        to: "let awaited = |_: &PendingCall| true;",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "a result is told before it is recorded",
        file: "crates/engine/src/turn/calls.rs",
        from: "        self.result(running, call, output);
        running.tell(Event::CallEnded {
            id: call.id.to_string(),
            name: call.name.to_string(),
            output: text,
            is_error,
            took: began.elapsed(),
        });",
        to: "        running.tell(Event::CallEnded {
            id: call.id.to_string(),
            name: call.name.to_string(),
            output: text,
            is_error,
            took: began.elapsed(),
        });
        self.result(running, call, output);",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "calls run before they are recorded as running",
        file: "crates/engine/src/turn/calls.rs",
        from: "                self.turn_entry(running, TurnState::CallRunning, Some(at));
",
        to: "                let _ = at;
",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "a stopped call has no result",
        file: "crates/engine/src/turn/calls.rs",
        from: "self.finish(running, &calls[place].2, began, Output::error(STOPPED));",
        to: "let _ = (place, began, STOPPED);",
        tests: test("rejoin-engine", "agent", ""),
    },
    Break {
        what: "a result forgets that it is an error",
        file: "crates/engine/src/turn/calls.rs",
        from: "            is_error: output.is_error,
            ..ToolResult",
        to: "            is_error: false,
            ..ToolResult",
        tests: test("rejoin-engine", "agent", ""),
    },
    Break {
        what: "arguments that are no object are handed to the tool",
        file: "crates/engine/src/turn/calls.rs",
        from: "    call.arguments.are_no_object().then(|| {",
        to: "    (call.arguments.are_no_object() && false).then(|| {",
        tests: test("rejoin-engine", "agent", ""),
    },
    Break {
        what: "with drop, a turn sends what was kept",
        file: "crates/engine/src/turn/mod.rs",
        from: "if on_broken.drops() != self.settings.on_broken.drops() {",
        to: "if on_broken.drops() && self.settings.on_broken.drops() {",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "the answer is told before it is recorded",
        file: "crates/engine/src/turn/request.rs",
        from: "            let id = self.record(running, message, stands_on);
            entry = Some(id);
            running.tell(Event::Answered { entry: id, usage });",
        to: "            running.tell(Event::Answered { entry: self.conversation.id().to_string().bytes().next().map(|b| EntryId::from_bytes([b; 16])).unwrap_or(EntryId::from_bytes([0; 16])), usage });
            let id = self.record(running, message, stands_on);
            entry = Some(id);",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "an answer that was cut is taken for a whole one",
        file: "crates/engine/src/turn/request.rs",
        from: "let whole = matches!(&answer, Some(Ok(received)) if matches!(received.end, End::Complete(_)));",
        to: "let whole = matches!(&answer, Some(Ok(_)));",
        tests: test("rejoin-engine", "loopback", "stopped_while"),
    },
    Break {
        what: "tokens of reasoning are counted as cached ones",
        file: "crates/engine/src/turn/request.rs",
        from: "total.cached = total.cached.saturating_add(usage.cached);",
        to: "total.cached = total.cached.saturating_add(usage.reasoning);",
        tests: test("rejoin-engine", "agent", ""),
    },
    Break {
        what: "a request of another branch goes on from the old one",
        file: "crates/engine/src/turn/compose.rs",
        from: ".all(|(entry, before)| entry.envelope().parent == Some(before.id()));",
        to: ".all(|(_, _)| true);",
        tests: test("rejoin-engine", "manager", "process_look"),
    },
    Break {
        what: "importing twice adds everything again",
        file: "crates/engine/src/import.rs",
        from: "        if self.known.nodes.contains_key(&id) {
            return id;
        }
",
        to: "",
        tests: test("rejoin-engine", "import", ""),
    },
    Break {
        what: "what was erased comes back with an import",
        file: "crates/engine/src/import.rs",
        from: "if node.erased || is_light(&entry.envelope().kind) {",
        to: "if is_light(&entry.envelope().kind) {",
        tests: test("rejoin-engine", "import", ""),
    },
    Break {
        what: "an older copy of a session is added as a branch",
        file: "crates/engine/src/import.rs",
        from: "        known && self.known.nodes.values().any(more)",
        to: "        known && self.known.nodes.values().all(more)",
        tests: test("rejoin-engine", "import", ""),
    },
    Break {
        what: "a line that is not what it was is imported",
        file: "crates/engine/src/copy.rs",
        from: "if !entry.verifies(parent.and_then(|parent| hashes.get(&parent).copied())) {",
        to: "if !entry.body_verifies() {",
        tests: test("rejoin-engine", "writing", ""),
    },
    Break {
        what: "a copy goes on behind a gap",
        file: "crates/engine/src/copy.rs",
        from: "        if seq != self.seen {",
        to: "        if seq < self.seen {",
        tests: test("rejoin-engine", "writing", ""),
    },
    Break {
        what: "what is erased in the source stays in the copy",
        file: "crates/engine/src/copy.rs",
        from: "            return self.erase(erased.entry, entry);",
        to: "            let _ = erased;",
        tests: test("rejoin-engine", "writing", ""),
    },
    Break {
        what: "a fork keeps nothing of the system prompt beside the path",
        file: "crates/engine/src/writer.rs",
        from: "            forked.add(context);
        }
        // In one step",
        to: "            let _ = context;
        }
        // In one step",
        tests: test("rejoin-engine", "writing", ""),
    },
    Break {
        what: "a title counts as something said",
        file: "crates/engine/src/digest.rs",
        from: "time_of(entry).filter(|_| !matches!(kind, Kind::Meta | Kind::Erased))",
        to: "time_of(entry).filter(|_| !matches!(kind, Kind::Erased))",
        tests: test("rejoin-engine", "digest", ""),
    },
    Break {
        what: "results cannot be searched for",
        file: "crates/engine/src/digest.rs",
        from: "lines.extend(result.content.iter().filter_map(|inner| Some(inner.as_text()?.as_str())));",
        to: "let _ = result;",
        tests: test("rejoin-engine", "digest", ""),
    },
    Break {
        what: "a storage that goes back keeps the old head",
        file: "crates/engine/src/compat/storage.rs",
        from: "        if goes_back && self.added.is_empty() {",
        to: "        if goes_back && self.added.is_empty() && false {",
        tests: test("rejoin-engine", "storage", ""),
    },
    Break {
        what: "a result that was there already is added again",
        file: "crates/engine/src/tool_messages.rs",
        from: "message.blocks.iter().filter_map(Block::as_result).any(|there| there == result)",
        to: "message.blocks.iter().filter_map(Block::as_result).any(|there| there == result && false)",
        tests: test("rejoin-engine", "turns", ""),
    },
    Break {
        what: "the login of Codex goes to any address",
        file: "crates/engine/src/provider/connect.rs",
        from: "KeyKind::ChatGpt { .. } => !has_address && !chat,",
        to: "KeyKind::ChatGpt { .. } => !chat,",
        tests: lib("rejoin-engine", "provider::connect"),
    },
    Break {
        what: "a key that has expired is used",
        file: "crates/engine/src/provider/connect.rs",
        from: "(true, true) => expired = expired.or(Some(key)),",
        to: "(true, true) => return Ok(Some(key)),",
        tests: lib("rejoin-engine", "provider::connect"),
    },
    Break {
        what: "the account of a ChatGPT login is not sent",
        file: "crates/engine/src/provider/connect.rs",
        from: r#"                headers.insert("chatgpt-account-id", secret_value(account).ok_or_else(unusable)?);
"#,
        to: "                let _ = secret_value(account).ok_or_else(unusable)?;
",
        tests: lib("rejoin-engine", "provider::connect"),
    },
    Break {
        what: "a model with dots in its name climbs out of the path",
        file: "crates/engine/src/provider/connect.rs",
        from: r#"matches!(step, "." | "..")"#,
        to: r#"matches!(step, ".")"#,
        tests: lib("rejoin-engine", "provider::connect"),
    },
    Break {
        what: "no money is tried again and again",
        file: "crates/engine/src/provider/http/refusal.rs",
        from: "        if status == 402 || has(NO_MONEY) || says(NO_MONEY_WORDS) {",
        to: "        if status == 402 || says(NO_MONEY_WORDS) {",
        tests: lib("rejoin-engine", "provider::http"),
    },
    Break {
        what: "a refusal with a retry time waits as long as it likes",
        file: "crates/engine/src/provider/http/attempt.rs",
        from: "Some(asked) if asked > self.longest => return Err(error),",
        to: "Some(asked) if asked > self.longest && false => return Err(error),",
        tests: lib("rejoin-engine", "provider::http"),
    },
    Break {
        what: "a stream without an end of line grows without bound",
        file: "crates/engine/src/provider/http/attempt.rs",
        from: "                None => line + bytes.len(),",
        to: "                None => bytes.len(),",
        tests: lib("rejoin-engine", "provider::http"),
    },
    Break {
        what: "the shorter secret is taken out first, and the end of the longer one stays",
        file: "crates/engine/src/auth/redact.rs",
        from: "secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));",
        to: "secrets.sort_by_key(|secret| secret.len());",
        tests: lib("rejoin-engine", "auth"),
    },
    Break {
        what: "the keys of Codex are looked for in Claude's folder",
        file: "crates/engine/src/auth/mod.rs",
        from: "Some(Login::ChatGpt) => self.codex.as_deref().and_then(others::codex),",
        to: "Some(Login::ChatGpt) => self.claude.as_deref().and_then(others::codex),",
        tests: lib("rejoin-engine", "auth"),
    },
    Break {
        what: "a token's time is read as if it were in seconds",
        file: "crates/engine/src/auth/others.rs",
        from: "Timestamp::from_millisecond",
        to: "Timestamp::from_second",
        tests: lib("rejoin-engine", "auth"),
    },
    Break {
        what: "a file of keys can be read by everybody",
        file: "crates/engine/src/auth/file.rs",
        from: "OpenOptionsExt::mode(&mut options, 0o600);",
        to: "OpenOptionsExt::mode(&mut options, 0o644);",
        tests: lib("rejoin-engine", "auth"),
    },
    Break {
        what: "keys in a file of something else are written over",
        file: "crates/engine/src/auth/file.rs",
        from: "let root = doc.root().filter(|root| root.kind() == Kind::Object).ok_or_else(damaged)?;",
        to: "let root = doc.root().ok_or_else(damaged)?;",
        tests: lib("rejoin-engine", "auth"),
    },
    Break {
        what: "a minus binds closer than a power",
        file: "crates/engine/src/tools/calculate.rs",
        from: "Some(_) => -self.power()?,",
        to: "Some(_) => -self.value()?,",
        tests: lib("rejoin-engine", "tools"),
    },
    Break {
        what: "the environment wins over the conversation's own model",
        file: "crates/engine/src/provider/decide.rs",
        from: "(only(recorded.fits(name), &recorded.model), ChoiceSource::Conversation),
        (only(environment.fits(name), &environment.model), ChoiceSource::Environment),",
        to: "(only(environment.fits(name), &environment.model), ChoiceSource::Environment),
        (only(recorded.fits(name), &recorded.model), ChoiceSource::Conversation),",
        tests: lib("rejoin-engine", "provider::decide"),
    },
];
