//! The parts of rejoin's tests: generators of conversations with every kind of fault, with the truth about their content. Nothing
//! here ships, and the generators use no code under test; `fuzz` and `faults` run that code. `loopback` is a provider to talk to,
//! `mcp` a server with tools.

use std::{cell::RefCell, sync::Once};

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
/// If the log is not text, or the tests install a subscriber of their own for all threads.
pub fn logged(work: impl FnOnce()) -> String {
    /// Writes to the log of the thread, if there is one.
    struct ThreadLog;
    impl std::io::Write for ThreadLog {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LOG.with_borrow_mut(|log| log.iter_mut().for_each(|log| log.extend_from_slice(bytes)));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    thread_local! {
        static LOG: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
    }
    // With a subscriber for one thread only, an event that another thread reaches first counts as never wanted, in every thread. So
    // all threads have the same one.
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .without_time()
            .with_ansi(false)
            .with_target(false)
            .with_writer(|| ThreadLog)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("BUG: tests install no other subscriber");
    });
    LOG.set(Some(Vec::new()));
    work();
    let log = LOG.take().expect("BUG: `logged` is not nested");
    String::from_utf8(log).expect("the log is text")
}
