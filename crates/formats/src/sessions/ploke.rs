//! `ploke`: the Markdown that `save history` writes, `.ploke_history.md`. A line `## [kind]` begins each message.
//!
//! ploke keeps its conversations in memory, and nothing loads this file again. It holds less than was said: no ids, no times, no
//! calls, and no sign where the reasoning of an answer ends. The other files of ploke are recognised and refused: proposed edits are
//! no conversation, and a backup of its database has an encoding that only ploke reads.

use std::sync::Arc;

use rejoin_record::{Block, Role, Text, json::Value};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{
    building::{SessionBuilder, item, part_of, plain_item, result},
    registry::Reading,
    sample::{Claim, Sample},
};
#[cfg(feature = "sqlite")]
use super::{
    database::Database,
    registry::{DatabaseReading, Evidence},
};
use crate::{
    accounting::Known,
    context::Context,
    input::{Input, Stream},
    parallel,
    session::{Aside, Detail, ReadError, Session, SourcePlace, replaced_bytes},
    wire::registry::Dialect,
};

/// The name of the format.
pub(super) const FORMAT: &str = "ploke";

/// A message is plain text, which is kept as a JSON string.
pub(super) const KNOWN: &[Known] = &[Known::PLAIN_TEXT];

const TITLE: &str = "# Ploke Chat History";

/// Texts that stand where the model has said nothing: before its answer, and where it only calls tools.
const PLACEHOLDERS: [&str; 2] = ["Pending...", "Calling tools..."];

/// What the last note of the program begins with: it says that this file is being saved.
const SAVING: &str = "Saving";

const LOST: &str = "the file has no names, arguments or ids of calls, no times and no model; reasoning is mixed into the text of \
                    answers, and a line like `## [user]` inside a message begins another one";

const PROPOSALS: &str = "these are edits that ploke proposed; what was said is in `.ploke_history.md`, which the command \
                         `save history` of ploke writes";

#[cfg(feature = "sqlite")]
const BACKUP: &str = "this is a backup of ploke's database, whose encoding only ploke reads; while the conversation is open, \
                      its command `save history` writes `.ploke_history.md`, which can be read";

/// The number of proposals that are examined.
const LOOK_AT: usize = 20;

/// Whether a text is a history of ploke, or its proposed edits.
pub(super) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_history =
        sample.text().trim_start().strip_prefix(TITLE).is_some_and(|rest| rest.starts_with(['\n', '\r']));
    let proposals = || {
        let is_proposal = |item: Value<'_>| {
            ["request_id", "parent_id", "call_id"].iter().all(|name| item.get(name).is_some())
        };
        let root = || sample.beginning().0.root();
        let is_list = sample.text().trim_start().starts_with('[');
        is_list && root().is_some_and(|root| root.items().take(LOOK_AT).any(is_proposal))
    };
    Claim::sure(is_history, "the title `# Ploke Chat History`")
        .or_else(|| Claim::likely(proposals(), "edits with a `request_id`, a `parent_id` and a `call_id`"))
}

/// Also recognises the backups of ploke's database.
pub(super) const fn and_backups(reading: Reading) -> Reading {
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(DatabaseReading {
        evidence: Evidence::Sniffed(sniff_backup),
        read: refuse_backup,
        needs: &[],
        tables: "cozo",
    });
    reading
}

#[cfg(feature = "sqlite")]
fn sniff_backup(database: &Database) -> Option<Claim> {
    Claim::likely(database.has("cozo", &["k", "v"]), "the table of a Cozo database")
}

#[cfg(feature = "sqlite")]
fn refuse_backup(_: &Database) -> Result<Vec<Session>, ReadError> {
    Err(ReadError::NoConversation(BACKUP))
}

/// Reads a history that comes as a stream.
pub(super) fn read_stream(stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let input = stream.into_input()?;
    let text = Arc::clone(&input.text);
    read(&input, Sample::new(&text))
}

/// Reads the conversation in a history.
pub(super) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let text = &input.text;
    if text.trim_start().starts_with(['[', '{']) {
        return Err(ReadError::NoConversation(PROPOSALS));
    }
    drop(sample);
    let messages = sections(text);
    if messages.is_empty() {
        return Err(ReadError::NoConversation("no line of it begins a message, as `## [user]` does"));
    }
    let mut builder = SessionBuilder::new(FORMAT);
    let title = &text[..messages[0].start];
    builder.aside(SourcePlace { index: 0, offset: 0, line: Some(1) }, Aside::Raw(Text::new(title)));
    let last = messages.len() - 1;
    let read = parallel::filter_map(&messages, |number, section: &Section<'_>| {
        let Section { kind, content, start, end, line } = *section;
        let said = Block::text(part_of(text, content));
        let (role, block) = match kind {
            "tool" => (Role::Tool, result(None, None, vec![said], false)),
            "sysInfo" => (Role::System, said),
            kind => (Role::named(kind), said),
        };
        let is_noise = match kind {
            "assistant" => PLACEHOLDERS.contains(&content.trim()),
            "sysInfo" => number == last && content.trim_start().starts_with(SAVING),
            _ => false,
        };
        let message = item(FORMAT, role, vec![block], plain_item(text, &text[start..end], None));
        let place = SourcePlace { index: line - 1, offset: start, line: Some(line) };
        Some((message, place, is_noise || content.trim().is_empty()))
    });
    builder.reserve(read.len());
    for (message, place, is_hidden) in read {
        match is_hidden {
            true => builder.hide(message, place, Detail::default()),
            false => builder.say(message, place, Detail::default()),
        }
    }
    // All conversations begin with the same instructions, and all files have the same name.
    let first = messages.iter().find(|section| section.kind == "user");
    let own_id = first.map(|section| &text[section.start..section.end]);
    builder.findings.extend(replaced_bytes(input));
    let lost = Finding::new(Rule::ForeignBlock, Position::default(), Action::LeftOut);
    builder.findings.push(lost.about("Markdown").because(LOST));
    Ok(vec![builder.finish(&input.name, own_id, Context::of_model(Dialect::OpenAiChat, None))])
}

/// A message with its heading.
#[derive(Clone, Copy)]
struct Section<'t> {
    kind: &'t str,
    content: &'t str,
    start: usize,
    end: usize,
    /// The line of the heading, from 1.
    line: usize,
}

/// The messages of a history.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(kind) = kind(line.trim_end()) {
            sections.push(Section { kind, content: "", start: offset, end: text.len(), line: number + 1 });
            let from = sections.len().saturating_sub(2);
            if let [before, _] = &mut sections[from..] {
                before.end = offset;
            }
        }
        offset += line.len();
    }
    for section in &mut sections {
        // A blank line stands after the heading, and another one after the content.
        let body = text[section.start..section.end].split_once('\n').map_or("", |(_, body)| body);
        let body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
        section.content = body.trim_end_matches(['\n', '\r']);
    }
    sections
}

/// The kind that a heading names.
fn kind(line: &str) -> Option<&str> {
    let kind = line.strip_prefix("## [")?.strip_suffix(']')?;
    ["user", "assistant", "system", "tool", "sysInfo"].contains(&kind).then_some(kind)
}
