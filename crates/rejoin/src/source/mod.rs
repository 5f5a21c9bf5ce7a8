//! Opens session files: plain or compressed files, databases, archives, folders that are read as one, and streams.
//!
//! A source is only read, and never locked. A file that is too large for one text is read line by line. `unpack.rs` unpacks
//! compressed files, `archive.rs` opens zip archives, `copied.rs` copies databases, `folder.rs` lists folders, and `beside.rs`
//! opens files that a session refers to.
//!
//! ```
//! use rejoin::source::{self, SourceOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("chat.json");
//! std::fs::write(&path, r#"{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello."}]}"#)?;
//! let sessions = source::read(&path, &SourceOptions::default())?.sessions?;
//! assert_eq!(sessions[0].messages.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod beside;
mod copied;
mod folder;
mod growing;
mod unpack;

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use rejoin_formats::{
    Input, ReadError, Session,
    accounting::FileShape,
    input::{InputError, Stream},
    sessions::{self, Format, Likeness},
};
use rejoin_record::limits;
use rejoin_store::{Location, LocationError, StoreError};

use self::{
    beside::FilesBeside,
    folder::Folder,
    unpack::{PackedDamage, Packing, UnpackedSource},
};
pub(crate) use self::{folder::Units, growing::GrowingSources};

/// The bytes of a source.
pub type ByteSource = Box<dyn Read + Send>;

/// A function that opens a path other than a folder.
pub type Open = fn(&Path) -> io::Result<ByteSource>;

/// How a source is read.
#[derive(Clone, Copy)]
pub struct SourceOptions {
    /// The format; `None` to detect it from the content.
    pub from: Option<&'static Format>,
    /// How hard to look for a conversation.
    pub effort: ReadEffort,
    /// The function that opens paths: [`open_file`], or another one if pipes and devices must be read as well.
    pub open: Open,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self { from: None, effort: ReadEffort::Full, open: open_file }
    }
}

impl fmt::Debug for SourceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.map(|format| format.name);
        f.debug_struct("SourceOptions")
            .field("from", &from)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
    }
}

/// How hard to look for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEffort {
    /// Read all of it, because the caller named this file.
    Full,
    /// Give up early if it does not begin like a session, because it is one of many files in a folder.
    InPassing,
}

/// The content of a source.
#[derive(Debug)]
pub struct OpenedSource {
    /// The text. Empty if the source is not one text, such as a database, a folder or a long file of lines.
    pub input: Input,
    /// The conversations in it, or why there are none.
    pub sessions: Result<Vec<Session>, ReadError>,
}

impl OpenedSource {
    /// Adds a finding about missing packed content to the last conversation. If no conversation was read, the damage is the
    /// error.
    fn with_damage(mut self, damage: Option<PackedDamage>) -> Result<Self, Unread> {
        let Some(damage) = damage else { return Ok(self) };
        match &mut self.sessions {
            Ok(sessions) => {
                let finding = damage.into_finding();
                sessions.iter_mut().last().into_iter().for_each(|last| last.findings.push(finding.clone()));
                Ok(self)
            }
            Err(why) => Err(Unread::Packed(io::Error::other(format!("{}; before that: {why}", damage.why)))),
        }
    }
}

/// Why a source gave no conversation.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The system did not let it be read.
    #[error("{0}")]
    Io(io::Error),
    /// It contains no conversation that can be read.
    #[error(transparent)]
    Format(#[from] ReadError),
    /// It is compressed or an archive, and cannot be unpacked.
    #[error("it cannot be unpacked: {0}")]
    Packed(io::Error),
    /// It is an archive of several files, in which not exactly one session was found.
    #[error("it is an archive of {total} files, and not the storage of one program: {}{}", files.join(", "), if files.len() < *total { ", …" } else { "" })]
    Several {
        /// The first of the files.
        files: Vec<String>,
        /// The number of files.
        total: usize,
    },
    /// It is a folder, and the system does not let it be read.
    #[error("the folder may not be read")]
    Folder,
}

