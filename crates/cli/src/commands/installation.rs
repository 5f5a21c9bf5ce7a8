//! `rejoin doctor --self`: what this installation is, where it keeps things, and whether it could save something now.
//!
//! Asking changes nothing: the write that is tried is taken back. Nothing that is wrong keeps the rest from being told.

use std::sync::Arc;

use rejoin::{
    Conversation, ConversationId, Dialect,
    engine::{SystemClock, Wanted, open_store},
    record::entry::VERSION,
    sessions::FORMATS,
    store::{Access, Location, Size, Store, StoreError, try_writing},
};

use crate::{
    answering::{self, Outcome},
    desk::{Desk, Flags},
    failure::{FAILED, Failure},
    home::Home,
    json::{Object, list, quoted},
    output::{self, harmless},
    places::{AGENTS, AgentPlace},
    settings::Settings,
};

/// What is known of the store.
struct About {
    location: Location,
    /// Why it cannot be written, if it cannot.
    unwritable: Option<String>,
    state: State,
}

/// Whether the store can be read, and what is in it.
enum State {
    /// It is not there yet: the first command that saves something makes it.
    Missing,
    /// It is there and cannot be opened.
    Unusable(String),
    Open {
        conversations: usize,
        size: Size,
        schema: Option<i64>,
    },
}

/// Who would answer in a conversation, if that can be told.
struct Answers {
    /// The active conversation of this folder; none for a new one.
    conversation: Option<ConversationId>,
    outcome: Result<(Outcome, Option<String>), String>,
}

impl Answers {
    fn told(desk: &Desk, active: Option<(ConversationId, &Wanted)>) -> Self {
        let plain = |failure: Failure| match failure.hint() {
            Some(hint) => format!("{failure} ({hint})"),
            None => failure.to_string(),
        };
        let outlook = answering::outlook(desk, active.map(|(_, recorded)| recorded));
        Self {
            conversation: active.map(|(id, _)| id),
            outcome: outlook.map(|(outcome, trouble)| (outcome, trouble.map(plain))).map_err(plain),
        }
    }

    fn in_words(&self) -> Vec<String> {
        let title = match self.conversation {
            None => String::from("answers:  "),
            Some(id) => format!("          in {id}, which is active here: "),
        };
        match &self.outcome {
            Ok((outcome, trouble)) => {
                let mut lines = vec![format!("{title}{}", outcome.in_words("using"))];
                lines.extend(trouble.as_ref().map(|trouble| format!("          cannot answer: {trouble}")));
                lines
            }
            Err(trouble) => vec![format!("{title}no provider: {trouble}")],
        }
    }

    fn as_json(&self) -> String {
        let object = Object::new().text_or_null("conversation", self.conversation);
        match &self.outcome {
            Ok((outcome, trouble)) => {
                outcome.with_parts(object).text_or_null("error", trouble.as_deref()).finish()
            }
            Err(trouble) => object.text("error", trouble).finish(),
        }
    }
}

/// Who would answer in a new conversation, and in the active one of this folder.
fn answers(flags: &Flags) -> Vec<Answers> {
    // Settings that cannot be read are told of elsewhere.
    let Ok(desk) = Desk::new(flags) else { return Vec::new() };
    let mut all = vec![Answers::told(&desk, None)];
    let active = || {
        let store = desk.read_store().ok()??;
        let id = desk.active(&*store).ok()??;
        let conversation = Conversation::open_read_only(Arc::from(store), Arc::new(SystemClock), id).ok()?;
        Some((id, Wanted::of(&conversation)))
    };
    if let Some((id, recorded)) = active() {
        all.push(Answers::told(&desk, Some((id, &recorded))));
    }
    all
}

/// Tells about this installation. The exit code says whether the store can be read.
pub fn tell(json: bool, flags: &Flags) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    let settings = Settings::load(&home.config);
    // Settings that cannot be read do not hide what the environment says.
    let set = match &settings {
        Ok(settings) => settings.value("store").map(str::to_owned),
        Err(_) => std::env::var("REJOIN_STORE").ok(),
    };
    let set = set.and_then(|store| store.parse().ok());
    let location = flags.store.clone().or(set).unwrap_or_else(|| home.store());
    let about = About { unwritable: unwritable(&location), state: state(&location), location };
    let trouble = settings.err().map(|failure| failure.to_string());
    let answers = answers(flags);
    if json {
        output::json_data(&as_json(&about, &home, trouble.as_deref(), &answers))?;
    } else {
        for line in for_people(&about, &home, trouble.as_deref(), &answers) {
            output::data(&harmless(&line))?;
        }
    }
    let is_unusable = matches!(about.state, State::Unusable(_));
    Ok(if is_unusable { FAILED } else { 0 })
}

