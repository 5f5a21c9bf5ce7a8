//! Line by line: what each kind of line becomes, and what damaged ones do to the others.

use std::sync::Arc;

use rejoin_formats::{
    Dialect, Input, convert,
    input::{Companions, Stream},
    sessions,
};
use rejoin_record::{BlockKind, Form, Role};
use rejoin_view::{OnBroken, Severity};

use crate::transcript::{
    calls, line, model, problems, progress, raw, read, result, rules, says, sketch, user,
};

#[test]
fn lines_that_nobody_else_writes() {
    let own = |text: &str| sessions::detect(text).is_some_and(|format| format.name == "claude-code");
    for text in [
        user("a", "-", "hi"),
        "not json at all\n".to_owned() + &user("a", "-", "hi"),
        r#"{"type":"summary","summary":"T","leafUuid":"x"}"#.to_owned(),
        r#"{"type":"file-history-snapshot","messageId":"x","snapshot":{},"isSnapshotUpdate":false}"#
            .to_owned(),
        r#"{"type":"queue-operation","operation":"enqueue","sessionId":"S","timestamp":"t"}"#.to_owned(),
        progress("a", "-", "hook_progress"),
        r#"{"type":"user","sessionId":"S","message":{"role":"user","content":"x"}}"#.to_owned(),
    ] {
        assert!(own(&text), "{text}");
    }
    // Cut inside the first line's message, wherever its type stands.
    let long = says("a", "-", "m", &"x".repeat(100));
    for cut in long.find("xxx").unwrap()..long.len() {
        assert!(own(&long[..cut]), "{}", &long[..cut]);
    }
    let type_last = r#"{"parentUuid":"b","isSidechain":false,"sessionId":"S","message":{"role":"assistant","content":[{"type":"te"#;
    assert!(own(type_last));
    for text in [
        r#"{"role":"user","content":"hi"}"#,
        r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"uuid":"a","parentUuid":null,"sessionId":"S","type":"user","message":{"role":"user","parts":[{"text":"hi"}]}}"#,
        r#"{"uuid":"a","parentUuid":null,"sessionId":"S","type":"system","subtype":"telemetry"}"#,
        r#"{"type":"user","message":{"role":"user","content":"x"}}"#,
        r#"{"type":"summary","text":"x"}"#,
        r#"{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}"#,
        "",
    ] {
        assert!(!own(text), "{text}");
    }
}

#[test]
fn what_is_no_conversation_stands_aside_and_breaks_no_chain() {
    let snapshot = "{\"type\":\"file-history-snapshot\",\"messageId\":\"u\",\"uuid\":\"u\",\"snapshot\":{},\"isSnapshotUpdate\":false}\n";
    let lines = [
        snapshot.to_owned(),
        progress("p0", "-", "hook_progress"),
        user("u", "p0", "go"),
        calls("a", "u", "m1", "c1"),
        progress("p1", "a", "bash_progress"),
        progress("p2", "p1", "bash_progress"),
        result("r", "a", "c1", "one"),
        line("s", "r", "system", "\"subtype\":\"turn_duration\",\"durationMs\":1"),
        line("t", "s", "attachment", "\"attachment\":{\"type\":\"task_reminder\",\"content\":[]}"),
        says("b", "t", "m2", "done"),
        "{\"type\":\"something-new\",\"x\":1}\n".to_owned(),
        "{\"no\":\"type\"}\n".to_owned(),
    ];
    let session = read(&lines.concat());
    assert_eq!(sketch(&session), ["u:go", "a:!c1", "u:?c1=one", "a:done"]);
    // What the program put before the model is named, once.
    assert_eq!(rules(&session.findings), [("foreign-block", Some(9))]);
    assert_eq!(session.findings[0].severity, Severity::Note);
    let aside: Vec<&str> = [0, 1, 4, 5, 7, 8, 10, 11].iter().map(|index| lines[*index].trim_end()).collect();
    assert_eq!(raw(&session), aside);
    let after: Vec<usize> = session.set_aside.iter().map(|item| item.after).collect();
    assert_eq!(after, [0, 0, 2, 2, 3, 3, 4, 4]);
    let places: Vec<_> = session.set_aside.iter().map(|item| item.place.index).collect();
    assert_eq!(places, [0, 1, 4, 5, 7, 8, 10, 11], "positions are lines");
}

