//! Reads one word of a command line: quotes, escapes and expansions.
//!
//! Values of expansions are unknown, so they add a doubt and no text. Commands inside substitutions are parsed for the deny rules.

use super::{Doubt, parser::Parser};

/// A word after quote removal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in super::super) struct Word {
    /// The characters, without quotes; expansions leave nothing.
    pub text: String,
    /// Whether the shell replaces it by file names or a home folder, so that `text` is not what the command gets.
    pub expands: bool,
    /// Whether part of it was quoted or escaped. Such a word is never a reserved word.
    pub quoted: bool,
    /// Whether it has the form `NAME=…` of an assignment.
    pub assigns: bool,
}

/// Characters that end a word.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

/// Whether a text is a name that a shell accepts for a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Parser<'_> {
    /// Reads the word at the current position, where the caller has found the beginning of one.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        let (mut bracket, mut brace, mut bang) = (false, false, false);
        while let Some(c) = self.peek() {
            if ends_word(c) {
                break;
            }
            self.at += 1;
            match c {
                '\\' => {
                    word.quoted = true;
                    match self.next() {
                        Some('\n') => self.doubt(Doubt::Continuation),
                        Some(c) => word.text.push(c),
                        None => self.doubt(Doubt::Unfinished("an escape (`\\`)")),
                    }
                }
                '\'' => self.single_quoted(&mut word),
                '"' => self.double_quoted(&mut word),
                '`' => self.backquoted(),
                '$' => self.dollar(&mut word, Quotes::None),
                '*' | '?' => {
                    word.expands = true;
                    word.text.push(c);
                }
                '~' => {
                    word.expands |= word.text.is_empty() || word.text.ends_with(['=', ':']);
                    word.text.push(c);
                }
                '=' => {
                    word.assigns |=
                        !word.quoted && is_name(word.text.strip_suffix('+').unwrap_or(&word.text));
                    word.text.push(c);
                }
                _ => {
                    bracket |= c == '[';
                    brace |= matches!(c, '{' | '}');
                    bang |= c == '!' && self.recalls_history();
                    word.text.push(c);
                }
            }
        }
        word.expands |= bracket && word.text != "[" && word.text != "[[";
        if brace && !matches!(word.text.as_str(), "{}" | "{" | "}") {
            self.doubt(Doubt::Brace);
        }
        if bang {
            self.doubt(Doubt::History);
        }
        word
    }

    /// Whether the `!` before the current position could be a reference to an earlier command.
    fn recalls_history(&self) -> bool {
        !matches!(self.peek(), None | Some(' ' | '\t' | '\n' | '=' | '"'))
    }

    fn single_quoted(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.next() {
                Some('\'') => return,
                Some(c) => word.text.push(c),
                None => return self.doubt(Doubt::Unfinished("a quote (`'`)")),
            }
        }
    }

    pub(super) fn double_quoted(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.next() {
                Some('"') => return,
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                    Some(c) => word.text.extend(['\\', c]),
                    None => return self.doubt(Doubt::Unfinished("a quote (`\"`)")),
                },
                Some('`') => self.backquoted(),
                Some('$') => self.dollar(word, Quotes::Double),
                Some(c) => {
                    if c == '!' && self.recalls_history() {
                        self.doubt(Doubt::History);
                    }
                    word.text.push(c);
                }
                None => return self.doubt(Doubt::Unfinished("a quote (`\"`)")),
            }
        }
    }

    /// After the opening backquote. The text inside is another script, with one level of escapes removed.
    fn backquoted(&mut self) {
        self.doubt(Doubt::Substitution);
        let mut script = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('$' | '`' | '\\')) => script.push(c),
                    Some(c) => script.extend(['\\', c]),
                    None => break,
                },
                Some(c) => script.push(c),
                None => {
                    self.doubt(Doubt::Unfinished("a backquote"));
                    break;
                }
            }
        }
        self.nested(&script);
    }

    /// After a `$`.
    fn dollar(&mut self, word: &mut Word, quotes: Quotes) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let arithmetic = self.peek() == Some('(');
                self.doubt(if arithmetic { Doubt::Arithmetic } else { Doubt::Substitution });
                self.substitution();
            }
            Some('{') => {
                self.at += 1;
                self.parameter();
            }
            Some('\'') if matches!(quotes, Quotes::None) => {
                self.doubt(Doubt::DollarQuote);
                self.at += 1;
                self.ansi_quoted(word);
            }
            Some('"') if matches!(quotes, Quotes::None) => self.doubt(Doubt::DollarQuote),
            Some('[') => {
                self.doubt(Doubt::Arithmetic);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::from("$");
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                    self.at += 1;
                }
                self.doubt(Doubt::Variable(name));
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 1;
                self.doubt(Doubt::Variable(format!("${c}")));
            }
            // A backslash could hide a name behind a line continuation.
            Some('\\') => {
                self.doubt(Doubt::Variable("$".to_owned()));
                word.text.push('$');
            }
            _ => word.text.push('$'),
        }
    }

    /// After `${`, up to the matching brace.
    fn parameter(&mut self) {
        let mut name = String::from("${");
        let mut ignored = Word::default();
        loop {
            match self.next() {
                Some('}') => break,
                Some('\\') => self.at += 1,
                Some('\'') => self.single_quoted(&mut ignored),
                Some('"') if self.enter() => {
                    self.double_quoted(&mut ignored);
                    self.depth -= 1;
                }
                Some('`') => self.backquoted(),
                Some('$') if self.enter() => {
                    self.dollar(&mut ignored, Quotes::None);
                    self.depth -= 1;
                }
                Some(c) => name.push(c),
                None => {
                    self.doubt(Doubt::Unfinished("`${`"));
                    break;
                }
            }
        }
        self.doubt(Doubt::Variable(name + "}"));
    }

    /// After `$'`, decoded as bash does.
    fn ansi_quoted(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.next() {
                Some('\'') => return,
                Some('\\') => {
                    if let Some(c) = self.next() {
                        let decoded = self.ansi_escape(c);
                        word.text.extend(decoded);
                    }
                }
                Some(c) => word.text.push(c),
                None => return self.doubt(Doubt::Unfinished("a quote (`$'`)")),
            }
        }
    }

    fn ansi_escape(&mut self, c: char) -> Option<char> {
        let (digits, radix) = match c {
            'n' => return Some('\n'),
            't' => return Some('\t'),
            'x' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='7' => {
                self.at -= 1;
                (3, 8)
            }
            _ => return Some(c),
        };
        let mut value = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        char::from_u32(value)
    }
}

/// The quotes around a `$`.
#[derive(Clone, Copy)]
enum Quotes {
    None,
    Double,
}
