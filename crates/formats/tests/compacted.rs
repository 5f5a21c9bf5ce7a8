//! A session that its agent compacted is resumed with what that agent would send. What Codex and Claude Code send is computed here a
//! second time, in the simplest way that is right for sound sessions, and compared with the view of the imported session.
//!
//! Real sessions are used where they lie. Few of them are compacted, so each is also compacted here, at several places, as its agent
//! does it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use rejoin_formats::{Input, sessions};
use rejoin_record::{Block, BlockKind, Timestamp, Tree};
use rejoin_view::{OnBroken, path::path, repair, sound::NO_RESULT};
use serde_json::{Value, json};
use testkit::corpus;

/// Something that a model sees: who says it, and what.
type Piece = (String, String);

fn piece(who: impl ToString, what: &str) -> Piece {
    (who.to_string(), what.trim().to_owned())
}

fn string<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// JSON in one spelling, so that arguments can be compared.
fn plain(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments).map_or_else(|_| arguments.to_owned(), |value| value.to_string())
}

/// What a model sees of a session after it was imported: the path of its entries, repaired.
fn imported(text: &str, format: &str) -> Vec<Piece> {
    let input = Input::new("session.jsonl", text.as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named(format)).unwrap().remove(0);
    let entries = session.to_entries(Timestamp::UNIX_EPOCH);
    let history = path(&Tree::new(&entries)).history;
    let mut pieces = Vec::new();
    for message in repair(&history, OnBroken::Keep).view.to_messages() {
        for block in &message.blocks {
            match &block.kind {
                BlockKind::Text(text) => pieces.push(piece(&message.role, text)),
                BlockKind::ToolCall(call) => {
                    let what = format!("{} {}", call.name, plain(call.arguments.text()));
                    pieces.push(piece(format!("call {}", call.id), &what));
                }
                BlockKind::ToolResult(result) => {
                    let id = result.call_id.as_ref().map(ToString::to_string).unwrap_or_default();
                    let text: String =
                        result.content.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
                    pieces.push(piece(format!("result {id}"), &text));
                }
                _ => {}
            }
        }
    }
    pieces
}

/// The pieces without empty texts, orphaned results and the words for missing ones, which differ. Of calls without words between them
/// all results come last, in the order of the calls: where the lines of parallel calls and their results are differs, too.
fn comparable(pieces: Vec<Piece>) -> Vec<Piece> {
    let called: HashSet<String> =
        pieces.iter().filter_map(|(who, _)| who.strip_prefix("call ")).map(str::to_owned).collect();
    let (mut out, mut calls, mut results) = (Vec::new(), Vec::<Piece>::new(), Vec::<(usize, Piece)>::new());
    let last = (String::new(), String::from("the end"));
    for (who, what) in
        pieces.into_iter().chain([last]).filter(|(_, what)| !what.is_empty() && !what.starts_with(NO_RESULT))
    {
        if who.starts_with("call ") {
            calls.push((who, what));
        } else if let Some(id) = who.strip_prefix("result ") {
            let call = calls.iter().position(|(call, _)| call.strip_prefix("call ") == Some(id));
            if called.contains(id) {
                results.push((call.unwrap_or(usize::MAX), (who, what)));
            }
        } else {
            results.sort_by_key(|(call, _)| *call);
            out.append(&mut calls);
            out.extend(results.drain(..).map(|(_, result)| result));
            out.push((who, what));
        }
    }
    out
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn text_of(lines: &[Value]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

/// The texts of a content: a string, or a list of blocks.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

mod codex {
    use super::*;

    /// What Codex sends: all items since the last compaction, after those that it put in the place of the others.
    pub fn sent(lines: &[Value]) -> Vec<Piece> {
        let mut items: Vec<Value> = Vec::new();
        for line in lines {
            let payload = &line["payload"];
            match string(line, "type") {
                "response_item" => items.push(payload.clone()),
                "compacted" => match payload["replacement_history"].as_array() {
                    Some(replacement) => items = replacement.clone(),
                    None => items = replaced(&items, string(payload, "message")),
                },
                // The first versions wrote items without an envelope.
                "message" | "function_call" | "function_call_output" => items.push(line.clone()),
                _ => {}
            }
        }
        let mut pieces = Vec::new();
        for item in &items {
            let id = string(item, "call_id");
            match string(item, "type") {
                "message" => {
                    let said = texts(&item["content"]).into_iter();
                    pieces.extend(said.map(|text| piece(string(item, "role"), &text)));
                }
                "function_call" => {
                    let what = format!("{} {}", string(item, "name"), plain(string(item, "arguments")));
                    pieces.push(piece(format!("call {id}"), &what));
                }
                "custom_tool_call" => {
                    let what = format!("{} {}", string(item, "name"), json!({"input": item["input"]}));
                    pieces.push(piece(format!("call {id}"), &what));
                }
                "function_call_output" | "custom_tool_call_output" => {
                    pieces.push(piece(format!("result {id}"), &texts(&item["output"]).concat()));
                }
                _ => {}
            }
        }
        pieces
    }

    /// The messages of people, and a summary: what Codex puts in the place of everything.
    pub fn replaced(items: &[Value], summary: &str) -> Vec<Value> {
        let is_context =
            |text: &String| text.trim_start().starts_with('<') || text.starts_with("# AGENTS.md");
        let people =
            items.iter().filter(|item| string(item, "type") == "message" && string(item, "role") == "user");
        let people = people.filter(|item| !texts(&item["content"]).iter().any(is_context));
        let summary =
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]});
        people.cloned().chain([summary]).collect()
    }

    /// How a rollout says what is sent after a compaction.
    #[derive(Clone, Copy, PartialEq)]
    pub enum Replacement {
        /// In the line of the compaction.
        Written,
        /// Not at all: it follows from what was said before, as in the first versions.
        Implied,
    }

    /// The rollout, compacted before a line.
    pub fn compacted(lines: &[Value], at: usize, replacement: Replacement) -> Vec<Value> {
        let summary = "Another model began this; here is its summary: it went well.";
        let mut payload = json!({"message": summary});
        if replacement == Replacement::Written {
            let items = lines[..at].iter().filter(|line| string(line, "type") == "response_item");
            let items: Vec<Value> = items.map(|line| line["payload"].clone()).collect();
            payload["replacement_history"] = replaced(&items, summary).into();
        }
        let line = json!({"timestamp": "2026-01-01T00:00:00.000Z", "ordinal": at, "type": "compacted", "payload": payload});
        [&lines[..at], &[line], &lines[at..]].concat()
    }
}

