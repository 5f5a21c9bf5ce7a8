//! Runs of agents and benchmarks whose messages are those of OpenAI Chat: SWE-agent, mini-swe-agent, tau-bench and tau2-bench.
//!
//! The reader of message lists finds and reads them. Only the name of the format is theirs, and what a program keeps of an answer
//! beside its message.

mod yaml;

use std::sync::Arc;

use rejoin_record::{
    Block, Message, Origin, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};

use super::{
    building::{self, SessionBuilder, beside, item, text_in},
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Input, Stream},
    messages::{self, Style, list},
    session::{Aside, Detail, ReadError, Session, SourcePlace, unreadable_rest},
    wire::render,
};

/// The names of the formats.
pub const SWE_AGENT: &str = "swe-agent";
pub const MINI_SWE_AGENT: &str = "mini-swe-agent";
pub const TAU_BENCH: &str = "tau-bench";
pub const TAU2_BENCH: &str = "tau2-bench";

/// How many elements of a list are examined to detect a format.
const LOOK_AT: usize = 20;

/// What a step of SWE-agent has beside what was said and seen: the state of the shell, and the two parts of the response.
const STEP: Known = Known::beside("observation", "state thought action");

/// The fields of SWE-agent that are known.
pub(crate) const SWE_KNOWN: &[Known] = &{
    let mut all = [STEP; messages::KNOWN.len() + 1];
    let mut place = 0;
    while place < messages::KNOWN.len() {
        all[place] = messages::KNOWN[place];
        place += 1;
    }
    all
};

fn any(list: Option<Value<'_>>, tells: impl Fn(Value<'_>) -> bool) -> bool {
    list.into_iter().flat_map(Value::items).take(LOOK_AT).any(tells)
}

fn whole(sample: &Sample<'_>, tells: impl Fn(Value<'_>) -> bool) -> bool {
    sample.whole().0.root().is_some_and(tells)
}

/// Whether a text is a trajectory of SWE-agent, or the history out of one.
pub(crate) fn sniff_swe_agent(sample: &Sample<'_>) -> Option<Claim> {
    let step = |step: Value<'_>| ["action", "observation"].iter().all(|name| step.get(name).is_some());
    let tells = |one: Value<'_>| step(one) && (one.get("response").is_some() || one.get("thought").is_some());
    let message = |item: Value<'_>| {
        item.get("role").is_some()
            && item.get("agent").is_some()
            && (item.get("message_type").is_some() || item.get("thought").is_some())
    };
    let run = |root: Value<'_>| {
        let history = root.holds("history", ValueKind::Array);
        any(root.get("trajectory"), tells)
            || (history && (any(root.get("trajectory"), step) || any(root.get("history"), message)))
    };
    let reason = "a `trajectory` of actions and observations, or messages with a `thought`";
    Claim::sure(whole(sample, |root| run(root) || any(Some(root), message)), reason)
}

/// Whether a text is a trajectory of mini-swe-agent, as JSON or as YAML.
pub(crate) fn sniff_mini_swe_agent(sample: &Sample<'_>) -> Option<Claim> {
    let named = |root: Value<'_>| {
        root.word("trajectory_format").starts_with("mini-swe-agent")
            || root.get("info").is_some_and(|info| info.get("mini_version").is_some())
    };
    let in_yaml = || {
        let is_mark = |line: &str| {
            let line = line.trim_start();
            line.starts_with("trajectory_format: mini-swe-agent") || line.starts_with("mini_version:")
        };
        begins_like_yaml(sample.text()) && sample.text().lines().any(is_mark)
    };
    Claim::sure(
        whole(sample, named) || in_yaml(),
        "the mark of mini-swe-agent, `trajectory_format` or `mini_version`",
    )
}

/// Whether a text is a list of runs of tau-bench.
pub(crate) fn sniff_tau_bench(sample: &Sample<'_>) -> Option<Claim> {
    let run = |run: Value<'_>| {
        run.holds("traj", ValueKind::Array) && run.get("task_id").is_some() && run.get("reward").is_some()
    };
    Claim::sure(whole(sample, |root| any(Some(root), run)), "runs with `task_id`, `reward` and `traj`")
}

/// Whether the first line of a text that says something may be one of YAML: a name and a colon, or an item of a list. Most texts are
/// something else, and need not be searched.
fn begins_like_yaml(text: &str) -> bool {
    let mut lines =
        text.lines().map(str::trim).filter(|line| !(line.is_empty() || line.starts_with(['#', '%'])));
    let first = lines.find(|line| *line != "---").unwrap_or_default();
    let is_name = |name: &str| !name.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '[' | '"'));
    first.starts_with('-') || first.split_once(':').is_some_and(|(name, _)| is_name(name))
}

/// Whether a text is a file of simulations of tau2-bench.
pub(crate) fn sniff_tau2_bench(sample: &Sample<'_>) -> Option<Claim> {
    let run = |run: Value<'_>| run.get("task_id").is_some() && run.holds("messages", ValueKind::Array);
    Claim::sure(whole(sample, |root| any(root.get("simulations"), run)), "`simulations` with `messages`")
}

