//! The parts that `chat`, `resume` and `run` share: a conversation, its provider, and turns that are drawn while they run.
//!
//! `message.rs` puts messages together, `draw.rs` shows a turn to people or programs, `prompt.rs` takes one message after another,
//! `editor/` and `terminal.rs` read them, `approving.rs` asks about calls. `slash/` has the commands of the prompt, `by_hand.rs`
//! those of the system.

mod approving;
mod by_hand;
mod draw;
mod editor;
mod message;
mod prompt;
pub mod slash;
mod terminal;
mod tools;
pub mod window;

use std::{sync::Arc, time::Duration};

use rejoin::{
    Conversation, ConversationId, OnBroken, Workspace,
    active::Pointer,
    engine::{
        LockTiming, New, ProviderChoice, SystemClock,
        provider::Endpoint,
        turn::{Ending, Event, Limits, Stop, ToolLimits, TurnInput, TurnSettings, Worker},
    },
    instructions::{self, ProjectInstructions},
    record::{Entry, Kind, content::Command},
    resume::{OpenCall, Resumption},
    store::{Access, Location, Store},
};

#[cfg(feature = "mcp")]
use rejoin::mcp::{McpServerState, McpServers};

use super::exchange;
#[cfg(feature = "mcp")]
use crate::servers;
use crate::{
    answering::{self, ConnectedProvider, Outcome},
    args::Talk,
    completing,
    context::{self, CliContext},
    failure::{FAILED, Failure, INTERRUPTED},
    output, question,
    settings::Settings,
    signals::{self, SecondInterrupt},
    windows,
};
pub use draw::{Drawing, PrintedWords};
pub use message::{GivenMessage, has_terminal, message_to_send};
use slash::table::{self, CompletionSource};
use terminal::Terminal;
#[cfg(feature = "mcp")]
pub use tools::policy as tool_policy;
pub use tools::workspace;

/// Opens the store for writing, or for reading if it cannot be written.
pub fn open_store(cli: &CliContext) -> Result<Arc<dyn Store>, Failure> {
    signals::survive_full_files();
    // If reading fails, too, the reason why it cannot be written says more.
    let opened = rejoin::engine::open_store(&cli.location, Access::Write)
        .or_else(|why| rejoin::engine::open_store(&cli.location, Access::Read).map_err(|_| why));
    let store = cli.limited(opened.map_err(|why| context::unusable(&cli.location, why))?);
    context::warn_about_damage(&*store);
    Ok(Arc::from(store))
}

/// A store, or the reason why there is none.
type StoreOrReason = (Option<Arc<dyn Store>>, Option<Failure>);

/// Opens the store for turns. If that fails, they stay in memory, and the failure has the reason.
///
/// # Errors
/// If a server is reachable but its tables are not rejoin's: it cannot take the answer later either, and no file on this machine
/// can hold it.
pub fn store_or_reason(cli: &CliContext) -> Result<StoreOrReason, Failure> {
    match open_store(cli) {
        Ok(store) => Ok((Some(store), None)),
        Err(why) if matches!(cli.location, Location::Postgres(_)) => Err(why),
        Err(why) => Ok((None, Some(why))),
    }
}

/// Lists the calls without a result and asks what to do about them.
pub fn ask_what_to_do(calls: &[OpenCall]) -> Result<OnBroken, Failure> {
    let count = output::plural(calls.len(), "call");
    output::talk(&format!("{count} without a result:"));
    for line in exchange::listed(calls) {
        output::talk(&format!("  {line}"));
    }
    let can_run = calls.iter().any(|call| call.can_run);
    let again = if can_run { ", [r]un again" } else { "" };
    loop {
        match question::ask(&format!("[k]eep as interrupted, [l]eave out{again}? [k] ")).as_deref() {
            None | Some("" | "k" | "keep") => return Ok(OnBroken::Keep),
            Some("l" | "leave" | "leave out") => return Ok(OnBroken::Drop),
            Some("r" | "run" | "run again" | "rerun") if can_run => return Ok(OnBroken::Rerun),
            _ if can_run => output::talk("Please answer k, l or r."),
            _ => output::talk("Please answer k or l."),
        }
    }
}

