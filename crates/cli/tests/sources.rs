//! Sources that are not a single text: databases of running programs, compressed files, archives and folders.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::{Cursor, Write as _},
    path::Path,
};

use rusqlite::Connection;
use support::{Home, Ran, SOUND, has};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// The tables of goose.
const GOOSE: &str = "
    CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
    CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
    INSERT INTO sessions VALUES ('20260101_1', 'A title', '/p');";

/// The exit code for a file that cannot be read.
const UNREADABLE: i32 = 2;

fn say(connection: &Connection, text: &str) {
    let content = format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]");
    let sql = "INSERT INTO messages VALUES (NULL, '20260101_1', 'user', ?1, 5)";
    connection.execute(sql, [content]).unwrap();
}

/// Runs a command whose temporary files go to a folder that is empty afterwards.
fn run(home: &Home, arguments: &[&str]) -> Ran {
    let temporary = home.path("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let ran = Ran::of(home.command(arguments).env("TMPDIR", &temporary).output().unwrap());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "a copy was left behind");
    ran
}

/// The names and contents of the files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// Data that a program has written to its log but not yet to its database is read. Its lock is neither waited for nor taken.
#[test]
fn a_database_in_use_is_read_whole_and_never_locked() {
    Home::each(|home| {
        let folder = home.path("data");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sessions.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.busy_timeout(std::time::Duration::ZERO).unwrap();
        writer.execute_batch(GOOSE).unwrap();
        say(&writer, "ALPHA is in the log");
        assert!(fs::metadata(folder.join("sessions.db-wal")).unwrap().len() > 0, "nothing was checkpointed");
        // Another write has begun, and is not finished.
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        say(&writer, "BETA is not committed");
        let before = files(&folder);
        let name = path.display().to_string();
        let out = run(home, &["convert", &name, "--to", "openai-chat"]);
        assert_eq!(out.code, 0, "{}", out.err);
        assert!(out.out.contains("ALPHA") && !out.out.contains("BETA"), "{}", out.out);
        assert_eq!(files(&folder), before, "the database and its log are as they were");
        writer.execute_batch("COMMIT").unwrap();
        say(&writer, "GAMMA came later");
        let out = run(home, &["convert", &name, "--to", "openai-chat"]).out;
        assert!(out.contains("BETA") && out.contains("GAMMA"), "{out}");
        let imported = home.lines(&["import", "--json", &name]);
        assert_eq!(imported[0]["format"], "goose");
        say(&writer, "DELTA came last");
        let ran = run(home, &["import", &name]);
        has(&ran.err, &["0 new, 1 grown"]);
    });
}

#[test]
fn unknown_files_are_refused_with_what_they_hold() {
    let home = Home::new("sqlite");
    for (name, text, says) in [
        (
            "levels.jsonl",
            "{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"warn\",\"msg\":\"b\"}\n",
            "2 JSON lines with the fields level and msg; 0 of 2 have a role",
        ),
        (
            "different.jsonl",
            "{\"a\":1}\n{\"b\":2}\n{\"c\":\"x\"}\n",
            "3 JSON lines with the fields a, b and c",
        ),
        (
            "one-role.jsonl",
            "{\"a\":1}\n{\"b\":2}\n{\"role\":\"user\",\"x\":3}\n",
            "the fields `role`, `x`, `a`, `b`",
        ),
        (
            "nested.json",
            r#"{"messages":[{"author":"a","text":"Hello there, my old friend."}]}"#,
            "messages holds 1 with the fields author and text; 0 of 1 have a role",
        ),
        ("table.csv", "id,name\n1,a\n2,b\n", "comma-separated values with the columns id and name"),
        ("settings.yaml", "a: 1\nb:\n  - c\n", "YAML with the keys a and b"),
        ("page.html", "<html></html>", "it looks like HTML"),
        ("diary.txt", "Dear diary.\nNothing happened.\n", "it looks like plain text"),
        ("mixed.txt", "not JSON\n{\"b\":2}\n", "it has 2 lines, 1 of them JSON with the field b"),
        ("picture.png", "\u{89}PNG", "not JSON"),
    ] {
        let ran = run(&home, &["check", &home.file(name, text)]);
        assert_eq!(ran.code, UNREADABLE, "{name}");
        has(&ran.err, &[says, "hint: "]);
        // A pipe cannot be read again.
        has(&Ran::fed(home.command(&["check", "-"]), text).err, &[says, "hint: "]);
    }
}

#[test]
fn databases_that_cannot_be_read_are_refused_with_the_reason() {
    let home = Home::new("sqlite");
    let other = home.path("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE bookmarks(a)").unwrap();
    let ran = run(&home, &["check", &other.display().to_string()]);
    assert_eq!(ran.code, UNREADABLE);
    has(&ran.err, &["a database of a program whose tables rejoin does not know; it has no rows"]);
    let notes = home.path("notes.db");
    Connection::open(&notes)
        .unwrap()
        .execute_batch("CREATE TABLE notes(id, body); INSERT INTO notes VALUES (1, 'x')")
        .unwrap();
    let ran = run(&home, &["check", &notes.display().to_string()]);
    has(&ran.err, &["it has the columns notes.body, notes.id", "rejoin check --describe"]);
    let whole = home.path("whole.db");
    let connection = Connection::open(&whole).unwrap();
    connection.execute_batch(GOOSE).unwrap();
    for _ in 0..200 {
        say(&connection, &"many words ".repeat(20));
    }
    drop(connection);
    let bytes = fs::read(&whole).unwrap();
    for (cut, hint) in [(20, ""), (100, ""), (5_000, "sqlite3")] {
        let file = home.file("cut.db", &bytes[..cut]);
        let ran = run(&home, &["check", &file]);
        assert_eq!(ran.code, UNREADABLE, "{cut}: {}{}", ran.out, ran.err);
        has(&ran.err, &["the database cannot be read", hint]);
    }
    // The remainder is read, and reported as damaged.
    let file = home.file("cut.db", &bytes[..bytes.len() - 4096]);
    let ran = run(&home, &["check", &file]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    has(&ran.out, &["damaged-entry", ".recover"]);
    let renamed = home.path("renamed.db");
    let tables = "CREATE TABLE sessions(id, working_dir); CREATE TABLE messages_v2(id)";
    Connection::open(&renamed).unwrap().execute_batch(tables).unwrap();
    let ran = run(&home, &["check", &renamed.display().to_string()]);
    assert_eq!(ran.code, UNREADABLE);
    // From a pipe it is read as well.
    let mut command = home.command(&["convert", "-", "--to", "openai-chat"]);
    command.env("TMPDIR", home.path("temporary"));
    let ran = Ran::fed(command, &bytes);
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.out, &["many words"]);
}

const LINES: &str = "{\"role\":\"user\",\"content\":\"ALPHA question\"}\n{\"role\":\"assistant\",\"content\":\"BETA answer\"}\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

#[test]
fn packed_files_are_read_as_what_is_inside() {
    let home = Home::new("sqlite");
    let twice = [gzip(&LINES.as_bytes()[..45]), gzip(&LINES.as_bytes()[45..])].concat();
    for (name, bytes) in [
        ("a.jsonl.gz", gzip(LINES.as_bytes())),
        ("in-two-members.jsonl.gz", twice),
        ("a.jsonl.zst", zstd::encode_all(LINES.as_bytes(), 3).unwrap()),
        ("without-an-ending", gzip(LINES.as_bytes())),
    ] {
        let file = home.file(name, &bytes);
        let ran = run(&home, &["convert", &file, "--to", "openai-chat"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        has(&ran.out, &["ALPHA", "BETA"]);
        let ran = Ran::fed(home.command(&["convert", "-", "--to", "openai-chat"]), &bytes);
        has(&ran.out, &["ALPHA", "BETA"]);
    }
    // Cut off, it gives what is complete and says so; zstd unpacks whole pieces only, so of a short file there is nothing.
    let packed = gzip(LINES.as_bytes());
    let cut = home.file("cut.gz", &packed[..packed.len() - 9]);
    assert!(!run(&home, &["check", &cut]).out.contains("nothing is lost"));
    let ran = run(&home, &["convert", &cut, "--to", "openai-chat"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.out, &["ALPHA"]);
    has(&ran.err, &["torn-tail", "the packed file is cut off after", "unpacked bytes"]);
    has(&run(&home, &["check", &cut]).out, &["the packed file is cut off after"]);
    let packed = zstd::encode_all(LINES.as_bytes(), 3).unwrap();
    let ran = run(&home, &["check", &home.file("cut.zst", &packed[..packed.len() - 9])]);
    assert_eq!(ran.code, UNREADABLE, "{}{}", ran.out, ran.err);
    has(&ran.err, &["it cannot be unpacked: it is cut off before anything in it is complete"]);
    // Our own record keeps its entries.
    let id = home.import("plain.json", SOUND);
    let record = home.out(&["history", "export", &id]);
    let other = Home::new("jsonl");
    let file = other.file("record.jsonl.gz", gzip(record.as_bytes()));
    assert_eq!(other.lines(&["import", "--json", &file])[0]["id"], id.as_str());
}

/// Little that unpacks to very much ends at the limit.
#[test]
fn bombs_end_at_the_limit() {
    let home = Home::new("sqlite");
    let packed = |first: &str, mebibytes: usize, fill: u8| {
        let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        packer.write_all(first.as_bytes()).unwrap();
        let piece = vec![fill; 1024 * 1024];
        (0..mebibytes).for_each(|_| packer.write_all(&piece).unwrap());
        packer.finish().unwrap()
    };
    // A file that expands from almost nothing is refused before much of it is in memory.
    let text = home.file("text.zst", packed("{\"messages\":[", 300, b' '));
    let ran = run(&home, &["check", &text]);
    assert_eq!(ran.code, UNREADABLE, "{}", ran.err);
    has(&ran.err, &["it unpacks to more than 1000 times its size"]);
    let turn = "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"items\":[]}\n";
    let lines = home.file("lines.zst", packed(turn, 1030, b' '));
    let ran = run(&home, &["check", &lines]);
    assert_eq!(ran.code, UNREADABLE, "{}", ran.err);
    has(&ran.err, &["it unpacks to more than 1000 times its size"]);
    let gzipped = home.file("bomb.gz", gzip(&vec![0; 300 * 1024 * 1024]));
    let ran = run(&home, &["check", &gzipped]);
    assert_eq!(ran.code, UNREADABLE, "{}", ran.err);
    has(&ran.err, &["it unpacks to more than 200 times its size"]);
    let archive = zip(&[("samples/1.json", &vec![b' '; 64 * 1024 * 1024]), ("header.json", b"{}")]);
    let ran = run(&home, &["check", &home.file("bomb.eval", archive)]);
    assert_eq!(ran.code, UNREADABLE, "{}", ran.err);
    has(&ran.err, &["it cannot be unpacked: it unpacks to more than 1024 MiB"]);
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in files {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn archives_are_read_by_their_files() {
    let home = Home::new("sqlite");
    let sample = br#"{"id":1,"epoch":1,"target":"","output":{},"messages":[{"role":"user","content":"ALPHA question"}]}"#;
    let archive =
        zip(&[("header.json", br#"{"eval":{"task":"t","model":"m"}}"#), ("samples/1.json", sample)]);
    let file = home.file("log.eval", &archive);
    let ran = run(&home, &["convert", &file, "--to", "openai-chat"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.out, &["ALPHA"]);
    has(&Ran::fed(home.command(&["convert", "-", "--to", "openai-chat"]), &archive).out, &["ALPHA"]);
    assert_eq!(home.lines(&["import", "--json", &file])[0]["format"], "inspect");
    let ran = run(&home, &["check", &home.file("other.zip", zip(&[("readme.txt", b"hello")]))]);
    assert_eq!(ran.code, UNREADABLE);
    let two = zip(&[("a.jsonl", LINES.as_bytes()), ("b.jsonl", LINES.as_bytes())]);
    let ran = run(&home, &["check", &home.file("two.zip", two)]);
    assert_eq!(ran.code, UNREADABLE);
    has(&ran.err, &["an archive of 2 files", "a.jsonl, b.jsonl", "unzip", "two.zip"]);
    // Without its list of files.
    let ran = run(
        &home,
        &["convert", &home.file("cut.zip", &archive[..archive.len() - 40]), "--to", "openai-chat"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.out, &["ALPHA"]);
    has(&ran.err, &["torn-tail", "the archive is cut off or damaged from byte"]);
    let ran = run(&home, &["check", &home.file("cut.zip", &archive[..20])]);
    assert_eq!(ran.code, UNREADABLE);
    has(&ran.err, &["it cannot be unpacked", "get a whole copy of it"]);
    // Real ones, packed by deflate and by zstd.
    let Some(corpus) = testkit::corpus::folder() else { return };
    for path in testkit::corpus::files(&corpus.join("inspect-eval")) {
        let ran = run(&home, &["check", &path.display().to_string()]);
        assert_ne!(ran.code, UNREADABLE, "{}: {}", path.display(), ran.err);
    }
}

/// A folder that a program keeps its sessions in is one unit, wherever it lies in a tree; links in it are not followed.
#[test]
fn a_storage_folder_is_read_as_one() {
    Home::each(|home| {
        let storage = "tree/data/storage";
        home.file(&format!("{storage}/session/global/ses_1.json"), r#"{"id":"ses_1","title":"A title"}"#);
        home.file(
            &format!("{storage}/message/ses_1/msg_1.json"),
            r#"{"id":"msg_1","role":"user","time":{"created":1}}"#,
        );
        home.file(
            &format!("{storage}/part/msg_1/prt_1.json"),
            r#"{"id":"prt_1","type":"text","text":"ALPHA question"}"#,
        );
        home.file("secret.json", r#"{"id":"prt_2","type":"text","text":"SECRET elsewhere"}"#);
        #[cfg(unix)]
        std::os::unix::fs::symlink(
            home.path("secret.json"),
            home.path(storage).join("part/msg_1/prt_2.json"),
        )
        .unwrap();
        home.file("tree/other/session.json", SOUND);
        home.file("tree/other/notes.md", "# Notes\n\nnothing\n");
        home.file(
            "tree/other/.aider.chat.history.md",
            "# aider chat started at 2026\n\n#### BETA question\n\nGAMMA\n",
        );
        let folder = home.path(storage).display().to_string();
        let ran = run(home, &["convert", &folder, "--to", "openai-chat"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("ALPHA") && !ran.out.contains("SECRET"), "{}", ran.out);
        assert_ne!(run(home, &["check", &folder]).code, UNREADABLE);
        let tree = home.path("tree").display().to_string();
        let lines = home.lines(&["import", "--json", &tree]);
        let mut formats: Vec<&str> = lines.iter().filter_map(|line| line["format"].as_str()).collect();
        formats.sort_unstable();
        assert_eq!(formats, ["aider", "openai-chat", "opencode"], "{lines:?}");
        let reasons = serde_json::json!({"skipped": 1, "reasons": {"not JSON": 1}});
        assert_eq!(lines.last().unwrap(), &reasons);
        let doctor = run(home, &["doctor", &tree, "--json"]).out;
        assert!(doctor.contains("opencode"), "{doctor}");
        // Any other folder is still no file.
        let ran = run(home, &["check", &tree]);
        assert_eq!(ran.code, UNREADABLE);
        has(&ran.err, &["`rejoin doctor` the folder"]);
    });
}

/// The description is that of the content, without any of its values.
#[test]
fn packed_files_and_databases_are_described() {
    let home = Home::new("sqlite");
    let database = home.path("x.db");
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch(GOOSE).unwrap();
    say(&connection, "secret words");
    drop(connection);
    let line = "{\"type\":\"secret words\",\"by\":{\"alice\":1,\"bob\":2}}\n";
    let packed = home.path("x.jsonl.zst");
    fs::write(&packed, zstd::encode_all(line.repeat(3).as_bytes(), 0).unwrap()).unwrap();
    let describe = |path: &Path| run(&home, &["check", "--describe", &path.display().to_string()]);
    let (rows, lines) = (describe(&database), describe(&packed));
    has(&rows.out, &["a database: 2 rows", "messages.role", "messages.content_json:[].text"]);
    has(&lines.out, &["3 lines, 3 of them JSON", "by.*"]);
    for hidden in ["secret", "alice", "bob", "A title", "20260101_1"] {
        assert!(!rows.out.contains(hidden) && !lines.out.contains(hidden), "{}{}", rows.out, lines.out);
    }
    let archive = home.path("x.zip");
    fs::write(&archive, b"PK\x03\x04").unwrap();
    let refused = describe(&archive);
    assert_eq!(refused.code, UNREADABLE);
    has(&refused.err, &["it is an archive"]);
}

/// A task folder has no text itself, so findings about its files have no lines. Two of them once made the count of lines panic.
#[test]
fn findings_in_a_folder_have_no_lines() {
    Home::each(|home| {
        let task = home.path("task");
        fs::create_dir_all(&task).unwrap();
        let call = |id: &str| {
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"x.y","input":{{}}}}]}}"#
            )
        };
        let ask = r#"{"role":"user","content":[{"type":"text","text":"Look at it"}]}"#;
        let history = format!("[{ask},{},{ask},{}]", call("toolu_1"), call("toolu_2"));
        fs::write(task.join("api_conversation_history.json"), history).unwrap();
        let task = task.display().to_string();
        for arguments in
            [vec!["check", &task, "--json"], vec!["check", &task, "--for", "openai-chat", "--json"]]
        {
            let ran = run(home, &arguments);
            assert_eq!(ran.code, 1, "{}", ran.err);
            has(&ran.out, &["unanswered-call"]);
            let lines = ran.out.matches("\"line\":").count();
            assert_eq!(ran.out.matches("\"line\":null").count(), lines, "{}", ran.out);
        }
        assert_eq!(run(home, &["convert", &task, "--to", "openai-chat"]).code, 0);
    });
}
