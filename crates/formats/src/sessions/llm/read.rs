//! Reads the threads and the older conversations of a database.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use hashbrown::{HashMap, HashSet};
use rejoin_record::{
    Block, Message, Raw, Role, Text,
    json::{Doc, Object, Value, ValueKind, write},
};
use rejoin_view::{Action, Finding, Position, Rule, Severity};
use rusqlite::types::ValueRef;

use super::FORMAT;
use crate::{
    session::{Aside, Detail, ReadError, Session},
    sessions::{
        building::{
            self, SessionBuilder, as_text, beside, call, item, medium, opaque, result, text_in, thought,
        },
        database::{Columns, Database, Key, columns, make_each, sort},
        registry::{DatabaseReading, Evidence},
        sample::Claim,
    },
    wire::{base64, render},
};

const THREADS: &[(&str, &[&str])] = &[
    ("threads", &["id", "name", "tip_message_hash"]),
    ("messages", &["hash", "parent_hash", "role"]),
    ("parts", &["message_hash", "position", "type", "text", "payload"]),
];

const RESPONSES: &[(&str, &[&str])] = &[
    ("conversations", &["id", "name", "model"]),
    ("responses", &["id", "prompt", "response", "conversation_id"]),
];

/// How the database of `llm` is read. The older tables stay in it and are often empty, so only the newer ones tell what it lacks.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    evidence: Evidence::Sniffed(sniff),
    read,
    needs: THREADS,
    tables: "attachments conversations fragment_aliases fragments messages part_attachments part_fragments parts \
             prompt_attachments prompt_fragments responses schemas system_fragments threads tool_calls tool_instances \
             tool_instantiations tool_responses tool_results tool_results_attachments tools turn_fragments turn_search turn_tools turns",
};

/// Whether a database is that of `llm`.
fn sniff(database: &Database) -> Option<Claim> {
    Claim::sure(has_threads(database) || has_responses(database), "the tables of `llm` logs")
}

fn has_threads(database: &Database) -> bool {
    database.has_all(THREADS)
}

fn has_responses(database: &Database) -> bool {
    database.has_all(RESPONSES)
}

/// Reads every conversation.
///
/// # Errors
/// If the database cannot be read, or holds none.
fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    if has_threads(database) {
        threads(database, &mut found, &mut known)?;
    }
    if has_responses(database) {
        responses(database, &mut found, &known)?;
    }
    if found.is_empty() { Err(ReadError::NoConversation("nothing is logged in it")) } else { Ok(found) }
}

fn begin(id: &str, name: Option<String>) -> SessionBuilder {
    let mut builder = SessionBuilder::new(FORMAT);
    let header = Object::new().text("id", id).text_if("name", name.as_ref()).finish();
    builder.aside(building::nth(0), Aside::Raw(Text::from(header)));
    if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
        builder.aside(building::nth(0), Aside::Title(Text::from(name)));
    }
    builder
}

