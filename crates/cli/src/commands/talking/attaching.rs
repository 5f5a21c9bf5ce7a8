//! `@path` in a message: the file becomes part of the message, so that the conversation can be resumed without it.
//!
//! Text becomes a text block under its name, an image an image block if the dialect of the model takes images. What cannot be
//! attached stays as it was typed, and the reason is said.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use rejoin::{
    Block, BlockKind, Message, Role, Workspace,
    engine::turn::TurnInput,
    record::{Media, MediaSource, Text},
    wire::base64,
};

use super::{Talking, tools};
use crate::{
    answering,
    output::{self, harmless, plural},
};

/// The most bytes of a text file: more would fill the window of many models.
const TEXT_BYTES: u64 = 256 * 1024;

/// The most bytes of an image: what providers take.
const IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// The most files in one message.
const FILES: usize = 20;

impl Talking {
    /// A message as it was typed, with the files that it names and the output of commands that the model is to see.
    pub(super) fn message(&mut self, typed: &str) -> TurnInput {
        let dialect = self.endpoint().dialect;
        // The built-in responder has no dialect, and no eyes.
        let takes = |block: &Block| dialect.is_some_and(|dialect| dialect.wire().media.keeps(block));
        let desk = &self.desk;
        let keys = answering::files_with_keys(&desk.home);
        let hidden = |folder: &Path| tools::hiding(desk, Workspace::new(folder));
        let places =
            Places { folder: &desk.folder, home: std::env::home_dir(), keys: &keys, workspace: &hidden };
        let (text, found) = attach(typed, &places, &takes);
        let ran = self.for_model.iter().map(|text| Block::text(text.as_str()));
        let blocks: Vec<Block> = found.blocks.into_iter().chain(ran).collect();
        for note in &found.notes {
            output::note(note);
        }
        if blocks.is_empty() {
            return TurnInput::from(text);
        }
        // What was typed comes first: it gives the conversation its title.
        let blocks = [Block::text(text)].into_iter().chain(blocks).collect();
        TurnInput::Say(Message::new(Role::User, blocks))
    }
}

/// Where files are looked for, and which are never shown.
struct Places<'p> {
    folder: &'p Path,
    home: Option<PathBuf>,
    keys: &'p [PathBuf],
    workspace: &'p dyn Fn(&Path) -> Workspace,
}

#[derive(Default)]
struct Attached {
    blocks: Vec<Block>,
    notes: Vec<String>,
}

/// A path that a message names, and where it is in the text.
struct Mention {
    path: String,
    /// Without the quotes and the `@`.
    end: usize,
}

/// The text without the backslashes before `@`, and the files that it names.
fn attach(typed: &str, places: &Places<'_>, takes: &dyn Fn(&Block) -> bool) -> (String, Attached) {
    let mut text = String::new();
    let mut found = Attached::default();
    let mut named: Vec<String> = Vec::new();
    let mut rest = typed;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix("\\@") {
            text.push('@');
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
            let why = if is_folder { "it is a folder" } else { "there is no such file" };
            found.notes.push(format!("{} stays as typed: {why}", harmless(&mention.path)));
        }
        if let Some(mention) = mention
            && let Some((path, place)) = place(&mention.path, places)
        {
            let typed_part = &rest[..mention.end - (mention.path.len() - path.len())];
            if !named.contains(&path) {
                match file(&path, &place, places, takes) {
                    _ if named.len() >= FILES => {
                        found.notes.push(format!(
                            "a message takes at most {FILES} files; {} stays as typed",
                            harmless(&path)
                        ));
                    }
                    Ok((block, about)) => {
                        found.blocks.push(block);
                        found.notes.push(format!("attached {} ({about})", harmless(&path)));
                    }
                    Err(why) => found.notes.push(format!("{} stays as typed: {why}", harmless(&path))),
                }
                named.push(path);
            }
            text.push_str(typed_part);
            rest = &rest[typed_part.len()..];
            before = 'x';
            continue;
        }
        text.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    (text, found)
}

