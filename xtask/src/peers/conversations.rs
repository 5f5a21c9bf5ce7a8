//! What is handed to the peers: the fixtures, some conversations that are broken in ways of their own, and mutations of all
//! of them. And what people and models said in them.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::run::files;

/// A conversation in a file format that rejoin reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub name: String,
    pub format: String,
    pub text: String,
}

impl Conversation {
    /// What a list should call it: how the first word of a person begins, if there is one.
    pub fn title(&self) -> Option<String> {
        if SESSIONS.iter().any(|(name, ..)| *name == self.name) {
            return Some(SESSION_TITLE.to_owned());
        }
        let first = said(&self.text).into_iter().find(|said| said.speaker == Speaker::User)?;
        Some(first.text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Who said a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
    /// A system prompt or a developer: dialects put it in different places.
    Instruction,
}

/// A text that must not get lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub speaker: Speaker,
    pub text: String,
}

/// What was said and cannot be found in what was sent: texts must come in order under their own speaker; instructions anywhere.
pub fn lost(said: &[Said], sent: &[(Speaker, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    // Where the last text was found: which one, and how far in it.
    let (mut place, mut offset) = (0, 0);
    for Said { speaker, text } in said {
        if *speaker == Speaker::Instruction {
            if !sent.iter().any(|(_, sent)| sent.contains(text)) {
                problems.push(format!("the instruction {text:?} is lost"));
            }
            continue;
        }
        let found = (place..sent.len()).find_map(|at| {
            let from = if at == place { offset } else { 0 };
            let (who, sent) = sent[at];
            let end = sent.get(from..)?.find(text.as_str())? + from + text.len();
            (who == *speaker).then_some((at, end))
        });
        match found {
            Some(found) => (place, offset) = found,
            None => problems.push(format!("{speaker:?} said {text:?}: not there, or not in its place")),
        }
    }
    problems
}

/// Dialects whose bodies rejoin writes and does not read.
const ONLY_WRITTEN: &[&str] = &["bedrock", "mistral", "ollama"];

/// The fixtures of every dialect that is read, the example, and those below.
pub fn all() -> Result<Vec<Conversation>> {
    let mut all = Vec::new();
    for path in files(Path::new("crates/checkers/fixtures"), ".json")? {
        // The folder bears the dialect's name.
        let folder = path.parent().and_then(Path::file_name).context("a fixture lies in a folder")?;
        let format = folder.to_string_lossy().into_owned();
        if ONLY_WRITTEN.contains(&&*format) {
            continue;
        }
        let name = format!("{format} {}", path.file_stem().unwrap_or_default().to_string_lossy());
        all.push(Conversation { name, format, text: fs::read_to_string(&path)? });
    }
    let example = fs::read_to_string("examples/interrupted.json")?;
    all.push(Conversation { name: "example".into(), format: "openai-chat".into(), text: example });
    all.extend(OWN.iter().chain(SESSIONS).map(|(name, format, text)| Conversation {
        name: (*name).to_owned(),
        format: (*format).to_owned(),
        text: (*text).to_owned(),
    }));
    Ok(all)
}

/// States that no fixture has, or not together.
const OWN: &[(&str, &str, &str)] = &[
    (
        "killed in a batch",
        "anthropic",
        r#"{"system": "Be brief.", "messages": [
            {"role": "user", "content": "Build it."},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I build all three."},
                {"type": "tool_use", "id": "toolu_a", "name": "build", "input": {"part": 1}},
                {"type": "tool_use", "id": "toolu_b", "name": "build", "input": {"part": 2}},
                {"type": "tool_use", "id": "toolu_c", "name": "build", "input": {"part": 3}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_c", "content": "third is built"},
                {"type": "tool_result", "tool_use_id": "toolu_a", "is_error": true, "content": "first is not"}]},
            {"role": "user", "content": "And the second?"}]}"#,
    ),
    (
        "result far away",
        "openai-chat",
        r#"{"messages": [
            {"role": "user", "content": "Read the log."},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_log", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"log\"}"}}]},
            {"role": "user", "content": "Take your time."},
            {"role": "assistant", "content": "I am waiting for it."},
            {"role": "tool", "tool_call_id": "call_log", "content": "it is empty"},
            {"role": "user", "content": "So?"}]}"#,
    ),
    (
        "result before its call",
        "openai-chat",
        r#"{"messages": [
            {"role": "user", "content": "What time is it?"},
            {"role": "tool", "tool_call_id": "call_time", "content": "noon"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [
                {"id": "call_time", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]},
            {"role": "user", "content": "Well?"}]}"#,
    ),
    (
        "one id for everything",
        "openai-chat",
        r#"{"messages": [
            {"role": "user", "content": "Twice, please."},
            {"role": "assistant", "content": "Once.", "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "ring", "arguments": "{\"n\": 1}"}}]},
            {"role": "tool", "tool_call_id": "call_0", "content": "rang"},
            {"role": "assistant", "content": "And again.", "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "ring", "arguments": "{\"n\": 2}"}}]},
            {"role": "tool", "tool_call_id": "call_0", "content": "rang again"},
            {"role": "tool", "tool_call_id": "call_0", "content": "and an echo"}]}"#,
    ),
    (
        "cut arguments, long id, odd name",
        "openai-chat",
        r#"{"messages": [
            {"role": "user", "content": "Write the file."},
            {"role": "assistant", "content": "Writing.", "tool_calls": [
                {"id": "call_0123456789012345678901234567890123456789012345678901234567890123456789", "type": "function",
                 "function": {"name": "fs.write file", "arguments": "{\"path\": \"a\", \"text\": \"half of i"}}]},
            {"role": "tool", "tool_call_id": "call_0123456789012345678901234567890123456789012345678901234567890123456789",
             "content": "refused"},
            {"role": "user", "content": "Once more."}]}"#,
    ),
    (
        "pictures and a refusal",
        "openai-chat",
        r#"{"messages": [
            {"role": "developer", "content": "Look closely."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I would rather not say."}]},
            {"role": "user", "content": "Please."},
            {"role": "assistant", "content": "A dot."}]}"#,
    ),
    (
        "a picture as a result",
        "anthropic",
        r#"{"messages": [
            {"role": "user", "content": "Take a picture."},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_p", "name": "camera", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_p", "content": [
                    {"type": "text", "text": "taken"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]},
                {"type": "text", "text": "Is it sharp?"}]}]}"#,
    ),
    (
        "only an orphan",
        "openai-chat",
        r#"{"messages": [{"role": "tool", "tool_call_id": "call_gone", "content": "all that is left"}]}"#,
    ),
    (
        "a model speaks first and last",
        "anthropic",
        r#"{"messages": [
            {"role": "assistant", "content": "Good morning."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "nobody answers", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "Is anybody there?"}]}]}"#,
    ),
    ("nothing yet", "openai-chat", r#"{"messages": []}"#),
];

