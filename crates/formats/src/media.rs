//! Judges images and documents: whether a provider can read one, and if not, why.
//!
//! Only this module decides. Readers ask whether a source's own bytes may be sent again, encoders whether a medium can be sent
//! at all; one that cannot becomes the text `[image unavailable: reason]`. Only the first bytes are examined, so a truncated
//! picture passes. Each dialect's descriptor lists the types that it accepts.

use std::borrow::Cow;

use rejoin_record::{Block, BlockKind, Media, MediaSource, Text};

use crate::wire::base64;

/// How many bytes may precede the mark of a PDF; its readers tolerate as many.
const PDF_LEAD: usize = 1024;

/// The media that a dialect accepts.
#[derive(Debug, Clone, Copy)]
pub struct AcceptedMedia {
    /// Types of images; `None` for any.
    pub images: Option<&'static [&'static str]>,
    /// Types of documents that are sent as bytes; `None` for any.
    pub documents: Option<&'static [&'static str]>,
    pub schemes: &'static [&'static str],
}

/// The types of pictures that every provider accepts.
pub const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The types of documents that a file's extension shows.
pub const DOCUMENTS: &[&str] = &[
    "application/pdf",
    "text/plain",
    "text/markdown",
    "text/csv",
    "text/html",
    "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
];
pub const WEB: &[&str] = &["https://", "http://"];