/// The purpose of opening a conversation.
#[derive(Debug, Clone, Copy)]
pub enum OpenPurpose {
    /// To send a message at once. No other process can write to it from now on.
    Say,
    /// To prompt for messages. Other processes may write to it until one is sent.
    Prompt,
    /// To look at its state. Nothing is sent, so no key is needed.
    Look,
}

/// A conversation and its provider, for one or several turns.
pub struct OpenConversation {
    pub worker: Worker,
    /// How the provider was chosen; `None` if the conversation is only looked at.
    outcome: Option<Outcome>,
    store: Option<Arc<dyn Store>>,
    /// Why there is no store, if there is none.
    pub no_store: Option<Failure>,
    /// The folders and settings of this process.
    cli: CliContext,
    /// The choice of provider on the command line.
    talk: Talk,
    /// That choice, with the changes that were made at the prompt.
    chosen: Talk,
    command: &'static str,
    json: bool,
    /// The pointer to set once the conversation is stored.
    pointer: Option<Pointer>,
    /// Whether /commands are recorded.
    keeps_commands: bool,
    /// Commands that are not recorded yet.
    unkept: Vec<Command>,
    /// Texts that the model shall see with the next message.
    for_model: Vec<String>,
    /// The user's instructions, without those of the repository; `None` for the default ones.
    instructions: Option<String>,
    /// The instructions in the repository's files.
    project: ProjectInstructions,
    /// Whether the user was told about those files.
    has_told_project: bool,
    /// Whether they changed since the last turn of an earlier process.
    project_changed: bool,
    /// The folder in which the conversation began, if it is another one.
    pub elsewhere: Option<String>,
    /// Whether the last turn can continue without a new message.
    unfinished: bool,
    /// Whether some entries are not stored yet.
    unsaved: bool,
    /// Whether the turn continues before the first prompt.
    pub go_on_first: bool,
    terminal: Arc<Terminal>,
    /// Which text of the model is printed.
    words: PrintedWords,
    /// The MCP servers whose tools the model may call.
    #[cfg(feature = "mcp")]
    servers: Option<Arc<McpServers>>,
}

impl OpenConversation {
    pub fn begin(cli: &CliContext, store: Option<&Arc<dyn Store>>, talk: &Talk) -> Result<Self, Failure> {
        let answering = answering::choose_for_turn(cli, talk, None)?;
        let endpoint = answering.provider.endpoint();
        let new = New {
            title: None,
            provider: Some(endpoint.provider.clone()),
            model: Some(endpoint.model.clone()),
            directory: Some(cli.folder.to_string_lossy().into_owned()).filter(|folder| !folder.is_empty()),
            scope: cli.scope.new_scope(),
        };
        let clock = Arc::new(SystemClock);
        let conversation = match store {
            Some(store) => Conversation::begin(Arc::clone(store), clock, &new, "rejoin chat"),
            None => Conversation::in_memory(clock, &new),
        };
        Self::new(cli, conversation, answering, store.cloned(), talk, "rejoin chat")
    }

