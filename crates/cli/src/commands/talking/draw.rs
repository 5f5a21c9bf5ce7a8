//! Draws a turn: text on standard output and everything else on standard error, or all of it as JSON.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Instant,
};

use rejoin::{
    engine::turn::{Ending, Event, TurnError, TurnOutcome},
    shape,
};

use super::SaveWarning;
use crate::{
    amounts,
    commands::{exchange::shortened, report},
    failure::Failure,
    markdown::Markdown,
    output::{self, harmless, harmless_lines, paint},
};

/// How many characters of arguments and results are shown.
const GLIMPSE: usize = 80;

/// How many findings are shown with an error.
const EXPLANATIONS: usize = 10;

enum Style {
    /// One JSON object per line.
    Json,
    /// Text as it arrives, on a terminal.
    Live,
    /// Text as it arrives, to a pipe or a file: the exact text and nothing else.
    Piped,
}

/// Which text of the model is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedWords {
    /// All of it, as it arrives.
    All,
    /// That of its last message, when the turn has ended.
    Last,
}

/// How many lines of a call's preview are shown.
const PREVIEW_LINES: usize = 200;

/// Draws one turn.
pub struct Drawing {
    style: Style,
    words: PrintedWords,
    /// Formats text as Markdown, on a terminal with styles.
    markdown: Option<Markdown>,
    /// Whether the cursor is in the middle of a line.
    in_line: bool,
    /// Whether text of the model was shown.
    spoke: bool,
    thinking: bool,
    /// The line breaks at the end of the text so far. They wait for more text, because piped output ends with exactly one.
    held_back: String,
    /// Whether the next text belongs to another message.
    new_message: bool,
    broken_pipe: Option<Failure>,
    save_warning: SaveWarning,
    began: Instant,
    /// The model's window, if it is known, and the tokens of the last request and its answer.
    window: Option<u64>,
    used: Option<u64>,
    /// The call whose line was drawn last, with the text of that line.
    calling: Option<(String, String)>,
    /// Whether the output of the running call was shown while it ran.
    streamed: bool,
}

impl Drawing {
    pub fn new(json: bool, save_warning: SaveWarning, words: PrintedWords) -> Self {
        let style = match json {
            true => Style::Json,
            false if io::stdout().is_terminal() => Style::Live,
            false => Style::Piped,
        };
        Self {
            markdown: (matches!(style, Style::Live) && output::can_redraw()).then(Markdown::new),
            style,
            words,
            in_line: false,
            spoke: false,
            thinking: false,
            held_back: String::new(),
            new_message: false,
            broken_pipe: None,
            save_warning,
            began: Instant::now(),
            window: None,
            used: None,
            calling: None,
            streamed: false,
        }
    }

    /// Sets the model's window, for showing how full it is.
    pub fn with_window(self, window: Option<u64>) -> Self {
        Self { window, ..self }
    }