impl Unread {
    /// A few words that group files by the same cause.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io(why) if why.kind() == io::ErrorKind::PermissionDenied => "permission denied",
            Self::Io(_) | Self::Format(ReadError::Io(_)) => "read error",
            Self::Packed(_) => "cannot be unpacked",
            Self::Several { .. } => "archive of several files",
            Self::Folder => "folder that may not be read",
            Self::Format(ReadError::Input(InputError::Empty)) => "empty",
            Self::Format(ReadError::Input(InputError::Binary { .. })) => "binary",
            Self::Format(ReadError::Input(InputError::TooLarge { .. })) => "too large",
            Self::Format(ReadError::NotJson { .. }) => "not JSON",
            Self::Format(ReadError::Foreign { .. } | ReadError::MostlyUnread { .. }) => {
                "in a format that is not read yet"
            }
            Self::Format(ReadError::NoConversation(_) | ReadError::UnknownFormat) => "no conversation in it",
            Self::Format(ReadError::DamagedDatabase(_)) => "damaged database",
            Self::Format(ReadError::Ambiguous { .. }) => "in one of two formats",
        }
    }
}

/// Opens a regular file. A pipe or a device, which may never end, is refused.
///
/// # Errors
/// If there is no such file, it is not a regular one, or the system does not let it be read.
pub fn open_file(path: &Path) -> io::Result<ByteSource> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is a pipe or a device, not a file"));
    }
    Ok(Box::new(File::open(path)?))
}

/// Reads the file or folder at a path, and the conversations in it if there are any.
///
/// # Errors
/// If it cannot be opened or unpacked, or is not text.
pub fn read(place: &Path, options: &SourceOptions) -> Result<OpenedSource, Unread> {
    // The name is only shown to people, so it may be converted to text with replacement characters.
    let name = &*place.to_string_lossy();
    if place.is_dir() {
        let is_a_folder = || Unread::Io(io::Error::from(io::ErrorKind::IsADirectory));
        let sessions = of_folder(place, options).ok_or_else(is_a_folder)?;
        return Ok(OpenedSource { input: nothing(name), sessions });
    }
    let source = (options.open)(place).map_err(Unread::Io)?;
    look_at(name, Some(place), source, options)
}

/// Reads a stream, such as standard input, and the conversations in it if there are any. Messages refer to it by `name`.
///
/// # Errors
/// If it cannot be read or unpacked, or is not text.
pub fn read_stream(name: &str, source: ByteSource, options: &SourceOptions) -> Result<OpenedSource, Unread> {
    look_at(name, None, source, options)
}

/// The shape of a file, with all values removed. The file is a database or a text, which may be compressed and of which at most
/// the size limit of a body is read.
///
/// # Errors
/// If it cannot be opened or unpacked, or is an archive.
pub fn shape(place: &Path, open: Open) -> Result<FileShape, Unread> {
    shape_in(&place.to_string_lossy(), Some(place), open(place).map_err(Unread::Io)?)
}

/// The shape of a stream; see [`shape`].
///
/// # Errors
/// If it cannot be read or unpacked, or is an archive.
pub fn shape_of_stream(name: &str, source: ByteSource) -> Result<FileShape, Unread> {
    shape_in(name, None, source)
}

fn shape_in(name: &str, place: Option<&Path>, source: ByteSource) -> Result<FileShape, Unread> {
    let UnpackedSource { outer, inner, source, .. } =
        unpack::unpack(source).map_err(|(_, why)| Unread::Packed(why))?;
    let file = place.filter(|place| outer == Packing::None && place.is_file());
    Ok(match (inner, file) {
        (Packing::Database, Some(place)) => copied::shape(place)?,
        (Packing::Database, None) => copied::shape_of_stream(name, source)?,
        (Packing::Archive, _) => {
            let why = "it is an archive: unpack it, and describe the files in it";
            return Err(Unread::Io(io::Error::other(why)));
        }
        _ => {
            let bytes = beginning_of(source).map_err(Unread::Io)?;
            let shape = match Input::new(name, &bytes) {
                Ok(input) => FileShape::of(&input.text),
                Err(InputError::Empty) => FileShape::default(),
                Err(error) => return Err(ReadError::from(error).into()),
            };
            FileShape { bytes: bytes.len(), ..shape }
        }
    })
}

/// What a file in an unknown format looks like.
#[must_use]
pub fn likeness(place: &Path) -> Option<Likeness> {
    let bytes = open_unpacked(place, open_file).and_then(beginning_of).ok()?;
    Likeness::of(&Input::new("", &bytes).ok()?.text)
}

/// What a file that is not JSON looks like. `None` if it looks like nothing that is known.
#[must_use]
pub fn looks_like(place: &Path) -> Option<String> {
    /// How much of it is looked at.
    const LOOK_AT: u64 = 64 * 1024;
    let mut bytes = Vec::new();
    open_unpacked(place, open_file).ok()?.take(LOOK_AT).read_to_end(&mut bytes).ok()?;
    rejoin_formats::accounting::looks_like(&bytes)
}

