//! Reads zip archives: those that are the storage of a program, such as `.eval`, and those that hold one session file.
//!
//! The list of files is at the end of an archive. If the archive was cut off and the list is missing, the files are found one
//! after another from the beginning. Each of them is unpacked once to find out whether it is whole, within the same limits as
//! elsewhere.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use rejoin_formats::{
    ReadError,
    input::Files,
    sessions::{self, Format},
};
use rejoin_record::limits;
use zip::{ZipArchive, read::ZipFile, read::read_zipfile_from_stream};

use super::{
    ByteSource, OpenedSource, READ_AT_ONCE, ReadEffort, SourceOptions, Unread, holds_session, look_at,
    nothing,
    unpack::{self, Bounded, DamageSeen, PackedDamage, Packing, RATIO, UNPACKED_BYTES, UpToDamage},
};

/// The most files that an archive may have.
const ENTRIES: usize = 100_000;

/// The most files in an archive that are examined to find the only session among them, if the caller named the archive.
const LOOKED_AT: usize = 100;
/// The same, if the archive is one of many files in a folder.
const LOOKED_AT_IN_PASSING: usize = 10;

/// The most files that an error names if the archive is not one session or storage.
const NAMED: usize = 10;

/// An unpacked file up to this size stays in memory; a larger one goes to a temporary file.
const IN_MEMORY: usize = 1024 * 1024;

/// Reads the conversations in an archive, which is either the storage of a program or contains exactly one session file.
pub fn read(
    name: &str,
    place: Option<&Path>,
    mut source: ByteSource,
    options: &SourceOptions,
) -> Result<OpenedSource, Unread> {
    if let Some(place) = place.filter(|place| place.is_file()) {
        let file = File::open(place).map_err(Unread::Io)?;
        return of(&Archive::open(name, BufReader::new(file)).map_err(Unread::Packed)?, options);
    }
    // The list of files is at the end, and a pipe cannot be read twice, so read it into memory.
    let mut bytes = Vec::new();
    (&mut source).take(UNPACKED_BYTES).read_to_end(&mut bytes).map_err(Unread::Io)?;
    of(&Archive::open(name, Cursor::new(bytes)).map_err(Unread::Packed)?, options)
}

fn of<R: Read + Seek + Send>(archive: &Archive<R>, options: &SourceOptions) -> Result<OpenedSource, Unread> {
    let reads_files =
        |format: &'static Format| format.read.as_ref().is_some_and(|reading| reading.files.is_some());
    let read = match options.from {
        Some(format) if !reads_files(format) => Err(ReadError::UnknownFormat),
        format => sessions::read_files(archive, format),
    };
    match read {
        Err(ReadError::UnknownFormat) => archive.only_session(options),
        sessions => OpenedSource { input: nothing(&archive.name), sessions }.with_damage(archive.damage()),
    }
}

/// The files of a zip archive.
struct Archive<R> {
    name: String,
    /// The files that are whole, in order.
    paths: Vec<String>,
    members: Mutex<Members<R>>,
    /// Where the archive was cut off; `None` if it has its list of files.
    cut: Option<Cut>,
}

/// How the files of an archive are found.
enum Members<R> {
    /// By the list at its end.
    Listed(ZipArchive<R>),
    /// By the place where each file begins.
    Found { source: R, starts: BTreeMap<String, u64> },
}

/// An archive without its list of files.
struct Cut {
    /// The offset of the first byte that does not belong to a whole file.
    at: u64,
    /// The file that the cut goes through, if its name is known.
    partial: Option<String>,
    /// Why the search for files ended there.
    why: String,
}

