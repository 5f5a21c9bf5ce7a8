//! Images and documents: base64, the first bytes of the common types, and addresses. Knows no dialect, and must not be
//! used by a codec: checkers and codecs judge media in separate code, so that each tests the other.

/// The fault in the encoded bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    Empty,
    /// The text is not base64 with padding and without line breaks.
    NotBase64,
    /// The bytes are not of the declared type.
    OtherType,
}

/// The types that are recognised by the first bytes.
const KNOWN: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];
/// The types of images that every provider takes.
pub(crate) const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// How many bytes of a file are searched for the mark of a PDF.
const PDF_WITHIN: usize = 1024;

/// Judges base64 data that declares a type.
pub(crate) fn flaw(media_type: &str, data: &str) -> Option<Flaw> {
    if data.trim_end_matches('=').trim().is_empty() {
        return Some(Flaw::Empty);
    }
    if !is_base64(data) {
        return Some(Flaw::NotBase64);
    }
    names_another_type(media_type, data).then_some(Flaw::OtherType)
}

/// True if the first bytes do not fit the declared type.
pub(crate) fn names_another_type(media_type: &str, data: &str) -> bool {
    let said = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    match type_of(data) {
        // Text may begin with any mark that consists of text.
        Some(found) if said.starts_with("text/") => found == "image/png" || found == "image/jpeg",
        Some(found) => found != said,
        None => KNOWN.contains(&said),
    }
}

/// The type of base64 data in either alphabet, if its first bytes show a known one.
pub(crate) fn type_of(data: &str) -> Option<&'static str> {
    let bytes = beginning(data);
    let webp = bytes.len() >= 12 && bytes.starts_with(b"RIFF") && &bytes[8..12] == b"WEBP";
    let found = match () {
        () if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => "image/png",
        () if bytes.starts_with(b"\xff\xd8\xff") => "image/jpeg",
        () if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => "image/gif",
        () if webp => "image/webp",
        () if (0..PDF_WITHIN.min(bytes.len())).any(|at| bytes[at..].starts_with(b"%PDF-")) => {
            "application/pdf"
        }
        () => return None,
    };
    Some(found)
}

/// True for at least one byte in base64, in the standard alphabet and with padding.
pub(crate) fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !digits.is_empty()
        && text.len().is_multiple_of(4)
        && digits.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/'))
}

/// True for the types of images that most providers take, and for the common misspelling of one.
pub(crate) fn is_image(media_type: &str) -> bool {
    media_type == "image/jpg" || IMAGES.contains(&media_type)
}

/// The number of bytes that a base64 text encodes; `None` if it is empty or not base64.
pub(crate) fn decoded_length(text: &str) -> Option<usize> {
    is_base64(text).then(|| text.len() / 4 * 3 - (text.len() - text.trim_end_matches('=').len()))
}

/// Type and data of an address of the form `data:TYPE;base64,DATA`.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let plain = |letter: char| letter.is_ascii_graphic() && !letter.is_ascii_uppercase();
    (media_type.chars().all(plain) && !media_type.contains([';', ','])).then_some((media_type, data))
}

/// True for an address that begins with one of the schemes and names a host.
pub(crate) fn is_address(url: &str, schemes: &[&str]) -> bool {
    let host = schemes.iter().find_map(|scheme| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    host.is_some_and(|host| {
        !host.is_empty()
            && !host.starts_with('/')
            && !host.chars().any(|letter| letter.is_whitespace() || letter.is_control())
    })
}

/// The reason why OpenAI would refuse a data URL, in the words that follow "but got".
pub(crate) fn openai_flaw(url: &str, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let Some((media_type, data)) = data_url(url) else {
        return Some("a value without the 'data:' prefix.".into());
    };
    if !is_taken(media_type) {
        return Some(format!("unsupported MIME type '{media_type}'."));
    }
    Some(match flaw(media_type, data)? {
        Flaw::Empty => "empty base64-encoded bytes.".into(),
        Flaw::NotBase64 => "an invalid base64-encoded value.".into(),
        Flaw::OtherType => format!("bytes that are not {media_type}."),
    })
}

/// True for a type that names a format.
pub(crate) fn is_type(media_type: &str) -> bool {
    !matches!(media_type, "" | "application/octet-stream" | "binary/octet-stream")
}

/// The first bytes of base64 data in either alphabet, enough to recognise its type.
fn beginning(data: &str) -> Vec<u8> {
    const ALPHABETS: [&str; 2] = [
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    ];
    let digits = data.chars().take((PDF_WITHIN + 16).div_ceil(3) * 4);
    let values: Vec<u32> = digits
        .filter_map(|digit| ALPHABETS.iter().find_map(|alphabet| alphabet.find(digit)))
        .filter_map(|value| u32::try_from(value).ok())
        .collect();
    let mut bytes = Vec::new();
    for group in values.chunks(4) {
        let joined = group.iter().fold(0, |joined, value| joined << 6 | value) << (6 * (4 - group.len()));
        let whole = group.len() * 6 / 8;
        bytes.extend_from_slice(&joined.to_be_bytes()[1..=whole]);
    }
    bytes
}

#[cfg(test)]
mod tests;
