//! The offline responder's memory: the facts, notes and questions in a conversation.

use rejoin_record::{Block, ToolCall, ToolResult, hash::short_name, json::Doc};
use rejoin_view::{
    SoundView,
    sound::{ItemRef, NO_RESULT, PartRef, SoundRole},
};

use super::intents::{self, Fact, Intent};

/// How a summary introduces a fact and a note.
const KNOWN: &str = "Your ";
const NOTED: &str = "I was to remember: ";

/// The result of a tool.
pub struct RecalledResult {
    pub tool: String,
    /// The value of the call's first argument.
    pub asked: String,
    pub text: String,
    pub is_error: bool,
}

impl RecalledResult {
    fn of(call: &ToolCall, results: &[&ToolResult]) -> Self {
        let doc = Doc::parse(call.arguments.text());
        let first = doc.as_ref().ok().and_then(|doc| doc.root()?.fields().next()?.1.as_str());
        let texts: Vec<&str> = results
            .iter()
            .flat_map(|result| result.content.iter().filter_map(Block::as_text))
            .map(|text| text.as_str())
            .collect();
        Self {
            tool: call.name.to_string(),
            asked: first.unwrap_or_default().into_owned(),
            text: if results.is_empty() { NO_RESULT.to_owned() } else { texts.join("\n") },
            is_error: results.iter().all(|result| result.is_error),
        }
    }
}

/// A message of the user, with the results of the tools that were called for it.
pub struct Utterance {
    pub text: String,
    pub results: Vec<RecalledResult>,
}

/// Everything that the responder knows from a conversation.
pub struct Remembered {
    pub said: Vec<Utterance>,
    /// The highest number in the id of a call. A compaction may hide the calls with lower numbers.
    pub numbered: usize,
    /// The newest text that retells hidden messages.
    summary: Option<String>,
    facts: Vec<Fact>,
    notes: Vec<String>,
}

impl Remembered {
    /// Reads the messages of a view. Those at the indexes `retold` retell others, and nobody said them.
    pub fn of(view: &SoundView, retold: &[usize]) -> Self {
        let mut memory =
            Self { said: Vec::new(), numbered: 0, summary: None, facts: Vec::new(), notes: Vec::new() };
        for item in view.items() {
            for exchange in item.exchanges() {
                let number =
                    exchange.call().id.as_str().rsplit('_').next().and_then(|number| number.parse().ok());
                memory.numbered = memory.numbered.max(number.unwrap_or(0));
                let results: Vec<&ToolResult> = exchange.results().map(|result| result.result()).collect();
                if let Some(said) = memory.said.last_mut() {
                    said.results.push(RecalledResult::of(exchange.call(), &results));
                }
            }
            if let Some(text) = text_of_user(item) {
                match retold.contains(&item.index()) {
                    true => memory.take_over(text),
                    false => memory.hear(text),
                }
            }
        }
        memory
    }

    fn hear(&mut self, text: String) {
        self.facts.extend(intents::facts(&text));
        self.notes.extend(intents::note(&text));
        self.said.push(Utterance { text, results: Vec::new() });
    }

    /// Takes over the facts of this responder's own summary, and the messages of people in a transcript.
    fn take_over(&mut self, text: String) {
        for part in text.split("\n\n") {
            if let Some(said) = part.strip_prefix("user:") {
                self.hear(said.trim().to_owned());
                continue;
            }
            for line in part.lines().filter_map(|line| line.strip_suffix('.')) {
                if let Some(note) = line.strip_prefix(NOTED) {
                    self.notes.push(note.to_owned());
                } else if let Some((what, value)) =
                    line.strip_prefix(KNOWN).and_then(|fact| fact.split_once(" is "))
                {
                    self.facts.push(Fact { what: what.to_owned(), value: value.to_owned() });
                }
            }
        }
        self.summary = Some(text);
    }

