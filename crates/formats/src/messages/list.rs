//! Finding the messages in a text: a request body, a bare array, or one JSON value per line.

use std::sync::Arc;

use rejoin_record::{
    Raw, Text,
    json::{Doc, Value, ValueKind, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{MessageReader, ReadMessage, Style, detect, roles::is_among, within};
use crate::{
    Dialect,
    context::{Context, Field},
    input::{Input, InputError, Stream},
    session::{
        Aside, ReadError, Session, SetAside, SourcePlace, derive_id, replaced_bytes, unreadable_from,
        unreadable_rest,
    },
    sessions::sample::{Parsed, Sample},
    wire::{anthropic, openai_chat, registry::Wire},
};

/// A format of message lists: where the list is, what its messages look like, and how they are read.
pub(crate) trait Shape: Copy {
    type Reader: ReadItem;
    /// Whether programs keep such lists inside documents of other shapes.
    const IS_KEPT_INSIDE: bool;
    /// The dialect whose bodies hold such lists. Its name is the name of the format.
    fn wire(self) -> &'static Wire;
    fn reader(self, model: Option<Text>) -> Self::Reader;
    /// The list, and the body around it if there is one.
    fn find<'d>(self, root: Value<'d>) -> Option<(Option<Value<'d>>, Value<'d>)>;
    /// Whether a value looks like a message of the list.
    fn is_message(self, value: Value<'_>) -> bool;
}

/// Reads the messages of one list, in order.
pub(crate) trait ReadItem {
    /// Reads the `index`-th message, an item of the text in `buffer`. `None` if it is no message at all.
    fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, index: usize) -> Option<ReadMessage>;
}

impl Shape for Style {
    type Reader = MessageReader;
    const IS_KEPT_INSIDE: bool = true;

    fn wire(self) -> &'static Wire {
        match self {
            Self::ToolCalls => &openai_chat::WIRE,
            Self::Blocks => &anthropic::WIRE,
        }
    }

    fn reader(self, model: Option<Text>) -> MessageReader {
        MessageReader::new(self, model)
    }

    fn find<'d>(self, root: Value<'d>) -> Option<(Option<Value<'d>>, Value<'d>)> {
        match root.kind() {
            ValueKind::Array => Some((None, root)),
            _ => {
                let list = root.get("messages").filter(|list| list.kind() == ValueKind::Array)?;
                Some((Some(root), list))
            }
        }
    }

    fn is_message(self, value: Value<'_>) -> bool {
        looks_like_message(value)
    }
}

impl ReadItem for MessageReader {
    fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, index: usize) -> Option<ReadMessage> {
        Self::read(self, item, buffer, index)
    }
}

/// The messages of a list; some programs write a single one without its brackets.
pub(crate) fn items<'d>(list: Value<'d>) -> impl Iterator<Item = Value<'d>> {
    let single = (list.kind() != ValueKind::Array).then_some(list);
    list.items().chain(single)
}

/// Whether a text looks like chat messages, and in which style.
pub fn sniff(sample: &Sample<'_>) -> Option<Style> {
    let beginning = sample.beginning_text();
    let told = sniff_text(beginning, sample.beginning());
    // If the beginning is not enough, the whole text is examined.
    told.or_else(|| {
        (beginning.len() < sample.text().len()).then(|| sniff_text(sample.text(), sample.whole()))?
    })
}

fn sniff_text(text: &str, (doc, error): &Parsed<'_>) -> Option<Style> {
    let list = |root: &Value<'_>| root.kind() == ValueKind::Array || root.get("messages").is_some();
    let whole =
        doc.root().filter(|root| error.is_none() || (root.is_cut() && list(root))).and_then(sniff_value);
    if error.is_none() && whole.is_none() {
        // The lines of a single value are not messages.
        return None;
    }
    // In a file of lines, each line may show the style, and some may be damaged.
    let score = whole.or_else(|| {
        let scores = text.lines().filter(|line| !line.trim().is_empty()).filter_map(|line| {
            let (doc, _) = Doc::parse_prefix(line);
            sniff_value(doc.root()?)
        });
        scores.reduce(|all, one| all + one)
    });
    // A value of several lines, and something after it.
    let score = score.or_else(|| doc.root().and_then(sniff_value))?;
    Some(if score < 0 { Style::Blocks } else { Style::ToolCalls })
}

