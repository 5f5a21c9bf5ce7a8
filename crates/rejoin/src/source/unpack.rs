//! Unpacks gzip and zstd files as streams. The unpacked content decides how a file is read. `archive.rs` opens zip archives.
//!
//! A small file may unpack to more than any disk holds, so all unpacking stops at a limit. If a file is cut off or damaged, the
//! part before that is unpacked, and the place where it ends is reported.

use std::{
    io::{self, BufReader, Cursor, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use flate2::read::MultiGzDecoder;
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use super::ByteSource;

/// The first bytes of a gzip file, a zstd frame, a zip archive and a SQLite database.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZIP: &[u8] = b"PK\x03\x04";
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";

/// What the header of a file in a tar archive says, and where.
const TAR: &[u8] = b"ustar";
const TAR_AT: usize = 257;

/// How many bytes distinguish these formats.
const HEAD: u64 = (TAR_AT + TAR.len()) as u64;

/// The most bytes that a packed file, or all files of an archive together, may unpack to: as many as are accepted from a pipe.
pub const UNPACKED_BYTES: u64 = 1024 * 1024 * 1024;

/// The largest allowed ratio of unpacked to packed size, for zstd and for a file in an archive. Deflate reaches a thousand only
/// if a file repeats one byte.
pub const RATIO: u64 = 1_000;

/// The same ratio for gzip. It is lower because gzip finds repetitions only within 32 KiB, so real sessions stay far below it.
const GZIP_RATIO: u64 = 200;

/// Up to this many unpacked bytes, any ratio is allowed, because a small file of repeated lines is not a bomb.
const ANY_RATIO: u64 = 16 * 1024 * 1024;

/// The kind of a file, as its first bytes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Text, or anything unknown, which is read as text.
    None,
    Gzip,
    Zstd,
    Archive,
    /// It is not opened: its files are stored one after the other, so it would be read as one text.
    Tar,
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
            () if head.get(TAR_AT..).is_some_and(|rest| rest.starts_with(TAR)) => Self::Tar,
            () => Self::None,
        }
    }
}

/// Detects the kind of a source. The returned source still begins with the bytes that were examined.
pub fn look(mut source: ByteSource) -> io::Result<(Packing, ByteSource)> {
    let mut head = Vec::new();
    (&mut source).take(HEAD).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    Ok((packing, Box::new(Cursor::new(head).chain(source))))
}

/// A source, unpacked if it is compressed.
pub struct UnpackedSource {
    /// How it was compressed.
    pub outer: Packing,
    /// The kind of the content.
    pub inner: Packing,
    pub source: ByteSource,
    /// Where unpacking ended early. It is known only after the source has been read to its end.
    pub damage: DamageSeen,
}

/// Unpacks one layer of compression.
///
/// # Errors
/// If the source cannot be read or unpacked. The error comes with the kind of compression.
pub fn unpack(source: ByteSource) -> Result<UnpackedSource, (Packing, io::Error)> {
    let (outer, source) = look(source).map_err(|why| (Packing::None, why))?;
    let counted = Counted { source, count: Arc::default(), failed: Arc::default() };
    let (packed, failed) = (Arc::clone(&counted.count), Arc::clone(&counted.failed));
    let ratio = if outer == Packing::Gzip { GZIP_RATIO } else { RATIO };
    let unpacked: ByteSource = match outer {
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(counted))),
        Packing::Zstd => Box::new(zstd::Decoder::new(counted).map_err(|why| (outer, why))?),
        Packing::Tar => return Err(tar(outer)),
        inner => {
            let damage = DamageSeen::default();
            return Ok(UnpackedSource { outer: Packing::None, inner, source: counted.source, damage });
        }
    };
    let whole = UpToDamage::new(unpacked, failed);
    let damage = whole.seen();
    let bounded = Box::new(Bounded { source: whole, unpacked: 0, packed, ratio });
    let (inner, source) = look(bounded).map_err(|why| (outer, why))?;
    if let Some(nothing) = damage.lock().take_if(|damage| damage.unpacked == 0) {
        return Err((outer, io::Error::other(nothing.why)));
    }
    if inner == Packing::Tar { Err(tar(outer)) } else { Ok(UnpackedSource { outer, inner, source, damage }) }
}

fn tar(outer: Packing) -> (Packing, io::Error) {
    (
        outer,
        io::Error::other("it is a tar archive: unpack it with `tar -xf`, and name the files or the folder"),
    )
}

