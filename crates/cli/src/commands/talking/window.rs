//! The settings of a model's window.

use std::{sync::Arc, time::Duration};

use rejoin::{
    CompactMode, Conversation, Endpoint, Provider, ProviderChoice, PrunePolicy, Window, WindowSettings,
};

use crate::{
    answering::{self, ConnectedProvider},
    args::Talk,
    context::CliContext,
    windows,
};

/// The provider that writes summaries, if the settings name a model for them; otherwise the conversation's own provider does.
pub fn summariser(
    cli: &CliContext,
    talk: &Talk,
    conversation: &Conversation,
    answering: &ConnectedProvider,
) -> Option<Arc<dyn Provider>> {
    let model = cli.settings.value("compact.model")?;
    answering.outcome.as_ref()?;
    let talk = Talk { model: Some(model.to_owned()), ..talk.clone() };
    match answering::choose_for_turn(cli, &talk, Some(&ProviderChoice::of(conversation))) {
        Ok(chosen) => Some(chosen.provider),
        Err(why) => {
            tracing::warn!("`compact.model` cannot be used: {why}");
            None
        }
    }
}

/// How conversations are made to fit their model's window, by the settings.
pub fn fitting(cli: &CliContext, endpoint: &Endpoint) -> WindowSettings {
    let settings = &cli.settings;
    let usual = WindowSettings::default();
    let number = |name: &str| settings.number(name);
    let count = |name: &str| number(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let share = |name: &str| settings.value(name).and_then(|share| share.parse::<f64>().ok());
    let turns = count("max_tokens").map(|max_tokens| {
        let usual = Window::default();
        Window {
            max_tokens,
            min_retain_turns: count("min_retain_turns").unwrap_or(usual.min_retain_turns),
            prune_threshold: share("prune_threshold").unwrap_or(usual.prune_threshold),
        }
    });
    WindowSettings {
        context_window: number("context_window").or_else(|| windows::reported_window(&cli.home, endpoint)),
        compact: match settings.value("compact") {
            Some("off") => CompactMode::Off,
            _ => CompactMode::Auto,
        },
        compact_threshold: share("compact_threshold").unwrap_or(usual.compact_threshold),
        tail_tokens: number("compact.tail_tokens"),
        turns,
        prune: PrunePolicy {
            keep_last: count("prune.keep_last"),
            max_age: number("prune.max_age_seconds").map(Duration::from_secs),
            token_budget: number("prune.token_budget"),
            batch: count("prune.batch"),
        },
        ..usual
    }
}
