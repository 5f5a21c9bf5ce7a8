//! Small transcripts, built line by line, and short descriptions of what was read from them.

use rejoin_formats::{Dialect, Input, Session, convert, session::Aside, sessions};
use rejoin_record::BlockKind;
use rejoin_view::{Finding, OnBroken};

pub fn read(text: &str) -> Session {
    let input = Input::new("s.jsonl", text.as_bytes()).unwrap();
    assert_eq!(sessions::detect(text).map(|format| format.name), Some("claude-code"), "{text}");
    sessions::read(&input, None).unwrap().remove(0)
}

/// A line of the conversation; `parent` is `-` for a beginning.
pub fn line(uuid: &str, parent: &str, kind: &str, rest: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/p\",\"sessionId\":\"S\",\"version\":\"2.1.37\",\"type\":\"{kind}\",{rest},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-02-18T11:43:58.858Z\"}}\n"
    )
}

pub fn user(uuid: &str, parent: &str, text: &str) -> String {
    line(uuid, parent, "user", &format!("\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}"))
}

pub fn result(uuid: &str, parent: &str, call: &str, text: &str) -> String {
    line(
        uuid,
        parent,
        "user",
        &format!(
            "\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"{call}\",\"content\":\"{text}\"}}]}}"
        ),
    )
}

pub fn model(uuid: &str, parent: &str, response: &str, block: &str) -> String {
    line(
        uuid,
        parent,
        "assistant",
        &format!(
            "\"message\":{{\"id\":\"{response}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus\",\"content\":[{block}],\"stop_reason\":null}}"
        ),
    )
}

pub fn says(uuid: &str, parent: &str, response: &str, text: &str) -> String {
    model(uuid, parent, response, &format!("{{\"type\":\"text\",\"text\":\"{text}\"}}"))
}

pub fn calls(uuid: &str, parent: &str, response: &str, call: &str) -> String {
    model(
        uuid,
        parent,
        response,
        &format!("{{\"type\":\"tool_use\",\"id\":\"{call}\",\"name\":\"Read\",\"input\":{{\"n\": 1.50}}}}"),
    )
}

pub fn progress(uuid: &str, parent: &str, kind: &str) -> String {
    line(uuid, parent, "progress", &format!("\"data\":{{\"type\":\"{kind}\"}},\"toolUseID\":\"t\""))
}

pub fn boundary(uuid: &str, before: &str, more: &str) -> String {
    let rest = format!("\"subtype\":\"compact_boundary\",\"logicalParentUuid\":\"{before}\"{more}");
    line(uuid, "-", "system", &rest)
}

pub fn summary(uuid: &str, parent: &str, text: &str) -> String {
    let rest = "\"isCompactSummary\":true,\"isVisibleInTranscriptOnly\":true,";
    line(uuid, parent, "user", &format!("{rest}\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}"))
}

/// The lines of a transcript, with `; ` between them: what kind of line, its id, the id of its parent, and the rest.
pub fn written(lines: &str) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let (kind, uuid, parent) = (words[0], words[1], words[2]);
        let rest = words.get(3).copied().unwrap_or_default();
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match kind {
            "user" => user(uuid, parent, rest),
            "says" => says(uuid, parent, first, second),
            "calls" => calls(uuid, parent, first, second),
            "result" => result(uuid, parent, first, second),
            "progress" => progress(uuid, parent, rest),
            "summary" => summary(uuid, parent, rest),
            "boundary" => boundary(uuid, parent, ""),
            other => panic!("no such line: {other}"),
        }
    };
    lines.split("; ").map(line).collect()
}

/// Role, texts, calls and results of each message, such as `a:ok,!c1` and `u:?c1=done`.
pub fn sketch(session: &Session) -> Vec<String> {
    session.messages.iter().map(|message| outline(message)).collect()
}

pub fn outline(message: &rejoin_record::Message) -> String {
    let blocks = message.blocks.iter().map(|block| match &block.kind {
        BlockKind::Text(text) => text.to_string(),
        BlockKind::ToolCall(call) => format!("!{}", call.id),
        BlockKind::ToolResult(result) => {
            let text = result.content.iter().filter_map(|block| block.as_text()).map(|text| text.as_str());
            format!("?{}={}", result.call_id.as_ref().unwrap(), text.collect::<String>())
        }
        BlockKind::Reasoning(_) => "~".to_owned(),
        BlockKind::Image(_) => "image".to_owned(),
        other => format!("{other:?}"),
    });
    format!("{}:{}", &message.role.as_str()[..1], blocks.collect::<Vec<_>>().join(","))
}

pub fn hidden(session: &Session) -> Vec<String> {
    let message = |item: &rejoin_formats::session::SetAside| match &item.what {
        Aside::Hidden(message, _) => Some(outline(message)),
        _ => None,
    };
    session.set_aside.iter().filter_map(message).collect()
}

pub fn raw(session: &Session) -> Vec<&str> {
    session.set_aside.iter().filter_map(|item| Some(item.raw()?.as_str())).collect()
}

pub fn rules(findings: &[Finding]) -> Vec<(&'static str, Option<usize>)> {
    findings.iter().map(|finding| (finding.rule.name(), finding.at.line)).collect()
}

/// What is wrong with it as a request.
pub fn problems(session: &Session) -> Vec<(&'static str, Option<usize>)> {
    let out = convert(session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    assert_eq!(testkit::refusals(Dialect::Anthropic, out.body.as_bytes()), []);
    let problems: Vec<Finding> = out.findings.into_iter().filter(Finding::is_problem).collect();
    rules(&problems)
}
