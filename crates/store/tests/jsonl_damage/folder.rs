//! The folder of the files, and other programs that use it.

use super::*;

/// B43: only names that are ids are ever opened, and nothing else in the folder is touched or listed.
#[test]
fn foreign_files_are_left_alone() {
    let damaged = Damaged::new(1);
    let names =
        ["notes.txt", "conv_short.jsonl", "CONV_abcdefghijkl.jsonl", ".jsonl", "conv_abcdefghijkl.jsonl.bak"];
    for name in names {
        fs::write(damaged.folder.path().join(name), "not ours").unwrap();
    }
    fs::create_dir(damaged.folder.path().join("conv_aaaaaaaaaaaa.jsonl")).unwrap();
    let store = jsonl(damaged.folder.path());
    assert_eq!(store.ids("", 10).unwrap(), [damaged.id()]);
    assert_eq!(store.list(&Default::default()).unwrap().total, 1);
    assert!(problems(&*store, None).is_empty());
    for name in names {
        assert_eq!(fs::read(damaged.folder.path().join(name)).unwrap(), b"not ours");
    }
}

/// B43: a file that goes by the name of another conversation is found out.
#[test]
fn a_file_under_another_name_is_found() {
    let damaged = Damaged::new(1);
    let other = Talk::new(9).id;
    fs::rename(damaged.path(), damaged.folder.path().join(format!("{other}.jsonl"))).unwrap();
    let store = jsonl(damaged.folder.path());
    let found = problems(&*store, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].what.contains(&damaged.id().to_string()) && found[0].place == StoragePlace::Line(1),
        "{found:?}"
    );
}

/// A folder that does not exist is an error for readers, and is created for writers.
#[test]
fn a_missing_folder_is_made_only_to_be_written() {
    let folder = support::folder();
    let path = folder.path().join("a/b");
    let opened = rejoin_store::open(&Location::Jsonl(path.clone()), support::READ);
    assert!(matches!(opened, Err(StoreError::Missing(_))), "{opened:?}");
    assert!(!path.exists());
    assert!(jsonl(&path).read_only().is_none());
    assert!(path.is_dir());
    let reader = rejoin_store::open(&Location::Jsonl(path), support::READ).unwrap();
    let (talk, entries) = Talk::of(3, 1);
    let refused = reader.append(talk.id, None, &entries);
    assert!(matches!(&refused, Err(error @ StoreError::ReadOnly(_)) if error.is_unwritable()), "{refused:?}");
    assert!(reader.read_only().is_some());
    assert!(reader.ids("", 10).unwrap().is_empty());
}

/// Erased text is in no copy either: not in a torn first attempt, in data that was set aside, or in a duplicated line.
#[test]
fn erasing_reaches_every_copy() {
    let folder = support::folder();
    let (mut talk, header, secret) = Talk::begun(1, "the password is XYZZYPLUGH, keep it");
    let next = talk.user("next");
    let path = folder.path().join(format!("{}.jsonl", talk.id));
    let (line, torn) = (secret.to_line(), &secret.to_line()[..secret.to_line().len() - 4]);
    // A first attempt was cut off, was set aside and repeated; then someone doubled and glued lines.
    fs::write(&path, format!("{}\n{torn}", header.to_line())).unwrap();
    let store = jsonl(folder.path());
    let entries = [header, secret, next];
    store.append(talk.id, tail(&entries[..1]), &entries[1..]).unwrap();
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(&format!("{line}\n{line}{torn}\n"));
    fs::write(&path, text).unwrap();
    let store = jsonl(folder.path());
    let holding = || {
        let files = [folder.path().to_owned(), folder.path().join("aside")]
            .map(|folder| fs::read_dir(folder).unwrap());
        let files =
            files.into_iter().flatten().map(|file| file.unwrap().path()).filter(|path| path.is_file());
        files.filter(|path| fs::read_to_string(path).unwrap().contains("XYZZYPLUGH")).count()
    };
    assert!(holding() >= 2, "in the file and aside");
    let note = talk.erased(entries[1].id());
    store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note).unwrap();
    assert_eq!(holding(), 0);
    let (found, _) = read(&*store, talk.id, 0);
    assert_eq!(hashes(&found), hashes(&[&entries[..], &[note]].concat()));
    assert_eq!(found[2], entries[2]);
}

/// The leftovers of a killed erasure neither stop the next one nor stay.
#[test]
fn a_draft_of_an_erasure_is_swept() {
    let mut damaged = Damaged::new(2);
    let draft = damaged.folder.path().join(format!(".{}.erasing", damaged.id()));
    fs::write(&draft, "half of a file that was never put in place").unwrap();
    let store = jsonl(damaged.folder.path());
    let (after, entry) = (tail(&damaged.entries).unwrap(), damaged.entries[1].id());
    let note = damaged.talk.erased(entry);
    store.erase(damaged.id(), after, entry, &note).unwrap();
    assert!(!draft.exists());
    fs::write(&draft, "again").unwrap();
    store.delete(damaged.id()).unwrap();
    assert!(!draft.exists());
}

/// A conversation that is deleted leaves nothing aside.
#[test]
fn deleting_reaches_what_was_set_aside() {
    let damaged = Damaged::new(3);
    let text = String::from_utf8(damaged.bytes.clone()).unwrap().replace("message 2", "massage 2");
    let store = damaged.with(text.as_bytes());
    let (_, found) = read(&*store, damaged.id(), 0);
    assert!(!found.is_empty());
    for damage in &found {
        store.set_aside(damaged.id(), damage).unwrap();
    }
    let aside = || fs::read_dir(damaged.folder.path().join("aside")).unwrap().count();
    assert!(aside() > 0);
    store.delete(damaged.id()).unwrap();
    assert_eq!(aside(), 0);
}

/// A reader sees whole entries or none while another process writes, and no torn line.
#[test]
fn reading_while_somebody_writes_finds_nothing_wrong() {
    let folder = support::folder();
    let mut talk = Talk::new(4);
    let header = talk.header();
    let store = jsonl(folder.path());
    store.append(talk.id, None, std::slice::from_ref(&header)).unwrap();
    let id = talk.id;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut all = vec![header.clone()];
            for number in 0..150 {
                // Long lines: a reader is likely to come by while one is written.
                let next = talk.user(&format!("{number} {}", "long ".repeat(40_000)));
                store.append(id, tail(&all), std::slice::from_ref(&next)).unwrap();
                all.push(next);
            }
        });
        let other = jsonl(folder.path());
        while !writer.is_finished() {
            let (entries, damage) = read(&*other, id, 0);
            assert!(damage.is_empty(), "{:?}", damage[0].why);
            assert!(entries.iter().enumerate().all(|(number, entry)| entry.envelope().seq == number as u64));
            let seen = other.tail(id).unwrap().unwrap();
            assert!(seen.seq + 1 >= entries.len() as u64);
        }
    });
    assert!(problems(&*store, None).is_empty());
    assert!(Path::new(folder.path()).exists());
}
