//! `@path` in a message: the file becomes part of the message, so that the conversation can be resumed without it.
//!
//! Text becomes a text block with its name, an image becomes an image block if the model's dialect takes images. A path that cannot
//! be attached stays in the text as typed, and a note has the reason.
//!
//! A message may be pasted, so this decides which files may be read: those of the working folder that tools may read, and files
//! elsewhere that are not hidden and hold no keys.

use std::{
    fmt,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use rejoin_engine::{
    tools::{PathRefused, Workspace},
    turn::TurnInput,
};
use rejoin_formats::{image_type, wire::base64};
use rejoin_record::{Block, BlockKind, Media, MediaSource, Message, Role, Text, text::plural};

use crate::harmless::harmless;

/// The largest text file, in bytes: a larger one would fill the window of many models.
const TEXT_BYTES: u64 = 256 * 1024;

/// The largest image, in bytes: the limit of providers.
const IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// The most files in one message.
const FILES: usize = 20;

/// The folder in which files are looked for, and the files that are never shown.
pub struct AttachPlaces<'p> {
    /// The working folder.
    pub folder: &'p Path,
    /// The home folder, which `~` stands for.
    pub home: Option<PathBuf>,
    /// Files that contain keys.
    pub keys: &'p [PathBuf],
    /// Opens the working folder as tools see it, without the files that are hidden from them.
    pub workspace: &'p dyn Fn(&Path) -> Workspace,
}

/// A message with the files that it names.
#[derive(Debug, Default)]
pub struct Attached {
    /// The text of the message, without the backslashes before `@`.
    pub text: String,
    /// The files, in the order of the text.
    pub blocks: Vec<Block>,
    /// What became of each path, for the person.
    pub notes: Vec<AttachNote>,
}

/// What became of a path in a message.
#[derive(Debug)]
pub struct AttachNote {
    /// The path.
    pub path: String,
    /// What it was attached as, such as `3 lines`, or why it stays in the text as typed.
    pub outcome: Result<String, NotAttached>,
}

impl fmt::Display for AttachNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = harmless(&self.path);
        match &self.outcome {
            Ok(about) => write!(f, "attached {path} ({about})"),
            Err(NotAttached::TooMany) => {
                write!(f, "{}; {path} stays as typed", NotAttached::TooMany)
            }
            Err(why) => write!(f, "{path} stays as typed: {why}"),
        }
    }
}

