//! Real sessions of real agents, read in place next to the project.

use std::path::{Path, PathBuf};

/// The folder of the corpus: from `REJOIN_CORPUS`, or the default. Prints a line if there is none.
#[must_use]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("REJOIN_CORPUS").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let found = given.or(Some(usual)).filter(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: there is no corpus beside the project, and REJOIN_CORPUS is not set");
    }
    found
}

/// Every file below a folder, in order.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
