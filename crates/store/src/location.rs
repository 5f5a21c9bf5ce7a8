//! The location of a store, as `--store` and `REJOIN_STORE` name it.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use rejoin_record::hash;

use crate::spool;

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// One SQLite file.
    Sqlite(PathBuf),
    /// A folder of JSONL files.
    Jsonl(PathBuf),
    /// A PostgreSQL database.
    Postgres(Address),
    /// In the memory of this process only.
    Memory,
}

/// The address of a PostgreSQL database. `PG*` variables and `.pgpass` fill in missing parts. Printing it shows no secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    given: String,
    beside: Option<PathBuf>,
}

impl Address {
    /// The address as it was given, which may contain a password.
    pub fn secret(&self) -> &str {
        &self.given
    }

    /// The folder on this machine for data that is not in the database: drafts of answers, and entries that could not be saved.
    pub fn beside(&self) -> Option<&Path> {
        self.beside.as_deref()
    }

    /// The same address, with a folder on this machine. Inside `folder`, each address gets a separate subfolder.
    #[must_use]
    pub fn with_folder(mut self, folder: &Path) -> Self {
        // Two addresses that look alike without users and options may be two databases, so the name depends on them. It does not
        // depend on the password: entries that failed to save with a wrong or old password are saved with the right one.
        self.beside = Some(folder.join(folder_name(&without_password(&self.given))));
        self
    }

    /// Moves the folder of an earlier version to its new name. If the new name is taken, only the entries that wait for the server
    /// are moved, so that they are delivered.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn adopt_former_folder(&self) {
        let Some(beside) = &self.beside else { return };
        // Earlier versions named it after the whole address.
        let former = beside.with_file_name(folder_name(&self.given));
        if former == *beside || !former.is_dir() {
            return;
        }
        let (from, to) = (former.join(spool::FOLDER), beside.join(spool::FOLDER));
        let moved = if beside.exists() { move_files(&from, &to) } else { std::fs::rename(&former, beside) };
        if let Err(why) = moved {
            tracing::warn!("{} cannot be moved to {}: {why}", former.display(), beside.display());
        }
    }
}

/// Moves the files of a folder to another one, except those that already exist there.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
fn move_files(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    crate::files::make_folders(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        let place = to.join(file.file_name());
        if !place.exists() {
            std::fs::rename(file.path(), place)?;
        }
    }
    Ok(())
}