fn threads(
    database: &Database,
    found: &mut Vec<Session>,
    known: &mut HashSet<String>,
) -> Result<(), ReadError> {
    let rows = message_rows(database)?;
    let stored = Stored::read(database, &rows)?;
    let mut chains = Chains { stored: &stored, seen: vec![None; stored.messages.len()] };
    let (mut builders, mut items) = (Vec::new(), Vec::new());
    let mut taken = HashSet::new();
    // The threads whose chains are broken: the hash that is missing, and how many messages each thread keeps beside its chain.
    let mut gaps: Vec<(usize, String, usize)> = Vec::new();
    let unparsed = |thread: usize, number: Option<usize>, message: usize, time: Option<Text>| {
        let message = &stored.messages[message];
        Ok::<_, ReadError>(Unparsed { thread, number, message, media: message.media(database)?, time })
    };
    let sql = "SELECT id, name, tip_message_hash FROM threads ORDER BY id";
    for (thread, [id, name, tip]) in database.rows(sql, [])?.into_iter().enumerate() {
        let id = id.unwrap_or_default();
        let mut builder = begin(&id, name);
        let Turns { model, times, hashes } = Turns::of(database, &id)?;
        let time = |message: usize| {
            times.get(stored.messages[message].hash).map(|time: &String| Text::new(time.as_str()))
        };
        let (chain, missing) = chains.before(tip.as_deref(), thread);
        // What else the turns of the thread name: messages before the missing one, or on another branch.
        let mut beside = Vec::new();
        for hash in &hashes {
            beside.extend(chains.before(Some(hash), thread).0);
        }
        if let Some(hash) = missing {
            let why = "the chain of messages is broken: llm itself would send none of them";
            let left = stored.without_message.get(hash).map(|parts| left_of(hash, parts));
            builder.damaged(building::nth(0), left.unwrap_or_else(|| hash.to_owned()), why);
            taken.insert(hash.to_owned());
            gaps.push((thread, hash.to_owned(), beside.len()));
        }
        for message in beside {
            items.push(unparsed(thread, None, message, time(message))?);
        }
        for (number, message) in chain.into_iter().enumerate() {
            items.push(unparsed(thread, Some(number), message, time(message))?);
        }
        known.insert(id.clone());
        builders.push((id, model, builder));
    }
    // Messages that nothing leads to any more are kept with the first thread whose chain is broken.
    let thread = gaps.first().map_or(0, |gap| gap.0);
    if let Some((_, _, builder)) = builders.get_mut(thread) {
        let loose: Vec<usize> =
            (0..stored.messages.len()).filter(|message| chains.seen[*message].is_none()).collect();
        match gaps.first_mut() {
            Some(gap) => gap.2 += loose.len(),
            None if loose.is_empty() => {}
            None => {
                let why = format!("no thread leads to {} messages: they are kept beside", loose.len());
                let finding = Finding::new(Rule::BrokenChain, Position::default(), Action::SetAside);
                builder.findings.push(Finding { severity: Severity::Note, ..finding.because(why) });
            }
        }
        for (hash, parts) in stored.without_message.iter().filter(|(hash, _)| !taken.contains(*hash)) {
            builder.damaged(building::nth(0), left_of(hash, parts), "the message of these parts is missing");
        }
        for message in loose {
            items.push(unparsed(thread, None, message, None)?);
        }
    }
    for (thread, hash, count) in gaps.into_iter().filter(|gap| gap.2 > 0) {
        let why = format!("{count} messages that may come before it are kept beside");
        let finding = Finding::new(Rule::BrokenChain, Position::default(), Action::SetAside);
        let finding = Finding { severity: Severity::Warning, ..finding.about(hash).because(why) };
        builders[thread].2.findings.push(finding);
    }
    let made = make_each(
        &items,
        |item, out| item.message.write(out),
        |item, text, root| of_parts(item, text, root, builders[item.thread].1.as_deref()),
    );
    for (item, message) in items.into_iter().zip(made) {
        let detail = Detail { id: Some(Text::new(item.message.hash)), time: item.time, ..Detail::default() };
        let builder = &mut builders[item.thread].2;
        match item.number {
            Some(number) => builder.say(message, building::nth(number), detail),
            None => builder.hide(message, building::nth(0), detail),
        }
    }
    found.extend(builders.into_iter().map(|(id, model, builder)| {
        builder.finish(database.name(), Some(&id), building::context(model.as_deref()))
    }));
    Ok(())
}

/// What the turns of a thread tell of it.
#[derive(Default)]
struct Turns {
    /// The last model that spoke.
    model: Option<String>,
    /// The time of each answer, by its hash.
    times: HashMap<String, String>,
    /// The last message of each request, and the answer to it.
    hashes: Vec<String>,
}

impl Turns {
    fn of(database: &Database, thread: &str) -> Result<Self, ReadError> {
        let mut turns = Self::default();
        if !database.has("turns", &["thread_id", "tip_message_hash", "model", "datetime_utc"]) {
            return Ok(turns);
        }
        let sql = format!(
            "SELECT model, tip_message_hash, datetime_utc, {} FROM turns WHERE thread_id = ?1 ORDER BY id",
            database.or_null("turns", "parent_message_hash")
        );
        for [spoke, tip, time, parent] in database.rows(&sql, [thread])? {
            turns.model = spoke.or(turns.model);
            turns.hashes.extend([parent, tip.clone()].into_iter().flatten());
            turns.times.extend(tip.zip(time));
        }
        Ok(turns)
    }
}

/// The chains of messages that lead to others.
struct Chains<'r> {
    stored: &'r Stored<'r>,
    /// The thread that each message was last seen in.
    seen: Vec<Option<usize>>,
}

