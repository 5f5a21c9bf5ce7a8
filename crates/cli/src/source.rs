//! Where inputs come from: files, folders and standard input. What is too large for one text is read line by line.
//!
//! A source need not be one text: `unpack.rs` unpacks compressed files and archives, `copied.rs` copies databases, `folder.rs`
//! lists folders.

mod copied;
mod folder;
mod unpack;

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rejoin::{
    Files, Input, InputError, ReadError, Session, Stream,
    accounting::FileShape,
    record::limits,
    sessions::{self, Likeness},
    store::{Location, LocationError},
};

use self::{
    folder::{Folder, Units},
    unpack::{Archive, Packing, UNPACKED_BYTES, Unpacked},
};
use crate::{
    beside::Beside,
    desk,
    failure::Failure,
    meaning::quoted,
    stream::{self, ByteSource},
};

/// The error for an input that no conversation can be read from.
pub fn unreadable(path: &str, error: ReadError, from: Option<&str>) -> Failure {
    Unread::Format(error).failure(Path::new(path), from)
}

/// The shape of a file or of standard input, with all values removed: of a text, unpacked and up to the limit of a body, or of a
/// database.
pub fn shape_of(path: &str) -> Result<FileShape, Failure> {
    let place = Path::new(path);
    let read = || -> Result<FileShape, Unread> {
        let source = if path == "-" { stream::stdin() } else { stream::open(place).map_err(Unread::Io)? };
        let Unpacked { outer, inner, source } =
            unpack::unpack(source).map_err(|(_, why)| Unread::Packed(why))?;
        Ok(match inner {
            Packing::Database if outer == Packing::None && place.is_file() => copied::shape(place)?,
            Packing::Database => copied::shape_of_stream(path, source)?,
            Packing::Archive => {
                let why = "it is an archive: unpack it, and describe the files in it";
                return Err(Unread::Io(io::Error::other(why)));
            }
            _ => FileShape::of(&text_of(source).map_err(Unread::Io)?),
        })
    };
    read().map_err(|unread| unread.failure(place, None))
}

/// The text of a source, up to the limit of a body. Bytes that are not text are replaced.
fn text_of(source: ByteSource) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(limits::BODY_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a file or standard input, and the conversations in it if there are any.
pub fn read_input(
    place: impl AsRef<Path>,
    from: Option<&str>,
) -> Result<(Input, Result<Vec<Session>, ReadError>), Failure> {
    let place = place.as_ref();
    look_at(place, from, ReadEffort::Full).map_err(|unread| unread.failure(place, from))
}

/// How hard to look for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEffort {
    /// Read all of it: a person asks about this very file.
    Full,
    /// Give up early on what does not begin like a session: it is one of many files in a folder.
    InPassing,
}

/// Why a file gave no conversation.
#[derive(Debug)]
pub enum Unread {
    /// The system did not let it be read.
    Io(io::Error),
    /// It holds no conversation that can be read.
    Format(ReadError),
    /// It is compressed or an archive, and cannot be unpacked.
    Packed(io::Error),
    /// It is a folder that may not be read.
    Folder,
}

impl Unread {
    /// A few words that group files by the same cause.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io(why) if why.kind() == io::ErrorKind::PermissionDenied => "permission denied",
            Self::Io(_) | Self::Format(ReadError::Io(_)) => "read error",
            Self::Packed(_) => "cannot be unpacked",
            Self::Folder => "folder that may not be read",
            Self::Format(ReadError::Input(InputError::Empty)) => "empty",
            Self::Format(ReadError::Input(InputError::Binary { .. })) => "binary",
            Self::Format(ReadError::Input(InputError::TooLarge { .. })) => "too large",
            Self::Format(ReadError::NotJson { .. }) => "not JSON",
            Self::Format(ReadError::Foreign { .. } | ReadError::MostlyUnread { .. }) => {
                "in a format that is not read yet"
            }
            Self::Format(ReadError::NoConversation(_) | ReadError::UnknownFormat) => "no conversation in it",
            Self::Format(ReadError::Ambiguous { .. }) => "in one of two formats",
        }
    }

    /// The same as an error about one file, with what to do.
    pub fn failure(&self, place: &Path, from: Option<&str>) -> Failure {
        let path = place.to_string_lossy();
        let name = if path == "-" { String::from("standard input") } else { path.into_owned() };
        let (why, hint) = match self {
            Self::Io(error) => (error.to_string(), io_hint(error)),
            Self::Format(ReadError::UnknownFormat) if place.is_file() => unknown(place),
            Self::Format(error) => (error.to_string(), hint(error, from)),
            Self::Packed(error) => (format!("it cannot be unpacked: {error}"), None),
            Self::Folder => (String::from("the folder may not be read"), None),
        };
        Failure::Unreadable { name, why, hint }
    }
}

