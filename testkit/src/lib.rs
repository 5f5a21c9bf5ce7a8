//! The parts of rejoin's tests: generators of conversations with every kind of fault, with the truth about their content. Nothing
//! here ships, and the generators use no code under test; `fuzz` and `faults` run that code. `loopback` is a provider to talk to,
//! `mcp` a server with tools.

pub mod bodies;
pub mod corpus;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "loopback")]
pub mod loopback;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(unix)]
pub mod postgres;
pub mod scan;
pub mod skipped;
pub mod timing;
pub mod varied;

/// Why the provider of a dialect would refuse a body whose model may still be missing; empty if it would accept it.
///
/// # Panics
/// If no dialect has that name.
#[must_use]
pub fn refusals(dialect: impl std::fmt::Display, body: &[u8]) -> Vec<rejoin_checkers::Violation> {
    let checker = rejoin_checkers::named(&dialect.to_string()).expect("BUG: a dialect without a checker");
    checker.check_draft(body).violations
}

/// A new folder with these files, by their paths in it; a path that ends with `/` is an empty folder.
///
/// # Panics
/// If they cannot be made.
#[cfg(feature = "faults")]
#[must_use]
pub fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        let path = folder.path().join(name);
        if name.ends_with('/') {
            std::fs::create_dir_all(path).expect("a folder");
        } else {
            std::fs::create_dir_all(path.parent().expect("BUG: it is in the folder")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
    }
    folder
}

/// How often a law is tried: `REJOIN_LAW_CASES` times, or a share of that for a law that takes long.
#[must_use]
pub fn law_cases(share: u32) -> proptest::test_runner::Config {
    let all = std::env::var("REJOIN_LAW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000u32);
    proptest::test_runner::Config {
        cases: (all / share).max(50),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Default::default()
    }
}

/// Everything that is logged while `work` runs, one line each.
///
/// # Panics
/// If the log is not text.
pub fn logged(work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Sink(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("BUG: no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(sink.0.lock().expect("BUG: no writer panics").clone()).expect("the log is text")
}
