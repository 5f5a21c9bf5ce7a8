//! What the responder remembers of a conversation.

use rejoin_record::{Block, ToolCall, ToolResult, json::Doc};
use rejoin_view::{
    SoundView,
    sound::{ItemRef, NO_RESULT, PartRef, SoundRole},
};

use super::intents::{self, Fact, Intent};

/// The result of a tool.
pub struct RecalledResult {
    pub tool: String,
    /// The first argument.
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

/// A message of the user, and the results of the tools that it led to.
pub struct Utterance {
    pub text: String,
    pub results: Vec<RecalledResult>,
}

/// What the responder understands of a conversation.
pub struct Remembered {
    pub said: Vec<Utterance>,
    /// The number of calls so far.
    pub calls: usize,
    facts: Vec<Fact>,
    notes: Vec<String>,
}

impl Remembered {
    pub fn of(view: &SoundView) -> Self {
        let mut memory = Self { said: Vec::new(), calls: 0, facts: Vec::new(), notes: Vec::new() };
        for item in view.items() {
            for exchange in item.exchanges() {
                memory.calls += 1;
                let results: Vec<&ToolResult> = exchange.results().map(|result| result.result()).collect();
                if let Some(said) = memory.said.last_mut() {
                    said.results.push(RecalledResult::of(exchange.call(), &results));
                }
            }
            if let Some(text) = text_of_user(item) {
                memory.facts.extend(intents::facts(&text));
                memory.notes.extend(intents::note(&text));
                memory.said.push(Utterance { text, results: Vec::new() });
            }
        }
        memory
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
        let is_newest =
            |at: usize, fact: &Fact| !self.facts[at + 1..].iter().any(|later| later.what == fact.what);
        let newest = self.facts.iter().enumerate().filter(|(at, fact)| is_newest(*at, fact));
        let mut lines: Vec<String> =
            newest.map(|(_, fact)| format!("Your {} is {}.", fact.what, fact.value)).collect();
        lines.extend(self.notes.iter().map(|note| format!("I was to remember: {note}.")));
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
        if before.is_empty() {
            return String::from("There is nothing to summarise yet.");
        }
        let mut lines = vec![format!("So far you said {} things:", before.len())];
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
        for fact in &self.facts {
            lines.push(format!("Your {} is {}.", fact.what, fact.value));
        }
        lines.extend(self.notes.iter().map(|note| format!("I was to remember: {note}.")));
        lines.join("\n")
    }
}

/// What the user says in a message; none if the message is not the user's, or only holds a result whose call is gone.
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
