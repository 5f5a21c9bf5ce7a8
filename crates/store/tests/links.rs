//! Links, pipes and folders in place of a store's own files: nothing outside the store is read or changed, and no operation waits
//! for a pipe. Every name that a store uses is tried with every kind of obstacle and every operation.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use rejoin_record::{ConversationId, Entry};
use rejoin_store::{Damage, Holder, Location, Query, Search, StoragePlace, Store, StoreError, try_writing};
use support::{READ, Talk, WRITE, read, tail};

/// The obstacle in place of a file or folder of the store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Obstacle {
    /// A link to the original, which was moved outside: following it would work.
    LinkToItself,
    /// A link to a file outside that holds something else.
    LinkToFile,
    /// A link to a folder outside.
    LinkToFolder,
    /// A link to a name outside that nothing has: following it would create a file.
    LinkToNothing,
    /// A pipe: opening it would wait for ever.
    Pipe,
    /// A folder where a file belongs, or a file where a folder belongs.
    Opposite,
}

const OBSTACLES: [Obstacle; 6] = [
    Obstacle::LinkToItself,
    Obstacle::LinkToFile,
    Obstacle::LinkToFolder,
    Obstacle::LinkToNothing,
    Obstacle::Pipe,
    Obstacle::Opposite,
];

/// The place of a store, and files next to it that must not be touched.
struct Scene {
    folder: tempfile::TempDir,
    location: Location,
    talk: Talk,
    entries: Vec<Entry>,
}

impl Scene {
    fn new(kind: &str) -> Self {
        let folder = support::folder();
        let within = folder.path().join("store");
        let location = match kind {
            "sqlite" => Location::Sqlite(within.join("rejoin.db")),
            _ => Location::Jsonl(within),
        };
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/victim"), "the victim's own words").unwrap();
        fs::create_dir(folder.path().join("outside/folder")).unwrap();
        let (talk, entries) = Talk::of(5, 3);
        let store = rejoin_store::open(&location, WRITE).unwrap();
        store.append(talk.id, None, &entries).unwrap();
        store.settle().unwrap();
        drop(store.set_aside(talk.id, &damage()).unwrap());
        Self { folder, location, talk, entries }
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The names that the store uses, from its folder on.
    fn names(&self) -> Vec<String> {
        let id = self.talk.id;
        let pid = std::process::id();
        let own: Vec<String> = match &self.location {
            Location::Sqlite(_) => [
                "rejoin.db",
                "rejoin.db-wal",
                "rejoin.db-shm",
                "rejoin.db-journal",
                "rejoin.db-index",
                "rejoin.db-index-wal",
                "rejoin.db-index-shm",
                "rejoin.db.backup",
                "rejoin.db.backup.part",
                "rejoin.db.making",
                "rejoin.db.mending",
                "rejoin.db.locks",
                "rejoin.db.locks/ID.lock",
                "rejoin.db.aside",
                "rejoin.db.drafts",
                "rejoin.db.drafts/ID.draft",
            ]
            .map(str::to_owned)
            .into(),
            _ => [
                "ID.jsonl",
                ".ID.erasing",
                ".NEW.new",
                "NEW.jsonl",
                ".index",
                ".index-wal",
                ".index-shm",
                ".index-journal",
                ".locks",
                ".locks/ID.lock",
                "aside",
                "drafts",
                "drafts/ID.draft",
                ".writable-PID",
                ".rejoin-PID",
            ]
            .map(str::to_owned)
            .into(),
        };
        let aside = self.aside();
        own.into_iter()
            .chain([aside])
            .map(|name| name.replace("ID", &id.to_string()))
            .map(|name| name.replace("NEW", &fresh().id.to_string()))
            .map(|name| name.replace(&format!("P{id}"), &pid.to_string()))
            .collect()
    }

    /// The copy that was set aside.
    fn aside(&self) -> String {
        let folder = if self.store().join("aside").is_dir() { "aside" } else { "rejoin.db.aside" };
        let file = fs::read_dir(self.store().join(folder)).unwrap().next().unwrap().unwrap();
        format!("{folder}/{}", file.file_name().to_str().unwrap())
    }

    /// Replaces a file or folder of the store by an obstacle.
    fn plant(&self, name: &str, obstacle: Obstacle) {
        let place = self.store().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let there = fs::symlink_metadata(&place).ok();
        let is_folder = there.as_ref().is_some_and(fs::Metadata::is_dir)
            || [".locks", "aside", "drafts", ".aside", ".drafts"].iter().any(|end| name.ends_with(end));
        let moved = self.outside().join("moved");
        if there.is_some() {
            fs::rename(&place, &moved).unwrap();
        }
        match obstacle {
            Obstacle::LinkToItself => {
                match (there.is_some(), is_folder) {
                    (true, _) => {}
                    (false, true) => fs::create_dir(&moved).unwrap(),
                    (false, false) => fs::write(&moved, "").unwrap(),
                }
                symlink(&moved, &place).unwrap();
            }
            Obstacle::LinkToFile => symlink(self.outside().join("victim"), &place).unwrap(),
            Obstacle::LinkToFolder => symlink(self.outside().join("folder"), &place).unwrap(),
            Obstacle::LinkToNothing => symlink(self.outside().join("nothing"), &place).unwrap(),
            Obstacle::Pipe => assert!(Command::new("mkfifo").arg(&place).status().unwrap().success()),
            Obstacle::Opposite if is_folder => fs::write(&place, "a file").unwrap(),
            Obstacle::Opposite => fs::create_dir(&place).unwrap(),
        }
    }
}

/// A conversation that is not in the store yet.
fn fresh() -> Talk {
    Talk::new(6)
}

fn damage() -> Damage {
    Damage {
        place: StoragePlace::Line(1),
        why: String::from("torn"),
        bytes: b"torn bytes".to_vec(),
        torn: false,
    }
}

/// Every name below a folder, with its kind and content. No link is followed.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let what = if kind.is_file() {
                format!("{:?}", fs::read(entry.path()).unwrap())
            } else {
                format!("{kind:?}")
            };
            if kind.is_dir() {
                folders.push(entry.path());
            }
            found.insert(entry.path(), what);
        }
    }
    found
}

