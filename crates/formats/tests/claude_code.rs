//! Claude Code transcripts at large: real ones, used where they lie, and arbitrary ones. Says so when the real ones are not
//! there. What each case becomes is in `claude_code_cases`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{collections::HashMap, fs, path::Path};

use proptest::{collection::vec, prelude::*, sample::select};
use rejoin_formats::{
    Dialect, Input, Session, convert,
    session::{Aside, Detail},
    sessions::{self, Writing},
};
use rejoin_record::{
    Message, Timestamp,
    json::{Doc, Value},
};
use rejoin_view::OnBroken;
use testkit::{bodies, corpus};

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

/// Files whose counts differ from those of the simple counter that made the corpus, by the reason: orphans, unanswered calls,
/// lines that cannot be read, and parts of the names of the files.
const DIFFERENCES: &[(&str, [u64; 3], &str)] = &[
    (
        "the orphan belongs to the conversation before; this one begins at another root",
        [0, 1, 0],
        "d730b4f857",
    ),
    (
        "the orphan belongs to the conversation before; this one begins at another root",
        [0, 0, 0],
        "731ef847c5",
    ),
    (
        "the call's line repeats the id of another one and is set aside",
        [0, 0, 0],
        "af5cd60a7f d6093260b9 f70b144cae fab69eb61f",
    ),
    ("the result has no id and is in a message of the model", [0, 1, 0], "1307def8ac 59d3812dc5"),
    ("two more lines have no message that could be read", [0, 2, 5], "76597bb6c0"),
    ("one more line has no message that could be read", [0, 0, 4], "ac635601f5"),
];

/// Files that the counter took for transcripts: another tool's, with Gemini's messages in lines that look alike.
const NOT_OURS: &[&str] = &["7905b7a4c4", "eacfd23205"];

/// Every transcript of the corpus, with what the counter found in it.
fn transcripts(folder: &Path) -> Vec<(Input, serde_json::Value)> {
    let rows = fs::read(folder.join("ATTRIBUTION.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&rows).unwrap();
    let found = rows.into_iter().filter(|row| row["format"] == "claude").filter_map(|row| {
        let name = row["file"].as_str().unwrap().to_owned();
        let bytes = fs::read(folder.join(&name)).unwrap();
        let own = !NOT_OURS.iter().any(|part| name.contains(part));
        own.then(|| (Input::new(name, &bytes).unwrap(), row))
    });
    found.collect()
}

fn read(input: &Input) -> Session {
    let mut found = sessions::read(input, sessions::named("claude-code")).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn written(session: &Session, policy: OnBroken) -> String {
    let format = sessions::named("claude-code").unwrap();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let writing = Writing { model: None, now, directory: "/work" };
    sessions::write(session, format, policy, &writing).unwrap().content.into_text().unwrap()
}

fn read_text(text: &str) -> Session {
    read(&Input::new("written.jsonl", text.as_bytes()).unwrap())
}

/// The messages of the request that a session becomes: who speaks, and each block. A text is a text, however it is written;
/// marks for a cache are the request's own affair. Ids that would mislead Claude Code have a dash in a transcript.
fn request(session: &Session, policy: OnBroken) -> Vec<Vec<String>> {
    fn block(value: Value<'_>) -> String {
        let fields = value.fields().filter(|(key, _)| !key.is_str("cache_control"));
        let field = |(key, value): (Value<'_>, Value<'_>)| {
            let inside: Vec<String> = value.items().map(block).collect();
            let is_id = key.is_str("id") || key.is_str("tool_use_id");
            let value = value.raw().replace(['\n', '\r'], " ");
            let parts = value.split(['-', '_']).filter(|part| !part.is_empty());
            let value = if is_id { parts.collect::<Vec<_>>().join("_") } else { value };
            format!("{}:{}", key.raw(), if inside.is_empty() { value } else { inside.join(",") })
        };
        match value.get("text").filter(|_| value.get("type").is_some_and(|kind| kind.is_str("text"))) {
            Some(text) => text.as_str().unwrap().into_owned(),
            None => fields.map(field).collect::<Vec<_>>().join(","),
        }
    }
    let out = convert(session, Dialect::Anthropic, None, policy).unwrap();
    let doc = Doc::parse(&out.body).unwrap();
    let message = |message: Value<'_>| {
        let content = message.get("content").unwrap();
        let mut all = vec![message.get("role").unwrap().raw().to_owned()];
        all.extend(content.as_str().map(std::borrow::Cow::into_owned));
        all.extend(content.items().map(block));
        all
    };
    doc.root().unwrap().get("messages").unwrap().items().map(message).collect()
}

/// The source items of a message.
fn items(message: &Message) -> Vec<String> {
    let native = message.native.as_ref().unwrap();
    if native.items.is_empty() {
        return vec![native.raw.as_str().to_owned()];
    }
    native.items.iter().map(|item| item.span.of(native.raw.as_str()).unwrap().to_owned()).collect()
}

/// Everything that a session keeps of its source.
fn kept(session: &Session) -> Vec<String> {
    let mut all: Vec<String> = session.messages.iter().flat_map(|message| items(message)).collect();
    for aside in &session.set_aside {
        match &aside.what {
            Aside::Raw(text) | Aside::Unknown(text) => all.push(text.to_string()),
            Aside::Hidden(message, _) => all.extend(items(message)),
            _ => {}
        }
    }
    all
}

/// Every line is found again, once; a line of several pieces, piece by piece.
fn nothing_is_lost(text: &str, session: &Session) -> Result<(), String> {
    let mut pieces: HashMap<String, usize> = HashMap::new();
    for piece in kept(session) {
        *pieces.entry(piece).or_default() += 1;
    }
    let mut rest = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match pieces.get_mut(line).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => rest.push_str(line),
        }
    }
    let left = pieces.into_iter().filter(|(_, count)| *count > 0);
    let mut bytes = 0;
    for (piece, count) in left {
        bytes += piece.len() * count;
        if !rest.contains(&piece) {
            return Err(format!("not in the source: {piece}"));
        }
    }
    let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    if bytes < solid(&rest) { Err(format!("lost some of {rest}")) } else { Ok(()) }
}

