//! Switches to a new, another or a forked conversation, to an earlier message, or to another branch.

use std::sync::Arc;

use rejoin::{
    changes::{UndoMode, undo_since},
    history::{self, Shown, ShownContent, branches},
    store::{Query, SessionState, Store},
};

use super::{
    NextStep, Outcome,
    table::{self},
};
use crate::{
    args::Talk,
    commands::{
        exchange, history as stored, resume,
        talking::{self, OpenConversation, OpenPurpose},
        undo,
    },
    context,
    failure::Failure,
    output::{self, harmless, local_time, paint, plural},
    picker,
};

/// How many conversations /resume lists.
const LISTED: usize = 10;

/// How many characters of a message a list shows.
const GLIMPSE: usize = 60;

impl OpenConversation {
    pub(super) fn begin_new(&mut self) -> Result<Outcome, Failure> {
        if !self.has_begun() {
            output::talk("This conversation is still empty.");
            return Ok(Outcome::done());
        }
        let endpoint = self.endpoint();
        // Keep the current provider.
        let talk = Talk {
            provider: self.chosen.provider.clone().or_else(|| Some(endpoint.provider.clone())),
            model: self.chosen.model.clone().or_else(|| Some(endpoint.model.clone())),
            ..self.chosen.clone()
        };
        let next = Self::begin(&self.cli, self.store.as_ref(), &talk)?;
        let id = next.worker.conversation().id();
        output::talk(&format!(
            "A new conversation begins. Back: /resume {}",
            self.worker.conversation().id()
        ));
        Ok(self.switch_to(next, &format!("went on in {id}")))
    }

    pub(super) fn resume_other(&mut self, rest: &str) -> Result<Outcome, Failure> {
        let store = self.a_store()?;
        let id = match rest {
            "" if output::can_replace_lines() => match picker::pick(&self.cli, &*store)? {
                Some(id) => id,
                None => return Ok(Outcome::done()),
            },
            "" => return list(&*store),
            typed => self.cli.resolve(&*store, typed)?,
        };
        if id == self.worker.conversation().id() {
            output::talk("You are in this conversation.");
            return Ok(Outcome::done());
        }
        // Choices made with /model or /provider apply only to this conversation.
        let opened = Self::open(&self.cli, &store, id, &self.talk, ("rejoin chat", OpenPurpose::Prompt))?;
        let outcome = self.switch_to(opened, &format!("went on in {id}"));
        if let NextStep::Switch(mut next) = outcome.then {
            resume::greet(&mut next)?;
            return Ok(Outcome { then: NextStep::Switch(next), ..outcome });
        }
        Ok(outcome)
    }

    pub(super) fn fork(&mut self, rest: &str) -> Result<Outcome, Failure> {
        let at = if rest.is_empty() { None } else { Some(number(rest, "/fork [N]")?) };
        let id = self.stored_id()?;
        let store = self.a_store()?;
        self.worker.release();
        let new = stored::fork_at(&self.cli, &*store, id, at)?;
        let next = Self::open(&self.cli, &store, new, &self.chosen, ("rejoin chat", OpenPurpose::Prompt))?;
        output::talk(&format!("This is {new}, a fork of {id}. Back to the original: /resume {id}"));
        Ok(self.switch_to(next, &format!("forked to {new}")))
    }

    /// Switches this prompt to another conversation, which becomes the active one.
    fn switch_to(&mut self, mut next: Self, result: &str) -> Outcome {
        if let Err(failure) = next.take_terminal(Arc::clone(&self.terminal)) {
            failure.say();
        }
        next.no_store = self.no_store.take();
        if next.no_store.is_none() {
            let cli = self.cli.clone();
            next.make_active(&cli);
        }
        next.tell_instructions();
        Outcome { then: NextStep::Switch(Box::new(next)), ..Outcome::with(result) }
    }

    pub(super) fn rewind(&mut self, rest: &str) -> Result<Outcome, Failure> {
        let mut words = table::words(rest);
        let files = words.iter().position(|word| word == "--files").map(|at| words.remove(at)).is_some();
        let [word] = words.as_slice() else {
            return Err(Failure::usage("which message?", "/rewind N; /history numbers the messages"));
        };
        let number = number(word, "/rewind N [--files]")?;
        let id = self.stored_id()?;
        let store = self.a_store()?;
        self.hold()?;
        let conversation = self.worker.conversation_mut();
        conversation.read_all().map_err(rejoin::EngineError::from)?;
        let shown = history::shown(conversation.entries());
        let message = stored::entry(&shown, number)?;
        let is_command = |shown: &&Shown<'_>| matches!(shown.what, ShownContent::Command(_));
        let later = shown[number + 1..].iter().filter(|shown| !is_command(shown)).count();
        if later == 0 && !files {
            output::talk(&format!("Message {number} is the last one."));
            return Ok(Outcome::done());
        }
        let end = branches::end_of_message(conversation.entries(), message).unwrap_or(message);
        if files {
            self.worker.release();
            let workspace = talking::workspace(&self.cli);
            let undone = undo_since(&store, id, message, &workspace, UndoMode::Real)?;
            self.hold()?;
            if undone.is_empty() {
                output::talk("No file has changed since.");
            }
            undo::print(&undone, UndoMode::Real, false)?;
        }
        self.worker.go_on_from(end, &format!("went back to message {number}"))?;
        let later = plural(later, "later message");
        output::talk(&format!(
            "The next message follows message {number}. The {later} stay in the record: /branches lists them."
        ));
        self.say_if_unfinished();
        Ok(Outcome::done())
    }

