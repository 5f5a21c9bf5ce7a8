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
    for (expected, media_type, all) in [
        (None, "image/png", ["iVBORw0KGgo="].as_slice()),
        (None, "image/jpg", &["/9j/4AA="]),
        (None, "image/heic", &["aGVsbG8="]),
        (None, "text/plain", &["JVBERi0="]),
        (Some(Flaw::Empty), "image/png", &["", "=="]),
        (Some(Flaw::NotBase64), "image/png", &["iVBORw0KGgo", "iVBORw0K\nGgo=", "%%%"]),
        (Some(Flaw::OtherType), "image/png", &["/9j/4AA=", "aGVsbG8="]),
        (Some(Flaw::OtherType), "image/heic", &["iVBORw0KGgo="]),
        (Some(Flaw::OtherType), "text/plain", &["/9j/4AA="]),
    ] {
        for data in all {
            assert_eq!(flaw(media_type, data), expected, "{media_type} {data}");
        }
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
