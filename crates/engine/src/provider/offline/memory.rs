//! What the responder remembers of a conversation.

use std::collections::HashMap;

use rejoin_record::{CallId, Message, Role, json::Doc};

use super::intents::{self, Fact, Intent};

/// The result of a tool.
pub struct RecalledResult {
    pub tool: String,
    /// The first argument.
    pub asked: String,
    pub text: String,
    pub is_error: bool,
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
    pub fn of(messages: &[Message]) -> Self {
        let mut memory = Self { said: Vec::new(), calls: 0, facts: Vec::new(), notes: Vec::new() };
        // The tool and the first argument of the newest call with each id.
        let mut asked: HashMap<CallId, (String, String)> = HashMap::new();
        for message in messages {
            for call in message.tool_calls() {
                memory.calls += 1;
                let doc = Doc::parse(call.arguments.text());
                let first = doc.as_ref().ok().and_then(|doc| doc.root()?.fields().next()?.1.as_str());
                let first = first.unwrap_or_default().into_owned();
                asked.insert(call.id.clone(), (call.name.to_string(), first));
            }
            for result in message.tool_results() {
                let known = result.call_id.as_ref().and_then(|id| asked.get(id));
                let texts: Vec<String> = result
                    .content
                    .iter()
                    .filter_map(|block| block.as_text())
                    .map(ToString::to_string)
                    .collect();
                if let (Some((tool, argument)), Some(said)) = (known, memory.said.last_mut()) {
                    said.results.push(RecalledResult {
                        tool: tool.clone(),
                        asked: argument.clone(),
                        text: texts.join("\n"),
                        is_error: result.is_error,
                    });
                }
            }
            if message.role == Role::User && message.tool_results().next().is_none() {
                let text = message.content().unwrap_or_default();
                // A result whose call is gone is shown as a labelled text, which is not a message of the user.
                if text.starts_with("[tool result") {
                    continue;
                }
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

/// The beginning of a text, on one line.
pub fn short(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    line.chars().take(limit).chain(std::iter::once('\u{2026}')).collect()
}
