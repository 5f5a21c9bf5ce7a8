//! Types by their first bytes, base64 and addresses.

use super::*;

#[test]
fn types_are_told_by_their_first_bytes() {
    let known = [
        ("image/png", ["iVBORw0KGgo="].as_slice()),
        ("image/jpeg", &["/9j/4AA=", "_9j_4AA"]),
        ("image/gif", &["R0lGODlhAQ=="]),
        ("image/webp", &["UklGRgAAAABXRUJQ"]),
        ("application/pdf", &["JVBERi0=", "IAolUERGLTEuNw=="]),
    ];
    for (found, data) in known.into_iter().flat_map(|(kind, all)| all.iter().map(move |data| (kind, data))) {
        assert_eq!(type_of(data), Some(found), "{data}");
    }
    for data in ["aGVsbG8=", "iVBORw==", ""] {
        assert_eq!(type_of(data), None, "{data}");
    }
}

#[test]
fn data_is_judged() {
    for (media_type, data, expected) in [
        ("image/png", "iVBORw0KGgo=", None),
        ("image/jpg", "/9j/4AA=", None),
        ("image/heic", "aGVsbG8=", None),
        ("image/png", "", Some(Flaw::Empty)),
        ("image/png", "==", Some(Flaw::Empty)),
        ("image/png", "iVBORw0KGgo", Some(Flaw::NotBase64)),
        ("image/png", "iVBORw0K\nGgo=", Some(Flaw::NotBase64)),
        ("image/png", "%%%", Some(Flaw::NotBase64)),
        ("image/png", "/9j/4AA=", Some(Flaw::OtherType)),
        ("image/png", "aGVsbG8=", Some(Flaw::OtherType)),
        ("image/heic", "iVBORw0KGgo=", Some(Flaw::OtherType)),
        ("text/plain", "JVBERi0=", None),
        ("text/plain", "/9j/4AA=", Some(Flaw::OtherType)),
    ] {
        assert_eq!(flaw(media_type, data), expected, "{media_type} {data}");
    }
}

#[test]
fn addresses_have_a_scheme_and_a_host() {
    let web = ["https://", "http://"];
    for (url, fits) in [
        ("https://example.org/a.png", true),
        ("HTTP://example.org", true),
        ("https://", false),
        ("https:///a", false),
        ("https://a b", false),
        ("./a.png", false),
        ("", false),
        ("gs://bucket/a", false),
        ("data:image/png;base64,iVBORw0KGgo=", false),
    ] {
        assert_eq!(is_address(url, &web), fits, "{url}");
    }
}