/// The score of one value for OpenAI Chat; `None` if it holds no messages.
fn sniff_value(root: Value<'_>) -> Option<i32> {
    if let Some((_, _, list)) = within::conversations(root).first().filter(|_| !root.is_cut()) {
        let messages: Vec<_> = list.items().collect();
        return Some(detect::score(None, &messages));
    }
    let (body, messages) = messages_of(root)?;
    // An empty list is a conversation that has not begun, unless it was cut off right there.
    let not_begun = messages.is_empty() && (body.is_some() || !root.is_cut());
    let ours = |message: &Value<'_>| looks_like_message(*message) && !Dialect::owns_item(*message);
    let found = not_begun || messages.iter().any(ours);
    found.then(|| detect::score(body, &messages))
}

pub(super) fn looks_like_message(value: Value<'_>) -> bool {
    value.kind() == ValueKind::Object
        && (value.holds("role", ValueKind::String)
            || (value.get("content").is_some() && value.get("type").is_none()))
}

/// The body around the messages, if there is one, and the messages.
fn messages_of<'d>(root: Value<'d>) -> Option<(Option<Value<'d>>, Vec<Value<'d>>)> {
    match root.kind() {
        ValueKind::Array => Some((None, root.items().collect())),
        ValueKind::Object => {
            match root.get("messages").filter(|messages| messages.kind() == ValueKind::Array) {
                Some(messages) => Some((Some(root), messages.items().collect())),
                // A single message, as in the first of several lines.
                None => looks_like_message(root).then(|| (None, vec![root])),
            }
        }
        _ => None,
    }
}

/// Reads every conversation in a text.
///
/// # Errors
/// If the input does not begin as JSON, or holds nothing that looks like messages.
pub(crate) fn read<S: Shape>(input: &Input, sample: Sample<'_>, shape: S) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let not_json = |error| ReadError::not_json(input, error);
    let Some(root) = doc.root() else {
        return Err(error.map_or(ReadError::NoConversation("the file is empty"), not_json));
    };
    let inside = if error.is_none() && S::IS_KEPT_INSIDE { within::conversations(root) } else { Vec::new() };
    if !inside.is_empty() {
        let sessions = inside.into_iter().enumerate().map(|(number, (holder, name, list))| {
            let mut builder = Builder::new(&format!("{}#{number}", input.name), shape, None);
            builder.around(holder, name, list);
            list.items().for_each(|item| builder.add(item, &input.text, 0, None));
            builder.finish()
        });
        let mut sessions: Vec<Session> = sessions.collect();
        // Everything beside them is kept with the first.
        if let Some(first) = sessions.first_mut() {
            first.set_aside.splice(0..0, within::beside(root));
        }
        return Ok(sessions);
    }
    // More text after a complete value means one value per line.
    let lines = error.is_some() && !root.is_cut() && is_container(root) && !root.raw().contains('\n');
    if lines
        || (error.is_none()
            && root.kind() == ValueKind::Object
            && shape.find(root).is_none()
            && shape.is_message(root))
    {
        return read_lines(input, shape);
    }
    let Some((body, list)) = shape.find(root) else {
        // The first line may be the damaged one.
        if let (Some(_), Ok(sessions)) = (error, read_lines(input, shape)) {
            return Ok(sessions);
        }
        return Err(error.map_or(ReadError::NoConversation("it has no list of messages"), not_json));
    };
    let first = items(list).next();
    if body.is_none() && error.is_none() && first.is_some() && !items(list).any(|item| shape.is_message(item))
    {
        return Err(ReadError::NoConversation("the list holds no messages"));
    }
    if let Some(error) = error.filter(|_| !items(list).any(|item| shape.is_message(item) && !item.is_cut())) {
        return Err(not_json(error));
    }
    let mut builder = Builder::new(&input.name, shape, body.map(|body| (body, &input.text)));
    builder.session.context.bare_list = body.is_none();
    body.into_iter().for_each(|body| builder.other_lists(body, shape.wire().fields.messages, list));
    if body.is_none() && root.kind() == ValueKind::Object && !root.is_cut() {
        let holds = |(_, value): &(Value<'_>, Value<'_>)| value.start() == list.start();
        let name = root.fields().find(holds).and_then(|(key, _)| key.as_str()).unwrap_or_default();
        builder.around(root, &name, list);
    }
    builder.session.findings.extend(replaced_bytes(input));
    for item in items(list) {
        if item.is_cut() {
            builder.set_aside(&input.text[item.start()..], item.start());
        } else {
            builder.add(item, &input.text, 0, None);
        }
    }
    if list.kind() != ValueKind::Array {
        builder.unlisted();
    }
    if let Some(error) = error {
        let cut = items(list).last().is_some_and(Value::is_cut);
        let message = builder.next - usize::from(cut);
        if !cut {
            let start = unreadable_from(body, list, error);
            builder.set_aside(&input.text[start..], start);
        }
        builder.session.findings.push(unreadable_rest(input, error, message));
    }
    Ok(vec![builder.finish()])
}

