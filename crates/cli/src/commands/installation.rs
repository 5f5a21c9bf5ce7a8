//! `rejoin doctor --self`: describes this installation, its places, and whether it could save a conversation now. A fault in one
//! part does not keep the others from being shown.

use std::sync::Arc;

use rejoin::{
    Conversation, ConversationId, Dialect,
    engine::{ProviderChoice, SystemClock},
    installation::{AnswerOutlook, Installation, StoreReport, StoreState, readable, writable},
    places::{AGENTS, AgentPlace, Machine},
    record::entry::VERSION,
    sandbox::{Confinement, Sandbox},
};

use crate::{
    amounts::bytes,
    answering,
    context::{CliContext, Flags},
    failure::{FAILED, Failure},
    home::{self, Home},
    output::{self, harmless},
    settings::Settings,
};

/// Describes this installation. The exit code says whether the store can be read.
pub fn tell(json: bool, flags: &Flags) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    let settings = Settings::load(&home.config);
    // If the settings cannot be read, the environment still counts.
    let set = match &settings {
        Ok(settings) => settings.value("store").map(str::to_owned),
        Err(_) => std::env::var("REJOIN_STORE").ok(),
    };
    let set = set.and_then(|store| store.parse().ok());
    let found = Installation {
        version: env!("CARGO_PKG_VERSION"),
        program: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
        settings_error: settings.err().map(|failure| failure.to_string()),
        answers: answers(flags),
        store: StoreReport::of(flags.store.clone().or(set).unwrap_or_else(|| home.store())),
        settings: home.config,
        sandbox: Sandbox::probe(),
    };
    if json {
        output::json_data(&found.to_json())?;
    } else {
        for_people(&found).iter().try_for_each(|line| output::data(&harmless(line)))?;
    }
    Ok(if matches!(found.store.state, StoreState::Unusable(_)) { FAILED } else { 0 })
}

/// Who would answer in a new conversation, and in the active one of this folder.
fn answers(flags: &Flags) -> Vec<AnswerOutlook> {
    // Unreadable settings are already reported elsewhere.
    let Ok(cli) = CliContext::new(flags) else { return Vec::new() };
    let active = || {
        let store = cli.read_store().ok()??;
        let id = cli.active(&*store).ok()??;
        let conversation = Conversation::open_read_only(Arc::from(store), Arc::new(SystemClock), id).ok()?;
        Some((id, ProviderChoice::of(&conversation)))
    };
    let active = active().map(|(id, recorded)| answer(&cli, Some((id, &recorded))));
    [answer(&cli, None)].into_iter().chain(active).collect()
}

fn answer(cli: &CliContext, active: Option<(ConversationId, &ProviderChoice)>) -> AnswerOutlook {
    let plain = |failure: Failure| match failure.hint() {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    };
    let outlook = answering::outlook(cli, active.map(|(_, recorded)| recorded));
    let outcome = outlook.map(|(outcome, trouble)| (outcome, trouble.map(plain))).map_err(plain);
    AnswerOutlook { conversation: active.map(|(id, _)| id), outcome }
}

fn for_people(found: &Installation) -> Vec<String> {
    let dialects: Vec<&str> = Dialect::all().map(Dialect::name).collect();
    let there = |there: bool| if there { "" } else { " (does not exist)" };
    let mut lines = vec![
        format!("rejoin {}, {}", found.version, found.program),
        format!("dialects: {}", dialects.join(", ")),
        format!("reads:    {}", readable().collect::<Vec<_>>().join(", ")),
        format!("writes:   {}", writable().collect::<Vec<_>>().join(", ")),
        format!("settings: {}{}", found.settings.display(), there(found.settings.is_file())),
    ];
    lines.extend(found.settings_error.iter().map(|trouble| format!("          {trouble}")));
    for AnswerOutlook { conversation, outcome } in &found.answers {
        let title = match conversation {
            None => String::from("answers:  "),
            Some(id) => format!("          in {id}, which is active here: "),
        };
        match outcome {
            Ok((outcome, trouble)) => {
                lines.push(format!("{title}{}", outcome.in_words("using")));
                lines.extend(trouble.iter().map(|trouble| format!("          cannot answer: {trouble}")));
            }
            Err(trouble) => lines.push(format!("{title}no provider: {trouble}")),
        }
    }
    lines.push(format!("store:    {}", found.store.location));
    lines.push(match &found.store.state {
        StoreState::Missing => {
            String::from("          does not exist yet; the first conversation creates it")
        }
        StoreState::Unusable(why) => format!("          cannot be read: {why}"),
        StoreState::Open { conversations, size, schema } => {
            let schema = schema.map_or_else(String::new, |schema| format!(", schema {schema}"));
            let conversations = output::plural(conversations, "conversation");
            let (record, index) = (bytes(size.record), bytes(size.index));
            format!("          {conversations}; record {record}, index {index}; entries {VERSION}{schema}")
        }
    });
    lines.push(match &found.store.unwritable {
        None => String::from("          can be written"),
        Some(why) => format!("          cannot be written: {why}"),
    });
    lines.extend(sandbox(&found.sandbox));
    lines.push(String::from("sessions of agents are looked for in:"));
    let machine = home::machine();
    lines.extend(AGENTS.iter().map(|agent| places(agent, &machine)));
    lines
}

/// `Codex: /home/me/.codex/sessions`; if no place exists, the first one that was searched.
fn places(agent: &AgentPlace, machine: &Machine) -> String {
    let all = agent.looked_at(machine);
    let there: Vec<String> =
        all.iter().filter(|place| place.exists()).map(|place| place.display().to_string()).collect();
    match (there.is_empty(), all.split_first()) {
        (true, Some((first, []))) => format!("  {}: {} (does not exist)", agent.name, first.display()),
        (true, Some((first, others))) => {
            let others = others.len();
            format!("  {}: {} and {others} more (none exists)", agent.name, first.display())
        }
        _ => format!("  {}: {}", agent.name, there.join(", ")),
    }
}

/// What the commands of a model can do on this machine.
fn sandbox(confinement: &Confinement) -> Vec<String> {
    match confinement {
        Confinement::Full => {
            vec![String::from(
                "sandbox:  full; commands reach their workspace and the system's programs, and no network",
            )]
        }
        Confinement::Partial(gaps) => {
            let first = String::from("sandbox:  partial; commands reach only their workspace, but:");
            [first].into_iter().chain(gaps.iter().map(|gap| format!("          {gap}"))).collect()
        }
        Confinement::None { reason } => {
            vec![format!("sandbox:  none; commands can do whatever you can ({reason})")]
        }
    }
}