impl<'r> Chains<'r> {
    /// The message with a hash and those before it, the first one first, as far as the thread has not seen them; and the hash of
    /// the message that is missing, if the chain is broken.
    fn before<'h>(&mut self, hash: Option<&'h str>, thread: usize) -> (Vec<usize>, Option<&'h str>)
    where
        'r: 'h,
    {
        let (mut chain, mut missing) = (Vec::new(), None);
        let mut next = hash;
        while let Some(hash) = next.take() {
            match self.stored.numbers.get(hash) {
                Some(&number) if self.seen[number].replace(thread) != Some(thread) => {
                    chain.push(number);
                    next = self.stored.messages[number].parent;
                }
                Some(_) => {}
                None => missing = Some(hash),
            }
        }
        chain.reverse();
        (chain, missing)
    }
}

/// A message of a thread before its item is written.
struct Unparsed<'s> {
    /// The number of its thread.
    thread: usize,
    /// Its own number in the thread, unless it is only kept beside.
    number: Option<usize>,
    message: &'s StoredMessage<'s>,
    /// The attachments of each part.
    media: Vec<Vec<Block>>,
    time: Option<Text>,
}

/// The messages of all threads. A query for each message would take longer than everything else.
struct Stored<'r> {
    messages: Vec<StoredMessage<'r>>,
    /// The number of each message, by its hash.
    numbers: HashMap<&'r str, usize>,
    /// The parts of messages that are missing, by their hashes.
    without_message: BTreeMap<String, Vec<([Key; 1], Part)>>,
}

/// A message as the tables have it.
struct StoredMessage<'r> {
    hash: &'r str,
    role: &'r str,
    parent: Option<&'r str>,
    /// Its parts, by their positions.
    parts: Vec<([Key; 1], Part)>,
}

/// A part of a message.
struct Part {
    /// Its type, text, payload and tool.
    columns: Columns<4>,
    /// Its id, if it has attachments.
    attached: Option<String>,
}

/// The hash, role and parent of each message.
fn message_rows(database: &Database) -> Result<Vec<Columns<3>>, ReadError> {
    let mut rows = Vec::new();
    database.each("SELECT hash, role, parent_hash FROM messages", [], |row| {
        rows.push(Columns::new(columns(row)?));
        Ok(())
    })?;
    Ok(rows)
}

impl<'r> Stored<'r> {
    fn read(database: &Database, rows: &'r [Columns<3>]) -> Result<Self, ReadError> {
        let mut attached = HashSet::new();
        if database.has("part_attachments", &["part_id"]) {
            let rows = database.rows("SELECT part_id FROM part_attachments", [])?;
            attached.extend(rows.into_iter().filter_map(|[id]| id));
        }
        let message = |row: &'r Columns<3>| {
            let [hash, role, parent] = row.get();
            let (hash, role) = (hash.unwrap_or_default(), role.unwrap_or_default());
            StoredMessage { hash, role, parent, parts: Vec::new() }
        };
        let mut messages: Vec<StoredMessage<'r>> = rows.iter().map(message).collect();
        let numbers: HashMap<&str, usize> =
            messages.iter().enumerate().map(|(number, message)| (message.hash, number)).collect();
        let mut without_message: BTreeMap<String, Vec<([Key; 1], Part)>> = BTreeMap::new();
        let mut failed = None;
        let sql = "SELECT position, message_hash, id, type, text, payload, tool_name FROM parts";
        database.each(sql, [], |row| {
            let [_, hash, id, kind, text, payload, tool] = columns(row)?;
            let hash = hash.unwrap_or_default();
            let text = match (text, &payload) {
                (None, Some(payload)) if payload.contains("text_ref") => composed(database, payload)
                    .unwrap_or_else(|why| {
                        failed = Some(why);
                        None
                    }),
                (text, _) => text,
            };
            let columns = Columns::new([kind, text, payload, tool]);
            let attached = id.filter(|id| attached.contains(&**id)).map(Cow::into_owned);
            let parts = match numbers.get(&*hash) {
                Some(&number) => &mut messages[number].parts,
                None => without_message.entry(hash.into_owned()).or_default(),
            };
            parts.push(([Key::of(row, 0)?], Part { columns, attached }));
            Ok(())
        })?;
        messages.iter_mut().for_each(|message| sort(&mut message.parts));
        without_message.values_mut().for_each(|parts| sort(parts));
        failed.map_or(Ok(Self { messages, numbers, without_message }), Err)
    }
}

