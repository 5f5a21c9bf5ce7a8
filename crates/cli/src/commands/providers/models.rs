//! `rejoin models`: what a provider offers.

use rejoin::engine::provider::{Model, catalogue};

use crate::{
    answering::{self, Outcome},
    args::{Models, ModelsInfoArguments, ModelsListArguments, Talk},
    commands::block_on,
    desk::{Desk, Flags},
    failure::Failure,
    json::Object,
    output::{self, harmless},
};

/// Lists models, or tells about one.
pub fn run(command: Models, flags: &Flags) -> Result<u8, Failure> {
    match command {
        Models::List(arguments) => list(&arguments, flags),
        Models::Info(arguments) => info(&arguments, flags),
    }
}

/// Every model of a provider, with what is known of its size.
fn models(
    provider: Option<String>,
    base_url: Option<String>,
    flags: &Flags,
) -> Result<(String, Vec<Model>), Failure> {
    let desk = Desk::new(flags)?;
    let named = provider.is_some();
    let talk = Talk { provider, base_url, ..Talk::default() };
    let answering = answering::choose(&desk, &talk, None)?;
    if let Some(Outcome { provider, .. }) = answering.outcome.as_ref().filter(|_| !named) {
        let line = format!("asking {} ({})", harmless(&provider.value), harmless(&provider.from));
        output::talk(&format!("{} {line}", output::paint("note:", output::NOTE)));
    }
    let name = answering.provider.endpoint().provider.clone();
    let models = block_on(answering.provider.models())?;
    let mut models = models.map_err(|error| Failure::Provider(Box::new(error)))?;
    for model in &mut models {
        let known = catalogue::known(&model.id);
        model.window = model.window.or(known.map(|family| family.window));
        model.max_output = model.max_output.or(known.map(|family| family.max_output));
    }
    Ok((name, models))
}

fn list(arguments: &ModelsListArguments, flags: &Flags) -> Result<u8, Failure> {
    let (provider, models) = models(arguments.provider.clone(), arguments.base_url.clone(), flags)?;
    for model in &models {
        if arguments.json {
            output::raw_data(&as_json(&provider, model))?;
        } else {
            let window = model.window.map(|tokens| format!("{tokens} tokens")).unwrap_or_default();
            output::data(
                format!("{:<44} {}", harmless(&model.id), output::paint(&window, output::DIM)).trim_end(),
            )?;
        }
    }
    if models.is_empty() && !arguments.json {
        output::talk(&format!("{} lists no models.", harmless(&provider)));
    }
    Ok(0)
}

fn info(arguments: &ModelsInfoArguments, flags: &Flags) -> Result<u8, Failure> {
    let (provider, models) = models(arguments.provider.clone(), arguments.base_url.clone(), flags)?;
    let Some(model) = models.iter().find(|model| model.id == arguments.model) else {
        let near: Vec<&str> = models
            .iter()
            .filter(|model| model.id.contains(&arguments.model))
            .map(|model| &*model.id)
            .take(5)
            .collect();
        let near =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        return Err(Failure::NoModel {
            model: arguments.model.clone(),
            provider,
            hint: format!("`rejoin models list` shows what there is{near}"),
        });
    };
    if arguments.json {
        output::raw_data(&as_json(&provider, model))?;
        return Ok(0);
    }
    let number =
        |number: Option<u64>| number.map_or_else(|| String::from("not known"), |n| format!("{n} tokens"));
    output::data(&harmless(&model.id))?;
    output::data(&format!("  Provider: {}", harmless(&provider)))?;
    if let Some(name) = &model.name {
        output::data(&format!("  Name: {}", harmless(name)))?;
    }
    output::data(&format!("  Window: {}", number(model.window)))?;
    output::data(&format!("  Longest answer: {}", number(model.max_output)))?;
    Ok(0)
}

fn as_json(provider: &str, model: &Model) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    Object::new()
        .text("id", &model.id)
        .text("provider", provider)
        .text_or_null("name", model.name.as_deref())
        .raw_if("window", number(model.window).as_deref())
        .raw_if("max_output", number(model.max_output).as_deref())
        .finish()
}
