//! The commands that need the prompt: its provider, its tools, its terminal.

use rejoin::{
    ToolDeclaration,
    approval::ApprovalMode,
    engine::{auth::redact::without_keys, provider::Endpoint, turn::Stop},
    providers::offline,
};

#[cfg(feature = "mcp")]
use rejoin::mcp::McpPhase;

use super::{
    NextStep, Outcome,
    table::{self, PromptCommand},
};
#[cfg(feature = "mcp")]
use crate::commands::mcp;
use crate::{
    answering,
    args::Talk,
    commands::{
        providers, room,
        talking::{OpenConversation, window},
    },
    failure::Failure,
    near,
    output::{self, harmless, plural},
    windows,
};

/// How long /mcp waits for servers that are starting.
#[cfg(feature = "mcp")]
const SERVERS_START: std::time::Duration = std::time::Duration::from_secs(2);

/// The text of /help after the list.
const HELP: &str = "\
A line is a message. @PATH puts a file into it. Alt-Enter, or a backslash at the end, begins another line. Tab completes, Ctrl-R \
searches what you sent.
!COMMAND runs a command by hand; !!COMMAND shows it to the model, too.
Ctrl-C stops a turn or clears the line; pressed twice on an empty line, it leaves. So does Ctrl-D. An empty line continues an \
interrupted turn.
Everything is saved; `rejoin resume` comes back to it.";

impl OpenConversation {
    pub(super) async fn run_at_prompt(
        &mut self,
        command: PromptCommand,
        rest: &str,
        stop: &Stop,
    ) -> Result<Outcome, Failure> {
        match command {
            PromptCommand::Help => help(rest),
            PromptCommand::Models => self.list_models(rest, stop).await,
            PromptCommand::Model => self.choose_model(rest),
            PromptCommand::Provider => self.choose_provider(rest),
            PromptCommand::Tools => self.list_tools(),
            PromptCommand::Mode => self.choose_mode(rest),
            PromptCommand::Mcp => self.show_servers(stop).await,
            PromptCommand::Context => self.show_context(),
            PromptCommand::Compact => self.compact_here(rest, stop).await,
            PromptCommand::Title => self.title(rest),
            PromptCommand::Fork => self.fork(rest),
            PromptCommand::Rewind => self.rewind(rest),
            PromptCommand::Branches => self.branches(rest),
            PromptCommand::New => self.begin_new(),
            PromptCommand::Resume => self.resume_other(rest),
            PromptCommand::Clear => {
                output::clear_screen();
                Ok(Outcome::done())
            }
            PromptCommand::Leave => Ok(Outcome { then: NextStep::Leave, ..Outcome::done() }),
        }
    }

    /// Shows the MCP servers. Servers that failed or ended are started again first.
    #[cfg(feature = "mcp")]
    async fn show_servers(&self, stop: &Stop) -> Result<Outcome, Failure> {
        if let Some(servers) = &self.servers {
            servers.retry();
            tokio::select! {
                () = servers.settled() => {}
                () = tokio::time::sleep(SERVERS_START) => {}
                () = stop.asked() => {}
            }
        }
        let states = self.server_states();
        if states.is_empty() {
            output::talk("There are no MCP servers. `rejoin mcp add` adds one.");
        }
        for state in &states {
            match state.phase {
                McpPhase::Starting => {
                    output::data(&format!("{}: is being started", harmless(&state.name)))?;
                }
                _ => mcp::show(state)?,
            }
        }
        if states.iter().any(|state| state.phase.reason().is_some()) {
            output::talk("The next /mcp tries again.");
        }
        Ok(Outcome::with(plural(states.len(), "server")))
    }

    #[cfg(not(feature = "mcp"))]
    async fn show_servers(&self, _: &Stop) -> Result<Outcome, Failure> {
        output::talk("This build has no MCP.");
        Ok(Outcome::done())
    }