/// The bytes of a source, up to the size limit of a body.
fn beginning_of(source: ByteSource) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limits::BODY_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn nothing(name: &str) -> Input {
    Input { name: name.to_owned(), text: "".into(), replaced_at: None, companions: None }
}

/// The conversations in a folder that is one unit, such as the storage of a program. `None` if no format claims the folder, or if
/// it also contains sessions in other formats, which this would silently skip.
fn of_folder(place: &Path, options: &SourceOptions) -> Option<Result<Vec<Session>, ReadError>> {
    let format = options.from;
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

/// Whether a folder contains sessions outside its units, judged by the beginnings of its files.
fn has_others(folder: &Folder, units: &Units) -> bool {
    let is_session = |path: PathBuf| {
        let mut bytes = Vec::new();
        let read = open_unpacked(&path, open_file)
            .and_then(|source| source.take(READ_AT_ONCE as u64).read_to_end(&mut bytes));
        read.is_ok() && holds_session(&bytes)
    };
    let mut others = folder.files().filter(|path| !units.own(path));
    others.by_ref().take(MOST_OTHERS).any(is_session) || others.next().is_some()
}

/// Whether a file that begins with these bytes is a session of a program.
fn holds_session(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let is_document = || sessions::detect(&text).is_some_and(|format| format.agent.is_some());
    bytes.starts_with(unpack::SQLITE) || sessions::detect_lines(&text).is_some() || is_document()
}

/// The most files outside its units that are examined in a folder. A folder with more is not the storage of one program.
const MOST_OTHERS: usize = 1_000;

/// Whether the files of a folder belong together and are read as one.
pub(crate) fn is_unit(place: &Path) -> bool {
    Folder::list(place).is_some_and(|folder| sessions::claim_files(&folder).is_some())
}

/// Finds the folders below a root that are a task or a storage of an agent and are read as one. `paths` are all files below the
/// root, sorted.
pub(crate) fn units(root: &Path, paths: Vec<String>) -> Units {
    Folder::of(root, paths).units()
}

/// Whether a text is the address of a database and not a path.
#[must_use]
pub fn is_database_address(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Why the tables of a chat bot were not read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The text is not the address of a PostgreSQL database.
    #[error(transparent)]
    Address(#[from] LocationError),
    /// The server cannot be reached, or the tables cannot be read.
    #[error("{why}")]
    Server {
        /// The database.
        location: Location,
        /// The error of the server or of the connection.
        why: StoreError,
    },
}

/// Reads the conversations in the tables of a chat bot, from the current state of its PostgreSQL database.
///
/// # Errors
/// If the text is not the address of a PostgreSQL database, or the tables cannot be read.
pub fn each_history(
    address: &str,
    each: &mut dyn FnMut(Result<Vec<Session>, ReadError>),
) -> Result<(), HistoryError> {
    let location: Location = address.parse()?;
    let Location::Postgres(database) = &location else {
        let why = "write `postgres://USER@HOST/DATABASE`";
        return Err(LocationError { given: rejoin_store::hidden(address), why }.into());
    };
    let (name, format) = (rejoin_store::hidden(address), sessions::named("prometheus"));
    let read = |text: String| sessions::read(&Input::new(&name, text.as_bytes())?, format);
    rejoin_store::each_history(database, &mut |text| each(read(text)))
        .map_err(|why| HistoryError::Server { location: location.clone(), why })
}

/// Opens a file, and unpacks it if it is compressed.
pub(crate) fn open_unpacked(place: &Path, open: Open) -> io::Result<ByteSource> {
    let unpacked = unpack::unpack(open(place)?).map_err(|(_, why)| why)?;
    Ok(unpacked.source)
}

/// Reads a source, and the conversations in it if there are any. `place` is the path of a file; `None` for a stream.
fn look_at(
    name: &str,
    place: Option<&Path>,
    source: ByteSource,
    options: &SourceOptions,
) -> Result<OpenedSource, Unread> {
    let unpacked = unpack::unpack(source).map_err(|(packed, why)| unread(packed, why))?;
    let damage = unpacked.damage.clone();
    let looked = look_inside(name, place, unpacked, options);
    // If nothing could be read, the damage may be the cause, so report it together with the error.
    match (looked, damage.take()) {
        (Err(Unread::Format(error)), Some(damage)) => {
            OpenedSource { input: nothing(name), sessions: Err(error) }.with_damage(Some(damage))
        }
        (looked, damage) => looked?.with_damage(damage),
    }
}

/// The error for a source that cannot be read. If the source is compressed, it is an error of unpacking.
fn unread(packed: Packing, why: io::Error) -> Unread {
    if packed == Packing::None { Unread::Io(why) } else { Unread::Packed(why) }
}

/// Reads the unpacked content of a source.
fn look_inside(
    name: &str,
    place: Option<&Path>,
    unpacked: UnpackedSource,
    options: &SourceOptions,
) -> Result<OpenedSource, Unread> {
    let format = options.from;
    let UnpackedSource { outer: packed, inner: inside, source, .. } = unpacked;
    let failed = |why: io::Error| unread(packed, why);
    let elsewhere = |sessions| Ok(OpenedSource { input: nothing(name), sessions });
    match (inside, place.filter(|place| packed == Packing::None && place.is_file())) {
        (Packing::Database, Some(place)) => return elsewhere(copied::read(place, format)),
        (Packing::Database, None) => return elsewhere(copied::read_stream(name, source, format)),
        (Packing::Archive, _) if packed == Packing::None => {
            return archive::read(name, place, source, options);
        }
        _ => {}
    }
    let beside = place.map(FilesBeside::new);
    let mut source = io::BufReader::with_capacity(READ_AT_ONCE, source);
    let beginning =
        Beginning::of(&mut source, options).map_err(|unread_beginning| match unread_beginning {
            Unread::Io(why) => failed(why),
            other => other,
        })?;
    let Beginning { mut bytes, is_whole, detected } = beginning;
    let lines = detected.and_then(|format| format.read.as_ref()).filter(|reading| reading.is_lines());
    if lines.is_none() {
        // Read one byte more than the limit: if it arrives, the source is too large for one text.
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
            Stream { name, source: &mut whole, companions: beside.as_ref().map(|beside| beside as _) };
        return elsewhere(Ok(reading.read_stream(stream)?));
    }
    let mut input = Input::new(name, &bytes).map_err(ReadError::from)?;
    drop(bytes);
    input.companions = beside.map(|beside| Arc::new(beside) as _);
    let sessions = match detected.filter(|_| is_whole && format.is_none()) {
        Some(detected) => sessions::read_detected(&input, detected),
        None => sessions::read(&input, format),
    };
    Ok(OpenedSource { input, sessions })
}

/// The beginning of an unpacked source.
struct Beginning {
    bytes: Vec<u8>,
    /// Whether it is all of the source.
    is_whole: bool,
    /// The format: the one that the caller named, or else the one that it looks like.
    detected: Option<&'static Format>,
}

impl Beginning {
    fn of(mut source: &mut dyn Read, options: &SourceOptions) -> Result<Self, Unread> {
        let SourceOptions { from: format, effort, .. } = *options;
        let mut bytes = Vec::new();
        if effort == ReadEffort::InPassing {
            (&mut source).take(GLANCE_AT).read_to_end(&mut bytes).map_err(Unread::Io)?;
            if !begins_like_json(&bytes) && bytes.contains(&0) {
                return Err(ReadError::Input(InputError::Binary { offset: 0 }).into());
            }
        }
        let rest = LOOK_AT - bytes.len() as u64;
        source.take(rest).read_to_end(&mut bytes).map_err(Unread::Io)?;
        // The beginning of a source shows whether it is a file of lines, which need not fit into one text. Other formats are
        // recognised by the whole text.
        let is_whole = (bytes.len() as u64) < LOOK_AT;
        let detect = if is_whole { sessions::detect } else { sessions::detect_lines };
        let claimed = || detect(&String::from_utf8_lossy(&bytes));
        let detected = format.or_else(claimed);
        // If the caller named a format, not every text in a folder is a session in it: a format must recognise a text that is
        // not JSON.
        let unlikely = || if format.is_some() { claimed().is_none() } else { detected.is_none() };
        if effort == ReadEffort::InPassing && !bytes.is_empty() && !begins_like_json(&bytes) && unlikely() {
            let reason = "it begins like something else";
            return Err(ReadError::NotJson { reason, line: 1, offset: 0 }.into());
        }
        Ok(Self { bytes, is_whole, detected })
    }
}

/// How many bytes are read at once.
const READ_AT_ONCE: usize = 256 * 1024;

/// How many bytes of an input are read before its format is detected.
const LOOK_AT: u64 = 1024 * 1024;

/// How many bytes of a file in a folder are read to find out whether it is binary.
const GLANCE_AT: u64 = 8 * 1024;

/// Whether bytes begin like JSON, in any encoding that can be read.
fn begins_like_json(bytes: &[u8]) -> bool {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests;
