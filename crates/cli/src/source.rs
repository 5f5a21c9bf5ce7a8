//! Reading the files and the standard input that a user names, and saying why that fails and what to do.

use std::{io, path::Path};

use rejoin::{
    InputError, ReadError,
    accounting::{self, FileShape},
    places::quoted,
    sessions::{self, Likeness},
    source::{self, HistoryError, OpenedSource, SourceOptions, Unread},
};

use crate::{context, failure::Failure, stream};

/// The error for an input that no conversation can be read from, with the text that was read of it.
pub fn unreadable(path: &str, error: ReadError, from: Option<&str>, text: &str) -> Failure {
    let asked = path == "-" && from.is_none();
    // Standard input cannot be read again.
    let why = match &error {
        ReadError::UnknownFormat | ReadError::NotJson { .. } if asked => {
            Some(told(&error, Likeness::of(text), || accounting::looks_like(text.as_bytes())))
        }
        _ => None,
    };
    match (failure(&Unread::Format(error), Path::new(path), from), why) {
        (Failure::Unreadable { name, hint, .. }, Some(why)) => Failure::Unreadable { name, why, hint },
        (failure, _) => failure,
    }
}

/// An error with what the text looks like: JSON with these fields, or something else.
fn told(error: &ReadError, likeness: Option<Likeness>, kind: impl FnOnce() -> Option<String>) -> String {
    match (error, likeness) {
        (ReadError::UnknownFormat, Some(likeness)) => format!("{error}: {likeness}"),
        (_, Some(likeness)) => format!("{error}; it has {likeness}"),
        (ReadError::UnknownFormat, None) => error.to_string(),
        (_, None) => {
            kind().map_or_else(|| error.to_string(), |kind| format!("{error}; it looks like {kind}"))
        }
    }
}

/// The shape of a file or of standard input, with all values removed.
pub fn shape_of(path: &str) -> Result<FileShape, Failure> {
    let place = Path::new(path);
    let shape = if path == "-" {
        source::shape_of_stream(path, stream::stdin())
    } else {
        source::shape(place, stream::open)
    };
    shape.map_err(|unread| failure(&unread, place, None))
}

/// Reads a file or standard input, and the conversations in it if there are any.
pub fn read_input(path: &str, from: Option<&str>) -> Result<OpenedSource, Failure> {
    let options = SourceOptions {
        from: from.and_then(sessions::named),
        open: stream::open,
        ..SourceOptions::default()
    };
    let opened = if path == "-" {
        source::read_stream(path, stream::stdin(), &options)
    } else {
        source::read(Path::new(path), &options)
    };
    opened.map_err(|unread| failure(&unread, Path::new(path), from))
}

/// Why a source was not read, as an error with what to do.
pub fn failure(unread: &Unread, place: &Path, from: Option<&str>) -> Failure {
    let path = place.to_string_lossy();
    let name = if path == "-" { String::from("standard input") } else { path.into_owned() };
    let (why, hint) = match unread {
        Unread::Format(ReadError::UnknownFormat) if place.is_file() => unknown(place),
        Unread::Format(error @ ReadError::MostlyUnread { .. }) if place.is_file() && from.is_none() => {
            let (told, hint) = unknown(place);
            // What it looks like is said after what would be lost.
            let told =
                told.strip_prefix(&ReadError::UnknownFormat.to_string()).unwrap_or_default().to_owned();
            (format!("{error}{told}"), hint)
        }
        Unread::Format(error @ ReadError::Foreign { .. }) if place.is_file() && from.is_none() => {
            (error.to_string(), Some(describing(place)))
        }
        Unread::Format(error @ (ReadError::NotJson { .. } | ReadError::Input(InputError::Binary { .. })))
            if place.is_file() && from.is_none() =>
        {
            (told(error, source::likeness(place), || source::looks_like(place)), hint(error, from))
        }
        Unread::Format(error @ ReadError::NoConversation(_)) if place.is_file() && from.is_none() => {
            let columns = columns_of(place).map(|columns| format!("{error}; it has {columns}"));
            let report = columns.is_some().then(|| describing(place));
            (columns.unwrap_or_else(|| error.to_string()), report.or_else(|| hint(error, from)))
        }
        Unread::Format(error @ ReadError::DamagedDatabase(_)) => {
            let file = quoted(&name);
            let recover =
                format!("`sqlite3 {file} .recover | sqlite3 recovered.db` writes what is left of it");
            (error.to_string(), Some(format!("{recover} into a new database, which may be readable")))
        }
        Unread::Format(error) => (error.to_string(), hint(error, from)),
        Unread::Io(error) => (error.to_string(), io_hint(error)),
        Unread::Several { .. } => {
            let file = if place.is_file() { quoted(&name) } else { "FILE".into() };
            let hint = format!("unpack it with `unzip {file} -d FOLDER`, and read the files in FOLDER");
            (unread.to_string(), Some(hint))
        }
        Unread::Packed(_) | Unread::Folder => (unread.to_string(), None),
    };
    Failure::Unreadable { name, why, hint }
}

