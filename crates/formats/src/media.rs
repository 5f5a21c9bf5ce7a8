//! Judges images and documents: whether a provider could read one, and why not.
//!
//! This is the only place that decides. Readers ask it whether a source's own bytes may be sent again, encoders whether a
//! medium can be sent at all; what cannot becomes the text `[image unavailable: reason]`. Only the first bytes of the data are
//! looked at, so a picture that is cut off in the middle passes. Each dialect says in its own folder which types it takes.

use std::{borrow::Cow, fmt};

use rejoin_record::{Block, BlockKind, Media, MediaSource, Text};

use crate::wire::base64;

/// How many bytes of a document may precede the mark of a PDF: what its readers tolerate.
const PDF_LEAD: usize = 1024;

/// What a dialect takes.
#[derive(Debug, Clone, Copy)]
pub struct Accepts {
    /// Types of images; `None` if it takes any.
    pub images: Option<&'static [&'static str]>,
    /// Types of documents that are sent as bytes; `None` if it takes any.
    pub documents: Option<&'static [&'static str]>,
    /// What an address may begin with.
    pub schemes: &'static [&'static str],
}

/// The pictures that every provider takes.
pub const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The documents whose type a file's ending tells.
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
/// Addresses in the web.
pub const WEB: &[&str] = &["https://", "http://"];

