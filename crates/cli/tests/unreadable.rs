//! A store that may not be read or written, in every command: exit code 1 and an error, nothing is taken for empty, and no other
//! conversation replaces the active one. Root may read everything, so the commands run as another user.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
};

use support::{Home, Ran, STORES, has};

/// The user id of `nobody`.
const SOMEBODY: u32 = 65534;

/// A store with two conversations of someone who is not root, of which the first is active.
struct Place {
    home: Home,
    /// The folder around the folder of the store.
    outer: PathBuf,
    /// The folder of the store.
    folder: PathBuf,
    /// The file of the first conversation: the database, or its own file.
    file: PathBuf,
    id: String,
}

impl Place {
    /// None if this process cannot change its user.
    fn new(kind: &str) -> Option<Self> {
        let mut home = Home::new(kind);
        let outer = home.path("outer");
        let folder = outer.join("store");
        fs::create_dir_all(&folder).unwrap();
        let database = folder.join("chats.db");
        home.store = format!("{kind}:{}", if kind == "sqlite" { &database } else { &folder }.display());
        home.file("new.json", r#"[{"role":"user","content":"something new"}]"#);
        let mut place = Self { home, outer, folder, file: database, id: String::new() };
        place.home.command(&[]);
        hand_over(&place.home.path(""));
        if place.try_run(&["--version"]).is_none() {
            println!("not tested here: this process cannot become another user");
            return None;
        }
        place.works(&["new", "--title", "other"]);
        place.works(&["chat", "--new", "--provider", "offline", "my name is Alice"]);
        place.id = place.active().unwrap();
        if kind == "jsonl" {
            place.file = place.folder.join(format!("{}.jsonl", place.id));
        }
        Some(place)
    }

    fn try_run(&self, arguments: &[&str]) -> Option<Ran> {
        let mut command = self.home.command(arguments);
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(SOMEBODY).gid(SOMEBODY);
        }
        command.output().ok().map(Ran::of)
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.try_run(arguments).unwrap()
    }

    fn works(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        ran.out
    }

    /// The conversation that the only pointer names.
    fn active(&self) -> Option<String> {
        let file = fs::read_dir(self.home.path("home/active")).ok()?.next()?.unwrap().path();
        let pointer: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        Some(pointer["conversation"].as_str().unwrap().to_owned())
    }

    /// Everything in and around the store. Only root can see all of it; other users see what they may.
    fn stored(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.outer.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                // The shared memory of a database says who reads it, and goes with the last of them, as an empty log does.
                let name = entry.file_name().to_string_lossy().into_owned();
                let bytes = fs::read(entry.path()).ok();
                let is_empty = bytes.as_deref() == Some(b"");
                let passing = name.ends_with("-shm") || (name.ends_with("-wal") && is_empty);
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if !passing {
                    found.insert(entry.path(), bytes);
                }
            }
        }
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A user other than root needs permission again to remove it.
        for path in [&self.outer, &self.folder, &self.file] {
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        }
    }
}

