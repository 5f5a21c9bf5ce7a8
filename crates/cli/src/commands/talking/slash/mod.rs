//! The commands of the prompt: /commands, and commands of the system after `!`.
//!
//! `table.rs` lists the commands. Most of them run the command of `rejoin` that does the same; `here.rs` has those that need the
//! prompt, `switching.rs` those that switch to another conversation or branch.
//!
//! Every command is recorded with its result, even if it fails, and no model sees it. Text that looks like a key is not recorded.

mod prompt_commands;
mod switching;
pub mod table;

use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use rejoin::{
    ConversationId, EngineError,
    engine::turn::{Stop, TurnInput},
    record::{Content, Text, content::Command},
};

use self::table::{Execution, Line, RecordedResult, SlashCommand, TypedText};
use super::{OpenConversation, point};
use crate::{
    answering::{self, off_the_runtime},
    args::{CommandLine, Flags},
    commands,
    failure::Failure,
    output,
};

/// How many characters of a result are recorded.
const RESULT_CHARS: usize = 40_000;

/// The outcome of a line at the prompt.
pub enum LineOutcome {
    /// The line was handled.
    Done,
    /// The user leaves the prompt.
    Leave,
    /// A turn begins.
    Turn(TurnInput),
}

/// The outcome of a command.
pub(super) struct Outcome {
    /// The recorded result, if it differs from the output of the command.
    result: Option<String>,
    /// Whether the command reported that it failed.
    failed: bool,
    then: NextStep,
}

/// What happens after a command.
enum NextStep {
    Stay,
    Leave,
    /// The prompt switches to another conversation.
    Switch(Box<OpenConversation>),
}

impl Outcome {
    fn done() -> Self {
        Self { result: None, failed: false, then: NextStep::Stay }
    }

    fn with(result: impl Into<String>) -> Self {
        Self { result: Some(result.into()), ..Self::done() }
    }
}

impl OpenConversation {
    /// Decides what a line means, and handles it unless it is a message.
    pub(super) async fn understand(&mut self, line: &str, stop: &Stop) -> Result<LineOutcome, Failure> {
        if line.trim().is_empty() {
            return Ok(if self.unfinished { LineOutcome::Turn(TurnInput::GoOn) } else { LineOutcome::Done });
        }
        // A pasted text may have several lines; it is not run as a command.
        if let Some(command) = line.trim().strip_prefix('!').filter(|command| !command.contains('\n')) {
            return self.run_by_hand(command, stop).await.map(|()| LineOutcome::Done);
        }
        match table::understand(line) {
            Line::Message(text) => Ok(LineOutcome::Turn(self.message(text))),
            Line::Unknown(name, near) => {
                let name = output::harmless(name);
                let near = if near.is_empty() { String::new() } else { format!(" Did you mean {near}?") };
                output::talk(&format!("There is no command /{name}.{near}"));
                output::talk("/help lists the commands. To send the line as a message, begin it with \\.");
                Ok(LineOutcome::Done)
            }
            Line::Command(command, rest) => self.obey(command, rest, line.trim(), stop).await,
        }
    }

    /// Runs a command and records it.
    async fn obey(
        &mut self,
        command: &'static SlashCommand,
        rest: &str,
        typed: &str,
        stop: &Stop,
    ) -> Result<LineOutcome, Failure> {
        output::start_copy();
        let done = match command.runs {
            Execution::Rejoin(words, takes) => self.run_as(command, words, takes, rest),
            Execution::Prompt(command) => self.run_at_prompt(command, rest, stop).await,
        };
        let done = done.map_err(in_words_of_the_prompt);
        if let Err(failure) = &done {
            failure.say();
        }
        let printed = output::take_copy();
        let outcome = match done {
            Err(failure @ Failure::ClosedPipe) => return Err(failure),
            Err(failure) => Outcome { failed: true, ..Outcome::with(failure.to_string()) },
            Ok(outcome) => outcome,
        };
        let result = match (outcome.result, command.keeps) {
            (Some(result), _) => result,
            (None, RecordedResult::Output) => printed,
            (None, RecordedResult::Count) => {
                format!("{} shown", output::plural(printed.lines().count(), "line"))
            }
            (None, RecordedResult::Nothing) => String::new(),
        };
        let leaves = matches!(outcome.then, NextStep::Switch(_));
        self.keep_command(
            typed,
            &result,
            outcome.failed,
            command.keeps != RecordedResult::Nothing && !leaves,
        );
        match outcome.then {
            NextStep::Stay => Ok(LineOutcome::Done),
            NextStep::Leave => Ok(LineOutcome::Leave),
            NextStep::Switch(mut next) => {
                if !self.has_begun() {
                    // The lines typed at this prompt so far are recorded in the conversation that it switches to.
                    next.unkept = std::mem::take(&mut self.unkept);
                }
                if let Err(failure) = self.settle() {
                    failure.say();
                }
                *self = *next;
                // Ask the question again that was open when the last process ended.
                let goes_on = std::mem::take(&mut self.go_on_first);
                Ok(if goes_on { LineOutcome::Turn(TurnInput::GoOn) } else { LineOutcome::Done })
            }
        }
    }

