//! Reads sources that may never end: pipes, terminals and devices. The user is told when rejoin waits for one, and reading stops at
//! a limit.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use rejoin::source::ByteSource;

use crate::output;

/// How long to wait for data before the user is told that rejoin is waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many bytes are read from a pipe or a terminal, at most. All of them are in memory, which a program that never stops writing
/// must not fill.
const PIPE_BYTES: u64 = 1024 * 1024 * 1024;

/// How many bytes are read from a device, at most. Devices that end provide far less.
const DEVICE_BYTES: u64 = 16 * 1024 * 1024;

/// How many bytes are read at once, and how many such pieces may wait to be used.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES: usize = 4;

/// Opens a path. A pipe is only opened when it is read, because opening waits for its other end.
pub fn open(path: &Path) -> io::Result<ByteSource> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if metadata.is_file() {
        return Ok(Box::new(File::open(path)?));
    }
    let kind = Kind::of(&metadata)?;
    let (name, path) = (output::shown(path), path.to_owned());
    Ok(Box::new(ThreadedSource::new(name, kind, move || File::open(path).map(|file| Box::new(file) as _))))
}

/// Opens a pipe or a device for writing. If no program reads the pipe yet, waits for one and tells the user.
#[cfg(unix)]
pub fn open_to_write(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    let kind = fs::metadata(path)?.file_type();
    if kind.is_block_device() {
        return Err(io::Error::other("it is a disk, which is never overwritten"));
    }
    // Without blocking, opening a pipe without a reader fails at once.
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let began = Instant::now();
    let mut has_told = false;
    loop {
        match options.open(path) {
            Err(why) if kind.is_fifo() && why.raw_os_error() == Some(NO_READER) => {}
            Err(why) => return Err(why),
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file)?;
                rustix::fs::fcntl_setfl(&file, flags.difference(rustix::fs::OFlags::NONBLOCK))?;
                return Ok(file);
            }
        }
        if began.elapsed() >= PATIENCE && !std::mem::replace(&mut has_told, true) {
            let path = output::shown(path);
            output::note(format!("waiting for another program to read from {path}; Ctrl-C gives up"));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(not(unix))]
pub fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// The system's error for a pipe without a reader.
#[cfg(unix)]
const NO_READER: i32 = rustix::io::Errno::NXIO.raw_os_error();

/// How often opening a pipe without a reader is retried.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(50);

/// Standard input, if it is a pipe whose first byte arrives in time.
pub fn begun_stdin() -> Option<ByteSource> {
    let mut source = ThreadedSource::of_stdin(Kind::Pipe);
    match source.pieces.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => None,
        first => {
            source.first = first.ok();
            Some(Box::new(source))
        }
    }
}

pub fn stdin() -> ByteSource {
    match input_metadata() {
        Ok(metadata) if metadata.is_file() => Box::new(io::stdin()),
        metadata => {
            let kind = metadata.and_then(|metadata| Kind::of(&metadata)).unwrap_or(Kind::Pipe);
            Box::new(ThreadedSource::of_stdin(kind))
        }
    }
}

#[cfg(unix)]
pub fn input_metadata() -> io::Result<fs::Metadata> {
    use std::os::fd::AsFd as _;
    io::stdin().as_fd().try_clone_to_owned().map(File::from)?.metadata()
}

#[cfg(not(unix))]
pub fn input_metadata() -> io::Result<fs::Metadata> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// A source that is not a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A pipe or a terminal, which a program or a person ends.
    Pipe,
    /// A device, which may never end.
    Device,
}

impl Kind {
    #[cfg(unix)]
    fn of(metadata: &fs::Metadata) -> io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
        let kind = metadata.file_type();
        if kind.is_block_device() {
            return Err(io::Error::other("it is a disk, not a file"));
        }
        let is_terminal = kind.is_char_device() && is_terminal(metadata.rdev());
        Ok(if kind.is_char_device() && !is_terminal { Self::Device } else { Self::Pipe })
    }

    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> io::Result<Self> {
        Ok(Self::Pipe)
    }

    fn most(self) -> u64 {
        match self {
            Self::Pipe => PIPE_BYTES,
            Self::Device => DEVICE_BYTES,
        }
    }

    fn too_much(self) -> io::Error {
        let mib = self.most() / (1024 * 1024);
        io::Error::other(match self {
            Self::Pipe => format!("it sent more than {mib} MiB without an end; save it in a file first"),
            Self::Device => format!("it is a device that sent more than {mib} MiB and may have no end"),
        })
    }
}

/// Whether a device is a terminal, judged by its number: opening it to find out could take it over.
#[cfg(unix)]
fn is_terminal(device: u64) -> bool {
    // On Linux: /dev/tty and /dev/console, virtual and serial terminals, and pseudo-terminals.
    matches!(rustix::fs::major(device), 4 | 5 | 136..=143) || cfg!(not(target_os = "linux"))
}

/// A source that is read in a separate thread, because a read cannot be cancelled or timed.
struct ThreadedSource {
    name: String,
    kind: Kind,
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// The first piece, if it was already received.
    first: Option<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    used: usize,
    taken: u64,
    has_told: bool,
}

impl ThreadedSource {
    fn new(
        name: String,
        kind: Kind,
        open: impl FnOnce() -> io::Result<Box<dyn Read>> + Send + 'static,
    ) -> Self {
        let (sender, pieces) = mpsc::sync_channel(PIECES);
        std::thread::spawn(move || {
            let mut source = match open() {
                Ok(source) => source,
                Err(why) => return drop(sender.send(Err(why))),
            };
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = source.read(&mut piece);
                if matches!(&read, Err(why) if why.kind() == io::ErrorKind::Interrupted) {
                    continue;
                }
                let is_end = !matches!(read, Ok(1..));
                let read = read.map(|count| {
                    piece.truncate(count);
                    piece
                });
                if sender.send(read).is_err() || is_end {
                    return;
                }
            }
        });
        Self { name, kind, pieces, first: None, piece: Vec::new(), used: 0, taken: 0, has_told: false }
    }

    fn of_stdin(kind: Kind) -> Self {
        Self::new(String::from("standard input"), kind, || Ok(Box::new(io::stdin().lock())))
    }

    /// The next bytes; empty at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let received = match self.first.take().map_or_else(|| self.pieces.recv_timeout(PATIENCE), Ok) {
            Err(RecvTimeoutError::Timeout) => {
                if !std::mem::replace(&mut self.has_told, true) {
                    let (name, seconds) = (&self.name, PATIENCE.as_secs());
                    output::note(format!(
                        "waiting for {name}, which has sent nothing for {seconds} seconds; Ctrl-C gives up"
                    ));
                }
                self.pieces.recv().ok()
            }
            received => received.ok(),
        };
        let piece = received.transpose()?.unwrap_or_default();
        self.taken += piece.len() as u64;
        if self.taken > self.kind.most() { Err(self.kind.too_much()) } else { Ok(piece) }
    }
}

impl Read for ThreadedSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() {
            self.piece = self.next()?;
            self.used = 0;
        }
        let rest = &self.piece[self.used..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}
