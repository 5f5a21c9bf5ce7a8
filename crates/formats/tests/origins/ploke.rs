//! ploke: a Markdown file that holds less than was said.

use super::*;

const FORMAT: &str = "ploke";

/// S1-36: the Markdown export of ploke is read, and a finding names what it does not hold.
#[test]
fn headings_begin_messages() {
    let session = read(FORMAT, "history.md");
    assert_eq!(
        said(&session),
        [
            "system: these are the base instructions",
            "user: the first question of somebody",
            "tool: gave ? {\"ok\":true,\"said\":\"what the first tool gave\"}",
            "tool: gave ? what the second tool gave\n{\"a\": \"line of the second tool\"}",
            "assistant: ---------- Reasoning ----------\nwhat the model thought first\nthe answer of the model \"in quotes that are long\"",
            "system: a note of the program itself",
            "user: the second question\n\n## not a heading of it\n\n- a point",
        ]
    );
    // What stands where nothing was said is no answer.
    assert_eq!(
        hidden(&session),
        ["assistant: Calling tools...", "assistant: Pending...", "system: Saving the history to a file now"]
    );
    assert_eq!(rules(&session), [Rule::ForeignBlock]);
    assert!(session.findings[0].to_string().contains("no names, arguments or ids of calls"));
    assert_eq!(session.places[1].line, Some(7));
}

#[test]
fn a_file_that_was_cut_off_is_read() {
    let session = read(FORMAT, "empty-system.md");
    assert_eq!(
        said(&session),
        ["user: the first question of somebody", "assistant: an answer that was cut o"]
    );
    assert_eq!(session.id, read(FORMAT, "history.md").id, "the same conversation, earlier");
}

#[test]
fn other_files_are_refused_with_what_to_do() {
    let error = try_read("proposals.json", &fixture("ploke/proposals.json")).unwrap_err();
    assert!(error.to_string().contains("`save history`"), "{error}");
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workspace.sqlite");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("create table cozo (k BLOB primary key, v BLOB)").unwrap();
        drop(connection);
        let database = sessions::Database::open("workspace.sqlite", &path).unwrap();
        let error = sessions::read_database(&database, None).unwrap_err();
        assert!(error.to_string().contains("`save history`"), "{error}");
    }
}