    /// Runs a command as the command line would: with the same parser and the same function.
    fn run_as(
        &mut self,
        command: &SlashCommand,
        words: &[&str],
        takes: TypedText,
        rest: &str,
    ) -> Result<Outcome, Failure> {
        let id = if words.contains(&table::ID) { Some(self.stored_id()?) } else { None };
        let id = id.map(|id| id.to_string()).unwrap_or_default();
        let mut line = vec![String::from("rejoin")];
        line.extend(
            words.iter().map(|word| if *word == table::ID { id.clone() } else { (*word).to_owned() }),
        );
        match takes {
            TypedText::Words if rest.is_empty() && command.needs_arguments() => {
                return Err(usage(command, None));
            }
            TypedText::FileOr(_) if !rest.is_empty() && !rest.starts_with('-') => {
                line.push(String::from("--output"));
                line.extend(table::words(rest));
            }
            TypedText::Text if rest.is_empty() => return Err(usage(command, None)),
            TypedText::Text => line.push(rest.to_owned()),
            TypedText::WordsOr(usual) | TypedText::FileOr(usual) if rest.is_empty() => {
                line.extend(usual.iter().map(|word| (*word).to_owned()))
            }
            TypedText::Words | TypedText::WordsOr(_) | TypedText::FileOr(_) => {
                line.extend(table::words(rest))
            }
        }
        let matches = CommandLine::command().try_get_matches_from(&line);
        let arguments = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
            Ok(arguments) => arguments,
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                output::data(error.render().to_string().trim_end())?;
                return Ok(Outcome::done());
            }
            Err(error) => return Err(usage(command, Some(&error))),
        };
        // Each of these commands takes the conversation's lock, and writes to the store of this prompt.
        self.worker.release();
        let scope = Some(self.cli.scope.clone()).filter(|scope| !scope.is_open());
        let flags = Flags { store: Some(self.cli.location.clone()), scope, no_pager: true, color: None };
        let (done, printed) = off_the_runtime(|| {
            output::start_copy();
            let done = commands::run(CommandLine { flags, ..arguments });
            (done, output::take_copy())
        });
        output::copy(printed.trim_end());
        // The user has already seen what it added to this conversation.
        let _ = self.worker.reclaim();
        // The exit code of `check` reports its verdict; that of every other command reports a failure.
        let failed = done? != 0 && words.first() != Some(&"check");
        Ok(Outcome { failed, ..Outcome::done() })
    }

    /// The id of the conversation, if some of its entries are stored.
    fn stored_id(&self) -> Result<ConversationId, Failure> {
        let conversation = self.worker.conversation();
        match conversation.tail() {
            Some(_) => Ok(conversation.id()),
            None => Err(Failure::usage("this conversation has no messages yet", "say something first")),
        }
    }

    /// Records a command and its result.
    ///
    /// A conversation without messages begins with its first command, so that `/models list` and `exit` can be looked up later. It
    /// becomes the active one, so the next prompt continues it, and such conversations do not pile up. Help, clearing the screen
    /// and leaving begin no conversation: they are recorded only together with something else.
    pub(super) fn keep_command(&mut self, command: &str, result: &str, failed: bool, begins: bool) {
        if !self.keeps_commands {
            return;
        }
        let command = answering::without_secrets(&self.cli, &output::harmless_message(command));
        let result = answering::without_secrets(&self.cli, &output::harmless_lines(result.trim_end()));
        let output = match result.char_indices().nth(RESULT_CHARS) {
            None => result,
            Some((end, _)) => format!("{}… ({} characters in all)", &result[..end], result.chars().count()),
        };
        self.unkept.push(Command { command: Text::from(command), output: Text::from(output), failed });
        let has_begun = self.worker.conversation().tail().is_some();
        // If another process is answering, do not wait for it: this command is recorded with the next one.
        if (begins || has_begun) && self.reclaim_now() {
            self.keep_unkept();
        }
    }

    /// Records the commands that are not recorded yet. The caller holds the conversation's lock, or the conversation is new.
    pub(super) fn keep_unkept(&mut self) {
        for command in std::mem::take(&mut self.unkept) {
            let (line, length) = (command.command.clone(), command.output.chars().count());
            self.worker.conversation_mut().append(&Content::Command(command));
            tracing::debug!("Persisted special command: {line}, result_length={length}");
        }
        let conversation = self.worker.conversation();
        if conversation.tail().is_some() && conversation.saved().is_durable() {
            point(&mut self.pointer, conversation.id());
        }
    }
}

/// An error whose hint names a command of the prompt, if there is one.
fn in_words_of_the_prompt(failure: Failure) -> Failure {
    let Failure::Engine(error) = &failure else { return failure };
    let hint = match **error {
        EngineError::NoSuchMessage(_) => "/history numbers the messages",
        EngineError::Unknown(_) => "/resume lists the conversations",
        _ => return failure,
    };
    Failure::failed(error.to_string(), hint)
}

/// The usage of a command, and the error in it.
fn usage(command: &SlashCommand, error: Option<&clap::Error>) -> Failure {
    let how = format!("/{} {}", command.name, command.arguments);
    let said = error.filter(|error| error.kind() != ErrorKind::MissingRequiredArgument);
    let said = said.map(|error| error.render().to_string());
    let first =
        said.as_deref().and_then(|said| said.lines().next()).map(|line| line.trim_start_matches("error: "));
    let what =
        first.map_or_else(|| format!("/{} needs {}", command.name, command.arguments), output::harmless);
    Failure::usage(what, format!("{} {}: {}", "usage:", how.trim_end(), command.about))
}
