//! `rejoin new`: starts a conversation and makes it the active one of this folder.

use rejoin::{engine::New, shape};

use super::providers;
use crate::{args::NewArguments, commands::prelude::*};

pub fn run(arguments: &NewArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let given = |flag: &Option<String>| flag.clone().filter(|text| !text.trim().is_empty());
    // Do not record settings and environment: their values at the time of the first turn apply.
    let new = New {
        title: given(&arguments.title),
        provider: given(&arguments.provider),
        model: given(&arguments.model),
        directory: Some(cli.folder.to_string_lossy().into_owned()).filter(|folder| !folder.is_empty()),
        scope: cli.scope.new_scope(),
    };
    if let Some(provider) = &new.provider {
        providers::check_name(provider, cli.settings.value("base_url"), Some("--provider"))?;
    }
    let store = cli.write_store()?;
    let id = context::writer(&*store, "rejoin new").create(&new)?;
    context::settle(&*store);
    // The conversation exists even if setting the pointer fails.
    if let Err(failure) = cli.pointer().set(id).map_err(Failure::from) {
        failure.say();
    }
    if arguments.json {
        output::json_data(&shape::created(id, &new))?;
    } else {
        output::raw_data(&id.to_string())?;
    }
    Ok(0)
}