fn found(session: &Session, rules: &[&str]) -> u64 {
    let out = convert(session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    out.findings.iter().filter(|finding| rules.contains(&finding.rule.name())).count() as u64
}

/// Orphans, unanswered calls and unreadable lines of real sessions are those that a simple counter finds, or the difference
/// is known.
#[test]
fn counts_agree_with_the_corpus() {
    let Some(folder) = corpus::folder() else { return };
    let transcripts = transcripts(&folder);
    assert!(transcripts.len() >= 50, "{} transcripts", transcripts.len());
    for (input, row) in transcripts {
        let session = read(&input);
        let count = |name: &str| row[name].as_u64().unwrap_or(0);
        let counted = [count("orphan"), count("unans_tail") + count("unans_mid"), count("bad_line")];
        let ours = [
            found(&session, &["orphan-result"]),
            found(&session, &["unanswered-call"]),
            found(&session, &["damaged-entry", "torn-tail"]),
        ];
        let known =
            DIFFERENCES.iter().find(|(.., parts)| parts.split(' ').any(|part| input.name.contains(part)));
        assert_eq!(ours, known.map_or(counted, |(_, ours, _)| *ours), "{}", input.name);
        assert!(known.is_none_or(|(_, ours, _)| *ours != counted), "{} differs no more", input.name);
    }
}

#[test]
fn real_transcripts_are_told_from_everything_else() {
    let Some(folder) = corpus::folder() else { return };
    let rows = fs::read(folder.join("ATTRIBUTION.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&rows).unwrap();
    for row in rows {
        let name = row["file"].as_str().unwrap();
        let bytes = fs::read(folder.join(name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let own = row["format"] == "claude" && !NOT_OURS.iter().any(|part| name.contains(part));
        let detected = sessions::detect(&text).is_some_and(|format| format.name == "claude-code");
        assert_eq!(detected, own, "{name}");
        // A beginning whose last line is cut tells as much, once there is a line.
        let half = &text[..text.floor_char_boundary(text.len().min(4000))];
        let detected = sessions::detect(half).is_some_and(|format| format.name == "claude-code");
        assert_eq!(detected, own, "the beginning of {name}");
    }
}

#[test]
fn real_transcripts_lose_nothing_and_become_requests() {
    let Some(folder) = corpus::folder() else { return };
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    for (input, _) in transcripts(&folder) {
        let (session, again) = (read(&input), read(&input));
        assert_eq!(session.id, again.id, "{}", input.name);
        let entries = session.to_entries(now);
        assert_eq!(entries, again.to_entries(now), "{}", input.name);
        assert_eq!(rejoin_record::verify::verify(&entries), [], "{}", input.name);
        nothing_is_lost(&input.text, &session).unwrap_or_else(|problem| panic!("{}: {problem}", input.name));
        for policy in POLICIES {
            for to in Dialect::all() {
                let out = convert(&session, to, None, policy).unwrap();
                let violations = testkit::refusals(to, out.body.as_bytes());
                assert_eq!(violations, [], "{} → {to} {policy:?}", input.name);
            }
            let file = written(&session, policy);
            // The new lines say when the old ones were written; only an answer that was made up is new.
            let new = file.lines().filter(|line| line.contains("2023-11-14T22:13:20.000Z")).count();
            let timeless =
                |detail: &&Detail| detail.time.as_ref().is_none_or(|time| time.parse::<Timestamp>().is_err());
            let timeless = session.details.iter().filter(timeless).count();
            let made_up = found(&session, &["unanswered-call"]) as usize;
            assert!(new <= made_up + timeless, "{}: {new}", input.name);
            let back = read_text(&file);
            assert!(back.findings.is_empty(), "{}: {:?}", input.name, back.findings);
            assert_eq!(request(&session, policy), request(&back, policy), "{}", input.name);
            assert_eq!(without_ids(&file), without_ids(&written(&back, policy)), "{}", input.name);
        }
    }
}

/// The lines of a transcript without their ids, which differ in every file that is written.
fn without_ids(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let doc = Doc::parse(line).unwrap();
        let root = doc.root().unwrap();
        let message = root.get("message").filter(|message| message.get("id").is_some());
        let outer = root.fields().filter(|(key, _)| message.is_none() || !key.is_str("message"));
        let inner = message.into_iter().flat_map(Value::fields);
        let ids = ["uuid", "parentUuid", "sessionId", "id"];
        let fields = outer.chain(inner).filter(|(key, _)| !ids.iter().any(|id| key.is_str(id)));
        fields.map(|(key, value)| format!("{}:{} ", key.raw(), value.raw())).collect()
    };
    text.lines().map(line).collect()
}

/// A line that may follow anything, be followed by anything, and be anything.
fn any_line() -> impl Strategy<Value = String> {
    let id = || select(vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
    let uuid = prop_oneof![12 => id().prop_map(Some), 1 => Just(None)];
    let parent = prop_oneof![
        10 => id().prop_map(|id| format!("\"{id}\"")),
        2 => Just("null".to_owned()),
        1 => Just(String::new()),
        1 => Just("\"gone\"".to_owned())
    ];
    let text =
        select(vec!["hello", "", " ", "<persisted-output>\\nFull output saved to: /x/tool-results/1.txt\\n"]);
    (uuid, parent, 0u8..16, select(vec!["m1", "m2", "m3"]), select(vec!["c1", "c2", "c3", "c4"]), text, 0u8..8)
        .prop_map(|(uuid, parent, kind, response, call, text, flags)| {
            let mut line = String::from("{\"sessionId\":\"s\",\"timestamp\":\"2026-02-18T11:43:58.858Z\"");
            if !parent.is_empty() {
                line.push_str(&format!(",\"parentUuid\":{parent}"));
            }
            if let Some(uuid) = uuid {
                line.push_str(&format!(",\"uuid\":\"{uuid}\""));
            }
            if flags == 0 {
                line.push_str(",\"isSidechain\":true");
            }
            let said = |content: &str| {
                format!(
                    ",\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",\"model\":\"claude-x\",\"id\":\"{response}\",\"content\":[{content}]}}}}"
                )
            };
            let result = format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"{call}\",\"content\":\"{text}\"}}");
            line.push_str(&match kind {
                0 | 1 => said(&format!("{{\"type\":\"text\",\"text\":\"{text}\"}}")),
                2..=4 => said(&format!(
                    "{{\"type\":\"tool_use\",\"id\":\"{call}\",\"name\":\"Read\",\"input\":{{}}}}"
                )),
                5 => said("{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"c2ln\"}"),
                6..=8 => {
                    format!(",\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{result}]}}}}")
                }
                9 | 10 => format!(",\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"),
                11 => String::from(",\"type\":\"progress\",\"data\":{\"type\":\"agent_progress\"}}"),
                12 => format!(
                    ",\"type\":\"system\",\"subtype\":\"compact_boundary\",\"logicalParentUuid\":{},\"compactMetadata\":{{\"preservedSegment\":{{\"headUuid\":\"a\",\"anchorUuid\":\"b\",\"tailUuid\":\"c\"}}}}}}",
                    if parent.is_empty() { "null" } else { &parent }
                ),
                13 => format!(",\"type\":\"user\",\"isCompactSummary\":true,\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"),
                14 => format!(",\"type\":\"attachment\",\"attachment\":{{\"type\":\"queued_command\",\"prompt\":\"{text}\"}}}}"),
                _ => String::from(",\"type\":\"user\",\"mess"),
            });
            line
        })
}

proptest! {
    #![proptest_config(testkit::law_cases(4))]

    /// Any tree of lines, with circles, gaps and the same id twice: nothing is lost, it becomes a request that the provider
    /// takes, and a transcript that gives the same request.
    #[test]
    fn any_tree_of_lines(lines in vec(any_line(), 1..24), ending in select(vec!["", "\n"])) {
        let text = lines.join("\n") + ending;
        let Ok(mut found) = sessions::read(&Input::new("x.jsonl", text.as_bytes()).unwrap(), sessions::named("claude-code")) else {
            return Ok(());
        };
        let session = found.remove(0);
        prop_assert!(nothing_is_lost(&text, &session).is_ok(), "{:?}", nothing_is_lost(&text, &session));
        prop_assert_eq!(session.messages.len(), session.places.len());
        prop_assert_eq!(session.messages.len(), session.details.len());
        prop_assert!(session.set_aside.is_sorted_by_key(|item| item.after));
        let entries = session.to_entries(Timestamp::UNIX_EPOCH);
        prop_assert_eq!(rejoin_record::verify::verify(&entries), []);
        for policy in POLICIES {
            for to in Dialect::all() {
                let out = convert(&session, to, None, policy).unwrap();
                prop_assert_eq!(testkit::refusals(to, out.body.as_bytes()), []);
            }
            let file = written(&session, policy);
            let back = read_text(&file);
            prop_assert!(back.findings.is_empty(), "{:?}\n{}", back.findings, file);
            prop_assert_eq!(request(&session, policy), request(&back, policy));
            prop_assert_eq!(without_ids(&file), without_ids(&written(&back, policy)));
        }
    }

    /// A conversation of any format, written as a transcript and read back, becomes the same request; a system prompt is the
    /// first thing that is said.
    #[test]
    fn any_conversation_as_a_transcript(body in bodies::any_body()) {
        let input = Input::new("body.json", body.json.as_bytes()).unwrap();
        let Some(session) = sessions::read(&input, sessions::named(body.shape.name())).ok().and_then(|mut found| found.pop()) else {
            return Ok(());
        };
        for policy in POLICIES {
            let file = written(&session, policy);
            prop_assert!(sessions::detect(&file).is_some_and(|format| format.name == "claude-code"));
            let back = read_text(&file);
            prop_assert!(back.findings.is_empty(), "{:?}\n{}", back.findings, file);
            let (before, mut after) = (request(&session, policy), request(&back, policy));
            let out = convert(&session, Dialect::Anthropic, None, policy).unwrap();
            let sent = Doc::parse(&out.body).unwrap();
            if sent.root().unwrap().given("system").is_some_and(|system| !system.is_str("")) {
                let first = after.remove(0);
                prop_assert!(first[1].starts_with("<system>"), "{:?}", first);
            }
            prop_assert_eq!(before, after, "{}", file);
            prop_assert_eq!(without_ids(&file), without_ids(&written(&back, policy)));
        }
    }

    /// Whatever a transcript is cut to or overwritten with, reading it is quiet.
    #[test]
    fn damage_of_any_kind(
        lines in vec(any_line(), 1..6),
        cuts in vec((any::<prop::sample::Index>(), any::<Option<u8>>()), 1..4),
    ) {
        let mut bytes = lines.join("\n").into_bytes();
        for (at, byte) in cuts {
            if bytes.is_empty() { break }
            let at = at.index(bytes.len());
            match byte {
                Some(byte) => bytes[at] = byte,
                None => { bytes.remove(at); }
            }
        }
        let Ok(input) = Input::new("x.jsonl", &bytes) else { return Ok(()) };
        if let Ok(mut found) = sessions::read(&input, sessions::named("claude-code")) {
            let session = found.remove(0);
            prop_assert!(nothing_is_lost(&input.text, &session).is_ok(), "{:?}", nothing_is_lost(&input.text, &session));
            let out = convert(&session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
            prop_assert_eq!(testkit::refusals(Dialect::Anthropic, out.body.as_bytes()), []);
        }
    }
}

/// Length costs no stack and no square: every line follows the one before, through progress, in one response, in a circle.
#[test]
fn long_chains() {
    const COUNT: usize = 30_000;
    let line = |number: usize, rest: &str| {
        let parent = number.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"u{parent}\""));
        format!("{{\"uuid\":\"u{number}\",\"parentUuid\":{parent},\"sessionId\":\"s\",{rest}}}\n")
    };
    let user = "\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"x\"}";
    let progress = "\"type\":\"progress\",\"data\":{\"type\":\"bash_progress\"}";
    let part = "\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}";
    for (rest, messages) in [(user, COUNT + 1), (progress, 2), (part, 3)] {
        let mut text = line(0, user);
        (1..COUNT).for_each(|number| text.push_str(&line(number, rest)));
        text.push_str(&line(COUNT, user));
        assert_eq!(read_text(&text).messages.len(), messages);
    }
    // All in a circle.
    let mut text = String::new();
    for number in 0..COUNT {
        let parent = (number + 1) % COUNT;
        text.push_str(&format!("{{\"uuid\":\"u{number}\",\"parentUuid\":\"u{parent}\",{user}}}\n"));
    }
    assert_eq!(read_text(&text).messages.len(), COUNT);
}
