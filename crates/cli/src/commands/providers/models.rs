//! `rejoin models`: lists a provider's models, and shows known facts about a model without asking a provider.

use rejoin::{
    engine::provider::{Model, offline},
    models::{ModelFacts, TokenCount},
};

use crate::{
    answering::{self, Outcome},
    args::{AskedProvider, Models, ModelsInfoArguments, ModelsListArguments, Talk},
    commands::block_on,
    context::{CliContext, Flags},
    failure::Failure,
    output::{self, harmless},
    windows,
};

pub fn run(command: Models, flags: &Flags) -> Result<u8, Failure> {
    match command {
        Models::List(arguments) => list(&arguments, flags),
        Models::Info(arguments) => info(&arguments, flags),
    }
}

/// Asks a provider for its name and its models.
fn models(asked: &AskedProvider, flags: &Flags) -> Result<(String, Vec<Model>), Failure> {
    let cli = CliContext::new(flags)?;
    let AskedProvider { provider, base_url } = asked.clone();
    let named = provider.is_some();
    let talk = Talk { provider, base_url, ..Talk::default() };
    let answering = answering::choose(&cli, &talk, None)?;
    if let Some(Outcome { provider, .. }) = answering.outcome.as_ref().filter(|_| !named) {
        output::note(harmless(&format!("asking {} ({})", provider.value, provider.from)));
    }
    let name = answering.provider.endpoint().provider.clone();
    let models =
        block_on(answering.provider.models())?.map_err(|error| Failure::Provider(Box::new(error)))?;
    // The built-in responder tells a turn its window itself.
    if name != offline::NAME {
        windows::remember(&cli.home, answering.provider.endpoint(), &models);
    }
    Ok((name, models))
}

/// Prints the known facts about a model. `unasked` says why no provider was asked.
fn show(facts: &ModelFacts, unasked: Option<&str>) -> Result<(), Failure> {
    let count = |count: Option<TokenCount>| match count {
        None => String::from("not known"),
        Some(TokenCount { tokens, from_table: false }) => format!("{tokens} tokens"),
        Some(TokenCount { tokens, from_table: true }) => format!("{tokens} tokens (from the built-in table)"),
    };
    let provider = facts.provider.as_deref().map_or_else(
        || format!("not asked{}", unasked.map_or_else(String::new, |why| format!(": {}", harmless(why)))),
        harmless,
    );
    output::data(&format!("{}\n  Provider: {provider}", harmless(&facts.id)))?;
    if let Some(name) = &facts.name {
        output::data(&format!("  Name: {}", harmless(name)))?;
    }
    output::data(&format!("  Window: {}", count(facts.window)))?;
    output::data(&format!("  Longest answer: {}", count(facts.max_output)))
}

fn list(arguments: &ModelsListArguments, flags: &Flags) -> Result<u8, Failure> {
    let (provider, models) = models(&arguments.asked, flags)?;
    print(&provider, models, arguments.json)?;
    Ok(0)
}

/// Prints the models that a provider listed.
pub fn print(provider: &str, models: Vec<Model>, json: bool) -> Result<(), Failure> {
    if models.is_empty() && !json {
        output::talk(&format!("{} lists no models.", harmless(provider)));
    }
    for model in models {
        let facts = ModelFacts::listed(provider, model);
        if json {
            output::json_data(&facts.to_json())?;
        } else {
            let window = facts.window.map(|fact| format!("{} tokens", fact.tokens)).unwrap_or_default();
            output::data(
                format!("{:<44} {}", harmless(&facts.id), output::paint(&window, output::DIM)).trim_end(),
            )?;
        }
    }
    Ok(())
}

fn info(arguments: &ModelsInfoArguments, flags: &Flags) -> Result<u8, Failure> {
    let asked = models(&arguments.asked, flags);
    let known = ModelFacts::known(&arguments.model);
    let (facts, unasked) = match (asked, known) {
        (Ok((provider, models)), known) => {
            let near: Vec<&str> = models
                .iter()
                .filter(|model| model.id.contains(&arguments.model))
                .map(|model| &*model.id)
                .take(5)
                .collect();
            let near =
                if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
            let hint = format!("`rejoin models list` lists them{near}");
            match (models.into_iter().find(|model| model.id == arguments.model), known) {
                (Some(model), _) => (ModelFacts::listed(&provider, model), None),
                // The built-in responder was asked only because there is no key for another provider.
                (None, Some(known)) if provider == offline::NAME && arguments.asked.provider.is_none() => {
                    (known, Some(String::from("no key was found")))
                }
                (None, _) => {
                    let what = format!("{provider} has no model `{}`", arguments.model);
                    return Err(Failure::failed(what, hint));
                }
            }
        }
        // Without a key or an answer, the known facts are still shown.
        (Err(Failure::Provider(why)), Some(known)) => (known, Some(why.to_string())),
        (Err(failure), _) => return Err(failure),
    };
    if arguments.json {
        output::json_data(&facts.to_json())?;
    } else {
        show(&facts, unasked.as_deref())?;
    }
    Ok(0)
}