impl StoredMessage<'_> {
    /// The attachments of each of its parts.
    fn media(&self, database: &Database) -> Result<Vec<Vec<Block>>, ReadError> {
        if self.parts.iter().all(|(_, part)| part.attached.is_none()) {
            return Ok(Vec::new());
        }
        let media = self.parts.iter().map(|(_, part)| match &part.attached {
            Some(id) => attachments(database, "part_attachments", "part_id", id),
            None => Ok(Vec::new()),
        });
        media.collect()
    }

    /// Writes the message as an object.
    fn write(&self, out: &mut String) {
        write_message(out, self.hash, self.role, &self.parts);
    }
}

fn write_message(out: &mut String, hash: &str, role: &str, parts: &[([Key; 1], Part)]) {
    out.push('{');
    for (name, value) in [("hash", hash), ("role", role)] {
        write::key(out, name);
        write::string(out, value);
    }
    write::key(out, "parts");
    write::list(out, parts, |out, (_, part)| part.write(out));
    out.push('}');
}

/// The parts of a message that is missing, as the object that the message would be.
fn left_of(hash: &str, parts: &[([Key; 1], Part)]) -> String {
    let mut text = String::new();
    write_message(&mut text, hash, "", parts);
    text
}

impl Part {
    /// Writes it as an object, with the fields of its payload.
    fn write(&self, out: &mut String) {
        let [kind, text, payload, tool] = self.columns.get();
        let doc = payload.map(Doc::of);
        let root = doc.as_ref().and_then(Doc::root).filter(|root| root.kind() == ValueKind::Object);
        out.push('{');
        write::key(out, "type");
        write::string(out, kind.unwrap_or_default());
        for (name, value) in [("text", text), ("tool_name", tool)] {
            if let Some(value) = value {
                write::key(out, name);
                write::string(out, value);
            }
        }
        for (key, value) in root.into_iter().flat_map(Value::fields) {
            write::key(out, &key.as_str().unwrap_or_default());
            out.push_str(value.raw());
        }
        out.push('}');
    }
}

/// The text that was put together from fragments: its payload is a list of them.
fn composed(database: &Database, payload: &str) -> Result<Option<Cow<'static, str>>, ReadError> {
    let doc = Doc::of(payload);
    let Some(pieces) = doc.root().and_then(|root| root.get("text_ref")) else { return Ok(None) };
    let mut text = String::new();
    for piece in pieces.items() {
        if let Some(literal) = piece.get("literal").and_then(Value::as_str) {
            text.push_str(&literal);
        } else if let Some(id) = piece.get("fragment") {
            let rows = database.rows::<1>("SELECT content FROM fragments WHERE id = ?1", [id.raw()])?;
            rows.into_iter().for_each(|[content]| text.push_str(&content.unwrap_or_default()));
        }
    }
    Ok(Some(text.into()))
}

/// The images and documents that a table links to a row.
fn attachments(database: &Database, table: &str, column: &str, id: &str) -> Result<Vec<Block>, ReadError> {
    let mut found = Vec::new();
    if !database.has(table, &[column, "attachment_id"])
        || !database.has("attachments", &["type", "path", "url", "content"])
    {
        return Ok(found);
    }
    let sql = format!(
        "SELECT a.type, a.path, a.url, a.content FROM {table} l JOIN attachments a ON a.id = l.attachment_id \
         WHERE l.{column} = ?1 ORDER BY l.rowid"
    );
    database.each(&sql, [id], |row| {
        let text = |number| row.get::<_, Option<String>>(number);
        let (kind, path, url) = (text(0)?, text(1)?, text(2)?);
        let data = match row.get_ref(3)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => {
                Some(format!("data:{};base64,{}", kind.as_deref().unwrap_or_default(), base64::encode(bytes)))
            }
            _ => None,
        };
        let address = data.or(url).or_else(|| path.as_ref().map(|path| format!("file://{path}")));
        found.push(medium(&address.unwrap_or_default(), kind.as_deref(), path.as_deref()));
        Ok(())
    })?;
    Ok(found)
}

