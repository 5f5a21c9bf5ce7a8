//! `rejoin history show --tokens`: shows what fills the window of a model.

use std::io::{self, IsTerminal as _};

use rejoin::{
    Endpoint, Provider as _, ProviderChoice, ServiceAddress,
    engine::Recorded,
    history::{
        Shown,
        tokens::{PARTS, WindowUse},
    },
    providers::{
        catalogue,
        offline::{self, Offline},
    },
    record::Content,
};

use crate::{
    amounts::{bar, bar_columns, count},
    context::CliContext,
    failure::Failure,
    output::{self, harmless},
    windows,
};

/// The width of bars, in columns.
const COLUMNS: usize = 32;

/// Counts the tokens that a model would get.
pub fn used(cli: &CliContext, recorded: &Recorded, shown: &[Shown<'_>], model: Option<&str>) -> WindowUse {
    let endpoint = Endpoint { model: model.unwrap_or("unknown").to_owned(), ..endpoint(recorded) };
    let told = match &*endpoint.provider {
        offline::NAME => Offline::new(&endpoint.model).window(),
        _ => windows::reported_window(&cli.home, &endpoint),
    };
    let window = catalogue::window(&endpoint.model, told, cli.settings.number("context_window"));
    WindowUse::of(&recorded.session, &recorded.entries, shown, &endpoint.model, window)
}

/// The provider that the newest request went to, without its model.
fn endpoint(recorded: &Recorded) -> Endpoint {
    let wanted = recorded.entries.iter().rev().find_map(|entry| match Content::of(entry) {
        Content::Context(context) => ProviderChoice::in_context(&context),
        _ => None,
    });
    let ProviderChoice { provider, base_url, .. } = wanted.unwrap_or_default();
    let address = ServiceAddress { base_url, ..ServiceAddress::default() };
    Endpoint { provider: provider.unwrap_or_default(), address, ..Endpoint::default() }
}

pub fn run(cli: &CliContext, used: &WindowUse, json: bool) -> Result<(), Failure> {
    if json {
        return output::json_data(&used.to_json());
    }
    cli.show(&for_people(used))
}

fn for_people(used: &WindowUse) -> String {
    let how = match (used.exact, used.corrected) {
        (true, false) => "counted",
        (true, true) => "counted, then corrected by the provider's count",
        (false, false) => "estimated",
        (false, true) => "estimated, then corrected by the provider's count",
    };
    let total = used.total();
    let share = |tokens: u64, of: u64| format!("{:.0}%", tokens as f64 / of.max(1) as f64 * 100.0);
    let model = harmless(&used.model);
    let mut text = match used.window {
        Some(window) => format!(
            "{} of {} tokens in the window of {model} ({}), {how}\n",
            count(total),
            count(window),
            share(total, window)
        ),
        None => format!(
            "{} tokens, {how}; the window of {model} is not known: `rejoin config set context_window N`\n",
            count(total)
        ),
    };
    let largest = used.parts.iter().copied().max().unwrap_or(0);
    // Print only numbers to a program or a file.
    let bars = io::stdout().is_terminal();
    // The other columns hold a name, a count and a share.
    let columns = bar_columns(COLUMNS, 34);
    for (name, tokens) in PARTS.iter().zip(used.parts) {
        text.push_str(&format!("  {name:<12}  "));
        if bars {
            text.push_str(&format!("{:<columns$}  ", bar(tokens, largest, columns)));
        }
        text.push_str(&format!("{:>9}  {:>5}\n", count(tokens), share(tokens, total)));
    }
    if let Some(last) = used.last_request {
        text.push_str(&format!("The provider counted {} tokens in the last request.\n", count(last.input)));
    }
    text
}
