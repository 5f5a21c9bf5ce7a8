//! The addresses that the user has named on this machine, each with its provider and the key that was sent there.
//!
//! A conversation may come from another machine and name any address. So a key follows a conversation only to addresses that are
//! listed in this file for the same provider and the same key.

use std::path::Path;

use rejoin_engine::{
    auth::Keys,
    provider::{
        decide::{TrustedAddress, canonical},
        http::public,
        registry::account_elsewhere,
    },
};
use rejoin_store::files::PrivateFolder;

/// The file, in the data folder: one `provider address key` per line. The key is a short hash, or [`NO_KEY`] if none was sent.
const FILE: &str = "addresses";
const NO_KEY: &str = "-";
/// The most lines. Beyond that, the oldest are dropped, so that the file stays small.
const MOST_LINES: usize = 1_000;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// All addresses to which a key may follow a conversation: those in the file, which is in the data folder, and the address in
/// Ollama's own variable, because the user named it on this machine, too.
#[must_use]
pub fn trusted(data: &Path, ollama: Option<&str>, keys: &Keys) -> Vec<TrustedAddress> {
    let mut trusted = known(data);
    trusted.extend(ollama.map(|url| TrustedAddress {
        provider: String::from("ollama"),
        base_url: public(url),
        account: account_elsewhere("ollama", keys),
    }));
    trusted
}

/// The address in the value of Ollama's own variable, `OLLAMA_HOST`.
#[must_use]
pub fn of_ollama(host: &str) -> Option<String> {
    let host = Some(host.trim()).filter(|host| !host.is_empty())?;
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    // An address on which a server listens for everyone is reached at this machine's own.
    Some(url.replacen("://0.0.0.0", "://127.0.0.1", 1))
}

fn known(data: &Path) -> Vec<TrustedAddress> {
    let bytes = PrivateFolder::new(data).read(FILE, MOST_BYTES).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    text.lines().filter_map(of_line).collect()
}

/// A line without a key comes from a version that did not record keys. Its key is unknown, so the line is ignored.
fn of_line(line: &str) -> Option<TrustedAddress> {
    let [provider, base_url, key] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let account = Some(key).filter(|key| *key != NO_KEY).map(str::to_owned);
    Some(TrustedAddress { provider: provider.to_owned(), base_url: base_url.to_owned(), account })
}

/// Adds an address to the file. If it cannot be written, the user must name the address again next time.
pub fn remember(data: &Path, named: &TrustedAddress) {
    let named = TrustedAddress {
        provider: canonical(&named.provider),
        base_url: public(named.base_url.trim()),
        account: named.account.clone(),
    };
    let mut all = known(data);
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
    let folder = PrivateFolder::new(data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(FILE, text.as_bytes())) {
        tracing::debug!("the address could not be saved: {why}");
    }
}
