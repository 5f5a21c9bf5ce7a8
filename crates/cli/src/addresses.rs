//! The addresses that the user has named on this machine, each with the provider it was named for.
//!
//! A conversation may come from another machine and name any address; this file does not. Keys follow a conversation only to
//! addresses that are listed here for the same provider.

use rejoin::{
    engine::provider::{
        decide::{TrustedAddress, canonical},
        http::public,
    },
    store::files::PrivateFolder,
};

use crate::home::Home;

/// The file, in the data folder: one `provider address` per line.
const FILE: &str = "addresses";
/// Older lines are dropped beyond this, so that the file stays small.
const MOST_LINES: usize = 1_000;
/// What the file takes at most: addresses are short.
const MOST_BYTES: u64 = 1024 * 1024;

/// Every address that was named here.
pub fn known(home: &Home) -> Vec<TrustedAddress> {
    let bytes = PrivateFolder::new(&home.data).read(FILE, MOST_BYTES).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(provider, url)| TrustedAddress { provider: provider.to_owned(), base_url: url.to_owned() })
        .collect()
}

/// Adds an address to the file. If it cannot be written, the user has to name the address again next time.
pub fn remember(home: &Home, provider: &str, url: &str) {
    let named = TrustedAddress { provider: canonical(provider), base_url: public(url.trim()) };
    let mut all = known(home);
    let is_odd = |text: &str| text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace());
    if all.contains(&named) || is_odd(&named.provider) || is_odd(&named.base_url) {
        return;
    }
    all.push(named);
    let newest = &all[all.len().saturating_sub(MOST_LINES)..];
    let text: String =
        newest.iter().map(|known| format!("{} {}\n", known.provider, known.base_url)).collect();
    let folder = PrivateFolder::new(&home.data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(FILE, text.as_bytes())) {
        tracing::debug!("the address cannot be remembered: {why}");
    }
}
