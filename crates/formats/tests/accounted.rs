//! Shapes of conversations that are not read, or not wholly: each is refused in words, or reported, or read under the right
//! roles. None is called sound with words lost.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Dialect, Input, ReadError, Session, convert, sessions};
use rejoin_record::Role;
use rejoin_view::{OnBroken, Rule, repair};
use testkit::fuzz::accounted;

fn read(text: &str) -> Result<Vec<Session>, ReadError> {
    sessions::read(&Input::new("file.jsonl", text.as_bytes())?, None)
}

/// Whether a person would be told that everything is fine.
fn is_sound(session: &Session) -> bool {
    let repaired = repair(&session.history(), OnBroken::Keep);
    session.findings.iter().chain(&repaired.findings).all(|finding| !finding.is_problem())
}

fn refusal(text: &str) -> String {
    match read(text) {
        Err(error) => error.to_string(),
        Ok(sessions) => panic!("{text}\nwas read: {:#?}", sessions[0].messages),
    }
}

const OPENCODE_MESSAGE: &str = r#"{"id":"msg_aafd0625f001","sessionID":"ses_5502f9da1ffe","role":"user","time":{"created":1763940254028},"summary":{"title":"Hello","diffs":[]},"agent":"build","model":{"providerID":"opencode","modelID":"grok-code"}}"#;

const OPENCODE_PART: &str = r#"{"id":"prt_aafd69850002","sessionID":"ses_5502967b0ffe","messageID":"msg_aafd69850001","type":"text","text":"Please list the files in this folder"}"#;

