//! The windows that providers tell when they are asked for their models, so that a turn need not ask.

use rejoin::{
    engine::provider::{Endpoint, Model, http::public},
    store::files::PrivateFolder,
};

use crate::home::Home;

/// The file, in the data folder: one `provider address model tokens` per line. The address is [`OWN`] if it is the provider's own.
const FILE: &str = "windows";
const OWN: &str = "-";
/// Older lines are dropped beyond this, so that the file stays small.
const MOST_LINES: usize = 5_000;
/// The largest file that is read.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The window of a model as its provider told it, if it was asked on this machine.
pub fn told(home: &Home, endpoint: &Endpoint) -> Option<u64> {
    let key = key(endpoint, &endpoint.model)?;
    lines(home).iter().rev().find_map(|line| line.strip_prefix(&key)?.parse().ok())
}

/// The models that providers told about on this machine.
pub fn models(home: &Home) -> Vec<String> {
    lines(home).iter().filter_map(|line| Some(line.split(' ').nth(2)?.to_owned())).collect()
}

/// Keeps what a provider told. If that cannot be written, the built-in table is used.
pub fn remember(home: &Home, endpoint: &Endpoint, models: &[Model]) {
    let told: Vec<(String, u64)> = models
        .iter()
        .filter_map(|model| Some((key(endpoint, &model.id)?, model.window.filter(|window| *window > 0)?)))
        .collect();
    if told.is_empty() {
        return;
    }
    let before = lines(home);
    let mut all: Vec<String> = before.clone();
    all.retain(|line| !told.iter().any(|(key, _)| line.starts_with(key)));
    all.extend(told.iter().map(|(key, window)| format!("{key}{window}")));
    if all == before {
        return;
    }
    let text: String =
        all[all.len().saturating_sub(MOST_LINES)..].iter().map(|line| format!("{line}\n")).collect();
    let folder = PrivateFolder::new(&home.data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(FILE, text.as_bytes())) {
        tracing::debug!("the windows cannot be remembered: {why}");
    }
}

fn lines(home: &Home) -> Vec<String> {
    let bytes = PrivateFolder::new(&home.data).read(FILE, MOST_BYTES).ok().flatten().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What a line of a model begins with; none for names that do not fit a line.
fn key(endpoint: &Endpoint, model: &str) -> Option<String> {
    let address = endpoint.address.base_url.as_deref().map_or_else(|| OWN.to_owned(), public);
    let parts = [endpoint.provider.as_str(), &address, model];
    let fits = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_control() || c.is_whitespace());
    parts.iter().all(|part| fits(part)).then(|| format!("{} ", parts.join(" ")))
}
