//! The inputs of the peers: the fixtures, some conversations with further faults, and mutations of all of them; and the texts that
//! must not get lost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testkit::fuzz::random::Random;

use crate::run::files;

/// A conversation in a file format that rejoin reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub name: String,
    pub format: String,
    pub text: String,
}

impl Conversation {
    /// Whether it is a session of an agent, whose instructions do not fit another agent.
    pub fn is_of_an_agent(&self) -> bool {
        AGENTS.contains(&&*self.format)
    }

    /// The title in a list: the beginning of the first user message, if there is one.
    pub fn title(&self) -> Option<String> {
        if self.is_of_an_agent() {
            return Some(SESSION_TITLE.to_owned());
        }
        let first = expected_texts(&self.text).into_iter().find(|said| said.speaker == Speaker::User)?;
        Some(first.text.lines().next().unwrap_or_default().to_owned())
    }
}

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
    /// A system prompt or a developer: dialects put it in different places.
    Instruction,
}

/// A text that must not get lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedText {
    pub speaker: Speaker,
    pub text: String,
}

/// The texts that are missing from the request: they must come in order, each under its own speaker; instructions may be anywhere.
pub fn lost(said: &[ExpectedText], sent: &[(Speaker, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    // The position of the last text that was found: its index, and the offset in it.
    let (mut place, mut offset) = (0, 0);
    for ExpectedText { speaker, text } in said {
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

/// Dialects whose bodies rejoin writes but does not read.
const ONLY_WRITTEN: &[&str] = &["bedrock", "mistral", "ollama"];

/// Sessions of agents that put their own texts before and between those of the user.
const AGENTS: &[&str] = &["codex", "claude-code"];

/// The fixtures of every dialect that is read, the example, and states that no fixture has (`xtask/peers`).
pub fn all() -> Result<Vec<Conversation>> {
    let example = fs::read_to_string("examples/interrupted.json")?;
    let mut all = vec![Conversation { name: "example".into(), format: "openai-chat".into(), text: example }];
    for (root, ending) in [(FIXTURES, ".json"), (OWN, ".json"), (OWN, ".jsonl")] {
        all.extend(below(Path::new(root), ending)?);
    }
    all.retain(|conversation| !ONLY_WRITTEN.contains(&&*conversation.format));
    Ok(all)
}

const FIXTURES: &str = "crates/checkers/fixtures";
const OWN: &str = "xtask/peers";

/// The conversations in the files below a folder. Each file is in a folder named after its format.
fn below(root: &Path, ending: &str) -> Result<Vec<Conversation>> {
    let read = |path: PathBuf| {
        let folder = path.parent().and_then(Path::file_name).context("a conversation lies in a folder")?;
        let format = folder.to_string_lossy().into_owned();
        let name = format!("{format} {}", path.file_stem().unwrap_or_default().to_string_lossy());
        Ok(Conversation { name, format, text: fs::read_to_string(&path)? })
    };
    files(root, ending)?.into_iter().map(read).collect()
}

/// How the first user message begins in each session of an agent.
const SESSION_TITLE: &str = "Which files are there?";

/// Mutations of the given conversations, the same in every run.
pub fn mutated(from: &[Conversation], count: usize) -> Vec<Conversation> {
    let parsed: Vec<(&Conversation, Value)> = from
        .iter()
        .filter_map(|conversation| Some((conversation, read(&conversation.text)?)))
        .filter(|(_, body)| list(body).is_some_and(|list| !list.is_empty()))
        .collect();
    let mut dice = Random::new(1, "");
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

fn mutate(body: &mut Value, guest: &[Value], dice: &mut Random) {
    let Some(list) = body.pointer_mut(place(body)).and_then(Value::as_array_mut) else { return };
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
        // Insert a conversation in the middle of another.
        _ => drop(list.splice(at..at, guest.iter().cloned())),
    }
}

/// The place of the messages in a body of any dialect, as a JSON pointer.
fn place(body: &Value) -> &'static str {
    let places = ["/messages", "/input", "/contents"];
    places.into_iter().find(|place| body.pointer(place).is_some()).unwrap_or("")
}

fn list(body: &Value) -> Option<&Vec<Value>> {
    body.pointer(place(body))?.as_array()
}

/// All texts, in order, beginning with the fields around the messages. Blank texts do not count.
pub fn expected_texts(text: &str) -> Vec<ExpectedText> {
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

fn speak(said: &mut Vec<ExpectedText>, speaker: Speaker, content: &Value) {
    let texts = match content {
        Value::String(text) => vec![text.as_str()],
        Value::Array(parts) => parts.iter().filter_map(words).collect(),
        _ => Vec::new(),
    };
    // White space that a dialect forbids at the ends of a text may be missing.
    let texts = texts.into_iter().map(str::trim).filter(|text| !text.is_empty());
    said.extend(texts.map(|text| ExpectedText { speaker, text: text.to_owned() }));
}

/// The text of a part that is text and not reasoning.
fn words(part: &Value) -> Option<&str> {
    let kind = part.get("type").map_or(Some("text"), Value::as_str)?;
    let is_text = matches!(kind, "text" | "input_text" | "output_text");
    (is_text && part.get("thought") != Some(&json!(true))).then(|| part.get("text")?.as_str()).flatten()
}

/// Parses JSON that may contain lone surrogates, which become U+FFFD.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(Speaker, String)> {
        expected_texts(text).into_iter().map(|said| (said.speaker, said.text)).collect()
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
    fn mutations_are_the_same_every_time_and_differ_from_each_other() {
        let own = below(&crate::run::root().join(OWN), ".json").unwrap();
        assert!(own.len() >= 10 && own.iter().all(|own| list(&read(&own.text).unwrap()).is_some()));
        let made = mutated(&own, 200);
        assert_eq!(made, mutated(&own, 200));
        let distinct: std::collections::BTreeSet<&str> =
            made.iter().map(|conversation| conversation.text.as_str()).collect();
        assert!(distinct.len() > 120, "only {} of 200 differ", distinct.len());
        assert!(mutated(&[], 5).is_empty());
    }
}
