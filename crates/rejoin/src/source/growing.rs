//! Reads large files of lines again while they grow: only what was added is parsed.
//!
//! What was read before must still be there, so its hash is compared each time. That takes about a hundredth of the time that
//! reading it takes.

use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rejoin_formats::{Session, input::Companions, sessions::GrowingFile};
use rejoin_record::hash::StreamHasher;

use super::{Beginning, READ_AT_ONCE, SourceOptions, beside::FilesBeside, unpack};

/// How many bytes of files are remembered in total. Memory holds about twice as many.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// A file that did not change for this long is forgotten, and read whole when it changes again.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// The files that changed last, each with what its reader remembers and something that the caller keeps with it.
pub(crate) struct GrowingSources<T> {
    /// Ordered by use, the latest at the end.
    files: VecDeque<Grown<T>>,
    most_bytes: u64,
}

impl<T> Default for GrowingSources<T> {
    fn default() -> Self {
        Self { files: VecDeque::new(), most_bytes: MOST_BYTES }
    }
}

impl<T> fmt::Debug for GrowingSources<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrowingSources").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

/// A file that was read.
pub(crate) struct Grown<T> {
    path: PathBuf,
    source: GrowingSource,
    used: Instant,
    /// What the caller keeps with it.
    pub with: T,
}

impl<T: Default> GrowingSources<T> {
    /// Whether a file is remembered.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// Reads the conversation in a file, if it is one that can be read on. `None` if it must be read like other files, which also
    /// tells what is wrong with it. The caller [keeps](Self::keep) the file for the next time.
    pub(crate) fn read(&mut self, path: &Path, options: &SourceOptions) -> Option<(Session, Grown<T>)> {
        let known = self.files.iter().position(|file| file.path == path);
        if let Some(mut file) = known.and_then(|known| self.files.remove(known))
            && let Some(session) = file.source.read_on(path)
        {
            return Some((session, Grown { used: Instant::now(), ..file }));
        }
        let mut source = GrowingSource::of(path, options)?;
        let session = source.read_on(path)?;
        Some((session, Grown { path: path.to_owned(), source, used: Instant::now(), with: T::default() }))
    }

    /// Remembers a file, and forgets others if they are too many.
    pub(crate) fn keep(&mut self, file: Grown<T>) {
        if !file.source.file.is_lasting() {
            return;
        }
        self.files.push_back(file);
        while self.files.iter().map(|file| file.source.file.remembered()).sum::<u64>() > self.most_bytes {
            self.files.pop_front();
        }
    }

    /// Forgets the files that did not change for long.
    pub(crate) fn forget_idle(&mut self) {
        self.files.retain(|file| file.used.elapsed() < IDLE);
    }
}

/// A file of lines, and the hash of those that are remembered.
struct GrowingSource {
    file: GrowingFile,
    remembered: StreamHasher,
}

impl GrowingSource {
    /// A large file of lines of which nothing was read yet. `None` if it is another file. A small one is read whole in no time, and
    /// what is added to it may even change its format.
    fn of(path: &Path, options: &SourceOptions) -> Option<Self> {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = is_file.then(|| File::open(path).ok()).flatten()?;
        let (unpack::Packing::None, mut source) = unpack::look(Box::new(file)).ok()? else { return None };
        let Beginning { is_whole: false, detected, .. } = Beginning::of(&mut source, options).ok()? else {
            return None;
        };
        Some(Self { file: GrowingFile::new(detected?)?, remembered: StreamHasher::default() })
    }

    /// Reads what was added. `None` if that cannot be done, and the file must be read whole.
    fn read_on(&mut self, path: &Path) -> Option<Session> {
        let mut file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let known = self.file.remembered();
        let mut hasher = StreamHasher::default();
        let before = Hashed { source: (&file).take(known), hasher: &mut hasher };
        // Large pieces are hashed faster.
        let mut before = BufReader::with_capacity(READ_AT_ONCE, before);
        let is_there = io::copy(&mut before, &mut io::sink()).is_ok_and(|read| read == known);
        drop(before);
        if !is_there || hasher.hash() != self.remembered.hash() {
            return None;
        }
        let end = end_of_lines(&mut file, known, length).ok()?;
        let mut rest_file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(known)).ok()?;
        rest_file.seek(SeekFrom::Start(end)).ok()?;
        let added = Hashed { source: file.take(end - known), hasher: &mut hasher };
        let mut added = BufReader::with_capacity(READ_AT_ONCE, added);
        let mut rest = BufReader::new(rest_file.take(length - end));
        let beside = FilesBeside::new(path);
        let companions: Option<&dyn Companions> = Some(&beside);
        let session = self.file.read_on(&path.to_string_lossy(), companions, &mut added, &mut rest).ok()?;
        drop(added);
        self.remembered = hasher;
        (self.file.remembered() == end).then_some(session)
    }
}