/// Gives a folder and everything in it to someone else, if this process is root.
fn hand_over(path: &Path) {
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        chown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        hand_over(&entry.path());
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Commands that read, as words; `ID` is replaced by the conversation.
const READ: &[&str] = &[
    "list",
    "list --json",
    "history list",
    "history show ID",
    "history show @",
    "history search Alice",
    "history search Alice --json",
    "history export ID",
    "history calls ID",
    "history erase ID -m 0 --dry-run",
    "history delete ID --dry-run",
    "check ID",
    "check @",
    "convert ID --to openai-chat",
    "verify",
    "verify --json",
    "verify ID",
    "copy ID --to jsonl:COPY",
    "copy --all --to jsonl:COPY",
    "resume",
    "resume ID",
];

/// Commands that write.
const WRITE: &[&str] = &[
    "history rename ID title",
    "history fork ID",
    "history erase ID -m 0 --yes",
    "history delete ID --yes",
    "import FILE",
    "new",
];

fn words<'w>(place: &'w Place, line: &'w str, (copy, file): (&'w str, &'w str)) -> Vec<&'w str> {
    line.split(' ')
        .map(|word| match word {
            "ID" => place.id.as_str(),
            "FILE" => file,
            "jsonl:COPY" => copy,
            word => word,
        })
        .collect()
}

/// Runs a command of the table.
fn run(place: &Place, line: &str) -> Ran {
    let copy = format!("jsonl:{}", place.home.path("here/copy").display());
    let file = place.home.path("new.json").display().to_string();
    place.run(&words(place, line, (&copy, &file)))
}

/// No command treats unreadable data as missing.
fn assert_not_taken_for_empty(what: &str, ran: &Ran) {
    for lie in ["No saved conversations", "sound: 0", "There is no store", "nothing to verify", "not found"] {
        assert!(!ran.out.contains(lie) && !ran.err.contains(lie), "{what}: {}{}", ran.out, ran.err);
    }
}

/// Unreadable data is an error in every command; `chat` answers without the history and changes nothing.
#[test]
fn a_store_that_cannot_be_read_is_an_error_everywhere() {
    for kind in STORES {
        for state in ["folder 000", "folder 444", "parent 000", "file 000", "log 000"] {
            if matches!((*kind, state), ("jsonl", "file 000" | "log 000")) {
                continue;
            }
            let Some(place) = Place::new(kind) else { return };
            match state {
                "folder 000" => set_mode(&place.folder, 0),
                "folder 444" => set_mode(&place.folder, 0o444),
                "parent 000" => set_mode(&place.outer, 0),
                "file 000" => set_mode(&place.file, 0),
                _ => {
                    let log = place.folder.join("chats.db-wal");
                    fs::write(&log, "not for everybody").unwrap();
                    set_mode(&log, 0);
                }
            }
            let before = place.stored();
            for line in READ.iter().chain(WRITE) {
                let what = format!("{kind}, {state}: {line}");
                let ran = run(&place, line);
                assert_eq!(ran.code, 1, "{what}: {}{}", ran.out, ran.err);
                assert_eq!(ran.out, "", "{what}");
                has(&ran.err, &["error: ", "Permission denied", "hint: "]);
                assert_not_taken_for_empty(&what, &ran);
            }
            let ran = place.run(&["doctor", "--self"]);
            assert_eq!(ran.code, 1, "{kind}, {state}: {}", ran.out);
            has(&ran.out, &["cannot be read: ", "Permission denied"]);
            for extra in [&[][..], &["-c"], &["--new"]] {
                let mut arguments = vec!["chat", "--provider", "offline"];
                arguments.extend(extra);
                arguments.push("What's my name?");
                let ran = place.run(&arguments);
                let what = format!("{kind}, {state}: {arguments:?}");
                assert_eq!(
                    (ran.code, ran.out.as_str()),
                    (1, "You have not told me your name.\n"),
                    "{what}: {}",
                    ran.err
                );
                has(&ran.err, &["error: Failed to save turn: ", "Permission denied"]);
            }
            let ran = place.run(&["chat", "--session", &place.id, "What's my name?"]);
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{kind}, {state}");
            assert_eq!(
                place.active().as_deref(),
                Some(place.id.as_str()),
                "{kind}, {state}: the pointer moved"
            );
            assert_eq!(place.stored(), before, "{kind}, {state}");
        }
    }
}

/// Data that can only be read is read; writing is an error, and the conversation continues in memory.
#[test]
fn a_store_that_can_only_be_read_is_read() {
    for kind in STORES {
        for state in ["folder 555", "file 444"] {
            let Some(place) = Place::new(kind) else { return };
            match state {
                "folder 555" => set_mode(&place.folder, 0o555),
                _ => set_mode(&place.file, 0o444),
            }
            let before = place.stored();
            for line in READ {
                let what = format!("{kind}, {state}: {line}");
                let ran = run(&place, line);
                assert_eq!(ran.code, 0, "{what}: {}{}", ran.out, ran.err);
                assert_not_taken_for_empty(&what, &ran);
            }
            for line in WRITE {
                // Another file of a folder can be written.
                if (*kind, state) == ("jsonl", "file 444")
                    && matches!(*line, "history fork ID" | "import FILE" | "new")
                {
                    continue;
                }
                let ran = run(&place, line);
                assert_eq!(ran.code, 1, "{kind}, {state}: {line}: {}", ran.out);
                has(&ran.err, &["error: ", "hint: "]);
            }
            let ran = place.run(&["chat", "What's my name?"]);
            assert_eq!(
                (ran.code, ran.out.as_str()),
                (1, "Your name is Alice.\n"),
                "{kind}, {state}: {}",
                ran.err
            );
            if (*kind, state) != ("jsonl", "file 444") {
                let ran = place.run(&["chat", "--new", "--provider", "offline", "What's my name?"]);
                assert_eq!(ran.code, 1, "{kind}, {state}: {}", ran.err);
            }
            assert_eq!(
                place.active().as_deref(),
                Some(place.id.as_str()),
                "{kind}, {state}: the pointer moved"
            );
            let changed = place.stored();
            for (path, bytes) in &before {
                // The index is made again from the rest.
                if !path.to_string_lossy().contains("index") {
                    assert_eq!(changed.get(path), Some(bytes), "{kind}, {state}: {}", path.display());
                }
            }
        }
    }
}

/// One conversation of a folder that cannot be read hides no other, and no other takes its place.
#[test]
fn a_conversation_that_cannot_be_read_is_not_replaced() {
    let Some(place) = Place::new("jsonl") else { return };
    set_mode(&place.file, 0);
    let before = place.stored();
    for line in READ.iter().chain(WRITE) {
        if matches!(*line, "import FILE" | "new") {
            continue;
        }
        let ran = run(&place, line);
        assert_eq!(ran.code, 1, "{line}: {}{}", ran.out, ran.err);
        assert!((ran.out.clone() + &ran.err).contains("Permission denied"), "{line}: {}{}", ran.out, ran.err);
        assert_not_taken_for_empty(line, &ran);
    }
    has(&place.run(&["list"]).out, &["other [new]", &place.id]);
    for arguments in [&["chat", "What's my name?"][..], &["chat", "-c", "What's my name?"]] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (1, "You have not told me your name.\n"), "{}", ran.err);
        has(&ran.err, &["Permission denied"]);
    }
    assert_eq!(place.active().as_deref(), Some(place.id.as_str()), "the pointer moved");
    let stored = place.stored();
    for (path, bytes) in &before {
        if !path.to_string_lossy().contains("index") {
            assert_eq!(stored.get(path), Some(bytes), "{}", path.display());
        }
    }
    set_mode(&place.file, 0o600);
    assert_eq!(place.works(&["chat", "What's my name?"]), "Your name is Alice.\n");
    assert_eq!(place.works(&["verify"]).lines().count(), 1);
}

/// A pointer that may not be read is no missing pointer: the conversation that it names is not replaced either.
#[test]
fn a_pointer_that_cannot_be_read_is_not_replaced() {
    for kind in STORES {
        let Some(place) = Place::new(kind) else { return };
        let pointers = place.home.path("home/active");
        set_mode(&pointers, 0);
        let before = place.stored();
        for arguments in [&["resume"][..], &["history", "show", "@"], &["check", "@"]] {
            let ran = place.run(arguments);
            assert!((1..=2).contains(&ran.code), "{arguments:?}: {}", ran.err);
            has(&ran.err, &["Permission denied"]);
        }
        let ran = place.run(&["chat", "--provider", "offline", "What's my name?"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, "You have not told me your name.\n"), "{}", ran.err);
        assert_eq!(place.stored(), before, "{kind}");
        set_mode(&pointers, 0o700);
        assert_eq!(place.active().as_deref(), Some(place.id.as_str()));
    }
}
