//! Long conversations for benchmarks: varied in words, lengths, escapes and scripts, and the same in every run.
//!
//! Repetitive text flatters its reader: branches are predicted, and everything is in the cache. So every message here is different:
//! prose, code, logs and JSON, short and long, some with letters beyond ASCII, some with `\u` escapes as Python's `json` writes
//! them. No code under test is used.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// An OpenAI Chat body with this many messages, of 1.4 KB on average: user messages, calls with JSON arguments, results, answers.
/// In a broken one, every tenth result is missing and every tenth turn has a result that belongs to no call.
#[must_use]
pub fn chat_body(messages: usize, broken: bool) -> String {
    let mut varied = Varied::default();
    let mut out =
        String::from(r#"{"model":"gpt-5","messages":[{"role":"system","content":"You work on files."}"#);
    let (mut count, mut turn) = (1, 0);
    let mut results: Vec<Value> = Vec::new();
    while count < messages {
        let message = match results.pop() {
            Some(result) => result,
            None => {
                turn += 1;
                let (message, answers) = varied.turn(turn);
                results = answers;
                if broken && turn % 10 == 0 {
                    results.pop();
                }
                if broken && turn % 10 == 5 {
                    let text = varied.output();
                    results.push(
                        json!({"role": "tool", "tool_call_id": format!("gone_{turn}"), "content": text}),
                    );
                }
                message
            }
        };
        out.push(',');
        varied.write(&mut out, &message);
        count += 1;
    }
    out.push_str("]}");
    out
}

/// A Codex rollout of at least this many bytes, most of them in what tools printed: turns with reasoning, calls and outputs, and
/// the events that Codex writes between them.
#[must_use]
pub fn rollout(bytes: usize) -> String {
    let mut varied = Varied::default();
    let mut out = String::with_capacity(bytes + 65_536);
    let meta = json!({
        "id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": "2026-11-15T12:00:00.000Z", "cwd": "/w",
        "originator": "codex_exec", "cli_version": "0.166.0",
    });
    varied.line(&mut out, "session_meta", &meta);
    let mut turn = 0;
    while out.len() < bytes {
        turn += 1;
        if turn % 20 == 1 {
            let said = varied.prose();
            let content = json!([{"type": "input_text", "text": said}]);
            varied.line(
                &mut out,
                "response_item",
                &json!({"type": "message", "role": "user", "content": content}),
            );
            varied.line(&mut out, "event_msg", &json!({"type": "user_message", "message": said}));
        }
        let summary = json!([{"type": "summary_text", "text": varied.prose()}]);
        let sealed = varied.letters(900);
        let reasoning = json!({
            "type": "reasoning", "id": format!("rs_{turn}"), "summary": summary, "content": null,
            "encrypted_content": sealed,
        });
        varied.line(&mut out, "response_item", &reasoning);
        let arguments = varied.arguments().to_string();
        let id = format!("call_{turn}");
        let call =
            json!({"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": id});
        varied.line(&mut out, "response_item", &call);
        let usage =
            json!({"input_tokens": turn * 97, "output_tokens": turn % 1000, "total_tokens": turn * 101});
        let count = json!({"type": "token_count", "info": {"total_token_usage": usage, "model_context_window": 258_400}});
        varied.line(&mut out, "event_msg", &count);
        let mut output = varied.output();
        while output.len() < 3_000 {
            output.push_str(&varied.output());
        }
        let result = json!({"type": "function_call_output", "call_id": id, "output": output});
        varied.line(&mut out, "response_item", &result);
    }
    out
}

const WORDS: &[&str] = &[
    "the",
    "a",
    "of",
    "to",
    "in",
    "file",
    "function",
    "returns",
    "because",
    "when",
    "error",
    "value",
    "list",
    "message",
    "should",
    "please",
    "look",
    "at",
    "change",
    "test",
    "fails",
    "with",
    "not",
    "found",
    "where",
    "is",
    "request",
    "provider",
    "session",
    "it's",
    "don't",
    "src/lib.rs",
    "and",
    "or",
    "then",
    "result",
    "about",
    "there",
    "which",
    "project",
    "compiler",
    "configuration",
    "implementation",
    "n",
];

const OTHER_WORDS: &[&str] = &[
    "naïve",
    "größer",
    "déjà",
    "файл",
    "ошибка",
    "関数",
    "错误",
    "🙂",
    "→",
    "\"quoted\"",
    "C:\\temp",
    "</b>",
];

const SEPARATORS: &[&str] =
    &[" ", " ", " ", " ", " ", " ", " ", " ", " ", " ", " ", " ", ", ", ". ", ".\n", "\n\n"];

/// A source of texts. Each differs from those before it.
struct Varied {
    seed: u64,
}

impl Default for Varied {
    fn default() -> Self {
        Self { seed: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Varied {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as usize % limit
    }

    /// A length around `usual`: mostly shorter, now and then several times as long.
    fn length(&mut self, usual: usize) -> usize {
        match self.below(10) {
            0 => usual * 3 + self.below(usual * 3),
            1..=3 => usual / 8 + self.below(usual / 4 + 1),
            _ => usual / 4 + self.below(usual),
        }
    }

    fn letters(&mut self, count: usize) -> String {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        (0..count).map(|_| char::from(LETTERS[self.below(LETTERS.len())])).collect()
    }

    fn word(&mut self) -> String {
        match self.below(8) {
            0 => {
                let length = 2 + self.below(12);
                self.letters(length)
            }
            1 => self.below(100_000).to_string(),
            2 if self.below(3) == 0 => String::from(OTHER_WORDS[self.below(OTHER_WORDS.len())]),
            _ => String::from(WORDS[self.below(WORDS.len())]),
        }
    }

    fn prose(&mut self) -> String {
        let length = self.length(1_020);
        let mut out = String::with_capacity(length + 32);
        while out.len() < length {
            out.push_str(&self.word());
            out.push_str(SEPARATORS[self.below(SEPARATORS.len())]);
        }
        out
    }

    fn code(&mut self) -> String {
        let length = self.length(800);
        let mut out = String::with_capacity(length + 64);
        let tabs = self.below(4) == 0;
        while out.len() < length {
            out.push_str(
                if tabs { "\t\t\t" } else { "            " }.get(..self.below(4)).unwrap_or_default(),
            );
            let (name, other, third, number) = (self.word(), self.word(), self.word(), self.below(1000));
            let _ = match self.below(10) {
                0 => writeln!(
                    out,
                    "let {name}_{number} = {other}.get(\"{third}\")?; // {name} {other} {number}"
                ),
                1 => writeln!(out, "if {name}.{other} == {number} && {third}.is_some() {{"),
                2 => writeln!(out, "println!(\"{{{name}}}: {other} {third} ({number})\");"),
                3 => writeln!(out, "}}"),
                4 => writeln!(out, "    return {name}({other}, '{number}', {third}::default());"),
                5..=7 => writeln!(out, "// {name} {other} {third} {number} {name}, {third}."),
                _ => {
                    writeln!(out, "pub fn {name}_{number}({other}: &str) -> Result<{third}, {name}Error> {{")
                }
            };
        }
        out
    }

    /// The arguments of a call.
    fn arguments(&mut self) -> Value {
        let path = format!("src/{}/{}.rs", self.letters(5), self.letters(8));
        match self.below(6) {
            0 | 1 => json!({"path": path}),
            2 | 3 => {
                json!({"command": ["bash", "-lc", self.prose()], "timeout_ms": self.below(60_000), "workdir": "/w"})
            }
            4 => {
                json!({"path": path, "edits": [{"old": self.code(), "new": self.code(), "line": self.below(900)}]})
            }
            _ => json!({"path": path, "text": self.code(), "overwrite": self.below(2) == 0}),
        }
    }

    /// The output of a tool: code, a log, a listing, JSON.
    fn output(&mut self) -> String {
        match self.below(12) {
            0 => {
                let rows = 1 + self.length(12);
                let row = |varied: &mut Self| {
                    let (name, about) = (varied.letters(9), varied.word() + " " + &varied.word());
                    json!({"name": name, "line": varied.below(2_000), "about": about})
                };
                let rows: Vec<Value> = (0..rows).map(|_| row(self)).collect();
                Value::from(rows).to_string()
            }
            1 | 2 => {
                let lines = 1 + self.length(16);
                let line = |at: usize, varied: &mut Self| {
                    format!("{at:>5}\t{} {}\n", varied.word(), varied.letters(30))
                };
                (0..lines).map(|at| line(at, self)).collect()
            }
            3..=6 => self.prose(),
            _ => self.code(),
        }
    }

    /// One message, and the results of its calls, last one first.
    fn turn(&mut self, turn: usize) -> (Value, Vec<Value>) {
        match self.below(4) {
            0 => (json!({"role": "user", "content": self.prose()}), Vec::new()),
            1 => {
                let parts =
                    json!([{"type": "text", "text": self.prose()}, {"type": "text", "text": self.code()}]);
                (json!({"role": "user", "content": parts}), Vec::new())
            }
            2 => (json!({"role": "assistant", "content": self.prose()}), Vec::new()),
            _ => {
                let mut calls = Vec::new();
                let mut results = Vec::new();
                for number in 0..1 + self.below(3) {
                    let id = format!("call_{turn}_{number}_{}", self.letters(12));
                    let name = ["edit_file", "shell", "read_file", "search"][self.below(4)];
                    let function = json!({"name": name, "arguments": self.arguments().to_string()});
                    calls.push(json!({"id": id, "type": "function", "function": function}));
                    results.push(json!({"role": "tool", "tool_call_id": id, "content": self.output()}));
                }
                results.reverse();
                let content = if self.below(2) == 0 { Value::Null } else { Value::from(self.prose()) };
                (json!({"role": "assistant", "content": content, "tool_calls": calls}), results)
            }
        }
    }

    fn line(&mut self, out: &mut String, kind: &str, payload: &Value) {
        let _ = write!(out, r#"{{"timestamp":"2026-11-15T12:00:00.000Z","type":"{kind}","payload":"#);
        self.write(out, payload);
        out.push_str("}\n");
    }

    /// Writes a value, one in twelve times with everything beyond ASCII escaped.
    fn write(&mut self, out: &mut String, value: &Value) {
        let json = value.to_string();
        if self.below(12) != 0 {
            return out.push_str(&json);
        }
        for c in json.chars() {
            if c.is_ascii() {
                out.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_with_so_many_messages_of_the_promised_size() {
        for broken in [false, true] {
            let body = chat_body(2_000, broken);
            let value: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(value["messages"].as_array().unwrap().len(), 2_000);
            assert!((1_200..1_600).contains(&(body.len() / 2_000)), "{}", body.len() / 2_000);
            assert_eq!(body, chat_body(2_000, broken), "every run is the same");
            // In sessions of real agents 1.4 to 5.3 % of the bytes are backslashes, in half of them less than 3.1 %.
            let escapes = body.bytes().filter(|byte| *byte == b'\\').count() * 1000 / body.len();
            assert!((25..45).contains(&escapes), "{escapes} of 1,000 bytes are backslashes");
        }
    }

    #[test]
    fn a_rollout_is_lines_of_json_and_mostly_output() {
        let text = rollout(1_000_000);
        let mut output = 0;
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            output += value["payload"]["output"].as_str().map_or(0, str::len);
        }
        assert!(output * 2 > text.len(), "{output} of {}", text.len());
    }
}
