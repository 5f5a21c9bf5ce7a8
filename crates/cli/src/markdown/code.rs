//! Colours code. The tables of languages are loaded for the first block with a known language.

use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, ScopeStack, SyntaxSet};

use super::wrap::StyledSpan;
use crate::output;

/// The longest line that is coloured, in bytes: a hostile line could take long.
pub const LONGEST_LINE: usize = 1000;

/// How many lines of a block are coloured. The rest is shown plain.
const MOST_LINES: usize = 20_000;

static LANGUAGES: OnceLock<SyntaxSet> = OnceLock::new();

/// The colours, by the beginning of a scope's name. The first match for the innermost scope counts.
const COLOURS: &[(&str, Style)] = &[
    ("comment", output::DIM),
    ("string", AnsiColor::Green.on_default()),
    ("constant.character.escape", AnsiColor::Cyan.on_default()),
    ("constant", AnsiColor::Magenta.on_default()),
    ("keyword.operator", Style::new()),
    ("keyword", AnsiColor::Blue.on_default()),
    ("storage", AnsiColor::Blue.on_default()),
    ("entity.name.function", AnsiColor::Yellow.on_default()),
    ("entity.name.tag", AnsiColor::Blue.on_default()),
    ("entity.name", AnsiColor::Cyan.on_default()),
    ("support.function", AnsiColor::Yellow.on_default()),
    ("support", AnsiColor::Cyan.on_default()),
    ("variable.language", AnsiColor::Blue.on_default()),
    ("markup.inserted", output::ADDED),
    ("markup.deleted", output::REMOVED),
    ("meta.diff.range", output::NOTE),
];

/// Colours one block, line after line.
pub struct Highlighter {
    state: Option<(ParseState, ScopeStack)>,
    lines: usize,
}

impl Highlighter {
    /// A highlighter for the language in a fence. An unknown language gets no colours.
    pub fn new(language: &str) -> Self {
        let name = language.split([' ', ',', '{', ':']).next().unwrap_or_default();
        let name = match name {
            "" | "text" | "txt" | "plain" | "console" | "output" => "",
            "shell" | "zsh" | "sh-session" => "bash",
            "typescript" | "ts" | "tsx" | "jsx" | "javascript" => "js",
            "c++" => "cpp",
            "jsonc" | "json5" | "jsonl" => "json",
            "patch" => "diff",
            "golang" => "go",
            name => name,
        };
        if name.is_empty() || name.len() > 32 {
            return Self { state: None, lines: 0 };
        }
        let languages = LANGUAGES.get_or_init(SyntaxSet::load_defaults_newlines);
        let state =
            languages.find_syntax_by_token(name).map(|syntax| (ParseState::new(syntax), ScopeStack::new()));
        Self { state, lines: 0 }
    }

    /// Colours a line. Lines must be passed in order.
    pub fn line(&mut self, line: &str) -> Vec<StyledSpan> {
        self.lines += 1;
        if line.len() > LONGEST_LINE || self.lines > MOST_LINES {
            self.state = None;
        }
        let (Some((state, stack)), Some(languages)) = (&mut self.state, LANGUAGES.get()) else {
            return vec![StyledSpan::plain(line)];
        };
        let Ok(changes) = state.parse_line(&format!("{line}\n"), languages) else {
            self.state = None;
            return vec![StyledSpan::plain(line)];
        };
        let (mut spans, mut from) = (Vec::new(), 0);
        for (at, change) in changes {
            let at = at.min(line.len());
            if let Some(text) = line.get(from..at).filter(|text| !text.is_empty()) {
                spans.push(StyledSpan::new(style(stack), text));
            }
            from = at;
            if stack.apply(&change).is_err() {
                self.state = None;
                return vec![StyledSpan::plain(line)];
            }
        }
        if let Some(text) = line.get(from..).filter(|text| !text.is_empty()) {
            spans.push(StyledSpan::new(style(stack), text));
        }
        spans
    }
}

fn style(stack: &ScopeStack) -> Style {
    for scope in stack.as_slice().iter().rev() {
        let name = scope.build_string();
        if let Some((_, style)) = COLOURS.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            return *style;
        }
    }
    Style::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_languages_have_colours_and_no_text_is_lost() {
        for (language, line) in [
            ("rust", "fn main() { println!(\"hé {}\", 1); } // done"),
            ("python", "def f(x): return 'ü' # no"),
            ("ts", "const x: string = `a`;"),
            ("json", "{\"a\": [1, true]}"),
            ("bash", "for f in *; do echo \"$f\"; done"),
            ("diff", "+added"),
        ] {
            let spans = Highlighter::new(language).line(line);
            let text: String = spans.iter().map(|span| span.text.as_str()).collect();
            assert_eq!(text, line);
            assert!(spans.len() > 1 || spans[0].style != Style::new(), "{language}: {spans:?}");
        }
        for (language, line) in [("", "fn x()"), ("no-such", "fn x()"), ("rust", &*"x(".repeat(1000))] {
            assert_eq!(Highlighter::new(language).line(line), [StyledSpan::plain(line)]);
        }
    }
}
