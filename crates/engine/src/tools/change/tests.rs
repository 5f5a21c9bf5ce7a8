//! Changes of files: which files tools can reach, that other programs' changes are kept, and that no half file is ever visible.

use std::{fs, path::Path};

use serde_json::json;

use super::*;
use crate::tools::{EditFile, WriteFile};

fn change(path: &str, before: Option<&str>, after: &str) -> FileChange {
    FileChange {
        path: path.to_owned(),
        before: before.map(|before| before.as_bytes().to_vec()),
        after: after.as_bytes().to_vec(),
    }
}

fn plan(workspace: &Workspace, path: &str, content: &str) -> Result<FileChange, String> {
    WriteFile::of(workspace.clone()).planned(&json!({"path": path, "content": content}).to_string())
}

/// Every name below a folder with its content, sorted.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(inside).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_symlink() {
                found.push((name, format!("-> {}", fs::read_link(&path).unwrap().display())));
            } else if path.is_dir() {
                found.push((name, String::from("/")));
                folders.push(path);
            } else if path.is_file() {
                found.push((name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
            }
        }
    }
    found.sort();
    found
}

fn pairs<'p>(pairs: &[(&'p str, &'p str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn differences_are_shown() {
    let bytes = |path: &str, before: Option<&[u8]>, after: &[u8]| FileChange {
        path: path.to_owned(),
        before: before.map(<[u8]>::to_vec),
        after: after.to_vec(),
    };
    for (change, diff, summary) in [
        (
            change("a", Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
            "--- a/a\n+++ b/a\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
            "changed `a` (1 line added, 1 removed)",
        ),
        (
            change("b/c", None, "x\ny\n"),
            "--- /dev/null\n+++ b/b/c\n@@ -0,0 +1,2 @@\n+x\n+y\n",
            "created `b/c` (2 lines)",
        ),
        (change("e", None, ""), "--- /dev/null\n+++ b/e\n", "created `e` (0 lines)"),
        (change("a", Some("x\n"), "x\n"), "", "`a` has exactly this content already"),
        (
            change("a", Some("x\n"), "x"),
            "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+x\n\\ No newline at end of file\n",
            "changed `a` (1 line added, 1 removed)",
        ),
        (
            change("esc", Some("a\n"), "\u{1b}[2J\n"),
            "--- a/esc\n+++ b/esc\n@@ -1 +1 @@\n-a\n+\u{1b}[2J\n",
            "changed `esc` (1 line added, 1 removed)",
        ),
        (
            bytes("bin", Some(b"a\0"), b"b"),
            "--- a/bin\n+++ b/bin\n[a binary file: had 2 bytes, will have 1 bytes]\n",
            "changed `bin`",
        ),
        (
            bytes("latin", None, b"\xe9"),
            "--- /dev/null\n+++ b/latin\n[a binary file: did not exist, will have 1 bytes]\n",
            "created `latin` (1 line)",
        ),
    ] {
        assert_eq!((change.diff(), change.summary()), (diff.to_owned(), summary.to_owned()));
    }
    let huge = change("huge", Some(""), &"x\n".repeat(SHOWN));
    assert!(huge.diff().contains("[too large to be shown: had 0 bytes, will have 2,097,152 bytes]"));
    // Every line differs: the search for the smallest difference stops in time.
    let lines =
        |salt: u64| (0..40_000_u64).map(|n| format!("{}\n", (n * 7919 + salt) % 10_007)).collect::<String>();
    let began = std::time::Instant::now();
    assert!(change("far", Some(&lines(1)), &lines(5000)).diff().starts_with("--- a/far\n"));
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn a_change_is_planned_applied_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path());
    fs::write(folder.path().join("a"), "old").unwrap();
    let planned = plan(&workspace, "./x/../a", "new").unwrap_err();
    assert!(planned.contains("x/../a"), "{planned}");
    let changed = plan(&workspace, "./a", "new").unwrap();
    assert_eq!(changed, change("a", Some("old"), "new"));
    assert_eq!(tree(folder.path()), pairs(&[("a", "old")]));
    workspace.apply(&changed).unwrap();
    assert_eq!(tree(folder.path()), pairs(&[("a", "new")]));
    assert!(matches!(workspace.apply(&changed), Err(ApplyError::Changed { .. })));

    let created = plan(&workspace, "sub/deep/b", "text").unwrap();
    assert_eq!(created, change("sub/deep/b", None, "text"));
    workspace.apply(&created).unwrap();
    let all = [("a", "new"), ("sub", "/"), ("sub/deep", "/"), ("sub/deep/b", "text")];
    assert_eq!(tree(folder.path()), pairs(&all));
    assert_eq!(workspace.current("sub/deep/b").unwrap().unwrap(), b"text");
    assert_eq!(workspace.current("sub/c").unwrap(), None);

    // The expected content is given by its bytes, and by their hash.
    let hash = ExpectedContent::Blake3(blake3::hash(b"new").into());
    assert_eq!(workspace.restore("a", Some(b"old"), hash).unwrap(), RestoreOutcome::Rewritten);
    assert_eq!(workspace.restore("a", Some(b"old"), hash).unwrap(), RestoreOutcome::AlreadyThere);
    let bytes = ExpectedContent::Bytes(b"text");
    assert_eq!(workspace.restore("sub/deep/b", None, bytes).unwrap(), RestoreOutcome::Removed);
    assert_eq!(workspace.restore("sub/deep/b", None, bytes).unwrap(), RestoreOutcome::AlreadyThere);
    assert_eq!(tree(folder.path()), pairs(&[("a", "old"), ("sub", "/"), ("sub/deep", "/")]));

    // A file that was changed since is left alone.
    fs::write(folder.path().join("a"), "mine").unwrap();
    for (before, expected) in [(Some(&b"old"[..]), "new"), (None, "new"), (Some(b"old"), "")] {
        let why = workspace.restore("a", before, ExpectedContent::Bytes(expected.as_bytes())).unwrap_err();
        assert!(
            matches!(why, ApplyError::Changed { .. }) && why.to_string().contains("has changed since"),
            "{why}"
        );
    }
    assert!(workspace.restore("gone", Some(b"x"), ExpectedContent::Bytes(b"y")).is_err());
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"mine");
}

