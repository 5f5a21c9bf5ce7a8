//! `rejoin resume`: go on with a conversation, from whatever state it is in.

use rejoin::{
    engine::{EngineError, Mode, turn::OnBroken},
    store::{Store, StoreError},
};

use super::{
    report,
    talking::{self, Said, Talking},
};
use crate::{
    args::ResumeArguments,
    desk::{self, Desk, Flags},
    failure::Failure,
    json::Object,
    output,
};

/// Makes a conversation the active one, says what state it is in, and goes on.
pub fn run(arguments: &ResumeArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    // Nothing is touched before it is clear what is to be said.
    let said = match arguments.message.as_deref() {
        Some(message) => Some(talking::said(Some(message))?),
        None => None,
    };
    let given = arguments.id.as_deref().unwrap_or("@");
    let found = (|| {
        let store = desk.read_store()?.ok_or_else(|| unknown(given))?;
        let id = match arguments.id.as_deref() {
            Some(given) => desk.resolve(&*store, given)?,
            None => match desk.active(&*store) {
                Some(id) => id,
                None => desk.resolve(&*store, "@1")?,
            },
        };
        if arguments.strict {
            desk::read(&*store, id, Mode::Strict)?;
        }
        Ok(id)
    })();
    let id = found.map_err(|failure| in_words(given, failure))?;
    let store = talking::open_store(&desk)?;
    let rerun = arguments.on_broken.map(OnBroken::from) == Some(OnBroken::Rerun);
    let prompts = talking::has_terminal() && !arguments.talk.json;
    let opened = if prompts && said.is_none() && !rerun {
        Talking::open_to_prompt(&desk, &store, id, &arguments.talk, "rejoin resume")
    } else if said.is_some() || rerun {
        Talking::open(&desk, &store, id, &arguments.talk, "rejoin resume")
    } else {
        Talking::look(&desk, &store, id, &arguments.talk, "rejoin resume")
    };
    let mut talking = opened.map_err(|failure| in_words(given, failure))?;
    talking.make_active(&desk);
    let state = talking.state();
    if let Some(on_broken) = arguments.on_broken {
        let on_broken = OnBroken::from(on_broken);
        if on_broken != OnBroken::Rerun || state.unanswered > 0 {
            talking.set_on_broken(on_broken)?;
        }
        let problems = if on_broken == OnBroken::Refuse { talking.problems() } else { Vec::new() };
        if !problems.is_empty() {
            for finding in &problems {
                output::talk(&report::line(finding));
            }
            return Err(Failure::Refused { name: id.to_string() });
        }
    }
    let reruns = rerun && state.unanswered > 0;
    if said.is_none() {
        if arguments.talk.json {
            let object = Object::new()
                .text("type", "resumed")
                .text("id", &id.to_string())
                .text("state", state.state.name())
                .number("unanswered_calls", state.unanswered as u64)
                .number("messages", state.messages as u64)
                .number("damaged", state.damaged as u64)
                .text("provider", talking.provider_name())
                .text("model", talking.model_name());
            output::raw_data(&object.finish())?;
        } else {
            output::data(&format!("{} Resumed conversation: {id}", output::paint("✓", output::GOOD)))?;
            if !reruns {
                output::data("  Continue chatting: rejoin chat \"your message\"")?;
            }
        }
    } else {
        output::talk(&format!("{} Resumed conversation: {id}", output::paint("✓", output::GOOD)));
    }
    output::talk(&format!("  {}", talking.provider_line()));
    output::talk(&format!("  {}", state.in_words()));
    match said {
        Some(Said::Text(text)) => talking.say_once(text),
        Some(Said::Prompt) | None if reruns => talking.go_on_once(),
        _ if prompts => {
            if state.unanswered > 0 && arguments.on_broken.is_none() {
                while let Err(failure) = talking.set_on_broken(talking::ask_what_to_do(state.unanswered)?) {
                    failure.say();
                }
            }
            talking.prompt()
        }
        _ => Ok(0),
    }
}

fn unknown(given: &str) -> Failure {
    Failure::Engine(Box::new(EngineError::Unknown(given.to_owned())))
}

/// The words that belong to this command.
fn in_words(given: &str, failure: Failure) -> Failure {
    let damaged = |id: String, message: String| Failure::NotResumed {
        what: format!("Conversation '{id}' has corrupted data"),
        then: message,
    };
    match failure {
        Failure::Engine(error) => match *error {
            EngineError::Unknown(ref id) => Failure::NotResumed {
                what: format!("Conversation '{id}' not found"),
                then: String::from("List available: rejoin list"),
            },
            EngineError::Corrupted { id, .. } => damaged(id.to_string(), error.to_string()),
            EngineError::Empty(id) => damaged(id.to_string(), error.to_string()),
            EngineError::Load(StoreError::Damaged { .. }) => damaged(given.to_owned(), error.to_string()),
            _ => Failure::Engine(error),
        },
        other => other,
    }
}

/// Where a conversation stands, for people.
pub struct Standing {
    pub state: rejoin::store::State,
    /// Calls that have no result and were not decided about.
    pub unanswered: usize,
    pub messages: usize,
    /// How much cannot be read.
    pub damaged: usize,
}

impl Standing {
    /// In one line.
    pub fn in_words(&self) -> String {
        use rejoin::store::State;
        let messages = output::plural(self.messages as u64, "message");
        let rest = match self.damaged {
            0 => String::from("nothing is lost"),
            1 => String::from("1 place of it cannot be read, everything else is used"),
            count => format!("{count} places of it cannot be read, everything else is used"),
        };
        match self.state {
            State::New if self.damaged > 0 => format!("State: nothing that was said can be read; {rest}"),
            State::Ready | State::Waiting if self.damaged > 0 => {
                format!("State: {}, {messages}; {rest}", self.state)
            }
            State::New | State::Damaged => String::from("State: new, nothing was said yet"),
            State::Ready => format!("State: ready, {messages}"),
            State::Waiting => format!("State: waiting for an answer, {messages}"),
            State::Approval => format!("State: a call waits for approval, {messages}"),
            State::Interrupted if self.unanswered > 0 => {
                let calls = output::plural(self.unanswered as u64, "call");
                let has = if self.unanswered == 1 { "has" } else { "have" };
                format!("State: interrupted, {messages}; {calls} {has} no result; {rest}")
            }
            State::Interrupted => format!("State: interrupted, {messages}; {rest}"),
        }
    }
}

/// The state of a conversation in its store.
pub fn state_of(store: Option<&dyn Store>, id: rejoin::ConversationId) -> rejoin::store::State {
    let summary = store.and_then(|store| rejoin::engine::summary(store, id).ok());
    summary.map(|summary| summary.state).unwrap_or_default()
}