/// Runs every operation on a store, and returns the refusals and all texts that were read.
fn use_it(location: &Location, id: ConversationId, entries: &[Entry]) -> (Vec<String>, String) {
    let mut refused = Vec::new();
    let mut texts = String::new();
    let mut note = |what: &str, done: Result<String, StoreError>| match done {
        Ok(text) => texts.push_str(&text),
        Err(why) => refused.push(format!("{what}: {why}")),
    };
    note("trying", try_writing(location).map(|()| String::new()));
    for options in [READ, WRITE] {
        let store = match rejoin_store::open(location, options) {
            Ok(store) => store,
            Err(why) => {
                note("opening", Err(why));
                continue;
            }
        };
        let everything = |store: &dyn Store| {
            let mut text = String::new();
            store
                .read(id, 0, &mut |item| {
                    text.push_str(&format!("{item:?}"));
                    std::ops::ControlFlow::Continue(())
                })
                .map(|()| text)
        };
        note("reading", everything(&*store));
        note("tail", store.tail(id).map(|tail| format!("{tail:?}")));
        note("summary", store.summary(id).map(|summary| format!("{summary:?}")));
        note("list", store.list(&Query::default()).map(|page| format!("{page:?}")));
        note("ids", store.ids("", 10).map(|ids| format!("{ids:?}")));
        let search = Search { words: String::from("victim"), limit: 5, ..Search::default() };
        note("search", store.search(&search).map(|hits| format!("{hits:?}")));
        let mut problems = Vec::new();
        let verified = store.verify(None, &mut |problem| problems.push(problem));
        note("verify", verified.map(|verified| format!("{verified:?} {problems:?}")));
        note("size", store.size().map(|size| format!("{size:?}")));
        let lock = store.lock(id, &Holder::this("a test", jiff::Timestamp::UNIX_EPOCH));
        note("lock", lock.as_ref().map(|_| String::new()).map_err(in_words));
        if let Some(drafts) = store.drafts() {
            let begun = drafts.begin(id);
            if let Ok(mut draft) = begun {
                draft.append(b"a draft").unwrap();
            }
            note("draft", Ok(format!("{:?} {:?}", drafts.left_behind(id), drafts.conversations())));
            note("draft", drafts.remove(id).map(|()| String::new()));
        }
        note("aside", store.set_aside(id, &damage()).map(|path| format!("{path:?}")));
        let mut other = fresh();
        let begun = [other.header(), other.user("hello")];
        note("new", store.append(other.id, None, &begun).map(|tail| format!("{tail:?}")));
        let mut talk = Talk::of(5, 3).0;
        let note_of = talk.erased(entries[1].id());
        let erased = store.erase(id, tail(entries).unwrap(), entries[1].id(), &note_of);
        note("erase", erased.map(|tail| format!("{tail:?}")));
        let _ = store.settle();
        let _ = store.rebuild();
        drop(lock);
        note("delete", store.delete(other.id).map(|()| String::new()));
        note("delete", store.delete(id).map(|()| String::new()));
    }
    (refused, texts)
}

/// An error without the refused lock, so that it can be kept.
fn in_words(why: &StoreError) -> StoreError {
    StoreError::ReadOnly(why.to_string())
}

/// Nothing takes longer than this unless it waits for something that never comes.
const LONG: Duration = Duration::from_secs(60);

