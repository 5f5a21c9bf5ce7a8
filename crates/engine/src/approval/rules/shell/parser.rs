//! The grammar of command lines: separators, groups, `if`, loops, redirections.
//!
//! Open groups are kept on a stack, so their depth needs no recursion; substitutions recurse, up to `MAX_DEPTH`. Everything after a
//! separator counts as a command, even where the shell would report a syntax error: a shell runs the lines before the error.

use super::{
    CommandLine, Doubt, MAX_DEPTH, MAX_LENGTH, SimpleCommand, Word, is_deceptive,
    word::{ends_word, is_name},
};

/// Splits a command line into simple commands and doubts.
pub(in super::super) fn parse(line: &str) -> CommandLine {
    let mut found = CommandLine::default();
    if line.len() > MAX_LENGTH {
        found.doubts.push(Doubt::TooLong);
        return found;
    }
    found.doubts.extend(line.chars().find(|c| is_deceptive(*c)).map(Doubt::InvisibleCharacter));
    Parser::new(line, 0, &mut found).script(ScriptEnd::AtEnd);
    if found.commands.is_empty() && found.doubts.is_empty() {
        found.doubts.push(Doubt::Empty);
    }
    found
}

/// A position in a command line, and what was found so far.
pub(super) struct Parser<'f> {
    chars: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    found: &'f mut CommandLine,
    /// Here-documents whose text begins after the next newline.
    pending: Vec<HereDocument>,
}

struct HereDocument {
    delimiter: String,
    strips_tabs: bool,
}

/// Where a script ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptEnd {
    /// At the end of the text.
    AtEnd,
    /// At the parenthesis that closes a substitution.
    AtParenthesis,
}

/// A group or compound command that is still open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Parenthesis,
    Brace,
    IfCondition,
    IfBody,
    ElseBody,
    /// After the words of `for`: only `do` may follow.
    ForHead,
    LoopCondition,
    LoopBody,
}

/// The part of a command that may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// A command, or a word of the grammar.
    Start,
    /// Further words and redirections of the command that began.
    InCommand,
    /// Only a redirection or a separator.
    AfterGroup,
}

/// The state of one script: the command line itself or the inside of a substitution.
struct Script {
    stack: Vec<Frame>,
    position: Position,
    command: SimpleCommand,
}

impl<'f> Parser<'f> {
    fn new(text: &str, depth: usize, found: &'f mut CommandLine) -> Self {
        Self { chars: text.chars().collect(), at: 0, depth, found, pending: Vec::new() }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    pub(super) fn doubt(&mut self, doubt: Doubt) {
        // Eight are enough for a person to judge the line.
        if self.found.doubts.len() < 8 {
            self.found.doubts.push(doubt);
        }
    }

    /// Counts one level of nesting. Beyond the limit the parser gives up the rest of the text and records a doubt.
    pub(super) fn enter(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            // Pushed directly, past the cap on doubts: without this one the line could look fully parsed.
            self.found.doubts.push(Doubt::TooDeep);
            self.at = self.chars.len();
            return false;
        }
        self.depth += 1;
        true
    }

    /// Parses the inside of `$(…)`, after the opening parenthesis.
    pub(super) fn substitution(&mut self) {
        if self.enter() {
            self.script(ScriptEnd::AtParenthesis);
            self.depth -= 1;
        }
    }

    /// Parses the text of a script that was quoted.
    pub(super) fn nested(&mut self, text: &str) {
        if self.enter() {
            Parser::new(text, self.depth, self.found).script(ScriptEnd::AtEnd);
            self.depth -= 1;
        }
    }

    fn script(&mut self, ends: ScriptEnd) {
        let mut script = Script::new();
        loop {
            self.blanks();
            let Some(c) = self.peek() else { break };
            match c {
                '#' => self.comment(),
                '\n' => {
                    self.at += 1;
                    self.here_documents(&mut script);
                    self.end_command(&mut script);
                }
                ';' => {
                    self.at += 1;
                    if matches!(self.peek(), Some(';' | '&')) {
                        self.at += 1;
                        self.doubt(Doubt::Unexpected(";;".to_owned()));
                    }
                    self.separate(&mut script, ";");
                }
                '&' if self.eat("&>") => {
                    self.doubt(Doubt::AmpersandRedirection);
                    // In bash the command continues after the target; in dash a new command begins. Reading it as dash finds more
                    // commands.
                    self.end_command(&mut script);
                    let _ = self.eat(">");
                    self.redirection_target(&mut script);
                }
                '&' => {
                    self.at += 1;
                    let _ = self.eat("&");
                    self.separate(&mut script, "&");
                }
                '|' => {
                    self.at += 1;
                    let _ = self.eat("|") || self.eat("&");
                    self.separate(&mut script, "|");
                }
                '(' => self.open(&mut script),
                ')' => {
                    self.at += 1;
                    if self.close(&mut script, ends) {
                        return;
                    }
                }
                '<' | '>' => self.redirection(&mut script),
                _ => self.command_word(&mut script),
            }
        }
        self.end_command(&mut script);
        if !script.stack.is_empty() || ends == ScriptEnd::AtParenthesis {
            self.doubt(Doubt::Unfinished("a group, condition or loop"));
        }
    }

