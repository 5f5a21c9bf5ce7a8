//! A folder of files under faults: no room, a kill in the middle, a folder that cannot be written.
//!
//! A test that needs another process starts itself again, with its role in the environment.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rejoin_record::Chain;
use rejoin_store::StoreError;
use support::{Talk, jsonl, problems, read, tail};

const FOLDER: &str = "REJOIN_TEST_FOLDER";

/// The folder of the part that this process plays, if it plays one.
fn part() -> Option<PathBuf> {
    env::var_os(FOLDER).map(PathBuf::from)
}

/// This test again, in a process whose files may not grow beyond this many blocks.
fn again(test: &str, folder: &Path, blocks: &str) -> Command {
    let mut command = Command::new("sh");
    // Without the signal a write that is too much fails, as it does on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" --exact {test} --nocapture");
    command.arg("-c").arg(script).arg(env::current_exe().unwrap()).env(FOLDER, folder);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// B29: without room an append fails as a whole, reports that the store cannot be written, and leaves the existing entries. With
/// room it continues where it was.
#[test]
fn without_room_nothing_is_lost() {
    if let Some(folder) = part() {
        let store = jsonl(&folder);
        let mut talk = Talk::new(1);
        let mut all = vec![talk.header()];
        store.append(talk.id, None, &all).unwrap();
        let failed = loop {
            let next = talk.user(&"no room ".repeat(200));
            match store.append(talk.id, tail(&all), std::slice::from_ref(&next)) {
                Ok(_) => all.push(next),
                Err(why) => break why,
            }
            assert!(all.len() < 1000);
        };
        assert!(failed.is_unwritable(), "{failed}");
        assert!(all.len() > 3, "there was room for some");
        // It stays full, and stored entries stay readable.
        talk.chain = Chain::at(tail(&all));
        let more = talk.user(&"no room ".repeat(200));
        assert!(store.append(talk.id, tail(&all), &[more]).unwrap_err().is_unwritable());
        assert_eq!(store.tail(talk.id).unwrap(), tail(&all));
        let (found, damage) = read(&*store, talk.id, 0);
        assert_eq!((found.len(), damage.len()), (all.len(), 0), "a failed append leaves nothing");
        // Something small still fits, a few times.
        let mut small = all.last().unwrap().id();
        loop {
            talk.chain = Chain::at(tail(&all));
            let next = talk.user("ok");
            if store.append(talk.id, tail(&all), std::slice::from_ref(&next)).is_err() {
                break;
            }
            small = next.id();
            all.push(next);
        }
        // The note about this erasure is longer than the erased text. A failed erasure leaves no trace.
        talk.chain = Chain::at(tail(&all));
        let note = talk.erased(small);
        let failed = store.erase(talk.id, tail(&all).unwrap(), small, &note).unwrap_err();
        assert!(failed.is_unwritable(), "{failed}");
        let drafts: Vec<_> = names(&folder).into_iter().filter(|name| name.contains("erasing")).collect();
        assert_eq!(drafts, [""; 0]);
        println!("stored {}", all.len());
        return;
    }
    let folder = support::folder();
    let output = again("without_room_nothing_is_lost", folder.path(), "32").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let stored: usize =
        text.lines().find_map(|line| line.split("stored ").nth(1)?.trim().parse().ok()).unwrap();
    let store = jsonl(folder.path());
    let mut talk = Talk::new(1);
    let (found, damage) = read(&*store, talk.id, 0);
    assert_eq!((found.len(), damage.len()), (stored, 0));
    talk.chain = Chain::at(tail(&found));
    for _ in 0..500 {
        talk.stamp();
    }
    store.append(talk.id, tail(&found), &[talk.user(&"room again ".repeat(2000))]).unwrap();
    assert!(problems(&*store, None).is_empty());
}

/// B29: a conversation that could not be created does not exist.
#[test]
fn without_any_room_nothing_is_begun() {
    if let Some(folder) = part() {
        let store = jsonl(&folder);
        let (talk, entries) = Talk::of(1, 1);
        let failed = store.append(talk.id, None, &entries).unwrap_err();
        assert!(failed.is_unwritable() && failed.to_string().contains(&talk.id.to_string()), "{failed}");
        assert_eq!(store.tail(talk.id).unwrap(), None);
        assert!(store.ids("", 10).unwrap().is_empty());
        println!("played");
        return;
    }
    let folder = support::folder();
    let output = again("without_any_room_nothing_is_begun", folder.path(), "0").output().unwrap();
    // A process that may write no file may still write to a pipe.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("played"));
    assert!(!fs::read_dir(folder.path()).unwrap().any(|file| file.unwrap().path().extension().is_some()));
}

/// B42, S2-33: a process that is killed while it writes loses nothing that was acknowledged.
#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    if let Some(folder) = part() {
        let store = jsonl(&folder);
        let mut talk = Talk::new(u64::from(std::process::id()));
        talk.id = Talk::new(1).id;
        let mut end = store.tail(talk.id).unwrap();
        talk.chain = Chain::at(end);
        loop {
            let next = if end.is_none() { talk.header() } else { talk.user(&"word ".repeat(20_000)) };
            end = Some(store.append(talk.id, end, &[next]).unwrap());
            println!("\nstored {}", end.unwrap().seq);
        }
    }
    let folder = support::folder();
    let id = Talk::new(1).id;
    let mut acknowledged = 0;
    for round in 1..=6 {
        let mut child = again("a_kill_loses_nothing_that_was_acknowledged", folder.path(), "unlimited")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            if let Some(seq) = line.unwrap().strip_prefix("stored ") {
                acknowledged = seq.parse::<u64>().unwrap();
                seen += 1;
                if seen == 5 * round {
                    break;
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = jsonl(folder.path());
        let (found, _) = read(&*store, id, 0);
        assert!(
            found.len() as u64 > acknowledged,
            "{} entries, {acknowledged} was acknowledged",
            found.len()
        );
        let wrong: Vec<_> = problems(&*store, Some(id)).into_iter().filter(|problem| !problem.torn).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        acknowledged = found.len() as u64 - 1;
    }
    assert!(acknowledged >= 100);
}

/// A conversation whose last line a kill left torn can be deleted: deleting does not wait for a lock that it holds itself.
#[test]
fn a_torn_conversation_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let id = {
        let store = jsonl(folder.path());
        let (talk, entries) = Talk::of(7, 5);
        store.append(talk.id, None, &entries).unwrap();
        // With an index, deleting notes how far the conversation went.
        store.list(&rejoin_store::Query::default()).unwrap();
        talk.id
    };
    let path = folder.path().join(format!("{id}.jsonl"));
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let store = jsonl(folder.path());
    let deleted = std::thread::scope(|scope| {
        let deleting = scope.spawn(|| store.delete(id));
        for _ in 0..1000 {
            if deleting.is_finished() {
                return deleting.join().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // A thread that waits for itself never ends, and a scope waits for its threads.
        eprintln!("deleting a torn conversation hangs");
        std::process::abort();
    });
    deleted.unwrap();
    assert!(!path.exists());
}

/// Waits until a thread waits for the lock of a file. The thread must not be done before.
#[cfg(target_os = "linux")]
fn until_somebody_waits<T>(file: &fs::File, thread: &std::thread::ScopedJoinHandle<'_, T>) {
    use std::os::unix::fs::MetadataExt as _;
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    loop {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        if locks.lines().any(|line| line.contains("->") && line.contains(&inode)) {
            return;
        }
        assert!(!thread.is_finished(), "it did not wait");
        std::thread::yield_now();
    }
}

/// B43: an append waits for the holder of the file, and then finds the file that has the name.
#[cfg(target_os = "linux")]
#[test]
fn an_append_waits_and_then_looks_again() {
    let folder = support::folder();
    let store = jsonl(folder.path());
    let (mut talk, mut entries) = Talk::of(1, 2);
    store.append(talk.id, None, &entries).unwrap();
    let path = folder.path().join(format!("{}.jsonl", talk.id));
    let file = fs::File::open(&path).unwrap();
    file.lock().unwrap();
    let next = talk.user("waited for");
    let after = tail(&entries);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.append(talk.id, after, std::slice::from_ref(&next)));
        until_somebody_waits(&file, &waiting);
        // Another process writes the file again, as erasing does.
        let draft = folder.path().join("draft");
        fs::copy(&path, &draft).unwrap();
        fs::rename(&draft, &path).unwrap();
        file.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
    entries.push(next.clone());
    assert_eq!(read(&*store, talk.id, 0).0, entries);
}

/// A reader waits for the end of a line that is being written.
#[cfg(target_os = "linux")]
#[test]
fn a_line_that_is_being_written_is_waited_for() {
    use std::io::Write as _;
    let folder = support::folder();
    let store = jsonl(folder.path());
    let (talk, entries) = Talk::of(1, 3);
    store.append(talk.id, None, &entries[..3]).unwrap();
    let path = folder.path().join(format!("{}.jsonl", talk.id));
    for way in ["read", "tail", "verify"] {
        let before = fs::read(&path).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.lock().unwrap();
        let line = entries[3].to_line() + "\n";
        let (half, rest) = line.split_at(line.len() / 2);
        file.write_all(half.as_bytes()).unwrap();
        let other = jsonl(folder.path());
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| match way {
                "read" => read(&*other, talk.id, 0).0.len(),
                "tail" => other.tail(talk.id).unwrap().unwrap().seq as usize + 1,
                _ => 4 + problems(&*other, None).len(),
            });
            until_somebody_waits(&file, &reading);
            file.write_all(rest.as_bytes()).unwrap();
            file.unlock().unwrap();
            assert_eq!(reading.join().unwrap(), 4, "{way}");
        });
        fs::write(&path, before).unwrap();
    }
}