    async fn list_models(&mut self, rest: &str, stop: &Stop) -> Result<Outcome, Failure> {
        if !matches!(rest, "" | "list") {
            return Err(Failure::usage(
                format!("/models takes `list` or nothing, not `{rest}`"),
                "`/model NAME` chooses a model",
            ));
        }
        let provider = std::sync::Arc::clone(self.worker.provider());
        let models = tokio::select! {
            models = provider.models() => models.map_err(|error| Failure::Provider(Box::new(error)))?,
            () = stop.asked() => return Err(Failure::failed("stopped", "/models asks again")),
        };
        let endpoint = provider.endpoint();
        if endpoint.provider != offline::NAME {
            windows::remember(&self.cli.home, endpoint, &models);
        }
        let count = models.len();
        providers::print_models(&endpoint.provider, models, false)?;
        // Programs look for these exact words.
        Ok(Outcome::with(format!("{count} models available")))
    }

    fn choose_model(&mut self, name: &str) -> Result<Outcome, Failure> {
        if !name.is_empty() {
            name_alone(name)?;
            let chosen = Talk { model: Some(name.to_owned()), ..self.chosen.clone() };
            self.answer_with(chosen)?;
        }
        self.say_endpoint();
        Ok(Outcome::done())
    }

    fn choose_provider(&mut self, rest: &str) -> Result<Outcome, Failure> {
        let words = table::words(rest);
        if let Some(provider) = words.first() {
            words.iter().try_for_each(|word| name_alone(word))?;
            providers::check_name(provider, self.cli.settings.value("base_url"), None)?;
            // Model, API and address belong to the previous provider.
            let chosen = Talk {
                provider: Some(provider.clone()),
                model: words.get(1).cloned(),
                api: None,
                base_url: None,
                ..self.chosen.clone()
            };
            self.answer_with(chosen)?;
        }
        self.say_endpoint();
        Ok(Outcome::done())
    }

    fn say_endpoint(&self) {
        output::talk(&self.provider_line());
    }

    /// Connects to the chosen provider, from the next message on.
    fn answer_with(&mut self, chosen: Talk) -> Result<(), Failure> {
        let recorded = rejoin::ProviderChoice::of(self.worker.conversation());
        let answering = answering::choose_for_turn(&self.cli, &chosen, Some(&recorded))?;
        let summariser = window::summariser(&self.cli, &chosen, self.worker.conversation(), &answering);
        self.worker.set_window(window::fitting(&self.cli, answering.provider.endpoint()));
        self.worker.set_provider(answering.provider);
        self.worker.set_summariser(summariser);
        self.outcome = answering.outcome;
        self.chosen = chosen;
        Ok(())
    }

    /// The tools that the model gets in the next turn, as far as they are known: servers may still be starting.
    fn declared_tools(&self) -> Vec<ToolDeclaration> {
        #[allow(unused_mut, reason = "without MCP there are no others")]
        let mut tools = self.worker.tools().declarations();
        #[cfg(feature = "mcp")]
        for tool in self.servers.iter().flat_map(|servers| servers.current()) {
            let declared = tool.declaration();
            if tools.iter().all(|other| other.name != declared.name) {
                tools.push(declared);
            }
        }
        tools
    }

    fn list_tools(&self) -> Result<Outcome, Failure> {
        let tools = self.declared_tools();
        // A server's tools may have names of any length.
        let width = tools.iter().map(|tool| tool.name.chars().count()).filter(|width| *width <= 30).max();
        let width = width.unwrap_or(0);
        for tool in &tools {
            let about = tool.description.as_deref().unwrap_or_default();
            let sentence = about.split_once(". ").map_or(about, |(first, _)| first).trim_end_matches('.');
            output::data(&output::fitting(
                &format!("{:<width$}  {}", harmless(&tool.name), harmless(sentence)),
                0,
            ))?;
        }
        Ok(Outcome::with(format!("{} available", plural(tools.len(), "tool"))))
    }