fn is_container(value: Value<'_>) -> bool {
    matches!(value.kind(), ValueKind::Object | ValueKind::Array)
}

/// Reads one JSON value per line: the messages of one conversation, or one conversation each.
fn read_lines<S: Shape>(input: &Input, shape: S) -> Result<Vec<Session>, ReadError> {
    let mut lines = Lines::new(&input.name, shape);
    for line in input.text.split_inclusive('\n') {
        lines.add(line);
    }
    let mut sessions = lines.finish()?;
    if let Some(first) = sessions.first_mut() {
        first.findings.splice(0..0, replaced_bytes(input));
    }
    Ok(sessions)
}

/// Reads a file of lines that is too large to be one text. Needs memory for its conversation and one line; a line past the
/// limit is set aside.
///
/// # Errors
/// If there is no message in it, or it cannot be read.
pub(crate) fn read_stream<S: Shape>(
    shape: S,
    Stream { name, source, .. }: Stream<'_>,
) -> Result<Vec<Session>, ReadError> {
    let mut lines = Lines::new(name, shape);
    let mut bytes = Vec::new();
    let mut too_large = None;
    let mut scanner = rejoin_record::lines::Lines::new(source);
    while let Some(at) = scanner.next(&mut bytes).map_err(ReadError::io)? {
        let length = (at.len + u64::from(at.ended)) as usize;
        if at.too_long {
            too_large = Some(InputError::TooLarge { bytes: length });
            lines.too_long(length);
            continue;
        }
        if at.ended {
            bytes.push(b'\n');
        }
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            lines.replaced();
        }
        lines.add(&text);
    }
    match (lines.finish(), too_large) {
        (Err(ReadError::NoConversation(_)), Some(error)) => Err(error.into()),
        (read, _) => read,
    }
}

struct Lines<'n, S: Shape> {
    name: &'n str,
    shape: S,
    /// The offset of the next line, and its number from 0.
    offset: usize,
    number: usize,
    single: Option<Builder<S>>,
    sessions: Vec<Session>,
    damage: Vec<Finding>,
}

impl<'n, S: Shape> Lines<'n, S> {
    fn new(name: &'n str, shape: S) -> Self {
        Self { name, shape, offset: 0, number: 0, single: None, sessions: Vec::new(), damage: Vec::new() }
    }

    fn builder(&mut self) -> &mut Builder<S> {
        self.single.get_or_insert_with(|| Builder::new(self.name, self.shape, None))
    }

    fn add(&mut self, line: &str) {
        let start = self.offset;
        // Usually a line is one value; anything after it is read as well.
        let mut at = 0;
        while !line[at..].trim().is_empty() {
            let rest = &line[at..];
            let (doc, error) = Doc::parse_prefix(rest);
            let complete = |root: &Value<'_>| error.is_none() || (!root.is_cut() && is_container(*root));
            let Some(root) = doc.root().filter(complete) else {
                let message = self.builder().set_aside(rest.trim_end(), start + at);
                self.damaged(Some(message), None);
                break;
            };
            if self.shape.find(root).is_some() {
                self.body(root, start + at);
            } else {
                // Spans count from the message, so a line can have its own buffer.
                let line = self.number + 1;
                self.builder().add(root, &Arc::from(&rest[..root.end()]), start + at, Some(line));
            }
            at += root.end();
        }
        self.offset += line.len();
        self.number += 1;
    }

