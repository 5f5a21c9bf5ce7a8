//! Hard links to the files of a store.

use super::*;

#[test]
fn every_file_of_a_store_is_known_through_any_hard_link_and_no_other_is() {
    let id = ConversationId::from_random(7);
    let own = |names: &[&str]| names.iter().map(|name| name.replace("ID", &id.to_string())).collect();
    let sqlite: Vec<String> = own(&[
        "r.db",
        "r.db-wal",
        "r.db-shm",
        "r.db-index",
        "r.db-index-wal",
        "r.db.backup-2",
        "r.db.aside/ID-0.txt",
        "r.db.drafts/ID.draft",
    ]);
    let jsonl: Vec<String> = own(&[
        "ID.jsonl",
        ".ID.erasing",
        ".ID.new",
        ".index",
        ".index-wal",
        "aside/ID-0.txt",
        "drafts/ID.draft",
    ]);
    let foreign = ["notes.txt", "r.dbx", "r.database", "conv_short.jsonl", "other/ID.jsonl"];
    for (location, names) in
        [(Location::Sqlite(PathBuf::from("r.db")), sqlite), (Location::Jsonl(PathBuf::new()), jsonl)]
    {
        let folder = tempfile::tempdir().unwrap();
        let location = match location {
            Location::Sqlite(path) => Location::Sqlite(folder.path().join(path)),
            _ => Location::Jsonl(folder.path().to_owned()),
        };
        let elsewhere = tempfile::tempdir_in(folder.path()).unwrap();
        let link = elsewhere.path().join("link");
        let check = |name: &str, expected: bool| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            fs::hard_link(&path, &link).unwrap();
            let file = File::open(&link).unwrap();
            assert_eq!(belongs_to(&location, &file).unwrap(), expected, "{location} {name}");
            fs::remove_file(&link).unwrap();
        };
        names.iter().for_each(|name| check(name, true));
        foreign.iter().for_each(|name| check(name, false));
    }
    let file = File::open("/dev/null").unwrap();
    assert!(!belongs_to(&Location::Memory, &file).unwrap());
    assert!(!belongs_to(&Location::Jsonl(PathBuf::from("not-there")), &file).unwrap());
}
