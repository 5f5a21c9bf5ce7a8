//! Shared by the tests of stores: entries to append, a small digester, and checks of the results.

#![allow(dead_code, reason = "not every test needs everything")]

use std::{collections::BTreeSet, ops::ControlFlow, path::Path};

use jiff::Timestamp;
use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Message, Raw, Role, Salt, Scope, Tail, Tree,
    chain::Stamp,
    content::{Erased, Meta, Metadata},
};
use rejoin_store::{
    Access, Damage, Digest, Location, Options, Problem, SessionState, Store, StoredItem, Summarize, Title,
    Words,
};

/// A conversation in the making. Everything about it follows from its number.
pub struct Talk {
    pub id: ConversationId,
    pub chain: Chain,
    number: u64,
    made: u64,
}

impl Talk {
    pub fn new(number: u64) -> Self {
        let id = ConversationId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { id, chain: Chain::empty(), number, made: 0 }
    }

    pub fn stamp(&mut self) -> Stamp {
        self.made += 1;
        let mut random = [0; 10];
        random[..8].copy_from_slice(&(self.number << 32 | self.made).to_be_bytes());
        let seconds = 1_750_000_000 + self.number * 1000 + self.made;
        Stamp {
            id: EntryId::new(seconds * 1000, random),
            timestamp: Timestamp::from_second(seconds as i64).unwrap(),
            salt: Salt([self.made as u8; 16]),
            source_time: None,
        }
    }

    pub fn header(&mut self) -> Entry {
        let metadata = Metadata {
            conversation: self.id,
            provider: Some("offline".into()),
            model: Some("tiny".into()),
            directory: None,
            format: None,
        };
        let stamp = self.stamp();
        self.chain.append(Kind::Header, &Content::Header(metadata), stamp)
    }

    pub fn say(&mut self, message: Message) -> Entry {
        let stamp = self.stamp();
        self.chain.append(Kind::Message, &Content::Message(message), stamp)
    }

    pub fn user(&mut self, text: &str) -> Entry {
        self.say(Message::user(text))
    }

    /// Someone else's words under an earlier entry.
    pub fn under(&mut self, parent: &Entry, text: &str) -> Entry {
        let stamp = self.stamp();
        let parent = Some((parent.id(), parent.hash()));
        self.chain.append_under(parent, Kind::Message, &Content::Message(Message::user(text)), stamp)
    }

    pub fn body(&mut self, kind: Kind, parent: &Entry, body: &str) -> Entry {
        let stamp = self.stamp();
        self.chain.append_body(Some((parent.id(), parent.hash())), kind, Raw::new(body), stamp)
    }

    pub fn titled(&mut self, title: &str) -> Entry {
        let stamp = self.stamp();
        let meta = Meta { title: Some(title.into()), ..Meta::default() };
        self.chain.append(Kind::Meta, &Content::Meta(meta), stamp)
    }

    pub fn of_scope(&mut self, scope: &Scope) -> Entry {
        let stamp = self.stamp();
        let meta = Meta { scope: Some(scope.to_raw()), ..Meta::default() };
        self.chain.append(Kind::Meta, &Content::Meta(meta), stamp)
    }

    pub fn erased(&mut self, entry: EntryId) -> Entry {
        let stamp = self.stamp();
        self.chain.append(Kind::Erased, &Content::Erased(Erased { entry, reason: None }), stamp)
    }

    /// A header and a message of the user.
    pub fn begun(number: u64, text: &str) -> (Self, Entry, Entry) {
        let mut talk = Self::new(number);
        let (header, first) = (talk.header(), talk.user(text));
        (talk, header, first)
    }

    /// A header and this many messages.
    pub fn of(number: u64, messages: usize) -> (Self, Vec<Entry>) {
        let mut talk = Self::new(number);
        let mut entries = vec![talk.header()];
        entries.extend((0..messages).map(|message| {
            let text = format!("message {message} of talk {number}: Grüße, 世界 \"quoted\" \\ J*M");
            if message % 2 == 0 { talk.user(&text) } else { talk.say(Message::assistant(text)) }
        }));
        (talk, entries)
    }
}

/// A small digester of the tests' own: it follows calls by their ids alone, and knows nothing of branches.
pub fn digest(kept: Option<&str>) -> Box<dyn Summarize> {
    let (state, open) = kept.and_then(|kept| kept.split_once(' ')).unwrap_or_default();
    let open = open.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    Box::new(Following { state: state.parse().unwrap_or_default(), open })
}

struct Following {
    state: SessionState,
    open: BTreeSet<String>,
}

impl Summarize for Following {
    fn add(&mut self, entry: &Entry) -> Digest {
        if let Content::Message(message) = Content::of(entry) {
            let results = message.tool_results().filter_map(|result| result.call_id.as_ref());
            for id in results {
                self.open.remove(id.as_str());
            }
            self.open.extend(message.tool_calls().map(|call| call.id.to_string()));
            self.state = match message.role {
                _ if !self.open.is_empty() => SessionState::WaitingForTools,
                Role::Assistant => SessionState::Complete,
                Role::User | Role::Tool => SessionState::WaitingForModel,
                _ => self.state,
            };
        }
        digest_of(entry)
    }

    fn state(&self) -> Option<SessionState> {
        Some(self.state)
    }

    fn review(&mut self, _: &[Entry]) {}

    fn keep(&self) -> String {
        let open: Vec<&str> = self.open.iter().map(String::as_str).collect();
        format!("{} {}", self.state, open.join(" "))
    }
}

