//! What can be said at the prompt besides a message: /commands, and commands of the system after `!`.
//!
//! `table.rs` lists the commands. Most of them are run as the command of `rejoin` that does the same; `here.rs` has those that
//! need the prompt, `switching.rs` those that go on elsewhere: in another conversation or on another branch.
//!
//! Every command is recorded with its result, also if it fails, and no model sees it. What looks like a key is not recorded.

mod here;
mod switching;
pub mod table;

use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use rejoin::{
    ConversationId, EngineError,
    engine::turn::{Stop, TurnInput},
    record::{Content, Text, content::Command},
};

use self::table::{Keeps, Line, Rest, Runs, SlashCommand};
use super::{Talking, point};
use crate::{
    answering::{self, off_the_runtime},
    args::{CommandLine, Flags},
    commands,
    failure::Failure,
    output,
};

/// The most characters of a result that are recorded.
const RESULT_CHARS: usize = 40_000;

/// What a line at the prompt comes to.
pub enum LineOutcome {
    /// It is dealt with.
    Done,
    /// The prompt ends.
    Leave,
    /// A turn begins.
    Turn(TurnInput),
}

/// The end of a command.
pub(super) struct Outcome {
    /// What is recorded as its result, if it is not what the command printed.
    result: Option<String>,
    /// Whether it says itself that it failed.
    failed: bool,
    then: Then,
}

/// What happens after a command.
enum Then {
    Stay,
    Leave,
    /// The prompt goes on in another conversation.
    Switch(Box<Talking>),
}

impl Outcome {
    fn done() -> Self {
        Self { result: None, failed: false, then: Then::Stay }
    }

    fn with(result: impl Into<String>) -> Self {
        Self { result: Some(result.into()), ..Self::done() }
    }
}

impl Talking {
    /// Decides what a line means, and does it if it is no message.
    pub(super) async fn understand(&mut self, line: &str, stop: &Stop) -> Result<LineOutcome, Failure> {
        if line.trim().is_empty() {
            return Ok(if self.unfinished { LineOutcome::Turn(TurnInput::GoOn) } else { LineOutcome::Done });
        }
        // What was pasted may have several lines. It is not run.
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
            Runs::As(words, takes) => self.run_as(command, words, takes, rest),
            Runs::Here(here) => self.run_here(here, rest, stop).await,
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
            (None, Keeps::Output) => printed,
            (None, Keeps::Count) => format!("{} shown", output::plural(printed.lines().count(), "line")),
            (None, Keeps::Nothing) => String::new(),
        };
        let leaves = matches!(outcome.then, Then::Switch(_));
        self.keep_command(typed, &result, outcome.failed, command.keeps != Keeps::Nothing && !leaves);
        match outcome.then {
            Then::Stay => Ok(LineOutcome::Done),
            Then::Leave => Ok(LineOutcome::Leave),
            Then::Switch(mut next) => {
                if !self.has_begun() {
                    // What was typed at this prompt so far belongs to the conversation that goes on.
                    next.unkept = std::mem::take(&mut self.unkept);
                }
                if let Err(failure) = self.settle() {
                    failure.say();
                }
                *self = *next;
                // The question that was open when its last process ended is asked again at once.
                let goes_on = std::mem::take(&mut self.go_on_first);
                Ok(if goes_on { LineOutcome::Turn(TurnInput::GoOn) } else { LineOutcome::Done })
            }
        }
    }

    /// Runs a command as the command line would: with the same parser, and by the same function.
    fn run_as(
        &mut self,
        command: &SlashCommand,
        words: &[&str],
        takes: Rest,
        rest: &str,
    ) -> Result<Outcome, Failure> {
        let id = if words.contains(&table::ID) { Some(self.stored_id()?) } else { None };
        let id = id.map(|id| id.to_string()).unwrap_or_default();
        let mut line = vec![String::from("rejoin")];
        line.extend(
            words.iter().map(|word| if *word == table::ID { id.clone() } else { (*word).to_owned() }),
        );
        match takes {
            Rest::Words if rest.is_empty() && command.needs_arguments() => {
                return Err(usage(command, None));
            }
            Rest::FileOr(_) if !rest.is_empty() && !rest.starts_with('-') => {
                line.push(String::from("--output"));
                line.extend(table::words(rest));
            }
            Rest::Text if rest.is_empty() => return Err(usage(command, None)),
            Rest::Text => line.push(rest.to_owned()),
            Rest::WordsOr(usual) | Rest::FileOr(usual) if rest.is_empty() => {
                line.extend(usual.iter().map(|word| (*word).to_owned()))
            }
            Rest::Words | Rest::WordsOr(_) | Rest::FileOr(_) => line.extend(table::words(rest)),
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
        // Each of them takes the conversation's lock, and writes to the store of this prompt.
        self.worker.release();
        let scope = Some(self.desk.scope.clone()).filter(|scope| !scope.is_open());
        let flags = Flags { store: Some(self.desk.location.clone()), scope, no_pager: true, color: None };
        let (done, printed) = off_the_runtime(|| {
            output::start_copy();
            let done = commands::run(CommandLine { flags, ..arguments });
            (done, output::take_copy())
        });
        output::copy(printed.trim_end());
        // What it added to this conversation was seen.
        let _ = self.worker.reclaim();
        // `check` tells by its code what it found; every other command, that it failed.
        let failed = done? != 0 && words.first() != Some(&"check");
        Ok(Outcome { failed, ..Outcome::done() })
    }

    /// The id of the conversation, if something of it is stored.
    fn stored_id(&self) -> Result<ConversationId, Failure> {
        let conversation = self.worker.conversation();
        match conversation.tail() {
            Some(_) => Ok(conversation.id()),
            None => Err(Failure::usage("nothing was said in this conversation yet", "say something first")),
        }
    }

    /// Records a command and its result.
    ///
    /// A conversation in which nothing was said yet begins with its first command, so that `/models list` and `exit` can be looked
    /// up later. It is the active one, so the next prompt goes on in it, and they do not pile up. Help, a cleared screen and
    /// leaving begin no conversation: they are recorded once something else is.
    pub(super) fn keep_command(&mut self, command: &str, result: &str, failed: bool, begins: bool) {
        if !self.keeps_commands {
            return;
        }
        let command = answering::without_secrets(&self.desk, &output::harmless_message(command));
        let result = answering::without_secrets(&self.desk, &output::harmless_lines(result.trim_end()));
        let output = match result.char_indices().nth(RESULT_CHARS) {
            None => result,
            Some((end, _)) => format!("{}… ({} characters in all)", &result[..end], result.chars().count()),
        };
        self.unkept.push(Command { command: Text::from(command), output: Text::from(output), failed });
        let has_begun = self.worker.conversation().tail().is_some();
        // While another process is answering, a command is not worth waiting for: it is recorded with the next one.
        if (begins || has_begun) && self.reclaim_now() {
            self.keep_unkept();
        }
    }

    /// Records the commands that are not recorded yet. The conversation's lock is held, or it is new.
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

/// An error whose hint names a command of the prompt, where there is one.
fn in_words_of_the_prompt(failure: Failure) -> Failure {
    let Failure::Engine(error) = &failure else { return failure };
    let hint = match **error {
        EngineError::NoSuchMessage(_) => "/history numbers the messages",
        EngineError::Unknown(_) => "/resume lists the conversations",
        _ => return failure,
    };
    Failure::failed(error.to_string(), hint)
}

/// How a command is used, and what was wrong.
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
