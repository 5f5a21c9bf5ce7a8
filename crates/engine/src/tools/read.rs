//! `read_file`: the text of a file by lines, or an image.
//!
//! Text is returned exactly as in the file, without line numbers, so that `edit_file` finds text that a model copies from it. A
//! note in brackets at the end lists what was left out.

use std::io::{BufReader, Read as _, Seek as _};

use rejoin_formats::{context::ToolDeclaration, image_type, wire::base64};
use rejoin_record::{Block, BlockKind, Media, MediaSource, Raw, Text};

use super::{
    Tool, ToolOutput,
    arguments::CallArguments,
    beneath::OpenFileBeneath,
    work::{WorkLimit, cut, grouped},
    workspace::{Workspace, in_a_workspace, plan_and_run_reading, refusal_of},
};

/// How many lines are read if a call does not say.
const LINES: u64 = 2_000;
/// The most bytes of a file in a result, about twenty thousand words.
const PIECE: usize = 128 * 1024;
/// The most characters of a line in a result. People rarely write longer ones.
const LINE: usize = 4_000;
/// The largest image, in bytes. Base64 makes it a third larger, and some providers refuse more than 5 MB.
const IMAGE: u64 = 3_750_000;
/// How many bytes are searched for the lines of a call, and to count the lines after them.
const SEARCHED: u64 = 1024 * 1024 * 1024;
/// How many of a file's first bytes are examined to find its kind.
const HEAD: usize = 8 * 1024;

/// Reads a file.
#[derive(Debug, Clone)]
pub struct ReadFile(Workspace);

in_a_workspace!(ReadFile, "Reads files");

impl ReadFile {
    fn read(&self, arguments: &str, until: &WorkLimit) -> Result<ToolOutput, String> {
        let mut given = CallArguments::parse(arguments, &["path", "from", "lines"])?;
        let path = given.path()?;
        let from = given.number("from", 1, u64::MAX)?.unwrap_or(1);
        let lines = given.number("lines", 1, u64::MAX)?.unwrap_or(LINES);
        let opened = self.0.open(&path).map_err(refusal_of(&path))?;
        let said = |why: std::io::Error| format!("`{path}`: {why}");
        let mut head = Vec::new();
        (&opened.file).take(HEAD as u64).read_to_end(&mut head).map_err(said)?;
        if let Some(media_type) = image_type(&head) {
            return image(&path, media_type, &opened);
        }
        let binary = |size: u64| {
            let kind = kind_of(&head);
            format!("`{path}` is not a text file: it is {kind} of {} bytes", grouped(size))
        };
        let size = opened.file.metadata().map_err(said)?.len();
        if head.contains(&0) {
            return Err(binary(size.max(head.len() as u64)));
        }
        (&opened.file).rewind().map_err(said)?;
        let piece = Piece::read(&opened, from, lines, until).map_err(said)?;
        if piece.text.contains(&0) {
            return Err(binary(size));
        }
        piece.show(&path, from).map(ToolOutput::of)
    }
}

/// Some lines of a file.
struct Piece {
    /// The lines. Each has only slightly more bytes than can be shown.
    text: Vec<u8>,
    /// The number of lines in the text.
    shown: u64,
    /// The number of lines in the file.
    total: u64,
    /// Whether the file continues after the part that was counted.
    uncounted: bool,
}

impl Piece {
    /// Reads lines, starting at line `from`, and counts the others.
    fn read(opened: &OpenFileBeneath, from: u64, lines: u64, until: &WorkLimit) -> std::io::Result<Self> {
        let mut reader = BufReader::with_capacity(64 * 1024, (&opened.file).take(SEARCHED));
        let mut piece = Self { text: Vec::new(), shown: 0, total: 0, uncounted: false };
        let (mut full, mut read) = (false, 0_u64);
        loop {
            let wanted = piece.total + 1 >= from && piece.shown < lines && !full;
            let (ended, length) = if wanted {
                let start = piece.text.len();
                let line = line(&mut reader, &mut piece.text)?;
                // Always show the first line, however long; of the others, as many as fit.
                if piece.text.len() > PIECE && piece.shown > 0 {
                    piece.text.truncate(start);
                    full = true;
                } else if line.1 > 0 {
                    piece.shown += 1;
                }
                line
            } else {
                skip(&mut reader)?
            };
            read += length;
            if length > 0 {
                piece.total += 1;
            }
            if ended {
                piece.uncounted = read >= SEARCHED;
                return Ok(piece);
            }
            if until.is_over() {
                piece.uncounted = true;
                return Ok(piece);
            }
        }
    }