/// A medium that can be sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Usable<'m> {
    /// Base64 in the strict spelling, and the type that its bytes have.
    Bytes { media_type: Cow<'m, str>, data: Cow<'m, str> },
    /// An absolute address.
    Address(&'m str),
    /// The id of a file that only its provider has.
    File(&'m str),
    /// A document that is text.
    Plain(&'m str),
}

/// Why a medium cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The source says nothing about where its bytes are.
    Missing,
    /// It has no bytes.
    Empty,
    /// Its data cannot be decoded. What it holds instead, if that can be read.
    NotBase64(Option<String>),
    /// Its bytes are of another type than the one it names.
    Mislabelled { named: String, found: Option<&'static str> },
    /// It names no type, and its bytes do not tell.
    UnknownType,
    /// The dialect does not take its type.
    Unsupported(String),
    /// Its address is not one that the provider could follow.
    Address(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no data was recorded"),
            Self::Empty => f.write_str("the data is empty"),
            Self::NotBase64(None) => f.write_str("the data is not valid base64"),
            Self::NotBase64(Some(text)) => write!(f, "the data is not valid base64: {text}"),
            Self::Mislabelled { named, found: Some(found) } => {
                write!(f, "it is named {named}, but the data is {found}")
            }
            Self::Mislabelled { named, found: None } => {
                write!(f, "it is named {named}, but the data is something else")
            }
            Self::UnknownType => f.write_str("the type of the data is not known"),
            Self::Unsupported(media_type) => write!(f, "{media_type} is not supported here"),
            Self::Address(url) if url.trim().is_empty() => f.write_str("the address is empty"),
            Self::Address(url) => write!(f, "the provider cannot open the address {url}"),
        }
    }
}

impl Accepts {
    /// What a dialect that takes everything would say: only what no provider could read is refused.
    pub const ANYTHING: Self = Self { images: None, documents: None, schemes: &[] };

    /// An image or a document as this dialect can have it.
    pub fn judge<'m>(&self, kind: &'m BlockKind) -> Result<Usable<'m>, Fault> {
        let (media, types) = match kind {
            BlockKind::Image(media) => (media, self.images),
            BlockKind::Document(media) => (media, self.documents),
            _ => return Err(Fault::Missing),
        };
        let usable = read(media, matches!(kind, BlockKind::Image(_)))?;
        let taken = |media_type: &str| types.is_none_or(|types| types.contains(&media_type));
        match usable {
            Usable::Bytes { media_type, data } if !taken(&media_type) => {
                // A document whose type nobody knows may still have a name that tells.
                let is_document = matches!(kind, BlockKind::Document(_));
                let told = type_by_name(media.name.as_deref().filter(|_| is_document));
                match told.filter(|told| !is_sniffed(told) && !is_sniffed(&media_type) && taken(told)) {
                    Some(told) => Ok(Usable::Bytes { media_type: Cow::Borrowed(told), data }),
                    None => Err(Fault::Unsupported(media_type.into_owned())),
                }
            }
            Usable::Address(url) if !self.schemes.is_empty() && !begins_with(url, self.schemes) => {
                Err(Fault::Address(url.to_owned()))
            }
            usable => Ok(usable),
        }
    }

    /// Whether a block holds no image and no document that this dialect would refuse, results included.
    pub fn keeps(&self, block: &Block) -> bool {
        match &block.kind {
            BlockKind::Image(_) | BlockKind::Document(_) => self.judge(&block.kind).is_ok(),
            BlockKind::ToolResult(result) => result.content.iter().all(|inner| self.keeps(inner)),
            _ => true,
        }
    }

    /// Whether a medium is written the way the dialect has it where type and data are fields of their own.
    pub fn takes_fields(&self, kind: &BlockKind) -> bool {
        let (BlockKind::Image(media) | BlockKind::Document(media)) = kind else { return false };
        match self.judge(kind) {
            Ok(Usable::Bytes { media_type, data }) => {
                media.media_type.as_deref() == Some(&*media_type) && matches!(data, Cow::Borrowed(_))
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Whether a medium is written the way the dialect has it where its address may hold the data.
    pub fn takes_address(&self, kind: &BlockKind, url: &str) -> bool {
        let Ok(usable) = self.judge(kind) else { return false };
        match (strict_data_url(url), usable) {
            (Some(written), Usable::Bytes { media_type, .. }) => canonical(written) == media_type,
            (Some(_), _) => true,
            (None, _) => !is_data_url(url),
        }
    }

    /// Whether a medium's bytes are of the type that it names, where the dialect is not strict about their spelling.
    pub fn takes_named(&self, kind: &BlockKind) -> bool {
        let (BlockKind::Image(media) | BlockKind::Document(media)) = kind else { return false };
        match self.judge(kind) {
            Ok(Usable::Bytes { media_type, .. }) => {
                media.media_type.as_deref().is_some_and(|named| canonical(named) == media_type)
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// Text that stands for an image or a document that cannot be sent.
pub fn unavailable(what: &str, media: &Media, fault: &Fault) -> String {
    let name = media.name.as_deref().filter(|name| !name.trim().is_empty());
    match name {
        Some(name) => format!("[{what} unavailable: {fault} ({name})]"),
        None => format!("[{what} unavailable: {fault}]"),
    }
}

/// Where the bytes are that an address leads to, and their type: in the address itself, or elsewhere.
pub fn at_address(url: Text) -> (Option<Text>, MediaSource) {
    match split_data_url(&url) {
        Some((media_type, data)) => {
            let media_type = (!media_type.is_empty()).then(|| Text::from(media_type));
            (media_type, MediaSource::Base64(Text::new(data)))
        }
        None => (None, MediaSource::Url(url)),
    }
}

/// Whether an address holds what it is the address of.
pub fn is_data_url(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Media type and base64 data of a `data:` address; either may be empty. Parameters say nothing that matters here.
pub fn split_data_url(url: &str) -> Option<(String, &str)> {
    let (head, data) = url.get(5..).filter(|_| is_data_url(url))?.split_once(',')?;
    let mut words = head.split(';').map(str::trim);
    let media_type = words.next()?.to_ascii_lowercase();
    words.any(|word| word.eq_ignore_ascii_case("base64")).then_some((media_type, data))
}

/// The type in an address that is `data:TYPE;base64,DATA` with nothing else in it.
fn strict_data_url(url: &str) -> Option<&str> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let legal = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b";,".contains(&byte);
    let strict = media_type.bytes().all(legal) && matches!(base64::strict(data), Some(Cow::Borrowed(_)));
    (strict && !media_type.is_empty()).then_some(media_type)
}

fn read(media: &Media, is_image: bool) -> Result<Usable<'_>, Fault> {
    match &media.source {
        MediaSource::Unusable => Err(Fault::Missing),
        MediaSource::ProviderFile(id) if id.is_blank() => Err(Fault::Missing),
        MediaSource::ProviderFile(id) => Ok(Usable::File(id)),
        MediaSource::Plain(text) if text.is_empty() => Err(Fault::Empty),
        MediaSource::Plain(text) => Ok(Usable::Plain(text)),
        MediaSource::Base64(data) => bytes(media.media_type.as_deref(), data, media, is_image),
        MediaSource::Url(url) => match split_data_url(url) {
            Some((media_type, data)) => bytes(Some(&media_type), data, media, is_image).map(owned),
            None if is_absolute(url) => Ok(Usable::Address(url)),
            None if is_data_url(url) => Err(Fault::NotBase64(None)),
            None => Err(Fault::Address(url.to_string())),
        },
    }
}

fn owned(usable: Usable<'_>) -> Usable<'static> {
    match usable {
        Usable::Bytes { media_type, data } => Usable::Bytes {
            media_type: Cow::Owned(media_type.into_owned()),
            data: Cow::Owned(data.into_owned()),
        },
        Usable::Address(_) | Usable::File(_) | Usable::Plain(_) => {
            unreachable!("BUG: only bytes stand in a data URL")
        }
    }
}

fn bytes<'m>(named: Option<&str>, data: &'m str, media: &Media, is_image: bool) -> Result<Usable<'m>, Fault> {
    if data.trim_matches(|letter: char| letter == '=' || letter.is_whitespace()).is_empty() {
        return Err(Fault::Empty);
    }
    // Agents that lost the bytes leave a sentence in their place.
    let words = || data.contains(' ').then(|| data.trim().to_owned());
    let data = base64::strict(data).ok_or_else(|| Fault::NotBase64(words()))?;
    let named = named.map(canonical).filter(|named| !is_generic(named));
    let found = sniff(&base64::head(&data, PDF_LEAD + 8));
    // A text may quote the mark of another type; it holds no bytes that are no text.
    let is_text = named.as_ref().is_some_and(|named| named.starts_with("text/"));
    let found = found.filter(|found| !is_text || matches!(*found, "image/png" | "image/jpeg"));
    let media_type = match (named, found) {
        (Some(named), Some(found)) if named == found => Cow::Borrowed(found),
        (Some(named), found) if found.is_some() || is_sniffed(&named) => {
            return Err(Fault::Mislabelled { named, found });
        }
        (Some(named), _) => Cow::Owned(named),
        (None, Some(found)) => Cow::Borrowed(found),
        (None, None) if is_image => return Err(Fault::UnknownType),
        (None, None) => {
            let told = type_by_name(media.name.as_deref()).filter(|told| !is_sniffed(told));
            Cow::Borrowed(told.ok_or(Fault::UnknownType)?)
        }
    };
    Ok(Usable::Bytes { media_type, data })
}

/// A type in one spelling, without parameters.
fn canonical(media_type: &str) -> String {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Spellings that people use; the registered names are others.
    match &*bare {
        "image/jpg" => String::from("image/jpeg"),
        "text/x-markdown" => String::from("text/markdown"),
        _ => bare,
    }
}

/// Whether a type says nothing, or cannot be one.
fn is_generic(media_type: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    matches!(media_type, "" | "application/octet-stream" | "binary/octet-stream")
        || !media_type.bytes().all(legal)
}

/// Whether bytes of a type can be told by how they begin.
fn is_sniffed(media_type: &str) -> bool {
    PICTURES.contains(&media_type) || media_type == "application/pdf"
}

/// The type of bytes, told by how they begin.
fn sniff(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => head.windows(5).take(PDF_LEAD).any(|window| window == b"%PDF-").then_some("application/pdf"),
    }
}

/// How files of the types in [`DOCUMENTS`] end, in the same order.
const ENDINGS: &[&str] = &["pdf", "txt", "md", "csv", "html", "doc", "docx", "xls", "xlsx"];

/// The type of a document, told by how its name ends.
pub fn type_by_name(name: Option<&str>) -> Option<&'static str> {
    let (_, ending) = name?.rsplit_once('.')?;
    let place = ENDINGS.iter().position(|known| ending.eq_ignore_ascii_case(known))?;
    Some(DOCUMENTS[place])
}

/// The ending of files of a type.
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

fn begins_with(url: &str, schemes: &[&str]) -> bool {
    schemes
        .iter()
        .any(|scheme| url.get(..scheme.len()).is_some_and(|given| given.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str = "iVBORw0KGgo=";
    const JPEG: &str = "/9j/4AA=";
    const GIF: &str = "R0lGODlhAQ==";
    const WEBP: &str = "UklGRgAAAABXRUJQ";
    const PDF: &str = "JVBERi0xLjc=";

    fn image(media_type: Option<&str>, source: MediaSource) -> BlockKind {
        BlockKind::Image(Box::new(Media { media_type: media_type.map(Text::new), source, name: None }))
    }

    fn data(text: &str) -> MediaSource {
        MediaSource::Base64(Text::new(text))
    }

    fn url(text: &str) -> MediaSource {
        MediaSource::Url(Text::new(text))
    }

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        for (media_type, bytes) in
            [("image/png", PNG), ("image/jpeg", JPEG), ("image/gif", GIF), ("image/webp", WEBP)]
        {
            for named in [Some(media_type), None, Some(""), Some("application/octet-stream")] {
                let kind = image(named, data(bytes));
                let judged = Accepts::ANYTHING.judge(&kind).unwrap();
                assert_eq!(judged, Usable::Bytes { media_type: media_type.into(), data: bytes.into() });
            }
        }
        let kind = image(Some("IMAGE/JPG; q=1"), data(JPEG));
        let judged = Accepts::ANYTHING.judge(&kind).unwrap();
        assert_eq!(judged, Usable::Bytes { media_type: "image/jpeg".into(), data: JPEG.into() });
        assert!(!Accepts::ANYTHING.takes_fields(&kind), "it is spelled another way");
    }

    #[test]
    fn what_no_provider_could_read_has_a_reason() {
        for (media_type, source, reason) in [
            (Some("image/png"), MediaSource::Unusable, "no data was recorded"),
            (Some("image/png"), data(""), "the data is empty"),
            (Some("image/png"), data(" \n=="), "the data is empty"),
            (Some("image/png"), data("%%%"), "the data is not valid base64"),
            (Some("image/png"), data("iVBOR"), "the data is not valid base64"),
            (
                Some("image/png"),
                data("[image was lost: see the log]"),
                "the data is not valid base64: [image was lost: see the log]",
            ),
            (Some("image/png"), data(JPEG), "it is named image/png, but the data is image/jpeg"),
            (Some("image/png"), data("aGVsbG8="), "it is named image/png, but the data is something else"),
            (Some("image/heic"), data(PNG), "it is named image/heic, but the data is image/png"),
            (None, data("aGVsbG8="), "the type of the data is not known"),
            (None, url(""), "the address is empty"),
            (None, url("./a.png"), "the provider cannot open the address ./a.png"),
            (None, url("file:///tmp/a.png"), "the provider cannot open the address file:///tmp/a.png"),
            (None, url("https://"), "the provider cannot open the address https://"),
            (None, url("data:image/png;base64,"), "the data is empty"),
            (None, url("data:image/png,xyz"), "the data is not valid base64"),
            (
                None,
                url("data:image/gif;base64,iVBORw0KGgo="),
                "it is named image/gif, but the data is image/png",
            ),
            (None, MediaSource::ProviderFile(Text::new(" ")), "no data was recorded"),
        ] {
            let kind = image(media_type, source);
            let fault = Accepts::ANYTHING.judge(&kind).unwrap_err();
            assert_eq!(fault.to_string(), reason, "{kind:?}");
        }
    }

    #[test]
    fn documents_are_known_by_bytes_type_or_name() {
        let document = |media_type: Option<&str>, bytes: &str, name: Option<&str>| {
            let media = Media {
                media_type: media_type.map(Text::new),
                source: data(bytes),
                name: name.map(Text::new),
            };
            let kind = BlockKind::Document(Box::new(media));
            match Accepts::ANYTHING.judge(&kind) {
                Ok(Usable::Bytes { media_type, .. }) => media_type.into_owned(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(document(Some("application/pdf"), PDF, None), "application/pdf");
        assert_eq!(document(None, PDF, Some("a.txt")), "application/pdf");
        assert_eq!(document(None, "aGVsbG8=", Some("a.CSV")), "text/csv");
        assert_eq!(document(Some("text/csv"), "aGVsbG8=", None), "text/csv");
        assert!(document(Some("application/pdf"), "aGVsbG8=", None).contains("Mislabelled"));
        assert_eq!(document(Some("text/plain"), PDF, None), "text/plain", "a text may begin like this");
        assert!(document(Some("text/plain"), JPEG, None).contains("Mislabelled"));
        assert!(document(None, "aGVsbG8=", Some("a.pdf")).contains("UnknownType"));
        assert!(document(None, "aGVsbG8=", Some("a.bin")).contains("UnknownType"));
    }

    #[test]
    fn a_dialect_takes_only_its_types_and_addresses() {
        let strict = Accepts { images: Some(PICTURES), documents: Some(&["application/pdf"]), schemes: WEB };
        let bmp = image(Some("image/bmp"), data("Qk0AAA=="));
        assert_eq!(strict.judge(&bmp).unwrap_err().to_string(), "image/bmp is not supported here");
        assert!(Accepts::ANYTHING.judge(&bmp).is_ok());
        let cloud = image(None, url("gs://bucket/a.png"));
        assert!(strict.judge(&cloud).is_err() && Accepts::ANYTHING.judge(&cloud).is_ok());
        assert!(strict.judge(&image(None, url("HTTPS://example.org/a.png"))).is_ok());
    }

    #[test]
    fn only_the_plain_spelling_of_a_data_url_may_be_sent_again() {
        let strict = Accepts { images: Some(PICTURES), documents: None, schemes: WEB };
        for (address, fits) in [
            ("data:image/png;base64,iVBORw0KGgo=", true),
            ("https://example.org/a.png", true),
            ("data:image/png;base64,iVBORw0KGgo", false),
            ("data:image/png;base64,iVBORw0KGgo=\n", false),
            ("DATA:image/png;base64,iVBORw0KGgo=", false),
            ("data:image/PNG;base64,iVBORw0KGgo=", false),
            ("data:image/png;name=a;base64,iVBORw0KGgo=", false),
            ("data:image/png;base64,", false),
            ("data:application/octet-stream;base64,iVBORw0KGgo=", false),
            ("data:;base64,iVBORw0KGgo=", false),
        ] {
            let (media_type, source) = at_address(Text::new(address));
            let kind = image(media_type.as_deref(), source);
            assert_eq!(strict.takes_address(&kind, address), fits, "{address}");
        }
    }
}
