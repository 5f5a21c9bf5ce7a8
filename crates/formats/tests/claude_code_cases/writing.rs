//! Writing transcripts, and reading them back.

use rejoin_formats::{
    Input, Session,
    sessions::{self, Writing},
};
use rejoin_record::{Form, Timestamp};
use rejoin_view::{Finding, OnBroken, Rule};

use crate::transcript::{boundary, calls, problems, read, result, says, sketch, summary, user};

fn written(session: &Session) -> (String, Vec<Finding>) {
    let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let writing = Writing { model: None, now, directory: "/home/me" };
    let format = sessions::named("claude-code").unwrap();
    let out = sessions::write(session, format, OnBroken::Keep, &writing).unwrap();
    (out.content.into_text().unwrap(), out.findings)
}

fn parsed(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_transcript_is_written() {
    let body = r#"{"model":"claude-x","max_tokens":10,"system":"Be brief.","tools":[{"name":"Read","input_schema":{"type":"object"}}],
        "messages":[{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"text","text":"two"},
          {"type":"tool_use","id":"c1","name":"Read","input":{"a":
            1}},{"type":"tool_use","id":"c2","name":"Read","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"}]},
        {"role":"assistant","content":"done"}]}"#;
    let input = Input::new("b.json", body.as_bytes()).unwrap();
    let session = sessions::read(&input, None).unwrap().remove(0);
    let (text, findings) = written(&session);
    let lines = parsed(&text);
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "user", "assistant", "assistant", "assistant", "user", "assistant"]);
    assert_eq!(lines[0]["message"]["content"], "<system>Be brief.</system>");
    assert_eq!(lines[0]["isMeta"], true);
    // Each follows the one before, and all are of one new session.
    assert!(lines[0]["parentUuid"].is_null());
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
        assert_eq!(pair[1]["sessionId"], pair[0]["sessionId"]);
    }
    for line in &lines {
        assert_eq!(line["uuid"].as_str().unwrap().len(), 36);
        assert_eq!(line["isSidechain"], false);
        assert_eq!(line["userType"], "external");
        assert_eq!(line["cwd"], "/home/me");
        assert_eq!(line["gitBranch"], "");
        assert_eq!(line["timestamp"], "2026-03-01T00:00:00.000Z");
        assert!(line.get("toolUseResult").is_none());
    }
    // A response is one message of several lines.
    let ids: Vec<_> = lines.iter().filter_map(|line| line["message"]["id"].as_str()).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
    assert!(ids[0].starts_with("msg_") && ids[0].len() == 28);
    assert_eq!(lines[2]["message"]["model"], "claude-x");
    assert_eq!(lines[3]["message"]["content"][0]["id"], "c1");
    assert_eq!(lines[5]["message"]["content"][1]["is_error"], true, "what was never answered is answered");
    assert_eq!(lines[6]["message"]["content"][0]["text"], "done", "and nothing is put after the end");
    let left_out: Vec<_> = findings
        .iter()
        .filter(|finding| finding.rule == Rule::ForeignField)
        .map(|finding| finding.subject.as_deref().unwrap())
        .collect();
    assert_eq!(left_out, ["max_tokens", "tools"]);
    assert!(findings.iter().any(|finding| finding.rule == Rule::IrregularContent), "{findings:?}");
    let back = read(&text);
    assert_eq!(
        sketch(&back),
        [
            "u:<system>Be brief.</system>",
            "u:go",
            "a:two,!c1,!c2",
            "u:?c1=one,?c2=[no result was recorded for this call; it may or may not have run]",
            "a:done"
        ]
    );
    assert_eq!(back.messages[1].form, Form::Text);
}