/// The name of an address's folder, which distinguishes it from other addresses.
fn folder_name(address: &str) -> String {
    let plain: String = hidden(address)
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    let own = hash::short_name(address, 12).to_lowercase();
    format!("{}-{own}", plain.trim_matches('-'))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = hidden(&self.given);
        let Some((bare, _)) = hidden.split_once('?') else { return f.write_str(&hidden) };
        f.write_str(bare)?;
        // These identify the database and are not secret.
        let shown = ["host=", "hostaddr=", "port=", "dbname=", "user=", "sslmode=", "sslrootcert="];
        let query = self.given.split_once('?').map_or("", |(_, query)| query);
        let pairs = query.split('&').filter(|pair| shown.iter().any(|name| pair.starts_with(name)));
        for (number, pair) in pairs.enumerate() {
            write!(f, "{}{pair}", if number == 0 { "?" } else { "&" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no store: {why}")]
pub struct LocationError {
    /// The text that was given, without secrets.
    pub given: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Location {
    /// The same location, with a folder on this machine for data that a database server does not keep.
    #[must_use]
    pub fn with_folder(self, folder: &Path) -> Self {
        match self {
            Self::Postgres(address) => Self::Postgres(address.with_folder(folder)),
            other => other,
        }
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(given: &str) -> Result<Self, LocationError> {
        let wrong = |why| LocationError { given: hidden(given), why };
        let (kind, rest) = given
            .split_once(':')
            .ok_or_else(|| wrong("write `sqlite:PATH`, `jsonl:FOLDER` or `postgres://…`"))?;
        match kind {
            "sqlite" | "jsonl" if rest.is_empty() => Err(wrong("a path must follow the colon")),
            "sqlite" if rest == ":memory:" => Ok(Self::Memory),
            "sqlite" => Ok(Self::Sqlite(PathBuf::from(rest))),
            "jsonl" => Ok(Self::Jsonl(PathBuf::from(rest))),
            "memory" => Ok(Self::Memory),
            "postgres" | "postgresql" if !rest.starts_with("//") => {
                Err(wrong("write `postgres://USER@HOST/DATABASE`"))
            }
            "postgres" | "postgresql" => {
                Ok(Self::Postgres(Address { given: given.to_owned(), beside: None }))
            }
            _ => Err(wrong("write `sqlite:PATH`, `jsonl:FOLDER` or `postgres://…`")),
        }
    }
}

/// An address for display: recognisable, but without user name, password and the values in its query.
pub fn hidden(address: &str) -> String {
    let (rest, fragment) = address.split_once('#').map_or((address, ""), |(rest, _)| (rest, "#***"));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (scheme, rest) = rest.find("://").map_or(("", rest), |at| rest.split_at(at + 3));
    let (authority, path) = rest.find(['/', '\\']).map_or((rest, ""), |at| rest.split_at(at));
    let value = |pair: &str| pair.split_once('=').map_or("***".to_owned(), |(name, _)| format!("{name}=***"));
    let query = query.map_or_else(String::new, |query| {
        format!("?{}", query.split('&').map(value).collect::<Vec<_>>().join("&"))
    });
    // A slash, a question mark or a hash sign in a password should have been written as %2F, %3F or %23. If it was not, the
    // password seems to end there: the text after the colon is not a port.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut =
        !authority.contains('@') && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    if let Some((_, host)) = address.rsplit_once('@').filter(|_| is_cut) {
        return format!("{scheme}***@{}", hidden(host));
    }
    let authority =
        authority.rsplit_once('@').map_or_else(|| authority.to_owned(), |(_, host)| format!("***@{host}"));
    format!("{scheme}{authority}{path}{query}{fragment}")
}

/// An address without its password, in any of the places where it can be written.
fn without_password(address: &str) -> String {
    let (scheme, rest) = address.find("://").map_or(("", address), |at| address.split_at(at + 3));
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    // As in `hidden`: a password may contain characters that should have been escaped.
    let is_cut =
        !authority.contains('@') && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    let at = if is_cut { rest.rfind('@') } else { authority.rfind('@') };
    let (login, rest) = at.map_or(("", rest), |at| rest.split_at(at));
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    let Some((place, query)) = rest.split_once('?') else { return format!("{scheme}{user}{rest}") };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("password=")).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    format!("{scheme}{user}{place}{mark}{}", kept.join("&"))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Jsonl(path) => write!(f, "jsonl:{}", path.display()),
            Self::Postgres(address) => address.fmt(f),
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
        for bad in ["", "x", "sqlite:", "jsonl:", "redis:x", "postgres:db"] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
        let error = "redis://me:secret@h/db".parse::<Location>().unwrap_err().to_string();
        assert!(error.contains("redis://***@h/db") && !error.contains("secret"), "{error}");
        let database = "postgres://me:secret@/db?host=/run/pg&password=secret&sslmode=require";
        let database = database.parse::<Location>().unwrap();
        assert_eq!(database.to_string(), "postgres://***@/db?host=/run/pg&sslmode=require");
        assert!(!format!("{database:?}").contains("secret"));
    }

    /// Entries that wait for a server are found again after a change of the password, and of nothing else.
    #[test]
    fn the_folder_of_an_address_does_not_depend_on_its_password() {
        let folder = |address: &str| match address.parse::<Location>().unwrap().with_folder(Path::new("/x")) {
            Location::Postgres(address) => address.beside().unwrap().to_owned(),
            other => panic!("{other}"),
        };
        let own = folder("postgres://me@h:5432/db?sslmode=require");
        for same in [
            "postgres://me:right@h:5432/db?sslmode=require",
            "postgres://me:p/w@x@h:5432/db?sslmode=require",
            "postgres://me:p?w@h:5432/db?sslmode=require",
            "postgres://me@h:5432/db?password=wrong&sslmode=require",
        ] {
            assert_eq!(folder(same), own, "{same}");
        }
        for other in
            ["postgres://you:right@h:5432/db?sslmode=require", "postgres://me@h:5433/db?sslmode=require"]
        {
            assert_ne!(folder(other), own, "{other}");
        }
    }

    /// Entries that an earlier version left under its own name of the folder are found under the new one.
    #[test]
    fn what_waits_in_a_renamed_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let given = "postgres://me:right@h:5432/db";
        let address = match given.parse::<Location>().unwrap().with_folder(folder.path()) {
            Location::Postgres(address) => address,
            other => panic!("{other}"),
        };
        let (former, new) = (folder.path().join(folder_name(given)), address.beside().unwrap());
        let put = |name: &str| {
            std::fs::create_dir_all(former.join(spool::FOLDER)).unwrap();
            std::fs::write(former.join(spool::FOLDER).join(name), name).unwrap();
        };
        let has = |name: &str| {
            std::fs::read_to_string(new.join(spool::FOLDER).join(name)).is_ok_and(|text| text == name)
        };
        put("one.unsaved");
        address.adopt_former_folder();
        assert!(has("one.unsaved") && !former.exists());
        // The earlier version was used once more.
        put("two.unsaved");
        address.adopt_former_folder();
        assert!(has("one.unsaved") && has("two.unsaved"));
        // An existing file stays, and so does the other one.
        std::fs::write(new.join(spool::FOLDER).join("three.unsaved"), "newer").unwrap();
        put("three.unsaved");
        address.adopt_former_folder();
        assert!(!has("three.unsaved") && former.join(spool::FOLDER).join("three.unsaved").exists());
    }

    #[test]
    fn hidden_parts_of_an_address_leave_the_rest_readable() {
        assert_eq!(hidden("https://a:b@h:1/x?key=s&v=2#t"), "https://***@h:1/x?key=***&v=***#***");
        assert_eq!(hidden("https://h/v1"), "https://h/v1");
        assert_eq!(hidden("https://h/@team"), "https://h/@team");
        assert_eq!(hidden("https://h/v1?flag"), "https://h/v1?***");
        for password in ["p", "p/w", "p?w", "p#w", "p/w@x"] {
            assert_eq!(hidden(&format!("postgres://u:{password}@h:5432/db")), "postgres://***@h:5432/db");
        }
        assert_eq!(hidden("https://e\\@h/v1"), "https://e\\@h/v1");
    }
}