#[derive(Debug, PartialEq, Eq)]
pub enum UsableMedia<'m> {
    /// Base64 in the strict spelling, and the real type of its bytes.
    Bytes {
        media_type: Cow<'m, str>,
        data: Cow<'m, str>,
    },
    Address(&'m str),
    /// The id of a file that only its provider has.
    File(&'m str),
    Plain(&'m str),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaFault {
    /// The source does not say where its bytes are.
    #[error("no data was recorded")]
    Missing,
    #[error("the data is empty")]
    Empty,
    /// Its data is not base64; the text that it holds instead, if it is readable.
    #[error("the data is not valid base64{}", .0.as_ref().map_or_else(String::new, |text| format!(": {text}")))]
    NotBase64(Option<String>),
    /// Its bytes have another type than the one it names.
    #[error("it is named {named}, but the data is {}", .found.unwrap_or("something else"))]
    Mislabelled { named: String, found: Option<&'static str> },
    /// It names no type, and its bytes do not show one.
    #[error("the type of the data is not known")]
    UnknownType,
    #[error("{0} is not supported here")]
    Unsupported(String),
    #[error("the address is empty")]
    NoAddress,
    #[error("the provider cannot open the address {0}")]
    Address(String),
}

impl AcceptedMedia {
    /// Accepts everything that any provider could read.
    pub const ANYTHING: Self = Self { images: None, documents: None, schemes: &[] };

    /// Returns an image or document in the form that the dialect accepts.
    pub fn judge<'m>(&self, kind: &'m BlockKind) -> Result<UsableMedia<'m>, MediaFault> {
        let (media, types) = match kind {
            BlockKind::Image(media) => (media, self.images),
            BlockKind::Document(media) => (media, self.documents),
            _ => return Err(MediaFault::Missing),
        };
        let usable = read(media, matches!(kind, BlockKind::Image(_)))?;
        let taken = |media_type: &str| types.is_none_or(|types| types.contains(&media_type));
        match usable {
            UsableMedia::Bytes { media_type, data } if !taken(&media_type) => {
                // The name of a document may show its type.
                let is_document = matches!(kind, BlockKind::Document(_));
                let told = type_by_name(media.name.as_deref().filter(|_| is_document));
                match told.filter(|told| !is_sniffed(told) && !is_sniffed(&media_type) && taken(told)) {
                    Some(told) => Ok(UsableMedia::Bytes { media_type: Cow::Borrowed(told), data }),
                    None => Err(MediaFault::Unsupported(media_type.into_owned())),
                }
            }
            UsableMedia::Address(url) => {
                let begins = |scheme: &&str| {
                    url.get(..scheme.len()).is_some_and(|given| given.eq_ignore_ascii_case(scheme))
                };
                let taken = self.schemes.is_empty() || self.schemes.iter().any(begins);
                if taken { Ok(usable) } else { Err(MediaFault::Address(url.to_owned())) }
            }
            usable => Ok(usable),
        }
    }

    /// Whether the dialect accepts every image and document in a block, including those in results.
    pub fn keeps(&self, block: &Block) -> bool {
        match &block.kind {
            BlockKind::Image(_) | BlockKind::Document(_) => self.judge(&block.kind).is_ok(),
            BlockKind::ToolResult(result) => result.content.iter().all(|inner| self.keeps(inner)),
            _ => true,
        }
    }

    /// Whether a medium is written as a dialect demands that has fields for type and data.
    pub fn takes_fields(&self, kind: &BlockKind) -> bool {
        self.takes(kind, |named, media_type, data| named == media_type && matches!(data, Cow::Borrowed(_)))
    }

    /// Whether a medium is written as a dialect demands that has data URLs.
    pub fn takes_address(&self, kind: &BlockKind, url: &str) -> bool {
        let Ok(usable) = self.judge(kind) else { return false };
        match (strict_data_url(url), usable) {
            (Some(written), UsableMedia::Bytes { media_type, .. }) => canonical(written) == media_type,
            (Some(_), _) => true,
            (None, _) => !is_data_url(url),
        }
    }

    /// Whether a medium's bytes have the named type, for a dialect that is not strict about spelling.
    pub fn takes_named(&self, kind: &BlockKind) -> bool {
        self.takes(kind, |named, media_type, _| canonical(named) == media_type)
    }

    /// Whether a medium can be sent; if it is bytes, its named type, its real type and its data have to pass a test.
    fn takes(&self, kind: &BlockKind, fits: fn(&str, &str, Cow<'_, str>) -> bool) -> bool {
        let (BlockKind::Image(media) | BlockKind::Document(media)) = kind else { return false };
        match self.judge(kind) {
            Ok(UsableMedia::Bytes { media_type, data }) => {
                media.media_type.as_deref().is_some_and(|named| fits(named, &media_type, data))
            }
            judged => judged.is_ok(),
        }
    }
}

/// The text in place of an image or document that cannot be sent.
pub fn unavailable(what: &str, media: &Media, fault: &MediaFault) -> String {
    let name = media.name.as_deref().filter(|name| !name.trim().is_empty());
    match name {
        Some(name) => format!("[{what} unavailable: {fault} ({name})]"),
        None => format!("[{what} unavailable: {fault}]"),
    }
}

/// An image that an address leads to or holds: its type, if that is known, and its source.
pub fn image_at(url: Text) -> (Option<Text>, MediaSource) {
    at_address(url, |_, data| MediaSource::Base64(Text::new(data)))
}

/// A medium that an address leads to, or holds as a type and data.
pub fn at_address(url: Text, held: fn(&str, &str) -> MediaSource) -> (Option<Text>, MediaSource) {
    match split_data_url(&url) {
        Some((media_type, data)) => {
            let source = held(&media_type, data);
            ((!media_type.is_empty()).then(|| Text::from(media_type)), source)
        }
        None => (None, MediaSource::Url(url)),
    }
}

pub fn is_data_url(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// The media type and base64 data of a data URL; either may be empty. Parameters are ignored.
pub fn split_data_url(url: &str) -> Option<(String, &str)> {
    let (head, data) = url.get(5..).filter(|_| is_data_url(url))?.split_once(',')?;
    let mut words = head.split(';').map(str::trim);
    let media_type = words.next()?.to_ascii_lowercase();
    words.any(|word| word.eq_ignore_ascii_case("base64")).then_some((media_type, data))
}

/// The type in an address of exactly the form `data:TYPE;base64,DATA`.
fn strict_data_url(url: &str) -> Option<&str> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let legal = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b";,".contains(&byte);
    let strict = media_type.bytes().all(legal) && matches!(base64::strict(data), Some(Cow::Borrowed(_)));
    (strict && !media_type.is_empty()).then_some(media_type)
}

fn read(media: &Media, is_image: bool) -> Result<UsableMedia<'_>, MediaFault> {
    match &media.source {
        MediaSource::Unusable => Err(MediaFault::Missing),
        MediaSource::ProviderFile(id) if id.is_blank() => Err(MediaFault::Missing),
        MediaSource::ProviderFile(id) => Ok(UsableMedia::File(id)),
        MediaSource::Plain(text) if text.is_empty() => Err(MediaFault::Empty),
        MediaSource::Plain(text) => Ok(UsableMedia::Plain(text)),
        MediaSource::Base64(data) => bytes(media.media_type.as_deref(), data, media, is_image),
        MediaSource::Url(url) => match split_data_url(url) {
            Some((media_type, data)) => bytes(Some(&media_type), data, media, is_image),
            None if is_absolute(url) => Ok(UsableMedia::Address(url)),
            None if is_data_url(url) => Err(MediaFault::NotBase64(None)),
            None if url.trim().is_empty() => Err(MediaFault::NoAddress),
            None => Err(MediaFault::Address(url.to_string())),
        },
    }
}

fn bytes<'m>(
    named: Option<&str>,
    data: &'m str,
    media: &Media,
    is_image: bool,
) -> Result<UsableMedia<'m>, MediaFault> {
    if data.trim_matches(|letter: char| letter == '=' || letter.is_whitespace()).is_empty() {
        return Err(MediaFault::Empty);
    }
    // Agents that lost the bytes leave a sentence instead.
    let words = || data.contains(' ').then(|| data.trim().to_owned());
    let data = base64::strict(data).ok_or_else(|| MediaFault::NotBase64(words()))?;
    let named = named.map(canonical).filter(|named| !is_generic(named));
    let found = sniff(&base64::head(&data, PDF_LEAD + 8));
    // A text may begin with the mark of another type, because some marks are text, such as `%PDF-`.
    let is_text = named.as_ref().is_some_and(|named| named.starts_with("text/"));
    let found = found.filter(|found| !is_text || matches!(*found, "image/png" | "image/jpeg"));
    let media_type = match (named, found) {
        (Some(named), Some(found)) if named == found => Cow::Borrowed(found),
        (Some(named), found) if found.is_some() || is_sniffed(&named) => {
            return Err(MediaFault::Mislabelled { named, found });
        }
        (Some(named), _) => Cow::Owned(named),
        (None, Some(found)) => Cow::Borrowed(found),
        (None, None) if is_image => return Err(MediaFault::UnknownType),
        (None, None) => {
            let told = type_by_name(media.name.as_deref()).filter(|told| !is_sniffed(told));
            Cow::Borrowed(told.ok_or(MediaFault::UnknownType)?)
        }
    };
    Ok(UsableMedia::Bytes { media_type, data })
}