/// What a file in an unknown format looks like, and what can be done.
fn unknown(place: &Path) -> (String, Option<String>) {
    let report = format!(
        "`rejoin check --describe {}` prints its fields without their values, for a report",
        quoted(&place.to_string_lossy())
    );
    let text = open_unpacked(place).and_then(text_of);
    let Some(likeness) = text.ok().and_then(|text| Likeness::of(&text)) else {
        return (ReadError::UnknownFormat.to_string(), Some(report));
    };
    let readers: Vec<String> = likeness.readers().map(|format| format!("`--from {format}`")).collect();
    let others: Vec<String> = likeness.others().collect();
    let near =
        if others.is_empty() { String::new() } else { format!("it comes near to {}; ", others.join(", ")) };
    let hint = if readers.is_empty() {
        format!("{near}{report}")
    } else {
        format!("its text would be read with {}; {near}{report}", readers.join(" or "))
    };
    (format!("{}: {likeness}", ReadError::UnknownFormat), Some(hint))
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Self {
        Self::Format(error)
    }
}

/// Reads the conversations of a file, or says why there are none.
pub fn try_read(
    place: &Path,
    from: Option<&str>,
    effort: ReadEffort,
) -> Result<(Input, Vec<Session>), Unread> {
    let (input, sessions) = look_at(place, from, effort)?;
    Ok((input, sessions?))
}

/// The conversations in a folder that is one unit, such as the storage of a program. `None` if no format claims it, or if it also
/// has sessions in other formats, which would be passed over.
fn of_folder(place: &Path, from: Option<&str>) -> Option<Result<Vec<Session>, ReadError>> {
    let format = from.and_then(sessions::named);
    let folder = Folder::list(place)?;
    if format.is_some_and(|format| format.read.as_ref().is_some_and(|read| read.files.is_some())) {
        return Some(sessions::read_files(&folder, format));
    }
    let units = folder.units();
    if let Some(unit) = units.at(place) {
        return Some(sessions::read_files(&unit.files, Some(unit.format)));
    }
    let format = sessions::claim_files(&folder)?;
    let is_alone = units.iter().all(|unit| unit.format.name == format.name) && !has_others(&folder, &units);
    is_alone.then(|| sessions::read_files(&folder, Some(format)))
}

