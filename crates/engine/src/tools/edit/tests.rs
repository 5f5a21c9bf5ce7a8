//! Edits, and the errors that a model gets for edits that cannot be made.

use std::fs;

use serde_json::json;

use super::*;

fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned(), all: false }
}

fn all(old: &str, new: &str) -> Edit {
    Edit { all: true, ..edit(old, new) }
}

#[test]
fn edits_apply_in_order() {
    for (before, edits, after) in [
        ("a b c", vec![edit("b", "x")], "a x c"),
        ("a b c", vec![edit("b ", "")], "a c"),
        ("a b a", vec![all("a", "x")], "x b x"),
        ("a b a", vec![all("b", "x")], "a x a"),
        ("a b c", vec![edit("b", "d e"), edit("d", "f")], "a f e c"),
        ("a b", vec![edit("a", "b"), all("b", "c")], "c c"),
        ("", vec![edit("", "new")], "new"),
        ("ä\u{1f600}", vec![edit("\u{1f600}", "\0\u{7}")], "ä\0\u{7}"),
        ("aaa", vec![edit("aaa", "a")], "a"),
        ("\u{feff}first\n", vec![edit("first\n", "one\n")], "\u{feff}one\n"),
        // The file's own line endings match and are kept.
        ("a\r\nb\r\nc\r\n", vec![edit("a\nb\n", "x\ny\nz\n")], "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", vec![edit("a\r\nb", "x\ny")], "x\ny\r\n"),
        ("a\r\nb\r\n", vec![edit("a\nb", "x\r\ny")], "x\r\ny\r\n"),
        ("a\r\nb\r\na\r\nb\r\n", vec![all("a\nb", "c\nd")], "c\r\nd\r\nc\r\nd\r\n"),
    ] {
        assert_eq!(edited("f", before, &edits).as_deref(), Ok(after), "{edits:?}");
    }
}

#[test]
fn an_edit_that_cannot_be_made_says_what_to_do() {
    let text = "fn one() {\n    let x = 1;\n}\n\nfn two() {\n    let y = 2;\n}\n";
    for (before, edits, why) in [
        (text, vec![edit("a", "a")], "the edit cannot be made: `old` and `new` are the same"),
        (text, vec![edit("", "a")], "`old` is empty, which only fits an empty file, and `f` has 7 lines"),
        (
            text,
            vec![edit("let", "var")],
            "`old` is found 2 times in `f`. Add lines around the one you mean, or set `all` to true",
        ),
        (text, vec![edit("let", "var")], "\nline 2:     let x = 1;\nline 6:     let y = 2;"),
        ("a\r\nb\r\na\r\nb\r\n", vec![edit("a\nb", "c")], "found 2 times in `f`"),
        ("a\r\nb\r\na\r\nb\r\n", vec![edit("a\nb", "c")], "\nline 1: a\nline 3: a"),
        (
            text,
            vec![edit("let x = 1", "let x = 3"), edit("none", "x")],
            "because edit 2 cannot be made: `old` is not found",
        ),
        (text, vec![edit("let x = 1", "x"), edit("let x = 1", "x")], "edit 2 is the same as edit 1"),
        (
            text,
            vec![edit("let x = 1;", "x"), edit("x = 1;\n}", "y")],
            "an earlier edit of this call changed that text",
        ),
        (text, vec![edit("one", "eins"), edit("eins", "one")], "after all edits `f` is the same as before"),
        ("", vec![edit("a", "b")], "`f` is empty. Use an empty `old`"),
        // The most frequent mistakes of models: white space, line numbers, a word.
        (
            text,
            vec![edit("fn one() {\n  let x = 1;\n}", "x")],
            "It differs from the file only in white space",
        ),
        (
            text,
            vec![edit("fn one() {\n  let x = 1;\n}", "x")],
            "\n    1  fn one() {\n    2      let x = 1;\n    3  }",
        ),
        (text, vec![edit("    let y = 3;\n", "x")], "\n    6      let y = 2;"),
        (
            text,
            vec![edit("fn two() {\n    let z = 2;\n}", "x")],
            "with line numbers, which are not part of the text, are\n    5  fn two() {",
        ),
        (text, vec![edit("something else entirely", "x")], "Nothing in the file resembles it"),
        (text, vec![edit("  \n\t\n", "x")], "It is only white space"),
    ] {
        let said = edited("f", before, &edits).unwrap_err();
        assert!(said.contains(why), "{said}\nshould contain: {why}");
        assert!(said.starts_with("nothing was changed") || said.contains(": nothing was changed"), "{said}");
    }
}

#[test]
fn files_are_planned_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let tool = EditFile::new(folder.path());
    fs::write(folder.path().join("a"), "one\ntwo\n").unwrap();
    fs::write(folder.path().join("latin"), b"caf\xe9").unwrap();
    let plan = |path: &str, old: &str, new: &str| {
        tool.planned(&json!({"path": path, "edits": [{"old": old, "new": new}]}).to_string())
    };
    let change = plan("./a", "two", "zwei").unwrap();
    let expected = FileChange {
        path: String::from("a"),
        before: Some(b"one\ntwo\n".to_vec()),
        after: b"one\nzwei\n".to_vec(),
    };
    assert_eq!(change, expected);
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"one\ntwo\n");
    let created = plan("new/b", "", "text").unwrap();
    assert_eq!((created.before, &*created.after), (None, &b"text"[..]));
    assert!(!folder.path().join("new").exists());
    for (arguments, why) in [
        (json!({"path": "new", "edits": [{"old": "a", "new": "b"}]}), "`new` does not exist; find shows"),
        (json!({"path": "latin", "edits": [{"old": "a", "new": "b"}]}), "is not UTF-8 text"),
        (json!({"path": "a"}), "`edits` is missing: it must be a list"),
        (json!({"path": "a", "edits": "x"}), "`edits` must be a list, not a string"),
        (json!({"path": "a", "edits": [{"old": "x"}]}), "`edits[0].new` is missing: it must be a string"),
        (
            json!({"path": "a", "edits": [{"old": "x", "new": 1}]}),
            "`edits[0].new` must be a string, not a number",
        ),
        (
            json!({"path": "a", "edits": vec![json!({"old": "x", "new": "y"}); EDITS + 1]}),
            "must have 1 to 200 items, not 201",
        ),
        (json!({"path": "../a", "edits": [{"old": "x", "new": "y"}]}), "outside"),
    ] {
        let said = tool.planned(&arguments.to_string()).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// Doubling a text again and again ends at the size limit, before memory runs out.
#[test]
fn growth_is_bounded() {
    let edits: Vec<Edit> =
        (0..40).flat_map(|n| [all("a", &format!("b{n}b{n}")), all(&format!("b{n}"), "aaaa")]).collect();
    let why = edited("f", "a", &edits).unwrap_err();
    assert!(why.contains("more than 16,777,216 bytes"), "{why}");
}

/// The search for similar places takes time in proportion to the file, whatever the text.
#[test]
fn looking_for_the_nearest_places_is_bounded() {
    let file = "}\n".repeat(500_000);
    let began = std::time::Instant::now();
    nearest::places(&file, &"}\n".repeat(50_000));
    nearest::places(&"some words in a line\n".repeat(100_000), "some other words in a line");
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
