//! `rejoin doctor --self` describes the store and the settings, without changing anything.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, path::Path};

use serde_json::Value;
use support::{Home, SOUND, has};
use testkit::faults::{Fault, Kind, shim};

fn told(home: &Home) -> Value {
    serde_json::from_str(&home.out(&["doctor", "--self", "--json"])).unwrap()
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_store_is_told_about() {
    Home::each(|home| {
        let about = told(home);
        assert_eq!(about["store"]["location"], home.store);
        assert_eq!((&about["store"]["there"], &about["store"]["writable"]), (&false.into(), &true.into()));
        assert!(!home.place().exists(), "asking makes no store");
        has(
            &home.out(&["doctor", "--self"]),
            &["does not exist yet; the first conversation creates it", "can be written"],
        );

        home.import("a.json", SOUND);
        home.out(&["new"]);
        let before = files(home.place().parent().unwrap());
        let about = told(home);
        let store = &about["store"];
        assert_eq!((&store["there"], &store["conversations"]), (&true.into(), &2.into()));
        assert_eq!(store["entries"], "1.0");
        assert_eq!(store["schema"], if home.is_jsonl() { Value::Null } else { 3.into() });
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if home.is_jsonl() {
            let lines = |file: &&(String, Vec<u8>)| file.0.ends_with(".jsonl");
            let bytes: u64 =
                files(home.place()).iter().filter(lines).map(|(_, bytes)| bytes.len() as u64).sum();
            let index = size(&home.place().join(".index"));
            assert_eq!((&store["record_bytes"], &store["index_bytes"]), (&bytes.into(), &index.into()));
        } else {
            let index = size(&home.path("chats.db-index"));
            assert_eq!(store["record_bytes"], size(home.place()), "nothing is left in the log");
            assert!(index > 0 && store["index_bytes"] == index, "{store}");
        }
        let people = home.out(&["doctor", "--self"]);
        has(&people, &[&format!("store:    {}", home.store), "2 conversations; record ", "entries 1.0"]);
        assert_eq!(people.contains("schema 3"), !home.is_jsonl(), "{people}");
        assert_eq!(files(home.place().parent().unwrap()), before, "asking changes nothing");
    });
}

/// The sandbox's limits are shown before the first command runs.
#[test]
fn the_sandbox_is_told_about() {
    Home::each(|home| {
        let about = told(home);
        let sandbox = &about["sandbox"];
        let gaps = sandbox["gaps"].as_array().unwrap();
        let people = home.out(&["doctor", "--self"]);
        let line = people.lines().find(|line| line.starts_with("sandbox: ")).unwrap();
        match sandbox["confinement"].as_str().unwrap() {
            "full" => {
                assert!(gaps.is_empty() && sandbox["reason"].is_null(), "{sandbox}");
                assert!(line.starts_with("sandbox:  full; "), "{line}");
            }
            "partial" => {
                assert!(!gaps.is_empty() && line.starts_with("sandbox:  partial; "), "{sandbox} {line}");
                has(&people, &gaps.iter().map(|gap| gap.as_str().unwrap()).collect::<Vec<_>>());
            }
            "none" => has(line, &["sandbox:  none; ", sandbox["reason"].as_str().unwrap()]),
            other => panic!("{other}"),
        }
        // The helper is this program: it must not take its orders for a command line.
        assert!(!people.contains("begin with"), "{people}");
    });
}

#[test]
fn trouble_is_told_and_ends_nothing() {
    Home::each(|home| {
        home.block_store();
        let config = home.file("home/config.toml", "nonsense\n");
        let ran = home.run(&["doctor", "--self", "--json"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        let about: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&about["settings"]["path"], &about["settings"]["there"]), (&config.into(), &true.into()));
        has(about["settings"]["error"].as_str().unwrap(), &["line 1"]);
        assert_eq!(about["store"]["location"], home.store, "what the environment says counts all the same");
        assert_eq!(about["store"]["writable"], false);
        let people = home.run(&["doctor", "--self"]);
        assert_eq!(people.code, 1);
        has(&people.out, &["cannot be read: ", "cannot be written: ", "line 1"]);
    });
}

/// A folder without write permission. Root can write to it nevertheless, so as root there is nothing to test.
#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    Home::each(|home| {
        home.out(&["new"]);
        let folder = if home.is_jsonl() { home.place() } else { home.place().parent().unwrap() };
        let mode = |mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o555);
        let root = fs::write(folder.join("probe"), "").is_ok();
        let about = told(home);
        mode(0o755);
        assert_eq!(about["store"]["writable"], root, "{about}");
        assert_eq!(about["store"]["conversations"], 1, "reading goes on");
        if root {
            println!("the one who runs this may write everywhere");
        } else {
            has(about["store"]["unwritable"].as_str().unwrap(), &[&folder.display().to_string()]);
        }
    });
}

/// Whether the store can be written is tested by writing: a full disk is noticed, whatever the permissions are.
#[test]
fn a_full_disk_is_noticed() {
    let Some(shim) = shim(env!("CARGO_TARGET_TMPDIR")) else { return };
    for kind in support::STORES {
        let mut home = Home::new(kind);
        let place = home.path("store");
        fs::create_dir_all(&place).unwrap();
        fs::create_dir_all(home.path("notes")).unwrap();
        let name = if *kind == "sqlite" { "chats.db" } else { "chats" };
        home.store = format!("{kind}:{}", place.join(name).display());
        for there in [false, true] {
            if there {
                home.import("a.json", SOUND);
            }
            // A log that the full disk left is not part of the record; the next process that opens the store removes it.
            let record = || {
                let mut files = files(&place);
                files.retain(|(name, _)| !name.contains("-wal") && !name.contains("-shm"));
                files
            };
            let before = record();
            for at in 1..3 {
                let fault = Fault { kind: Kind::Full, at, under: place.clone(), notes: home.path("notes") };
                let mut command = home.command(&["doctor", "--self", "--json"]);
                shim.put_into(&mut command, &fault);
                let ran = support::Ran::of(command.output().unwrap());
                let about: Value = serde_json::from_str(&ran.out).unwrap();
                assert_eq!(about["store"]["writable"], false, "{kind}, {there}, {at}: {about}");
                assert!(record() == before, "{kind}, {there}, {at}: a trace is left");
            }
            assert_eq!(told(&home)["store"]["writable"], true);
        }
    }
}