/// S3, B43: `.locks/ID.lock -> victim` overwrote the victim. With any obstacle under the name of a file or a folder of a store,
/// nothing outside is read, changed or created, nothing waits, and the error calls a link a link.
#[test]
fn no_link_in_a_store_is_followed() {
    for kind in ["jsonl", "sqlite"] {
        for name in Scene::new(kind).names() {
            for obstacle in OBSTACLES {
                let scene = Scene::new(kind);
                scene.plant(&name, obstacle);
                let before = snapshot(&scene.outside());
                let (location, id) = (scene.location.clone(), scene.talk.id);
                let entries = scene.entries.clone();
                let (send, done) = mpsc::channel();
                thread::spawn(move || send.send(use_it(&location, id, &entries)));
                let context = format!("{kind}: {obstacle:?} in the place of {name}");
                let (refused, texts) =
                    done.recv_timeout(LONG).unwrap_or_else(|_| panic!("{context}: it hangs, or it failed"));
                assert_eq!(snapshot(&scene.outside()), before, "{context}: {refused:#?}");
                assert!(!texts.contains("victim's own"), "{context}: {texts}");
                let is_link = !matches!(obstacle, Obstacle::Pipe | Obstacle::Opposite);
                let says_so = refused
                    .iter()
                    .any(|why| if is_link { why.contains("symbolic link") } else { why.contains("it is ") });
                assert!(says_so || is_replaced(&name), "{context}: {refused:#?}");
            }
        }
    }
}

/// Names of files that are always created from scratch or never required. An obstacle there may be removed without an error, and
/// the target of a link stays.
fn is_replaced(name: &str) -> bool {
    [".erasing", ".writable-", ".rejoin-", ".backup", ".part", ".making", ".mending", ".draft", "index"]
        .iter()
        .any(|part| name.contains(part))
}

/// The folder of a store may be a link: people move their data to another disk that way.
#[test]
fn the_folder_of_a_store_may_be_a_link() {
    for kind in ["jsonl", "sqlite"] {
        let scene = Scene::new(kind);
        let link = scene.folder.path().join("link");
        symlink(scene.store(), &link).unwrap();
        let location = match kind {
            "sqlite" => Location::Sqlite(link.join("rejoin.db")),
            _ => Location::Jsonl(link),
        };
        let (refused, _) = use_it(&location, scene.talk.id, &scene.entries);
        // A store opened for reading refuses to be written, and the second round has nothing left to read.
        let expected = |why: &&String| !why.contains("only be read") && !why.contains("not found");
        assert_eq!(refused.iter().find(expected), None, "{kind}: {refused:#?}");
    }
}

/// A lock file that has a second name elsewhere is not written to.
#[test]
fn a_hard_link_in_the_place_of_a_lock_is_left_alone() {
    for kind in ["jsonl", "sqlite"] {
        let scene = Scene::new(kind);
        let locks = if kind == "sqlite" { "rejoin.db.locks" } else { ".locks" };
        let victim = scene.outside().join("victim");
        fs::create_dir_all(scene.store().join(locks)).unwrap();
        fs::hard_link(&victim, scene.store().join(format!("{locks}/{}.lock", scene.talk.id))).unwrap();
        let store = rejoin_store::open(&scene.location, WRITE).unwrap();
        let holder = Holder::this("a test", jiff::Timestamp::UNIX_EPOCH);
        let lock = store.lock(scene.talk.id, &holder).unwrap();
        assert!(matches!(store.lock(scene.talk.id, &holder), Err(StoreError::Locked(_))));
        drop(lock);
        assert_eq!(fs::read_to_string(victim).unwrap(), "the victim's own words", "{kind}");
    }
}

/// A conversation whose file is a link is listed and found by `verify`, not passed over in silence.
#[test]
fn a_conversation_that_is_a_link_is_reported() {
    let scene = Scene::new("jsonl");
    scene.plant(&format!("{}.jsonl", scene.talk.id), Obstacle::LinkToItself);
    let (mut talk, entries) = Talk::of(8, 2);
    let store = rejoin_store::open(&scene.location, WRITE).unwrap();
    store.append(talk.id, None, &entries).unwrap();
    let page = store.list(&Query::default()).unwrap();
    assert_eq!(page.total, 2);
    let summary = page.conversations.iter().find(|summary| summary.id == scene.talk.id).unwrap();
    assert!(summary.damaged, "{summary:?}");
    let problems = support::problems(&*store, None);
    assert!(problems.len() == 1 && problems[0].what.contains("symbolic link"), "{problems:?}");
    // The others are as they were.
    let more = talk.user("more");
    store.append(talk.id, tail(&entries), std::slice::from_ref(&more)).unwrap();
    assert_eq!(read(&*store, talk.id, 0).0.len(), entries.len() + 1);
}
