//! A folder of files of turns, `{base}/{id}.jsonl`, for agents that keep conversations in this form: one
//! `{timestamp, items, metadata}` object per line, appended and never rewritten. rejoin itself keeps conversations in a store.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use rejoin_formats::{ReadError, Session, input::Stream, session::instant, sessions::turns};
use rejoin_record::{
    Raw, Timestamp,
    json::{Doc, Object, Value, ValueKind, write},
    limits,
    lines::Lines,
};
use rejoin_store::files::PrivateFolder;

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutTurn {
    /// When the turn ended; `None` if the line has no time.
    pub timestamp: Option<Timestamp>,
    /// The items of the turn, each a JSON object with its exact text.
    pub items: Vec<Raw>,
    /// Provider, model and tokens; none if the line has no `metadata`.
    pub metadata: Option<TurnMetadata>,
}

/// Provider, model and tokens of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnMetadata {
    /// The name of the provider that answered.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The tokens of all requests of the turn and of their answers; none if the provider did not
    /// count them.
    pub tokens: Option<u64>,
}

/// A compaction: from here on the summary replaces everything before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactedTurn {
    /// When the summary was made; `None` if the line has no time.
    pub timestamp: Option<Timestamp>,
    /// The summary's text.
    pub summary: String,
    /// The number of items that were left out when the summary was made, so that the rest fitted into the model's window.
    pub truncated_count: u64,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutLine {
    /// A turn.
    Turn(RolloutTurn),
    /// A compaction.
    Compacted(CompactedTurn),
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationMetadata {
    /// The conversation's id: the name of its file, without `.jsonl`.
    pub id: String,
    /// The time in the last line; if it has none, the time at which the file was last written.
    pub updated_at: Timestamp,
    /// The provider that the last turn names.
    pub provider: Option<String>,
    /// The model that the last turn names.
    pub model: Option<String>,
}

/// A line that is not a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
    /// Whether it is the last line and was cut off. Such a line was never acknowledged.
    pub torn: bool,
}

/// The readable lines of a conversation, and the damaged ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveredRollout {
    /// The lines that can be read.
    pub lines: Vec<RolloutLine>,
    /// The lines that cannot be read.
    pub damaged: Vec<DamagedLine>,
}

/// Why a file of turns could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// There is no such conversation.
    #[error("Conversation {id} not found. Run: rejoin list")]
    ConversationNotFound {
        /// Its id.
        id: String,
    },
    /// A line is no turn.
    #[error("Conversation {id} is damaged at line {line}: {why}")]
    CorruptedRollout {
        /// The conversation.
        id: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The conversation has no turns.
    #[error("Conversation {id} has no turns")]
    EmptyRollout {
        /// Its id.
        id: String,
    },
    /// The id cannot be the name of a file.
    #[error(
        "`{id}` cannot be the id of a conversation: use letters, digits, `-`, `_` and `.`, at most {MAX_ID} of them"
    )]
    InvalidId {
        /// The invalid id.
        id: String,
    },
    /// An item is not a JSON object, or is longer than a line may be.
    #[error("item {index} cannot be stored: {why}")]
    InvalidItem {
        /// The item, from 0.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("{what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        why: io::Error,
    },
}

impl RolloutError {
    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ConversationNotFound { .. } => "CONVERSATION_NOT_FOUND",
            Self::CorruptedRollout { .. } => "CORRUPTED_ROLLOUT",
            Self::EmptyRollout { .. } => "EMPTY_ROLLOUT",
            Self::InvalidId { .. } => "INVALID_ID",
            Self::InvalidItem { .. } => "INVALID_ITEM",
            Self::Io { .. } => "STORE_FAILED",
        }
    }
}

fn io_error(what: &str, path: &Path) -> impl FnOnce(io::Error) -> RolloutError + use<> {
    let what = format!("{what} {}", path.display());
    move |why| RolloutError::Io { what, why }
}

/// The longest id. File systems take 255 bytes for a name.
const MAX_ID: usize = 200;

/// How many bytes are read from the end of a file to list it: at first, and at most.
const LIST_BYTES: (u64, u64) = (64 * 1024, 4 * 1024 * 1024);

/// Keeps conversations as files of turns.
#[derive(Debug, Clone)]
pub struct RolloutRecorder {
    base: PathBuf,
}

impl RolloutRecorder {
    /// A recorder for a folder, which is created with the first turn.
    pub fn new(base_dir: impl Into<PathBuf>) -> Self {
        Self { base: base_dir.into() }
    }

