//! Real sessions of real agents, used where they lie. Says so when they are not there.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_formats::{Dialect, Input, convert, sessions};
use rejoin_view::OnBroken;

fn corpus() -> Option<PathBuf> {
    let given = std::env::var_os("REJOIN_CORPUS").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    given.or(Some(usual)).filter(|folder| folder.is_dir())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn real_sessions_become_requests_that_every_checker_accepts() {
    let Some(folder) = corpus() else {
        println!("skipped: there is no corpus beside the project, and REJOIN_CORPUS is not set");
        return;
    };
    let (mut read, mut messages, mut unknown) = (0, 0, 0);
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let Ok(input) = Input::new(path.display().to_string(), &bytes) else { continue };
        let Ok(found) = sessions::read(&input, None) else {
            unknown += 1;
            continue;
        };
        let again = sessions::read(&input, None).unwrap();
        for (session, again) in found.iter().zip(&again) {
            read += 1;
            messages += session.messages.len();
            assert_eq!(session.id, again.id, "{}", path.display());
            for to in Dialect::all() {
                for policy in [OnBroken::Keep, OnBroken::Drop] {
                    let out = convert(session, to, None, policy).unwrap();
                    assert_eq!(
                        to.wire().check(out.body.as_bytes()),
                        [],
                        "{} → {to} {policy:?}",
                        path.display()
                    );
                }
            }
        }
    }
    println!(
        "{read} conversations with {messages} messages; {unknown} files are in formats that are not read yet"
    );
    assert!(read >= 10, "only {read} conversations were read");
}