/// Whether a folder has sessions beside its units, judged by the beginnings of its files.
fn has_others(folder: &Folder, units: &Units) -> bool {
    let is_session = |path: PathBuf| {
        let mut bytes = Vec::new();
        let read =
            open_unpacked(&path).and_then(|source| source.take(READ_AT_ONCE as u64).read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let is_document = || sessions::detect(&text).is_some_and(|format| format.agent.is_some());
        read.is_ok()
            && (bytes.starts_with(DATABASE) || sessions::detect_lines(&text).is_some() || is_document())
    };
    let mut others = folder.files().filter(|path| !units.own(path));
    others.by_ref().take(MOST_OTHERS).any(is_session) || others.next().is_some()
}

/// The most files beside its units that are looked at in a folder. One with more is no storage of one program.
const MOST_OTHERS: usize = 1_000;

/// What a database of SQLite begins with.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Whether the files of a folder belong together and are read as one.
pub fn is_unit(place: &Path) -> bool {
    Folder::list(place).is_some_and(|folder| sessions::claim_files(&folder).is_some())
}

/// The folders under a root, given all files in it in order, that are a task or a storage of an agent and are read as one.
pub fn units(root: &Path, paths: Vec<String>) -> Units {
    Folder::of(root, paths).units()
}

/// Whether an argument is the address of a database, and not a path.
pub fn is_database_address(path: &str) -> bool {
    path.starts_with("postgres://") || path.starts_with("postgresql://")
}

/// Reads the conversations in the tables of a chat bot, from its database as it is now.
pub fn each_history(
    address: &str,
    each: &mut dyn FnMut(Result<Vec<Session>, ReadError>),
) -> Result<(), Failure> {
    let wrong =
        |why: LocationError| Failure::usage(why.to_string(), "name it as postgres://USER@HOST/DATABASE");
    let location: Location = address.parse().map_err(wrong)?;
    let Location::Postgres(database) = &location else { unreachable!("BUG: it begins like an address") };
    let (name, format) = (rejoin::store::hidden(address), sessions::named("prometheus"));
    let read = |text: String| sessions::read(&Input::new(&name, text.as_bytes())?, format);
    rejoin::store::each_history(database, &mut |text| each(read(text)))
        .map_err(|why| desk::unusable(&location, why))
}

/// Opens a file for reading, unpacked if it is compressed.
pub fn open_unpacked(place: &Path) -> io::Result<ByteSource> {
    let unpacked = unpack::unpack(stream::open(place)?).map_err(|(_, why)| why)?;
    Ok(unpacked.source)
}

/// Reads the conversations in a zip archive.
fn of_archive(
    path: &str,
    mut source: ByteSource,
    from: Option<&str>,
) -> Result<Result<Vec<Session>, ReadError>, Unread> {
    let read = |files: &dyn Files| {
        sessions::read_files(files, from.and_then(sessions::named)).map_err(|error| match error {
            ReadError::UnknownFormat => {
                ReadError::NoConversation("no format has an archive with these files")
            }
            error => error,
        })
    };
    if Path::new(path).is_file() {
        let file = File::open(path).map_err(Unread::Io)?;
        return Ok(read(&Archive::open(path, io::BufReader::new(file)).map_err(Unread::Packed)?));
    }
    // The list of files is at the end, and a pipe is read only once.
    let mut bytes = Vec::new();
    (&mut source).take(UNPACKED_BYTES).read_to_end(&mut bytes).map_err(Unread::Io)?;
    Ok(read(&Archive::open(path, io::Cursor::new(bytes)).map_err(Unread::Packed)?))
}

/// Reads a text, and the conversations in it if there are any.
fn look_at(
    place: &Path,
    from: Option<&str>,
    effort: ReadEffort,
) -> Result<(Input, Result<Vec<Session>, ReadError>), Unread> {
    // A name need not be text to be a name; to a person it is shown as text.
    let path = &*place.to_string_lossy();
    let nothing = || Input { name: path.to_owned(), text: "".into(), replaced_at: None, companions: None };
    if path != "-" && place.is_dir() {
        let is_a_folder = || Unread::Io(io::Error::from(io::ErrorKind::IsADirectory));
        return Ok((nothing(), of_folder(place, from).ok_or_else(is_a_folder)?));
    }
    let source = if path == "-" { stream::stdin() } else { stream::open(place).map_err(Unread::Io)? };
    // A failure to read what is compressed is one to unpack it.
    let reason = |packed, why| if packed == Packing::None { Unread::Io(why) } else { Unread::Packed(why) };
    let unpacked = unpack::unpack(source).map_err(|(packed, why)| reason(packed, why))?;
    let Unpacked { outer: packed, inner: inside, source } = unpacked;
    let failed = |why: io::Error| reason(packed, why);
    match inside {
        Packing::Database if packed == Packing::None && place.is_file() => {
            return Ok((nothing(), copied::read(place, from)));
        }
        Packing::Database => return Ok((nothing(), copied::read_stream(path, source, from))),
        Packing::Archive if packed == Packing::None => {
            return Ok((nothing(), of_archive(path, source, from)?));
        }
        _ => {}
    }
    let format = from.and_then(sessions::named);
    let beside = (path != "-").then(|| Beside::new(place));
    let mut source = io::BufReader::with_capacity(READ_AT_ONCE, source);
    let mut bytes = Vec::new();
    if effort == ReadEffort::InPassing {
        (&mut source).take(GLANCE_AT).read_to_end(&mut bytes).map_err(failed)?;
        if !begins_like_json(&bytes) && bytes.contains(&0) {
            return Err(ReadError::Input(InputError::Binary { offset: 0 }).into());
        }
    }
    let rest = LOOK_AT - bytes.len() as u64;
    (&mut source).take(rest).read_to_end(&mut bytes).map_err(failed)?;
    // The beginning tells whether it is a file of lines: such a file need not be one text to be read. Other formats are told
    // from the whole text.
    let is_whole = (bytes.len() as u64) < LOOK_AT;
    let detect = if is_whole { sessions::detect } else { sessions::detect_lines };
    let claimed = || detect(&String::from_utf8_lossy(&bytes));
    let detected = format.or_else(claimed);
    // A named format does not make a session of every text in a folder: what is not JSON has to be claimed by a format.
    let unlikely = || if format.is_some() { claimed().is_none() } else { detected.is_none() };
    if effort == ReadEffort::InPassing && !bytes.is_empty() && !begins_like_json(&bytes) && unlikely() {
        return Err(ReadError::NotJson { reason: "it begins like something else", line: 1, offset: 0 }.into());
    }
    let lines = detected.and_then(|format| format.read.as_ref()).filter(|reading| reading.is_lines());
    if lines.is_none() {
        // One byte more than the limit is enough to know that it is too much for one text.
        let rest = limits::BODY_BYTES as u64 + 1 - bytes.len() as u64;
        (&mut source).take(rest).read_to_end(&mut bytes).map_err(failed)?;
    }
    if lines.is_some() || bytes.len() > limits::BODY_BYTES {
        let too_large = ReadError::Input(InputError::TooLarge { bytes: bytes.len() });
        let beginning = || String::from_utf8_lossy(&bytes[..bytes.len().min(READ_AT_ONCE)]);
        let detected = detected.or_else(|| sessions::detect(&beginning()));
        let reading = detected.and_then(|format| format.read.as_ref());
        let reading = reading.ok_or(too_large)?;
        let mut whole = io::Cursor::new(bytes).chain(source);
        let stream =
            Stream { name: path, source: &mut whole, companions: beside.as_ref().map(|beside| beside as _) };
        let read = reading.read_stream(stream)?;
        return Ok((nothing(), Ok(read)));
    }
    let mut input = Input::new(path, &bytes).map_err(ReadError::from)?;
    drop(bytes);
    input.companions = beside.map(|beside| Arc::new(beside) as _);
    let known = detected.filter(|_| is_whole && format.is_none()).and_then(|format| format.read.as_ref());
    let read = match known.map(|reading| reading.read(&input)) {
        // Why there is none takes another look at the text.
        None | Some(Err(ReadError::NoConversation(_))) => sessions::read(&input, format),
        Some(read) => read,
    };
    Ok((input, read))
}

/// How much is read at once.
const READ_AT_ONCE: usize = 256 * 1024;

/// How much of an input tells its format.
const LOOK_AT: u64 = 1024 * 1024;

/// How much of a file in a folder tells that it is not text.
const GLANCE_AT: u64 = 8 * 1024;

/// Whether bytes begin like JSON, in any encoding that can be read.
fn begins_like_json(bytes: &[u8]) -> bool {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
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
        ReadError::Io(_) => return None,
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
