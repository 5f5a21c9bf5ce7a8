//! Where a store is: what `--store` and `REJOIN_STORE` say.

use std::{fmt, path::PathBuf, str::FromStr};

/// The place of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// One SQLite file.
    Sqlite(PathBuf),
    /// A folder of JSONL files.
    Jsonl(PathBuf),
    /// Nowhere: gone with the process.
    Memory,
}

/// Why a text is no location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no store: {why}")]
pub struct LocationError {
    /// What was given.
    pub given: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(given: &str) -> Result<Self, LocationError> {
        let wrong = |why| LocationError { given: without_password(given), why };
        let (kind, rest) =
            given.split_once(':').ok_or_else(|| wrong("write `sqlite:PATH` or `jsonl:FOLDER`"))?;
        match kind {
            "sqlite" | "jsonl" if rest.is_empty() => Err(wrong("a path is missing behind the colon")),
            "sqlite" if rest == ":memory:" => Ok(Self::Memory),
            "sqlite" => Ok(Self::Sqlite(PathBuf::from(rest))),
            "jsonl" => Ok(Self::Jsonl(PathBuf::from(rest))),
            "memory" => Ok(Self::Memory),
            "postgres" | "postgresql" => Err(wrong("PostgreSQL is not part of this version")),
            _ => Err(wrong("write `sqlite:PATH` or `jsonl:FOLDER`")),
        }
    }
}

/// An address of a database without the user and the password in it, for an error that people pass on.
fn without_password(given: &str) -> String {
    match (given.find("://"), given.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &given[..scheme + 3], &given[at..]),
        _ => given.to_owned(),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Jsonl(path) => write!(f, "jsonl:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_parse_and_print() {
        for good in ["sqlite:/a/b.db", "jsonl:chats", "memory:", "sqlite:C:\\x.db"] {
            assert_eq!(good.parse::<Location>().unwrap().to_string(), good);
        }
        for bad in ["", "x", "sqlite:", "jsonl:", "redis:x", "postgres://h/db"] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
        let error = "postgres://me:secret@h/db".parse::<Location>().unwrap_err().to_string();
        assert!(error.contains("postgres://***@h/db") && !error.contains("secret"), "{error}");
    }
}