/// How the first word of a person begins in each of [`SESSIONS`].
const SESSION_TITLE: &str = "Which files are there?";

/// Sessions of agents, with what these put before and between the words of people.
const SESSIONS: &[(&str, &str, &str)] = &[
    (
        "a rollout with context",
        "codex",
        r##"{"timestamp":"2026-03-04T05:00:00.000Z","type":"session_meta","payload":{"id":"0194f3a2-0000-7000-8000-00000000abcd","timestamp":"2026-03-04T05:00:00.000Z","cwd":"/p","originator":"codex_cli","cli_version":"0.166.0","model_provider":"openai","base_instructions":{"text":"You are Codex."}}}
{"timestamp":"2026-03-04T05:00:01.000Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions instructions>none</permissions instructions>"}]}}
{"timestamp":"2026-03-04T05:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>Be kind.</INSTRUCTIONS>"}]}}
{"timestamp":"2026-03-04T05:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n<cwd>/p</cwd>\n</environment_context>"}]}}
{"timestamp":"2026-03-04T05:00:02.000Z","type":"turn_context","payload":{"cwd":"/p","approval_policy":"never","sandbox_policy":{"type":"read-only"},"model":"gpt-5.5","summary":"auto"}}
{"timestamp":"2026-03-04T05:00:02.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Which files are there?"}]}}
{"timestamp":"2026-03-04T05:00:02.000Z","type":"event_msg","payload":{"type":"user_message","message":"Which files are there?"}}
{"timestamp":"2026-03-04T05:00:03.000Z","type":"response_item","payload":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABpqnlRtbeu"}}
{"timestamp":"2026-03-04T05:00:04.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"call_ls"}}
{"timestamp":"2026-03-04T05:00:05.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":900,"cached_input_tokens":0,"output_tokens":9,"reasoning_output_tokens":0,"total_tokens":909},"last_token_usage":{"input_tokens":900,"cached_input_tokens":0,"output_tokens":9,"reasoning_output_tokens":0,"total_tokens":909},"model_context_window":258400},"rate_limits":null}}
"##,
    ),
    (
        "a transcript with commands",
        "claude-code",
        r#"{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/p","sessionId":"0194f3a2-0000-4000-8000-00000000abcd","version":"2.1.325","gitBranch":"","type":"user","message":{"role":"user","content":"<local-command-caveat>Caveat: The messages below were generated by the user while running local commands.</local-command-caveat>"},"isMeta":true,"uuid":"0194f3a2-0000-4000-8000-000000000001","timestamp":"2026-03-04T05:00:00.000Z"}
{"parentUuid":"0194f3a2-0000-4000-8000-000000000001","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"0194f3a2-0000-4000-8000-00000000abcd","version":"2.1.325","gitBranch":"","type":"system","subtype":"local_command","content":"<command-name>/cost</command-name>","level":"info","isMeta":false,"uuid":"0194f3a2-0000-4000-8000-000000000002","timestamp":"2026-03-04T05:00:01.000Z"}
{"parentUuid":"0194f3a2-0000-4000-8000-000000000002","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"0194f3a2-0000-4000-8000-00000000abcd","version":"2.1.325","gitBranch":"","type":"user","message":{"role":"user","content":"Which files are there?"},"uuid":"0194f3a2-0000-4000-8000-000000000003","timestamp":"2026-03-04T05:00:02.000Z"}
{"parentUuid":"0194f3a2-0000-4000-8000-000000000003","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"0194f3a2-0000-4000-8000-00000000abcd","version":"2.1.325","gitBranch":"","type":"assistant","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"I look."}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":900,"output_tokens":9}},"uuid":"0194f3a2-0000-4000-8000-000000000004","timestamp":"2026-03-04T05:00:03.000Z"}
{"parentUuid":"0194f3a2-0000-4000-8000-000000000004","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"0194f3a2-0000-4000-8000-00000000abcd","version":"2.1.325","gitBranch":"","type":"assistant","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"toolu_ls","name":"Bash","input":{"command":"ls"}}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":900,"output_tokens":9}},"uuid":"0194f3a2-0000-4000-8000-000000000005","timestamp":"2026-03-04T05:00:04.000Z"}
"#,
    ),
];

/// Conversations made by changing the given ones. The same every time.
pub fn mutated(from: &[Conversation], count: usize) -> Vec<Conversation> {
    let parsed: Vec<(&Conversation, Value)> = from
        .iter()
        .filter_map(|conversation| Some((conversation, read(&conversation.text)?)))
        .filter(|(_, body)| list(body).is_some_and(|list| !list.is_empty()))
        .collect();
    let mut dice = Dice(1);
    let mut made = Vec::new();
    for number in 0..if parsed.is_empty() { 0 } else { count } {
        let (source, body) = &parsed[dice.below(parsed.len())];
        let mut body = body.clone();
        for _ in 0..=dice.below(3) {
            let other = &parsed[dice.below(parsed.len())];
            let guest = (other.0.format == source.format).then(|| list(&other.1)).flatten();
            mutate(&mut body, guest.map_or(&[][..], Vec::as_slice), &mut dice);
        }
        made.push(Conversation {
            name: format!("mutation {number} of {}", source.name),
            format: source.format.clone(),
            text: body.to_string(),
        });
    }
    made
}

fn mutate(body: &mut Value, guest: &[Value], dice: &mut Dice) {
    let Some(list) = list_mut(body) else { return };
    if list.is_empty() {
        return list.extend_from_slice(guest);
    }
    let (at, other) = (dice.below(list.len()), dice.below(list.len()));
    match dice.below(7) {
        0 => drop(list.remove(at)),
        1 => list.insert(other, list[at].clone()),
        2 => list.swap(at, other),
        3 => list.truncate(at.max(1)),
        4 => {
            let moved = list.remove(at);
            list.insert(other.min(list.len()), moved);
        }
        5 => list.extend_from_slice(guest),
        // A conversation in the midst of another.
        _ => drop(list.splice(at..at, guest.iter().cloned())),
    }
}

/// The messages of a body of any dialect.
fn list(body: &Value) -> Option<&Vec<Value>> {
    let field = ["messages", "input", "contents"].into_iter().find_map(|name| body.get(name));
    field.unwrap_or(body).as_array()
}

fn list_mut(body: &mut Value) -> Option<&mut Vec<Value>> {
    let name = ["messages", "input", "contents"].into_iter().find(|name| body.get(name).is_some());
    match name {
        Some(name) => body.get_mut(name)?.as_array_mut(),
        None => body.as_array_mut(),
    }
}

/// Everything that was said, in order: what surrounds the messages first. Blank texts say nothing.
pub fn said(text: &str) -> Vec<Said> {
    let Some(body) = read(text) else { return Vec::new() };
    let mut said = Vec::new();
    for field in ["system", "instructions", "systemInstruction", "system_instruction"] {
        if let Some(value) = body.get(field) {
            speak(&mut said, Speaker::Instruction, value.get("parts").unwrap_or(value));
        }
    }
    if let Some(words) = body.get("input").filter(|input| input.is_string()) {
        speak(&mut said, Speaker::User, words);
    }
    for message in list(&body).into_iter().flatten() {
        let speaker = match message["role"].as_str() {
            Some("user") => Speaker::User,
            Some("assistant" | "model") => Speaker::Assistant,
            Some("system" | "developer") => Speaker::Instruction,
            _ => continue,
        };
        for field in ["content", "parts"] {
            if let Some(content) = message.get(field) {
                speak(&mut said, speaker, content);
            }
        }
    }
    said
}

fn speak(said: &mut Vec<Said>, speaker: Speaker, content: &Value) {
    let texts = match content {
        Value::String(text) => vec![text.as_str()],
        Value::Array(parts) => parts.iter().filter_map(words).collect(),
        _ => Vec::new(),
    };
    // What a dialect forbids at the ends of a text may go.
    let texts = texts.into_iter().map(str::trim).filter(|text| !text.is_empty());
    said.extend(texts.map(|text| Said { speaker, text: text.to_owned() }));
}

/// The text of a part that is a text, and not a thought.
fn words(part: &Value) -> Option<&str> {
    let kind = part.get("type").map_or(Some("text"), Value::as_str)?;
    let is_text = matches!(kind, "text" | "input_text" | "output_text");
    (is_text && part.get("thought") != Some(&json!(true))).then(|| part.get("text")?.as_str()).flatten()
}

/// Parses what may have lone halves of surrogate pairs, which become U+FFFD.
pub fn read(text: &str) -> Option<Value> {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |text: &str| u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
        let taken = match unit(rest) {
            Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                clean.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        clean.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    clean.push_str(rest);
    serde_json::from_str(&clean).ok()
}

/// A small generator of numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    /// A number below the limit, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        // Weyl sequence, then mixed twice: good enough to pick from lists.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(Speaker, String)> {
        said(text).into_iter().map(|said| (said.speaker, said.text)).collect()
    }

    #[test]
    fn texts_of_every_shape() {
        use Speaker::{Assistant, Instruction, User};
        let chat = r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text",
            "text": " u "}, {"type": "image_url"}]}, {"role": "assistant", "content": null}, {"role": "tool", "content": "t"}]}"#;
        assert_eq!(texts(chat), [(Instruction, "s".into()), (User, "u".into())]);
        let anthropic = r#"{"system": [{"type": "text", "text": "s"}], "messages": [{"role": "assistant", "content": [
            {"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}]}, {"role": "user", "content": [
            {"type": "tool_result", "content": "r"}]}]}"#;
        assert_eq!(texts(anthropic), [(Instruction, "s".into()), (Assistant, "a".into())]);
        let responses = r#"{"instructions": "s", "input": [{"type": "message", "role": "user", "content": [{"type":
            "input_text", "text": "u"}]}, {"type": "function_call_output", "output": "r"}, {"role": "assistant", "content": "a"}]}"#;
        assert_eq!(
            texts(responses),
            [(Instruction, "s".into()), (User, "u".into()), (Assistant, "a".into())]
        );
        assert_eq!(texts(r#"{"input": "u"}"#), [(User, "u".into())]);
        let gemini = r#"{"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [{"role": "model", "parts": [
            {"text": "x", "thought": true}, {"text": "a"}, {"functionCall": {}}]}]}"#;
        assert_eq!(texts(gemini), [(Instruction, "s".into()), (Assistant, "a".into())]);
        assert_eq!(texts(r#"[{"role": "user", "content": "  "}]"#), []);
    }

    #[test]
    fn halves_of_pairs_become_replacement_characters() {
        assert_eq!(read(r#""\ud83d""#), Some(json!("\u{fffd}")));
        assert_eq!(read(r#""\ud83d\ude00""#), Some(json!("😀")));
        assert_eq!(read(r#""\\ud83d \" \u00e9 é""#), Some(json!("\\ud83d \" é é")));
        assert_eq!(read(r#""\ude00\ud83d\n""#), Some(json!("\u{fffd}\u{fffd}\n")));
        assert_eq!(read("\"\\"), None);
    }

    #[test]
    fn own_conversations_can_be_read() {
        for (name, format, text) in OWN {
            let body = read(text).unwrap_or_else(|| panic!("{name} is not JSON"));
            assert!(list(&body).is_some(), "{name} has no messages");
            assert!(["openai-chat", "anthropic"].contains(format), "{name}");
        }
    }

    #[test]
    fn mutations_are_the_same_every_time_and_differ_from_each_other() {
        let own: Vec<Conversation> = OWN
            .iter()
            .map(|(name, format, text)| Conversation {
                name: (*name).into(),
                format: (*format).into(),
                text: (*text).into(),
            })
            .collect();
        let made = mutated(&own, 200);
        assert_eq!(made, mutated(&own, 200));
        let distinct: std::collections::BTreeSet<&str> =
            made.iter().map(|conversation| conversation.text.as_str()).collect();
        assert!(distinct.len() > 120, "only {} of 200 differ", distinct.len());
        assert!(mutated(&[], 5).is_empty());
    }
}