    /// Opens a stored conversation.
    pub fn open(
        cli: &CliContext,
        store: &Arc<dyn Store>,
        id: ConversationId,
        talk: &Talk,
        (command, purpose): (&'static str, OpenPurpose),
    ) -> Result<Self, Failure> {
        let (kept, clock) = (Arc::clone(store), Arc::new(SystemClock));
        let hold = match purpose {
            _ if store.read_only().is_some() => LockTiming::Never,
            OpenPurpose::Say | OpenPurpose::Look => LockTiming::Now,
            OpenPurpose::Prompt => LockTiming::Later,
        };
        let opened = Conversation::open_for_turns(kept, clock, id, command, hold);
        let conversation = opened.map_err(|error| context::loading(&**store, error))?;
        let recorded = ProviderChoice::of(&conversation);
        let answering = match purpose {
            OpenPurpose::Look => ConnectedProvider::name_only(&recorded),
            OpenPurpose::Say | OpenPurpose::Prompt => answering::choose_for_turn(cli, talk, Some(&recorded))?,
        };
        Self::new(cli, conversation, answering, Some(Arc::clone(store)), talk, command)
    }

    fn new(
        cli: &CliContext,
        conversation: Conversation,
        answering: ConnectedProvider,
        store: Option<Arc<dyn Store>>,
        talk: &Talk,
        command: &'static str,
    ) -> Result<Self, Failure> {
        let terminal = Arc::new(Terminal::new(editing(cli, answering.provider.endpoint())));
        let recorded = instructions::recorded(&conversation);
        let given = talk.system.clone().or_else(|| recorded.own.clone());
        let instructions = given.or_else(|| cli.settings.value("system").map(str::to_owned));
        let settings = TurnSettings {
            system: conversation.recorded_system(),
            system_parts: recorded,
            on_broken: super::convert::policy(&cli.settings),
            limits: limits(&cli.settings, talk),
            window: window::fitting(cli, answering.provider.endpoint()),
            approvals: approving::approvals(talk, &cli.settings, &terminal)?,
        };
        let tools = tools::tools(cli, &settings.limits);
        let here = cli.folder.to_string_lossy();
        let elsewhere = conversation.directory().filter(|folder| *folder != here);
        let summariser = window::summariser(cli, talk, &conversation, &answering);
        // The servers start while the rest is prepared. A conversation that is only looked at needs none.
        #[cfg(feature = "mcp")]
        let servers = if answering.outcome.is_some() { servers::start(cli)? } else { None };
        let mut worker = Worker::new(conversation, answering.provider, tools, settings);
        #[cfg(feature = "mcp")]
        if let Some(servers) = &servers {
            worker.set_tool_source(Arc::<McpServers>::clone(servers));
        }
        worker.set_summariser(summariser);
        keeps_to_its_cost(&worker, talk)?;
        let mut talking = Self {
            worker,
            outcome: answering.outcome,
            store,
            no_store: None,
            cli: cli.without_pager(),
            talk: talk.clone(),
            chosen: talk.clone(),
            command,
            json: talk.json,
            pointer: None,
            keeps_commands: cli.settings.should_persist_commands(),
            unkept: Vec::new(),
            for_model: Vec::new(),
            instructions,
            project: ProjectInstructions::default(),
            has_told_project: false,
            project_changed: false,
            elsewhere,
            unfinished: false,
            unsaved: false,
            go_on_first: false,
            terminal,
            words: PrintedWords::All,
            #[cfg(feature = "mcp")]
            servers,
        };
        let was_recorded = talking.worker.settings().system.is_some();
        talking.project_changed = talking.read_instructions() && was_recorded;
        Ok(talking)
    }

    /// Tells the user once which files of the repository are part of the instructions.
    fn tell_instructions(&mut self) {
        if std::mem::replace(&mut self.has_told_project, true) {
            return;
        }
        if let Some(files) = self.project.in_words() {
            output::note(format!("instructions of this project: {files}"));
        }
        if self.project_changed {
            output::note("they have changed since the last turn; the new text is used");
        }
    }

    /// Reads the instructions of the repository again before a turn, and tells the user if they changed.
    fn refresh_instructions(&mut self) {
        if !self.has_told_project {
            self.tell_instructions();
        } else if self.read_instructions() {
            let files = self.project.in_words().unwrap_or_else(|| String::from("none any more"));
            output::note(format!(
                "the instructions of this project have changed; the new text is used: {files}"
            ));
        }
    }

    /// Uses the prompt's terminal from now on.
    fn take_terminal(&mut self, terminal: Arc<Terminal>) -> Result<(), Failure> {
        let mut approvals = approving::approvals(&self.talk, &self.cli.settings, &terminal)?;
        approvals.mode = self.worker.settings().approvals.mode;
        self.worker.set_approvals(approvals);
        self.terminal = terminal;
        Ok(())
    }

    /// Reads the repository's instructions, and sets the model's instructions. Returns whether they differ from those of the last
    /// turn.
    fn read_instructions(&mut self) -> bool {
        self.project = match self.cli.settings.is_on("agents_md") {
            true => ProjectInstructions::read(&self.cli.folder, |root| {
                tools::hiding(&self.cli, Workspace::new(root))
            }),
            false => ProjectInstructions::default(),
        };
        let (system, parts) = instructions::compose(self.instructions.as_deref(), &self.project);
        let has_changed = self.worker.settings().system_parts.project != parts.project;
        self.worker.set_system(Some(system), parts);
        has_changed
    }

    /// The states of this conversation's MCP servers, in the order of their entries.
    #[cfg(feature = "mcp")]
    pub fn server_states(&self) -> Vec<McpServerState> {
        self.servers.as_deref().map(McpServers::states).unwrap_or_default()
    }

    /// Works on one task: prints only the model's final answer, and fails if the task is not completed.
    pub fn task(mut self, task: String, limits: impl FnOnce(&mut Limits)) -> Result<u8, Failure> {
        limits(self.worker.limits_mut());
        self.words = PrintedWords::Last;
        self.once(task.into())
    }

    /// Makes this the active conversation of the folder. A new conversation becomes active as soon as it is stored.
    pub fn make_active(&mut self, cli: &CliContext) {
        self.pointer = Some(cli.pointer());
        let conversation = self.worker.conversation();
        if conversation.tail().is_some() {
            point(&mut self.pointer, conversation.id());
        }
    }

    /// Sets the policy for broken states. Calls run again only in the folder in which they were made.
    pub fn set_on_broken(&mut self, on_broken: OnBroken) -> Result<(), Failure> {
        if let (OnBroken::Rerun, Some(folder)) = (on_broken, &self.elsewhere) {
            return Err(Failure::usage(
                format!("these calls were made in the folder {}", output::harmless(folder)),
                "go there and try again, or use `--on-broken keep`",
            ));
        }
        self.worker.set_on_broken(on_broken);
        Ok(())
    }

    /// Records that the calls without a result are left out from now on, and says so. The decision applies to later processes, too,
    /// even if no message is sent in this one.
    pub fn leave_out_unanswered(&mut self) -> Result<(), Failure> {
        let (count, _) = self.worker.leave_out_unanswered();
        if count > 0 {
            let calls = output::plural(count, "call");
            let are = output::agreeing(count as u64, "is", "are");
            let them = output::agreeing(count as u64, "it", "them");
            output::talk(&format!("  {calls} {are} left out from now on; the history keeps {them}."));
            self.settle()?;
        }
        Ok(())
    }

    pub fn say_who_answers(&self, doing: &str) {
        if let Some(outcome) = &self.outcome {
            answering::say(outcome, doing);
        }
    }

    pub fn provider_line(&self) -> String {
        let Endpoint { provider, model, .. } = self.endpoint();
        let mut line = format!("Provider: {provider}, model: {model}");
        if let Some(Outcome { provider, model, address: Some(address), .. }) = &self.outcome {
            line += &format!(", at {}", address.value);
            line += &format!(" (from: {}, {}, {})", provider.from, model.from, address.from);
        }
        output::harmless(&line)
    }

    /// The provider and the model. A conversation from another machine may give them any name.
    pub fn endpoint(&self) -> &Endpoint {
        self.worker.provider().endpoint()
    }

    pub fn state(&mut self) -> Resumption {
        use rejoin::store::SessionState::{Interrupted, WaitingForModel, WaitingForTools};
        let found = Resumption::of(&mut self.worker, self.store.as_deref());
        self.unfinished = matches!(found.state, Interrupted | WaitingForTools | WaitingForModel);
        found
    }

    /// Whether the built-in responder answers only because no provider was found.
    pub fn is_makeshift(&self) -> bool {
        self.outcome.as_ref().is_some_and(Outcome::is_makeshift)
    }

    /// Before the first prompt, tells the user that an interrupted turn can continue.
    pub fn offer_to_go_on(&mut self) {
        let waits = self.state().state == rejoin::store::SessionState::WaitingForApproval;
        if waits {
            self.unfinished = true;
            output::talk("A call waits for your approval: Enter shows it.");
        } else if self.unfinished {
            output::talk("The last turn was interrupted: Enter continues it.");
        }
    }

    /// Runs one turn, shows the answer, and ends.
    pub fn once(mut self, input: TurnInput) -> Result<u8, Failure> {
        let turned = block_on(async {
            let stop = Stop::new();
            let signals =
                signals::stop_on_signals(stop.clone(), Arc::default(), SecondInterrupt::EndsProcess);
            let turned = self.turn(input, &stop, SaveWarning::AtTheEnd).await;
            signals.abort();
            turned
        })?;
        match (turned, self.settle()) {
            (turned, Ok(())) => turned,
            (Ok(0), Err(unsaved)) => Err(unsaved),
            // Report both; the exit code is the turn's.
            (turned, Err(unsaved)) => {
                unsaved.say();
                turned
            }
        }
    }

    async fn turn(&mut self, input: TurnInput, stop: &Stop, warning: SaveWarning) -> Result<u8, Failure> {
        self.find_a_store();
        self.refresh_instructions();
        self.keep_unkept();
        if matches!(input, TurnInput::Say(_)) {
            // The message contains them now.
            self.for_model.clear();
        }
        let mut drawing = Drawing::new(self.json, warning, self.words).with_window(self.worker.window());
        let (pointer, stored) = (&mut self.pointer, self.store.is_some());
        let (unsaved, mut begun) = (&mut self.unsaved, None);
        let no_store = self.no_store.as_ref().map(not_saved);
        let mut sink = |event: Event| {
            let event = match (event, &no_store) {
                (Event::NotSaved(_), Some(why)) => Event::NotSaved(why.clone()),
                (event, _) => event,
            };
            match &event {
                Event::Started { conversation, .. } => begun = Some(*conversation),
                Event::NotSaved(_) => *unsaved = true,
                Event::Saved => *unsaved = false,
                _ => {}
            }
            // An entry that could not be stored is reported right after the start. Until it is stored, the conversation cannot be
            // found again.
            if !matches!(event, Event::Started { .. })
                && stored
                && !*unsaved
                && let Some(conversation) = begun
            {
                point(pointer, conversation);
            }
            drawing.event(&event);
        };
        let turned = self.worker.turn(input, &mut sink, stop).await;
        self.unfinished = !matches!(&turned, Ok(turned) if turned.ending == Ending::Done);
        let code = match turned {
            Ok(turned) => {
                drawing.reply(&turned);
                match turned.ending {
                    Ending::Interrupted => INTERRUPTED,
                    Ending::Limit(limit) => {
                        output::warning(limit);
                        let cut = limit == rejoin::engine::turn::Limit::AnswerLength;
                        if cut && self.words == PrintedWords::All { 0 } else { FAILED }
                    }
                    Ending::Done | Ending::Failed => 0,
                }
            }
            Err(error) => {
                drawing.failed(&error);
                return Err(Failure::Turn(Box::new(error)));
            }
        };
        // If our output was closed, its reader has seen enough; the turn is recorded in any case.
        drawing.finish()?;
        Ok(code)
    }

    /// Tries again to open a store that could not be written when the conversation began; if it can be now, everything goes there.
    /// If the active conversation could not be read, this answer belongs to no other conversation, and stays in memory.
    fn find_a_store(&mut self) {
        if matches!(self.no_store, Some(Failure::Load { .. } | Failure::Unreadable { .. })) {
            return;
        }
        let usable = self.store.as_deref().is_some_and(|store| store.read_only().is_none());
        if usable || self.worker.conversation().unsaved().is_empty() {
            return;
        }
        let Ok(store) = rejoin::engine::open_store(&self.cli.location, Access::Write) else { return };
        if store.read_only().is_none() {
            let store: Arc<dyn Store> = Arc::from(self.cli.limited(store));
            if self.worker.conversation_mut().attach(Arc::clone(&store), self.command).is_durable() {
                self.store = Some(store);
            }
        }
    }

    /// Whether the conversation is stored, or has a message.
    fn has_begun(&self) -> bool {
        let conversation = self.worker.conversation();
        let is_more = |entry: &Entry| !matches!(entry.envelope().kind, Kind::Header | Kind::Meta);
        conversation.tail().is_some() || conversation.entries().iter().any(is_more)
    }

    /// Stores the remaining entries, and updates the index. Fails if some entries stay in memory only.
    fn settle(&mut self) -> Result<(), Failure> {
        if !self.has_begun() {
            // An unused conversation is not stored.
            return Ok(());
        }
        self.find_a_store();
        let saved = self.worker.conversation_mut().save();
        if let Some(warning) = saved.warning() {
            let usual = "the answer is complete, but it is not in the store; `rejoin doctor --self` says whether the store can be written";
            let (no_store, hint) = (self.no_store.as_ref(), saved.hint().unwrap_or(usual));
            return Err(Failure::failed(no_store.map_or_else(|| warning.to_owned(), not_saved), hint));
        }
        if let Some(store) = self.store.as_deref().filter(|store| store.read_only().is_none()) {
            context::settle(store);
        }
        Ok(())
    }
}

/// The warning for a turn without a store.
fn not_saved(why: &Failure) -> String {
    format!("Failed to save turn: {why}")
}

/// When to warn the user about a failed save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveWarning {
    /// Immediately, because more turns may follow.
    AtOnce,
    /// After the turn, if it is still not stored.
    AtTheEnd,
}