/// The path after an `@`: up to the next white space, or in quotes.
fn mention(text: &str) -> Option<Mention> {
    let after = text.strip_prefix('@')?;
    if let Some(quoted) = after.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some(Mention { path: quoted[..end].to_owned(), end: end + 3 });
    }
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    (end > 0).then(|| Mention { path: after[..end].to_owned(), end: end + 1 })
}

/// Whether a person meant a file: a name with an ending, or a path. Other words after `@` are names of people and the like.
fn looks_like_file(path: &str) -> bool {
    let name = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
    name.contains('/')
        || name.rsplit_once('.').is_some_and(|(name, ending)| !name.is_empty() && !ending.is_empty())
}

/// The file that a path means: as typed, or without the punctuation of the sentence around it.
fn place(typed: &str, places: &Places<'_>) -> Option<(String, PathBuf)> {
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

/// The content of a file as a block, and what it is. The error says why there is none.
fn file(
    path: &str,
    place: &Path,
    places: &Places<'_>,
    takes: &dyn Fn(&Block) -> bool,
) -> Result<(Block, String), String> {
    let most = TEXT_BYTES.max(IMAGE_BYTES) + 1;
    let bytes = content(place, places, most)?;
    let name = harmless(path);
    if let Some(media_type) = rejoin::image_type(&bytes) {
        if bytes.len() as u64 > IMAGE_BYTES {
            return Err(format!("an image may have at most {} MiB", IMAGE_BYTES >> 20));
        }
        let source = MediaSource::Base64(Text::from(base64::encode(&bytes)));
        let media = Media { media_type: Some(Text::new(media_type)), source, name: Some(Text::from(name)) };
        let about = format!("{media_type}, {} KiB", bytes.len().div_ceil(1024));
        let block = Block::new(BlockKind::Image(Box::new(media)));
        return match takes(&block) {
            true => Ok((block, about)),
            false => Err(String::from(
                "it is an image, and who answers now takes none (/provider chooses another)",
            )),
        };
    }
    if bytes.len() as u64 > TEXT_BYTES {
        return Err(format!("it has more than {} KiB; the model can read parts of it", TEXT_BYTES >> 10));
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or("it is neither text in UTF-8 nor an image")?;
    let lines = plural(text.lines().count(), "line");
    let fence = fence(&text);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let block = Block::text(format!("The file {name} ({lines}):\n{fence}\n{text}{end}{fence}"));
    Ok((block, lines))
}

/// A fence that nothing in a text can end: it is longer than any in it.
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

/// The bytes of a file. In the working folder, files are opened as tools open them. Elsewhere, hidden folders such as `~/.ssh` are
/// left alone: a message may be pasted, and a person does not notice every path in it.
fn content(place: &Path, places: &Places<'_>, most: u64) -> Result<Vec<u8>, String> {
    let real = place.canonicalize().map_err(|why| why.to_string())?;
    let folder = places.folder.canonicalize().map_err(|why| why.to_string())?;
    if let Ok(below) = real.strip_prefix(&folder) {
        let below = below.to_str().ok_or("its name is not UTF-8")?;
        return (places.workspace)(&folder).read_beginning(below, most).map_err(|why| why.to_string());
    }
    let is_key = places.keys.iter().any(|key| key.canonicalize().is_ok_and(|key| key == real));
    let home = places.home.as_ref().and_then(|home| home.canonicalize().ok());
    let below = home
        .and_then(|home| real.strip_prefix(home).ok().map(Path::to_owned))
        .unwrap_or_else(|| real.clone());
    let is_hidden = below.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
    if is_key || is_hidden {
        return Err(String::from("hidden files outside of this folder are not attached"));
    }
    let file = std::fs::File::open(&real).map_err(|why| why.to_string())?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
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
        let places =
            Places { folder: &folder, home: Some(top.path().to_owned()), keys: &keys, workspace: &workspace };
        let (text, found) = attach(typed, &places, &|_| takes_images);
        let blocks = found.blocks.iter().map(|block| match &block.kind {
            BlockKind::Text(text) => text.to_string(),
            BlockKind::Image(media) => format!("image {}", media.media_type.as_deref().unwrap_or_default()),
            other => format!("{other:?}"),
        });
        (text, blocks.collect(), found.notes)
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