/// B42, S3-66: a last line that was cut off is set aside, and what was written behind it by a program that came back is read.
#[test]
fn a_torn_last_line() {
    let (first, second) = (user("u", "-", "1"), says("a", "u", "m1", "2"));
    for cut in 1..second.len() - 2 {
        let session = read(&format!("{first}{}", &second[..cut]));
        assert_eq!(sketch(&session), ["u:1"], "cut at {cut}");
        assert_eq!(rules(&session.findings), [("torn-tail", Some(2))], "cut at {cut}");
        assert_eq!(session.findings[0].severity, Severity::Note);
        assert_eq!(raw(&session), [&second[..cut]]);
        // The program goes on in the middle of the line.
        let third = user("v", "u", "3");
        let glued = read(&format!("{first}{}{third}", &second[..cut]));
        assert_eq!(sketch(&glued), ["u:1", "u:3"], "glued at {cut}");
        assert_eq!(rules(&glued.findings), [("damaged-entry", Some(2))], "glued at {cut}");
        assert_eq!(raw(&glued), [&second[..cut]]);
        assert_eq!(glued.places[1].line, Some(2));
        assert_eq!(glued.places[1].offset, first.len() + cut);
    }
    // Without its line break a whole line is whole.
    assert_eq!(read(&format!("{first}{}", second.trim_end())).findings, []);
}

/// Both values of a line are read; Claude Code itself reads only one of them, so it is worth a warning.
#[test]
fn two_values_on_one_line_are_a_warning() {
    let (first, second) = (user("u", "-", "1"), says("a", "u", "m1", "2"));
    let session = read(&format!("{}{second}{}", first.trim_end(), user("v", "a", "3")));
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3"]);
    assert_eq!(rules(&session.findings), [("damaged-entry", Some(1))]);
    assert_eq!(session.findings[0].severity, Severity::Warning);
}