fn of_parts(
    message: &Unparsed<'_>,
    text: &Arc<str>,
    root: Option<Value<'_>>,
    model: Option<&str>,
) -> Message {
    let parts = root.and_then(|root| root.get("parts"));
    let mut blocks = Vec::new();
    let mut media = message.media.iter();
    for part in parts.into_iter().flat_map(Value::items) {
        let field = |name| text_in(part, name);
        let name = || field("name").or_else(|| field("tool_name"));
        match &*part.word("type") {
            "text" => blocks.extend(field("text").map(Block::text)),
            "reasoning" => blocks.extend(field("text").map(|text| thought(text, FORMAT, model))),
            "tool_call" => {
                blocks.push(call(field("tool_call_id").as_deref(), name().as_deref(), part.get("arguments")));
            }
            "tool_result" => {
                let failed = part.given("exception");
                let output = part.given("output").filter(|output| !output.is_str("")).or(failed).map(as_text);
                let content = vec![Block::text(output.unwrap_or_else(|| Text::new("")))];
                let (id, name) = (field("tool_call_id"), name());
                blocks.push(result(id.as_deref(), name.as_deref(), content, failed.is_some()));
            }
            "attachment" => {}
            kind => blocks.push(opaque(kind, part)),
        }
        blocks.extend(media.next().into_iter().flatten().cloned());
    }
    item(FORMAT, Role::named(message.message.role), blocks, Raw::new(Arc::clone(text)))
}

fn responses(
    database: &Database,
    found: &mut Vec<Session>,
    known: &HashSet<String>,
) -> Result<(), ReadError> {
    for [id, name, model] in database.rows("SELECT id, name, model FROM conversations ORDER BY id", [])? {
        let id = id.unwrap_or_default();
        // A conversation that was continued was taken over into the new tables.
        if known.contains(&id) {
            continue;
        }
        let mut builder = begin(&id, name);
        let rows = response_rows(database, "conversation_id = ?1", &[&id])?;
        add_responses(database, &mut builder, model.as_deref(), rows)?;
        found.push(builder.finish(database.name(), Some(&id), building::context(model.as_deref())));
    }
    // The first releases made no conversation of a single prompt, and a conversation may have been deleted without its responses.
    // `llm logs` lists these responses as well, each by itself; those that name the same conversation belong together.
    let alone = "conversation_id IS NULL OR conversation_id NOT IN (SELECT id FROM conversations WHERE id IS NOT NULL)";
    let mut of_conversation: HashMap<String, usize> = HashMap::new();
    let mut lonely: Vec<(String, Vec<[Option<String>; 8]>)> = Vec::new();
    for row in response_rows(database, alone, &[])? {
        let id = row[7].clone().or_else(|| row[0].clone()).unwrap_or_default();
        if known.contains(&id) {
            continue;
        }
        let at = row[7].as_ref().and_then(|id| of_conversation.get(id).copied());
        match at {
            Some(at) => lonely[at].1.push(row),
            None => {
                row[7].iter().for_each(|id| {
                    of_conversation.insert(id.clone(), lonely.len());
                });
                lonely.push((id, vec![row]));
            }
        }
    }
    for (id, rows) in lonely {
        let mut builder = begin(&id, None);
        let model = rows.last().and_then(|row| row[6].clone());
        add_responses(database, &mut builder, model.as_deref(), rows)?;
        found.push(builder.finish(database.name(), Some(&id), building::context(model.as_deref())));
    }
    Ok(())
}

/// The id, prompt, answer, instructions, reasoning, time, model and conversation of the responses for which a condition holds.
fn response_rows(
    database: &Database,
    condition: &str,
    params: &[&String],
) -> Result<Vec<[Option<String>; 8]>, ReadError> {
    let [system, reasoning, time, model] =
        ["system", "reasoning", "datetime_utc", "model"].map(|name| database.or_null("responses", name));
    let sql = format!(
        "SELECT id, prompt, response, {system}, {reasoning}, {time}, {model}, conversation_id FROM responses \
         WHERE {condition} ORDER BY id"
    );
    database.rows(&sql, rusqlite::params_from_iter(params))
}

