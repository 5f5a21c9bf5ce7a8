//! The settings of a model's window.

use std::time::Duration;

use rejoin::{CompactMode, PrunePolicy, Window, WindowSettings};

use crate::settings::Settings;

/// How conversations are made to fit their model's window, by the settings.
pub fn fitting(settings: &Settings) -> WindowSettings {
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
        context_window: number("context_window"),
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