    pub fn event(&mut self, event: &Event) {
        if matches!(self.style, Style::Json) {
            if let Some(line) = shape::event(event) {
                self.print_json(&line);
            }
            return;
        }
        let calling = self.calling.take();
        match event {
            Event::Text(_) if self.words == PrintedWords::Last => {}
            Event::Text(text) => {
                self.thought();
                if matches!(self.style, Style::Piped) {
                    self.pipe(text);
                } else if !text.is_empty() {
                    self.live(text);
                }
            }
            Event::Answered { usage, .. } => {
                self.new_message = true;
                self.used =
                    usage.as_ref().map(|usage| usage.input.saturating_add(usage.output)).or(self.used);
            }
            Event::Reasoning(text) if matches!(self.style, Style::Live) => {
                self.end_line();
                self.thinking = true;
                output::prompt(&paint(&harmless_lines(text), output::DIM));
            }
            Event::CallStarted { id, name, arguments } => {
                let call = format!("{} {}", harmless(name), shortened(arguments, GLIMPSE));
                if output::can_replace_lines() {
                    let call = output::fitting(&call, 2);
                    self.talk(&paint(&format!("→ {call}"), output::DIM));
                    self.calling = Some((id.clone(), call));
                } else {
                    self.talk(&paint(&format!("→ {call}"), output::DIM));
                }
            }
            Event::ApprovalWanted(request) => {
                self.talk(&format!("{} {}", paint("?", output::STRONG), harmless(&request.why)));
                self.preview(&request.preview);
            }
            Event::WaitingForServers { names } => {
                let names = harmless(&names.join(", "));
                self.talk(&paint(&format!("waiting for MCP servers to start: {names}"), output::DIM));
            }
            Event::Warning(text) => {
                self.talk(&format!("{} {}", paint("warning:", output::WARNING), harmless(text)));
            }
            Event::CallOutput { text, .. } if io::stderr().is_terminal() => {
                self.thought();
                self.end_line();
                self.streamed = true;
                output::prompt(&paint(&harmless_lines(text), output::DIM));
            }
            Event::CallEnded { id, name, output, is_error, message, .. } => {
                let mark = if *is_error { "✗" } else { "←" };
                // Output that was already shown is not shown again, except for its last line.
                let result = match std::mem::take(&mut self.streamed) {
                    true => shortened(output.trim_end().lines().last().unwrap_or_default(), GLIMPSE),
                    false => shortened(output, GLIMPSE),
                };
                let number = message.filter(|_| io::stderr().is_terminal());
                let number = number.map_or_else(String::new, |number| format!("[{number}] "));
                let line = match calling.filter(|(calling, _)| calling == id) {
                    // Draw the call and its result on one line.
                    Some((_, call)) => {
                        output::erase_line_above();
                        let call = output::fitting(&call, output::terminal_size().0 / 2);
                        output::fitting(&format!("{mark} {number}{call}: {result}"), 0)
                    }
                    None => {
                        let line = format!("{mark} {number}{} {result}", harmless(name));
                        if output::can_replace_lines() { output::fitting(&line, 0) } else { line }
                    }
                };
                self.talk(&paint(&line, output::DIM));
            }
            Event::Damaged(findings) => {
                for finding in findings.iter().take(EXPLANATIONS) {
                    self.talk(&format!("{} {}", paint("warning:", output::WARNING), report::line(finding)));
                }
                self.note(
                    "a copy of the damage is kept; everything else is used (`rejoin check @` lists it)",
                );
            }
            Event::Mended(findings) => {
                let problems = findings.iter().filter(|finding| finding.is_problem()).count();
                let problems = output::plural(problems, "problem");
                self.note(&format!(
                    "the history had {problems} that a provider would refuse; the model sees it repaired, and the record \
                     is unchanged (`rejoin check @` lists them)"
                ));
            }
            Event::Closed { interrupted, left_out, rerun } => {
                for (count, what) in [
                    (*interrupted, "shown to the model as interrupted"),
                    (*left_out, "left out, because it never ran or because you chose so"),
                    (*rerun, "run again"),
                ] {
                    if count > 0 {
                        let calls = output::plural(count, "call");
                        self.note(&format!("{calls} without a result: {what}"));
                    }
                }
            }
            Event::Retrying { attempt, wait, why } => {
                let seconds = wait.as_secs_f32();
                self.note(&format!("{}; trying again in {seconds:.1} s (attempt {attempt})", harmless(why)));
            }
            Event::Pruned { results, tokens } => {
                let results = output::plural(*results, "old result");
                self.note(&format!(
                    "{results} left out of the window ({tokens} tokens); the record keeps them"
                ));
            }
            Event::Compacting { tokens, window } => {
                let share = tokens.saturating_mul(100).checked_div(*window).filter(|share| *share <= 1000);
                let share = share.map(|share| format!(" ({tokens} tokens, {share}% of the window)"));
                self.note(&format!("Compacting conversation history...{}", share.unwrap_or_default()));
            }
            Event::Compacted { before, after } => {
                self.note(&format!(
                    "messages compacted from {before} to {after} tokens; the record keeps every word"
                ));
            }
            Event::NotSaved(_) | Event::Saved if self.save_warning == SaveWarning::AtTheEnd => {}
            Event::NotSaved(warning) => {
                let warning = harmless(warning);
                self.talk(&format!("{} {warning}", paint("warning:", output::WARNING)));
                self.talk("  The conversation continues in memory and is saved as soon as possible.");
            }
            Event::Saved => self.note("everything is saved now"),
            Event::Ended { ending, usage, cost } => {
                if *ending == Ending::Interrupted {
                    self.note("stopped; everything so far is recorded");
                }
                if io::stderr().is_terminal() {
                    let line = amounts::turn(self.began.elapsed(), usage, *cost, self.used, self.window);
                    self.talk(&paint(&line, output::DIM));
                }
            }
            _ => {}
        }
    }

