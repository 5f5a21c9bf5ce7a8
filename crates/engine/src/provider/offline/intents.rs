//! Finds the requests in a user's text.

use rejoin_record::json::Object;

use crate::tools;

/// A fact that the user told about themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its subject, such as `name`.
    pub what: String,
    /// Its value.
    pub value: String,
}

/// A request in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// A sum.
    Sum(String),
    /// The contents of a file.
    Read(String),
    /// The names in a folder.
    List(String),
    /// To run a command.
    Run(String),
    /// To write a text into a file.
    Write {
        /// The file.
        path: String,
        /// The text.
        content: String,
    },
    /// No request: the user tells a fact.
    Fact(Fact),
    /// To remember something.
    Note(String),
    /// To repeat a fact that the user told.
    Ask(String),
    /// To repeat every fact that the user told.
    AskAll,
    /// To repeat the last sum.
    WhatSum,
    /// To repeat the user's previous message.
    WhatAsked,
    /// To summarise the conversation.
    Summarise,
}

impl Intent {
    /// The tool call that serves it, with its arguments.
    pub fn call(&self) -> Option<(&'static str, Object)> {
        let one = |name: &str, value: &str| Object::new().text(name, value);
        match self {
            Self::Sum(sum) => Some(("calculate", one("expression", sum))),
            Self::Read(path) => Some(("read_file", one("path", path))),
            Self::List(path) => Some(("list_dir", one("path", path))),
            Self::Run(command) => Some(("run", one("command", command))),
            Self::Write { path, content } => {
                Some(("write_file", one("path", path).text("content", format!("{content}\n"))))
            }
            _ => None,
        }
    }
}

/// How many bytes of a text are examined.
const LOOK_AT: usize = 4_000;

/// The requests of a text, the most important first.
pub fn of(text: &str) -> Vec<Intent> {
    let text = &text[..text.floor_char_boundary(LOOK_AT)];
    let lower = text.to_lowercase();
    // Text between these marks belongs to the command or the file: do not search it for other requests.
    if let Some(intent) = work(text) {
        return vec![intent];
    }
    let mut intents: Vec<Intent> = sums(text).into_iter().map(Intent::Sum).collect();
    if lists(&lower) {
        intents.push(Intent::List(String::from(".")));
    }
    intents.extend(files(text, &lower).into_iter().map(Intent::Read));
    let fact = asked(&lower);
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    if fact.is_none() && has(&["did i just", "did i ask", "did i say", "was my last", "i just ask"]) {
        let sum = has(&["math", "sum", "calculat"]);
        intents.push(if sum { Intent::WhatSum } else { Intent::WhatAsked });
    } else if has(&["summar", "recap"]) {
        intents.push(Intent::Summarise);
    } else if fact.is_none()
        && has(&["know about me", "remember about me", "have i told you", "did i tell you"])
    {
        intents.push(Intent::AskAll);
    } else {
        intents.extend(fact.map(Intent::Ask));
        intents.extend(facts(text).into_iter().map(Intent::Fact));
        intents.extend(note(text).map(Intent::Note));
    }
    intents
}

/// A command to run, or a text to write: "run `cargo test`", "write `hello` to notes.txt".
fn work(text: &str) -> Option<Intent> {
    let (verb, rest) = text.trim().split_once('`')?;
    let (content, after) = rest.split_once('`')?;
    let verb = verb.trim().to_lowercase();
    let content = content.trim();
    if content.is_empty() {
        return None;
    }
    match verb.strip_prefix("please ").unwrap_or(&verb) {
        "run" => Some(Intent::Run(content.to_owned())),
        "write" => {
            let path = after.trim().strip_prefix("to ")?.trim().trim_end_matches('.').trim_matches('`');
            is_path(path).then(|| Intent::Write { path: path.to_owned(), content: content.to_owned() })
        }
        _ => None,
    }
}