    /// Reads a line that is a conversation.
    fn body(&mut self, root: Value<'_>, start: usize) {
        let line = self.number + 1;
        let name = format!("{}:{line}", self.name);
        let own = Input { name, text: Arc::from(root.raw()), replaced_at: None, companions: None };
        let Ok(sessions) = read(&own, Sample::new(&own.text), self.shape) else {
            // It has a list, and there are no messages in it.
            let message = self.builder().keep(Aside::Unknown(Text::new(root.raw())), start);
            return self.damaged(Some(message), Some(String::from("it is not a conversation")));
        };
        for mut session in sessions {
            let aside = session.set_aside.iter_mut().map(|item| &mut item.place);
            for place in session.places.iter_mut().chain(aside) {
                place.offset += start + root.start();
                place.line = Some(line);
            }
            session.findings.iter_mut().for_each(|finding| finding.at.line = Some(line));
            self.sessions.push(session);
        }
    }

    /// Sets aside a line above the size limit.
    fn too_long(&mut self, bytes: usize) {
        let offset = self.offset;
        let message = self.builder().set_aside("", offset);
        self.damaged(Some(message), Some(format!("{bytes} bytes are more than a line may have")));
        self.offset += bytes;
        self.number += 1;
    }

    fn replaced(&mut self) {
        let at = Position { line: Some(self.number + 1), ..Position::default() };
        self.damage.push(Finding::new(Rule::InvalidUtf8, at, Action::Replaced));
    }

    fn damaged(&mut self, message: Option<usize>, why: Option<String>) {
        let at = Position { message, block: None, line: Some(self.number + 1) };
        let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
        self.damage.push(Finding { detail: why.map(Text::from), ..finding });
    }

    fn finish(mut self) -> Result<Vec<Session>, ReadError> {
        match self.single {
            Some(mut builder) if !builder.session.messages.is_empty() => {
                builder.session.findings.extend(self.damage);
                self.sessions.push(builder.finish());
            }
            // Lines between conversations belong to the one before them.
            single => {
                if let Some(last) = self.sessions.last_mut() {
                    last.findings.extend(self.damage.into_iter().map(|mut finding| {
                        finding.at.message = None;
                        finding
                    }));
                    let after = last.messages.len();
                    let aside = single.into_iter().flat_map(|builder| builder.session.set_aside);
                    last.set_aside.extend(aside.map(|item| SetAside { after, ..item }));
                }
            }
        }
        if self.sessions.is_empty() {
            return Err(ReadError::NoConversation("no line of it is a message"));
        }
        Ok(self.sessions)
    }
}

/// Fields that mark a stored conversation. No provider takes them.
const EXPORT_FIELDS: &str = "conversationId conversation_id createdAt created_at instance_id lastUpdated reward sessionId \
                             session_id startTime start_time taskId task_id timestamp title trajectory_format \
                             updatedAt updated_at";

/// Fields of a stored conversation that a request has as well, and that stay around its messages.
const REQUEST_FIELDS: &str = "generationConfig instructions max_tokens model system systemInstruction system_instruction \
                              temperature tool_choice tools";

struct Builder<S: Shape> {
    name: String,
    shape: S,
    reader: S::Reader,
    session: Session,
    own_id: Option<String>,
    first: Option<Raw>,
    /// The next message's number in the source.
    next: usize,
}