    /// Shows the preview of a call: a diff in colours, any other text unchanged.
    fn preview(&mut self, preview: &str) {
        let lines: Vec<&str> = preview.lines().collect();
        for line in lines.iter().take(PREVIEW_LINES) {
            self.talk(&format!("  {}", output::diff_line(line)));
        }
        if lines.len() > PREVIEW_LINES {
            self.talk(&format!("  … and {}", output::plural(lines.len() - PREVIEW_LINES, "more line")));
        }
    }

    /// Shows the part of the reply that was not shown yet.
    pub fn reply(&mut self, turned: &TurnOutcome) {
        match self.style {
            Style::Json => {}
            Style::Live => {
                self.end_line();
                if !self.spoke && !turned.response.is_empty() {
                    self.live(&turned.response);
                    self.end_line();
                }
            }
            Style::Piped => {
                if !self.spoke {
                    self.pipe(&turned.response);
                }
                self.end_pipe();
            }
        }
    }

    /// Shows text on a terminal.
    fn live(&mut self, text: &str) {
        let shown = match &mut self.markdown {
            Some(markdown) => markdown.push(text),
            None => harmless_lines(text),
        };
        self.print(&shown);
        self.in_line = self.markdown.is_some() || !text.ends_with('\n');
        self.spoke = true;
    }

    /// Passes text on to a pipe. Text between tool calls is a separate message, so a blank line separates it.
    fn pipe(&mut self, text: &str) {
        let words = text.trim_end_matches('\n');
        if words.is_empty() {
            self.held_back.push_str(text);
            return;
        }
        let parted = std::mem::take(&mut self.new_message) && self.spoke;
        let before = std::mem::take(&mut self.held_back);
        let before = if parted { "\n\n" } else { &before };
        self.print(&format!("{before}{words}"));
        self.held_back.push_str(&text[words.len()..]);
        self.spoke = true;
    }

    fn end_pipe(&mut self) {
        self.held_back.clear();
        if std::mem::take(&mut self.spoke) {
            self.print("\n");
        }
    }

    /// Shows why the turn failed.
    pub fn failed(&mut self, error: &TurnError) {
        self.end_line();
        if matches!(self.style, Style::Piped) {
            self.end_pipe();
        }
        let findings = error.findings();
        if matches!(self.style, Style::Json) {
            self.print_json(&shape::turn_error(error));
            return;
        }
        if !findings.is_empty() {
            self.talk("Findings in the conversation that may explain it:");
        }
        for finding in findings.iter().take(EXPLANATIONS) {
            self.talk(&format!("  {}", report::line(finding)));
        }
        if findings.len() > EXPLANATIONS {
            self.talk(&format!("  and {} more: `rejoin check @` lists them", findings.len() - EXPLANATIONS));
        }
    }

    /// Fails if some output could not be printed.
    pub fn finish(self) -> Result<(), Failure> {
        self.broken_pipe.map_or(Ok(()), Err)
    }

    fn thought(&mut self) {
        if std::mem::take(&mut self.thinking) {
            output::talk("");
        }
    }

    fn note(&mut self, text: &str) {
        self.talk(&format!("{} {text}", paint("note:", output::NOTE)));
    }

    fn talk(&mut self, line: &str) {
        self.thought();
        self.end_line();
        output::talk(line);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.in_line) {
            let end = self.markdown.as_mut().map_or_else(|| String::from("\n"), Markdown::finish);
            self.print(&end);
        }
    }

    fn print_json(&mut self, line: &str) {
        if self.broken_pipe.is_none() {
            self.broken_pipe = output::json_data(line).err();
        }
    }

    fn print(&mut self, text: &str) {
        if self.broken_pipe.is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            self.broken_pipe = Some(output::closed_or(&error));
        }
    }
}