/// The digest of an entry.
pub fn digest_of(entry: &Entry) -> Digest {
    let mut digest = Digest::default();
    match Content::of(entry) {
        Content::Header(metadata) => {
            digest.about.provider = metadata.provider.map(|text| text.as_str().to_owned());
            digest.about.model = metadata.model.map(|text| text.as_str().to_owned());
        }
        Content::Meta(meta) => {
            digest.title = meta.title.map(|title| Title::Given(title.as_str().to_owned()));
            digest.scope = meta.scope.as_ref().and_then(Scope::read);
        }
        Content::Message(message) => {
            digest.time = Some(entry.envelope().timestamp);
            let text = message.content().unwrap_or_default();
            if message.role == Role::User {
                digest.title = Some(Title::FromMessage(text.chars().take(60).collect()));
            }
            digest.is_message = true;
            digest.words = Some(Words { role: message.role.as_str().to_owned(), text: text.into() });
        }
        _ => {}
    }
    digest
}

pub const WRITE: Options = Options { access: Access::Write, digester: digest };
pub const READ: Options = Options { access: Access::Read, digester: digest };

/// A folder for a test, in memory if the system has such a place: these tests check what is written, not how fast it is synced.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A new database on the server that the tests of this process share, with a folder on this machine; none if there is no PostgreSQL.
pub fn postgres(folder: &Path) -> Option<Location> {
    let server = testkit::postgres::shared()?;
    let Location::Postgres(address) = server.address(&server.database()).parse().unwrap() else {
        panic!("an address")
    };
    Some(Location::Postgres(address.with_folder(folder)))
}

/// Runs a test on the PostgreSQL server that all tests of this process share, with a new database: the server, the name of the
/// database, and the store's location.
#[cfg(unix)]
pub fn with_database(test: impl Fn(&'static testkit::postgres::Server, &str, &Location)) {
    let folder = folder();
    let Some(location) = postgres(folder.path()) else { return };
    let address = location.to_string();
    let database =
        address.split(['/', '?']).find(|part| part.starts_with('d') && part[1..].parse::<u32>().is_ok());
    test(testkit::postgres::shared().unwrap(), database.unwrap(), &location);
}

pub fn jsonl(folder: &Path) -> Box<dyn Store> {
    rejoin_store::open(&Location::Jsonl(folder.to_owned()), WRITE).unwrap()
}

/// Everything that a conversation gives.
pub fn read(store: &dyn Store, id: ConversationId, from: u64) -> (Vec<Entry>, Vec<Damage>) {
    let (mut entries, mut damage) = (Vec::new(), Vec::new());
    let mut take = |item| {
        match item {
            StoredItem::Entry(entry) => entries.push(entry),
            StoredItem::Damage(one) => damage.push(one),
        }
        ControlFlow::Continue(())
    };
    store.read(id, from, &mut take).unwrap();
    (entries, damage)
}

/// An entry of a conversation (the head, if none is named) and its ancestors, newest first.
pub fn ancestors(store: &dyn Store, id: ConversationId, of: Option<EntryId>) -> Vec<Entry> {
    let (entries, _) = read(store, id, 0);
    let tree = Tree::new(&entries);
    let head = of.map_or_else(|| tree.head(), |of| tree.get(of));
    let path = head.map(|head| tree.path_to(head).0).unwrap_or_default();
    path.into_iter().rev().cloned().collect()
}

pub fn problems(store: &dyn Store, id: Option<ConversationId>) -> Vec<Problem> {
    let mut problems = Vec::new();
    store.verify(id, &mut |problem| problems.push(problem)).unwrap();
    problems
}

pub fn ids(entries: &[Entry]) -> Vec<EntryId> {
    entries.iter().map(Entry::id).collect()
}

pub fn hashes(entries: &[Entry]) -> Vec<Hash> {
    entries.iter().map(Entry::hash).collect()
}

pub fn tail(entries: &[Entry]) -> Option<Tail> {
    entries.last().map(Tail::of)
}

/// The tables as the first version made them.
const FIRST: &str = include_str!("../../src/sqlite/migrations/0001-record.sql");

/// Writes a store as the first version did: every body as text, in its own row.
pub fn write_first_schema(path: &Path, conversations: &[(ConversationId, &[Entry])]) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL").unwrap();
    connection.execute_batch(FIRST).unwrap();
    for (number, (id, entries)) in conversations.iter().enumerate() {
        connection
            .execute("INSERT INTO conversation (key, id) VALUES (?1, ?2)", (number as i64, id.to_string()))
            .unwrap();
        for entry in *entries {
            let envelope = entry.envelope();
            let parent = envelope.parent.map(|parent| {
                entries.iter().find(|other| other.id() == parent).unwrap().envelope().seq as i64
            });
            let content = entry.content();
            connection
                .execute(
                    "INSERT INTO entry (conversation, seq, id, parent, at, kind, inner, hash, salt, body) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    rusqlite::params![
                        number as i64,
                        envelope.seq as i64,
                        entry.id().as_uuid().as_bytes(),
                        parent,
                        envelope.timestamp.as_microsecond(),
                        envelope.kind.as_str(),
                        content.is_none().then(|| *entry.inner().as_bytes()),
                        entry.hash().as_bytes(),
                        content.map(|content| content.salt.0),
                        content.map(|content| content.body.as_str().to_owned()),
                    ],
                )
                .unwrap();
        }
    }
    connection.pragma_update(None, "user_version", 1).unwrap();
}