const CODEX_EVENTS: &str = r#"{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"0199","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","originator":"codex_cli_rs","cli_version":"0.40.0"}}
{"timestamp":"2026-01-01T00:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"Please list the files in this folder"}}
{"timestamp":"2026-01-01T00:00:02.000Z","type":"event_msg","payload":{"type":"agent_message","message":"There is one file in this folder."}}"#;

const ACP: &str = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is one file in this folder."}}}}"#;

#[test]
fn well_known_formats_are_refused_by_name() {
    for (text, words) in [
        (OPENCODE_MESSAGE, "an opencode message without its parts"),
        (OPENCODE_PART, "a part of an opencode message"),
        (CODEX_EVENTS, "a Codex rollout that holds events only"),
        (ACP, "an Agent Client Protocol stream"),
    ] {
        let said = refusal(text);
        assert!(said.contains(&format!("it looks like {words}")), "{said}\n{text}");
        assert!(said.contains("which rejoin does not read yet"), "{said}");
    }
}

/// What was said is said again in each shape, with a marker of who said it.
const USER: &str = "the person asked about the files";
const MODEL: &str = "the model told about the files";

/// Shapes of the same two messages. `U` and `A` stand for what was said.
const SHAPES: &[&str] = &[
    r#"[{"author":"user","text":"U"},{"author":"assistant","text":"A"}]"#,
    r#"[{"sender":"human","message":"U"},{"sender":"bot","message":"A"}]"#,
    r#"[{"from":"human","value":"U"},{"from":"gpt","value":"A"}]"#,
    r#"{"conversations":[{"from":"human","value":"U"},{"from":"gpt","value":"A"}]}"#,
    r#"[{"speaker":"user","utterance":"U"},{"speaker":"model","utterance":"A"}]"#,
    r#"[{"role":"user","body":"U"},{"role":"assistant","body":"A"}]"#,
    r#"[{"role":"user","text":"U"},{"role":"assistant","text":"A"}]"#,
    r#"[{"role":"user","parts":[{"type":"text","text":"U"}]},{"role":"assistant","parts":[{"type":"text","text":"A"}]}]"#,
    r#"[{"role":"user","message":{"content":"U"}},{"role":"assistant","message":{"content":"A"}}]"#,
    r#"[{"message":{"role":"user","content":"U"}},{"message":{"role":"assistant","content":"A"}}]"#,
    r#"[{"type":"user","content":"U"},{"type":"model","content":"A"}]"#,
    r#"[{"type":"user","content":"U"},{"role":"gemini","content":"A"}]"#,
    r#"[{"role":"user","content":"U"},{"type":"model","content":"A"}]"#,
    r#"[{"role":"user","content":"U"},{"role":"gemini","content":"A"}]"#,
    r#"[{"role":"user","content":"U"},{"role":"narrator","content":"A"}]"#,
    r#"[{"role":"user","content":"U"},{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"A"}}]"#,
    r#"[{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"U"}},{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"A"}}]"#,
    r#"{"messages":{"0":{"role":"user","content":"U"},"1":{"role":"assistant","content":"A"}}}"#,
    r#"{"0":{"role":"user","content":"U"},"1":{"role":"assistant","content":"A"}}"#,
    r#"{"messages":[{"role":"user","content":"U"}],"responses":[{"role":"assistant","content":"A"}]}"#,
    r#"{"messages":[{"role":"user","content":"go on"}],"history":[{"role":"user","content":"U"},{"role":"assistant","content":"A"}]}"#,
    r#"{"history":[{"role":"user","content":"U"}],"replies":[{"author":"bot","text":"A"}]}"#,
    r#"[{"user":"U","assistant":"A"}]"#,
    r#"[{"prompt":"U","completion":"A"}]"#,
    r#"[{"role":"user","content":"go"},{"user":"U","assistant":"A"}]"#,
    r#"{"data":{"messages":[{"role":"user","content":"U"},{"role":"assistant","content":"A"}]}}"#,
    r#"[[{"role":"user","content":"U"}],[{"role":"assistant","content":"A"}]]"#,
    r#"[{"role":"user","content":{"type":"text","value":"U"}},{"role":"assistant","content":{"type":"text","value":"A"}}]"#,
    r#"[{"role":"user","content":[{"kind":"text","body":"U"}]},{"role":"assistant","content":[{"kind":"text","body":"A"}]}]"#,
    r#"[{"role":"user","content":[["U"]]},{"role":"assistant","content":[["A"]]}]"#,
    r#"[{"role":{"type":"user"},"content":"U"},{"role":{"type":"assistant"},"content":"A"}]"#,
    r#"[{"Role":"user","Content":"U"},{"Role":"assistant","Content":"A"}]"#,
    r#"[{"role":"USER","content":"U"},{"role":"Assistant","content":"A"}]"#,
    r#"[{"content":"U"},{"content":"A"}]"#,
    r#"["U","A"]"#,
    r#"[{"role":"user","content":"go","display":"U"},{"role":"assistant","content":"ok","hidden":{"note":"A"}}]"#,
    r#"[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":["U"],"answer":"A"}]"#,
    r#"[{"role":"user","content":[{"type":"text","text":"U"},{"type":"message","role":"assistant","content":"A"}]}]"#,
    r#"[{"role":"user","content":"U"},{"role":"assistant","name":"A"},{"role":"user","content":"go on"}]"#,
    r#"{"model":"m","messages":[{"role":"user","content":"U"}],"completion":"A"}"#,
    r#"{"messages":[{"role":"assistant","content":"A"}],"messages":[{"role":"user","content":"U"}]}"#,
    r#"{"model":"m","input":[{"role":"assistant","content":"A"}],"input":[{"role":"user","content":"U"}]}"#,
    r#"{"messages":[["user","U"],["assistant","A"]]}"#,
    r#"{"messages":[{"user":"U"},{"assistant":"A"}]}"#,
    r#"[{"role":1,"content":"U"},{"role":2,"content":"A"}]"#,
    r#"[{"content":"U","is_user":true},{"content":"A","is_user":false}]"#,
    r#"{"role":"user","content":"U","children":[{"role":"assistant","content":"A"}]}"#,
    r#"{"conversation":[{"role":"user","text":"U"},{"role":"assistant","text":"A"}]}"#,
    r#"{"runs":[{"messages":[{"role":"user","content":"U"}]},{"steps":[{"role":"assistant","content":"A"}]}]}"#,
    r#"[{"messages":[{"role":"user","content":"U"}]},{"role":"assistant","content":"A"}]"#,
    r#"{"mapping":{"a":{"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["U"]}}},"b":{"message":{"author":{"role":"assistant"},"content":{"content_type":"text","parts":["A"]}}}}}"#,
    r#"{"contents":[{"role":"user","parts":[{"text":"U"}]},{"role":"gemini","parts":[{"text":"A"}]}]}"#,
    r#"{"contents":[{"role":"user","content":[{"text":"U"}]},{"role":"model","items":[{"text":"A"}]}]}"#,
    r#"{"contents":[{"role":"user","parts":[{"text":"go","comment":"U"}]},{"role":"model","parts":[{"words":"A"}]}]}"#,
    r#"{"model":"m","input":[{"type":"message","role":"user","text":"U"},{"type":"message","role":"assistant","text":"A"}]}"#,
    r#"{"model":"m","input":[{"type":"user","content":"U"},{"type":"assistant","content":"A"}]}"#,
    r#"{"model":"m","input":[{"type":"user_message","content":"U"},{"type":"agent_message","content":"A"}]}"#,
    r#"{"model":"m","input":[{"type":"message","content":"U"},{"type":"message","content":"A"}]}"#,
    "{\"role\":\"user\",\"content\":\"U\"}\n{\"event\":\"reply\",\"words\":\"A\"}",
    "{\"role\":\"user\",\"content\":\"U\"}\n{\"type\":\"ai\",\"message\":{\"content\":\"A\"}}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}\n{\"messages\":{\"reply\":\"A\"}}",
    "{\"timestamp\":\"t\",\"items\":[{\"role\":\"user\",\"content\":\"U\"}],\"reply\":\"A\"}",
    "{\"timestamp\":\"t\",\"items\":[{\"role\":\"user\",\"content\":\"U\"}]}\n{\"timestamp\":\"t\",\"entries\":[{\"role\":\"assistant\",\"content\":\"A\"}]}",
    "{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"U\"}]}}\n{\"timestamp\":\"t\",\"type\":\"answer_item\",\"payload\":{\"text\":\"A\"}}",
    "{\"type\":\"user\",\"uuid\":\"a\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"U\"}}\n{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"A\"}}",
    "{\"role\":\"user\",\"content\":\"U\"}\n{\"role\":\"assistant\",\"delta\":{\"content\":\"A\"}}",
    "{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"U\"}]}}\n{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{\"item\":{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"A\"}}}",
    "{\"type\":\"user\",\"uuid\":\"a\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"U\"}}\n{\"type\":\"reply\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"sessionId\":\"s\",\"text\":\"A\"}",
    "{\"type\":\"user\",\"uuid\":\"a\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"U\"}}\n{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"sessionId\":\"s\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"ok\",\"more\":\"A\"}]}}",
];

#[test]
fn no_shape_is_sound_with_words_lost_or_under_another_role() {
    for shape in SHAPES {
        let text = shape.replace("\"U\"", &format!("\"{USER}\"")).replace("\"A\"", &format!("\"{MODEL}\""));
        let Ok(sessions) = read(&text) else { continue };
        assert_eq!(accounted::unaccounted(&text, &sessions), [""; 0], "{text}");
        let marks = [(USER, Role::User), (MODEL, Role::Assistant)];
        assert_eq!(accounted::misattributed(&sessions, &marks), [""; 0], "{text}");
        // Sound means that each is present, under its own role.
        let said = |words: &str, role: &Role| {
            let messages = sessions.iter().flat_map(|session| &session.messages);
            let mut own = messages.filter(|message| message.role == *role);
            own.any(|message| format!("{:?}", message.blocks).contains(words))
        };
        let whole = marks.iter().all(|(words, role)| said(words, role));
        assert!(whole || !sessions.iter().all(is_sound), "{text}\n{:#?}", sessions[0].messages);
    }
}

#[test]
fn a_clear_word_for_the_model_is_the_models() {
    for (shape, role) in [
        (r#"[{"role":"user","content":"hi"},{"role":"gemini","content":"W"}]"#, Role::Assistant),
        (r#"[{"role":"user","content":"hi"},{"type":"model","content":"W"}]"#, Role::Assistant),
        (
            r#"[{"role":"user","content":"hi"},{"sessionUpdate":"agent_message_chunk","content":"W"}]"#,
            Role::Assistant,
        ),
        (r#"[{"role":"assistant","content":"hi"},{"sender":"Human","content":"W"}]"#, Role::User),
        (
            r#"[{"role":"user","content":"hi"},{"role":"narrator","content":"W"}]"#,
            Role::Other("narrator".into()),
        ),
        (
            r#"[{"role":"user","content":"hi"},{"type":"side_note","content":"W"}]"#,
            Role::Other("side_note".into()),
        ),
    ] {
        let session = read(shape).unwrap().remove(0);
        assert_eq!(session.messages[1].role, role, "{shape}");
        let known = !matches!(role, Role::Other(_));
        assert_eq!(is_sound(&session), known, "{shape}: a word that is not known is never passed over");
    }
}

#[test]
fn an_unread_field_is_a_warning_that_names_it() {
    let text = r#"{"model":"m","messages":[{"role":"user","content":"a question of several words"},
        {"role":"user","content":"hello there my dear friend","hidden":{"note":["the build is broken again"]},"id":"m_17"}]}"#;
    let session = read(text).unwrap().remove(0);
    let found: Vec<_> = session.findings.iter().filter(|finding| finding.rule == Rule::UnreadText).collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at.message, found[0].severity.name()), (Some(1), "warning"));
    assert_eq!(found[0].detail.as_deref(), Some("field `hidden.note`"));
    assert!(session.messages[1].native.as_ref().unwrap().raw.as_str().contains("broken again"), "it is kept");
    // The same words again are read already.
    let twice =
        r#"[{"role":"user","content":"hello there my dear friend","display":"hello there my dear friend"}]"#;
    assert!(is_sound(&read(twice).unwrap().remove(0)));
}

