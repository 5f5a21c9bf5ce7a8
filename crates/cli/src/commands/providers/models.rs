//! `rejoin models`: what a provider offers, and what is known of a model without asking anybody.

use rejoin::engine::provider::{Model, catalogue, choose::OFFLINE};

use crate::{
    answering::{self, Outcome},
    args::{Models, ModelsInfoArguments, ModelsListArguments, Talk},
    commands::block_on,
    desk::{Desk, Flags},
    failure::Failure,
    json::{Object, list as list_of, quoted},
    output::{self, harmless},
};

/// Lists models, or tells about one.
pub fn run(command: Models, flags: &Flags) -> Result<u8, Failure> {
    match command {
        Models::List(arguments) => list(&arguments, flags),
        Models::Info(arguments) => info(&arguments, flags),
    }
}

/// The models that a provider lists.
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
    Ok((name, models.map_err(|error| Failure::Provider(Box::new(error)))?))
}

/// What is known of a model: as its provider says, else as the built-in table has it.
struct Facts {
    id: String,
    name: Option<String>,
    window: Option<Fact>,
    max_output: Option<Fact>,
    /// The provider that lists the model; none if no provider was asked, or none lists it.
    provider: Option<String>,
}

/// A number of tokens.
#[derive(Clone, Copy)]
struct Fact {
    tokens: u64,
    /// Whether only the built-in table says so.
    from_table: bool,
}

impl Facts {
    /// Of a model that a provider lists.
    fn listed(provider: &str, model: Model) -> Self {
        let known = Self::known(&model.id);
        let told = |tokens: Option<u64>| tokens.map(|tokens| Fact { tokens, from_table: false });
        Self {
            name: model.name,
            window: told(model.window).or(known.as_ref().and_then(|known| known.window)),
            max_output: told(model.max_output).or(known.as_ref().and_then(|known| known.max_output)),
            provider: Some(provider.to_owned()),
            id: model.id,
        }
    }

    /// Of a model that the built-in table knows.
    fn known(id: &str) -> Option<Self> {
        let family = catalogue::known(id)?;
        let fact = |tokens| Some(Fact { tokens, from_table: true });
        Some(Self {
            id: id.to_owned(),
            name: None,
            window: fact(family.window),
            max_output: fact(family.max_output),
            provider: None,
        })
    }

    fn as_json(&self) -> String {
        let number = |fact: Option<Fact>| fact.map(|fact| fact.tokens.to_string());
        let facts = [("window", self.window), ("max_output", self.max_output)];
        let from_table = facts.iter().filter(|(_, fact)| fact.is_some_and(|fact| fact.from_table));
        Object::new()
            .text("id", &self.id)
            .text_or_null("provider", self.provider.as_deref())
            .text_or_null("name", self.name.as_deref())
            .raw_if("window", number(self.window).as_deref())
            .raw_if("max_output", number(self.max_output).as_deref())
            .raw("from_table", &list_of(from_table.map(|(name, _)| quoted(name))))
            .finish()
    }

    /// Prints it for people. `unasked` says why no provider was asked.
    fn show(&self, unasked: Option<&str>) -> Result<(), Failure> {
        let fact = |fact: Option<Fact>| match fact {
            None => String::from("not known"),
            Some(Fact { tokens, from_table: false }) => format!("{tokens} tokens"),
            Some(Fact { tokens, from_table: true }) => format!("{tokens} tokens (from the built-in table)"),
        };
        output::data(&harmless(&self.id))?;
        match (&self.provider, unasked) {
            (Some(provider), _) => output::data(&format!("  Provider: {}", harmless(provider)))?,
            (None, why) => {
                let why = why.map_or_else(String::new, |why| format!(": {}", harmless(why)));
                output::data(&format!("  Provider: not asked{why}"))?;
            }
        }
        if let Some(name) = &self.name {
            output::data(&format!("  Name: {}", harmless(name)))?;
        }
        output::data(&format!("  Window: {}", fact(self.window)))?;
        output::data(&format!("  Longest answer: {}", fact(self.max_output)))
    }
}

fn list(arguments: &ModelsListArguments, flags: &Flags) -> Result<u8, Failure> {
    let (provider, models) = models(arguments.provider.clone(), arguments.base_url.clone(), flags)?;
    if models.is_empty() && !arguments.json {
        output::talk(&format!("{} lists no models.", harmless(&provider)));
    }
    for model in models {
        let facts = Facts::listed(&provider, model);
        if arguments.json {
            output::json_data(&facts.as_json())?;
        } else {
            let window = facts.window.map(|fact| format!("{} tokens", fact.tokens)).unwrap_or_default();
            output::data(
                format!("{:<44} {}", harmless(&facts.id), output::paint(&window, output::DIM)).trim_end(),
            )?;
        }
    }
    Ok(0)
}

fn info(arguments: &ModelsInfoArguments, flags: &Flags) -> Result<u8, Failure> {
    let asked = models(arguments.provider.clone(), arguments.base_url.clone(), flags);
    let known = Facts::known(&arguments.model);
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
            let hint = format!("`rejoin models list` shows what there is{near}");
            match (models.into_iter().find(|model| model.id == arguments.model), known) {
                (Some(model), _) => (Facts::listed(&provider, model), None),
                // The built-in responder was asked only because there is no key for anybody else.
                (None, Some(known)) if provider == OFFLINE && arguments.provider.is_none() => {
                    (known, Some(String::from("no key was found")))
                }
                (None, _) => {
                    return Err(Failure::NoModel { model: arguments.model.clone(), provider, hint });
                }
            }
        }
        // No key, or no answer: what is known is told all the same.
        (Err(Failure::Provider(why)), Some(known)) => (known, Some(why.to_string())),
        (Err(failure), _) => return Err(failure),
    };
    if arguments.json {
        output::json_data(&facts.as_json())?;
    } else {
        facts.show(unasked.as_deref())?;
    }
    Ok(0)
}