#[test]
fn a_transcript_is_written_again() {
    let text = [
        user("u", "-", "go").replace("\"uuid\"", "\"isMeta\":true,\"uuid\""),
        calls("a", "u", "m1", "c1").replace("11:43", "11:44"),
        calls("b", "a", "m1", "c2").replace("11:43", "11:44"),
        result("r", "a", "c1", "one").replace("11:43", "11:45"),
        result("q", "b", "c2", "two").replace("11:43", "11:46").replace("\"/p\"", "\"/p/deeper\""),
        user("v", "q", "thanks").replace("11:43", "11:47"),
        "{\"type\":\"custom-title\",\"customTitle\":\"Reading\",\"sessionId\":\"S\"}\n".to_owned(),
    ]
    .concat();
    let session = read(&text);
    let (text, findings) = written(&session);
    assert!(findings.iter().all(|finding| !finding.is_problem()), "{findings:?}");
    let lines = parsed(&text);
    let minutes: Vec<_> =
        lines.iter().filter_map(|line| line["timestamp"].as_str()).map(|time| &time[11..]).collect();
    assert_eq!(
        minutes,
        ["11:43:58.858Z", "11:44:58.858Z", "11:44:58.858Z", "11:46:58.858Z", "11:47:58.858Z"],
        "each when it was said; results when the last one came"
    );
    assert_eq!(lines[0]["isMeta"], true);
    assert!(lines[4].get("isMeta").is_none());
    assert!(lines[..5].iter().all(|line| line["cwd"] == "/p" && line["version"] == "2.1.37"));
    assert_ne!(lines[0]["sessionId"], "S", "the old file can stay");
    assert_eq!(lines[5]["customTitle"], "Reading");
    let back = read(&text);
    assert_eq!(back.title().map(|title| title.as_str()), Some("Reading"));
    assert_eq!(sketch(&back), ["u:go", "a:!c1,!c2", "u:?c1=one,?c2=two", "u:thanks"]);
    // The same every time.
    assert_eq!(written(&session).0, text);
}

#[test]
fn marks_for_a_cache_are_not_written() {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"a"{mark}}}]}},{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"R","input":{{}}{mark}}}]}},
        {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":[{{"type":"text","text":"b"{mark}}}]}}]}}]}}"#
    );
    let input = Input::new("b.json", body.as_bytes()).unwrap();
    let session = sessions::read(&input, None).unwrap().remove(0);
    let (text, findings) = written(&session);
    assert!(!text.contains("cache_control"), "{text}");
    let noted = |finding: &&Finding| finding.subject.as_deref() == Some("cache_control");
    assert_eq!(findings.iter().filter(noted).count(), 3);
    assert_eq!(sketch(&read(&text)), ["u:a", "a:!c", "u:?c=b"]);
    // One that has them anyway, and more than a request may: they do not go out again.
    let marked = [user("u", "-", "x").replace(
        "\"x\"",
        &format!("[{}]", vec![format!("{{\"type\":\"text\",\"text\":\"x\"{mark}}}"); 6].join(",")),
    )];
    let session = read(&marked.concat());
    assert_eq!(problems(&session), []);
}

/// A summary that comes after messages that a compaction kept hides none of them in the new file.
#[test]
fn a_summary_in_the_middle() {
    let kept = ",\"compactMetadata\":{\"preservedSegment\":{\"headUuid\":\"u\",\"anchorUuid\":\"d\",\"tailUuid\":\"a\"}}";
    let lines = [
        user("u", "-", "1"),
        says("a", "u", "m1", "2"),
        user("v", "a", "3"),
        boundary("d", "v", kept),
        summary("e", "d", "in short"),
        user("w", "e", "4"),
    ];
    let session = read(&lines.concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:in short", "u:4"]);
    let (text, _) = written(&session);
    assert_eq!(sketch(&read(&text)), sketch(&session));
    // At the beginning it stays what it is.
    let session = read(&lines[3..].concat());
    let (text, _) = written(&session);
    assert_eq!(parsed(&text)[0]["isCompactSummary"], true);
    assert_eq!(sketch(&read(&text)), ["u:in short", "u:4"]);
}

#[test]
fn a_system_prompt_that_says_nothing_is_not_written() {
    let body = r#"{"system":"","messages":[{"role":"user","content":"go"}]}"#;
    let input = Input::new("b.json", body.as_bytes()).unwrap();
    let (text, _) = written(&sessions::read(&input, None).unwrap().remove(0));
    assert_eq!(sketch(&read(&text)), ["u:go"]);
    // Of several pieces, each is kept.
    let body = r#"{"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":"go"}]}"#;
    let input = Input::new("b.json", body.as_bytes()).unwrap();
    let (text, _) = written(&sessions::read(&input, None).unwrap().remove(0));
    assert_eq!(sketch(&read(&text)), ["u:<system>a</system>,<system>b</system>", "u:go"]);
}