/// The columns of a database that hold something. `None` for any other file.
fn columns_of(place: &Path) -> Option<String> {
    const NAMED: usize = 8;
    let shape = source::shape(place, stream::open).ok().filter(|shape| shape.is_database)?;
    let columns: Vec<&str> =
        shape.places.keys().map(String::as_str).filter(|place| !place.contains([':', '*'])).collect();
    let more = if columns.len() > NAMED { ", …" } else { "" };
    let named = columns[..columns.len().min(NAMED)].join(", ");
    Some(if named.is_empty() { String::from("no rows") } else { format!("the columns {named}{more}") })
}

/// What a file in an unknown format looks like, and what can be done.
fn unknown(place: &Path) -> (String, Option<String>) {
    let report = describing(place);
    let Some(likeness) = source::likeness(place) else {
        return (ReadError::UnknownFormat.to_string(), Some(report));
    };
    let readers: Vec<String> = likeness.readers().map(|format| format!("`--from {format}`")).collect();
    let others: Vec<String> = likeness.others().collect();
    let near =
        if others.is_empty() { String::new() } else { format!("it is closest to {}; ", others.join(", ")) };
    let hint = if readers.is_empty() {
        format!("{near}{report}")
    } else {
        format!("its text would be read with {}; {near}{report}", readers.join(" or "))
    };
    (format!("{}: {likeness}", ReadError::UnknownFormat), Some(hint))
}

/// The command that describes a file.
fn describing(place: &Path) -> String {
    let path = quoted(&place.to_string_lossy());
    format!("`rejoin check --describe {path}` prints its fields without their values, for a report")
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Address(why) => {
                Self::usage(why.to_string(), "name it as postgres://USER@HOST/DATABASE")
            }
            HistoryError::Server { location, why } => context::unusable(&location, why),
        }
    }
}

fn hint(error: &ReadError, from: Option<&str>) -> Option<String> {
    const FORMATS: &str = "`rejoin doctor --self` lists the formats that rejoin reads";
    Some(match error {
        ReadError::Ambiguous { one, other } => {
            format!("name one: `--from {}` or `--from {}`", one.0, other.0)
        }
        ReadError::UnknownFormat => String::from(
            "save it in a file: `rejoin check --describe FILE` prints its fields without their values, for a report",
        ),
        ReadError::NoConversation(_) | ReadError::MostlyUnread { .. } if from.is_some() => {
            format!("leave `--from` out, or name another format; {FORMATS}")
        }
        ReadError::Io(_) | ReadError::DamagedDatabase(_) => return None,
        ReadError::Input(InputError::Empty) => {
            String::from("check that the program that writes it has saved it")
        }
        ReadError::NoConversation(_)
        | ReadError::Foreign { .. }
        | ReadError::MostlyUnread { .. }
        | ReadError::NotJson { .. }
        | ReadError::Input(InputError::Binary { .. }) => String::from(FORMATS),
        ReadError::Input(InputError::TooLarge { .. }) => String::from("split it: one conversation per file"),
    })
}

fn io_hint(error: &io::Error) -> Option<String> {
    Some(String::from(match error.kind() {
        io::ErrorKind::NotFound => "check the path; `-` reads standard input",
        io::ErrorKind::PermissionDenied => "check who may read it: `ls -l`",
        io::ErrorKind::IsADirectory => "give a file in it, or `rejoin doctor` the folder",
        _ => return None,
    }))
}
