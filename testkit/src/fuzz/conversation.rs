//! The laws of every conversation, whatever it was read from: the record takes and returns it, every dialect accepts it, no text is
//! missing, and the output can be read.

use std::collections::{BTreeSet, HashSet, VecDeque};

use rejoin_checkers::Violation;
use rejoin_formats::{
    Context, ConvertError, Dialect, Input, ReadError, Session, Target,
    accounting::report,
    convert,
    sessions::{self, FORMATS, FileContent, Format, Writing},
};
use rejoin_record::{ArgumentsClass, CallId, Content, Entry, Message, Timestamp, ToolResult, verify::verify};
use rejoin_view::{Fate, Finding, OnBroken, Rule, repair};

use super::{Broken, Signs, hash, mutate::values};

/// The time of every import and of everything that is written: a result must not depend on when it was run.
pub const NOW: Timestamp = Timestamp::UNIX_EPOCH;

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

/// Looking for every text in a body costs their product; beyond this, a body is not searched.
const SEARCHED_BYTES: usize = 64 * 1024;

/// How much of a body is shown when something is wrong with it.
const SHOWN_CHARS: usize = 3_000;

/// Everything that must hold of a conversation.
pub fn holds(session: &Session, signs: &mut Signs) -> Result<(), Broken> {
    look(session, signs);
    recorded(session)?;
    repaired(session, signs)?;
    for dialect in Dialect::all() {
        let mut before = None;
        for policy in POLICIES {
            let body = converted(session, dialect, policy, signs)?;
            // A conversation that was sound under both policies need not be read again.
            if let Some(body) = body.filter(|body| before.as_ref() != Some(body)) {
                converted_again(&body, dialect, policy)?;
                before = Some(body);
            }
        }
    }
    FORMATS.iter().try_for_each(|format| written(session, format))
}

/// Runs the product's own work on a conversation, without checks, for measuring.
pub fn work(session: &Session) {
    let _ = session.to_entries(NOW).len();
    for policy in POLICIES {
        for dialect in Dialect::all() {
            let _ = convert(session, dialect, None, policy).map(|converted| converted.body.len());
        }
    }
    for format in FORMATS.iter().filter(|format| format.write.is_some()) {
        let _ = sessions::write(session, format, OnBroken::Keep, &WRITING).is_ok();
    }
}

const WRITING: Writing<'static> = Writing { model: None, now: NOW, directory: "/w" };

/// Records the kinds of content in a conversation.
fn look(session: &Session, signs: &mut Signs) {
    signs.see((
        "conversation",
        session.format,
        session.messages.len().min(4),
        session.context.fields.len().min(4),
    ));
    let mut before = "";
    for message in &session.messages {
        let role = message.role.as_str();
        let known = if matches!(message.role, rejoin_record::Role::Other(_)) { "?" } else { role };
        signs.see(("role", before, known, message.form.as_str()));
        before = ["system", "developer", "user", "assistant", "tool", "?"]
            .into_iter()
            .find(|name| *name == known)
            .unwrap_or_default();
        for block in &message.blocks {
            let arguments = block.as_call().map(|call| format!("{:?}", call.arguments.class()));
            signs.see(("block", known, kind(block), block.span.is_some(), arguments));
            for part in block.as_result().into_iter().flat_map(|result| &result.content) {
                signs.see(("part", kind(part), part.span.is_some()));
            }
        }
        let native =
            message.native.as_ref().map(|native| (native.regular, native.more, native.items.len().min(3)));
        signs.see(("native", known, native));
    }
    for item in &session.set_aside {
        signs.see(("aside", std::mem::discriminant(&item.what)));
    }
    found("read", &session.findings, signs);
}