/// Adds what was asked and answered in each of these responses.
fn add_responses(
    database: &Database,
    builder: &mut SessionBuilder,
    model: Option<&str>,
    rows: Vec<[Option<String>; 8]>,
) -> Result<(), ReadError> {
    let mut instructions = None;
    for (number, [response, prompt, said, system, reasoning, time, ..]) in rows.into_iter().enumerate() {
        let response = response.unwrap_or_default();
        let row = Row { database, id: &response, model };
        let mut messages = Vec::new();
        let system = joined(row.fragments("system_fragments")?, system);
        if system.is_some() && system != instructions {
            messages.extend(system.clone().map(|text| beside(Role::System, vec![Block::text(text)])));
            instructions = system;
        }
        let results = row.results()?;
        messages.extend((!results.is_empty()).then(|| beside(Role::Tool, results)));
        let mut asked: Vec<Block> = row.fragments("prompt_fragments")?.into_iter().map(Block::text).collect();
        asked.extend(prompt.clone().filter(|text| !text.is_empty()).map(Block::text));
        asked.extend(attachments(database, "prompt_attachments", "response_id", &response)?);
        messages.extend((!asked.is_empty()).then(|| beside(Role::User, asked)));
        let mut answer = Vec::new();
        answer.extend(
            reasoning
                .filter(|text| !text.is_empty())
                .map(|text| thought(Text::from(text), FORMAT, row.model)),
        );
        answer.extend(said.clone().filter(|text| !text.is_empty()).map(Block::text));
        answer.extend(row.calls()?);
        messages.push(beside(Role::Assistant, answer));
        let native = Object::new().text("id", &response).text_if("prompt", prompt).text_if("response", said);
        let native = Raw::new(native.finish());
        let mut detail =
            Detail { id: Some(Text::from(response)), time: time.map(Text::from), ..Detail::default() };
        // The row is kept with its answer, which is always there.
        let last = messages.len() - 1;
        for (place, mut message) in messages.into_iter().enumerate() {
            let mut own = Detail { id: None, ..detail.clone() };
            if place == last {
                message = item(FORMAT, message.role, message.blocks, native.clone());
                own = std::mem::take(&mut detail);
            }
            builder.say(message, building::nth(number), own);
        }
    }
    Ok(())
}

fn joined(fragments: Vec<String>, text: Option<String>) -> Option<String> {
    let all: Vec<String> = fragments.into_iter().chain(text.filter(|text| !text.is_empty())).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// One row of `responses`.
struct Row<'r> {
    database: &'r Database,
    id: &'r str,
    model: Option<&'r str>,
}

impl Row<'_> {
    fn fragments(&self, table: &str) -> Result<Vec<String>, ReadError> {
        if !self.database.has(table, &["response_id", "fragment_id"])
            || !self.database.has("fragments", &["content"])
        {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT f.content FROM {table} l JOIN fragments f ON f.id = l.fragment_id \
             WHERE l.response_id = ?1 ORDER BY l.rowid"
        );
        Ok(self.database.rows(&sql, [self.id])?.into_iter().filter_map(|[text]| text).collect())
    }

    fn results(&self) -> Result<Vec<Block>, ReadError> {
        if !self.database.has("tool_results", &["response_id", "name", "output", "tool_call_id"]) {
            return Ok(Vec::new());
        }
        let failed = self.database.or_null("tool_results", "exception");
        let sql = format!(
            "SELECT tool_call_id, name, output, {failed} FROM tool_results WHERE response_id = ?1 ORDER BY id"
        );
        let rows = self.database.rows(&sql, [self.id])?;
        let results = rows.into_iter().map(|[id, name, output, failed]| {
            let is_error = failed.is_some();
            let output = output.filter(|output| !output.is_empty()).or(failed).unwrap_or_default();
            result(id.as_deref(), name.as_deref(), vec![Block::text(output)], is_error)
        });
        Ok(results.collect())
    }

    fn calls(&self) -> Result<Vec<Block>, ReadError> {
        if !self.database.has("tool_calls", &["response_id", "name", "arguments", "tool_call_id"]) {
            return Ok(Vec::new());
        }
        let sql = "SELECT tool_call_id, name, arguments FROM tool_calls WHERE response_id = ?1 ORDER BY id";
        let rows = self.database.rows(sql, [self.id])?;
        let calls = rows.into_iter().map(|[id, name, arguments]| {
            let arguments = render::quoted(&arguments.unwrap_or_default());
            let doc = Doc::of(&arguments);
            call(id.as_deref(), name.as_deref(), doc.root())
        });
        Ok(calls.collect())
    }
}
