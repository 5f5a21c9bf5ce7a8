//! The target of a conversion by its name: a dialect, which is a request body, or a format of session files.

use std::fmt;

use rejoin_formats::{
    Dialect,
    sessions::{self, Format},
};

/// Short names of formats that people type.
const SHORT: &[(&str, &str)] = &[("md", "markdown")];

/// The target of a conversion.
#[derive(Clone, Copy)]
pub enum Destination {
    /// A request body.
    Dialect(Dialect),
    /// A session file.
    Format(&'static Format),
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect(dialect) => f.write_str(dialect.name()),
            Self::Format(format) => f.write_str(format.name),
        }
    }
}

impl Destination {
    /// The target with this name. A dialect's name always means a request body.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
        let dialect = name.parse().ok().map(Self::Dialect);
        dialect.or_else(|| sessions::named(name).filter(|format| format.write.is_some()).map(Self::Format))
    }

    /// Whether it is JSON or lines of JSON. Markdown is the only format for people.
    #[must_use]
    pub fn is_json(self) -> bool {
        !matches!(self, Self::Format(format) if format.name == "markdown")
    }

    /// The short names of a target, which people type.
    pub fn short_names(name: &str) -> impl Iterator<Item = &'static str> {
        SHORT.iter().filter(move |(_, long)| *long == name).map(|(short, _)| *short)
    }
}