fn kind(block: &rejoin_record::Block) -> &'static str {
    use rejoin_record::BlockKind;
    match &block.kind {
        BlockKind::Text(text) if text.is_blank() => "blank",
        BlockKind::Text(_) => "text",
        BlockKind::Reasoning(reasoning) if reasoning.sealed => "sealed reasoning",
        BlockKind::Reasoning(_) => "reasoning",
        BlockKind::ToolCall(_) => "call",
        BlockKind::ToolResult(_) => "result",
        BlockKind::Image(_) => "image",
        BlockKind::Document(_) => "document",
        BlockKind::Opaque(_) => "opaque",
    }
}

fn found(stage: &str, findings: &[Finding], signs: &mut Signs) {
    for finding in findings {
        signs.see((stage, finding.rule.name(), finding.action.name()));
    }
}

/// The record: it verifies, every line can be read again, and every message comes back.
fn recorded(session: &Session) -> Result<(), Broken> {
    let entries = session.to_entries(NOW);
    if let Some(discrepancy) = verify(&entries).first() {
        let law = format!("verify {}", words(&discrepancy.to_string()));
        return Err(Broken::new(law, discrepancy.to_string()));
    }
    for entry in &entries {
        let line = entry.to_line();
        match Entry::from_line(&line) {
            Ok(again) if again == *entry && !line.contains('\n') => {}
            Ok(_) => return Err(Broken::new("record line", format!("another entry was read from {line}"))),
            Err(error) => return Err(Broken::new("record line", format!("{error}: {line}"))),
        }
    }
    let mut stored = entries.iter().filter_map(|entry| match Content::of(entry) {
        Content::Message(message) => Some(Ok(message)),
        Content::Unreadable(_) => Some(Err(Broken::new(
            format!("record unreadable {}", entry.envelope().kind.as_str()),
            entry.to_line(),
        ))),
        _ => None,
    });
    let hidden =
        session.set_aside.iter().any(|item| matches!(item.what, rejoin_formats::session::Aside::Hidden(..)));
    if hidden {
        return stored.try_for_each(|message| message.map(drop));
    }
    for message in &session.messages {
        match stored.next() {
            Some(Ok(again)) if spelling_free(&again) == spelling_free(message) => {}
            Some(Err(broken)) => return Err(broken),
            Some(Ok(again)) => {
                return Err(Broken::new("record message", format!("{message:?}\nis kept as\n{again:?}")));
            }
            None => return Err(Broken::new("record message", "a message is missing")),
        }
    }
    Ok(())
}

/// A message without differences that the record may make: line breaks between the tokens of a native item.
fn spelling_free(message: &Message) -> String {
    format!(
        "{:?} {:?} {:?}",
        message.role,
        message.form,
        message.blocks.iter().map(|b| &b.kind).collect::<Vec<_>>()
    )
    .replace(['\n', '\r'], " ")
}

/// A sentence without what differs from one input to the next: ids and numbers.
fn words(sentence: &str) -> String {
    let plain = |word: &&str| !word.chars().any(|c| c.is_ascii_digit());
    sentence.split_whitespace().filter(plain).take(8).collect::<Vec<_>>().join(" ")
}

/// The view: the pairing law holds in it, and it needs no more repair.
fn repaired(session: &Session, signs: &mut Signs) -> Result<(), Broken> {
    for policy in [OnBroken::Keep, OnBroken::Drop] {
        let once = repair(&session.history(), policy);
        found("repair", &once.findings, signs);
        let messages = once.view.to_messages();
        if let Some(problem) = unpaired(&messages) {
            return Err(Broken::new(
                format!("sound view: {}", words(&problem)),
                format!("{problem}\n{messages:#?}"),
            ));
        }
        let again = repair(&messages.iter().cloned().collect(), policy);
        if let Some(problem) = again.findings.iter().find(is_mendable) {
            return Err(Broken::new(
                format!("repair again {}", problem.rule),
                format!("{problem:?}\n{messages:#?}"),
            ));
        }
        let shape = |messages: &[Message]| messages.iter().map(spelling_free).collect::<Vec<_>>();
        let (first, second) = (shape(&messages), shape(&again.view.to_messages()));
        if first != second {
            return Err(Broken::new("repair again", format!("{first:#?}\nbecame\n{second:#?}")));
        }
    }
    Ok(())
}