mod claude {
    use super::*;

    fn is_said(line: &Value) -> bool {
        matches!(string(line, "type"), "user" | "assistant") && line["isSidechain"] != true
    }

    /// The lines that lead to the last message, from one without a parent on.
    fn chain(lines: &[Value]) -> Vec<usize> {
        let numbered = lines.iter().enumerate();
        let by_uuid: HashMap<&str, usize> =
            numbered.filter_map(|(number, line)| Some((line["uuid"].as_str()?, number))).collect();
        let above = |line: &usize| by_uuid.get(string(&lines[*line], "parentUuid")).copied();
        let last = lines.iter().rposition(is_said);
        let mut chain: Vec<usize> = std::iter::successors(last, above).take(lines.len()).collect();
        chain.reverse();
        chain
    }

    /// What Claude Code sends: the messages of the chain, and the results of their calls.
    pub fn sent(lines: &[Value]) -> Vec<Piece> {
        let chain = chain(lines);
        let on_path: HashSet<usize> = chain.iter().copied().collect();
        let mut pieces = Vec::new();
        for line in chain.iter().map(|line| &lines[*line]).filter(|line| is_said(line)) {
            pieces.extend(said(line));
            // Parallel calls have their results on branches.
            let beside = lines.iter().enumerate().filter(|(number, beside)| {
                !on_path.contains(number) && is_said(beside) && beside["parentUuid"] == line["uuid"]
            });
            let results =
                beside.flat_map(|(_, beside)| said(beside)).filter(|(who, _)| who.starts_with("result "));
            pieces.extend(results);
        }
        pieces
    }

    fn said(line: &Value) -> Vec<Piece> {
        let message = &line["message"];
        let Some(blocks) = message["content"].as_array() else {
            return vec![piece(string(message, "role"), string(message, "content"))];
        };
        let said = |block: &Value| match string(block, "type") {
            "text" => Some(piece(string(message, "role"), string(block, "text"))),
            "tool_use" => {
                let what = format!("{} {}", string(block, "name"), block["input"]);
                Some(piece(format!("call {}", string(block, "id")), &what))
            }
            "tool_result" => Some(piece(
                format!("result {}", string(block, "tool_use_id")),
                &texts(&block["content"]).concat(),
            )),
            _ => None,
        };
        blocks.iter().filter_map(said).collect()
    }

    /// The transcript, compacted before a line that follows the line before it.
    pub fn compacted(lines: &[Value], at: usize) -> Vec<Value> {
        let common = json!({"isSidechain": false, "sessionId": lines[at]["sessionId"], "timestamp": lines[at]["timestamp"]});
        let with = |mut line: Value| {
            line.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
            line
        };
        let boundary = with(
            json!({"type": "system", "subtype": "compact_boundary", "uuid": "the-boundary", "parentUuid": null,
            "logicalParentUuid": lines[at]["parentUuid"], "content": "Conversation compacted",
            "compactMetadata": {"trigger": "manual", "preTokens": 1000}}),
        );
        let summary = with(
            json!({"type": "user", "uuid": "the-summary", "parentUuid": "the-boundary", "isCompactSummary": true,
            "isVisibleInTranscriptOnly": true,
            "message": {"role": "user", "content": "This session is being continued from another: it went well."}}),
        );
        let mut after = lines[at].clone();
        after["parentUuid"] = "the-summary".into();
        [&lines[..at], &[boundary, summary, after], &lines[at + 1..]].concat()
    }

