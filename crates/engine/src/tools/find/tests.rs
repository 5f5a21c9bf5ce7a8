//! The files that `find` finds, and those that it never shows.

use std::{fs, path::Path};

use super::*;

pub(in super::super) fn find(tool: &Find, arguments: &str) -> Result<String, String> {
    tool.find(arguments, &WorkLimit::never())
}

/// Files with these paths, each with its own path as content.
pub(in super::super) fn files(paths: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for path in paths {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, path).unwrap();
    }
    folder
}

#[test]
fn globs_find_names_and_paths() {
    let folder = files(&[
        "a.rs",
        "src/b.rs",
        "src/deep/c.rs",
        "src/deep/d.txt",
        ".github/x.yml",
        ".git/config.rs",
        "target/e.rs",
        "src/gen/f.rs",
        "src/gen/keep.rs",
        "sub/.git/hooks/x.rs",
    ]);
    fs::write(folder.path().join(".gitignore"), "/target/\n*.log\n").unwrap();
    fs::write(folder.path().join("src/.gitignore"), "gen/*\n!gen/keep.rs\n").unwrap();
    let tool = Find::new(folder.path());
    for (arguments, found) in [
        (r#"{"pattern":"*.rs"}"#, "a.rs\nsrc/b.rs\nsrc/deep/c.rs\nsrc/gen/keep.rs"),
        (r#"{"pattern":"src/*.rs"}"#, "src/b.rs"),
        (r#"{"pattern":"src/**/*.rs"}"#, "src/b.rs\nsrc/deep/c.rs\nsrc/gen/keep.rs"),
        (r#"{"pattern":"./src/*.rs"}"#, "src/b.rs"),
        (r#"{"pattern":"*.{rs,txt}","path":"src/deep"}"#, "src/deep/c.rs\nsrc/deep/d.txt"),
        (r#"{"pattern":"deep/*","path":"src"}"#, "src/deep/c.rs\nsrc/deep/d.txt"),
        (r#"{"pattern":"d*"}"#, "src/deep/\nsrc/deep/d.txt"),
        (r#"{"pattern":"*.yml"}"#, ".github/x.yml"),
        // An ignored folder is searched if the call names it.
        (r#"{"pattern":"*.rs","path":"target"}"#, "target/e.rs"),
        // The ignore rules of the folders above apply.
        (r#"{"pattern":"*.rs","path":"src/gen"}"#, "src/gen/keep.rs"),
        (r#"{"pattern":"[a-b].rs"}"#, "a.rs\nsrc/b.rs"),
        (r#"{"pattern":"nothing"}"#, "[nothing found; files that .gitignore names are not searched]"),
    ] {
        assert_eq!(find(&tool, arguments).unwrap(), found, "{arguments}");
    }
    for (arguments, why) in [
        ("{}", "`pattern` is missing"),
        (r#"{"pattern":""}"#, "`pattern` is missing"),
        (r#"{"pattern":"a[b"}"#, "the glob `a[b` is not valid, at character 2: "),
        (r#"{"pattern":"x{a,b"}"#, "at character 2: "),
        (r#"{"pattern":"a","path":"a.rs"}"#, "`a.rs` is a file"),
        (r#"{"pattern":"a","path":"nothing"}"#, "`nothing` does not exist"),
        (r#"{"pattern":"a","path":".."}"#, "outside"),
        (r#"{"pattern":"a","path":"/etc"}"#, "outside"),
    ] {
        let said = find(&tool, arguments).unwrap_err();
        assert!(said.contains(why), "{arguments}: {said}");
    }
    let long = format!(r#"{{"pattern":"{}"}}"#, "x".repeat(PATTERN + 1));
    assert!(find(&tool, &long).unwrap_err().contains("at most 1000"));
}

/// Links are listed as names, and the walk never follows one.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::{ffi::OsStrExt as _, fs::symlink};
    let folder = files(&["in/a.rs", "in/sub/b.rs", "out/secret.rs"]);
    let inside = folder.path().join("in");
    symlink("../out", inside.join("leak")).unwrap();
    symlink("..", inside.join("sub/loop")).unwrap();
    symlink("../out/secret.rs", inside.join("link.rs")).unwrap();
    fs::write(inside.join("new\nline.rs"), "").unwrap();
    fs::write(inside.join(std::ffi::OsStr::from_bytes(b"\xff.rs")), "").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(inside.join("pipe.rs")).status().unwrap().success());
    let tool = Find::new(&inside);
    let found = find(&tool, r#"{"pattern":"*.rs"}"#).unwrap();
    assert_eq!(found, "\"new\\nline.rs\"\na.rs\nlink.rs\npipe.rs\nsub/b.rs\n\u{fffd}.rs");
    assert!(find(&tool, r#"{"pattern":"*.rs","path":"leak"}"#).unwrap_err().contains("outside"));
}

#[test]
fn many_are_found_in_part_and_the_others_counted() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..SHOWN + 1234 {
        fs::write(folder.path().join(format!("{number:05}")), "").unwrap();
    }
    let found = find(&Find::new(folder.path()), r#"{"pattern":"*"}"#).unwrap();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[SHOWN - 1]), (SHOWN + 1, "00000", "00999"));
    assert_eq!(lines[SHOWN], "[and 1,234 more: make the pattern narrower, or search a smaller folder]");
}

/// A cancelled search stops, and one that runs out of time reports it.
#[test]
fn a_search_ends_when_it_is_told_to() {
    let folder = files(&["a", "b/c"]);
    let over = WorkLimit::never().within(std::time::Duration::ZERO);
    let workspace = Workspace::new(folder.path());
    let mut met = 0;
    let ended = workspace.walk("", &over, &mut |_, _| met += 1).unwrap();
    assert!(ended.early && met == 0);
    assert!(ended.note().unwrap().contains("the search is incomplete"));
}

/// A folder below the depth limit is reported as left out.
#[test]
fn depth_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let deep: String = "d/".repeat(70);
    fs::create_dir_all(folder.path().join(Path::new(&deep))).unwrap();
    fs::write(folder.path().join(deep).join("x"), "").unwrap();
    let found = find(&Find::new(folder.path()), r#"{"pattern":"x"}"#).unwrap();
    assert!(found.contains("[1 folders or files could not be searched]"), "{found}");
}