/// The first fault in a list of messages that breaks the pairing law.
pub(super) fn unpaired(messages: &[Message]) -> Option<String> {
    let mut ids = HashSet::new();
    let mut awaited: VecDeque<String> = VecDeque::new();
    for (index, message) in messages.iter().enumerate() {
        let results: Vec<_> = message.tool_results().collect();
        if !awaited.is_empty() && results.len() != message.blocks.len() {
            return Some(format!("something is between a call and its result (message {index})"));
        }
        for result in results {
            let id = result.call_id.as_ref().map(|id| id.as_str().to_owned());
            if awaited.pop_front() != id || id.is_none() {
                return Some(format!("a result is in the wrong place (message {index})"));
            }
        }
        for call in message.tool_calls() {
            if call.arguments.class() != ArgumentsClass::Object {
                return Some(format!("arguments are no object (message {index})"));
            }
            if !ids.insert(call.id.clone()) {
                return Some(format!("an id is used twice (message {index})"));
            }
            awaited.push_back(call.id.as_str().to_owned());
        }
    }
    (!awaited.is_empty()).then(|| "a call has no result".to_owned())
}

/// The body in a dialect: its checker accepts it, and it has all texts. `None` if it is too large.
fn converted(
    session: &Session,
    dialect: Dialect,
    policy: OnBroken,
    signs: &mut Signs,
) -> Result<Option<String>, Broken> {
    another_model(session, dialect, policy)?;
    let converted = match convert(session, dialect, None, policy) {
        Ok(converted) => converted,
        Err(ConvertError::TooLarge(error)) => {
            signs.see(("too large", dialect.name(), error.rule));
            return Ok(None);
        }
        Err(error) => return Err(Broken::new(format!("convert {dialect}"), error.to_string())),
    };
    found(dialect.name(), &converted.findings, signs);
    let mut violations = crate::refusals(dialect, converted.body.as_bytes());
    if !violations.is_empty() {
        violations.retain(|violation| !stood_around(session, dialect, None, violation));
    }
    if let Some(first) = violations.first() {
        let all: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
        let detail = format!("{policy:?}: {}\n{}", all.join("\n"), shown(&converted.body));
        // One rule may be broken in many places: the place tells mistakes apart, its numbers do not.
        let place: String = first.path.chars().filter(|c| !c.is_ascii_digit()).collect();
        return Err(Broken::new(format!("sound {dialect} {} {place}", first.rule), detail));
    }
    if let Some(missing) = missing(session, &converted.body, policy) {
        let detail = format!("{policy:?}: {missing:?} is not in\n{}", shown(&converted.body));
        return Err(Broken::new(format!("conserving {dialect}"), detail));
    }
    Ok(Some(converted.body))
}

/// If the request goes to a model that the source does not name, the checker also accepts it.
fn another_model(session: &Session, dialect: Dialect, policy: OnBroken) -> Result<(), Broken> {
    let model = Some("another");
    let Ok(converted) = convert(session, dialect, model, policy) else { return Ok(()) };
    let violations = crate::refusals(dialect, converted.body.as_bytes());
    match violations.iter().find(|violation| !stood_around(session, dialect, model, violation)) {
        Some(violation) => {
            let law = format!("another model: sound {dialect} {}", violation.rule);
            Err(Broken::new(law, format!("{policy:?}: {violation}\n{}", shown(&converted.body))))
        }
        None => Ok(()),
    }
}

/// Whether a violation is not the history's: within one dialect, the fields around the messages come back unchanged, so their
/// faults stay. Such a violation also appears with any other history, sent to the same model.
fn stood_around(session: &Session, dialect: Dialect, model: Option<&str>, violation: &Violation) -> bool {
    if session.context.dialect != Some(dialect) {
        return false;
    }
    let plain = repair(&[Message::user("u")].into_iter().collect(), OnBroken::Keep);
    let body = dialect
        .wire()
        .encode(&plain.view, &Target { model: model.map(str::to_owned), ..Target::of(&session.context) });
    let around = body.map(|encoded| crate::refusals(dialect, encoded.body.as_bytes())).unwrap_or_default();
    around.iter().any(|other| (other.rule, &other.path) == (violation.rule, &violation.path))
}