    /// The newest value of every fact, and the notes, as sentences.
    fn known(&self) -> Vec<String> {
        let is_newest =
            |at: usize, fact: &Fact| !self.facts[at + 1..].iter().any(|later| later.what == fact.what);
        let newest = self.facts.iter().enumerate().filter(|(at, fact)| is_newest(*at, fact));
        let facts = newest.map(|(_, fact)| format!("{KNOWN}{} is {}.", fact.what, fact.value));
        let is_first = |at: &usize| !self.notes[..*at].contains(&self.notes[*at]);
        let notes = (0..self.notes.len()).filter(is_first).map(|at| format!("{NOTED}{}.", self.notes[at]));
        facts.chain(notes).collect()
    }

    /// The id of a call in this answer, counted from `after`. Ids continue after the highest known one, also those that a
    /// compaction hides.
    pub fn call_id(&self, after: usize) -> String {
        let number = self.numbered + after + 1;
        let summary = self.summary.as_deref();
        summary.map_or_else(
            || format!("offline_{number}"),
            |summary| format!("offline_{}_{number}", short_name(summary, 6)),
        )
    }

    pub fn last(&self) -> Option<&Utterance> {
        self.said.last()
    }

    /// The message before the last one.
    pub fn before_last(&self) -> Option<String> {
        self.said.iter().rev().nth(1).map(|said| short(&said.text, 200))
    }

    /// The newest value of a fact, in British or American spelling.
    pub fn fact(&self, what: &str) -> Option<&str> {
        let spelled = |what: &str| what.replace("favourite", "favorite").replace("colour", "color");
        let asked = spelled(what);
        self.facts.iter().rev().find(|fact| spelled(&fact.what) == asked).map(|fact| fact.value.as_str())
    }

    /// The newest value of every fact, and the notes.
    pub fn all_facts(&self) -> String {
        let lines = self.known();
        if lines.is_empty() {
            return String::from("You have not told me anything about yourself yet.");
        }
        lines.join("\n")
    }

    /// The newest earlier message with a sum in it.
    pub fn last_sum(&self) -> Option<String> {
        let is_sum =
            |said: &&Utterance| intents::of(&said.text).iter().any(|intent| matches!(intent, Intent::Sum(_)));
        self.said.iter().rev().skip(1).find(is_sum).map(|said| short(&said.text, 200))
    }

    /// A summary of the conversation in a few lines.
    pub fn summary(&self) -> String {
        let before = &self.said[..self.said.len().saturating_sub(1)];
        let known = self.known();
        if before.is_empty() && known.is_empty() {
            return String::from("There is nothing to summarise yet.");
        }
        let mut lines = Vec::new();
        if !before.is_empty() {
            lines.push(format!("So far you said {} things:", before.len()));
        }
        let skipped = before.len().saturating_sub(20);
        if skipped > 0 {
            lines.push(format!("- ({skipped} earlier ones)"));
        }
        for said in &before[skipped..] {
            let found: Vec<String> = said
                .results
                .iter()
                .map(|result| format!("{} gave {}", result.tool, short(&result.text, 40)))
                .collect();
            let found = if found.is_empty() { String::new() } else { format!(" ({})", found.join(", ")) };
            lines.push(format!("- \"{}\"{found}", short(&said.text, 100)));
        }
        lines.extend(known);
        lines.join("\n")
    }
}

/// The user's text in a message; `None` if the message is not the user's, or holds only a result whose call is gone.
fn text_of_user(item: ItemRef<'_>) -> Option<String> {
    if item.role() != SoundRole::User {
        return None;
    }
    let (mut texts, mut has_orphan) = (Vec::new(), false);
    for part in item.parts() {
        match part {
            PartRef::Block(_, block) => texts.extend(block.as_text().map(|text| text.as_str())),
            PartRef::Orphan(..) => has_orphan = true,
            PartRef::Exchange(..) => {}
        }
    }
    (!has_orphan || !texts.is_empty()).then(|| texts.join("\n"))
}

/// The beginning of a text, on one line.
pub fn short(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    line.chars().take(limit).chain(std::iter::once('\u{2026}')).collect()
}