#[test]
fn a_body_of_a_named_format_is_reported_and_not_refused() {
    let text = r#"{"model":"m","messages":[{"role":"user","text":"all of it stands under another name"}]}"#;
    assert!(matches!(read(text), Err(ReadError::MostlyUnread { .. })));
    let input = Input::new("body.json", text.as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named("openai-chat")).unwrap().remove(0);
    assert!(session.findings.iter().any(|finding| finding.rule == Rule::UnreadText));
}

#[test]
fn a_short_word_in_a_message_without_content_counts() {
    let text = r#"[{"role":"user","content":"hello there my dear friend"},{"role":"assistant","text":"hi","id":"m1"}]"#;
    assert!(!is_sound(&read(text).unwrap().remove(0)));
}

/// Every combination of what programs call the speaker and the words, and of what they put around them.
/// However short a text is, it may be an answer if the name of its field says that someone said it.
#[test]
fn a_short_text_under_a_name_of_speech_counts() {
    let message = |more: &str| {
        let asked = r#"{"role":"assistant","content":"Shall I delete the old files?"}"#;
        format!(r#"[{{"role":"user","content":"clean up here please"}},{asked},{{"role":"user",{more}}}]"#)
    };
    for (more, field) in [
        (r#""content":"hm","reply":"yes, do it""#, "reply"),
        (r#""content":"hm","Text":"no""#, "Text"),
        (r#""content":"hm","extra":{"parts":["wait","a bit"]}"#, "extra.parts"),
        (r#""content":[{"type":"text","text":"hm","message":"stop"}]"#, "content.message"),
    ] {
        let session = read(&message(more)).unwrap().remove(0);
        let found: Vec<_> =
            session.findings.iter().filter(|finding| finding.rule == Rule::UnreadText).collect();
        assert_eq!(found.len(), 1, "{more}");
        assert_eq!(
            (found[0].at.message, found[0].detail.as_deref()),
            (Some(2), Some(&*format!("field `{field}`")))
        );
    }
    // Ids, kinds and paths are no words; neither are names of fields, nor what has no letter.
    for more in [
        r#""content":"hm","id":"m_17","status":"all done","path":"/a/b c/d","tags":["big","blue"]"#,
        r#""content":"hm","text":"","body":"...","output":{"size":3,"kind":"png"}"#,
    ] {
        assert!(is_sound(&read(&message(more)).unwrap().remove(0)), "{more}");
    }
    // A line of an unknown type may hold an answer, too.
    let line =
        |kind: &str, text: &str| format!("{{\"timestamp\":\"t\",\"type\":\"{kind}\",\"payload\":{text}}}\n");
    let said =
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"clean up here please"}]}"#;
    let rollout = line("response_item", said) + &line("reply_item", r#"{"text":"yes, do it"}"#);
    let session = read(&rollout).unwrap().remove(0);
    assert!(
        session.findings.iter().any(|finding| finding.rule == Rule::UnreadText && finding.at.line == Some(2))
    );
}

#[test]
fn no_invented_shape_is_sound_with_words_lost_or_under_another_role() {
    const SPEAKER: &[&str] = &[
        "role", "author", "sender", "from", "speaker", "type", "kind", "who", "actor", "name", "source",
        "Role",
    ];
    const SPEAKERS: &[(&str, &str)] = &[
        ("user", "assistant"),
        ("human", "ai"),
        ("User", "Assistant"),
        ("user", "gemini"),
        ("user", "model"),
        ("customer", "agent"),
        ("me", "bot"),
        ("person", "helper"),
        ("user_message", "assistant_message"),
        ("prompt", "completion"),
    ];
    // `W` stands for the words.
    const WORDS: &[(&str, &str)] = &[
        ("content", "\"W\""),
        ("text", "\"W\""),
        ("message", "\"W\""),
        ("value", "\"W\""),
        ("utterance", "\"W\""),
        ("parts", "[{\"text\":\"W\"}]"),
        ("parts", "[\"W\"]"),
        ("content", "[{\"type\":\"text\",\"text\":\"W\"}]"),
        ("content", "[{\"type\":\"paragraph\",\"body\":\"W\"}]"),
        ("content", "{\"parts\":[\"W\"]}"),
        ("content", "{\"role\":\"user\",\"text\":\"W\"}"),
        ("message", "{\"content\":\"W\"}"),
        ("message", "{\"role\":\"assistant\",\"content\":\"W\"}"),
        ("data", "{\"text\":\"W\"}"),
        ("payload", "{\"type\":\"message\",\"content\":\"W\"}"),
    ];
    // `1` and `2` stand for the two messages.
    const AROUND: &[&str] = &[
        "[1,2]",
        "{\"messages\":[1,2]}",
        "{\"model\":\"m\",\"input\":[1,2]}",
        "{\"contents\":[1,2]}",
        "{\"history\":[1,2]}",
        "{\"conversation\":[1,2]}",
        "{\"turns\":[1,2]}",
        "{\"messages\":{\"a\":1,\"b\":2}}",
        "[{\"messages\":[1,2]}]",
        "{\"messages\":[1],\"more\":[2]}",
        "[{\"role\":\"user\",\"content\":\"go\"},1,2]",
        "1\n2\n",
        "{\"role\":\"user\",\"content\":\"go\"}\n1\n2\n",
        "{\"timestamp\":\"t\",\"items\":[1,2]}\n",
        "{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":1}\n{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":2}\n",
        "{\"type\":\"user\",\"uuid\":\"a\",\"sessionId\":\"s\",\"message\":1}\n{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"sessionId\":\"s\",\"message\":2}\n",
    ];
    let (mut shapes, mut refused, mut sound) = (0, 0, 0);
    for (speaker, (person, model)) in
        SPEAKER.iter().flat_map(|speaker| SPEAKERS.iter().map(move |pair| (speaker, pair)))
    {
        for ((field, words), around) in
            WORDS.iter().flat_map(|words| AROUND.iter().map(move |around| (words, around)))
        {
            // A field beside the messages is a setting, unless it clearly names a speaker.
            let named = !["actor", "name", "source", "Role"].contains(speaker)
                && ["assistant", "ai", "Assistant", "gemini", "model", "agent", "bot"].contains(model);
            if around.contains("more") && !named {
                continue;
            }
            let item = |who: &str, said: &str| {
                format!("{{\"{speaker}\":\"{who}\",\"{field}\":{}}}", words.replace('W', said))
            };
            let text = around.replace('1', "\u{1}").replace('2', "\u{2}");
            let text = text.replace('\u{1}', &item(person, USER)).replace('\u{2}', &item(model, MODEL));
            shapes += 1;
            let Ok(sessions) = read(&text) else {
                refused += 1;
                continue;
            };
            assert_eq!(accounted::unaccounted(&text, &sessions), [""; 0], "{text}");
            if !sessions.iter().all(is_sound) {
                continue;
            }
            sound += 1;
            let messages = || sessions.iter().flat_map(|session| &session.messages);
            for (said, role) in [(USER, Role::User), (MODEL, Role::Assistant)] {
                let holds = |message: &&std::sync::Arc<rejoin_record::Message>| {
                    format!("{:?}", message.blocks).contains(said)
                };
                let under: Vec<_> = messages().filter(holds).map(|message| message.role.clone()).collect();
                assert_eq!(under, [role], "{said}\n{text}");
            }
        }
    }
    assert!(sound > 100 && refused > 100, "{shapes} shapes, {refused} refused, {sound} sound");
}

/// A result without an id takes over the id and the name of its call. Their places in the item of the call say nothing
/// about the item of the result.
#[test]
fn the_place_of_a_call_hides_nothing_in_its_result() {
    let converted = r#"{"contents":[{"role":"user","parts":[{"text":"words ⟦u1⟧"}]},{"role":"model","parts":[{"functionCall":{"name":"read"},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="},{"functionCall":{"id":"c1","name":"run_tests","args":{"k":"⟦k2⟧"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"[\"⟦r3⟧\\ud83d!\"]"}}},{"functionResponse":{"id":"c1","name":"run_tests","response":{"output":["{\"content\":[{\"type\":\"text\",\"text\":\"words ⟦r4⟧\"}]}","words ⟦r5⟧","[image unavailable: the data is empty]"]}}}]}]}"#;
    let input = Input::new("contents.json", converted.as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named("gemini")).unwrap().remove(0);
    assert_eq!(session.findings, []);
    // Two responses inside another object: they are read, or reported.
    let nested = r#"[{"role":"user","parts":[{"functionResponse":{"msg":{"willContinue":false,"response":"words ⟦r1⟧"}}}]},{"role":"user","parts":[{"text":"words ⟦u2⟧ and then some more"}]},{"role":"model","parts":[{"text":"words ⟦a3⟧ and then some more"},{"functionCall":{"id":"c1","name":"run_tests","args":{"k":"⟦k4⟧","a":1}},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"msg":{"id":"c1","name":"run_tests","response":{"output":"\u0000⟦r5⟧\u001b[31m and then some more"}}}},{"functionResponse":{"msg":{"id":"c1","name":"run_tests","response":{"output":"\u0000⟦r6⟧\u001b[31m and then some more"}}}}]},{"role":"user","parts":[{"text":"words ⟦u7⟧ and then some more"}]},{"role":"model","parts":[{"functionCall":{"name":"read","args":{"k":"⟦k8⟧"}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"read","args":"{\"k\":\"⟦k9⟧\"}"}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"words ⟦r10⟧ and then some more"}}},{"functionResponse":{"name":"read","response":{"output":"words ⟦r11⟧ and then some more"}}}]},{"role":"user","parts":[{"text":"words ⟦u12⟧ and then some more"}]},{"role":"model","parts":[{"functionCall":{"name":"read","args":{"k":"⟦k13⟧","a":2}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"read","args":{"k":"⟦k14⟧","a":1}}},{"functionCall":{"name":"read","args":{"k":"⟦k15⟧"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"stdout":"words ⟦r16⟧","exit_code":0}}},{"text":"words ⟦u17⟧ and then some more"},{"functionResponse":{"name":"read","response":{"content":[{"type":"text","text":"words ⟦r18⟧ and then some more"}]}}},{"functionResponse":{"name":"read","response":"words ⟦r19⟧"}}]},{"role":"user","parts":[]}]"#;
    let input = Input::new("contents.json", nested.as_bytes()).unwrap();
    let sessions = sessions::read(&input, None).unwrap();
    assert_eq!(testkit::fuzz::accounted::unaccounted(nested, &sessions), [""; 0]);
}

/// What a file keeps beside the messages of a conversation is bookkeeping, unless it is instructions or an answer.
#[test]
fn instructions_and_answers_around_a_conversation_are_reported() {
    let messages = r#""messages":[{"role":"user","content":"a question that is long enough to be the most of it, and then some more of it"}]"#;
    for name in ["system", "response", "system_prompt", "instructions"] {
        let text = format!(r#"[{{"{name}":"You are a pirate and never tell.",{messages}}}]"#);
        let session = read(&text).unwrap().remove(0);
        assert!(session.findings.iter().any(|finding| finding.rule == Rule::UnreadText), "{name}");
    }
    let scored =
        read(&format!(r#"[{{"score":1,"task":"count the files in a folder",{messages}}}]"#)).unwrap();
    assert!(is_sound(&scored[0]), "{:?}", scored[0].findings);
}

/// A program that stores its messages adds its own fields. A request made from them has only fields that the API accepts.
#[test]
fn fields_of_a_stored_message_are_no_part_of_a_request() {
    let line = r#"{"role":"user","content":"a question that is long enough","turn_idx":4,"name":"ada"}"#;
    let session = read(line).unwrap().remove(0);
    let out = convert(&session, Dialect::OpenAiChat, None, OnBroken::Keep).unwrap();
    assert_eq!(
        out.body,
        r#"{"messages":[{"role":"user","content":"a question that is long enough","name":"ada"}]}"#
    );
    assert!(out.findings.iter().any(|finding| finding.rule == Rule::UnknownField));
    // In a request they are the caller's.
    let body = format!(r#"{{"model":"m","messages":[{line}]}}"#);
    let session = read(&body).unwrap().remove(0);
    assert_eq!(convert(&session, Dialect::OpenAiChat, None, OnBroken::Keep).unwrap().body, body);
}

/// Only calls make a message without a role the model's, not whatever stands under their name.
#[test]
fn a_list_of_words_under_the_name_of_calls_calls_nothing() {
    let text = r#"{"model":"m","input":[{"role":"assistant","content":"What shall I do for you?"},{"tool_calls":["message"],"content":"please count the files"}]}"#;
    let input = Input::new("body.json", text.as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named("openai-responses")).unwrap().remove(0);
    assert_eq!(accounted::misattributed(&[session], &[("count the files", Role::User)]), [""; 0]);
}

/// The file ends inside a field after the messages. That field is no setting, and its words are kept.
#[test]
fn a_field_that_was_cut_off_is_set_aside() {
    let message = r#"[{"role":"user","content":"hi"}]"#;
    let item = r#"[{"type":"message","role":"user","content":"hi"}]"#;
    for (list, own) in
        [("messages", message), ("input", item), ("contents", r#"[{"role":"user","parts":[{"text":"hi"}]}]"#)]
    {
        let text = format!(r#"{{"{list}":{own},"notes":[{{"of":"words that nobody may lose"}}"#);
        let session = read(&text).unwrap().remove(0);
        let kept: Vec<&str> =
            session.set_aside.iter().filter_map(|item| Some(item.raw()?.as_str())).collect();
        assert_eq!(kept, [r#""notes":[{"of":"words that nobody may lose"}"#], "{list}");
        let rules: Vec<&str> = session.findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, ["damaged-entry"], "{list}");
    }
}

/// Two entries of a record have one id: the first counts, and the other one is kept.
#[test]
fn an_entry_that_takes_the_id_of_another_is_set_aside() {
    let session = read(r#"[{"role":"user","content":"one"}]"#).unwrap().remove(0);
    let other = read(r#"[{"role":"user","content":"two"}]"#).unwrap().remove(0);
    let lines = |session: &Session| -> Vec<String> {
        session
            .to_entries(rejoin_record::Timestamp::UNIX_EPOCH)
            .iter()
            .map(rejoin_record::Entry::to_line)
            .collect()
    };
    let (own, other) = (lines(&session), lines(&other));
    let id = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let forged = other[1].replace(&id(&other[1]), &id(&own[1]));
    let text = format!("{}\n{}\n{forged}\n{{\n", own[0], own[1]);
    let again = read(&text).unwrap().remove(0);
    assert_eq!(again.messages.len(), 1);
    assert_eq!(again.messages[0].content().as_deref(), Some("one"));
    let kept = again.set_aside.iter().filter_map(|item| item.raw());
    assert!(kept.into_iter().any(|text| text.contains("two")), "{:?}", again.set_aside);
}

/// A message of Inspect may refer to an attachment under a name that the reader does not know. That is no text; what follows it is.
#[test]
fn words_after_a_reference_are_reported() {
    for (msg, is_reported) in
        [("attachment://0123abcd", false), ("attachment://0123abcd and these words", true)]
    {
        let text = format!(
            r#"{{"version":2,"eval":{{"task":"t"}},"samples":[{{"id":1,"epoch":1,"messages":[{{"id":"i1","role":"user","content":"Please count all the files in this folder and in those below it, and tell me how many there are"}},{{"id":"i2","role":"assistant","content":"Two.","msg":"{msg}"}}],"attachments":{{"0123abcd":"ATTACHED text that is long"}}}}]}}"#
        );
        let input = Input::new("log.json", text.as_bytes()).unwrap();
        let session = sessions::read(&input, sessions::registry::named("inspect")).unwrap().remove(0);
        let reported = session.findings.iter().any(|finding| finding.rule == Rule::UnreadText);
        assert_eq!(reported, is_reported, "{msg}: {:?}", session.findings);
    }
}

/// An event of Codex that no known version writes may say what no item says. One that repeats an item is no loss.
#[test]
fn unknown_events_of_codex_are_reported_unless_an_item_says_the_same() {
    let (meta, events) = CODEX_EVENTS.split_once('\n').unwrap();
    let item = r#"{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Please list the files in this folder"}]}}"#;
    let (repeated, answer) = events.split_once('\n').unwrap();
    for (event, known, expected) in
        [(answer, "agent_message", vec![Some(3)]), (repeated, "user_message", vec![]), (answer, "", vec![])]
    {
        let event = if known.is_empty() { event.to_owned() } else { event.replace(known, "spoken_reply") };
        let session = read(&format!("{meta}\n{item}\n{event}\n")).unwrap().remove(0);
        let unread = session.findings.iter().filter(|finding| finding.rule == Rule::UnreadText);
        assert_eq!(unread.map(|finding| finding.at.line).collect::<Vec<_>>(), expected, "{event}");
        assert_eq!(session.messages.len(), 1);
    }
}
