//! Tests of how images and documents are judged.

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
            let judged = AcceptedMedia::ANYTHING.judge(&kind).unwrap();
            assert_eq!(judged, UsableMedia::Bytes { media_type: media_type.into(), data: bytes.into() });
        }
    }
    let kind = image(Some("IMAGE/JPG; q=1"), data(JPEG));
    let judged = AcceptedMedia::ANYTHING.judge(&kind).unwrap();
    assert_eq!(judged, UsableMedia::Bytes { media_type: "image/jpeg".into(), data: JPEG.into() });
    assert!(!AcceptedMedia::ANYTHING.takes_fields(&kind), "it is spelled another way");
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
        (None, url("data:image/gif;base64,iVBORw0KGgo="), "it is named image/gif, but the data is image/png"),
        (None, MediaSource::ProviderFile(Text::new(" ")), "no data was recorded"),
    ] {
        let kind = image(media_type, source);
        let fault = AcceptedMedia::ANYTHING.judge(&kind).unwrap_err();
        assert_eq!(fault.to_string(), reason, "{kind:?}");
    }
}

#[test]
fn documents_are_known_by_bytes_type_or_name() {
    let document = |media_type: Option<&str>, bytes: &str, name: Option<&str>| {
        let media =
            Media { media_type: media_type.map(Text::new), source: data(bytes), name: name.map(Text::new) };
        let kind = BlockKind::Document(Box::new(media));
        match AcceptedMedia::ANYTHING.judge(&kind) {
            Ok(UsableMedia::Bytes { media_type, .. }) => media_type.into_owned(),
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
    let strict =
        AcceptedMedia { images: Some(PICTURES), documents: Some(&["application/pdf"]), schemes: WEB };
    let bmp = image(Some("image/bmp"), data("Qk0AAA=="));
    assert_eq!(strict.judge(&bmp).unwrap_err().to_string(), "image/bmp is not supported here");
    assert!(AcceptedMedia::ANYTHING.judge(&bmp).is_ok());
    let cloud = image(None, url("gs://bucket/a.png"));
    assert!(strict.judge(&cloud).is_err() && AcceptedMedia::ANYTHING.judge(&cloud).is_ok());
    assert!(strict.judge(&image(None, url("HTTPS://example.org/a.png"))).is_ok());
}

#[test]
fn only_the_plain_spelling_of_a_data_url_may_be_sent_again() {
    let strict = AcceptedMedia { images: Some(PICTURES), documents: None, schemes: WEB };
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
        let (media_type, source) = image_at(Text::new(address));
        let kind = image(media_type.as_deref(), source);
        assert_eq!(strict.takes_address(&kind, address), fits, "{address}");
    }
}