    /// Appends a turn. It is durable when this returns.
    ///
    /// # Errors
    /// If the id or an item cannot be stored, or the file cannot be written.
    pub fn append_turn(&self, id: &str, turn: &RolloutTurn) -> Result<(), RolloutError> {
        let mut items = Vec::with_capacity(turn.items.len());
        for (index, item) in turn.items.iter().enumerate() {
            let invalid = |why: &str| RolloutError::InvalidItem { index, why: why.to_owned() };
            let doc = Doc::parse(item.as_str()).map_err(|error| invalid(error.reason()))?;
            if doc.root().is_none_or(|root| root.kind() != ValueKind::Object) {
                return Err(invalid("it is not a JSON object"));
            }
            // Line breaks between values mean nothing, and those inside strings are escaped, so they can all be removed.
            let mut clean = String::with_capacity(item.as_str().len());
            write::clean_copy(&mut clean, item.as_str());
            items.push(clean.replace(['\n', '\r'], " "));
        }
        let line = Object::new().text_if("timestamp", turn.timestamp).list("items", items);
        let metadata = turn.metadata.as_ref().map(|metadata| {
            let named = Object::new()
                .text_if("provider", metadata.provider.as_deref())
                .text_if("model", metadata.model.as_deref());
            named.raw_if("tokens", metadata.tokens.map(|tokens| tokens.to_string()).as_deref()).finish()
        });
        self.append(id, line.raw_if("metadata", metadata.as_deref()).finish())
    }

    /// Appends a compaction. It is durable when this returns.
    pub fn append_compacted(&self, id: &str, compacted: &CompactedTurn) -> Result<(), RolloutError> {
        let line = Object::new()
            .text_if("timestamp", compacted.timestamp)
            .text("type", "compacted")
            .text("summary", &compacted.summary)
            .number("truncatedCount", compacted.truncated_count);
        self.append(id, line.finish())
    }

    /// Reads every line of a conversation. A last line that was cut off was never acknowledged, and is skipped.
    ///
    /// # Errors
    /// If the conversation does not exist, is damaged, or has no turns.
    pub fn read_rollout(&self, id: &str) -> Result<Vec<RolloutLine>, RolloutError> {
        let RecoveredRollout { lines, damaged } = self.recover_rollout(id)?;
        if let Some(DamagedLine { line, why, .. }) = damaged.into_iter().find(|damaged| !damaged.torn) {
            return Err(RolloutError::CorruptedRollout { id: id.to_owned(), line, why });
        }
        if lines.is_empty() {
            return Err(RolloutError::EmptyRollout { id: id.to_owned() });
        }
        Ok(lines)
    }

    /// Reads every readable line of a conversation, and reports the others.
    pub fn recover_rollout(&self, id: &str) -> Result<RecoveredRollout, RolloutError> {
        let mut lines = Lines::new(BufReader::new(self.open(id)?));
        let reading = || io_error("reading", &self.base.join(name(id)));
        let (mut recovered, mut bytes) = (RecoveredRollout::default(), Vec::new());
        while let Some(at) = lines.next(&mut bytes).map_err(reading())? {
            let line = match at.too_long {
                true => Err(format!("it has more than {} bytes", limits::BODY_BYTES)),
                false if bytes.trim_ascii().is_empty() => continue,
                false => line_of(&bytes),
            };
            match line {
                Ok(line) => recovered.lines.push(line),
                Err(why) => {
                    let torn = !at.ended && !at.too_long;
                    recovered.damaged.push(DamagedLine { line: at.number as usize, why, torn });
                }
            }
        }
        Ok(recovered)
    }

    /// The conversation as a session: the messages that a model would see, with the last compaction applied. Damage is skipped and
    /// reported.
    ///
    /// # Errors
    /// If the conversation does not exist, cannot be read, or has no turns.
    pub fn session(&self, id: &str) -> Result<Session, RolloutError> {
        let mut source = BufReader::new(self.open(id)?);
        let name = name(id);
        let stream = Stream { name: &name, source: &mut source, companions: None };
        match turns::read_stream(stream) {
            Ok(mut sessions) if !sessions.is_empty() => Ok(sessions.swap_remove(0)),
            Err(ReadError::Io(why)) => {
                let what = format!("reading {}", self.base.join(name).display());
                Err(RolloutError::Io { what, why: io::Error::other(why) })
            }
            _ => Err(RolloutError::EmptyRollout { id: id.to_owned() }),
        }
    }