    fn show(self, path: &str, from: u64) -> Result<String, String> {
        let (more, total) = (if self.uncounted { "more than " } else { "" }, grouped(self.total));
        if self.total == 0 {
            return Ok(String::from("[the file is empty]"));
        }
        if self.shown == 0 {
            return Err(format!("`{path}` has {more}{total} lines: line {} does not exist", grouped(from)));
        }
        let is_text = std::str::from_utf8(&self.text).is_ok();
        let mut text = String::with_capacity(self.text.len() + 100);
        for line in String::from_utf8_lossy(&self.text).split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            text.push_str(&cut(line, LINE));
            text.push_str(end);
        }
        let mut note = |said: &str| {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(said);
        };
        if !is_text {
            note("[some bytes are not UTF-8 and are shown as \u{fffd}; edit_file cannot change this file]");
        }
        let last = from + self.shown - 1;
        if last < self.total || self.uncounted {
            let next = last + 1;
            note(&format!(
                "[lines {} to {} of {more}{total}; go on with from: {next}]",
                grouped(from),
                grouped(last)
            ));
        } else if from > 1 {
            note(&format!("[lines {} to {} of {total}]", grouped(from), grouped(last)));
        }
        Ok(text)
    }
}

/// Appends a line, without the bytes that cannot be shown. Returns whether the file ended, and the full length of the line in
/// bytes.
fn line(reader: &mut impl std::io::BufRead, to: &mut Vec<u8>) -> std::io::Result<(bool, u64)> {
    // The most bytes that the shown characters can take, plus one character so that the cut is noticed.
    let most = 4 * (LINE + 1);
    let (start, mut length) = (to.len(), 0);
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok((true, length));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let kept = end.min((start + most).saturating_sub(to.len()));
        to.extend_from_slice(&bytes[..kept]);
        let is_end = bytes[end - 1] == b'\n';
        if is_end && kept < end {
            to.push(b'\n');
        }
        length += end as u64;
        reader.consume(end);
        if is_end {
            return Ok((false, length));
        }
    }
}

/// Skips a line. Returns whether the file ended, and the length of the line in bytes.
fn skip(reader: &mut impl std::io::BufRead) -> std::io::Result<(bool, u64)> {
    let length = reader.skip_until(b'\n')? as u64;
    Ok((length == 0, length))
}

/// An image as the result of a call.
fn image(path: &str, media_type: &'static str, opened: &OpenFileBeneath) -> Result<ToolOutput, String> {
    let said = |why: std::io::Error| format!("`{path}`: {why}");
    let size = opened.file.metadata().map_err(said)?.len();
    let too_large = |size: u64| {
        format!(
            "`{path}` is an image ({media_type}) of {} bytes; providers take at most {}. Make a smaller copy and read that",
            grouped(size),
            grouped(IMAGE)
        )
    };
    if size > IMAGE {
        return Err(too_large(size));
    }
    let (mut file, mut bytes) = (&opened.file, Vec::new());
    file.rewind().map_err(said)?;
    file.take(IMAGE + 1).read_to_end(&mut bytes).map_err(said)?;
    if bytes.len() as u64 > IMAGE {
        return Err(too_large(bytes.len() as u64));
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let media = Media {
        media_type: Some(Text::new(media_type)),
        source: MediaSource::Base64(Text::from(base64::encode(&bytes))),
        name: Some(Text::from(name.to_owned())),
    };
    let text = format!("[`{path}`: {media_type}, {} bytes]", grouped(bytes.len() as u64));
    let media = vec![Block::new(BlockKind::Image(Box::new(media)))];
    Ok(ToolOutput { media, ..ToolOutput::of(text) })
}

/// The kind of a binary file, judged by its first bytes.
fn kind_of(head: &[u8]) -> &'static str {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x7fELF", "a program or library (ELF)"),
        (b"MZ", "a Windows program or library"),
        (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
        (b"\xca\xfe\xba\xbe", "a Java class or macOS program"),
        (b"\0asm", "a WebAssembly module"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a zip archive or office document"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"\xfd7zXZ", "xz data"),
        (b"BZh", "bzip2 data"),
        (b"SQLite format 3\0", "a SQLite database"),
        (b"BM", "a BMP image"),
        (b"II*\0", "a TIFF image"),
        (b"MM\0*", "a TIFF image"),
        (b"OggS", "Ogg audio or video"),
        (b"ID3", "MP3 audio"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    KINDS.iter().find(|(mark, _)| head.starts_with(mark)).map_or("binary data", |(_, kind)| kind)
}

impl Tool for ReadFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the working folder"},"from":{"type":"integer","description":"the first line to read, counted from 1 (default: 1)"},"lines":{"type":"integer","description":"how many lines to read (default: 2000)"}},"required":["path"],"additionalProperties":false}"#;
        let description = "Reads a text file of the working folder: its exact text, without line numbers. A note at the end says how \
                           to go on if there is more. Images (PNG, JPEG, GIF, WebP) are shown as images.";
        ToolDeclaration::function("read_file", description, Raw::new(schema))
    }

    plan_and_run_reading!(ReadFile::read);
}

#[cfg(test)]
mod tests;