    pub(super) fn branches(&mut self, rest: &str) -> Result<Outcome, Failure> {
        self.stored_id()?;
        self.hold()?;
        let conversation = self.worker.conversation_mut();
        conversation.read_all().map_err(rejoin::EngineError::from)?;
        let branches = branches::branches(conversation.entries());
        if rest.is_empty() {
            draw(&branches)?;
            return Ok(Outcome::done());
        }
        let number = number(rest, "/branches [N]")?;
        let chosen = number.checked_sub(1).and_then(|place| branches.get(place)).ok_or_else(|| {
            let count = plural(branches.len(), "branch");
            Failure::usage(
                format!("there is no branch {number}"),
                format!("there are {count}: /branches lists them"),
            )
        })?;
        if chosen.is_current {
            output::talk("You are on this branch.");
            return Ok(Outcome::done());
        }
        self.worker.go_on_from(chosen.tip, &format!("went on in branch {number}"))?;
        let messages = plural(chosen.messages, "message");
        let result = format!("The next message follows the {messages} of branch {number}.");
        output::talk(&result);
        resume::show_last_exchange(self);
        self.say_if_unfinished();
        Ok(Outcome::with(result))
    }

    /// Tells the user that the model can continue without a new message, if it has not answered the last one.
    fn say_if_unfinished(&mut self) {
        self.state();
        if self.unfinished {
            output::talk("Enter lets the model go on from there without a new message.");
        }
    }

    /// Takes the conversation's lock.
    fn hold(&mut self) -> Result<(), Failure> {
        self.worker.reclaim().map(drop).map_err(Failure::from)
    }

    /// The store of the conversations.
    fn a_store(&self) -> Result<Arc<dyn Store>, Failure> {
        self.store.clone().ok_or_else(|| {
            Failure::failed("there is no store", "`rejoin doctor --self` says whether it can be written")
        })
    }
}

/// Lists the newest conversations.
fn list(store: &dyn Store) -> Result<Outcome, Failure> {
    let page = store.list(&Query { limit: Some(LISTED), ..Query::default() });
    let page = page.map_err(|why| context::unusable(store.location(), why))?;
    for summary in &page.conversations {
        let title = harmless(summary.title.as_deref().unwrap_or("(untitled)"));
        let state = summary.shown_state();
        let state =
            if state == SessionState::Complete { String::new() } else { format!(" [{}]", state.word()) };
        let id = paint(&summary.id.to_string(), output::STRONG);
        output::data(&format!("{id}  {}{state}", exchange::shortened_line(&title, GLIMPSE)))?;
    }
    output::talk("/resume ID goes on in one of them; the beginning of an id is enough.");
    Ok(Outcome::with(format!("{} shown", plural(page.conversations.len(), "conversation"))))
}

/// Draws the branches, each below the one that it departs from.
fn draw(branches: &[branches::MessageBranch]) -> Result<(), Failure> {
    fn depth(branches: &[branches::MessageBranch], place: usize) -> usize {
        branches[place].parts_from.map_or(0, |from| depth(branches, from) + 1)
    }
    fn order(branches: &[branches::MessageBranch], from: Option<usize>, out: &mut Vec<usize>) {
        for place in (0..branches.len()).filter(|place| branches[*place].parts_from == from) {
            out.push(place);
            order(branches, Some(place), out);
        }
    }
    let mut places = Vec::new();
    order(branches, None, &mut places);
    for place in places {
        let branch = &branches[place];
        let mark = if branch.is_current { "*" } else { " " };
        let indent = "   ".repeat(depth(branches, place).saturating_sub(1));
        let line = if branch.parts_from.is_some() { format!("{indent}└─ ") } else { String::new() };
        let parts = match branch.parts_from {
            Some(from) => format!(", parts from {} after {}", from + 1, plural(branch.shared, "message")),
            None => String::new(),
        };
        let begins = exchange::shortened(&branch.begins, GLIMPSE);
        let about =
            format!("({}{parts}, {})", plural(branch.messages, "message"), local_time(branch.updated));
        let row = format!("{mark} {line}{}  {begins}  {}", place + 1, paint(&about, output::DIM));
        output::data(&output::data_in_rows(&row))?;
    }
    if branches.iter().all(|branch| !branch.is_current) {
        output::talk("You went back: your next message begins a new branch.");
    }
    Ok(())
}

fn number(word: &str, usage: &str) -> Result<usize, Failure> {
    word.parse().map_err(|_| Failure::usage(format!("`{word}` is not a number"), usage))
}
