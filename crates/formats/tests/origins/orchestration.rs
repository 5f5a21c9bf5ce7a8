//! agent-orchestration-system: one file, several agents, in an order that is not that of what happened.

use super::*;

const FORMAT: &str = "agent-orchestration";

/// S2-50: the run that a person started and each run that it delegated are separate conversations.
#[test]
fn each_delegated_run_is_a_conversation() {
    let sessions = read_all(FORMAT, "sound.jsonl");
    let [root, helper] = &sessions[..] else { panic!("{} conversations", sessions.len()) };
    let task = "find out what the helper should find";
    assert_eq!(
        said(root),
        [
            "user: the question of the person",
            &format!(
                "assistant: thinks what the lead thought before + what the lead says first \
                 + calls call_read read {{\"path\":\"a file to read\"}} + calls call_dele delegate \
                 {{\"agent\":\"helper\",\"prompt\":\"{task}\",\"description\":\"what it is about\"}}"
            ),
            "tool: gave call_read the words of the file",
            "tool: gave call_dele what the helper found out",
            "assistant: what the lead says last",
            "user: the second question of the person",
            r#"assistant: calls call_bad write {"path":"a file to write"}"#,
            r#"tool: failed call_bad {"error":true,"message":"it may not be written","stack":"at some place in it"}"#,
            r#"assistant: calls call_open read {"path":"a call without a result"}"#,
        ]
    );
    assert_eq!(
        said(helper),
        [
            &format!("user: {task}"),
            r#"assistant: calls call_a grep {"for":"the words to look for"} + calls call_b grep {"for":"other words to look for"}"#,
            "tool: gave call_a one thing was found here + and then another one there",
            "tool: failed call_b nothing was found at all",
            "assistant: what the helper found out",
        ]
    );
    assert_eq!(repairs(root), [Rule::UnansweredCall]);
    assert_eq!((rules(root), rules(helper), repairs(helper)), (vec![], vec![], vec![]));
    // The child says who called it, and what was said of the runs is kept.
    let link = format!(r#"{{"delegated_by":"{}","call":"call_dele"}}"#, root.id);
    assert!(beside(helper).contains(&link.as_str()), "{:?}", beside(helper));
    assert!(beside(helper).iter().any(|line| line.contains("Executing 2 tools")));
    assert!(beside(helper).iter().any(|line| line.contains("\"delegation\"")));
    assert!(beside(root).iter().any(|line| line.contains("Starting the lead agent")));
    assert_eq!(root.context.model().as_deref(), Some("claude-m"));
}

#[test]
fn what_was_there_has_the_same_ids_when_the_file_has_grown() {
    let whole = fixture("agent-orchestration/sound.jsonl");
    let text = String::from_utf8(whole).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let part = all[..26].join("\n") + "\n";
    let ids = |text: &str| -> Vec<Vec<_>> {
        let sessions = try_read("events.jsonl", text.as_bytes()).unwrap();
        let messages = |session: &Session| {
            let mut ids = vec![session.id.to_string()];
            let entries = session.to_entries(Timestamp::UNIX_EPOCH);
            ids.extend(entries.iter().map(|entry| entry.id().to_string()));
            ids
        };
        sessions.iter().map(messages).collect()
    };
    let (before, after) = (ids(&part), ids(&text));
    assert_eq!(before[1], after[1], "the child has ended");
    // The last entry is the context, which comes after everything.
    let kept = before[0].len() - 1;
    assert_eq!(before[0][..kept], after[0][..kept]);
}

#[test]
fn calls_that_were_written_twice_are_one() {
    let session = read(FORMAT, "twice.jsonl");
    let calls: Vec<_> = session.messages.iter().flat_map(|message| message.tool_calls()).collect();
    assert_eq!(calls.len(), 2);
    let results: Vec<_> = session.messages.iter().flat_map(|message| message.tool_results()).collect();
    let pairs: Vec<_> =
        calls.iter().zip(&results).map(|(call, result)| Some(&call.id) == result.call_id.as_ref()).collect();
    assert_eq!(pairs, [true, true]);
    assert_eq!(session.messages.len(), 5);
    assert_eq!(beside(&session).iter().filter(|line| line.contains("tool_call")).count(), 2);
}

#[test]
fn a_file_without_runs_is_one_conversation() {
    let sessions = read_all(FORMAT, "plain.jsonl");
    let [root, stray] = &sessions[..] else { panic!("{} conversations", sessions.len()) };
    assert_eq!(
        said(root),
        [
            "user: a question without any run",
            r#"assistant: an answer without any run + calls c1 read {"path":"x"}"#,
            "tool: gave c1 a bare text as result",
            "assistant: the end of the answer",
        ]
    );
    assert_eq!(said(stray), ["user: a task that nobody delegated", "assistant: an answer to nobody's task"]);
}

#[test]
fn a_bad_line_spoils_only_itself() {
    let (sound, broken) = (read_all(FORMAT, "sound.jsonl"), read_all(FORMAT, "broken.jsonl"));
    assert_eq!(said(&sound[0]), said(&broken[0]));
    assert_eq!(said(&sound[1]), said(&broken[1]));
    assert_eq!(lines_of(&broken[0].findings, Rule::DamagedEntry), [5]);
    assert_eq!(lines_of(&broken[0].findings, Rule::TornTail), [35]);
}
