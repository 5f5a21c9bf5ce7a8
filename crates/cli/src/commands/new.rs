//! `rejoin new`: start a conversation and make it the active one of this folder.

use rejoin::{engine::New, shape};

use super::providers;
use crate::{args::NewArguments, commands::prelude::*};

pub fn run(arguments: &NewArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = CliContext::new(flags)?;
    let given = |flag: &Option<String>| flag.clone().filter(|text| !text.trim().is_empty());
    // Settings and environment are not recorded: they count when something is said, as they are then.
    let new = New {
        title: given(&arguments.title),
        provider: given(&arguments.provider),
        model: given(&arguments.model),
        directory: Some(desk.folder.to_string_lossy().into_owned()).filter(|folder| !folder.is_empty()),
        scope: desk.scope.new_scope(),
    };
    if let Some(provider) = &new.provider {
        providers::check_name(provider, desk.settings.value("base_url"), Some("--provider"))?;
    }
    let store = desk.write_store()?;
    let id = context::writer(&*store, "rejoin new").create(&new)?;
    context::settle(&*store);
    // The conversation is there, whatever becomes of the pointer.
    if let Err(failure) = desk.pointer().set(id) {
        failure.say();
    }
    if arguments.json {
        output::json_data(&shape::created(id, &new))?;
    } else {
        output::raw_data(&id.to_string())?;
    }
    Ok(0)
}