impl<R: Read + Seek> Archive<R> {
    /// Opens an archive, and reads its list of files. If there is none, finds the files themselves.
    fn open(name: &str, mut source: R) -> io::Result<Self> {
        if ZipArchive::new(&mut source).is_err() {
            return Self::without_list(name, source);
        }
        let mut archive = ZipArchive::new(source).map_err(io::Error::other)?;
        if archive.len() > ENTRIES {
            return Err(too_many());
        }
        let (mut paths, mut total) = (Vec::new(), 0u64);
        for number in 0..archive.len() {
            let entry = archive.by_index_raw(number).map_err(io::Error::other)?;
            total = total.saturating_add(entry.size());
            if entry.size() / RATIO > entry.compressed_size() || total > UNPACKED_BYTES {
                return Err(unpack::too_much());
            }
            // Skip a file whose name cannot be decoded: no format has such a name.
            if let Some(name) = entry.name().ok().filter(|_| entry.is_file()) {
                paths.push(name.into_owned());
            }
        }
        paths.sort();
        Ok(Self { name: name.to_owned(), paths, members: Mutex::new(Members::Listed(archive)), cut: None })
    }

    /// Finds the files of an archive that was cut off, one after another.
    fn without_list(name: &str, mut source: R) -> io::Result<Self> {
        let length = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let (mut starts, mut paths, mut partial, mut total) = (BTreeMap::new(), Vec::new(), None, 0);
        let (at, why) = loop {
            let start = source.stream_position()?;
            let mut entry = match read_zipfile_from_stream(&mut source) {
                Ok(Some(entry)) => entry,
                Ok(None) => break (start, String::from("its list of files is not complete")),
                Err(_) if start == length => break (start, String::from("its list of files is missing")),
                Err(why) => break (start, why.to_string()),
            };
            if starts.len() == ENTRIES {
                return Err(too_many());
            }
            let path = entry.name().ok().filter(|_| entry.is_file()).map(|name| name.into_owned());
            let packed = entry.compressed_size().min(length - start);
            let (unpacked, damage) = unpacked_to(&mut entry, packed, &mut io::sink())?;
            drop(entry);
            let ends_here = source.stream_position()? == length;
            total += unpacked;
            if total > UNPACKED_BYTES {
                return Err(unpack::too_much());
            }
            starts.extend(path.iter().map(|path| (path.clone(), start)));
            if let Some(damage) = damage {
                partial = path;
                break (start, if ends_here { String::from("it is not complete") } else { damage.why });
            }
            paths.extend(path);
        };
        if starts.is_empty() {
            let what = "it was cut off before a file in it is complete; get a whole copy of it";
            return Err(io::Error::other(format!("{what} ({why})")));
        }
        paths.sort();
        paths.dedup();
        let cut = Some(Cut { at, partial, why });
        let members = Mutex::new(Members::Found { source, starts });
        Ok(Self { name: name.to_owned(), paths, members, cut })
    }

    fn members(&self) -> MutexGuard<'_, Members<R>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes the damage to an archive that was cut off.
    fn damage(&self) -> Option<PackedDamage> {
        let cut = self.cut.as_ref()?;
        let whole = match self.paths.len() {
            1 => String::from("1 file before that is whole"),
            count => format!("{count} files before that are whole"),
        };
        let within = cut.partial.as_ref().map_or(String::new(), |path| format!(", where `{path}` begins"));
        let why = format!(
            "the archive is cut off or damaged from byte {} on{within}: {}; {whole}",
            cut.at, cut.why
        );
        Some(PackedDamage { is_cut: true, line: None, unpacked: 0, why })
    }

    /// Unpacks the intact beginning of a file.
    fn unpack(&self, path: &str) -> io::Result<(ByteSource, Option<PackedDamage>)> {
        let mut unpacked = tempfile::spooled_tempfile(IN_MEMORY);
        let mut members = self.members();
        let mut entry = members.open(path)?;
        let packed = entry.compressed_size();
        let (_, damage) = unpacked_to(&mut entry, packed, &mut unpacked)?;
        unpacked.rewind()?;
        Ok((Box::new(unpacked), damage))
    }

    /// The beginning of a file.
    fn beginning(&self, path: &str) -> Option<Vec<u8>> {
        let mut members = self.members();
        let mut bytes = Vec::new();
        // After an error, the bytes unpacked so far are a usable beginning, too.
        _ = members.open(path).ok()?.take(READ_AT_ONCE as u64).read_to_end(&mut bytes);
        Some(bytes)
    }

