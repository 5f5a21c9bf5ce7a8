//! The addresses that the user has named on this machine, each with the provider it was named for and the key that went there.
//!
//! A conversation may come from another machine and name any address; this file does not. A key follows a conversation only to
//! addresses that are listed here for the same provider and the same key.

use rejoin::{
    engine::provider::{
        decide::{TrustedAddress, canonical},
        http::public,
    },
    store::files::PrivateFolder,
};

use crate::home::Home;

/// The file, in the data folder: one `provider address key` per line. The key is a short hash, and [`NO_KEY`] if none was sent.
const FILE: &str = "addresses";
const NO_KEY: &str = "-";
/// Older lines are dropped beyond this, so that the file stays small.
const MOST_LINES: usize = 1_000;
/// The largest file that is read: addresses are short.
const MOST_BYTES: u64 = 1024 * 1024;

pub fn known(home: &Home) -> Vec<TrustedAddress> {
    let bytes = PrivateFolder::new(&home.data).read(FILE, MOST_BYTES).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    text.lines().filter_map(of_line).collect()
}

/// A line without a key was written before keys were noted. Which key it is for cannot be known, so it counts for none.
fn of_line(line: &str) -> Option<TrustedAddress> {
    let [provider, base_url, key] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let account = Some(key).filter(|key| *key != NO_KEY).map(str::to_owned);
    Some(TrustedAddress { provider: provider.to_owned(), base_url: base_url.to_owned(), account })
}

/// Adds an address to the file. If it cannot be written, the user has to name the address again next time.
pub fn remember(home: &Home, named: &TrustedAddress) {
    let named = TrustedAddress {
        provider: canonical(&named.provider),
        base_url: public(named.base_url.trim()),
        account: named.account.clone(),
    };
    let mut all = known(home);
    let is_odd = |text: &str| text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace());
    if all.contains(&named) || is_odd(&named.provider) || is_odd(&named.base_url) {
        return;
    }
    all.push(named);
    let newest = &all[all.len().saturating_sub(MOST_LINES)..];
    let line = |known: &TrustedAddress| {
        format!("{} {} {}\n", known.provider, known.base_url, known.account.as_deref().unwrap_or(NO_KEY))
    };
    let text: String = newest.iter().map(line).collect();
    let folder = PrivateFolder::new(&home.data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(FILE, text.as_bytes())) {
        tracing::debug!("the address cannot be remembered: {why}");
    }
}
