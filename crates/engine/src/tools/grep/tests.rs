//! The lines that `grep` shows.

use std::fs;

use super::*;
use crate::tools::find::tests::files;

pub(in super::super) fn grep(tool: &Grep, arguments: &str) -> Result<String, String> {
    tool.grep(arguments, &WorkLimit::never())
}

#[test]
fn matching_lines_are_shown_with_their_numbers() {
    let folder = files(&["skipped.txt", ".git/config"]);
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("a.txt", b"one\ntwo\nthree\nfour\nfive\nsix\nseven\ntwo again\n");
    write("b.rs", b"fn two() {}\r\n// TWO\r\n");
    write("binary", b"two\n\0");
    write("late-binary", &[&b"two\n".repeat(50_000)[..], b"\0"].concat());
    write("utf16", b"\xff\xfet\0w\0o\0\n\0");
    write("latin", b"caf\xe9 two\n");
    write(".gitignore", b"skipped.txt\n");
    write("skipped.txt", b"two\n");
    let tool = Grep::new(folder.path());
    for (arguments, shown) in [
        (
            r#"{"pattern":"two"}"#,
            "a.txt\n2:two\n8:two again\n\nb.rs\n1:fn two() {}\n\nlatin\n1:caf\u{fffd} two\n\nutf16\n1:two",
        ),
        (r#"{"pattern":"(?i)two","glob":"*.rs"}"#, "b.rs\n1:fn two() {}\n2:// TWO"),
        (r#"{"pattern":"^two$"}"#, "a.txt\n2:two\n\nutf16\n1:two"),
        (r#"{"pattern":"\\{\\}$"}"#, "b.rs\n1:fn two() {}"),
        (
            r#"{"pattern":"^two","path":"a.txt","context":1}"#,
            "a.txt\n1-one\n2:two\n3-three\n--\n7-seven\n8:two again",
        ),
        (r#"{"pattern":"two","path":"skipped.txt"}"#, "skipped.txt\n1:two"),
        (
            r#"{"pattern":"zwei"}"#,
            "[no line matches; binary files and files that .gitignore names are not searched]",
        ),
    ] {
        assert_eq!(grep(&tool, arguments).unwrap(), shown, "{arguments}");
    }
    for (arguments, why) in [
        ("{}", "`pattern` is missing"),
        (r#"{"pattern":"a(b"}"#, "    a(b\n     ^\nerror: unclosed group"),
        (r#"{"pattern":"a\\nb"}"#, "not allowed"),
        (r#"{"pattern":"a","glob":"[x"}"#, "the glob `[x` is not valid, at character 1"),
        (r#"{"pattern":"a","context":21}"#, "`context` must be a whole number from 0 to 20, not 21"),
        (r#"{"pattern":"two","path":"binary"}"#, "`binary` is a binary file"),
        (r#"{"pattern":"a","path":"../x"}"#, "outside"),
        (r#"{"pattern":"a","path":"x"}"#, "`x` does not exist"),
        (r#"{"pattern":"(((((x{1000}){1000}){1000}){1000}){1000})"}"#, "cannot be searched for"),
    ] {
        let said = grep(&tool, arguments).unwrap_err();
        assert!(said.contains(why), "{arguments}: {said}");
    }
}

#[test]
fn results_are_bounded_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "x\n".repeat(MATCHES as usize + 3)).unwrap();
    fs::write(folder.path().join("b"), "x\n").unwrap();
    let tool = Grep::new(folder.path());
    let shown = grep(&tool, r#"{"pattern":"x"}"#).unwrap();
    assert!(shown.contains("\n500:x\n[and 4 more matching lines in 2 files: make"), "{shown}");
    assert!(!shown.contains("501:"));
    // Cut by size.
    fs::write(folder.path().join("a"), format!("x{}\n", "y".repeat(300)).repeat(400)).unwrap();
    let shown = grep(&tool, r#"{"pattern":"x","path":"a"}"#).unwrap();
    assert!(
        shown.len() < SHOWN + 1000 && shown.contains("more matching lines in 1 file:"),
        "{}",
        shown.len()
    );
}

/// A long line is cut to the part with the match.
#[test]
fn long_lines_are_cut_around_the_match() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{}needle{}", "a".repeat(5000), "é".repeat(5000));
    fs::write(folder.path().join("min.js"), line).unwrap();
    let shown = grep(&Grep::new(folder.path()), r#"{"pattern":"needle"}"#).unwrap();
    assert!(shown.starts_with("min.js\n1:[…] aaa") && shown.contains("needleééé"), "{shown}");
    assert!(
        shown.ends_with(" […] [line of 10,006 characters, cut]") && shown.chars().count() < 500,
        "{shown}"
    );
}

/// A line that does not fit into memory makes its file fail, not the search.
#[test]
fn a_line_without_end_fails_one_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("endless"), "x".repeat(HEAP + 1024)).unwrap();
    fs::write(folder.path().join("fine"), "needle\n").unwrap();
    let shown = grep(&Grep::new(folder.path()), r#"{"pattern":"needle"}"#).unwrap();
    assert_eq!(shown, "fine\n1:needle\n[1 folders or files could not be searched]");
}

/// Reading stops once the search must end.
#[test]
fn reading_ends_when_the_search_is_over() {
    let folder = files(&["a"]);
    let file = fs::File::open(folder.path().join("a")).unwrap();
    let until = WorkLimit::never().within(std::time::Duration::ZERO);
    assert!(Reader { file, until: &until }.read(&mut [0; 8]).is_err());
}

/// Neither links nor special files are searched.
#[cfg(unix)]
#[test]
fn links_and_pipes_are_not_searched() {
    let folder = files(&["in/a", "out/secret"]);
    let inside = folder.path().join("in");
    std::os::unix::fs::symlink("../out/secret", inside.join("link")).unwrap();
    std::os::unix::fs::symlink("../out", inside.join("folder")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap().success());
    let tool = Grep::new(&inside);
    assert_eq!(grep(&tool, r#"{"pattern":"."}"#).unwrap(), "a\n1:in/a");
    for path in ["link", "folder", "pipe"] {
        assert!(grep(&tool, &format!(r#"{{"pattern":".","path":"{path}"}}"#)).is_err(), "{path}");
    }
}
