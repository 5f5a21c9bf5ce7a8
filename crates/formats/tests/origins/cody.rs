//! cody: turns, and events where turns cut something or were never written.

use rejoin_view::{Rule, Severity};

use super::*;

/// S3-69: a rollout of cody is read.
#[test]
fn structure_comes_from_turns_and_output_from_events() {
    let session = read("cody", "sound.jsonl");
    assert_eq!(
        said(&session),
        [
            "user: please list all the files",
            r#"assistant: thinks the user wants a list + calls call_1 exec {"cmd": "list the files here"}"#,
            "tool: gave call_1 first line of the whole output\nsecond line of the whole output\nthird line",
            "assistant: there are three files in it",
            "user: now remove the last one",
            concat!(
                r#"assistant: calls call_2 exec {"cmd": "remove the third file"}"#,
                r#" + calls call_3 exec {"cmd": "look at the rest"}"#
            ),
            "tool: failed call_2 it may not be removed",
            "tool: gave call_3 two files are left",
            "assistant: it could not be removed",
        ]
    );
    assert_eq!((rules(&session), repairs(&session)), (vec![], vec![]));
    assert!(
        beside(&session).iter().any(|line| line.contains("Total output lines")),
        "what the turn had is kept"
    );
    assert_eq!(session.context.model().as_deref(), Some("model-9"));
    assert_eq!(session.directory().as_deref(), Some("/home/someone/the project"));
    let times: Vec<_> =
        session.details.iter().map(|detail| detail.time.as_deref().unwrap_or("none")).collect();
    assert_eq!(times[..4], ["none", "none", "2025-11-19T10:00:03.000Z", "2025-11-19T10:00:05.000Z"]);
}

#[test]
fn turns_that_overlap_are_one_history() {
    let session = read("cody", "overlap.jsonl");
    assert_eq!(
        said(&session),
        [
            "user: the first question is this",
            "assistant: thinks thinking about the first question + an answer to the first",
            "user: the second question is that",
            r#"assistant: calls call_9 exec {"cmd": "look into the second"}"#,
            "tool: gave call_9 what was found for the second",
            "assistant: an answer to the second",
            // The same words once more are no overlap: nothing with an id is repeated.
            "user: the first question is this",
            "assistant: the same question, another answer",
        ]
    );
    assert_eq!((rules(&session), repairs(&session)), (vec![], vec![]));
}

#[test]
fn a_turn_that_was_never_written_is_read_from_events() {
    let session = read("cody", "lost.jsonl");
    assert_eq!(
        said(&session),
        [
            r#"assistant: calls call_1 exec {"cmd": "what was called before"}"#,
            "tool: gave call_1 what came out of it",
            "assistant: thinks the model thought about it",
            "assistant: what the model answered then",
            "user: please try it once more",
            "assistant: now it has worked well",
            r#"assistant: calls call_2 exec {"cmd": "what was running at the end"}"#,
        ]
    );
    // Three turns are missing; nothing at all is left of the second one.
    assert_eq!(lines_of(&session.findings, Rule::DamagedEntry), [3, 9, 16]);
    for finding in &session.findings {
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.to_string().contains("the user's message is lost"), "{finding}");
    }
    assert!(repairs(&session).contains(&Rule::UnansweredCall));
    // cody goes back to everything that was said, whatever was compacted.
    assert!(beside(&session).iter().any(|line| line.contains("a summary of what was said")));
}

#[test]
fn a_turn_is_told_once_if_its_events_have_other_words() {
    let session = read("cody", "altered.jsonl");
    let texts = said(&session).join("\n");
    let expected = [
        "user: please list all the files",
        r#"assistant: thinks the user wants a list of them + calls call_1 exec {"cmd": "list the files here"}"#,
        "tool: gave call_1 three names of files",
        "assistant: there are three files in it\n",
        "user: and what do they hold",
        "assistant: the turn has it in these words",
        // No turn has these, although another turn has the same words.
        "assistant: nobody wrote this turn down",
        "assistant: now it is done",
        "user: do it once more",
        "assistant: now it is done",
    ];
    assert_eq!(texts, expected.join("\n"));
    assert_eq!(
        lines_of(&session.findings, Rule::DoubledEntry),
        [9],
        "the event has words that the turn lacks"
    );
    assert_eq!(lines_of(&session.findings, Rule::DamagedEntry), [13], "this turn was never written");
    assert_eq!(session.findings.len(), 2);
    for text in ["there are three files\"", "the event has it in other words", "a list of them \""] {
        assert!(beside(&session).iter().any(|line| line.contains(text)), "{text} is kept");
    }
}

#[test]
fn a_bad_line_spoils_only_itself() {
    let (sound, broken) = (read("cody", "sound.jsonl"), read("cody", "broken.jsonl"));
    assert_eq!(said(&sound), said(&broken));
    assert_eq!(lines_of(&broken.findings, Rule::DamagedEntry), [3]);
    assert_eq!(lines_of(&broken.findings, Rule::TornTail), [16]);
    assert_eq!(sound.id, broken.id);
}

#[test]
fn a_conversation_that_has_not_begun_is_empty() {
    assert!(read("cody", "empty.jsonl").messages.is_empty());
}

#[test]
fn an_output_in_parts() {
    let session = read("cody", "parts.jsonl");
    assert!(
        said(&session)[2].starts_with("tool: gave call_1 a picture of the result + image"),
        "{:?}",
        said(&session)
    );
}

/// S3-69: a rollout of cody is written.
#[test]
fn what_was_written_is_read_again() {
    for file in ["sound.jsonl", "overlap.jsonl", "lost.jsonl", "parts.jsonl"] {
        let session = read("cody", file);
        let text = written(&session, "cody");
        let again = try_read("again.jsonl", text.as_bytes()).unwrap().remove(0);
        assert_eq!(again.format, "cody");
        // Reasoning without its seal cannot be sent again, and a call without a result gets one.
        let thought = ["thinks the user wants a list + ", "thinks thinking about the first question + "];
        let mut expected: Vec<String> = said(&session)
            .iter()
            .map(|line| thought.iter().fold(line.clone(), |line, text| line.replace(text, "")))
            .collect();
        expected.retain(|line| !line.contains("thinks"));
        if file == "lost.jsonl" {
            expected.truncate(4);
        }
        assert_eq!(said(&again)[..expected.len()], expected, "{file}");
        assert_eq!(repairs(&again), [], "{file}: what is written is sound");
        let users = said(&session).iter().filter(|line| line.starts_with("user")).count();
        let turns = text.lines().filter(|line| line.contains(r#""type":"turn""#)).count();
        assert!(turns >= users, "{text}");
        let meta: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(meta["item"]["type"], "session_meta");
        assert_eq!(meta["item"]["data"]["id"].as_str().unwrap().len(), 36);
        assert_eq!(meta["item"]["data"]["cwd"], "/home/someone/the project");
        assert_ne!(again.id, session.id);
    }
}