    fn choose_mode(&mut self, rest: &str) -> Result<Outcome, Failure> {
        let mut approvals = self.worker.settings().approvals.clone();
        if !rest.is_empty() {
            let names = || ApprovalMode::ALL.iter().map(|mode| mode.name());
            approvals.mode = ApprovalMode::named(rest).ok_or_else(|| {
                let near = near::did_you_mean(rest, names());
                let all = names().collect::<Vec<_>>().join(", ");
                Failure::usage(format!("there is no mode `{rest}`"), format!("{near}modes are: {all}"))
            })?;
            self.chosen.mode = Some(approvals.mode);
            self.worker.set_approvals(approvals.clone());
        }
        output::talk(&format!("Mode: {}", approvals.mode.name()));
        Ok(Outcome::done())
    }

    /// Shows the instructions, and what fills the window if there are messages.
    fn show_context(&mut self) -> Result<Outcome, Failure> {
        let Endpoint { provider, model, .. } = self.endpoint();
        let system = self.worker.settings().system.as_deref().unwrap_or("(none)");
        let usual = match self.instructions {
            None => " (the usual ones; `rejoin config set system TEXT` replaces them)",
            Some(_) => "",
        };
        let about = harmless(&format!("Instructions to {provider}, {model}"));
        output::data(&output::in_rows(&format!("{}{usual}:", output::paint(&about, output::STRONG))))?;
        for line in output::harmless_lines(system).lines() {
            output::data(&output::in_rows(format!("  {line}").trim_end()))?;
        }
        let tools = self.declared_tools().len();
        output::data(&format!("{}: /tools lists them", plural(tools, "tool")))?;
        if self.worker.conversation().tail().is_none() {
            return Ok(Outcome::done());
        }
        let Some(context) = table::named("history") else { return Ok(Outcome::done()) };
        let words = &["history", "show", table::ID, "--tokens"];
        self.run_as(context, words, table::TypedText::Words, "")
    }

    async fn compact_here(&mut self, keep: &str, stop: &Stop) -> Result<Outcome, Failure> {
        self.stored_id()?;
        if !self.reclaim(stop).await? {
            return Err(Failure::failed("nothing was compacted", "/compact tries again"));
        }
        let keep = Some(keep).filter(|keep| !keep.is_empty());
        let code = room::compact_now(&mut self.worker, keep, stop, false).await?;
        Ok(Outcome { failed: code != 0, ..Outcome::done() })
    }

    fn title(&mut self, rest: &str) -> Result<Outcome, Failure> {
        if rest.is_empty() {
            let title = self.worker.conversation().title();
            let title = if title.is_empty() { String::from("(untitled)") } else { harmless(&title) };
            output::data(&title)?;
            return Ok(Outcome::done());
        }
        // A title is enough for a conversation to begin.
        self.worker.conversation_mut().save();
        let Some(title) = table::named("title") else { return Ok(Outcome::done()) };
        self.run_as(title, &["history", "rename", table::ID, "--"], table::TypedText::Text, rest)
    }
}

/// Refuses a text that cannot be a name of a model or a provider. Names are recorded, so a key must not be accepted as one.
fn name_alone(name: &str) -> Result<(), Failure> {
    if without_keys(name) != name {
        return Err(Failure::usage(
            "this looks like a key, not a name",
            "`rejoin auth login PROVIDER` takes keys; nothing was recorded of this one",
        ));
    }
    match name.contains(char::is_whitespace) {
        true => Err(Failure::usage("expected one name", "/model NAME, or /provider NAME MODEL")),
        false => Ok(()),
    }
}

fn help(rest: &str) -> Result<Outcome, Failure> {
    let name = rest.trim_start_matches('/');
    if name.is_empty() {
        output::talk(format!("{}{HELP}", table::help(output::terminal_size().0)).trim_end());
    } else {
        let command = table::named(name).ok_or_else(|| {
            let near = near::did_you_mean(name, table::COMMANDS.iter().map(|command| command.name));
            Failure::usage(format!("there is no command /{name}"), format!("{near}/help lists them"))
        })?;
        let how = format!(
            "/{} {}\n  {}\n  {}",
            command.name,
            command.arguments,
            command.about,
            command.completes.in_words()
        );
        output::talk(how.trim_end());
    }
    Ok(Outcome::with("User viewed help"))
}