/// Sets the pointer to a stored conversation, once.
fn point(pointer: &mut Option<Pointer>, conversation: ConversationId) {
    if let Some(Err(error)) = pointer.take().map(|pointer| pointer.set(conversation)) {
        Failure::from(error).say();
    }
}

/// Runs work to its end. The runtime is created only if there is work. Unfinished tasks in it are not waited for: resolving a name,
/// or a disk that does not answer, must not keep the user from leaving.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.map_err(|why| Failure::Usage {
        what: format!("the system has no resources for a turn: {why}"),
        hint: None,
    })?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// Refuses a limit on the cost for a model without a known price.
fn keeps_to_its_cost(worker: &Worker, talk: &Talk) -> Result<(), Failure> {
    let Some(most) = talk.max_cost.filter(|_| worker.price().is_none()) else { return Ok(()) };
    let model = output::harmless(&worker.provider().endpoint().model);
    Err(Failure::usage(
        format!("the price of `{model}` is not known, so --max-cost {} cannot be enforced", most.amount()),
        "use --max-turn-tokens instead",
    ))
}

/// The parameters of the line editor.
fn editing(cli: &CliContext, endpoint: &Endpoint) -> editor::Setup {
    let (own, home) = (cli.clone(), cli.home.clone());
    let model = endpoint.model.clone();
    let models = move |typed: &str| {
        let mut models = windows::models(&home);
        models.push(model.clone());
        models.sort();
        models.dedup();
        models.retain(|model| model.starts_with(typed));
        models
    };
    let plain = |names: Vec<String>| names.into_iter().map(|name| (name, String::new())).collect();
    let beginning = |names: &mut dyn Iterator<Item = &'static str>, typed: &str| -> Vec<String> {
        names.filter(|name| name.starts_with(typed)).map(str::to_owned).collect()
    };
    let offers = editor::Offers {
        commands: table::COMMANDS
            .iter()
            .map(|command| (format!("/{}", command.name), command.about))
            .collect(),
        folder: cli.folder.clone(),
        arguments: Box::new(move |command, typed| {
            match table::named(&command[1..]).map_or(CompletionSource::Nothing, |command| command.completes) {
                CompletionSource::Conversation => completing::conversations_in(&own, typed),
                CompletionSource::Model => plain(models(typed)),
                CompletionSource::Provider => plain(beginning(&mut completing::provider_names(), typed)),
                CompletionSource::OneOf(words) => plain(beginning(&mut words.iter().copied(), typed)),
                CompletionSource::Nothing | CompletionSource::Message | CompletionSource::Path => Vec::new(),
            }
        }),
    };
    editor::Setup { data: cli.home.data.clone(), folder: cli.folder.clone(), offers }
}

fn limits(settings: &Settings, talk: &Talk) -> Limits {
    let number = |name: &str| settings.number(name);
    let size =
        |name: &str, usual: usize| number(name).map_or(usual, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let usual = Limits::default();
    Limits {
        requests: number("limits.requests").map_or(usual.requests, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        time: number("limits.seconds").map(Duration::from_secs).or(usual.time),
        tokens: talk.max_turn_tokens.or_else(|| number("limits.tokens")),
        cost: talk.max_cost,
        tool: ToolLimits {
            time: number("limits.tool_seconds").map_or(usual.tool.time, Duration::from_secs),
            shown: size("limits.tool_output", usual.tool.shown),
            kept: size("limits.output_kept", usual.tool.kept),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who stops a turn leaves at once, even if the system is still busy.
    #[test]
    fn unfinished_work_is_not_waited_for() {
        let before = std::time::Instant::now();
        block_on(async {
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(60)));
        })
        .unwrap();
        assert!(before.elapsed() < Duration::from_secs(30));
    }
}
