//! `fetch` with servers on this machine, which a test allows, and with every address that production refuses.

use std::{net::Ipv4Addr, sync::Mutex};

use testkit::loopback::scripted::{Answer, Server};

use super::*;
use crate::tools::tests::called;

fn port(server: &Server) -> u16 {
    server.url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap()
}

fn typed(status: u16, media_type: &str, body: &[u8]) -> Answer {
    Answer::bare(status, body).with("content-type", media_type)
}

fn ok(media_type: &str, body: &str) -> Answer {
    typed(200, media_type, body.as_bytes())
}

fn moved(to: &str) -> Answer {
    Answer::bare(302, b"").with("location", to)
}

/// Names resolve to this machine. All its addresses are allowed except 127.0.0.2, which plays a forbidden one.
fn local() -> Fetch {
    let lookup: Lookup = Arc::new(|name| {
        Box::pin(async move {
            Ok(match name.as_str() {
                "inside.test" => vec![Ipv4Addr::new(127, 0, 0, 2).into()],
                "both.test" => vec![Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 2).into()],
                "empty.test" => vec![],
                _ => vec![Ipv4Addr::LOCALHOST.into()],
            })
        })
    });
    Fetch::with(lookup, Arc::new(|address| address == IpAddr::from(Ipv4Addr::LOCALHOST)))
}

fn run(fetch: &Fetch, url: &str) -> ToolOutput {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let arguments = serde_json::json!({"url": url}).to_string();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), called(fetch, &arguments)).await.expect("it ends")
    })
}

fn text(fetch: &Fetch, url: &str) -> String {
    let output = run(fetch, url);
    assert!(!output.is_error, "{}", output.text);
    output.text
}

fn error(fetch: &Fetch, url: &str) -> String {
    let output = run(fetch, url);
    assert!(output.is_error, "{}", output.text);
    output.text
}

#[test]
fn pages_are_read_as_text() {
    for (answer, shown) in [
        (ok("text/plain; charset=utf-8", "hällo"), "text/plain]\nhällo"),
        (ok("application/json", "{\"a\":1}"), "application/json]\n{\"a\":1}"),
        (ok("text/html", "<p>Hi <b>you</b><script>x</script>"), "text/html]\nHi you"),
        (ok("application/vnd.api+json", "{}"), "application/vnd.api+json]\n{}"),
        (Answer::bare(200, b"<!doctype html><p>x"), "no type]\nx"),
        (typed(200, "text/plain; charset=iso-8859-1", b"caf\xe9"), "text/plain]\ncafé"),
        (typed(200, "text/plain; charset=\"Windows-1252\"", b"\x80"), "text/plain]\n€"),
    ] {
        let server = Server::new(vec![answer]);
        let url = format!("http://page.test:{}/a?b=c#d", port(&server));
        assert_eq!(text(&local(), &url), format!("[http://page.test:{}/a?b=c, {shown}", port(&server)));
        let asked = format!("{:?}", server.asked()).to_lowercase();
        assert_eq!(server.asked()[0].line, "GET /a?b=c");
        for never in ["cookie", "authorization", "referer", "accept-encoding"] {
            assert!(!asked.contains(never), "{asked}");
        }
    }
}

