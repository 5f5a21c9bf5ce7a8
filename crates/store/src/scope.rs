//! Selects conversations by their scope.
//!
//! A conversation records its [`Scope`] in a `meta` entry; stores learn it from the [`Digest`](crate::Digest) and index it.
//! [`Scoped`](crate::Scoped) is a handle that sees only one scope.

use std::{fmt, str::FromStr};

use rejoin_record::Scope;

/// A condition on scopes. A part that is `None` admits any value; an empty part admits only scopes without that part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeFilter {
    /// The user.
    pub user: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The thread.
    pub thread: Option<String>,
}

impl ScopeFilter {
    /// A filter that admits every scope.
    pub const OPEN: Self = Self { user: None, channel: None, thread: None };

    /// The filter that admits this scope and no other.
    pub fn only(scope: &Scope) -> Self {
        let [user, channel, thread] = scope.parts().map(|part| Some(part.to_owned()));
        Self { user, channel, thread }
    }

    /// Whether it admits every scope.
    pub fn is_open(&self) -> bool {
        *self == Self::OPEN
    }

    /// The parts, in the order of [`Scope::PARTS`]; `None` for those that admit any value.
    pub fn parts(&self) -> [Option<&str>; 3] {
        [self.user.as_deref(), self.channel.as_deref(), self.thread.as_deref()]
    }

    /// Whether it admits a scope.
    pub fn admits(&self, scope: &Scope) -> bool {
        self.parts()
            .iter()
            .zip(scope.parts())
            .all(|(wanted, found)| wanted.is_none_or(|wanted| wanted == found))
    }

    /// The filter that admits what both admit; `None` if they have nothing in common.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let both = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) if one != other => None,
            (one, other) => Some(one.clone().or_else(|| other.clone())),
        };
        Some(Self {
            user: both(&self.user, &other.user)?,
            channel: both(&self.channel, &other.channel)?,
            thread: both(&self.thread, &other.thread)?,
        })
    }

    /// The scope of a new conversation under this filter: the parts that are set.
    pub fn new_scope(&self) -> Scope {
        let [user, channel, thread] = self.parts().map(|part| part.unwrap_or_default().to_owned());
        Scope { user, channel, thread }
    }
}

/// Why a text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// A part has no `=`.
    #[error("`{0}` has no `=`: a scope is written user=U,channel=C,thread=T")]
    NoValue(String),
    /// A part has an unknown name.
    #[error("there is no `{0}` in a scope: it has user, channel and thread")]
    UnknownPart(String),
    /// A part is named twice.
    #[error("`{0}` is named twice")]
    Twice(&'static str),
    /// The text names no part.
    #[error("it is empty: name user=U, channel=C or thread=T")]
    Empty,
}

/// Parses `user=U,channel=C,thread=T`, with any of the parts. A comma in a value is written `\,`, a backslash `\\`.
impl FromStr for ScopeFilter {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let mut found: [Option<String>; 3] = Default::default();
        for part in split(text) {
            let (name, value) = part.split_once('=').ok_or_else(|| ScopeError::NoValue(part.clone()))?;
            let name = name.trim();
            let place = Scope::PARTS.iter().position(|known| *known == name);
            let place = place.ok_or_else(|| ScopeError::UnknownPart(name.to_owned()))?;
            if found[place].replace(value.to_owned()).is_some() {
                return Err(ScopeError::Twice(Scope::PARTS[place]));
            }
        }
        let [user, channel, thread] = found;
        let filter = Self { user, channel, thread };
        if filter.is_open() { Err(ScopeError::Empty) } else { Ok(filter) }
    }
}

/// The parts between commas, without the backslashes.
fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => part.extend(characters.next()),
            ',' => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

impl fmt::Display for ScopeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = Scope::PARTS.iter().zip(self.parts()).filter_map(|(name, value)| Some((name, value?)));
        for (index, (name, value)) in given.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{name}={}", value.replace('\\', "\\\\").replace(',', "\\,"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        for text in [
            "user=U",
            "user=U,channel=C,thread=T",
            "channel=C",
            "user=,thread=T",
            r"user=a\,b\\c,channel=x=y",
        ] {
            let filter: ScopeFilter = text.parse().expect(text);
            assert_eq!(filter.to_string(), text);
        }
        assert_eq!("user=U,".parse(), Ok(ScopeFilter { user: Some(String::from("U")), ..ScopeFilter::OPEN }));
        assert_eq!("".parse::<ScopeFilter>(), Err(ScopeError::Empty));
        assert_eq!("alice".parse::<ScopeFilter>(), Err(ScopeError::NoValue(String::from("alice"))));
        assert_eq!("usr=alice".parse::<ScopeFilter>(), Err(ScopeError::UnknownPart(String::from("usr"))));
        assert_eq!("user=a,user=b".parse::<ScopeFilter>(), Err(ScopeError::Twice("user")));
    }

    #[test]
    fn a_filter_admits_what_it_names() {
        let scope = Scope { user: String::from("u"), channel: String::from("c"), thread: String::new() };
        for (text, admits) in [
            ("user=u", true),
            ("user=u,channel=c", true),
            ("user=u,channel=c,thread=", true),
            ("thread=", true),
            ("user=v", false),
            ("user=u,channel=", false),
            ("thread=t", false),
        ] {
            let filter: ScopeFilter = text.parse().expect(text);
            assert_eq!(filter.admits(&scope), admits, "{text}");
        }
        assert!(ScopeFilter::OPEN.admits(&scope));
        assert!(ScopeFilter::only(&scope).admits(&scope));
        assert!(!ScopeFilter::only(&scope).admits(&Scope::default()));
        let (user, channel): (ScopeFilter, ScopeFilter) =
            ("user=u".parse().unwrap_or_default(), "channel=c".parse().unwrap_or_default());
        assert_eq!(user.and(&channel).map(|both| both.to_string()).as_deref(), Some("user=u,channel=c"));
        assert_eq!(user.and(&"user=v".parse().unwrap_or_default()), None);
    }
}