/// The tools themselves: a model's call, and the text that it gets back.
#[test]
fn the_tools_answer_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (write, edit) = (WriteFile::new(folder.path()), EditFile::new(folder.path()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = |tool: &dyn crate::tools::Tool, arguments: serde_json::Value| {
        let output = runtime.block_on(crate::tools::tests::called(tool, &arguments.to_string()));
        (output.is_error, output.text)
    };
    let said = |text: &str| (false, text.to_owned());
    assert_eq!(run(&write, json!({"path": "n/a", "content": "x\ny\n"})), said("created `n/a` (2 lines)"));
    assert_eq!(
        run(&write, json!({"path": "n/a", "content": "x\ny\n"})),
        said("`n/a` has exactly this content already")
    );
    let edits = json!([{"old": "x", "new": "z"}]);
    assert_eq!(
        run(&edit, json!({"path": "n/a", "edits": edits})),
        said("changed `n/a` (1 line added, 1 removed)")
    );
    assert!(run(&edit, json!({"path": "n/a", "edits": edits})).0);
    assert_eq!(fs::read(folder.path().join("n/a")).unwrap(), b"z\ny\n");
    for (arguments, why) in [
        (json!({"path": "n/a"}), "`content` is missing: it must be a string"),
        (json!({"path": "n/a", "content": ["x"]}), "`content` must be a string, not a list"),
        (json!({"path": "n", "content": ""}), "`n`: it is not a file"),
        (json!({"path": "n/a/b", "content": ""}), "`n/a/b`"),
        (json!({"path": "n/", "content": ""}), "`n/`: it is not a file"),
        (json!({"path": "new/", "content": ""}), "`new/`"),
        (json!({"path": "", "content": ""}), "it is not a file"),
        (json!({"path": ".", "content": ""}), "it is not a file"),
        (
            json!({"path": "big", "content": "x".repeat(CHANGED_FILE as usize + 1)}),
            "tools write at most 16,777,216",
        ),
    ] {
        let (is_error, text) = run(&write, arguments);
        assert!(is_error && text.contains(why), "{text}");
    }
    assert_eq!(tree(folder.path()), pairs(&[("n", "/"), ("n/a", "z\ny\n")]));
}

#[cfg(unix)]
mod unix {
    use std::{
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;
    use crate::tools::change::apply::{Step, watching};

    /// Every way out of the folder that a model could try, and protected files inside it.
    #[test]
    fn nothing_outside_or_protected_is_changed() {
        let folder = testkit::folder_with(&[
            ("out/secret", "secret"),
            ("out/key", "key"),
            ("in/a", "a"),
            ("in/sub/", ""),
            ("in/.git/config", "[core]"),
            ("in/.git/hooks/", ""),
            ("in/read-only", "r"),
            ("in/twin", "t"),
        ]);
        let inside = folder.path().join("in");
        for (target, link) in [
            ("../out/secret", "in/leak"),
            ("../out/new", "in/leak-new"),
            ("../out", "in/leak-folder"),
            (".git", "in/to-git"),
            ("/dev/null", "in/null"),
            ("loop", "in/loop"),
            ("/proc/self/environ", "in/environ"),
        ] {
            symlink(target, folder.path().join(link)).unwrap();
        }
        fs::hard_link(folder.path().join("out/key"), inside.join("hard-key")).unwrap();
        fs::hard_link(inside.join("twin"), inside.join("twin2")).unwrap();
        assert!(Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let workspace = Workspace::new(&inside)
            .hiding(folder.path().join("out/key"))
            .hiding(inside.join("auth/keys.json"));
        let before = tree(folder.path());
        let absolute = folder.path().join("out/secret").display().to_string();
        for (path, why) in [
            ("../out/secret", "outside"),
            ("sub/../../out/secret", "outside"),
            ("/etc/passwd", "outside"),
            (&*absolute, "outside"),
            ("leak", "outside"),
            ("leak-new", "outside"),
            ("leak-folder/secret", "outside"),
            ("leak-folder/new", "outside"),
            ("environ", "outside"),
            ("null", "outside"),
            ("/proc/self/environ", "outside"),
            (".git/hooks/post-commit", ".git"),
            (".git/config", ".git"),
            (".git/new/folder/x", ".git"),
            ("to-git/config", ".git"),
            ("sub/../.git/config", ".git"),
            (".GIT/config", ".git"),
            (".git", ".git"),
            ("sub/.git", ".git"),
            ("sub/.git/hooks/x", ".git"),
            ("sub/.gi\u{200c}t/hooks/x", ".git"),
            ("GIT~1/hooks/x", ".git"),
            ("hard-key", "rejoin's own files or holds keys"),
            ("auth/keys.json", "rejoin's own files or holds keys"),
            ("auth/KEYS.json", "rejoin's own files or holds keys"),
            ("twin", "hard link: the file has 2 names"),
            ("pipe", "it is not a file"),
            ("socket", "it is not a file"),
            ("sub", "it is not a file"),
            ("loop", "loop"),
            ("a/b", "a/b"),
            ("sub/nothing/../../a", "sub/nothing/../../a"),
        ] {
            let said = plan(&workspace, path, "evil").unwrap_err();
            assert!(said.contains(why), "{path}: {said}");
            let edit = EditFile::of(workspace.clone());
            let said = edit
                .planned(&json!({"path": path, "edits": [{"old": "", "new": "evil"}]}).to_string())
                .unwrap_err();
            assert!(said.contains(why), "{path}: {said}");
            // A change that was made up, or planned before the links existed.
            for content in [None, Some("secret"), Some("a"), Some("key"), Some("t"), Some("[core]"), Some("")]
            {
                assert!(workspace.apply(&change(path, content, "evil")).is_err(), "{path}");
                let expected = ExpectedContent::Bytes(content.unwrap_or_default().as_bytes());
                let restored = workspace.restore(path, None, expected);
                assert!(!matches!(restored, Ok(RestoreOutcome::Removed)), "{path}");
                let restored = workspace.restore(path, Some(b"evil"), expected);
                assert!(restored.is_err(), "{path}");
            }
        }
        assert_eq!(tree(folder.path()), before);
        assert_eq!(plan(&workspace, "auth/other.json", "").unwrap().before, None);
        // Without write permission on a file, the permission to replace it is not used. Root may write every file.
        fs::set_permissions(inside.join("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
        if fs::File::options().write(true).open(inside.join("read-only")).is_err() {
            assert!(plan(&workspace, "read-only", "x").unwrap_err().contains("ermission denied"));
        }
    }

    /// With the root of the system as the workspace, the kernel's files and devices are not changed.
    #[test]
    fn the_files_of_the_kernel_are_not_changed() {
        let workspace = Workspace::new("/");
        for path in [
            "/proc/self/environ",
            "proc/self/oom_score_adj",
            "/proc/sys/kernel/hostname",
            "/dev/null",
            "dev/zero",
        ] {
            if Path::new("/").join(path).exists() {
                assert!(plan(&workspace, path, "x").is_err(), "{path}");
                assert!(workspace.apply(&change(path, Some(""), "x")).is_err(), "{path}");
            }
        }
    }

    /// The target of a link that stays inside is replaced, and the link stays.
    #[test]
    fn links_that_stay_inside_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a"), "old").unwrap();
        for (target, link) in [("sub/a", "link"), ("sub", "folder"), ("sub/new", "dangling")] {
            symlink(target, folder.path().join(link)).unwrap();
        }
        let workspace = Workspace::new(folder.path());
        for (path, real) in
            [("link", "sub/a"), ("folder/a", "sub/a"), ("folder/../link", "sub/a"), ("dangling", "sub/new")]
        {
            let planned = plan(&workspace, path, path).unwrap();
            assert_eq!(planned.path, real);
            workspace.apply(&planned).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(real)).unwrap(), path);
        }
        let links = ["dangling", "folder", "link"].map(|link| folder.path().join(link).is_symlink());
        assert_eq!(links, [true; 3]);
        // A planned change never has a path with links.
        assert!(matches!(workspace.apply(&change("link", Some("x"), "y")), Err(ApplyError::Changed { .. })));
    }

    #[test]
    fn permissions_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path());
        let file = folder.path().join("a");
        fs::write(&file, "old").unwrap();
        for (mode, kept) in [(0o755, 0o755), (0o600, 0o600), (0o640, 0o640), (0o4755, 0o755)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            workspace.apply(&plan(&workspace, "a", &format!("{mode}")).unwrap()).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, kept, "{mode:o}");
        }
        // A new file and a new folder have the same permissions as those of other programs.
        workspace.apply(&change("new/b", None, "")).unwrap();
        fs::create_dir(folder.path().join("ordinary")).unwrap();
        fs::write(folder.path().join("ordinary/b"), "").unwrap();
        for name in ["", "b"] {
            let mode =
                |folder_name: &str| fs::metadata(folder.path().join(folder_name).join(name)).unwrap().mode();
            assert_eq!(mode("new"), mode("ordinary"));
        }
    }

    /// Replaces this file by another one.
    fn replace(file: &Path, content: &str) {
        let other = file.with_file_name("other");
        fs::write(&other, content).unwrap();
        fs::rename(other, file).unwrap();
    }

    /// If another program changes the file at any step, its change is kept, and the call reports it.
    #[test]
    fn a_change_by_another_program_is_never_lost() {
        type Meddling = fn(&Path);
        let meddlings: [(&str, Meddling, &str); 6] = [
            ("written in place", |file| fs::write(file, "theirs").unwrap(), "theirs"),
            ("replaced", |file| replace(file, "theirs"), "theirs"),
            ("replaced by the same content", |file| replace(file, "old"), "old"),
            (
                "appended to",
                |file| {
                    std::io::Write::write_all(
                        &mut fs::File::options().append(true).open(file).unwrap(),
                        b"!",
                    )
                    .unwrap();
                },
                "old!",
            ),
            (
                "replaced by a link",
                |file| {
                    fs::remove_file(file).unwrap();
                    symlink("../out", file).unwrap();
                },
                "outside",
            ),
            (
                "replaced by a hard link to a key",
                |file| {
                    fs::remove_file(file).unwrap();
                    fs::hard_link(file.with_file_name("../out"), file).unwrap();
                },
                "outside",
            ),
        ];
        for step in [Step::Checked, Step::MadeTemporary, Step::Written, Step::Synced] {
            for (what, meddle, left) in meddlings {
                for removing in [false, true] {
                    if removing && step != Step::Checked {
                        continue;
                    }
                    let folder = tempfile::tempdir().unwrap();
                    let inside = folder.path().join("in");
                    fs::create_dir(&inside).unwrap();
                    fs::write(folder.path().join("out"), "outside").unwrap();
                    let file = inside.join("a");
                    fs::write(&file, "old").unwrap();
                    let workspace = Workspace::new(&inside);
                    let there = file.clone();
                    let done = watching(
                        move |at| {
                            if at == step {
                                meddle(&there);
                            }
                            Ok(())
                        },
                        || match removing {
                            false => workspace.apply(&change("a", Some("old"), "new")),
                            true => workspace.restore("a", None, ExpectedContent::Bytes(b"old")).map(|_| ()),
                        },
                    );
                    assert!(matches!(done, Err(ApplyError::Changed { .. })), "{what} at {step:?}: {done:?}");
                    assert_eq!(fs::read_to_string(&file).unwrap(), left, "{what} at {step:?}");
                    assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), "outside");
                    assert_eq!(
                        fs::read_dir(&inside).unwrap().count(),
                        1,
                        "{what} at {step:?}: something is left over"
                    );
                }
            }
        }
    }

    /// A file that appears while one is being created is not overwritten.
    #[test]
    fn a_new_file_never_takes_a_name_in_use() {
        for step in [Step::Checked, Step::MadeFolders, Step::MadeTemporary, Step::Synced] {
            let folder = tempfile::tempdir().unwrap();
            let workspace = Workspace::new(folder.path());
            let sub = folder.path().join("sub");
            let done = watching(
                move |at| {
                    if at == step {
                        fs::create_dir_all(&sub).unwrap();
                        fs::write(sub.join("a"), "theirs").unwrap();
                    }
                    Ok(())
                },
                || workspace.apply(&change("sub/a", None, "new")),
            );
            assert!(matches!(done, Err(ApplyError::Changed { .. })), "{step:?}: {done:?}");
            assert_eq!(tree(folder.path()), pairs(&[("sub", "/"), ("sub/a", "theirs")]), "{step:?}");
        }
    }

    /// A folder that is swapped for a link while it is created is not followed.
    #[test]
    fn a_missing_folder_that_becomes_a_link_is_not_followed() {
        let folder = testkit::folder_with(&[("in/", ""), ("out/", "")]);
        let inside = folder.path().join("in");
        let (workspace, link) = (Workspace::new(&inside), inside.join("sub"));
        let done = watching(
            move |at| {
                if at == Step::Checked {
                    symlink("../out", &link).unwrap();
                }
                Ok(())
            },
            || workspace.apply(&change("sub/a", None, "new")),
        );
        assert!(done.is_err());
        assert_eq!(fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
    }

    const STEPS: [Step; 8] = [
        Step::Checked,
        Step::MadeFolders,
        Step::MadeTemporary,
        Step::Written,
        Step::Synced,
        Step::Swapped,
        Step::Compared,
        Step::InPlace,
    ];

    /// At every step the file is whole, old or new. If the step fails, no other file is left behind.
    #[test]
    fn a_failure_at_any_step_leaves_a_whole_file_and_nothing_else() {
        let (old, new) = ("old ".repeat(5_000), "new ".repeat(7_000));
        for (before, path) in [(Some(&*old), "a"), (None, "x/y/a")] {
            for step in STEPS {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join(path);
                if let Some(before) = before {
                    fs::write(&file, before).unwrap();
                }
                let workspace = Workspace::new(folder.path());
                let (there, whole, reached) =
                    (file.clone(), [old.clone(), new.clone()], std::rc::Rc::new(std::cell::Cell::new(false)));
                let has_reached = reached.clone();
                let was = before.is_some();
                let done = watching(
                    move |at| {
                        match fs::read_to_string(&there) {
                            Ok(found) => assert!(whole.contains(&found), "{at:?}: a half file"),
                            Err(_) => assert!(!was, "{at:?}: the file is gone"),
                        }
                        if at == step {
                            has_reached.set(true);
                            return Err(io::Error::other("a fault"));
                        }
                        Ok(())
                    },
                    || workspace.apply(&change(path, before, &new)),
                );
                let left = tree(folder.path());
                let now = fs::read_to_string(&file).ok();
                match (&done, reached.get()) {
                    (Ok(()), _) => assert_eq!(now.as_deref(), Some(&*new), "{step:?}"),
                    (Err(ApplyError::NotDurable { .. }), true) => {
                        assert_eq!(now.as_deref(), Some(&*new), "{step:?}")
                    }
                    (Err(_), true) => assert_eq!(now.as_deref(), before, "{step:?}"),
                    (Err(why), false) => panic!("{step:?}: {why}"),
                }
                let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
                let expected: &[&str] = match (before, &now) {
                    (Some(_), _) => &["a"],
                    (None, Some(_)) => &["x", "x/y", "x/y/a"],
                    (None, None) => &[],
                };
                assert_eq!(names, expected, "{step:?}");
            }
        }
    }

    /// A process that is killed at any step leaves a whole file. The next change in the folder removes its temporary file.
    #[test]
    fn a_kill_at_any_step_leaves_a_whole_file() {
        const FOLDER: &str = "REJOIN_TEST_KILLED_IN";
        const STEP: &str = "REJOIN_TEST_KILLED_AT";
        let (old, new) = ("old ".repeat(5_000), "new ".repeat(7_000));
        if let (Ok(folder), Ok(step)) = (std::env::var(FOLDER), std::env::var(STEP)) {
            // This is the process that is killed.
            let workspace = Workspace::new(folder);
            let kill = move |at: Step| if format!("{at:?}") == step { std::process::abort() } else { Ok(()) };
            let _ = watching(kill, || workspace.apply(&change("a", Some(&old), &new)));
            return;
        }
        let mut left_over = 0;
        for step in STEPS {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("a"), &old).unwrap();
            let name = "tools::change::tests::unix::a_kill_at_any_step_leaves_a_whole_file";
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--test-threads=1"])
                .env(FOLDER, folder.path())
                .env(STEP, format!("{step:?}"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status()
                .unwrap();
            // The folders of this file exist, so that step is never reached.
            assert_eq!(status.success(), step == Step::MadeFolders, "{step:?}");
            let found = fs::read_to_string(folder.path().join("a")).unwrap();
            assert!(found == old || found == new, "{step:?}: a half file");
            let others = tree(folder.path()).len() - 1;
            assert!(others <= 1, "{step:?}");
            left_over += others;
            let workspace = Workspace::new(folder.path());
            workspace.apply(&change("a", Some(&found), "next")).unwrap();
            assert_eq!(tree(folder.path()), pairs(&[("a", "next")]), "{step:?}");
        }
        assert!(left_over >= 3, "no process was killed in the middle");
    }

    /// Stops the other thread also when a check fails.
    struct Stop<'s>(&'s AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A program swaps a folder for a link to another one, in a race: nothing is ever written outside.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_is_swapped_for_a_link_in_a_race_leads_nowhere() {
        const CALLS: usize = 400;
        // On a busy machine the other thread may not run for a while.
        const MOST: usize = 100 * CALLS;
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in");
        for name in ["in/sub", "out"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(inside.join("sub/a"), "inside").unwrap();
        fs::write(folder.path().join("out/a"), "outside").unwrap();
        symlink("../out", inside.join("link")).unwrap();
        let workspace = Workspace::new(&inside);
        let edit = EditFile::of(workspace.clone());
        let stop = AtomicBool::new(false);
        let (mut good, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            let _stopping = Stop(&stop);
            scope.spawn(|| {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                let (sub, link) = (inside.join("sub"), inside.join("link"));
                while !stop.load(Ordering::Relaxed) {
                    // Exchange them, so that both always exist: a missing folder would be created.
                    renameat_with(CWD, &sub, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                    std::thread::yield_now();
                }
            });
            for number in 0..MOST {
                if number >= CALLS && good > 0 && refused > 0 {
                    break;
                }
                let write = plan(&workspace, "sub/a", &format!("write {number}"));
                let edits = json!({"path": "sub/a", "edits": [{"old": "outside", "new": "evil"}]});
                if let Ok(planned) = edit.planned(&edits.to_string()) {
                    panic!("a file outside was read: {planned:?}");
                }
                match write.map(|planned| workspace.apply(&planned)) {
                    Ok(Ok(())) => good += 1,
                    _ => refused += 1,
                }
                let _ = workspace.apply(&change("sub/new", None, "new"));
                let _ = workspace.restore("sub/new", None, ExpectedContent::Bytes(b"new"));
            }
        });
        assert_eq!(tree(&folder.path().join("out")), pairs(&[("a", "outside")]));
        assert!(good > 0 && refused > 0, "nothing was raced: {good} written, {refused} refused");
    }

    /// Two writers that count in one file, each by reading and replacing it, lose no number.
    #[test]
    fn two_writers_lose_nothing() {
        const EACH: usize = 60;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("count"), "0").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let workspace = Workspace::new(folder.path());
                    let mut counted = 0;
                    while counted < EACH {
                        let Ok(Some(now)) = workspace.current("count") else { continue };
                        let now = String::from_utf8(now).unwrap();
                        let next = (now.parse::<usize>().unwrap() + 1).to_string();
                        counted += usize::from(workspace.apply(&change("count", Some(&now), &next)).is_ok());
                    }
                });
            }
        });
        assert_eq!(tree(folder.path()), pairs(&[("count", &(2 * EACH).to_string())]));
    }

    /// Names that are not UTF-8 cannot be recorded.
    #[test]
    fn names_that_are_not_utf8_are_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"x\xff");
        fs::write(folder.path().join(name), "old").unwrap();
        symlink(name, folder.path().join("link")).unwrap();
        let workspace = Workspace::new(folder.path());
        assert!(plan(&workspace, "link", "new").unwrap_err().contains("not UTF-8"));
        // A line break in a name is allowed.
        workspace.apply(&plan(&workspace, "a\nb", "new").unwrap()).unwrap();
        assert_eq!(fs::read(folder.path().join("a\nb")).unwrap(), b"new");
        assert!(plan(&workspace, "a\0b", "new").unwrap_err().contains("NUL"));
    }
}