#[test]
fn what_is_not_text_is_refused_with_its_type_and_size() {
    for (answer, why) in [
        (ok("image/png", "12345"), "not text: image/png, 5 bytes"),
        (ok("application/octet-stream", ""), "not text: application/octet-stream, 0 bytes"),
        (typed(200, "text/plain", b"a\0b"), "not text, though it is called text/plain, 3 bytes"),
        (typed(200, "text/plain", b"x").with("content-encoding", "gzip"), "compressed (gzip)"),
        (typed(404, "text/plain", b"no such page"), "the server answered 404 Not Found\n"),
        (typed(404, "text/plain", b"no such page"), "no such page"),
        (typed(302, "text/plain", b"nowhere"), "the server answered 302"),
    ] {
        let server = Server::new(vec![answer]);
        let said = error(&local(), &format!("http://page.test:{}/", port(&server)));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn large_pages_are_cut() {
    let body = "é".repeat(SHOWN);
    let server = Server::new(vec![ok("text/plain", &body), ok("text/plain", &"x".repeat(RECEIVED + 1))]);
    let url = format!("http://page.test:{}/", port(&server));
    let shown = text(&local(), &url);
    assert!(shown.ends_with("\n[cut: the first 131,072 of 262,144 bytes]") && shown.len() < SHOWN + 200);
    let shown = text(&local(), &url);
    assert!(shown.ends_with("\n[the page is larger than 4,194,304 bytes: the rest was not received]"));
}

#[test]
fn redirects_are_followed_and_checked() {
    let server =
        Server::new(vec![moved("/two"), moved("http://other.test:PORT/three"), ok("text/plain", "there")]);
    let url = format!("http://page.test:{}/one", port(&server));
    // The port becomes known only here.
    let said = error(&local(), &url);
    assert!(said.contains("a redirect to `http://other.test:PORT/three`, which is not an address"), "{said}");

    let last = Server::new(vec![ok("text/plain", "there")]);
    let first = Server::new(vec![moved("/two"), moved(&format!("//other.test:{}/three", port(&last)))]);
    let shown = text(&local(), &format!("http://page.test:{}/one", port(&first)));
    assert_eq!(shown, format!("[http://other.test:{}/three, text/plain]\nthere", port(&last)));

    let around = Server::new((0..10).map(|_| moved("/again")).collect());
    let said = error(&local(), &format!("http://page.test:{}/", port(&around)));
    assert!(said.contains("more than 5 redirects"), "{said}");
    assert_eq!(around.asked().len(), REDIRECTS + 1);

    for (to, why) in [
        ("http://inside.test/", "inside.test has the address 127.0.0.2 is not on the public internet"),
        ("http://both.test/", "both.test has the address 127.0.0.2"),
        ("http://127.0.0.2/", "127.0.0.2 is not on the public internet"),
        ("http://2130706434/", "127.0.0.2 is not on the public internet"),
        ("http://localhost/", "localhost is not on the public internet"),
        ("http://[::1]/", "[::1] is not on the public internet"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254 is not on the public internet"),
        ("file:///etc/passwd", "only http and https can"),
        ("ftp://page.test/", "only http and https can"),
        ("http://user:secret@page.test/", "leave it out"),
    ] {
        let server = Server::new(vec![moved(to)]);
        let said = error(&local(), &format!("http://page.test:{}/", port(&server)));
        assert!(said.contains(why), "{to}: {said}");
        assert_eq!(server.asked().len(), 1);
    }
}

/// A name whose address changes between a check and the connection has no effect: it is resolved only once, for the connection.
#[test]
fn a_name_that_changes_its_address_leads_nowhere() {
    let server = Server::new(vec![ok("text/plain", "secret")]);
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let lookup: Lookup = Arc::new(move |_| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            let mut count = counted.lock().unwrap();
            *count += 1;
            // First a public address, then this machine. The first one is reserved for documentation, so no server answers there.
            Ok(vec![if *count == 1 {
                Ipv4Addr::new(192, 0, 2, 1).into()
            } else {
                Ipv4Addr::LOCALHOST.into()
            }])
        })
    });
    let fetch = Fetch::with(lookup, Arc::new(|address| !address.is_loopback()));
    let url = format!("http://rebinding.test:{}/", port(&server));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The first attempt goes to an address without a server; it is dropped as soon as the name was resolved.
    runtime.block_on(async {
        let mut first = std::pin::pin!(fetch.fetch(&url));
        std::future::poll_fn(|context| {
            let ended = first.as_mut().poll(context).is_ready();
            context.waker().wake_by_ref();
            if ended || *count.lock().unwrap() == 1 {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    });
    let said = error(&fetch, &url);
    assert!(said.contains("rebinding.test has the address 127.0.0.1"), "{said}");
    assert!(server.asked().is_empty());
}

/// The tool as it ships, with a real server: every spelling of this machine's address is refused before a connection.
#[test]
fn production_never_reaches_this_machine_or_its_network() {
    let server = Server::new(vec![ok("text/plain", "secret")]);
    let fetch = Fetch::default();
    let port = port(&server);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[::]",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "224.0.0.1",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
    ] {
        let said = error(&fetch, &format!("http://{host}:{port}/"));
        assert!(
            said.contains("is not on the public internet") || said.contains("is not an address"),
            "{host}: {said}"
        );
        assert!(!said.contains("secret"), "{host}");
    }
    assert!(server.asked().is_empty());
    // A name that the system's own resolver maps to this machine, as `/etc/hosts` can do with any name.
    let lookup: Lookup = Arc::new(|_| Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) }));
    let said = error(&Fetch::with(lookup, Arc::new(is_public)), &format!("http://innocent.example:{port}/"));
    assert!(said.contains("innocent.example has the address 127.0.0.1"), "{said}");
    assert!(server.asked().is_empty());
}

#[test]
fn wrong_arguments_are_named() {
    let fetch = local();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (arguments, why) in [
        ("{}", "`url` is missing"),
        (r#"{"url":1}"#, "`url` must be a string, not a number"),
        (r#"{"url":"x","method":"POST"}"#, "there is no argument `method`"),
        (r#"{"url":"example.com"}"#, "`example.com` is not an address"),
        (r#"{"url":"file:///etc/passwd"}"#, "only http and https can"),
        (r#"{"url":"http://user@page.test/"}"#, "leave it out"),
        (r#"{"url":"http://empty.test/"}"#, "the name has no address"),
    ] {
        let output = runtime.block_on(called(&fetch, arguments));
        assert!(output.is_error && output.text.contains(why), "{arguments}: {}", output.text);
    }
    let long = format!(r#"{{"url":"http://{}"}}"#, "x".repeat(ADDRESS));
    assert!(runtime.block_on(called(&fetch, &long)).text.contains("at most 8192"));
}