/// Whether a text asks for the names in a folder.
fn lists(lower: &str) -> bool {
    let words: Vec<&str> = words(lower).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    has(&["ls"])
        || (has(&["list", "what", "which", "show"])
            && has(&["files", "folder", "directory", "folders", "directories"]))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The names of the files to read: those after a word such as `read`.
fn files(text: &str, lower: &str) -> Vec<String> {
    let asks = ["read", "open", "cat", "show", "in"];
    let asked = ["read", "open", "cat", "show me", "what is in", "what's in"];
    if !asked.iter().any(|words| lower.contains(words)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut asked_for = false;
    for word in text.split_whitespace() {
        let name = word.trim_matches(|letter: char| "\"'`,;:?!()".contains(letter)).trim_end_matches('.');
        let plain = name.to_lowercase();
        if asks.contains(&plain.as_str()) {
            asked_for = true;
        } else if asked_for && is_path(name) && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Whether a word looks like the name of a file.
fn is_path(word: &str) -> bool {
    let named = word.char_indices().any(|(at, letter)| letter == '.' && at + 1 < word.len());
    (named || word.contains('/')) && word.chars().any(char::is_alphabetic) && !word.contains("://")
}

fn sums(text: &str) -> Vec<String> {
    let mut plain = text.to_owned();
    for (words, sign) in [(" plus ", "+"), (" minus ", "-"), (" times ", "*"), (" divided by ", "/")] {
        plain = plain.replace(words, sign);
    }
    let in_sum = |letter: char| letter.is_ascii_digit() || " .+-*/%^()\u{d7}\u{f7}\u{2212}".contains(letter);
    let mut found: Vec<String> = Vec::new();
    let mut rest = plain.as_str();
    let mut before: Option<char> = None;
    while let Some(start) = rest.find(in_sum) {
        before = rest[..start].chars().next_back().or(before);
        let run = &rest[start..];
        let end = run.find(|letter| !in_sum(letter)).unwrap_or(run.len());
        let after = run[end..].chars().next();
        let (sum, next) = run.split_at(end);
        // A letter next to it makes it part of a name, such as a version or a path.
        let core = sum.trim_start_matches([')', ' ']);
        let joined =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let begins = core.len() < sum.len() || !joined(before);
        let ends = core.trim_end_matches(['(', ' ']);
        let stands_alone = begins && (ends.len() < core.len() || !joined(after));
        let sum = balanced(ends.trim_end_matches(['.', '-', '+', '*', '/', '%', ' ']));
        if stands_alone && is_sum(sum) && !found.iter().any(|known| known == sum) {
            found.push(sum.to_owned());
        }
        before = run[..end].chars().next_back();
        rest = next;
    }
    found
}

/// A sum without the parentheses of the sentence around it.
fn balanced(sum: &str) -> &str {
    let count = |letter| sum.matches(letter).count();
    match (count('('), count(')')) {
        (open, closed) if closed > open => sum.trim_end_matches([')', ' ']),
        (open, closed) if open > closed => sum.trim_start_matches(['(', ' ']),
        _ => sum,
    }
}

/// Whether a text is a sum of at least two numbers, and not a date.
fn is_sum(sum: &str) -> bool {
    let signs = "+-*/%^\u{d7}\u{f7}\u{2212}";
    let inner = sum.trim_start_matches(['-', '(', ' ']);
    let has_sign = inner.contains(|letter| signs.contains(letter));
    let numbers =
        sum.split(|letter: char| !letter.is_ascii_digit() && letter != '.').filter(|n| !n.is_empty());
    let parts: Vec<&str> = sum.split('-').collect();
    let date = matches!(parts[..], [year, month, day] if [4, 2, 2] == [year.len(), month.len(), day.len()]);
    // A sum such as 1/0 is well formed, although it has no result.
    let well_formed = !matches!(tools::evaluate(sum), Err(tools::SumError::Malformed(_)));
    has_sign && numbers.count() > 1 && !date && well_formed
}

/// The fact that the user asks for: `name` for "What did I tell you my name was?".
fn asked(lower: &str) -> Option<String> {
    let lower = &lower.replace('\u{2019}', "'");
    let by_name = ["who am i", "who i am", "what am i called", "do you remember me", "what do you call me"];
    if by_name.iter().any(|words| lower.contains(words)) {
        return Some(String::from("name"));
    }
    let sentences = lower.split_inclusive(['?', '.', '!', '\n', ';']);
    sentences.into_iter().find_map(|sentence| {
        sentence
            .match_indices("my ")
            .find_map(|(at, my)| asked_at(sentence, &sentence[..at], &sentence[at + my.len()..]))
    })
}

/// The fact that a sentence asks for after a `my`.
fn asked_at(sentence: &str, before: &str, rest: &str) -> Option<String> {
    let asks = [
        "what's",
        "whats",
        "what is",
        "what was",
        "what did i",
        "what do i",
        "what i ",
        "remember",
        "recall",
        "you know",
        "remind me",
        "tell me",
        "tell you",
        "told you",
        "did i say",
        "did i mention",
        "which is",
    ];
    let rest = rest.split(',').next()?.split(" and ").next()?;
    let starts_word = before.chars().next_back().is_none_or(|letter| !letter.is_alphanumeric());
    if !starts_word || !asks.iter().any(|words| before.contains(words)) {
        return None;
    }
    // "Remember that my name is Alice" tells a fact; "Tell me what my name is" asks for one.
    let is_question = sentence.ends_with('?') || before.contains("what");
    let mut words: Vec<&str> =
        rest.split([' ', '?', '.', '!', ';', '\n']).filter(|word| !word.is_empty()).collect();
    if !is_question && words.iter().rev().skip(1).any(|word| *word == "is") {
        return None;
    }
    let closing = [
        "is", "was", "are", "were", "again", "please", "to", "you", "be", "now", "then", "earlier", "before",
    ];
    while words.last().is_some_and(|word| closing.contains(word)) {
        words.pop();
    }
    // The last question or message is not a fact about the user.
    let of_talk = ["question", "message", "last", "previous", "sentence", "words"];
    let fits = !words.is_empty() && words.len() <= 5 && !words.iter().any(|word| of_talk.contains(word));
    fits.then(|| words.join(" "))
}

/// The facts that a text tells.
pub fn facts(text: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    let sentences = text.split(['.', '!', '\n', ';', ',']).flat_map(|sentence| sentence.split(" and "));
    for sentence in sentences {
        let sentence = sentence.trim();
        if sentence.ends_with('?') {
            continue;
        }
        let lower = sentence.to_lowercase();
        // The lower-case text may differ in length; its positions then do not fit the original.
        let same = lower.len() == sentence.len();
        let after = |words: &str| {
            let at = lower.find(words).filter(|_| same)?;
            let before = lower[..at].chars().next_back();
            let starts = before.is_none_or(|letter| !letter.is_alphanumeric());
            starts.then(|| sentence[at + words.len()..].trim())
        };
        let name = ["call me ", "i am called ", "i'm called ", "my name's ", "my name\u{2019}s "]
            .iter()
            .find_map(|words| after(words));
        if let Some(value) = name.filter(|value| !value.is_empty()) {
            facts.push(Fact { what: String::from("name"), value: value.to_owned() });
        } else if let Some(rest) = after("my ")
            && let Some((what, value)) = rest.split_once(" is ")
            && what.split(' ').count() <= 4
            && !value.trim().is_empty()
            && !["what", "who", "where", "when"].iter().any(|word| lower.starts_with(word))
        {
            facts.push(Fact { what: what.trim().to_lowercase(), value: value.trim().to_owned() });
        }
    }
    facts
}

/// The text that the user asks to remember.
pub fn note(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find("remember that ").filter(|_| lower.len() == text.len())?;
    let note = text[at + "remember that ".len()..].split(['\n', '.']).next()?.trim();
    (!note.is_empty() && facts(note).is_empty()).then(|| note.to_owned())
}

#[cfg(test)]
mod tests;
