//! `rejoin store`: shows the store's location, size and schema, and its options.

use std::time::Instant;

use rejoin::{
    shape::{self, StoreFacts},
    store::{EnableOutcome, Location, Query, Store, StoreError},
};

use crate::{
    amounts::{bytes, count},
    args::{StoreArguments, StoreCommand},
    context::{self, CliContext, Flags},
    failure::Failure,
    output::{self, harmless},
};

pub fn run(arguments: &StoreArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    match &arguments.command {
        None => show(&cli, arguments.json)?,
        Some(StoreCommand::Enable { option, json }) => enable(&cli, option, *json || arguments.json)?,
    }
    Ok(0)
}

fn show(cli: &CliContext, json: bool) -> Result<(), Failure> {
    let store = cli.read_store()?;
    let facts =
        store.as_deref().map(facts).transpose().map_err(|why| context::unusable(&cli.location, why))?;
    if json {
        return output::json_data(&shape::store(&cli.location, facts.as_ref()));
    }
    output::data(&format!("store:         {}", harmless(&cli.location.to_string())))?;
    let Some(facts) = facts else {
        return output::data("               does not exist yet; the first conversation creates it");
    };
    output::data(&format!("conversations: {}", count(facts.conversations)))?;
    let (record, index) = (bytes(facts.size.record), bytes(facts.size.index));
    output::data(&format!("size:          record {record}, index {index}"))?;
    if let Some(schema) = facts.schema {
        output::data(&format!("schema:        {schema}"))?;
    }
    for (number, option) in facts.options.iter().enumerate() {
        let title = if number == 0 { "options:" } else { "" };
        let state = if option.enabled { "on " } else { "off" };
        output::data(&format!("{title:<14} {:<10} {state}  {}", option.name, option.about))?;
    }
    Ok(())
}

fn facts(store: &dyn Store) -> Result<StoreFacts, StoreError> {
    Ok(StoreFacts {
        conversations: store.list(&Query { limit: Some(1), ..Query::default() })?.total,
        size: store.size()?,
        schema: store.schema(),
        options: store.options()?,
    })
}

fn enable(cli: &CliContext, option: &str, json: bool) -> Result<(), Failure> {
    if !matches!(cli.location, Location::Postgres(_)) {
        let why = "it has no options: stores in SQLite and JSONL always have an index for searches, and need no partitions";
        let what =
            format!("cannot enable {} in {}: {why}", harmless(option), harmless(&cli.location.to_string()));
        return Err(Failure::failed(what, "name a store in PostgreSQL: `--store postgres://…`"));
    }
    if !cli.scope.is_open() {
        let what =
            format!("cannot enable {} in a scope: an option concerns the whole store", harmless(option));
        return Err(Failure::usage(what, "leave out `--scope`"));
    }
    let store = cli.write_store()?;
    let begun = Instant::now();
    let spinner = output::spinner("enabling");
    let enabled = store.enable(option);
    spinner.finish_and_clear();
    let enabled = enabled.map_err(|why| context::unusable(&cli.location, why))?;
    let time = begun.elapsed();
    if json {
        return output::json_data(&shape::enabled(option, enabled, time));
    }
    match enabled {
        EnableOutcome::AlreadyEnabled => output::data(&format!("{option} is already enabled")),
        EnableOutcome::Enabled => {
            let options = store.options().map_err(|why| context::unusable(&cli.location, why))?;
            let about = options.iter().find(|one| one.name == option).map_or("", |one| one.about);
            output::data(&format!("{option} is enabled: {about} ({:.1} s)", time.as_secs_f32()))
        }
    }
}
