//! Which addresses are local, and which part of an address is shown.

use super::*;

/// Keys are sent to this machine without asking, so no other address may be taken for it.
#[test]
fn only_this_machine_is_local() {
    for here in [
        "http://localhost:1/v1",
        "https://LOCALHOST",
        "http://127.0.0.1",
        "http://u:p@127.9.9.9:8/x",
        "http://[::1]:1",
    ] {
        assert!(is_local(here), "{here}");
    }
    for elsewhere in [
        "http://127.evil.example",
        "http://127.0.0.1.evil.example/",
        "http://evil.example\\@localhost/v1",
        "http://localhost@evil.example",
        "http://localhost.evil.example",
        "http://0.0.0.0.evil.example",
        "localhost:1",
        "",
    ] {
        assert!(!is_local(elsewhere), "{elsewhere}");
    }
}

#[test]
fn what_is_shown_has_no_password() {
    assert_eq!(public("https://a:b@h:1/x?key=s#t"), "https://h:1/x");
    assert_eq!(public("a:b@h/x?key=s"), "h/x");
    assert_eq!(public("https://h/@team/x"), "https://h/@team/x");
}

/// The address that is shown and compared is the one that the client uses.
#[test]
fn what_is_shown_is_where_requests_go() {
    for url in [
        "https://evil.example\\@api.openai.com/v1",
        "https://a:1\\@evil.example@api.openai.com/v1",
        "https:///evil.example/@api.openai.com/v1",
        "https://\\evil.example/v1",
        "https://u:p@h.example:8443/v1?x=https://other",
        "http://[::1]:8080/v1",
    ] {
        let host = |url: &str| reqwest::Url::parse(url).unwrap().host_str().map(str::to_owned);
        assert_eq!(host(&public(url)), host(url), "{url} is shown as {}", public(url));
    }
}
