//! Writes a plan as JSON text, and records the truth. Shared by several shapes.

use serde_json::value::RawValue;

use super::{
    Body, Shape, Truth, anthropic, gemini, openai,
    plan::{Args, Around, BLANKS, Call, Dress, IDS, NO_OBJECTS, OBJECTS},
    responses,
};

pub struct Writer {
    pub shape: Shape,
    pub counter: usize,
    /// The number of the message that is being written.
    pub message: usize,
    pub truth: Truth,
}

impl Writer {
    pub fn new(shape: Shape) -> Self {
        Self { shape, counter: 0, message: 0, truth: Truth::default() }
    }

    pub fn token(&mut self, letter: char) -> String {
        self.counter += 1;
        format!("⟦{letter}{}⟧", self.counter)
    }

    /// The inside of a string literal, and the token in it.
    pub fn dressed(&mut self, dress: Dress, letter: char) -> (String, Option<String>) {
        if let Dress::Blank = dress {
            return (" \\n\\t".into(), None);
        }
        if let Dress::Empty = dress {
            return (String::new(), None);
        }
        let token = self.token(letter);
        let text = match dress {
            Dress::Lines => format!("first \\\"{token}\\\"\\nsecond\\u00e9"),
            Dress::Control => format!("\\u0000{token}\\u001b[31m"),
            Dress::Lone => format!("{token}\\ud83d!"),
            _ => format!("words {token}"),
        };
        (text, Some(token))
    }

    pub fn said(&mut self, dress: Dress, letter: char) -> String {
        let (text, token) = self.dressed(dress, letter);
        self.truth.said.extend(token);
        text
    }

    /// A text inside a part: of a result for `r`, of a speaker for other letters.
    pub fn note(&mut self, dress: Dress, letter: char) -> String {
        if letter != 'r' {
            return self.said(dress, letter);
        }
        let (text, token) = self.dressed(dress, 'r');
        self.truth.results.extend(token);
        text
    }

    /// The results noted since `before` answer a call, if the source says which.
    pub fn answered(&mut self, before: usize, id: Option<&str>) {
        if let Some(id) = id {
            for token in &self.truth.results[before..] {
                self.truth.answers.push((token.clone(), id.into(), self.message));
            }
        }
    }

    /// The text of arguments; a token goes into an object.
    pub fn arguments(&mut self, args: &Args, id: Option<usize>) -> Option<String> {
        let mut with_token = |object: &str| {
            let token = self.token('k');
            if let Some(id) = id {
                self.truth.calls.push((token.clone(), IDS[id].into(), self.message));
            }
            object.replace('%', &format!("\"k\":\"{token}\""))
        };
        Some(match args {
            Args::Object(index) | Args::Swapped(index) => with_token(OBJECTS[*index]),
            Args::NoObject(index) => NO_OBJECTS[*index].into(),
            Args::Blank(index) => BLANKS[*index].into(),
            Args::Deep(depth) => {
                let mut text = "{\"d\":".repeat(depth - 1);
                text.push_str("{}");
                text.push_str(&"}".repeat(depth - 1));
                text
            }
            Args::Absent => return None,
        })
    }

    /// The arguments of a call under a field name, with a comma before them: in a string, or for `swapped` as JSON.
    pub fn arguments_as_text(&mut self, call: &Call, field: &str) -> String {
        match (&call.args, self.arguments(&call.args, call.id)) {
            (_, None) => String::new(),
            (Args::Swapped(_), Some(text)) => format!(",\"{field}\":{text}"),
            (_, Some(text)) => format!(",\"{field}\":{}", quoted(&text)),
        }
    }

    /// The same, as JSON where they are any, or for `swapped` in a string.
    pub fn arguments_as_json(&mut self, call: &Call, field: &str) -> String {
        match (&call.args, self.arguments(&call.args, call.id)) {
            (_, None) => String::new(),
            (Args::Swapped(_), Some(text)) => format!(",\"{field}\":{}", quoted(&text)),
            (_, Some(text)) if is_json(&text) => format!(",\"{field}\":{text}"),
            (_, Some(text)) => format!(",\"{field}\":{}", quoted(&text)),
        }
    }

    /// The messages that an engine appends after a request was sent.
    pub fn continuation(&mut self, calls: &[Call]) -> Vec<String> {
        match self.shape {
            Shape::OpenAi | Shape::Anthropic => self.chat_continuation(calls),
            Shape::Responses => self.item_continuation(calls),
            Shape::Gemini => self.content_continuation(calls),
        }
    }

    /// The fields before the list. The system prompt comes first.
    pub fn before(&mut self, around: &Around) -> Vec<String> {
        let mut fields = Vec::new();
        if around.model {
            fields.push("\"model\":\"some-model\"".into());
        }
        if around.whole {
            fields.extend(match self.shape {
                Shape::OpenAi => Vec::new(),
                Shape::Anthropic => self.anthropic_before(around),
                Shape::Responses => self.responses_before(around),
                Shape::Gemini => self.gemini_before(around),
            });
        }
        fields
    }

    /// The whole body.
    pub fn body(mut self, before: Vec<String>, list: &[String], around: &Around) -> Body {
        let comma = if around.spaced { " ,\n  " } else { "," };
        let joined = format!("[{}]", list.join(comma));
        if !around.whole {
            return Body { json: joined, shape: self.shape, truth: self.truth };
        }
        let alone = match (self.shape, list) {
            (Shape::Responses, []) if around.spaced => Some(self.only_text()),
            (Shape::Gemini, [only]) if around.spaced && only.contains("\"parts\"") => Some(only.clone()),
            _ => None,
        };
        let list = format!("\"{}\":{}", self.shape.list(), alone.unwrap_or(joined));
        let after = match self.shape {
            Shape::OpenAi => openai::after(around),
            Shape::Anthropic => anthropic::after(around),
            Shape::Responses => responses::after(around),
            Shape::Gemini => gemini::after(around),
        };
        let list_first = around.thinking && matches!(self.shape, Shape::Responses | Shape::Gemini);
        let mut fields = before;
        fields.insert(if list_first { 0 } else { fields.len() }, list);
        fields.extend(after);
        let json = format!("{{{}}}", fields.join(if around.spaced { ", " } else { "," }));
        Body { json, shape: self.shape, truth: self.truth }
    }
}

pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("BUG: a string is JSON")
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}
