//! The windows that providers report with their lists of models, so that a turn need not request them.

use rejoin::{
    engine::provider::{Endpoint, Model, http::public},
    store::files::PrivateFolder,
};

use crate::home::Home;

/// The file, in the data folder: one `provider address model tokens` per line. The address is [`OWN`] for the provider's own.
const FILE: &str = "windows";
const OWN: &str = "-";
/// The most lines. Beyond that, the oldest are dropped, so that the file stays small.
const MOST_LINES: usize = 5_000;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The window of a model as its provider reported it, if it was asked on this machine.
pub fn reported_window(home: &Home, endpoint: &Endpoint) -> Option<u64> {
    let key = key(endpoint, &endpoint.model)?;
    lines(home).iter().rev().find_map(|line| line.strip_prefix(&key)?.parse().ok())
}

/// The models whose windows providers reported on this machine.
pub fn models(home: &Home) -> Vec<String> {
    lines(home).iter().filter_map(|line| Some(line.split(' ').nth(2)?.to_owned())).collect()
}

/// Keeps a provider's list. If it cannot be written, the built-in table is used.
pub fn remember(home: &Home, endpoint: &Endpoint, models: &[Model]) {
    let reported: Vec<(String, u64)> = models
        .iter()
        .filter_map(|model| Some((key(endpoint, &model.id)?, model.window.filter(|window| *window > 0)?)))
        .collect();
    if reported.is_empty() {
        return;
    }
    let before = lines(home);
    let mut all: Vec<String> = before.clone();
    all.retain(|line| !reported.iter().any(|(key, _)| line.starts_with(key)));
    all.extend(reported.iter().map(|(key, window)| format!("{key}{window}")));
    if all == before {
        return;
    }
    let text: String =
        all[all.len().saturating_sub(MOST_LINES)..].iter().map(|line| format!("{line}\n")).collect();
    let folder = PrivateFolder::new(&home.data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(FILE, text.as_bytes())) {
        tracing::debug!("the window sizes could not be saved: {why}");
    }
}

fn lines(home: &Home) -> Vec<String> {
    let bytes = PrivateFolder::new(&home.data).read(FILE, MOST_BYTES).ok().flatten().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The beginning of a model's line; `None` for names that do not fit on a line.
fn key(endpoint: &Endpoint, model: &str) -> Option<String> {
    let address = endpoint.address.base_url.as_deref().map_or_else(|| OWN.to_owned(), public);
    let parts = [endpoint.provider.as_str(), &address, model];
    let fits = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_control() || c.is_whitespace());
    parts.iter().all(|part| fits(part)).then(|| format!("{} ", parts.join(" ")))
}