    /// Skips blanks and line continuations between words.
    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) || self.continues() {
            self.at += if self.continues() { 2 } else { 1 };
        }
    }

    fn continues(&self) -> bool {
        self.peek() == Some('\\') && self.chars.get(self.at + 1) == Some(&'\n') && {
            let before = self.at.checked_sub(1).map(|at| self.chars[at]);
            matches!(before, None | Some(' ' | '\t' | '\n'))
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn separate(&mut self, script: &mut Script, separator: &str) {
        if script.position == Position::Start {
            self.doubt(Doubt::Unexpected(separator.to_owned()));
        }
        self.end_command(script);
    }

    fn open(&mut self, script: &mut Script) {
        self.at += 1;
        if script.position == Position::Start {
            if self.peek() == Some('(') {
                self.doubt(Doubt::Arithmetic);
            }
        } else {
            self.doubt(Doubt::Function);
            self.end_command(script);
        }
        self.push(script, Frame::Parenthesis);
    }

    /// Handles a closing parenthesis. Returns true at the end of the substitution.
    fn close(&mut self, script: &mut Script, ends: ScriptEnd) -> bool {
        self.end_command(script);
        match script.stack.last() {
            Some(Frame::Parenthesis) => {
                script.stack.pop();
                script.position = Position::AfterGroup;
            }
            None if ends == ScriptEnd::AtParenthesis => return true,
            _ => self.doubt(Doubt::Unexpected(")".to_owned())),
        }
        false
    }

    fn push(&mut self, script: &mut Script, frame: Frame) {
        if script.stack.len() >= MAX_DEPTH {
            self.found.doubts.push(Doubt::TooDeep);
            self.at = self.chars.len();
        }
        script.stack.push(frame);
        script.position = Position::Start;
    }

    fn command_word(&mut self, script: &mut Script) {
        let word = self.word();
        let number = !word.quoted && !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
        if number && matches!(self.peek(), Some('<' | '>')) {
            // dash takes only a single digit for a descriptor; more are an argument.
            if word.text.len() > 1 {
                self.doubt(Doubt::Redirection(word.text));
            }
            return self.redirection(script);
        }
        if script.position == Position::AfterGroup {
            self.doubt(if word.text == "{" { Doubt::Function } else { Doubt::Unexpected(word.text.clone()) });
            script.position = Position::Start;
        }
        if script.position == Position::Start && !word.quoted && self.keyword(script, &word.text) {
            return;
        }
        script.position = Position::InCommand;
        script.command.words.push(word);
    }

    /// Handles a reserved word. Returns false if the word is an ordinary one.
    fn keyword(&mut self, script: &mut Script, word: &str) -> bool {
        match word {
            "if" => self.push(script, Frame::IfCondition),
            "while" | "until" => self.push(script, Frame::LoopCondition),
            "{" => self.push(script, Frame::Brace),
            "for" => self.for_head(script),
            "!" => {}
            "then" => self.turn(script, word, &[Frame::IfCondition], Some(Frame::IfBody)),
            "elif" => self.turn(script, word, &[Frame::IfBody], Some(Frame::IfCondition)),
            "else" => self.turn(script, word, &[Frame::IfBody], Some(Frame::ElseBody)),
            "do" => self.turn(script, word, &[Frame::LoopCondition, Frame::ForHead], Some(Frame::LoopBody)),
            "fi" => self.turn(script, word, &[Frame::IfBody, Frame::ElseBody], None),
            "done" => self.turn(script, word, &[Frame::LoopBody], None),
            "}" => self.turn(script, word, &[Frame::Brace], None),
            "function" => {
                self.doubt(Doubt::Function);
                self.blanks();
                if self.peek().is_some_and(|c| !ends_word(c)) {
                    self.word();
                }
            }
            "time" | "coproc" => self.doubt(Doubt::Keyword(word.to_owned())),
            "case" | "esac" | "select" | "[[" | "]]" => {
                self.doubt(Doubt::Keyword(word.to_owned()));
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Replaces the innermost open construct with its next part, or closes it. If it is not an expected one, records a doubt.
    fn turn(&mut self, script: &mut Script, word: &str, expected: &[Frame], next: Option<Frame>) {
        match script.stack.pop_if(|frame| expected.contains(frame)) {
            Some(_) => {
                script.stack.extend(next);
                script.position = if next.is_some() { Position::Start } else { Position::AfterGroup };
            }
            None => self.doubt(Doubt::Unexpected(word.to_owned())),
        }
    }

    /// After `for`: the variable and the words, up to the separator before `do`.
    fn for_head(&mut self, script: &mut Script) {
        self.push(script, Frame::ForHead);
        self.blanks();
        if self.peek().is_none_or(ends_word) {
            return self.doubt(Doubt::Unexpected("for".to_owned()));
        }
        let name = self.word();
        // A loop sets its variable for every command in it: `for PATH in …` must not pass. No program reads a variable whose
        // name is one small letter.
        if name.quoted || name.text.len() != 1 || !name.text.chars().all(|c| c.is_ascii_lowercase()) {
            let known = is_name(&name.text);
            self.doubt(if known { Doubt::Assignment(name.text) } else { Doubt::Unexpected(name.text) });
        }
        self.blanks();
        if self.peek().is_some_and(|c| !ends_word(c)) {
            let word = self.word();
            if word.text != "in" || word.quoted {
                self.doubt(Doubt::Unexpected(word.text));
            }
        }
        loop {
            self.blanks();
            match self.peek() {
                Some('#') => self.comment(),
                Some(c) if !ends_word(c) => drop(self.word()),
                Some(';' | '\n') => {
                    self.at += 1;
                    return;
                }
                _ => return self.doubt(Doubt::Unexpected("for".to_owned())),
            }
        }
    }

    fn redirection(&mut self, script: &mut Script) {
        if self.eat("<(") || self.eat(">(") {
            self.doubt(Doubt::ProcessSubstitution);
            script.position = Position::InCommand;
            script.command.words.push(Word { expands: true, ..Word::default() });
            return self.substitution();
        }
        if self.eat("<<<") {
            self.doubt(Doubt::HereDocument);
            self.blanks();
            let word = self.word();
            script.command.input.push(word.text);
            return;
        }
        if self.eat("<<") {
            self.doubt(Doubt::HereDocument);
            let strips_tabs = self.eat("-");
            self.blanks();
            let delimiter = self.word().text;
            self.pending.push(HereDocument { delimiter, strips_tabs });
            return;
        }
        if self.eat(">&") || self.eat("<&") {
            self.blanks();
            let target = self.word();
            if target.quoted || !matches!(target.text.as_str(), "0" | "1" | "2" | "-") {
                self.doubt(Doubt::Redirection(target.text));
            }
            return self.redirected(script);
        }
        let _ = self.eat(">>") || self.eat(">|") || self.eat("<>") || self.eat(">") || self.eat("<");
        self.redirection_target(script);
    }

    fn redirection_target(&mut self, script: &mut Script) {
        self.blanks();
        if self.peek().is_none_or(ends_word) {
            self.doubt(Doubt::Unexpected(">".to_owned()));
            return;
        }
        let target = self.word();
        if target.expands || target.text != "/dev/null" {
            self.doubt(Doubt::Redirection(target.text));
        }
        self.redirected(script);
    }

    /// After a redirection a word is no longer one of the grammar.
    fn redirected(&mut self, script: &mut Script) {
        if script.position == Position::Start {
            script.position = Position::InCommand;
        }
    }

    /// Reads the here-documents that begin on this line, for the deny rules.
    fn here_documents(&mut self, script: &mut Script) {
        for document in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            while self.peek().is_some() {
                let mut line = String::new();
                while let Some(c) = self.next().filter(|c| *c != '\n') {
                    line.push(c);
                }
                let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == document.delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            if self.enter() {
                // Substitutions in it run, unless the delimiter was quoted.
                let unquoted = text.replace('"', " ");
                Parser::new(&unquoted, self.depth, self.found).double_quoted(&mut Word::default());
                self.depth -= 1;
            }
            script.command.input.push(text);
        }
    }

    fn end_command(&mut self, script: &mut Script) {
        let mut command = std::mem::take(&mut script.command);
        script.position = Position::Start;
        command.assignments = command.words.iter().take_while(|word| word.assigns).count();
        let Some(first) = command.words.first() else { return };
        match command.words.get(command.assignments) {
            None => self.doubt(Doubt::Assignment(first.text.clone())),
            Some(name) if name.expands || name.text.is_empty() => {
                self.doubt(Doubt::NameExpands(name.text.clone()));
            }
            Some(_) => {}
        }
        if script.stack.last() == Some(&Frame::ForHead) {
            self.doubt(Doubt::Unexpected(first.text.clone()));
        }
        self.found.commands.push(command);
    }
}

impl Script {
    fn new() -> Self {
        Self { stack: Vec::new(), position: Position::Start, command: SimpleCommand::default() }
    }
}