/// S3-66: lines that are damaged, glued together, empty, foreign or not text are each dealt with alone.
#[test]
fn damaged_lines() {
    let text = [
        user("u", "-", "1"),
        "{\"type\":\"user\",\"uuid\":\n".to_owned(),
        "\n  \r\n".to_owned(),
        "42\n".to_owned(),
        says("a", "u", "m1", "2").trim_end().to_owned() + &user("v", "a", "3"),
        line("x", "v", "user", "\"message\":\"no object\""),
        line("y", "v", "assistant", "\"message\":{\"role\":\"assistant\"}"),
        "\u{0}\u{0}\u{0}\n".to_owned(),
        says("b", "v", "m2", "4").replace('\n', "\r\n"),
    ]
    .concat();
    let session = read(&text);
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3", "a:4"]);
    let mut lines: Vec<_> = [2, 5, 6, 7, 8, 9].iter().map(|line| ("damaged-entry", Some(*line))).collect();
    lines.push(("unread-text", Some(7)));
    assert_eq!(rules(&session.findings), lines);
    assert_eq!(raw(&session).len(), 5);
    assert_eq!((session.places[1].line, session.places[2].line), (Some(6), Some(6)));
    // Read as it comes, with a byte-order mark and a byte that is no text, it is the same.
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(text.replace("\"content\":\"3\"", "\"content\":\"3?\"").into_bytes());
    let at = bytes.iter().rposition(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    let reading = sessions::named("claude-code").unwrap().read.as_ref().unwrap();
    let stream = Stream { name: "s.jsonl", source: &mut &bytes[..], companions: None };
    let streamed = reading.read_stream(stream).unwrap().remove(0);
    assert_eq!(sketch(&streamed), ["u:1", "a:2", "u:3\u{fffd}", "a:4"]);
    assert_eq!(streamed.id, session.id);
    let mut found = rules(&streamed.findings);
    found.retain(|finding| *finding != ("invalid-utf8", Some(6)));
    assert_eq!(found.len() + 1, streamed.findings.len());
    assert_eq!(found, lines);
    assert_eq!(streamed.places[0].offset, 3);
    let input = Input::new("s.jsonl", &bytes).unwrap();
    let whole = sessions::read(&input, None).unwrap().remove(0);
    assert!(rules(&whole.findings).contains(&("invalid-utf8", Some(6))));
}

#[test]
fn nothing_was_said() {
    let format = sessions::named("claude-code");
    for text in ["{\"type\":\"summary\",\"summary\":\"T\",\"leafUuid\":\"x\"}\n", "{}\n", "x"] {
        let input = Input::new("s.jsonl", text.as_bytes()).unwrap();
        let error = sessions::read(&input, format).unwrap_err();
        assert!(matches!(error, rejoin_formats::ReadError::NoConversation(_)), "{text}");
    }
}

#[derive(Debug)]
struct Beside;

impl Companions for Beside {
    fn open(&self, path: &str) -> Option<Vec<u8>> {
        assert!(path.contains("/tool-results/"), "nothing else is asked for: {path}");
        (path == "/home/a b/.claude/projects/p/S/tool-results/x1.txt").then(|| b"all of it".to_vec())
    }
}

/// An output that was too long for the transcript: the model saw what the transcript has, the rest is kept beside it.
#[test]
fn a_spilled_output() {
    let preview = |name: &str| {
        format!(
            "<persisted-output>\\nOutput too large (6.6MB). Full output saved to: /home/a b/.claude/projects/p/S/{name}\\n\\nPreview (first 2KB):\\nbegin\\n</persisted-output>"
        )
    };
    let text = [
        user("u", "-", "go"),
        calls("a", "u", "m1", "c1"),
        result("r", "a", "c1", &preview("tool-results/x1.txt")),
        calls("b", "r", "m2", "c2"),
        result("q", "b", "c2", &preview("tool-results/gone.txt")),
        calls("c", "q", "m3", "c3"),
        result("t", "c", "c3", &preview("../../../secret.txt")),
    ]
    .concat();
    let mut input = Input::new("s.jsonl", text.as_bytes()).unwrap();
    let alone = sessions::read(&input, None).unwrap().remove(0);
    assert!(alone.set_aside.is_empty());
    input.companions = Some(Arc::new(Beside));
    let session = sessions::read(&input, None).unwrap().remove(0);
    assert_eq!(sketch(&session), sketch(&alone));
    assert!(sketch(&session)[2].contains("begin"));
    let aside: Vec<_> =
        session.set_aside.iter().map(|item| (item.after, item.raw().unwrap().as_str())).collect();
    assert_eq!(aside, [(3, "all of it")]);
}

/// The program stores a message that a person sends while the model is working in an attachment. The model saw it, so it is read.
#[test]
fn words_that_were_queued() {
    let queued = |uuid: &str, parent: &str, prompt: &str| {
        line(
            uuid,
            parent,
            "attachment",
            &format!(
                "\"attachment\":{{\"type\":\"queued_command\",\"prompt\":{prompt},\"commandMode\":\"prompt\"}}"
            ),
        )
    };
    let picture = r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"text","text":"see"}]"#;
    let lines = [
        user("u", "-", "go"),
        calls("a", "u", "m1", "c1"),
        result("r", "a", "c1", "one"),
        queued("q", "r", "\"and mind this\""),
        queued("p", "q", picture),
        says("b", "p", "m2", "yes"),
    ];
    let session = read(&lines.concat());
    assert_eq!(sketch(&session), ["u:go", "a:!c1", "u:?c1=one", "u:and mind this", "u:image,see", "a:yes"]);
    assert_eq!(problems(&session), []);
    assert_eq!(session.messages[3].form, Form::Text);
    let out = convert(&session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    assert!(out.body.contains("and mind this") && out.body.contains("iVBORw0KGgo="));
    // An attachment without an id, which no line can follow, written before the result: it is read after the result.
    let loose = "{\"type\":\"attachment\",\"sessionId\":\"S\",\"attachment\":{\"type\":\"queued_command\",\"prompt\":\"stop\"}}\n";
    let session = read(&[&lines[0][..], &lines[1], loose, &lines[2], &says("b", "r", "m2", "yes")].concat());
    assert_eq!(sketch(&session), ["u:go", "a:!c1", "u:?c1=one", "u:stop", "a:yes"]);
    assert_eq!(problems(&session), []);
}