fn state(location: &Location) -> State {
    // Memory would be made by looking at it.
    if *location == Location::Memory {
        return State::Missing;
    }
    let store = match open_store(location, Access::Read) {
        Ok(store) => store,
        Err(StoreError::Missing(_)) => return State::Missing,
        Err(why) => return State::Unusable(why.to_string()),
    };
    match look(&*store) {
        Ok(state) => state,
        Err(why) => State::Unusable(why.to_string()),
    }
}

fn look(store: &dyn Store) -> Result<State, StoreError> {
    Ok(State::Open {
        conversations: store.ids("", usize::MAX)?.len(),
        size: store.size()?,
        schema: store.schema(),
    })
}

/// Why a store cannot be written, found out by writing to it; what was written is taken back.
fn unwritable(location: &Location) -> Option<String> {
    let why = try_writing(location).err()?;
    let place = match location {
        Location::Sqlite(path) | Location::Jsonl(path) => path.display().to_string(),
        Location::Memory => return None,
    };
    Some(format!("{place}: {why}"))
}

fn readers_and_writers() -> (Vec<&'static str>, Vec<&'static str>) {
    let read = FORMATS.iter().filter(|format| format.read.is_some()).map(|format| format.name);
    let written = FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name);
    (read.collect(), written.collect())
}

fn program() -> String {
    std::env::current_exe().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

fn for_people(about: &About, home: &Home, trouble: Option<&str>, answers: &[Answers]) -> Vec<String> {
    let (read, written) = readers_and_writers();
    let dialects: Vec<&str> = Dialect::all().map(Dialect::name).collect();
    let mut lines = vec![
        format!("rejoin {}, {}", env!("CARGO_PKG_VERSION"), program()),
        format!("dialects: {}", dialects.join(", ")),
        format!("reads:    {}", read.join(", ")),
        format!("writes:   {}", written.join(", ")),
    ];
    let there = if home.config.is_file() { "" } else { " (not there)" };
    lines.push(format!("settings: {}{there}", home.config.display()));
    lines.extend(trouble.map(|trouble| format!("          {trouble}")));
    lines.extend(answers.iter().flat_map(Answers::in_words));
    lines.push(format!("store:    {}", about.location));
    lines.push(match &about.state {
        State::Missing => String::from("          not there yet; whatever is saved first makes it"),
        State::Unusable(why) => format!("          cannot be read: {why}"),
        State::Open { conversations, size, schema } => {
            let schema = schema.map_or_else(String::new, |schema| format!(", schema {schema}"));
            format!(
                "          {}; record {}, index {}; entries {VERSION}{schema}",
                output::plural(*conversations as u64, "conversation"),
                bytes(size.record),
                bytes(size.index),
            )
        }
    });
    lines.push(match &about.unwritable {
        None => String::from("          can be written"),
        Some(why) => format!("          cannot be written: {why}"),
    });
    let folders = |agent: &'static AgentPlace| agent.folders().into_iter().map(|folder| (agent.name, folder));
    for (agent, folder) in AGENTS.iter().flat_map(folders) {
        let there = if folder.is_dir() { "" } else { " (not there)" };
        lines.push(format!("{agent}: {}{there}", folder.display()));
    }
    lines
}

/// `1.4 MB`
fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} bytes"),
        1000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

fn as_json(about: &About, home: &Home, trouble: Option<&str>, answers: &[Answers]) -> String {
    let (read, written) = readers_and_writers();
    let names = |names: Vec<&str>| list(names.into_iter().map(quoted));
    let store = Object::new()
        .text("location", &about.location)
        .flag("there", !matches!(about.state, State::Missing))
        .flag("writable", about.unwritable.is_none())
        .text_or_null("unwritable", about.unwritable.as_deref());
    let store = match &about.state {
        State::Missing => store,
        State::Unusable(why) => store.text("error", why),
        State::Open { conversations, size, schema } => store
            .count("conversations", *conversations)
            .number("record_bytes", size.record)
            .number("index_bytes", size.index)
            .raw("schema", &schema.map_or_else(|| String::from("null"), |schema| schema.to_string()))
            .text("entries", VERSION),
    };
    let settings = Object::new()
        .text("path", home.config.to_string_lossy())
        .flag("there", home.config.is_file())
        .text_or_null("error", trouble);
    Object::new()
        .text("version", env!("CARGO_PKG_VERSION"))
        .text("program", program())
        .raw("dialects", &names(Dialect::all().map(Dialect::name).collect()))
        .raw("reads", &names(read))
        .raw("writes", &names(written))
        .raw("settings", &settings.finish())
        .list("answers", answers.iter().map(Answers::as_json))
        .raw("store", &store.finish())
        .finish()
}
