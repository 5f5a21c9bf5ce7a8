//! Addresses and address patterns: how `fetch:https://docs.rs/*` is read and matched.
//!
//! Addresses are read by the parser that the HTTP client uses, so that both agree about the host. `*` matches any characters of path
//! and query. In the host it is only possible as the first label.

use url::Url;

use super::{command::matches_pieces, error::RuleProblem, shell::is_deceptive};

/// A pattern for addresses.
#[derive(Debug, Clone)]
pub(super) struct AddressPattern {
    scheme: String,
    /// The host, in lower case; for a pattern that begins with `*.`, only the part after it.
    host: String,
    subdomains: bool,
    port: Option<u16>,
    /// Literal pieces of path and query. Any characters may occur between two of them.
    pieces: Vec<String>,
}

/// An address in the form that is compared.
#[derive(Debug, Clone)]
pub(super) struct Address {
    url: Url,
    /// Path and query.
    path: String,
}

/// Why an address is never allowed by a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressProblem {
    /// It cannot be read, or is neither http nor https.
    NotAnAddress,
    /// It contains a user name or a password.
    UserInfo,
    /// It contains blanks, backslashes, or characters that cannot be seen.
    Character,
}

impl Address {
    /// Reads and normalises an address: lower-case scheme and host, no default port, no `..`, no fragment.
    pub fn parse(text: &str) -> Result<Self, AddressProblem> {
        let mut url = Url::parse(text).map_err(|_| AddressProblem::NotAnAddress)?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(AddressProblem::NotAnAddress);
        }
        url.set_fragment(None);
        let path = url[url::Position::BeforePath..].to_owned();
        Ok(Self { url, path })
    }

    /// The reason why no pattern may allow this address although it can be read. `text` is the address as given.
    pub fn problem(&self, text: &str) -> Option<AddressProblem> {
        // Some programs read a backslash as a slash, others do not.
        if text.chars().any(|c| is_deceptive(c) || c.is_whitespace() || c == '\\') {
            return Some(AddressProblem::Character);
        }
        let authority = text.split_once("//").map_or(text, |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#', '\\']).next().unwrap_or(authority);
        (authority.contains('@') || !self.url.username().is_empty() || self.url.password().is_some())
            .then_some(AddressProblem::UserInfo)
    }

    /// The normalised address, which is compared and shown.
    pub fn text(&self) -> &str {
        self.url.as_str()
    }

    /// The pattern that matches exactly this address.
    pub fn escaped(&self) -> String {
        self.text().replace('\\', "\\\\").replace('*', "\\*")
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether a server could read the path as a different one, because slashes, backslashes, dots or NUL are percent-encoded in
    /// it.
    fn has_encoded_separator(&self) -> bool {
        let path = self.path.to_ascii_lowercase();
        ["%2f", "%5c", "%2e", "%00", "%25", "\\"].iter().any(|code| path.contains(code))
    }
}

impl AddressPattern {
    /// Reads a pattern, after `fetch:`.
    pub fn parse(pattern: &str) -> Result<Self, RuleProblem> {
        let wrong = || RuleProblem::Url(pattern.to_owned());
        if let Some(c) = pattern.chars().find(|c| is_deceptive(*c) || c.is_whitespace()) {
            return Err(RuleProblem::Character(c));
        }
        let (scheme, rest) = pattern.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(RuleProblem::Scheme);
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') || path.contains('#') {
            return Err(RuleProblem::UrlPart);
        }
        let (subdomains, named) =
            authority.strip_prefix("*.").map_or((false, authority), |named| (true, named));
        if named.contains(['*', '\\']) {
            return Err(RuleProblem::Host);
        }
        let url = Url::parse(&format!("{scheme}://{named}/")).map_err(|_| wrong())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_owned();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let pieces = pieces(&path)?;
        let before_query = path.split('?').next().unwrap_or(&path);
        if before_query.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(wrong());
        }
        Ok(Self { scheme, host, subdomains, port: url.port(), pieces })
    }

    /// The narrow reading, used for allow rules.
    pub fn allows(&self, address: &Address) -> bool {
        self.scheme == address.url.scheme()
            && self.port == address.url.port()
            && self.covers_host(address.host())
            && matches_pieces(&self.pieces, &address.path)
            && (self.pieces.len() == 1 || !address.has_encoded_separator())
    }

    /// The wide reading, used for deny rules: either scheme, any port unless the rule names one, any encoding of the path.
    pub fn denies(&self, address: &Address) -> bool {
        let host = address.host().trim_end_matches('.');
        let decoded = decode(&address.path);
        (self.port.is_none() || self.port == address.url.port())
            && self.covers_host(host)
            && (matches_pieces(&self.pieces, &address.path) || matches_pieces(&self.pieces, &decoded))
    }

    fn covers_host(&self, host: &str) -> bool {
        if !self.subdomains {
            return host == self.host;
        }
        host.strip_suffix(&self.host)
            .and_then(|label| label.strip_suffix('.'))
            .is_some_and(|label| !label.is_empty())
    }
}

/// Splits a pattern at each `*` that is not escaped.
fn pieces(pattern: &str) -> Result<Vec<String>, RuleProblem> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('*' | '\\')) => piece.push(c),
                _ => return Err(RuleProblem::Escape),
            },
            '*' => pieces.push(std::mem::take(&mut piece)),
            c => piece.push(c),
        }
    }
    pieces.push(piece);
    Ok(pieces)
}

/// A path with its percent escapes decoded.
fn decode(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
