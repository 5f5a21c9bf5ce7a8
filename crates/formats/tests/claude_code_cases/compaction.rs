//! Where a conversation is, and what of it a model sees, when lines hang on a message before a compaction. Each case was
//! given to Claude Code 2.1.325, and what it sent is what is expected here.

use rejoin_view::{Rule, Severity};

use crate::transcript::{boundary, line, read, says, sketch, summary, user};

/// Four messages, `u1` to `a4`.
fn before() -> Vec<String> {
    vec![
        user("u1", "-", "1"),
        says("a2", "u1", "m2", "2"),
        user("u3", "a2", "3"),
        says("a4", "u3", "m4", "4"),
    ]
}

/// They are compacted, and an answer follows: `b5`, `s6`, `a7`.
fn compacted(metadata: &str) -> Vec<String> {
    let more = format!(",\"compactMetadata\":{metadata}");
    vec![boundary("b5", "a4", &more), summary("s6", "b5", "sum"), says("a7", "s6", "m7", "7")]
}

/// The conversation goes on after a line: `u8`, `a9`.
fn goes_on(parent: &str) -> Vec<String> {
    vec![user("u8", parent, "8"), says("a9", "u8", "m9", "9")]
}

fn note(uuid: &str, parent: &str) -> String {
    line(uuid, parent, "system", "\"subtype\":\"turn_duration\",\"durationMs\":1")
}

fn attachment(uuid: &str, parent: &str) -> String {
    line(uuid, parent, "attachment", "\"attachment\":{\"type\":\"date\",\"date\":\"2026-11-16\"}")
}

fn place(leaf: &str) -> String {
    format!("{{\"type\":\"last-prompt\",\"lastPrompt\":\"x\",\"leafUuid\":\"{leaf}\",\"sessionId\":\"S\"}}\n")
}

fn check(lines: &[Vec<String>], expected: &str) {
    let session = read(&lines.concat().concat());
    let words: Vec<String> = sketch(&session).iter().map(|message| message[2..].to_owned()).collect();
    assert_eq!(words.join(" "), expected, "{lines:#?}");
}

#[test]
fn lines_that_hang_on_a_message_before_a_compaction_undo_it() {
    check(&[before(), compacted("{}")], "sum 7");
    check(&[before(), compacted("{}"), goes_on("a7")], "sum 7 8 9");
    check(&[before(), compacted("{}"), goes_on("a4")], "1 2 3 4 8 9");
    check(&[before(), compacted("{}"), goes_on("a2")], "1 2 8 9");
    check(&[before(), vec![boundary("b5", "a4", "")], goes_on("a4")], "1 2 3 4 8 9");
    check(&[before(), vec![boundary("b5", "a4", ""), summary("s6", "a4", "sum")]], "1 2 3 4 sum");
    check(&[before(), vec![boundary("b5", "a4", "")]], "1 2 3 4");
    // Later messages that continue from the summary belong to it.
    let later = vec![user("v", "a7", "10"), says("w", "v", "m10", "11")];
    check(&[before(), compacted("{}"), goes_on("a4"), later], "sum 7 10 11");
}

#[test]
fn a_conversation_ends_with_the_last_note_or_attachment_that_nothing_follows() {
    for last in [note, attachment] {
        check(&[before(), compacted("{}"), vec![last("n", "a4")]], "1 2 3 4");
        check(&[before(), compacted("{}"), vec![last("n", "a7")]], "sum 7");
        check(&[before(), compacted("{}"), goes_on("a4"), vec![last("n", "a7")]], "sum 7");
        check(&[before(), vec![last("n", "a2")]], "1 2");
        check(&[before(), goes_on("a2"), vec![last("n", "a4")]], "1 2 3 4");
        // One that hangs on nothing has no conversation above it.
        check(&[before(), compacted("{}"), vec![last("n", "-")]], "sum 7");
    }
    // Something follows it.
    let mut between = before();
    between.insert(2, note("n", "a2"));
    check(&[between], "1 2 3 4");
}

#[test]
fn the_place_that_the_program_noted_counts() {
    check(&[before(), vec![place("a4")], goes_on("a4")], "1 2 3 4 8 9");
    check(&[before(), vec![place("a4")], goes_on("a2")], "1 2 3 4");
    check(&[before(), vec![place("a2")]], "1 2 3 4");
    check(&[before(), vec![place("nowhere")], goes_on("a2")], "1 2 8 9");
    check(&[before(), compacted("{}"), vec![place("a4")]], "1 2 3 4");
    check(&[before(), compacted("{}"), goes_on("a4"), vec![place("a7")]], "sum 7");
    check(&[before(), vec![place("a4")], goes_on("a2"), vec![place("a9")]], "1 2 8 9");
    check(&[before(), vec![place("a4"), note("n", "a2")]], "1 2 3 4");
}