/// Why a path is not attached.
#[derive(Debug, thiserror::Error)]
pub enum NotAttached {
    /// It names a folder.
    #[error("it is a folder")]
    Folder,
    /// It names nothing.
    #[error("there is no such file")]
    Missing,
    /// The message has too many files already.
    #[error("a message takes at most {FILES} files")]
    TooMany,
    /// It is a large image.
    #[error("an image may have at most {} MiB", IMAGE_BYTES >> 20)]
    LargeImage,
    /// It is an image, but the model's dialect has none.
    #[error("it is an image, and the current model takes none")]
    NoImages,
    /// It is a long text.
    #[error("it has more than {} KiB; the model can read parts of it", TEXT_BYTES >> 10)]
    LongText,
    /// It is something else than text or an image.
    #[error("it is neither text in UTF-8 nor an image")]
    Binary,
    /// Its name cannot be recorded.
    #[error("its name is not UTF-8")]
    Name,
    /// It may contain secrets.
    #[error("hidden files outside of this folder are not attached")]
    Hidden,
    /// Tools may not read it either.
    #[error(transparent)]
    Refused(#[from] PathRefused),
    /// The system cannot read it.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

impl Attached {
    /// The message to send, with further texts for the model. The typed text comes first, because it becomes the conversation's
    /// title.
    #[must_use]
    pub fn into_input(self, further: &[String]) -> TurnInput {
        if self.blocks.is_empty() && further.is_empty() {
            return TurnInput::from(self.text);
        }
        let further = further.iter().map(|text| Block::text(text.as_str()));
        let blocks = [Block::text(self.text)].into_iter().chain(self.blocks).chain(further).collect();
        TurnInput::Say(Message::new(Role::User, blocks))
    }
}

/// A path that a message names, and its position in the text.
struct Mention {
    path: String,
    /// The path without the quotes and the `@`.
    end: usize,
}

/// Reads the files that a typed text names. `takes` says whether the model can be sent a block.
pub fn attach(typed: &str, places: &AttachPlaces<'_>, takes: &dyn Fn(&Block) -> bool) -> Attached {
    let mut found = Attached::default();
    let mut named: Vec<String> = Vec::new();
    let mut rest = typed;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix("\\@") {
            found.text.push('@');
            (rest, before) = (escaped, '@');
            continue;
        }
        let may_begin = c == '@' && (before.is_whitespace() || "([{\"'".contains(before));
        let mention = may_begin.then(|| mention(rest)).flatten();
        if let Some(mention) = &mention
            && place(&mention.path, places).is_none()
            && looks_like_file(&mention.path)
            && !typed.trim().contains('\n')
        {
            let is_folder = places.folder.join(&mention.path).is_dir();
            let why = if is_folder { NotAttached::Folder } else { NotAttached::Missing };
            found.notes.push(AttachNote { path: mention.path.clone(), outcome: Err(why) });
        }
        if let Some(mention) = mention
            && let Some((path, place)) = place(&mention.path, places)
        {
            let typed_part = &rest[..mention.end - (mention.path.len() - path.len())];
            if !named.contains(&path) {
                let read = match named.len() < FILES {
                    true => file(&path, &place, places, takes),
                    false => Err(NotAttached::TooMany),
                };
                let outcome = read.map(|(block, about)| {
                    found.blocks.push(block);
                    about
                });
                found.notes.push(AttachNote { path: path.clone(), outcome });
                named.push(path);
            }
            found.text.push_str(typed_part);
            rest = &rest[typed_part.len()..];
            before = 'x';
            continue;
        }
        found.text.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    found
}

/// Parses the path after an `@`: up to the next white space, or in quotes.
fn mention(text: &str) -> Option<Mention> {
    let after = text.strip_prefix('@')?;
    if let Some(quoted) = after.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some(Mention { path: quoted[..end].to_owned(), end: end + 3 });
    }
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    (end > 0).then(|| Mention { path: after[..end].to_owned(), end: end + 1 })
}

/// Whether a person meant a file: a name with an extension, or a path. Other words after `@` are names of people and the like.
fn looks_like_file(path: &str) -> bool {
    let name = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
    name.contains('/')
        || name.rsplit_once('.').is_some_and(|(name, ending)| !name.is_empty() && !ending.is_empty())
}

/// Finds the file for a path: as typed, or without the punctuation of the sentence around it.
fn place(typed: &str, places: &AttachPlaces<'_>) -> Option<(String, PathBuf)> {
    let mut path = typed;
    loop {
        let place = match (path.strip_prefix("~/"), &places.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => places.folder.join(path),
        };
        if !path.is_empty() && place.is_file() {
            return Some((path.to_owned(), place));
        }
        path = path.strip_suffix(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\''])?;
    }
}

