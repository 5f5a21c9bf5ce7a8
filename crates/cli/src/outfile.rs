//! The file of `-o`: the format that its extension chooses, and how it is written.
//!
//! A file is written whole or not at all. An existing file is only replaced with `--force`, and the source of the conversion or
//! export, including the store, never is.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use rejoin::{
    sessions::{FileContent, Rows},
    store::Location,
};

use crate::{
    args::{Destination, OutputArguments},
    failure::Failure,
    home::{self, IfFileExists},
    output, stream,
};

/// The format to write: from `--to`, else from the file's extension, else the command's default.
pub fn destination(
    to: Option<Destination>,
    output: &OutputArguments,
    usual: Option<&'static str>,
) -> Result<Destination, Failure> {
    if let Some(to) = to {
        return Ok(to);
    }
    let named = |name: &str| Destination::named(name).expect("BUG: the format is in the registry");
    let ending =
        file(output).and_then(|path| path.extension()).unwrap_or_default().to_string_lossy().to_lowercase();
    match (ending.as_str(), usual) {
        ("md" | "markdown", _) => return Ok(named("markdown")),
        ("" | "jsonl", Some(usual)) => return Ok(named(usual)),
        _ => {}
    }
    let what = match ending.as_str() {
        "" => String::from("no target format was given"),
        "jsonl" => String::from("the ending .jsonl does not say whose session to write"),
        other => format!("the ending .{other} does not say which format to write"),
    };
    Err(Failure::usage(what, "add `--to`, such as `--to anthropic`, `--to codex` or `--to markdown`"))
}

/// The file to write; `None` for standard output.
fn file(output: &OutputArguments) -> Option<&Path> {
    output.output.as_deref().filter(|path| *path != Path::new("-"))
}

/// The source of a conversation, which must never be overwritten.
#[derive(Debug)]
pub enum ProtectedSource {
    File(PathBuf),
    Store(Location),
}

impl ProtectedSource {
    fn is(&self, path: &Path) -> bool {
        let Ok(path) = fs::canonicalize(path) else { return false };
        match self {
            Self::File(file) => fs::canonicalize(file).is_ok_and(|file| file == path),
            // The log and the index are next to the database, and their names begin with its name.
            Self::Store(Location::Sqlite(database)) => fs::canonicalize(database)
                .is_ok_and(|database| path.to_string_lossy().starts_with(&*database.to_string_lossy())),
            Self::Store(Location::Jsonl(folder)) => {
                fs::canonicalize(folder).is_ok_and(|folder| path.starts_with(folder))
            }
            Self::Store(Location::Postgres(address)) => address
                .beside()
                .and_then(|folder| fs::canonicalize(folder).ok())
                .is_some_and(|folder| path.starts_with(folder)),
            Self::Store(Location::Memory) => false,
        }
    }
}

/// Fails before any work is done if the file must not be written.
pub fn check(output: &OutputArguments, source: &ProtectedSource) -> Result<(), Failure> {
    let Some(path) = file(output) else { return Ok(()) };
    if source.is(path) {
        let what = format!("{} is the source, which is never overwritten", path.display());
        return Err(Failure::usage(what, "choose another file for `-o`"));
    }
    let is_file = path.symlink_metadata().is_ok_and(|there| there.is_file() || there.is_symlink());
    // A device or a pipe may be written without `--force`.
    if is_file && !is_stream(path) && !output.force { Err(exists(path)) } else { Ok(()) }
}

/// Writes a JSON report, replacing the file's content.
pub fn put_report(path: &Path, json: &str) -> Result<(), Failure> {
    write_text(path, json, true, IfFileExists::Replace)
        .map_err(|why| Failure::unwritable(path.display(), &why))
}

fn write_text(path: &Path, text: &str, is_json: bool, existing: IfFileExists) -> io::Result<()> {
    if is_stream(path) {
        return write_to_stream(path, text, is_json);
    }
    home::write(path, format!("{text}\n").as_bytes(), existing)
}

fn write_bytes(path: &Path, bytes: &[u8], existing: IfFileExists) -> io::Result<()> {
    if is_stream(path) {
        return stream::open_to_write(path)?.write_all(bytes);
    }
    home::write(path, bytes, existing)
}

fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Writes to a pipe or a device. A terminal gets no raw escapes, as on standard output.
fn write_to_stream(path: &Path, text: &str, is_json: bool) -> io::Result<()> {
    let mut stream = stream::open_to_write(path)?;
    let text = if stream.is_terminal() { output::for_terminal(text, is_json) } else { text.into() };
    stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(b"\n"))
}

/// Fails if the result is a database and goes to a terminal.
pub fn check_content(output: &OutputArguments, content: &FileContent) -> Result<(), Failure> {
    let FileContent::Rows(rows) = content else { return Ok(()) };
    let is_terminal = match file(output) {
        Some(path) => is_stream(path) && stream::open_to_write(path).is_ok_and(|stream| stream.is_terminal()),
        None => io::stdout().is_terminal(),
    };
    if !is_terminal {
        return Ok(());
    }
    let what = format!("{} keeps conversations in a database, which cannot be printed", rows.agent());
    Err(Failure::usage(what, "save it with `-o FILE`"))
}

/// Writes a result to the file and reports that, or to standard output if there is no file.
pub fn put(
    output: &OutputArguments,
    to: Destination,
    content: &FileContent,
    what: &str,
) -> Result<(), Failure> {
    let existing = if output.force { IfFileExists::Replace } else { IfFileExists::Keep };
    let (path, written) = match (file(output), content) {
        (None, FileContent::Text(text)) => {
            let text = text.trim_end_matches('\n');
            return if to.is_json() { output::json_data(text) } else { output::raw_data(text) };
        }
        (None, FileContent::Rows(rows)) => return output::bytes(&database(rows)?),
        (Some(path), FileContent::Text(text)) => {
            (path, write_text(path, text.trim_end_matches('\n'), to.is_json(), existing))
        }
        (Some(path), FileContent::Rows(rows)) => (path, write_bytes(path, &database(rows)?, existing)),
    };
    match written {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(why) => Err(Failure::unwritable(path.display(), &why)),
        Ok(()) => {
            output::talk(&format!("{what} written to {}", output::shown(path)));
            Ok(())
        }
    }
}

fn database(rows: &Rows) -> Result<Vec<u8>, Failure> {
    let large = "remove messages you no longer need, or split the conversation";
    rows.to_bytes().map_err(|why| Failure::failed(format!("no database can be made of it: {why}"), large))
}

fn exists(path: &Path) -> Failure {
    let what = format!("{} already exists", path.display());
    Failure::failed(what, "choose another name, or add `--force` to overwrite it")
}
