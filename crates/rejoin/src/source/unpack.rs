//! Packed files: gzip and zstd as streams, zip archives as their files. What is inside decides how it is read.
//!
//! A small file may unpack to more than any disk holds, so everything here ends at a limit.

use std::{
    fmt,
    io::{self, BufReader, Cursor, Read, Seek},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::read::MultiGzDecoder;
use rejoin_formats::input::Files;
use rejoin_record::limits;
use zip::ZipArchive;

use super::ByteSource;

/// The first bytes of a gzip file, a zstd frame, a zip archive and a SQLite database.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZIP: &[u8] = b"PK\x03\x04";
const SQLITE: &[u8] = b"SQLite format 3\0";

/// How many bytes tell one from another.
const HEAD: u64 = 16;

/// The most that a packed file, or all files of an archive together, may unpack to: as much as a pipe may send.
pub const UNPACKED_BYTES: u64 = 1024 * 1024 * 1024;

/// The most files that an archive may have.
const ENTRIES: usize = 100_000;

/// How many times its packed size a file of an archive, or one packed by zstd, may have. Deflate reaches a thousand only for a file of one repeated byte.
const RATIO: u64 = 1_000;

/// The same for gzip, which finds repetition only within 32 KiB: real sessions stay far below.
const GZIP_RATIO: u64 = 200;

/// So much may be unpacked from however little: a small file of repeated lines is no bomb.
const ANY_RATIO: u64 = 16 * 1024 * 1024;

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Text, or something that is taken for it.
    None,
    Gzip,
    Zstd,
    Archive,
    Database,
}

impl Packing {
    fn of(head: &[u8]) -> Self {
        let begins = |mark: &[u8]| head.starts_with(mark);
        match () {
            () if begins(GZIP) => Self::Gzip,
            () if begins(ZSTD) => Self::Zstd,
            () if begins(ZIP) => Self::Archive,
            () if begins(SQLITE) => Self::Database,
            () => Self::None,
        }
    }
}

/// A source with its first bytes still in it, and what they tell.
fn look(mut source: ByteSource) -> io::Result<(Packing, ByteSource)> {
    let mut head = Vec::new();
    (&mut source).take(HEAD).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    Ok((packing, Box::new(Cursor::new(head).chain(source))))
}

/// A source, unpacked if it is compressed.
pub struct Unpacked {
    /// How it was compressed.
    pub outer: Packing,
    /// What is inside.
    pub inner: Packing,
    pub source: ByteSource,
}

/// Unpacks a source. Only one layer is taken off.
///
/// # Errors
/// How it is compressed, and why it cannot be read.
pub fn unpack(source: ByteSource) -> Result<Unpacked, (Packing, io::Error)> {
    let (outer, source) = look(source).map_err(|why| (Packing::None, why))?;
    let packed = Arc::new(AtomicU64::new(0));
    let ratio = if outer == Packing::Gzip { GZIP_RATIO } else { RATIO };
    let source = Counted { source, count: Arc::clone(&packed) };
    let unpacked: ByteSource = match outer {
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(source))),
        Packing::Zstd => Box::new(zstd::Decoder::new(source).map_err(|why| (outer, why))?),
        inner => return Ok(Unpacked { outer: Packing::None, inner, source: source.source }),
    };
    let bounded = Box::new(Bounded { source: unpacked, unpacked: 0, packed, ratio });
    let (inner, source) = look(bounded).map_err(|why| (outer, why))?;
    Ok(Unpacked { outer, inner, source })
}

/// A source whose bytes are counted while they are read.
struct Counted {
    source: ByteSource,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A source that fails at a limit instead of going on. What is unpacked from very little is refused long before, so that it is
/// never collected in memory.
struct Bounded {
    source: ByteSource,
    unpacked: u64,
    packed: Arc<AtomicU64>,
    /// How many times what was read may be unpacked from it.
    ratio: u64,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.unpacked += count as u64;
        if self.unpacked > UNPACKED_BYTES {
            return Err(too_much());
        }
        if self.unpacked > ANY_RATIO && self.unpacked / self.ratio > self.packed.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!("it unpacks to more than {} times its size", self.ratio)));
        }
        Ok(count)
    }
}

fn too_much() -> io::Error {
    io::Error::other(format!("it unpacks to more than {} MiB", UNPACKED_BYTES / 1024 / 1024))
}

/// The files of a zip archive.
pub struct Archive<R> {
    name: String,
    paths: Vec<String>,
    archive: Mutex<ZipArchive<R>>,
}

impl<R: Read + Seek> Archive<R> {
    /// Opens an archive and looks at its list of files.
    ///
    /// # Errors
    /// If it is damaged, or would unpack to more than the limit.
    pub fn open(name: &str, source: R) -> io::Result<Self> {
        let mut archive = ZipArchive::new(source).map_err(io::Error::other)?;
        if archive.len() > ENTRIES {
            return Err(io::Error::other(format!("the archive has more than {ENTRIES} files")));
        }
        let (mut paths, mut total) = (Vec::new(), 0u64);
        for number in 0..archive.len() {
            let entry = archive.by_index_raw(number).map_err(io::Error::other)?;
            total = total.saturating_add(entry.size());
            if entry.size() / RATIO > entry.compressed_size() || total > UNPACKED_BYTES {
                return Err(too_much());
            }
            // A name that cannot be read is no name that a format knows.
            if let Some(name) = entry.name().ok().filter(|_| entry.is_file()) {
                paths.push(name.into_owned());
            }
        }
        paths.sort();
        Ok(Self { name: name.to_owned(), paths, archive: Mutex::new(archive) })
    }
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
        let mut archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = archive.by_name(path).ok()?;
        // The size that the list gives may be a lie.
        let most = entry.size().min(limits::BODY_BYTES as u64);
        let mut bytes = Vec::new();
        entry.take(most + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }
}
