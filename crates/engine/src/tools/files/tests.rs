//! What `read_file` and `list_dir` show, and what they do not.

use std::fs;

use super::*;

#[test]
fn files_in_the_folder_are_read_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    let inside = folder.path().join("in");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(inside.join("a.txt"), "hello").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
    let read = ReadFile::new(&inside);
    assert_eq!(read.read(r#"{"path":"a.txt"}"#).unwrap(), "hello");
    assert_eq!(read.read(r#"{"path":"a.txt","offset":3}"#).unwrap(), "lo");
    for outside in ["../secret", "link", "sub", "nothing"] {
        assert!(read.read(&format!("{{\"path\":\"{outside}\"}}")).is_err(), "{outside}");
    }
    assert!(read.read("{}").is_err());
    let list = ListDir::new(&inside);
    assert_eq!(list.list("{}").unwrap(), if cfg!(unix) { "a.txt\nlink\nsub/" } else { "a.txt\nsub/" });
    assert!(list.list(r#"{"path":".."}"#).is_err());
}

/// No tool reads a file with keys, whatever its name, nor anything that only looks like a file.
#[test]
fn what_holds_keys_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("auth.json");
    fs::write(&keys, "sk-secret").unwrap();
    fs::write(folder.path().join("other"), "fine").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("auth.json", folder.path().join("link")).unwrap();
    fs::hard_link(&keys, folder.path().join("hard")).unwrap();
    let read = ReadFile::new(folder.path()).hiding(&keys).hiding(folder.path().join("not-there"));
    let names = if cfg!(unix) { &["auth.json", "./auth.json", "link", "hard"][..] } else { &["auth.json"] };
    for path in names {
        let why = read.read(&format!("{{\"path\":\"{path}\"}}")).unwrap_err();
        assert!(why.contains("holds keys") && !why.contains("sk-secret"), "{why}");
    }
    assert_eq!(read.read(r#"{"path":"other"}"#).unwrap(), "fine");
    for offset in ["5", "99", "18446744073709551615", "-1", "\"x\""] {
        let read = read.read(&format!("{{\"path\":\"other\",\"offset\":{offset}}}"));
        assert!(read.is_err() || read.is_ok_and(|text| text.len() <= 4), "{offset}");
    }
}

/// Other conversations are no business of a model that works in the folder of a store, or beside hard links to one.
#[cfg(unix)]
#[test]
fn the_files_of_a_store_are_hidden() {
    use rejoin_store::{Access, Digest, Options, open};
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
        let read = ReadFile::new(folder.path()).hiding_store(location);
        let (mut folders, mut found) = (vec![folder.path().join("store")], 0);
        while let Some(inside) = folders.pop() {
            for entry in fs::read_dir(inside).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                found += 1;
                let link = folder.path().join(format!("work/{found}"));
                fs::hard_link(&path, &link).unwrap();
                for path in [path, link] {
                    let why = read.read(&format!("{{\"path\":\"{}\"}}", path.display())).unwrap_err();
                    assert!(why.contains("rejoin's own files"), "{kind}: {why}");
                }
            }
        }
        assert!(found >= 3, "{kind}: {found} files");
        fs::write(folder.path().join("store/notes"), "mine").unwrap();
        assert_eq!(read.read(r#"{"path":"store/notes"}"#).unwrap(), "mine");
    }
}

/// A disk that does not answer holds no turn up: the work is done on another thread.
#[test]
fn looking_is_done_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "x").unwrap();
    let (read, list) = (ReadFile::new(folder.path()), ListDir::new(folder.path()));
    // The only thread for such work has something else to do.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (live, stop) = (crate::tools::Live::default(), crate::turn::Stop::new());
        let call = |arguments| Call::with(arguments, &live, &stop);
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

#[test]
fn a_folder_of_many_is_listed_in_part() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..2 * NAMES + 10 {
        fs::write(folder.path().join(format!("{number:05}")), "").unwrap();
    }
    fs::create_dir(folder.path().join("00000x")).unwrap();
    let listed = ListDir::new(folder.path()).list("{}").unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!((lines[0], lines[1], lines[NAMES - 1]), ("00000", "00000x/", "01998"));
    assert_eq!(lines[NAMES..], [format!("[and {} more]", NAMES + 11)]);
}

#[test]
fn a_long_file_is_read_in_pieces_and_no_letter_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let whole = format!("x{}", "\u{e9}".repeat(PIECE as usize));
    fs::write(folder.path().join("long"), &whole).unwrap();
    let read = ReadFile::new(folder.path());
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let piece = read.read(&format!("{{\"path\":\"long\",\"offset\":{offset}}}")).unwrap();
        match piece.rsplit_once("\n[") {
            Some((piece, more)) => {
                text.push_str(piece);
                offset = more.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
            }
            None => {
                text.push_str(&piece);
                break;
            }
        }
    }
    assert_eq!(text, whole);
}
