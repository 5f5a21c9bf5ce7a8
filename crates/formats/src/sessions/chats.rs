//! Conversations in the forms of frameworks and datasets: Microsoft's Agent Framework, LangChain, ShareGPT, and Entire's compact
//! transcripts. Each is a list of messages in a file, or in each of its lines; what differs is a message.

mod agent_framework;
mod entire;
mod langchain;
mod sharegpt;

use std::sync::Arc;

use rejoin_record::{
    Block, Message, Raw, Role, Text,
    json::{Value, ValueKind},
};
use rejoin_view::Finding;

use super::{
    building::{self, SessionBuilder, beside},
    lines::{self, Line, LineReader, text_of},
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Input, Stream},
    messages::around_list,
    session::{Aside, Detail, ReadError, Session, SetAside, SourcePlace, replaced_bytes, unreadable_rest},
};

pub(crate) use agent_framework::AGENT_FRAMEWORK;
pub(crate) use entire::ENTIRE;
pub(crate) use langchain::LANGCHAIN;
pub(crate) use sharegpt::SHAREGPT;

/// How many lines and messages are examined to detect a format.
const LOOK_AT: usize = 20;

/// A form of messages.
pub(crate) struct Chat {
    /// The name of the format.
    pub name: &'static str,
    /// What tells it, as the end of a sentence that begins with "it has".
    reason: &'static str,
    /// The names of the fields that may hold the list.
    lists: &'static [&'static str],
    /// Whether a value is a message of the form.
    is_message: fn(Value<'_>) -> bool,
    /// What a message says.
    read: fn(Value<'_>) -> ChatMessage,
    /// Fields that hold no words of the conversation.
    pub known: &'static [Known],
}

/// What a message says, and the results that it holds beside its calls.
struct ChatMessage {
    role: Role,
    blocks: Vec<Block>,
    results: Vec<Block>,
    detail: Detail,
}

impl ChatMessage {
    fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self { role, blocks, results: Vec::new(), detail: Detail::default() }
    }
}

