//! The first inputs: files in `testkit/fuzz/<target>/`, those in `testkit/fuzz/any/`, and the fixtures of a format.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{Target, mutate::values};

/// Words with a meaning for readers of JSON or of lines, in addition to those in the inputs.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "{}",
    "[]",
    "null",
    "true",
    "false",
    "\"\":",
    "\n",
    "\r\n",
    "\n\n",
    "\\u0000",
    "\\ud83d",
    "{\"type\":\"",
    "{\"timestamp\":\"",
    "{\"role\":\"user\",\"content\":\"x\"}",
    ",\"x\":1",
    "}{",
    "},{",
    "]}",
    "\"content\":null",
    "\"arguments\":\"{",
    "\"arguments\":\"{}\"",
    "\"is_error\":true",
    "NaN",
    "1e999",
    "\u{feff}",
];

/// A word that is longer is a text.
const LONGEST_WORD: usize = 32;

/// The folder of the inputs.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The inputs that were written for a target, and those that are for every target, with their paths.
#[must_use]
pub fn own(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let mut inputs = files(&folder().join(target.name()));
    inputs.extend(files(&folder().join("any")));
    if let Target::Detect = target {
        let readers = Target::all().into_iter().filter(|target| matches!(target, Target::Read(_)));
        inputs.extend(readers.flat_map(|reader| files(&folder().join(reader.name()))));
    }
    inputs
}

/// Everything to begin with: the target's own inputs, and the fixtures of its format.
#[must_use]
pub fn all(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = own(target);
    if let Target::Read(format) = target {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/checkers/fixtures");
        inputs.extend(files(&fixtures.join(format.name)));
    }
    // Some provider limits need large inputs. They are for the laws: mutating them is slow and finds nothing.
    inputs
        .into_iter()
        .map(|(_, bytes)| bytes)
        .filter(|bytes| bytes.len() <= super::mutate::MOST_BYTES)
        .collect()
}

/// The words of all inputs: the strings in quotes, as values and as names of fields.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let mut words: BTreeSet<Vec<u8>> = WORDS.iter().map(|word| word.as_bytes().to_vec()).collect();
    for input in Target::all().iter().flat_map(own).map(|(_, bytes)| bytes) {
        for range in values(&input) {
            let word = &input[range];
            if word.starts_with(b"\"") && word.len() <= LONGEST_WORD {
                words.insert(word.to_vec());
                words.insert([word, b":"].concat());
            }
        }
    }
    words.into_iter().collect()
}

/// The files of a folder, sorted; none if there is no such folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}