impl<S: Shape> Builder<S> {
    /// Begins a session of that name. `body` is the object around its messages, if there is one, and the text that holds it.
    fn new(name: &str, shape: S, body: Option<(Value<'_>, &Arc<str>)>) -> Self {
        let wire = shape.wire();
        let mut context =
            Context { dialect: Some(wire.dialect), whole_body: body.is_some(), ..Context::default() };
        let mut own_id = None;
        let mut around = String::from("{");
        if let Some((body, text)) = body {
            let is_mark = |key: Value<'_>| key.as_str().is_some_and(|key| is_among(&key, EXPORT_FIELDS));
            let exported = body.fields().any(|(key, _)| is_mark(key));
            context.whole_body &= !exported;
            for (key, value) in body.fields() {
                let name = key.as_str().unwrap_or_default();
                if name == wire.fields.messages {
                    context.before_messages = context.fields.len();
                    continue;
                }
                if matches!(&*name, "session_id" | "conversation_id" | "sessionId") {
                    own_id = value.as_str().map(std::borrow::Cow::into_owned);
                }
                // A field that was cut off is set aside with the rest.
                if value.is_cut() {
                    continue;
                }
                if exported && !is_among(&name, REQUEST_FIELDS) {
                    write::key(&mut around, &name);
                    around.push_str(value.raw());
                    continue;
                }
                let value = Raw::slice(text, value.start(), value.end());
                context.fields.extend(value.map(|value| Field { name: Text::new(&*name), value }));
            }
        }
        let model = context.model().map(Text::from);
        let mut set_aside = Vec::new();
        if around.len() > 1 {
            around.push('}');
            let offset = body.map_or(0, |(body, _)| body.start());
            set_aside.push(SetAside::around(offset, within::around(around)));
        }
        let id = derive_id(wire.name, None, name, None);
        let session = Session { set_aside, ..Session::new(wire.name, id, context) };
        let reader = shape.reader(model);
        Self { name: name.to_owned(), shape, reader, session, own_id, first: None, next: 0 }
    }

    /// Adds an item of the text in `buffer`, which starts at `shift` of the input, on a line if that is known.
    fn add(&mut self, item: Value<'_>, buffer: &Arc<str>, shift: usize, line: Option<usize>) {
        let index = self.next;
        let Some(read) = self.reader.read(item, buffer, self.session.messages.len()) else {
            self.keep(Aside::Unknown(Text::new(item.raw())), item.start() + shift);
            let finding = Finding::new(Rule::DamagedEntry, Position::message(index), Action::SetAside);
            self.session.findings.push(finding.because("it is not a message"));
            return;
        };
        self.next += 1;
        if self.first.is_none() {
            self.first = read.message.native.as_ref().map(|native| native.raw.clone());
        }
        self.session.places.push(SourcePlace { index, offset: item.start() + shift, line });
        self.session.messages.push(Arc::new(read.message));
        for mut finding in read.findings {
            finding.at.message = Some(index);
            self.session.findings.push(finding);
        }
    }

    /// Marks a message that stands alone where the API has a list. A request is written with the list, and says so.
    fn unlisted(&mut self) {
        for message in &mut self.session.messages {
            if let Some(native) = &mut Arc::make_mut(message).native {
                native.regular = false;
            }
        }
    }

    /// Keeps unreadable text; returns its number in the source.
    fn set_aside(&mut self, text: &str, offset: usize) -> usize {
        self.keep(Aside::Raw(Text::new(text)), offset)
    }

    /// Keeps something that is no message; returns its number in the source.
    fn keep(&mut self, what: Aside, offset: usize) -> usize {
        let index = self.next;
        self.next += 1;
        let place = SourcePlace { index, offset, line: None };
        self.session.set_aside.push(SetAside { place, after: self.session.messages.len(), what });
        index
    }

    /// Keeps other lists of the same name, of which only the last one counts.
    fn other_lists(&mut self, body: Value<'_>, name: &str, list: Value<'_>) {
        for (_, value) in
            body.fields().filter(|(key, value)| key.is_str(name) && value.start() != list.start())
        {
            let what = Aside::Unknown(Text::new(value.raw()));
            self.session.set_aside.push(SetAside::around(value.start(), what));
        }
    }

    /// Keeps the JSON around a list that is not in a request body.
    fn around(&mut self, holder: Value<'_>, name: &str, list: Value<'_>) {
        self.other_lists(holder, name, list);
        let what = within::around_list(holder, name);
        self.session.set_aside.push(SetAside::around(holder.start(), what));
    }

    fn finish(mut self) -> Session {
        self.session.id =
            derive_id(self.shape.wire().name, self.own_id.as_deref(), &self.name, self.first.as_ref());
        self.session
    }
}
