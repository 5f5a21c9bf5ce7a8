//! mistral-common validates request bodies that rejoin wrote. Mistral's own servers are built on this library.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Failure, MUTATIONS, Verdict, conversations, install, rejoin::Rejoin};

/// The Python part: reads bodies, one per line, and prints a line for each that the library refuses.
const VALIDATOR: &str = include_str!("mistral.py");

/// The version with the current rules; the other one is stricter.
const NEWEST: &str = install::MISTRAL[0];

struct Body {
    name: String,
    source: String,
    text: String,
}

/// Asks each version of the library for a verdict.
pub fn ask(folder: &Path, rejoin: Option<&Rejoin>) -> Result<Vec<Verdict>> {
    let work = folder.join("mistral-work");
    fs::create_dir_all(&work)?;
    let pythons =
        install::MISTRAL.map(|version| install::mistral(folder, version).map(|found| (version, found)));
    let (mut bodies, mut unwritten) = (Vec::new(), Vec::new());
    if let Some(rejoin) = rejoin {
        let mut all = conversations::all()?;
        all.extend(conversations::mutated(&all, MUTATIONS));
        for conversation in all {
            for policy in ["keep", "drop"] {
                let name = format!("{}, {policy}", conversation.name);
                let source = conversation.text.clone();
                match rejoin.convert(&work, &conversation, "mistral", &["--on-broken", policy], None)? {
                    Ok(text) => bodies.push(Body { name, source, text }),
                    Err(reason) => unwritten.push((name, reason, source)),
                }
            }
        }
    }
    let mut verdicts = Vec::new();
    for python in pythons {
        let (version, python) = python?;
        says_yes_and_no(&python, version)?;
        let mut failures: Vec<Failure> = validate(&python, &bodies)?
            .into_iter()
            .filter_map(|(name, reason)| {
                let body = bodies.iter().find(|body| body.name == name)?;
                let evidence =
                    vec![("source.json", body.source.clone()), ("mistral.json", body.text.clone())];
                Some(Failure { name, reason, evidence })
            })
            .collect();
        failures.extend(unwritten.iter().map(|(name, reason, source)| Failure {
            name: name.clone(),
            reason: reason.clone(),
            evidence: vec![("source.json", source.clone())],
        }));
        verdicts.push(Verdict {
            peer: format!("mistral-common {version}"),
            what: "conversations",
            by_hand: by_hand(version).len(),
            given: bodies.len() + unwritten.len(),
            failures,
        });
    }
    Ok(verdicts)
}

/// The names of the refused bodies, and the reasons.
fn validate(python: &Path, bodies: &[Body]) -> Result<Vec<(String, String)>> {
    let mut command = Command::new(python);
    // Isolated: nothing of the user's Python installation is used.
    command.args(["-I", "-c", VALIDATOR]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", python.display()))?;
    let mut lines = String::new();
    for body in bodies {
        // The validator reports bodies that are not JSON.
        let value = serde_json::from_str::<Value>(&body.text).unwrap_or(Value::Null);
        lines.push_str(&format!("{}\n", json!({"name": body.name, "body": value})));
    }
    // It reads everything before it prints, so neither side waits for the other.
    child.stdin.take().context("no way in")?.write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the validator ended with {}", output.status);
    let mut refused = Vec::new();
    let mut read = None;
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("the validator said {line}"))?;
        if let Some(count) = line["read"].as_u64() {
            read = Some(count as usize);
        } else {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            refused.push((text("name"), format!("{}: {}", text("version"), text("error"))));
        }
    }
    ensure!(read == Some(bodies.len()), "the validator read {read:?} of {} bodies", bodies.len());
    Ok(refused)
}

/// Bodies written by hand, and whether this version of the library must take them.
fn by_hand(library: &str) -> Vec<(&'static str, bool, Value)> {
    let user = json!({"role": "user", "content": "u"});
    let reply = json!({"role": "assistant", "content": "a"});
    let call = |id: &str| {
        let function = json!({"name": "ls", "arguments": "{}"});
        let calls = json!([{"id": id, "type": "function", "function": function}]);
        json!({"role": "assistant", "content": "a", "tool_calls": calls})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let id = "abcdefgh1";
    let in_parts = json!({"role": "tool", "tool_call_id": id, "content": [text("r")]});
    let shown = json!([
        text("u"),
        {"type": "image_url", "image_url": "https://a/b.png"},
        {"type": "document_url", "document_url": "https://a/b.pdf"},
    ]);
    let thought = json!([{"type": "thinking", "thinking": [text("t")]}, text("a")]);
    let thoughtful = json!([
        {"role": "user", "content": shown}, {"role": "assistant", "content": thought}, user,
    ]);
    let messages = |messages: Value| json!({"messages": messages});
    vec![
        ("sound", true, json!({"tools": [tool("ls")], "messages": [user, call(id), result(id)]})),
        ("a result in parts", true, messages(json!([user, call(id), in_parts]))),
        ("things shown, a thought", true, messages(thoughtful)),
        ("unanswered", false, messages(json!([user, call(id), user]))),
        ("orphan", false, messages(json!([user, result(id)]))),
        ("begins with a call", false, messages(json!([call(id), result(id)]))),
        // These are why the older version is used, too.
        ("a user after a result", library == NEWEST, messages(json!([user, call(id), result(id), user]))),
        ("ends with a model", false, messages(json!([user, reply]))),
        ("long id", false, messages(json!([user, call("call_0123456789"), result("call_0123456789")]))),
        ("no messages", false, messages(json!([]))),
        ("no list", false, json!({})),
        ("no JSON", false, Value::Null),
        ("odd name", false, json!({"tools": [tool("a.b")], "messages": [user]})),
    ]
}

/// Checks that the library both accepts and refuses; otherwise its verdicts prove nothing.
fn says_yes_and_no(python: &Path, version: &str) -> Result<()> {
    let by_hand = by_hand(version);
    let bodies: Vec<Body> = by_hand
        .iter()
        .map(|(name, _, body)| Body { name: (*name).into(), source: String::new(), text: body.to_string() })
        .collect();
    let refused = validate(python, &bodies)?;
    for (name, sound, _) in by_hand {
        let reason = refused.iter().find(|(refused, _)| refused == name).map(|(_, reason)| reason);
        ensure!(
            reason.is_none() == sound,
            "mistral-common {version} on `{name}`, written by hand: {reason:?}"
        );
    }
    Ok(())
}