    /// Whether the lines are the conversation of one agent and form one chain, beside which there are only results. Calls have ids.
    pub fn is_sound(lines: &[Value]) -> bool {
        let mut uuids = HashSet::new();
        let is_tree =
            lines.iter().filter(|line| line["uuid"].is_string()).enumerate().all(|(number, line)| {
                let parent = string(line, "parentUuid");
                let is_linked = if number == 0 { parent.is_empty() } else { uuids.contains(parent) };
                uuids.insert(string(line, "uuid")) && is_linked && line["isSidechain"] != true
            });
        let chain: HashSet<usize> = chain(lines).into_iter().collect();
        let mut by_model = (0..lines.len()).filter(|line| string(&lines[*line], "type") == "assistant");
        let has_ids = |line: &usize| said(&lines[*line]).iter().all(|(who, _)| who != "call ");
        is_tree && by_model.all(|line| chain.contains(&line) && has_ids(&line))
    }

    /// The lines where a person says something and everything before and after is one chain: where a compaction may happen.
    pub fn places(lines: &[Value]) -> Vec<usize> {
        let is_prompt = |line: &Value| {
            string(line, "type") == "user"
                && line["isSidechain"] != true
                && line["message"]["content"].is_string()
                && line["parentUuid"].is_string()
        };
        let followed: Vec<usize> = (1..lines.len()).filter(|at| is_prompt(&lines[*at])).collect();
        let earlier = |at: usize| -> HashSet<&str> {
            lines[..at].iter().filter_map(|line| line["uuid"].as_str()).collect()
        };
        let is_clean = |at: &usize| {
            let before = earlier(*at);
            !lines[at + 1..].iter().any(|line| before.contains(string(line, "parentUuid")))
        };
        followed.into_iter().filter(is_clean).collect()
    }
}

/// Rollouts that are compared with nothing, because the simple rules do not fit them.
const OTHER: &[(&str, &str)] = &[
    ("38112ac115", "it searches for tools"),
    ("1214b6da8d", "made up: a message holds reasoning"),
    ("0635d7bfe3", "of another program: calls have other names for their fields"),
    ("43bb1eb28a", "of another program: calls have other names for their fields"),
    ("80e1a6e35c", "made up: messages are not in items"),
    ("ab593a2a6f", "made up: messages are not in items"),
];

/// The sessions of a format in the corpus: the name and the lines of each.
fn sessions_of(format: &str) -> Vec<(String, Vec<Value>)> {
    let Some(folder) = corpus::folder() else { return Vec::new() };
    let texts = corpus::files(&folder).into_iter().filter_map(|file| {
        let text = fs::read_to_string(&file).ok()?;
        (sessions::detect(&text)?.name == format).then(|| (file.display().to_string(), lines(&text)))
    });
    texts.collect()
}

fn check(name: &str, format: &str, lines: &[Value], sent: fn(&[Value]) -> Vec<Piece>) {
    let (expected, found) = (comparable(sent(lines)), comparable(imported(&text_of(lines), format)));
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found, "{name}");
    }
    assert_eq!(expected.len(), found.len(), "{name}");
}

#[test]
fn a_compacted_rollout_resumes_as_codex_resumes_it() {
    let (mut real, mut made) = (0, 0);
    for (name, lines) in sessions_of("codex") {
        if OTHER.iter().any(|(other, _)| name.contains(other)) {
            continue;
        }
        check(&name, "codex", &lines, codex::sent);
        real += usize::from(lines.iter().any(|line| string(line, "type") == "compacted"));
        let is_prompt = |line: &Value| string(&line["payload"], "role") == "user";
        for at in (1..lines.len()).filter(|at| is_prompt(&lines[*at])) {
            for replacement in [codex::Replacement::Written, codex::Replacement::Implied] {
                let compacted = codex::compacted(&lines, at, replacement);
                check(&format!("{name}, compacted before line {}", at + 1), "codex", &compacted, codex::sent);
                made += 1;
            }
        }
    }
    println!("{real} rollouts that Codex compacted, {made} compactions made here");
}

#[test]
fn a_compacted_transcript_resumes_as_claude_code_resumes_it() {
    let (mut whole, mut made) = (0, 0);
    for (name, lines) in sessions_of("claude-code").into_iter().filter(|(_, lines)| claude::is_sound(lines)) {
        check(&name, "claude-code", &lines, claude::sent);
        whole += 1;
        for at in claude::places(&lines) {
            let compacted = claude::compacted(&lines, at);
            check(
                &format!("{name}, compacted before line {}", at + 1),
                "claude-code",
                &compacted,
                claude::sent,
            );
            made += 1;
        }
    }
    println!("{whole} transcripts without a fault, {made} compactions made here");
}