/// Whether a finding is about a problem that converting mends. Parts that were not understood go back unchanged, and are reported
/// again.
fn is_mendable(finding: &&Finding) -> bool {
    finding.is_problem() && !matches!(finding.rule, Rule::UnreadText | Rule::UnknownRole)
}

/// If the dialect can be read, converting a converted body gives the same bytes, without a problem.
fn converted_again(body: &str, dialect: Dialect, policy: OnBroken) -> Result<(), Broken> {
    let Some(format) = sessions::named(dialect.name()).filter(|format| format.read.is_some()) else {
        return Ok(());
    };
    let broken = |what: &str, detail: String| {
        Err(Broken::new(
            format!("idempotent {dialect}: {what}"),
            format!("{policy:?}: {detail}\n{}", shown(body)),
        ))
    };
    let read = Input::new("body.json", body.as_bytes())
        .map_err(Into::into)
        .and_then(|input| sessions::read(&input, Some(format)));
    let sessions = match read {
        Ok(sessions) => sessions,
        Err(error) => return broken("not read", error.to_string()),
    };
    let [session] = &sessions[..] else { return broken("not one conversation", sessions.len().to_string()) };
    for second in POLICIES {
        match convert(session, dialect, None, second) {
            Ok(again) if again.body != body => {
                let rules: BTreeSet<_> = again.findings.iter().map(|finding| finding.rule.name()).collect();
                let what = format!("another body {rules:?}");
                return broken(&what, format!("then {second:?}:\n{}\n----", shown(&again.body)));
            }
            Ok(again) => {
                if let Some(problem) = again.findings.iter().find(is_mendable) {
                    return broken(problem.rule.name(), format!("then {second:?}: {problem:?}"));
                }
            }
            Err(error) => return broken("not converted", error.to_string()),
        }
    }
    elsewhere(session, body, dialect.name()).map(drop)
}

/// A conversation read from our own output can be converted to any other dialect. One of them, always the same, is enough: there
/// will be other inputs.
fn elsewhere(session: &Session, written: &str, from: &str) -> Result<Option<String>, Broken> {
    let dialects: Vec<Dialect> = Dialect::all().collect();
    let dialect = dialects[hash(written) as usize % dialects.len()];
    converted(session, dialect, OnBroken::Keep, &mut Signs::default())
        .map_err(|broken| Broken { law: format!("from {from}: {}", broken.law), ..broken })
}

/// A text that is not in a body. Results are looked for under `keep` only.
pub(super) fn missing(session: &Session, body: &str, policy: OnBroken) -> Option<String> {
    if body.len() > SEARCHED_BYTES {
        return None;
    }
    let mut texts = String::new();
    for literal in values(body.as_bytes()).into_iter().filter(|range| body.as_bytes()[range.start] == b'"') {
        texts.push_str(&serde_json::from_str::<String>(&body[literal]).unwrap_or_default());
        // No text reaches over it.
        texts.push('\u{10ffff}');
    }
    let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let kept = |text: &str| {
        let text = text.trim_matches(blank);
        // A result that is JSON may be in the body as JSON.
        texts.contains(text) || body.contains(text)
    };
    // If a request left out a call with its batch, the call's results also stay out, whatever the policy is now.
    let left_out: Vec<&CallId> = (session.known.iter().filter(|known| known.fate == Fate::ClosedWithBatch))
        .filter_map(|known| session.messages.get(known.message)?.blocks.get(known.block)?.as_call())
        .map(|call| &call.id)
        .collect();
    let stays_out = |result: &ToolResult| result.call_id.as_ref().is_some_and(|id| left_out.contains(&id));
    for block in session.messages.iter().flat_map(|message| &message.blocks) {
        let results = block.as_result().filter(|result| policy == OnBroken::Keep && !stays_out(result));
        let parts = results.into_iter().flat_map(|result| &result.content);
        for text in parts.chain(std::iter::once(block)).filter_map(|block| block.as_text()) {
            if !kept(text) {
                return Some(text.to_string());
            }
        }
    }
    None
}