/// A folder on a read-only file system, or in someone else's hands, can be read and says why it cannot be written.
#[test]
fn a_folder_that_cannot_be_written_can_be_read() {
    if let Some(folder) = part() {
        let store = jsonl(&folder);
        let (mut talk, entries) = Talk::of(1, 2);
        let why = store.read_only().unwrap();
        assert!(why.contains("cannot be written"), "{why}");
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert_eq!(store.tail(talk.id).unwrap(), tail(&entries));
        assert_eq!(store.list(&Default::default()).unwrap().total, 1);
        let failed = store.append(Talk::new(2).id, None, &Talk::of(2, 0).1).unwrap_err();
        assert!(failed.is_unwritable(), "{failed}");
        assert!(matches!(store.delete(Talk::new(3).id), Err(StoreError::NotFound(_))));
        let note = talk.erased(entries[1].id());
        assert!(store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note).is_err());
        println!("played");
        return;
    }
    let folder = support::folder();
    let (talk, entries) = Talk::of(1, 2);
    jsonl(folder.path()).append(talk.id, None, &entries).unwrap();
    // Rights do not stop root; a mount that only this process sees does.
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" || exit 77; \
                  exec \"$0\" --exact a_folder_that_cannot_be_written_can_be_read --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "--user", "--map-root-user", "sh", "-c", script])
        .arg(env::current_exe().unwrap())
        .arg(folder.path())
        .env(FOLDER, folder.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("played"));
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        // Not every system lets a test mount something.
        _ => testkit::skipped::skip("a folder cannot be mounted read-only here (`unshare`, `mount`)"),
    }
}