/// The text that the program made of an attachment for the model is read if it has the user's role. For the program's own
/// reminders there is a finding.
#[test]
fn texts_that_were_made_of_attachments() {
    let attached = |uuid: &str, parent: &str, attachment: &str, made: &str, role: &str| {
        let rendered = format!("\"rendered\":[{made}],\"renderedRole\":\"{role}\"");
        line(uuid, parent, "attachment", &format!("\"attachment\":{attachment},{rendered}"))
    };
    let file = r#"{"type":"file","filename":"/p/a.txt","content":{"type":"text","file":{"content":"what the file says in it"}}}"#;
    let made = r#"{"content":"a file of the user was read"},{"content":[{"type":"text","text":"what the file says in it"}]}"#;
    let reminder =
        r#"{"content":"<system-reminder>\nremember the skills that you have\n</system-reminder>"}"#;
    let prompt = r#"{"type":"queued_command","prompt":"and mind this as well","commandMode":"prompt"}"#;
    let wrapped =
        r#"{"content":"<system-reminder>\nThe user sent this: and mind this as well\n</system-reminder>"}"#;
    let lines = [
        user("u", "-", "go"),
        attached("f", "u", file, made, "user"),
        attached(
            "s",
            "f",
            r#"{"type":"skill_listing","content":"the skills that there are"}"#,
            reminder,
            "system",
        ),
        attached("q", "s", prompt, wrapped, "system"),
        line("t", "q", "attachment", "\"attachment\":{\"type\":\"task_reminder\",\"content\":[]}"),
        says("b", "t", "m2", "done"),
    ];
    let session = read(&lines.concat());
    assert_eq!(
        sketch(&session),
        [
            "u:go",
            "u:a file of the user was read,what the file says in it",
            "u:and mind this as well",
            "a:done"
        ]
    );
    assert_eq!(rules(&session.findings), [("foreign-block", Some(5)), ("foreign-block", Some(3))]);
    let told: Vec<String> = session.findings.iter().map(ToString::to_string).collect();
    assert!(
        told[0].contains("1 × task_reminder: ") && told[0].contains("the transcript does not have"),
        "{told:?}"
    );
    assert!(
        told[1].contains("1 × skill_listing: ") && told[1].contains("sends their texts (`rendered`)"),
        "{told:?}"
    );
    assert_eq!(raw(&session), [lines[2].trim_end(), lines[4].trim_end()]);
    assert_eq!(problems(&session), []);
    // One text may stand without a list.
    let single =
        "\"attachment\":{\"type\":\"file\"},\"rendered\":\"a file of the user\",\"renderedRole\":\"user\"";
    let session = read(
        &[user("u", "-", "go"), line("f", "u", "attachment", single), says("b", "f", "m2", "done")].concat(),
    );
    assert_eq!(sketch(&session), ["u:go", "u:a file of the user", "a:done"]);
    // Written between a call and its result, they come after it.
    let lines = [
        user("u", "-", "go"),
        calls("a", "u", "m1", "c1"),
        attached("q", "a", prompt, wrapped, "system"),
        attached("f", "q", file, r#"{"content":"a file of the user"}"#, "user"),
        result("r", "f", "c1", "one"),
        says("b", "r", "m2", "done"),
    ];
    let session = read(&lines.concat());
    let expected =
        ["u:go", "a:!c1", "u:?c1=one", "u:and mind this as well", "u:a file of the user", "a:done"];
    assert_eq!(sketch(&session), expected);
    assert_eq!(problems(&session), []);
}

/// An error that the program reports in the model's place is never sent. Whatever else it says there is.
#[test]
fn words_that_no_model_said() {
    let synthetic = |line: String| line.replace("claude-opus", "<synthetic>");
    let failed = |line: String| line.replace("\"uuid\"", "\"isApiErrorMessage\":true,\"uuid\"");
    let session = read(
        &[
            user("u", "-", "1"),
            says("a", "u", "m1", "2"),
            synthetic(says("b", "a", "m2", "No response requested.")),
            synthetic(failed(says("c", "b", "m3", "API Error: 529"))),
            user("v", "c", "3"),
            synthetic(calls("d", "v", "m4", "c1")),
            result("r", "d", "c1", "one"),
        ]
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "a:2", "a:No response requested.", "u:3", "a:!c1", "u:?c1=one"]);
    assert_eq!(raw(&session).len(), 1);
    assert_eq!(session.context.model().as_deref(), Some("claude-opus"), "the last one that is a model");
}