/// Reads the conversations of a text as lists of messages, and names them.
fn read_as(name: &'static str, input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let mut sessions = list::read(input, sample, Style::ToolCalls)?;
    sessions.iter_mut().for_each(|session| session.format = name);
    Ok(sessions)
}

/// Reads the `history`. It comes after the `trajectory`, so a file that is damaged in there has only the steps.
pub(crate) fn read_swe_agent(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let is_steps =
        |root: Value<'_>| root.holds("trajectory", ValueKind::Array) && root.get("history").is_none();
    if whole(&sample, is_steps) { read_steps(input, sample) } else { read_as(SWE_AGENT, input, sample) }
}

/// Reads the steps of a trajectory: what the model answered, and what it saw then.
fn read_steps(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let list = doc.root().and_then(|root| root.get("trajectory"));
    let mut builder = SessionBuilder::new(SWE_AGENT);
    let (mut end, mut count) = (0, 0);
    for (index, step) in list.into_iter().flat_map(Value::items).enumerate() {
        if step.is_cut() {
            break;
        }
        let place = SourcePlace { index, offset: step.start(), line: None };
        let said = |name| text_in(step, name).filter(|text| !text.is_blank()).map(Block::text);
        let mut answer: Vec<Block> = said("response").into_iter().collect();
        let response = answer.first().and_then(Block::as_text).map(ToString::to_string).unwrap_or_default();
        // The response usually consists of both.
        let is_new = |block: &Block| {
            block.as_text().is_some_and(|text| response.is_empty() || !response.contains(text.trim()))
        };
        answer.extend(["thought", "action"].into_iter().filter_map(said).filter(is_new));
        let raw = Raw::slice(&input.text, step.start(), step.end()).unwrap_or_else(|| Raw::new(step.raw()));
        builder.say(item(SWE_AGENT, Role::Assistant, answer, raw), place, Detail::default());
        if let Some(seen) = said("observation") {
            builder.say(beside(Role::User, vec![seen]), place, Detail::default());
        }
        (end, count) = (step.end(), index + 1);
    }
    if count == 0 {
        return Err(ReadError::NoConversation("no step of its `trajectory` is whole"));
    }
    // What else the object has, such as messages under another name.
    if let Some((root, list)) = doc.root().zip(list).filter(|(root, _)| root.fields().count() > 1) {
        let around = match root.is_cut() {
            true => Text::new(&input.text[..list.start()]),
            false => Text::from(render::with_field_of(root, "trajectory", "[]")),
        };
        builder.aside(building::nth(count), Aside::Unknown(around));
    }
    if let Some(error) = error {
        let rest = input.text[end..].trim_start_matches([',', ' ', '\n']);
        builder.aside(building::nth(count), Aside::Raw(Text::new(rest)));
        builder.findings.push(unreadable_rest(input, error, count));
    }
    Ok(vec![builder.finish(&input.name, None, building::context(None))])
}

/// Reads a trajectory. One in YAML is turned into the same text as JSON first.
pub(crate) fn read_mini_swe_agent(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    if sample.text().trim_start().starts_with(['{', '[']) {
        return read_as(MINI_SWE_AGENT, input, sample);
    }
    let text = yaml::to_json(&input.text).map_err(ReadError::NoConversation)?;
    let json = Input { text: Arc::from(text), ..input.clone() };
    let sample = Sample::new(&json.text);
    read_as(MINI_SWE_AGENT, &json, sample)
}

pub(crate) fn read_tau_bench(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    read_as(TAU_BENCH, input, sample)
}

/// Reads simulations. What the model thought stands only in the provider's answer, which is kept beside each message.
pub(crate) fn read_tau2_bench(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let mut sessions = read_as(TAU2_BENCH, input, sample)?;
    for message in sessions.iter_mut().flat_map(|session| &mut session.messages) {
        if let Some(thought) = thought_of(message) {
            let message = Arc::make_mut(message);
            message.blocks.insert(0, thought);
            // The message no longer says what its own bytes say.
            message.native.iter_mut().for_each(|native| native.regular = false);
        }
    }
    Ok(sessions)
}

fn thought_of(message: &Message) -> Option<Block> {
    let native = message.native.as_ref().filter(|native| native.raw.as_str().contains("\"raw_data\""))?;
    let doc = Doc::parse(native.raw.as_str()).ok()?;
    let answer = doc.root()?.given("raw_data")?;
    let said = answer.given("message").unwrap_or(answer);
    let text = ["reasoning_content", "reasoning"].iter().find_map(|name| said.given(name)?.as_str())?;
    let known =
        message.blocks.iter().any(|block| matches!(block.kind, rejoin_record::BlockKind::Reasoning(_)));
    let origin = Origin::of(Style::ToolCalls.format(), None);
    (!known && !text.trim().is_empty()).then(|| Block::reasoning(Text::new(&*text), false, origin))
}

/// These are single documents, which are not read line by line.
///
/// # Errors
/// Always: the document is larger than one text may be.
pub(crate) fn too_large(_: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    Err(crate::input::InputError::TooLarge { bytes: rejoin_record::limits::BODY_BYTES + 1 }.into())
}