/// A type in one spelling, without parameters.
fn canonical(media_type: &str) -> String {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Common misspellings of registered names.
    match &*bare {
        "image/jpg" => String::from("image/jpeg"),
        "text/x-markdown" => String::from("text/markdown"),
        _ => bare,
    }
}

fn is_generic(media_type: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    matches!(media_type, "" | "application/octet-stream" | "binary/octet-stream")
        || !media_type.bytes().all(legal)
}

/// Whether the first bytes show this type.
fn is_sniffed(media_type: &str) -> bool {
    PICTURES.contains(&media_type) || media_type == "application/pdf"
}

/// The type of an image that providers accept, by its first bytes.
#[must_use]
pub fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The type that the first bytes show.
fn sniff(head: &[u8]) -> Option<&'static str> {
    let is_pdf = || head.windows(5).take(PDF_LEAD).any(|window| window == b"%PDF-");
    image_type(head).or_else(|| is_pdf().then_some("application/pdf"))
}

/// The extensions of the types in [`DOCUMENTS`], in the same order.
const ENDINGS: &[&str] = &["pdf", "txt", "md", "csv", "html", "doc", "docx", "xls", "xlsx"];

/// The type of a document by the extension of its name.
pub fn type_by_name(name: Option<&str>) -> Option<&'static str> {
    let (_, ending) = name?.rsplit_once('.')?;
    let place = ENDINGS.iter().position(|known| ending.eq_ignore_ascii_case(known))?;
    Some(DOCUMENTS[place])
}

pub fn ending(media_type: &str) -> Option<&'static str> {
    let place = DOCUMENTS.iter().position(|known| *known == media_type)?;
    Some(ENDINGS[place])
}

/// Whether a text is an address with a scheme and a host.
fn is_absolute(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && scheme.bytes().all(word)
        && !scheme.eq_ignore_ascii_case("file")
        && !rest.is_empty()
        && !rest.starts_with('/')
        && !rest.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

#[cfg(test)]
mod tests;