    /// The conversations in the folder, newest first. Only the end of each file is read.
    ///
    /// # Errors
    /// If the folder exists and cannot be read.
    pub fn list(&self) -> Result<Vec<ConversationMetadata>, RolloutError> {
        let folder = match fs::read_dir(&self.base) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("reading", &self.base)(error)),
        };
        let mut list = Vec::new();
        for entry in folder {
            let entry = entry.map_err(io_error("reading", &self.base))?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) else { continue };
            // A file that disappears meanwhile, or cannot be read, must not hide the others.
            if !is_id(id) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let end = self.open(id).ok().and_then(|file| end_of(file).ok());
            list.extend(end.map(|end| ConversationMetadata {
                id: id.to_owned(),
                updated_at: end.time,
                provider: end.metadata.provider,
                model: end.metadata.model,
            }));
        }
        list.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.id.cmp(&b.id)));
        Ok(list)
    }

    fn path(&self, id: &str) -> Result<PathBuf, RolloutError> {
        if !is_id(id) {
            return Err(RolloutError::InvalidId { id: id.to_owned() });
        }
        Ok(self.base.join(name(id)))
    }

    /// The folder. No symbolic link in it is followed.
    fn folder(&self) -> PrivateFolder {
        PrivateFolder::new(&self.base)
    }

    fn open(&self, id: &str) -> Result<File, RolloutError> {
        let path = self.path(id)?;
        self.folder().open(name(id)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RolloutError::ConversationNotFound { id: id.to_owned() },
            _ => io_error("opening", &path)(error),
        })
    }

    fn append(&self, id: &str, mut line: String) -> Result<(), RolloutError> {
        let path = self.path(id)?;
        if line.len() >= limits::BODY_BYTES {
            let why = format!("its turn has {} bytes, a line may have {}", line.len(), limits::BODY_BYTES);
            return Err(RolloutError::InvalidItem { index: 0, why });
        }
        line.push('\n');
        let (folder, name) = (self.folder(), name(id));
        folder.make().map_err(io_error("making the folder", &self.base))?;
        let new = !folder.has(&name).map_err(io_error("opening", &path))?;
        let mut file = folder.open_to_append(&name, true).map_err(io_error("opening", &path))?;
        // The lock serialises the appends of two processes; a kill releases it.
        file.lock().map_err(io_error("locking", &path))?;
        if is_torn(&mut file).map_err(io_error("reading", &path))? {
            // Keep the line that was cut off apart from the new one.
            line.insert(0, '\n');
        }
        let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(io_error("writing", &path))?;
        if new {
            // Without this, a power cut may remove the new file's name from the folder.
            folder.sync().map_err(io_error("writing", &self.base))?;
        }
        Ok(())
    }
}

fn name(id: &str) -> String {
    format!("{id}.jsonl")
}

/// Whether a text can be an id, which is the name of a file in the folder.
fn is_id(id: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !id.is_empty() && id.len() <= MAX_ID && !id.starts_with('.') && id.bytes().all(known)
}

/// Whether the last line of a file lacks its newline.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn line_of(bytes: &[u8]) -> Result<RolloutLine, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?.trim();
    let doc = Doc::parse(text).map_err(|error| format!("{} (byte {})", error.reason(), error.offset))?;
    let root = doc.root().filter(|root| root.kind() == ValueKind::Object).ok_or("it is not a JSON object")?;
    let timestamp = time_of(root);
    let items = root.get("items").filter(|items| items.kind() == ValueKind::Array);
    if let Some(items) = items {
        let items = items.items().map(|item| Raw::new(item.raw())).collect();
        let metadata = root.given("metadata").map(metadata_of);
        return Ok(RolloutLine::Turn(RolloutTurn { timestamp, items, metadata }));
    }
    let summary = root.given("summary").and_then(Value::as_str).ok_or("it is not a turn")?.into_owned();
    let count = root.given("truncatedCount").or_else(|| root.given("truncated_count"));
    let truncated_count = count.and_then(Value::as_u64).unwrap_or(0);
    Ok(RolloutLine::Compacted(CompactedTurn { timestamp, summary, truncated_count }))
}

/// The time of a line, in any of the units that agents write.
fn time_of(root: Value<'_>) -> Option<Timestamp> {
    let time = root.given("timestamp")?;
    instant(&time.as_str().unwrap_or(time.raw().into()))
}

fn metadata_of(metadata: Value<'_>) -> TurnMetadata {
    let text = |name: &str| metadata.given(name).and_then(Value::as_str).map(|text| text.into_owned());
    TurnMetadata {
        provider: text("provider"),
        model: text("model"),
        tokens: metadata.given("tokens").and_then(Value::as_u64),
    }
}

/// Time, provider and model at the end of a file.
struct End {
    time: Timestamp,
    metadata: TurnMetadata,
}

/// Reads a file from its end, as far back as needed to find the time and the provider.
fn end_of(mut file: File) -> io::Result<End> {
    let about = file.metadata()?;
    let length = about.len();
    let mut window = LIST_BYTES.0;
    loop {
        let start = length.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&mut file).take(length - start).read_to_end(&mut bytes)?;
        let mut lines = bytes.split(|byte| *byte == b'\n').rev().collect::<Vec<_>>();
        if start > 0 {
            // The first one may be incomplete.
            lines.pop();
        }
        let (mut time, mut metadata) = (None, None);
        for line in lines {
            let Ok(line) = line_of(line) else { continue };
            let (said, about) = match line {
                RolloutLine::Turn(turn) => (turn.timestamp, turn.metadata),
                RolloutLine::Compacted(compacted) => (compacted.timestamp, None),
            };
            time = time.or(said);
            metadata = metadata.or(about);
            if time.is_some() && metadata.is_some() {
                break;
            }
        }
        if start == 0 || window >= LIST_BYTES.1 || (time.is_some() && metadata.is_some()) {
            let modified = || {
                let since = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
                Timestamp::from_microsecond(i64::try_from(since.as_micros()).ok()?).ok()
            };
            let time = time.or_else(modified).unwrap_or(Timestamp::UNIX_EPOCH);
            return Ok(End { time, metadata: metadata.unwrap_or_default() });
        }
        window *= 4;
    }
}