/// The offset after the last line break between two offsets of a file; the first offset if there is none.
fn end_of_lines(file: &mut File, from: u64, to: u64) -> io::Result<u64> {
    let mut end = to;
    let mut block = Vec::new();
    while end > from {
        let start = end.saturating_sub(READ_AT_ONCE as u64).max(from);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(place) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(from)
}

/// Bytes that are hashed while they are read.
struct Hashed<'h, S> {
    source: S,
    hasher: &'h mut StreamHasher,
}

impl<S: Read> Read for Hashed<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.hasher.add(&into[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    fn line(number: usize, padding: usize) -> String {
        let text = format!("message {number} {}", "words ".repeat(padding));
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        format!(
            r#"{{"timestamp":"2026-11-18T10:00:00.000Z","type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
        ) + "\n"
    }

    /// A rollout of more than a mebibyte.
    fn rollout() -> String {
        let meta = r#"{"timestamp":"2026-11-18T10:00:00.000Z","type":"session_meta","payload":{"id":"0199-x","cwd":"/w","originator":"o","cli_version":"1"}}"#;
        let lines: String = (0..300).map(|number| line(number, 700)).collect();
        format!("{meta}\n{lines}")
    }

    fn append(path: &Path, text: &str) {
        fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn whole(path: &Path) -> String {
        shown(&super::super::read(path, &SourceOptions::default()).unwrap().sessions.unwrap()[0])
    }

    fn shown(session: &Session) -> String {
        format!("{} {:?} {:?} {:?}", session.id, session.messages, session.places, session.findings)
    }

    /// Whatever happens to a file, what is read of it is what is in it.
    #[test]
    fn a_file_is_read_on_only_if_its_beginning_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rollout.jsonl");
        fs::write(&path, rollout()).unwrap();
        let mut files: GrowingSources<bool> = GrowingSources::default();
        // Returns whether the file was known.
        let mut read = |path: &Path| {
            let (session, mut file) = files.read(path, &SourceOptions::default()).unwrap();
            assert_eq!(shown(&session), whole(path));
            let known = std::mem::replace(&mut file.with, true);
            files.keep(file);
            known
        };
        assert!(!read(&path));
        append(&path, &line(300, 3));
        assert!(read(&path));
        // The end of a line is missing, and comes later.
        let last = line(301, 3);
        let (half, rest) = last.split_at(80);
        append(&path, half);
        assert!(read(&path));
        append(&path, rest);
        assert!(read(&path));
        // One byte in the middle is another one.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("message 150 ", "Message 150 ") + &line(302, 3)).unwrap();
        assert!(!read(&path));
        append(&path, &line(303, 3));
        assert!(read(&path));
        // It is shorter, but still large.
        fs::write(&path, rollout()).unwrap();
        assert!(!read(&path));
    }

    /// A small file, and one in a format without an end to which lines are added, is read like any other.
    #[test]
    fn other_files_are_not_read_on() {
        let folder = tempfile::tempdir().unwrap();
        let [small, document] = ["small.jsonl", "document.json"].map(|name| folder.path().join(name));
        fs::write(&small, &rollout()[..100_000]).unwrap();
        let long = "words ".repeat(300_000);
        fs::write(&document, format!(r#"{{"messages":[{{"role":"user","content":"{long}"}}]}}"#)).unwrap();
        let mut files: GrowingSources<()> = GrowingSources::default();
        for path in [small, document, folder.path().to_owned(), folder.path().join("missing")] {
            assert!(files.read(&path, &SourceOptions::default()).is_none(), "{}", path.display());
        }
    }

    #[test]
    fn files_beyond_the_limit_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut files: GrowingSources<()> =
            GrowingSources { most_bytes: 3_000_000, ..GrowingSources::default() };
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        for path in &paths {
            fs::write(path, rollout()).unwrap();
            let (_, file) = files.read(path, &SourceOptions::default()).unwrap();
            files.keep(file);
        }
        assert_eq!(paths.map(|path| files.has(&path)), [false, true, true]);
    }
}
