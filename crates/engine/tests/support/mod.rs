//! A clock that counts, and a store in memory that fails on demand.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::{
    collections::HashMap,
    io,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rejoin_engine::{Clock, Writer, digest};
use rejoin_formats::{Input, Session, sessions};
use rejoin_record::{ConversationId, Entry, Tail, Timestamp, Tree, verify::verify};
use rejoin_store::{
    Damage, EachProblem, Erasure, Hit, Holder, Location, Lock, OnItem, Page, Query, Search, Size,
    StoragePlace, Store, StoreError, StoreResult, StoredItem, Summary, Verified, memory::Memory,
};

/// Each look at the clock advances it by a second; random numbers count up, for all clocks of a test together, so that no two are
/// equal.
#[derive(Debug, Default)]
pub struct Counting;

static LOOKS: AtomicU64 = AtomicU64::new(0);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        let seconds = LOOKS.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_second(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap()
    }

    fn random(&self, bytes: &mut [u8]) {
        let number = LOOKS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        for (byte, random) in bytes.iter_mut().zip(number.iter().cycle()) {
            *byte = *random;
        }
    }
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(Counting)
}

/// A store whose entries can be damaged and whose disk can be full.
#[derive(Debug)]
pub struct Fragile {
    pub inner: Memory,
    /// Places in the order of appending that cannot be read, and whether they are torn.
    pub damaged: Mutex<HashMap<u64, bool>>,
    pub full: AtomicBool,
    pub unreadable: AtomicBool,
    /// How many entries were passed to append.
    pub handed: AtomicU64,
}

impl Fragile {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::new(digest),
            damaged: Mutex::default(),
            full: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
            handed: AtomicU64::new(0),
        })
    }

    pub fn damage(&self, seq: u64) {
        self.damaged.lock().unwrap().insert(seq, false);
    }

    fn item(&self, entry: Entry) -> StoredItem {
        let seq = entry.envelope().seq;
        match self.damaged.lock().unwrap().get(&seq) {
            None => StoredItem::Entry(entry),
            Some(torn) => StoredItem::Damage(Damage {
                place: StoragePlace::Row(seq),
                why: String::from("the body is not what it was"),
                bytes: b"{\"v\":\"1.0\",\"id".to_vec(),
                torn: *torn,
            }),
        }
    }

    fn writable(&self) -> Result<(), StoreError> {
        if self.full.load(Ordering::Relaxed) {
            let why = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
            return Err(StoreError::Io { what: String::from("writing chats"), why });
        }
        Ok(())
    }
}

/// Writes methods that only ask the store below.
macro_rules! ask_inner {
    ($($name:ident($($arg:ident: $of:ty),*) -> $result:ty),* $(,)?) => {
        $(fn $name(&self $(, $arg: $of)*) -> $result { self.inner.$name($($arg),*) })*
    };
}

impl Store for Fragile {
    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        self.writable()?;
        self.handed.fetch_add(entries.len() as u64, Ordering::Relaxed);
        self.inner.append(id, after, entries)
    }
    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> Result<(), StoreError> {
        if self.unreadable.load(Ordering::Relaxed) {
            let why = String::from("database disk image is malformed");
            return Err(StoreError::Database { what: "reading entries", why, unwritable: false });
        }
        self.inner.read(conversation, from, &mut |item| match item {
            StoredItem::Entry(entry) => each(self.item(entry)),
            damage => each(damage),
        })
    }
    fn lock(&self, conversation: ConversationId, holder: &Holder) -> Result<Lock, StoreError> {
        self.writable()?;
        self.inner.lock(conversation, holder)
    }
    ask_inner! {
    location() -> &Location,
    digester() -> rejoin_store::Digester,
    tail(id: ConversationId) -> Result<Option<Tail>, StoreError>,
    list(query: &Query) -> Result<Page, StoreError>,
    summary(id: ConversationId) -> Result<Summary, StoreError>,
    ids(prefix: &str, limit: usize) -> Result<Vec<ConversationId>, StoreError>,
    search(search: &Search) -> Result<Vec<Hit>, StoreError>,
    erase_all(id: ConversationId, after: Tail, erasures: &[Erasure]) -> Result<Tail, StoreError>,
    delete(id: ConversationId) -> Result<(), StoreError>,
    verify(id: Option<ConversationId>, each: EachProblem<'_>) -> Result<Verified, StoreError>,
    size() -> Result<Size, StoreError>,
    }
}

/// Every entry that is stored.
pub fn stored(store: &dyn Store, id: ConversationId) -> Vec<Entry> {
    let mut entries = Vec::new();
    store
        .read(id, 0, &mut |item| {
            if let StoredItem::Entry(entry) = item {
                entries.push(entry);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    entries
}

/// Every stored entry is unchanged since it was appended.
pub fn assert_verifies(store: &dyn Store, id: ConversationId) {
    assert_eq!(verify(&stored(store, id)), []);
}

/// The kinds of the entries on the way to the head.
pub fn path_kinds(entries: &[Entry]) -> Vec<String> {
    let tree = Tree::new(entries);
    tree.path().0.iter().map(|entry| entry.envelope().kind.as_str().to_owned()).collect()
}

pub fn writer<'w>(store: &'w dyn Store, clock: &'w dyn Clock) -> Writer<'w> {
    Writer { store, clock, command: "test" }
}

/// The session in the text of a session file.
pub fn session(name: &str, text: &str) -> Session {
    let input = Input::new(name, text.as_bytes()).unwrap();
    sessions::read(&input, None).unwrap().remove(0)
}

/// The messages of a session, one line each.
pub fn lines(session: &Session) -> Vec<String> {
    session
        .messages
        .iter()
        .map(|message| {
            let calls: Vec<String> = message.tool_calls().map(|call| format!("[{}]", call.id)).collect();
            format!("{}: {}{}", message.role, message.content().unwrap_or_default(), calls.concat())
        })
        .collect()
}