/// What the program put in a person's mouth, the model heard.
#[test]
fn words_of_the_program() {
    let meta = |line: String| line.replace("\"uuid\"", "\"isMeta\":true,\"uuid\"");
    let session = read(
        &[
            meta(user("u", "-", "Caveat: …")),
            user("v", "u", "<command-name>/clear</command-name>"),
            user("w", "v", "<local-command-stdout></local-command-stdout>"),
            user("x", "w", "[Request interrupted by user]"),
        ]
        .concat(),
    );
    assert_eq!(session.messages.len(), 4);
    assert!(session.messages.iter().all(|message| message.role == Role::User));
}

#[test]
fn reasoning_knows_its_model() {
    let thinks = "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"c2ln\"}";
    let session = read(
        &[
            user("u", "-", "1"),
            model("a", "u", "m1", thinks).replace("claude-opus", "claude-haiku"),
            says("b", "a", "m1", "2"),
            user("v", "b", "3"),
            model("c", "v", "m2", thinks),
            says("d", "c", "m2", "4"),
        ]
        .concat(),
    );
    let origins: Vec<_> = session
        .messages
        .iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match &block.kind {
            BlockKind::Reasoning(reasoning) => Some((
                reasoning.origin.dialect.as_deref().unwrap(),
                reasoning.origin.model.as_deref().unwrap(),
            )),
            _ => None,
        })
        .collect();
    assert_eq!(origins, [("anthropic", "claude-haiku"), ("anthropic", "claude-opus")]);
    assert_eq!(session.context.dialect, Some(Dialect::Anthropic));
    assert_eq!(session.context.model().as_deref(), Some("claude-opus"));
    assert_eq!(session.context.before_messages, session.context.fields.len());
    let out = convert(&session, Dialect::Anthropic, Some("claude-haiku"), OnBroken::Keep).unwrap();
    assert!(!out.body.contains("thinking"), "another model: {}", out.body);
}

#[test]
fn titles() {
    let said = [user("u", "-", "1"), says("a", "u", "m1", "2")].concat();
    let summary = |title: &str, leaf: &str| {
        format!("{{\"type\":\"summary\",\"summary\":\"{title}\",\"leafUuid\":\"{leaf}\"}}\n")
    };
    let own = |kind: &str, field: &str, title: &str| {
        format!("{{\"type\":\"{kind}\",\"{field}\":\"{title}\",\"sessionId\":\"S\"}}\n")
    };
    let title = |text: String| read(&text).title().map(|title| title.to_string());
    assert_eq!(title(said.clone()), None);
    assert_eq!(title(summary("other file", "zzz") + &said), None);
    assert_eq!(title(summary("mine", "a") + &said).as_deref(), Some("mine"));
    let ai = own("ai-title", "aiTitle", "guessed");
    let custom = own("custom-title", "customTitle", "given");
    assert_eq!(title(said.clone() + &ai + &summary("mine", "a")).as_deref(), Some("guessed"));
    assert_eq!(title(said.clone() + &custom + &ai).as_deref(), Some("given"));
    let again = own("custom-title", "customTitle", "given later");
    assert_eq!(title(said + &ai + &custom + &again).as_deref(), Some("given later"));
}

/// A message that does not say who speaks is told by its line.
#[test]
fn a_message_without_a_role() {
    let session = read(
        &[
            user("u", "-", "1").replace("\"role\":\"user\",", ""),
            says("a", "u", "m1", "2").replace("\"role\":\"assistant\",", ""),
            says("b", "a", "m2", "3").replace("\"role\":\"assistant\"", "\"role\":\"\""),
            line("c", "b", "assistant", "\"message\":{\"content\":null}"),
        ]
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "a:2", "a:3", "a:"]);
    assert_eq!(session.findings, []);
}
