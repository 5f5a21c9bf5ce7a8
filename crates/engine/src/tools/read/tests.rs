//! The text that `read_file` shows, and the files that it refuses.

use std::fs;

use super::*;
use crate::tools::ListDir;
use crate::tools::RunningCall;

/// Runs the tool with these arguments.
fn read(tool: &ReadFile, arguments: &str) -> Result<String, String> {
    tool.read(arguments, &WorkLimit::never()).map(|output| {
        assert!(output.media.is_empty() && !output.is_error);
        output.text
    })
}

fn path(name: &str) -> String {
    serde_json::json!({"path": name}).to_string()
}

#[test]
fn lines_are_shown_exactly_with_a_note_about_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("three", b"one\ntwo\nthree\n");
    write("open", b"one\ntwo");
    write("crlf", b"a\r\nb\r\n");
    write("empty", b"");
    write("blank", b"\n\n");
    write("latin", b"caf\xe9\n");
    write("long", format!("{}\nend\n", "é".repeat(LINE + 5)).as_bytes());
    write("longer", format!("{}\nend", "x".repeat(300_000)).as_bytes());
    write("many", (1..=3000).map(|n| format!("{n}\n")).collect::<String>().as_bytes());
    write("wide", (1..=100).map(|_| format!("{}\n", "w".repeat(3999))).collect::<String>().as_bytes());
    let tool = ReadFile::new(folder.path());
    for (arguments, shown) in [
        (r#"{"path":"three"}"#, "one\ntwo\nthree\n"),
        (r#"{"path":"three","from":1,"lines":3}"#, "one\ntwo\nthree\n"),
        (r#"{"path":"three","lines":2}"#, "one\ntwo\n[lines 1 to 2 of 3; go on with from: 3]"),
        (r#"{"path":"three","from":2,"lines":1}"#, "two\n[lines 2 to 2 of 3; go on with from: 3]"),
        (r#"{"path":"three","from":3}"#, "three\n[lines 3 to 3 of 3]"),
        (r#"{"path":"open"}"#, "one\ntwo"),
        (r#"{"path":"open","from":2}"#, "two\n[lines 2 to 2 of 2]"),
        (r#"{"path":"crlf"}"#, "a\r\nb\r\n"),
        (r#"{"path":"empty"}"#, "[the file is empty]"),
        (r#"{"path":"blank"}"#, "\n\n"),
        (
            r#"{"path":"latin"}"#,
            "caf\u{fffd}\n[some bytes are not UTF-8 and are shown as \u{fffd}; edit_file cannot change this file]",
        ),
        (r#"{"path":"many","from":2999}"#, "2999\n3000\n[lines 2,999 to 3,000 of 3,000]"),
    ] {
        assert_eq!(read(&tool, arguments).unwrap(), shown, "{arguments}");
    }
    let cut = |letter: &str| format!("{} [line cut after 4,000 characters]\nend", letter.repeat(LINE));
    assert_eq!(read(&tool, &path("long")).unwrap(), cut("é") + "\n");
    assert_eq!(read(&tool, &path("longer")).unwrap(), cut("x"));
    let many = read(&tool, &path("many")).unwrap();
    assert!(many.ends_with("2000\n[lines 1 to 2,000 of 3,000; go on with from: 2001]"), "{many}");
    let wide = read(&tool, &path("wide")).unwrap();
    assert!(wide.len() <= PIECE + 100 && wide.ends_with("\n[lines 1 to 32 of 100; go on with from: 33]"));
    for (arguments, why) in [
        (r#"{"path":"three","from":4}"#, "`three` has 3 lines: line 4 does not exist"),
        (r#"{"path":"three","from":18446744073709551615}"#, "`three` has 3 lines"),
        (r#"{"path":"three","from":0}"#, "`from` must be a whole number, 1 or more, not 0"),
        (r#"{"path":"three","lines":0}"#, "`lines` must be"),
        (r#"{"path":"three","offset":3}"#, "there is no argument `offset`"),
        (r#"{"path":"no"}"#, "`no` does not exist; list_dir or find shows what does"),
        ("{}", "`path` is missing"),
    ] {
        let said = read(&tool, arguments).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// Following the notes yields every line once.
#[test]
fn a_long_file_is_read_in_pieces_and_no_line_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let whole: String = (0..9000).map(|n| format!("{n} {}\n", "y".repeat(n % 97))).collect();
    fs::write(folder.path().join("long"), &whole).unwrap();
    let tool = ReadFile::new(folder.path());
    let (mut text, mut from) = (String::new(), 1);
    loop {
        let piece = read(&tool, &format!(r#"{{"path":"long","from":{from},"lines":3500}}"#)).unwrap();
        let Some((piece, note)) = piece.rsplit_once("\n[lines ") else { break };
        text.push_str(piece);
        text.push('\n');
        let Some((_, next)) = note.split_once("from: ") else { break };
        from = next.trim_end_matches(']').parse().unwrap();
    }
    assert_eq!(text, whole);
}

#[test]
fn binary_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let tool = ReadFile::new(folder.path());
    for (content, why) in [
        (&b"\x7fELF\x02\0\0"[..], "a program or library (ELF) of 7 bytes"),
        (b"SQLite format 3\0", "a SQLite database of 16 bytes"),
        (b"text\0text", "binary data of 9 bytes"),
        (b"\xff\xfea\0b\0", "UTF-16 text of 6 bytes"),
    ] {
        fs::write(folder.path().join("f"), content).unwrap();
        let said = read(&tool, &path("f")).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    // A NUL far from the beginning.
    fs::write(folder.path().join("f"), [&b"x\n".repeat(10_000)[..], b"\0"].concat()).unwrap();
    assert!(read(&tool, r#"{"path":"f","from":9999}"#).unwrap_err().contains("binary data"));
}

#[test]
fn images_come_as_images() {
    let folder = tempfile::tempdir().unwrap();
    let tool = ReadFile::new(folder.path());
    for (name, bytes, media_type) in [
        ("a.png", &b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
        ("b.jpg", b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        ("c.gif", b"GIF89a\0", "image/gif"),
        ("named-wrongly.png", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
        let output = tool.read(&path(name), &WorkLimit::never()).unwrap();
        assert_eq!(output.text, format!("[`{name}`: {media_type}, {} bytes]", bytes.len()));
        let BlockKind::Image(media) = &output.media[0].kind else { panic!("{output:?}") };
        assert_eq!(media.media_type.as_deref(), Some(media_type));
        assert_eq!(media.source, MediaSource::Base64(Text::from(base64::encode(bytes))));
    }
    let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
    large.resize(IMAGE as usize + 1, 7);
    fs::write(folder.path().join("large.png"), large).unwrap();
    let why = tool.read(&path("large.png"), &WorkLimit::never()).unwrap_err();
    assert!(why.contains("3,750,001 bytes; providers take at most 3,750,000"), "{why}");
}

#[test]
fn files_in_the_folder_are_read_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    let inside = folder.path().join("in");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(inside.join("a.txt"), "hello").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
    let tool = ReadFile::new(&inside);
    assert_eq!(read(&tool, &path("a.txt")).unwrap(), "hello");
    for outside in ["../secret", "link", "sub", "nothing", "/etc/passwd", "/proc/self/environ"] {
        assert!(read(&tool, &path(outside)).is_err(), "{outside}");
    }
}

/// If the root of the system is the workspace, the kernel's files stay hidden: they contain the environment.
#[cfg(target_os = "linux")]
#[test]
fn the_environment_of_the_process_is_not_read() {
    let tool = ReadFile::new("/");
    for name in ["/proc/self/environ", "proc/self/environ", "proc/thread-self/environ", "proc/self/cmdline"] {
        let why = read(&tool, &path(name)).unwrap_err();
        assert!(why.contains("rejoin's own files") || why.contains("does not exist"), "{why}");
    }
}

/// No tool reads a file with keys under any name, nor special files.
#[test]
fn what_holds_keys_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("auth.json");
    fs::write(&keys, "sk-secret").unwrap();
    fs::write(folder.path().join("other"), "fine").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("auth.json", folder.path().join("link")).unwrap();
    fs::hard_link(&keys, folder.path().join("hard")).unwrap();
    let workspace = Workspace::new(folder.path()).hiding(&keys).hiding(folder.path().join("not-there"));
    let tool = ReadFile::of(workspace);
    let names = if cfg!(unix) { &["auth.json", "./auth.json", "link", "hard"][..] } else { &["auth.json"] };
    for name in names {
        let why = read(&tool, &path(name)).unwrap_err();
        assert!(why.contains("holds keys") && !why.contains("sk-secret"), "{why}");
    }
    assert_eq!(read(&tool, &path("other")).unwrap(), "fine");
}

/// A model that works in the folder of a store, or next to hard links into one, cannot read other conversations.
#[cfg(unix)]
#[test]
fn the_files_of_a_store_are_hidden() {
    use rejoin_store::{Access, Digest, Location, Options, open};
    for kind in ["sqlite", "jsonl"] {
        let folder = tempfile::tempdir().unwrap();
        let location = match kind {
            "sqlite" => Location::Sqlite(folder.path().join("store/r.db")),
            _ => Location::Jsonl(folder.path().join("store")),
        };
        let options = Options { access: Access::Write, digester: |_| Box::new(|_: &_| Digest::default()) };
        let store = open(&location, options).unwrap();
        let new = crate::New { title: Some(String::from("secret")), ..crate::New::default() };
        let writer = crate::Writer { store: &*store, clock: &crate::SystemClock, command: "a test" };
        let id = writer.create(&new).unwrap();
        store.settle().unwrap();
        let mut draft = store.drafts().unwrap().begin(id).unwrap();
        draft.append(b"secret").unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let workspace = Workspace::new(folder.path()).hiding_store(location);
        let tool = ReadFile::of(workspace.clone());
        let (mut folders, mut found) = (vec![folder.path().join("store")], 0);
        while let Some(inside) = folders.pop() {
            for entry in fs::read_dir(inside).unwrap() {
                let file = entry.unwrap().path();
                if file.is_dir() {
                    folders.push(file);
                    continue;
                }
                found += 1;
                let link = folder.path().join(format!("work/{found}"));
                fs::hard_link(&file, &link).unwrap();
                for file in [file, link] {
                    let why = read(&tool, &path(&file.display().to_string())).unwrap_err();
                    assert!(why.contains("rejoin's own files"), "{kind}: {why}");
                    let why = workspace.current(&file.display().to_string()).unwrap_err();
                    assert!(matches!(why, crate::tools::PathRefused::Hidden), "{kind}: {why}");
                }
            }
        }
        assert!(found >= 3, "{kind}: {found} files");
        fs::write(folder.path().join("store/notes"), "mine").unwrap();
        assert_eq!(read(&tool, &path("store/notes")).unwrap(), "mine");
        // Nor may a tool create a file that the store would take for its own.
        let new = match kind {
            "sqlite" => {
                ["store/r.db-wal2", "store/r.db-journal", "store/r.db.drafts/x", "store/r.db.backup-9"]
            }
            _ => [
                "store/conv_aaaaaaaaaaaa.jsonl",
                "store/drafts/x",
                "store/.locks/x",
                "store/CONV_AAAAAAAAAAAA.jsonl",
            ],
        };
        for new in new {
            let why = workspace.current(new);
            assert!(matches!(why, Err(crate::tools::PathRefused::Hidden)), "{kind} {new}: {why:?}");
        }
        assert_eq!(workspace.current("store/notes.txt").unwrap(), None);
        // Searching shows nothing of it either, even if it was written after the search began.
        for arguments in [r#"{"pattern":"secret"}"#, r#"{"pattern":"(?-u).","path":"work"}"#] {
            let grep = crate::tools::Grep::of(workspace.clone());
            let output = crate::tools::grep::tests::grep(&grep, arguments).unwrap();
            assert!(output.starts_with("[no line matches"), "{kind}: {output}");
        }
        let find = crate::tools::Find::of(workspace.clone());
        let output = crate::tools::find::tests::find(&find, r#"{"pattern":"*"}"#).unwrap();
        assert!(output.contains("store/notes") && !output.contains("work/1"), "{kind}: {output}");
    }
}

/// A disk that does not answer does not block a turn: the work runs on another thread.
#[test]
fn looking_is_done_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "x").unwrap();
    let (read, list) = (ReadFile::new(folder.path()), ListDir::new(folder.path()));
    // The only thread for such work is busy.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (live, stop) = (crate::tools::LiveOutput::default(), crate::turn::Stop::new());
        let call = |arguments| RunningCall::with(arguments, &live, &stop);
        for (mut doing, expected) in [(read.run(call(r#"{"path":"a"}"#)), "x"), (list.run(call("{}")), "a")] {
            let (free, busy) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || busy.recv());
            let first = std::future::poll_fn(|context| std::task::Poll::Ready(doing.as_mut().poll(context)));
            assert!(first.await.is_pending());
            drop(free);
            assert_eq!(doing.await, ToolOutput::of(expected));
        }
    });
}