#[test]
fn messages_that_a_compaction_kept_stand_behind_its_summary() {
    let segment = r#"{"preservedSegment":{"headUuid":"u3","tailUuid":"a4","anchorUuid":"s6"}}"#;
    let each = r#"{"preservedMessages":{"anchorUuid":"s6","uuids":["u3","a4"],"allUuids":["u3","a4"]}}"#;
    for kept in [segment, each] {
        check(&[before(), compacted(kept)], "sum 3 4 7");
        check(&[before(), compacted(kept), goes_on("a4")], "sum 3 4 8 9");
        // Nothing else from before the compaction is read any more.
        check(&[before(), compacted(kept), goes_on("a2")], "sum 3 4 8 9");
    }
    let named = |uuids: &str, anchor: &str| {
        format!(r#"{{"preservedMessages":{{"anchorUuid":"{anchor}","uuids":[{uuids}]}}}}"#)
    };
    check(&[before(), compacted(&named(r#""u1","a4""#, "s6"))], "sum 1 4 7");
    check(&[before(), compacted(&named(r#""a4","u1""#, "s6"))], "sum 4 1 7");
    check(&[before(), compacted(&named(r#""u3","a4""#, "b5"))], "3 4 sum 7");
    check(&[before(), compacted(&named(r#""u3","gone","a4""#, "s6"))], "sum 7");
    check(&[before(), compacted(&named("", "s6")), goes_on("a4")], "1 2 3 4 8 9");
}

/// Claude Code does not read what stands before the last compaction of a file of more than 5 MiB.
#[test]
fn a_large_file_is_read_from_its_last_compaction_on() {
    const LIMIT: usize = 5 * 1024 * 1024;
    let lines = [before(), compacted("{}"), goes_on("a4")].concat();
    let sized = |bytes: usize| {
        let mut lines = lines.clone();
        let missing = bytes - lines.concat().len() - ",\"x\":\"\"".len();
        lines[1] = lines[1].replacen("\"uuid\"", &format!("\"x\":\"{}\",\"uuid\"", "z".repeat(missing)), 1);
        assert_eq!(lines.concat().len(), bytes);
        lines
    };
    check(&[sized(LIMIT)], "1 2 3 4 8 9");
    check(&[sized(LIMIT + 1)], "sum 7 8 9");
    let session = read(&sized(LIMIT + 1).concat());
    let [finding] = &session.findings[..] else { panic!("{:#?}", session.findings) };
    assert_eq!(
        (finding.rule, finding.severity, finding.at.line),
        (Rule::BrokenChain, Severity::Note, Some(8))
    );
}

/// A command that a person ran in the program, and what it printed, are shown to the model.
#[test]
fn local_commands_are_messages() {
    let command = |uuid: &str, parent: &str, text: &str| {
        line(
            uuid,
            parent,
            "system",
            &format!("\"subtype\":\"local_command\",\"content\":\"{text}\",\"level\":\"info\""),
        )
    };
    let lines = vec![command("c", "a4", "<command-name>/cost</command-name>"), command("d", "c", "$2.10")];
    let session = read(&[before(), lines.clone(), goes_on("d")].concat().concat());
    assert_eq!(session.messages.len(), 8);
    assert_eq!(sketch(&session)[4..6], ["u:<command-name>/cost</command-name>", "u:$2.10"]);
    assert_eq!(session.findings, []);
    assert_eq!(session.messages[5].native.as_ref().unwrap().raw.as_str(), lines[1].trim_end());
}

/// Notes that only people saw are named.
#[test]
fn notes_for_people_are_named() {
    let note =
        line("n", "a4", "system", "\"subtype\":\"informational\",\"content\":\"the model was changed\"");
    let error = says("e", "n", "m5", "API Error: overloaded")
        .replace("\"claude-opus\"", "\"<synthetic>\"")
        .replace("\"uuid\"", "\"isApiErrorMessage\":true,\"uuid\"");
    let session = read(&[before(), vec![note, error], goes_on("e")].concat().concat());
    assert_eq!(sketch(&session).len(), 6);
    let [finding] = &session.findings[..] else { panic!("{:#?}", session.findings) };
    assert_eq!(
        (finding.rule, finding.severity, finding.at.line),
        (Rule::ForeignBlock, Severity::Note, Some(5))
    );
    assert!(finding.to_string().contains("1 × error message, 1 × informational"), "{finding}");
    // What the program said in a model's place, and sent on as such, is a message.
    let stand_in =
        says("e", "a4", "m5", "No response requested.").replace("\"claude-opus\"", "\"<synthetic>\"");
    let session = read(&[before(), vec![stand_in], goes_on("e")].concat().concat());
    assert_eq!(sketch(&session)[4], "a:No response requested.");
}
