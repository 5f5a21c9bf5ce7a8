//! `rejoin resume`: continues a conversation from any state.

use rejoin::{
    OnBroken,
    engine::{EngineError, Mode, turn::TurnInput},
    places::quoted,
    resume::{OpenCall, Resumption},
    store::{SessionState, StoreError},
};

use super::{
    exchange, report,
    talking::{self, GivenMessage, OpenConversation, OpenPurpose},
};
use crate::{
    args::ResumeArguments,
    context::{self, CliContext, Flags},
    failure::Failure,
    output, picker,
};

/// Makes a conversation the active one, shows its state, and continues it.
pub fn run(arguments: &ResumeArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    // Find out first what to send, before anything is touched.
    let (named, message) = arguments.given();
    let said = message.map(|message| talking::message_to_send(Some(message), &arguments.talk)).transpose()?;
    let given = named.unwrap_or("@");
    let prompts = talking::has_terminal() && !arguments.talk.json;
    let found = (|| {
        let store = cli.read_store()?.ok_or_else(|| unknown(given))?;
        let id = match named {
            Some(given) => cli.resolve(&*store, given)?,
            // In a store without conversations, report the error of `@1`.
            None if prompts && said.is_none() && cli.resolve(&*store, "@1").is_ok() => {
                match picker::pick(&cli, &*store)? {
                    Some(id) => id,
                    None => return Ok(None),
                }
            }
            None => match cli.active(&*store)? {
                Some(id) => id,
                None => cli.resolve(&*store, "@1")?,
            },
        };
        if arguments.strict {
            context::read(&*store, id, Mode::Strict)?;
        }
        Ok(Some(id))
    })();
    let Some(id) = found.map_err(|failure| in_words(given, failure))? else { return Ok(0) };
    let store = talking::open_store(&cli)?;
    let decided = arguments.on_broken;
    let (rerun, drops) = (decided == Some(OnBroken::Rerun), decided == Some(OnBroken::Drop));
    let purpose = match said.is_some() || rerun {
        true => OpenPurpose::Say,
        false if prompts => OpenPurpose::Prompt,
        false => OpenPurpose::Look,
    };
    let mut talking = OpenConversation::open(&cli, &store, id, &arguments.talk, ("rejoin resume", purpose))
        .map_err(|failure| in_words(given, failure))?;
    talking.make_active(&cli);
    let state = talking.state();
    if let Some(on_broken) = decided {
        if on_broken != OnBroken::Rerun || state.unanswered > 0 {
            talking.set_on_broken(on_broken)?;
        }
        let problems = if on_broken == OnBroken::Refuse { talking.worker.problems() } else { Vec::new() };
        if !problems.is_empty() {
            for finding in &problems {
                output::talk(&report::line(finding));
            }
            return Err(Failure::refused(id));
        }
    }
    let reruns = rerun && state.unanswered > 0;
    let calls = &state.calls;
    if said.is_none() {
        if arguments.talk.json {
            output::json_data(&state.to_json(talking.endpoint()))?;
        } else {
            output::data(&format!("{} Resumed conversation: {id}", output::paint("✓", output::GOOD)))?;
            if !reruns {
                output::data("  Continue chatting: rejoin chat \"your message\"")?;
            }
        }
    } else {
        output::done(format!("Resumed conversation: {id}"));
    }
    output::talk(&format!("  {}", talking.provider_line()));
    output::talk(&format!("  {}", in_words_of(&state)));
    if said.is_none() && !reruns && !arguments.talk.json {
        show_last_exchange(&mut talking);
        if !calls.is_empty() && !prompts && arguments.on_broken.is_none() {
            print_call_options(calls, &id.to_string(), talking.elsewhere.as_deref());
        }
    }
    match said {
        Some(GivenMessage::Text(text)) => talking.once(text.into()),
        Some(GivenMessage::Prompt) | None if reruns => talking.once(TurnInput::GoOn),
        _ if prompts => {
            ask_before_the_prompt(&mut talking, &state, decided)?;
            talking.prompt()
        }
        _ if drops && state.unanswered > 0 => talking.leave_out_unanswered().map(|()| 0),
        _ => Ok(0),
    }
}

/// Decides about calls without a result before the first prompt: by the flag, or else by the user's answer.
fn decide_at_the_prompt(
    talking: &mut OpenConversation,
    calls: &[OpenCall],
    decided: Option<OnBroken>,
) -> Result<(), Failure> {
    let on_broken = match decided {
        Some(on_broken) => on_broken,
        None => loop {
            let answer = talking::ask_what_to_do(calls)?;
            match talking.set_on_broken(answer) {
                Ok(()) => break answer,
                Err(failure) => failure.say(),
            }
        },
    };
    // If another process is writing to it right now, the next turn records the decision.
    if on_broken == OnBroken::Drop
        && talking.reclaim_now()
        && let Err(failure) = talking.leave_out_unanswered()
    {
        failure.say();
    }
    Ok(())
}