/// A session file: it can be written, and the output can be read and recorded, with all texts.
fn written(session: &Session, format: &'static Format) -> Result<(), Broken> {
    if format.write.is_none() {
        return Ok(());
    }
    for policy in POLICIES {
        let written = match sessions::write(session, format, policy, &WRITING) {
            Ok(written) => written,
            Err(ConvertError::TooLarge(_)) => continue,
            Err(error) => return Err(Broken::new(format!("write {}", format.name), error.to_string())),
        };
        if format.read.is_none() || written.content.as_text().is_some_and(|text| text.trim().is_empty()) {
            continue;
        }
        let text = match &written.content {
            FileContent::Text(text) => text.clone(),
            FileContent::Rows(rows) => format!("{rows:?}"),
        };
        let broken = |what: &str, detail: String| {
            let law = format!("write {}: {what}", format.name);
            Err(Broken::new(law, format!("{policy:?}: {detail}\n{}", shown(&text))))
        };
        let sessions = match read_back(&written.content, format) {
            Ok(sessions) => sessions,
            // Parts that were not understood are copied unchanged; the file may contain nothing else.
            Err(ReadError::MostlyUnread { .. } | ReadError::Foreign { .. }) if is_unread(session) => continue,
            Err(error) => return broken("not read", error.to_string()),
        };
        let [again] = &sessions[..] else {
            return broken("not one conversation", sessions.len().to_string());
        };
        recorded(again)
            .map_err(|broken| Broken { law: format!("write {}: {}", format.name, broken.law), ..broken })?;
        let body = elsewhere(again, &text, format.name)?;
        let expected = without_foreign_instructions(session, &written.findings);
        if let Some(missing) = body.and_then(|body| missing(&expected, &body, policy)) {
            return broken("something is missing", format!("{missing:?}"));
        }
    }
    Ok(())
}

/// The conversations in the output of a format.
///
/// # Errors
/// If nothing can be read from it.
pub fn read_back(content: &FileContent, format: &'static Format) -> Result<Vec<Session>, ReadError> {
    match content {
        FileContent::Text(text) => {
            sessions::read(&Input::new("written.jsonl", text.as_bytes())?, Some(format))
        }
        FileContent::Rows(rows) => sessions::read_database(&rows.to_database("written.db")?, Some(format)),
    }
}

/// The required content of a written file: everything except the instructions of another agent, each of which has a finding.
fn without_foreign_instructions(session: &Session, findings: &[Finding]) -> Session {
    let named: Vec<usize> = findings
        .iter()
        .filter(|finding| finding.rule == Rule::ForeignInstructions)
        .filter_map(|finding| finding.at.message)
        .collect();
    let stays = |(place, _): &(usize, &std::sync::Arc<rejoin_record::Message>)| !named.contains(place);
    let messages =
        session.messages.iter().enumerate().filter(stays).map(|(_, message)| message.clone()).collect();
    Session { messages, ..session.clone() }
}

/// Whether something of a session was not understood, or its messages say nothing.
fn is_unread(session: &Session) -> bool {
    let mut blocks = session.messages.iter().flat_map(|message| &message.blocks);
    // The same text may also be in a field around the messages, which a session file does not contain.
    let alone = || Session { context: Context::default(), ..session.clone() };
    session.findings.iter().any(|finding| matches!(finding.rule, Rule::UnreadText | Rule::UnknownRole))
        || blocks.all(|block| block.as_text().is_some_and(|text| text.is_empty()))
        || !report(&alone()).is_empty()
}

fn shown(body: &str) -> String {
    body.chars().take(SHOWN_CHARS).collect()
}
