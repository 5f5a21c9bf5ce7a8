//! A conversation as it was read: messages with their places, surroundings, and what was found while reading.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Raw, Salt, Text, Timestamp,
    chain::Stamp,
    content::{Metadata, RawItem},
};
use rejoin_view::{Finding, History, Position};

use crate::{context::Context, input::InputError};

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number in the source, from 0, counting what was set aside too.
    pub index: usize,
    /// Its first byte in the input.
    pub offset: usize,
    /// Its line, from 1, where the reader knows it.
    pub line: Option<usize>,
}

/// Something that was not a message, kept as it was.
#[derive(Debug, Clone)]
pub struct SetAside {
    /// Where it stood.
    pub place: Place,
    /// How many messages came before it.
    pub after: usize,
    /// Its exact text.
    pub text: Text,
}

/// One conversation out of a file.
#[derive(Debug, Clone)]
pub struct Session {
    /// The name of the format.
    pub format: &'static str,
    /// The id that the conversation has in rejoin.
    pub id: ConversationId,
    /// What surrounds the messages.
    pub context: Context,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// Where each message came from.
    pub places: Vec<Place>,
    /// What was found while reading, with source positions.
    pub findings: Vec<Finding>,
    /// What was not a message.
    pub set_aside: Vec<SetAside>,
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes are no text.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The text is not JSON, from its very beginning.
    #[error("not JSON: {reason} (line {line}, byte {offset})")]
    NotJson {
        /// What is wrong.
        reason: &'static str,
        /// Where, in lines from 1.
        line: usize,
        /// Where, in bytes.
        offset: usize,
    },
    /// It is JSON, but no conversation in the format.
    #[error("no conversation in it: {0}")]
    NoConversation(&'static str),
    /// Reading stopped.
    #[error("{0}")]
    Io(String),
    /// Nobody knows the format.
    #[error("the format is not known")]
    UnknownFormat,
}

impl ReadError {
    /// Reading stopped for a reason of the system's.
    pub(crate) fn io(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl Session {
    /// The history to repair.
    #[must_use]
    pub fn history(&self) -> History {
        History::of(self.messages.iter().cloned())
    }

    /// Puts a finding about the history at its place in the source.
    #[must_use]
    pub fn place(&self, finding: Finding) -> Finding {
        Finding { at: self.source_position(finding.at), ..finding }
    }

    /// The place in the source of a place in the history.
    #[must_use]
    pub fn source_position(&self, at: Position) -> Position {
        let place = at.message.and_then(|message| self.places.get(message));
        Position { message: place.map_or(at.message, |place| Some(place.index)), ..at }
    }

    /// Where the messages stand, by their number in the source.
    #[must_use]
    pub fn source_places(&self) -> HashMap<usize, Place> {
        self.places
            .iter()
            .chain(self.set_aside.iter().map(|item| &item.place))
            .map(|place| (place.index, *place))
            .collect()
    }

    /// The conversation as entries of the record. The same source gives the same ids, and a grown one keeps the ids of
    /// what it had. Salts are derived too, so that importing twice gives the same bytes.
    #[must_use]
    pub fn to_entries(&self, imported_at: Timestamp) -> Vec<Entry> {
        let mut chain = Chain::empty();
        let mut parent = self.id.to_string();
        let mut entries = Vec::with_capacity(self.messages.len() + 1);
        let mut append = |kind: Kind, content: &Content, bytes: &str, entries: &mut Vec<Entry>| {
            let id = EntryId::derive(&self.id, &parent, bytes);
            let salt = Salt(id.as_uuid().into_bytes());
            let entry =
                chain.append(kind, content, Stamp { id, timestamp: imported_at, salt, source_time: None });
            parent = id.to_string();
            entries.push(entry);
        };
        let metadata = Metadata {
            conversation: self.id,
            provider: None,
            model: self.context.model().map(Text::from),
            directory: None,
            format: Some(Text::new(self.format)),
        };
        append(Kind::Header, &Content::Header(metadata), "header", &mut entries);
        let mut aside = self.set_aside.iter().peekable();
        for place in 0..=self.messages.len() {
            while let Some(item) = aside.next_if(|item| item.after == place) {
                let raw = RawItem { format: Text::new(self.format), text: item.text.clone() };
                append(Kind::Raw, &Content::Raw(raw), &item.text, &mut entries);
            }
            if let Some(message) = self.messages.get(place) {
                let bytes = message.native.as_ref().map_or("", |native| native.raw.as_str()).to_owned();
                append(Kind::Message, &Content::Message(Message::clone(message)), &bytes, &mut entries);
            }
        }
        entries
    }
}

/// The id of an imported conversation: from the source's own id, or else its name and first message.
#[must_use]
pub fn derive_id(format: &str, own_id: Option<&str>, name: &str, first: Option<&Raw>) -> ConversationId {
    match own_id {
        Some(own) => ConversationId::derive(format, own),
        None => {
            let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
            ConversationId::derive(format, &format!("{name}\n{}", first.map_or("", Raw::as_str)))
        }
    }
}