/// Shows the state of the conversation that the prompt has switched to, and asks about calls without a result.
pub fn greet(talking: &mut OpenConversation) -> Result<(), Failure> {
    let state = talking.state();
    output::done(format!("Resumed conversation: {}", talking.worker.conversation().id()));
    output::talk(&format!("  {}", talking.provider_line()));
    output::talk(&format!("  {}", in_words_of(&state)));
    show_last_exchange(talking);
    ask_before_the_prompt(talking, &state, None)
}

/// Before the first prompt, repeats a question about approval that is still open, or asks what to do with unanswered calls.
fn ask_before_the_prompt(
    talking: &mut OpenConversation,
    state: &Resumption,
    decided: Option<OnBroken>,
) -> Result<(), Failure> {
    if state.state == SessionState::WaitingForApproval && decided.is_none() {
        // Ask the question again that was open when the last process ended.
        talking.go_on_first = true;
    } else if !state.calls.is_empty() {
        decide_at_the_prompt(talking, &state.calls, decided)?;
    }
    Ok(())
}

/// Shows the last exchange, to remind users where they were.
pub fn show_last_exchange(talking: &mut OpenConversation) {
    let said = exchange::last(talking.worker.text_messages());
    if !said.is_empty() {
        output::talk("  Last exchange:");
    }
    for (who, text) in said {
        for (number, line) in exchange::excerpt(&text).iter().enumerate() {
            let who = if number == 0 { format!("{who}:") } else { String::new() };
            output::talk(output::paint(&format!("    {who:<7}{line}"), output::DIM).trim_end());
        }
    }
}

/// Lists the calls without a result, and the commands that decide about them, if the user cannot be asked.
fn print_call_options(calls: &[OpenCall], id: &str, elsewhere: Option<&str>) {
    output::talk("  Calls without a result:");
    for line in exchange::listed(calls) {
        output::talk(&format!("    {line}"));
    }
    output::talk("  With your next message the model is told that they were interrupted. Instead you can");
    let folder_is_there = elsewhere.is_none_or(|folder| std::path::Path::new(folder).is_dir());
    // Offer only what works here: a call runs in its own folder, with a tool that rejoin has.
    if calls.iter().all(|call| call.can_run) && folder_is_there {
        let there = elsewhere.map_or_else(String::new, |folder| format!("cd {} && ", quoted(folder)));
        let there = output::harmless(&there);
        output::advice(&format!("    run them again: {there}rejoin resume {id} --on-broken rerun"));
    }
    output::advice(&format!("    leave them out: rejoin resume {id} --on-broken drop \"your message\""));
}

fn unknown(given: &str) -> Failure {
    Failure::Engine(Box::new(EngineError::Unknown(given.to_owned())))
}

/// Suggests to send an unknown title of several words as a message.
fn or_as_message(given: &str) -> String {
    if given.trim().contains(char::is_whitespace) {
        format!("\n  To say it in the active conversation: rejoin chat {}", quoted(given))
    } else {
        String::new()
    }
}

/// Rewords errors for this command.
fn in_words(given: &str, failure: Failure) -> Failure {
    let damaged = |id: String, message: String| Failure::NotResumed {
        what: format!("Conversation '{id}' has corrupted data"),
        then: message,
    };
    match failure {
        Failure::Engine(error) => match *error {
            EngineError::Unknown(ref id) => Failure::NotResumed {
                what: format!("Conversation '{id}' not found"),
                then: format!("List available: rejoin list{}", or_as_message(id)),
            },
            EngineError::Corrupted { id, .. } => damaged(id.to_string(), error.to_string()),
            EngineError::Empty(id) => damaged(id.to_string(), error.to_string()),
            EngineError::Load(StoreError::Damaged { .. }) => damaged(given.to_owned(), error.to_string()),
            _ => Failure::Engine(error),
        },
        other => other,
    }
}

/// The state of a conversation, in one line.
fn in_words_of(found: &Resumption) -> String {
    let messages = output::plural(found.messages, "message");
    let rest = match found.damaged {
        0 => String::from("nothing is lost"),
        count => format!("{} cannot be read, everything else is used", output::plural(count, "part")),
    };
    match found.state {
        SessionState::Empty if found.damaged > 0 => {
            format!("State: no message can be read; {rest}")
        }
        SessionState::Complete | SessionState::WaitingForModel if found.damaged > 0 => {
            format!("State: {}, {messages}; {rest}", found.state.word())
        }
        SessionState::Empty | SessionState::Damaged => String::from("State: new, no messages yet"),
        SessionState::Complete => format!("State: ready, {messages}"),
        SessionState::WaitingForModel => format!("State: waiting for an answer, {messages}"),
        SessionState::WaitingForApproval => format!("State: a call waits for approval, {messages}"),
        SessionState::WaitingForTools | SessionState::Interrupted if found.unanswered > 0 => {
            let calls = output::plural(found.unanswered, "call");
            let has = output::agreeing(found.unanswered as u64, "has", "have");
            format!("State: interrupted, {messages}; {calls} {has} no result; {rest}")
        }
        SessionState::WaitingForTools | SessionState::Interrupted => {
            format!("State: interrupted, {messages}; {rest}")
        }
    }
}