/// A source whose bytes are counted while they are read.
struct Counted {
    source: ByteSource,
    count: Arc<AtomicU64>,
    /// Whether reading the source itself failed. Such an error says nothing about its content.
    failed: Arc<AtomicBool>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into);
        match &read {
            Ok(count) => _ = self.count.fetch_add(*count as u64, Ordering::Relaxed),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        read
    }
}

/// The place where unpacking ended early, if it did. It is shared with the source that sets it.
#[derive(Clone, Default)]
pub struct DamageSeen(Arc<Mutex<Option<PackedDamage>>>);

impl DamageSeen {
    fn lock(&self) -> MutexGuard<'_, Option<PackedDamage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Option<PackedDamage> {
        self.lock().take()
    }
}

/// A place where a packed file was cut off or is damaged.
#[derive(Debug)]
pub struct PackedDamage {
    /// Whether the file simply ends, like one that is still being written.
    pub is_cut: bool,
    /// The line of the unpacked text in which it is, from 1; `None` if the content is not one text.
    pub line: Option<usize>,
    /// How many bytes were unpacked before.
    pub unpacked: u64,
    /// The place and what is missing, in words.
    pub why: String,
}

impl PackedDamage {
    fn new(cause: &io::Error, unpacked: u64, line: usize) -> Self {
        let is_cut = cause.kind() == io::ErrorKind::UnexpectedEof;
        let why = match unpacked {
            0 if is_cut => String::from("it is cut off before anything in it is complete"),
            0 => cause.to_string(),
            _ if is_cut => {
                format!("the packed file is cut off after {unpacked} unpacked bytes; the rest is missing")
            }
            _ => format!(
                "the packed file is damaged after {unpacked} unpacked bytes ({cause}); the rest is lost"
            ),
        };
        Self { is_cut, line: Some(line), unpacked, why }
    }

    /// Converts the damage to a finding. A cut is a warning, not a note, because more than the last entry may be missing.
    pub fn into_finding(self) -> Finding {
        let rule = if self.is_cut { Rule::TornTail } else { Rule::DamagedEntry };
        let at = Position { line: self.line, ..Position::default() };
        let finding = Finding::new(rule, at, Action::SetAside).because(self.why);
        Finding { severity: finding.severity.max(Severity::Warning), ..finding }
    }
}

/// An unpacked source that ends where its packed form is damaged.
pub struct UpToDamage<S> {
    source: S,
    /// Whether reading the packed form failed, which is an error of the system and not damage.
    failed: Arc<AtomicBool>,
    seen: DamageSeen,
    ended: bool,
    unpacked: u64,
    lines: usize,
}

impl<S: Read> UpToDamage<S> {
    /// The most bytes that are unpacked at once. The piece in which damage is found is lost as a whole.
    const PIECE: usize = 4 * 1024;

    pub fn new(source: S, failed: Arc<AtomicBool>) -> Self {
        Self { source, failed, seen: DamageSeen::default(), ended: false, unpacked: 0, lines: 0 }
    }

    /// A shared handle that holds the damage once it has been found.
    pub fn seen(&self) -> DamageSeen {
        self.seen.clone()
    }

    fn end(&mut self, why: io::Error) -> io::Result<usize> {
        if self.failed.load(Ordering::Relaxed) || why.raw_os_error().is_some() {
            return Err(why);
        }
        self.ended = true;
        *self.seen.lock() = Some(PackedDamage::new(&why, self.unpacked, self.lines + 1));
        Ok(0)
    }
}

impl<S: Read> Read for UpToDamage<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let piece = into.len().min(Self::PIECE);
        match self.source.read(&mut into[..piece]) {
            Ok(count) => {
                self.unpacked += count as u64;
                self.lines += into[..count].iter().filter(|byte| **byte == b'\n').count();
                Ok(count)
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => Err(why),
            Err(why) => self.end(why),
        }
    }
}

/// A source that fails when more bytes were unpacked than allowed. The limit on the ratio refuses a bomb early, before much of it
/// is collected in memory.
pub struct Bounded<S> {
    pub source: S,
    pub unpacked: u64,
    pub packed: Arc<AtomicU64>,
    /// How many times as many bytes may be unpacked as were read.
    pub ratio: u64,
}

impl<S: Read> Read for Bounded<S> {
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

pub fn too_much() -> io::Error {
    io::Error::other(format!("it unpacks to more than {} MiB", UNPACKED_BYTES / 1024 / 1024))
}