/// The content of a file as a block, and its kind.
fn file(
    path: &str,
    place: &Path,
    places: &AttachPlaces<'_>,
    takes: &dyn Fn(&Block) -> bool,
) -> Result<(Block, String), NotAttached> {
    let most = TEXT_BYTES.max(IMAGE_BYTES) + 1;
    let bytes = content(place, places, most)?;
    let name = harmless(path);
    if let Some(media_type) = image_type(&bytes) {
        if bytes.len() as u64 > IMAGE_BYTES {
            return Err(NotAttached::LargeImage);
        }
        let source = MediaSource::Base64(Text::from(base64::encode(&bytes)));
        let media = Media { media_type: Some(Text::new(media_type)), source, name: Some(Text::from(name)) };
        let about = format!("{media_type}, {} KiB", bytes.len().div_ceil(1024));
        let block = Block::new(BlockKind::Image(Box::new(media)));
        return match takes(&block) {
            true => Ok((block, about)),
            false => Err(NotAttached::NoImages),
        };
    }
    if bytes.len() as u64 > TEXT_BYTES {
        return Err(NotAttached::LongText);
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or(NotAttached::Binary)?;
    let lines = plural(text.lines().count(), "line");
    let fence = fence(&text);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let block = Block::text(format!("The file {name} ({lines}):\n{fence}\n{text}{end}{fence}"));
    Ok((block, lines))
}

/// A code fence that no line of a text can end: it is longer than any fence in the text.
#[must_use]
pub fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

/// The bytes of a file. In the working folder, files are opened with the same checks as by tools. Elsewhere, hidden folders such as
/// `~/.ssh` are refused: a message may be pasted, and a person does not notice every path in it.
fn content(place: &Path, places: &AttachPlaces<'_>, most: u64) -> Result<Vec<u8>, NotAttached> {
    let real = place.canonicalize()?;
    let folder = places.folder.canonicalize()?;
    if let Ok(below) = real.strip_prefix(&folder) {
        let below = below.to_str().ok_or(NotAttached::Name)?;
        return Ok((places.workspace)(&folder).read_beginning(below, most)?);
    }
    let is_key = places.keys.iter().any(|key| key.canonicalize().is_ok_and(|key| key == real));
    let home = places.home.as_ref().and_then(|home| home.canonicalize().ok());
    let below = home
        .and_then(|home| real.strip_prefix(home).ok().map(Path::to_owned))
        .unwrap_or_else(|| real.clone());
    let is_hidden = below.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
    if is_key || is_hidden {
        return Err(NotAttached::Hidden);
    }
    let file = std::fs::File::open(&real)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    fn attached(typed: &str, takes_images: bool) -> (String, Vec<String>, Vec<String>) {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("here");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(top.path().join(".ssh")).unwrap();
        fs::write(folder.join("src/a.rs"), "fn a() {}\n").unwrap();
        fs::write(folder.join("with space.txt"), "```\nfenced").unwrap();
        fs::write(folder.join("pic.png"), PNG).unwrap();
        fs::write(folder.join("blob"), [0xff, 0, 1]).unwrap();
        fs::write(folder.join("big"), "x".repeat(300 * 1024)).unwrap();
        fs::write(folder.join("key"), "secret").unwrap();
        fs::write(top.path().join(".ssh/id"), "secret").unwrap();
        fs::write(top.path().join("next.txt"), "beside").unwrap();
        let keys = [folder.join("key")];
        let workspace = |root: &Path| Workspace::new(root).hiding(root.join("key"));
        let places = AttachPlaces {
            folder: &folder,
            home: Some(top.path().to_owned()),
            keys: &keys,
            workspace: &workspace,
        };
        let found = attach(typed, &places, &|_| takes_images);
        let blocks = found.blocks.iter().map(|block| match &block.kind {
            BlockKind::Text(text) => text.to_string(),
            BlockKind::Image(media) => format!("image {}", media.media_type.as_deref().unwrap_or_default()),
            other => format!("{other:?}"),
        });
        (found.text.clone(), blocks.collect(), found.notes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn files_become_parts_of_the_message() {
        let (text, blocks, notes) = attached("Look at @src/a.rs, please (and @src/a.rs).", false);
        assert_eq!(text, "Look at @src/a.rs, please (and @src/a.rs).");
        assert_eq!(blocks, ["The file src/a.rs (1 line):\n```\nfn a() {}\n```"]);
        assert_eq!(notes, ["attached src/a.rs (1 line)"]);
        let (_, blocks, _) = attached("@\"with space.txt\"", false);
        assert_eq!(blocks, ["The file with space.txt (2 lines):\n````\n```\nfenced\n````"]);
        let (_, blocks, _) = attached("@~/next.txt", false);
        assert_eq!(blocks, ["The file ~/next.txt (1 line):\n```\nbeside\n```"]);
    }

    #[test]
    fn what_is_no_file_stays_as_typed() {
        for (typed, sent) in [
            ("mail me@src/a.rs", "mail me@src/a.rs"),
            ("\\@src/a.rs", "@src/a.rs"),
            ("@nowhere and @ and @src", "@nowhere and @ and @src"),
            ("@\"open", "@\"open"),
        ] {
            let (text, blocks, notes) = attached(typed, true);
            assert_eq!((text.as_str(), blocks.len(), notes.len()), (sent, 0, 0), "{typed}");
        }
        for (typed, why) in [
            ("@blob", "neither text"),
            ("@big", "more than 256 KiB"),
            ("@key", "holds keys"),
            ("@~/.ssh/id", "hidden files outside"),
            ("@pic.png", "takes none"),
            ("@src/nosuch.rs", "there is no such file"),
            ("@notes.txt,", "there is no such file"),
            ("@src/", "it is a folder"),
        ] {
            let (text, blocks, notes) = attached(typed, false);
            assert_eq!((text.as_str(), blocks.len()), (typed, 0));
            assert!(notes[0].contains(why), "{notes:?}");
        }
        let (_, blocks, notes) = attached("@pic.png", true);
        assert_eq!(blocks, ["image image/png"], "{notes:?}");
    }
}