    /// Reads the only session file of an archive, as if it were not packed.
    fn only_session(&self, options: &SourceOptions) -> Result<OpenedSource, Unread> {
        let partial = self.cut.as_ref().and_then(|cut| cut.partial.as_ref());
        let all: Vec<&String> =
            self.paths.iter().chain(partial).filter(|path| !is_put_there_by_the_system(path)).collect();
        let is_session = |path: &&String| {
            let bytes = self.beginning(path).unwrap_or_default();
            holds_session(&bytes) || sessions::detect(&String::from_utf8_lossy(&bytes)).is_some()
        };
        let most = match options.effort {
            ReadEffort::Full => LOOKED_AT,
            ReadEffort::InPassing => LOOKED_AT_IN_PASSING,
        };
        let mut found = all.iter().copied().filter(|_| all.len() <= most).filter(is_session);
        let path = match &all[..] {
            [] => return Err(ReadError::NoConversation("the archive holds no file").into()),
            // Do not unpack one of many files in a folder if it does not begin like a session.
            [path] if options.effort == ReadEffort::InPassing && !is_session(path) => {
                return Err(ReadError::NoConversation("the file in the archive is no session").into());
            }
            [path] => *path,
            _ => match (found.next(), found.next()) {
                (Some(path), None) => path,
                _ => {
                    let files = all.iter().take(NAMED).map(|path| (*path).clone()).collect();
                    return Err(Unread::Several { files, total: all.len() });
                }
            },
        };
        let (source, damage) = self.unpack(path).map_err(Unread::Packed)?;
        let (packing, source) = unpack::look(source).map_err(Unread::Packed)?;
        if packing == Packing::Archive {
            return Err(ReadError::NoConversation("it is an archive in an archive: unpack it first").into());
        }
        let damage = match (damage, self.damage()) {
            (Some(damage), cut) => Some(PackedDamage { is_cut: cut.is_some(), ..damage }),
            (None, cut) => cut,
        };
        look_at(&self.name, None, source, options)?.with_damage(damage)
    }
}

impl<R: Read + Seek> Members<R> {
    fn open(&mut self, path: &str) -> io::Result<ZipFile<'_, R>> {
        match self {
            Self::Listed(archive) => archive.by_name(path).map_err(io::Error::other),
            Self::Found { source, starts } => {
                let start = starts.get(path).ok_or(io::ErrorKind::NotFound)?;
                source.seek(SeekFrom::Start(*start))?;
                let entry = read_zipfile_from_stream(source).map_err(io::Error::other)?;
                entry.ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }
}

/// Unpacks a file of an archive up to its end or to damage in it. Returns the unpacked length and the damage.
fn unpacked_to(
    entry: &mut impl Read,
    packed: u64,
    into: &mut impl io::Write,
) -> io::Result<(u64, Option<PackedDamage>)> {
    let whole = UpToDamage::new(entry, Arc::default());
    let seen: DamageSeen = whole.seen();
    let packed = Arc::new(AtomicU64::new(packed));
    let unpacked = io::copy(&mut Bounded { source: whole, unpacked: 0, packed, ratio: RATIO }, into)?;
    Ok((unpacked, seen.take()))
}

fn too_many() -> io::Error {
    io::Error::other(format!("the archive has more than {ENTRIES} files"))
}

/// Whether the operating system added a file to the archive when a person packed it.
fn is_put_there_by_the_system(path: &str) -> bool {
    path.starts_with("__MACOSX/") || path.ends_with(".DS_Store")
}

impl<R> fmt::Debug for Archive<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Archive").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<R: Read + Seek + Send> Files for Archive<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let mut members = self.members();
        let entry = members.open(path).ok()?;
        // The list may state a false size, so stop at it and check.
        let most = entry.size().min(limits::BODY_BYTES as u64);
        let mut bytes = Vec::new();
        entry.take(most + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }
}