impl Chat {
    /// The list of messages in a value, and the name of its field.
    fn list<'d>(&self, root: Value<'d>) -> Option<(&'static str, Value<'d>)> {
        let ours = |list: &Value<'_>| list.items().take(LOOK_AT).any(self.is_message);
        if root.kind() == ValueKind::Array {
            return Some(("", root)).filter(|(_, list)| ours(list));
        }
        self.lists.iter().find_map(|name| Some((*name, root.get(name).filter(ours)?)))
    }

    /// Whether a text holds such messages.
    pub(crate) fn sniff(&self, sample: &Sample<'_>) -> Option<Claim> {
        let tells = |root: Value<'_>| {
            let each = || {
                root.kind() == ValueKind::Array
                    && root.items().take(LOOK_AT).any(|item| self.list(item).is_some())
            };
            self.list(root).is_some() || (self.is_message)(root) || each()
        };
        let whole = || sample.whole().0.root().is_some_and(tells);
        Claim::sure(sample.any_line(LOOK_AT, tells) || whole(), self.reason)
    }

    /// Reads every conversation in a text.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn read(&'static self, input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
        let (doc, error) = sample.into_whole();
        let doc = doc.shared_as(&input.text);
        let root = doc.root().filter(|root| error.is_none() || root.is_cut());
        let Some(root) = root.filter(|root| root.is_cut() || !(self.is_message)(*root)) else {
            return self.read_lines(input);
        };
        let mut sessions: Vec<Session> = Vec::new();
        let mut strange = Vec::new();
        if let Some((name, list)) = self.list(root) {
            sessions.push(self.session(root, name, list, &input.text, &input.name));
        } else {
            for (number, item) in root.items().enumerate() {
                match self.list(item).filter(|_| !item.is_cut()) {
                    Some((name, list)) => {
                        let own = format!("{}#{number}", input.name);
                        sessions.push(self.session(item, name, list, &input.text, &own));
                    }
                    None => {
                        strange.push((SourcePlace { offset: item.start(), ..building::nth(number) }, item))
                    }
                }
            }
        }
        let Some(first) = sessions.first_mut() else { return self.read_lines(input) };
        for (place, item) in strange {
            // What was cut off is reported once, by the error of the whole text.
            let what = match item.is_cut() {
                true => Aside::Raw(Text::new(&input.text[item.start()..])),
                false => Aside::Unknown(Text::new(item.raw())),
            };
            first
                .findings
                .extend((!item.is_cut()).then(|| building::damage(place, "it is not a conversation")));
            first.set_aside.push(SetAside { place, after: first.messages.len(), what });
        }
        first.findings.splice(0..0, replaced_bytes(input));
        if let Some((error, last)) = error.zip(sessions.last_mut()) {
            last.findings.push(unreadable_rest(input, error, last.places.len()));
            let items = self.list(root).map_or(root, |(_, list)| list);
            if let Some(rest) = building::rest_after(items, &input.text) {
                let place =
                    SourcePlace { offset: input.text.len() - rest.len(), ..building::nth(last.places.len()) };
                let what = Aside::Raw(Text::new(rest));
                last.set_aside.push(SetAside { place, after: last.messages.len(), what });
            }
        }
        Ok(sessions)
    }

    fn read_lines(&'static self, input: &Input) -> Result<Vec<Session>, ReadError> {
        let mut source = input.text.as_bytes();
        let stream = Stream { name: &input.name, source: &mut source, companions: None };
        let mut sessions = self.read_stream(stream)?;
        if let Some(first) = sessions.first_mut() {
            first.findings.splice(0..0, replaced_bytes(input));
        }
        Ok(sessions)
    }

    /// Reads a file of lines: each is a message of one conversation, or a conversation.
    ///
    /// # Errors
    /// If there is no message in it.
    pub(crate) fn read_stream(&'static self, mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
        let name = stream.name;
        let mut reading = Lines {
            chat: self,
            name,
            builder: SessionBuilder::new(self.name),
            has_messages: false,
            sessions: Vec::new(),
        };
        let conversation = |line: &Line, root: Value<'_>| self.conversation(line, root, name);
        lines::read_made(&mut stream, &mut reading, conversation, |reading, session| {
            reading.sessions.push(session);
        })?;
        let Lines { builder, has_messages, mut sessions, .. } = reading;
        if has_messages {
            sessions.insert(0, builder.finish(name, None, building::context(None)));
        } else if let Some(first) = sessions.first_mut() {
            first.findings.splice(0..0, builder.findings);
            first.set_aside.splice(0..0, builder.set_aside);
        }
        if sessions.is_empty() {
            Err(ReadError::NoConversation("it holds no messages"))
        } else {
            Ok(sessions)
        }
    }

    /// The conversation that is a line of a file of that name. `None` if the line is something else.
    fn conversation(&self, line: &Line, root: Value<'_>, file: &str) -> Option<Session> {
        let (field, list) = if (self.is_message)(root) { None } else { self.list(root) }?;
        let name = format!("{file}:{}", line.place.index + 1);
        let mut session = self.session(root, field, list, &line.text, &name);
        let aside = session.set_aside.iter_mut().map(|item| &mut item.place);
        for place in session.places.iter_mut().chain(aside) {
            place.offset += line.place.offset;
            place.line = line.place.line;
        }
        session.findings.iter_mut().for_each(|finding| finding.at.line = line.place.line);
        Some(session)
    }

    /// The conversation in a list.
    fn session(
        &self,
        root: Value<'_>,
        field: &'static str,
        list: Value<'_>,
        buffer: &Arc<str>,
        name: &str,
    ) -> Session {
        let mut builder = SessionBuilder::new(self.name);
        if !field.is_empty() && !root.is_cut() {
            builder.aside(building::nth(0), around_list(root, field));
        } else if !field.is_empty() {
            let before = buffer.get(root.start()..list.start()).unwrap_or_default();
            builder.aside(building::nth(0), Aside::Raw(Text::new(before)));
        }
        builder.reserve(list.items().count());
        for (number, message) in list.items().enumerate() {
            let place = SourcePlace { offset: message.start(), ..building::nth(number) };
            match message.is_cut() {
                true => builder.aside(place, Aside::Raw(Text::new(&buffer[message.start()..]))),
                false => self.add(&mut builder, message, buffer, place),
            }
        }
        let id = ["session_id", "conversation_id", "thread_id"].iter().find_map(|name| text_of(root, name));
        builder.finish(name, id.as_deref(), building::context(None))
    }

    fn add(&self, builder: &mut SessionBuilder, message: Value<'_>, buffer: &Arc<str>, place: SourcePlace) {
        if !(self.is_message)(message) {
            builder.findings.push(building::damage(place, "it is not a message"));
            return builder.aside(place, Aside::Unknown(Text::new(message.raw())));
        }
        let raw =
            Raw::slice(buffer, message.start(), message.end()).unwrap_or_else(|| Raw::new(message.raw()));
        let ChatMessage { role, blocks, results, detail } = (self.read)(message);
        let time = detail.time.clone();
        let said: Message = builder.item(role, blocks, raw);
        builder.say(said, place, detail);
        if !results.is_empty() {
            builder.say(beside(Role::Tool, results), place, Detail { time, ..Detail::default() });
        }
    }
}

struct Lines<'s> {
    chat: &'static Chat,
    name: &'s str,
    /// The conversation whose messages are lines.
    builder: SessionBuilder,
    has_messages: bool,
    /// Conversations that are lines.
    sessions: Vec<Session>,
}

impl LineReader for Lines<'_> {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        // Few conversations come here: most are made ahead.
        match self.chat.conversation(line, root, self.name) {
            Some(session) => self.sessions.push(session),
            None => {
                self.has_messages |= (self.chat.is_message)(root);
                self.chat.add(&mut self.builder, root, &line.text, line.place);
            }
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.aside(line.place, Aside::Raw(Text::new(line.text.clone())));
        self.builder.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
