//! Connections to a server, for code that is not asynchronous.
//!
//! Each connection is driven by the thread that uses it (`socket.rs`). A thread of the store does what no caller waits for: it listens,
//! and starts what has to happen from time to time.

use std::{
    error::Error as _,
    future::Future,
    io,
    ops::{Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use deadpool_postgres::{ClientWrapper, Transaction};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    address::{Reach, reason},
    socket::{self, Dialer, Driver},
    tls,
};
use crate::{
    error::{StoreError, StoreResult},
    lock::guard,
};

/// The most connections of one store. They are opened as they are needed.
const CONNECTIONS: usize = 32;

/// How long a caller waits for one of them, while others use all of them.
const WAITING: Duration = Duration::from_secs(60);

/// The connections of a store, and its thread.
pub(super) struct Link {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    pool: Arc<Pool>,
}

impl Link {
    pub(super) fn new(reach: Reach) -> StoreResult<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("rejoin-postgres").enable_all().build();
        let runtime = runtime.map_err(StoreError::io("starting a thread for PostgreSQL"))?;
        let dialer = Dialer { tls: tls::connect(&reach.trust)?, config: reach.config };
        let pool = Pool {
            dialer,
            handle: runtime.handle().clone(),
            connections: Mutex::default(),
            returned: Condvar::new(),
        };
        Ok(Self { runtime: Some(runtime), pool: Arc::new(pool) })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.pool.dialer
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.pool.handle
    }

    /// [`Pool::run`].
    pub(super) fn run<T, F>(&self, what: &'static str, work: impl Fn(Object) -> F) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        self.pool.run(what, work)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let idle = {
            let mut connections = guard(&self.pool.connections);
            connections.are_kept = false;
            std::mem::take(&mut connections.idle)
        };
        drop(idle);
        // Waiting for the thread is not allowed in a task of another runtime, and there is nothing to wait for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The connections of a store.
pub(super) struct Pool {
    dialer: Dialer,
    handle: Handle,
    connections: Mutex<Connections>,
    returned: Condvar,
}

struct Connections {
    /// Those that are not in use. The last one was used last.
    idle: Vec<Pooled>,
    /// The number of those that exist.
    open: usize,
    /// The number of callers that wait for one.
    waiting: usize,
    /// Whether those that are not in use any more are kept.
    are_kept: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self { idle: Vec::new(), open: 0, waiting: 0, are_kept: true }
    }
}

struct Pooled {
    client: ClientWrapper,
    driver: Arc<Driver>,
}

/// A connection in use. Dropping it gives it back.
pub(super) struct Object {
    /// None only while it is dropped.
    pooled: Option<Pooled>,
    pool: Arc<Pool>,
}

impl Deref for Object {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.pooled.as_ref().expect("BUG: it is there until it is dropped").client
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.pooled.as_mut().expect("BUG: it is there until it is dropped").client
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let mut connections = guard(&self.pool.connections);
        let kept = self.pooled.take_if(|pooled| connections.are_kept && !pooled.client.is_closed());
        match kept {
            Some(pooled) => connections.idle.push(pooled),
            None => connections.open -= 1,
        }
        if connections.waiting > 0 {
            self.pool.returned.notify_one();
        }
    }
}

impl Pool {
    /// Runs something with a connection, and waits for it. If the connection turns out to be broken, it is run once more with a new
    /// one, so it must be harmless to repeat.
    pub(super) fn run<T, F>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn(Object) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        // Every pooled connection may be broken, after a restart for instance. A new one is tried twice.
        let (mut tries, mut new) = (0, 0);
        loop {
            tries += 1;
            let trouble = match self.take(what, &mut new) {
                Ok(object) => match object.run(&work) {
                    Ok(done) => return Ok(done),
                    Err(trouble) => trouble,
                },
                Err(trouble) => trouble,
            };
            if new >= 2 || tries > CONNECTIONS || !trouble.is_broken() {
                return Err(trouble.into_error(what));
            }
            // The others are probably broken too, which shows only when they are used.
            self.forget_idle();
        }
    }

    /// Runs something with a connection, once.
    pub(super) fn run_once<T, F: Future<Output = Result<T, Trouble>>>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn(Object) -> F,
    ) -> StoreResult<T> {
        let done = self.take(what, &mut 0).and_then(|object| object.run(work));
        done.map_err(|trouble| trouble.into_error(what))
    }

    /// A connection that is not in use, or a new one. Counts those.
    fn take(self: &Arc<Self>, what: &'static str, new: &mut usize) -> Result<Object, Trouble> {
        let begun = Instant::now();
        let object = |pooled| Object { pooled: Some(pooled), pool: Arc::clone(self) };
        let mut connections = guard(&self.connections);
        loop {
            if let Some(pooled) = connections.idle.pop() {
                return Ok(object(pooled));
            }
            if connections.open < CONNECTIONS {
                break;
            }
            let left = WAITING.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(unreachable(what, String::from("all connections are in use")).into());
            }
            connections.waiting += 1;
            let waited = self.returned.wait_timeout(connections, left);
            (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
            connections.waiting -= 1;
        }
        connections.open += 1;
        drop(connections);
        *new += 1;
        // If it fails, its place is free again.
        let mut place = Object { pooled: None, pool: Arc::clone(self) };
        let (client, driver) = self.dialer.connect()?;
        // The wrapper keeps prepared statements. It wants to know the task of the connection, and there is none.
        let client = ClientWrapper::new(client, self.handle.spawn(async {}));
        place.pooled = Some(Pooled { client, driver: Arc::new(driver) });
        Ok(place)
    }

    fn forget_idle(&self) {
        let mut connections = guard(&self.connections);
        connections.open -= connections.idle.len();
        connections.idle.clear();
        if connections.waiting > 0 {
            self.returned.notify_all();
        }
    }
}

impl Object {
    fn run<T, F>(self, work: impl Fn(Self) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let pooled = self.pooled.as_ref().expect("BUG: it is there until it is dropped");
        let driver = Arc::clone(&pooled.driver);
        driver.run(work(self))
    }
}

/// The values of a statement's parameters.
type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// What takes statements: a connection, or a transaction on it.
pub(super) trait Asked {
    /// The rows that a statement returns. It is prepared once for each connection.
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error>;
}

impl Asked for Object {
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.query(&self.prepare_cached(statement).await?, values).await
    }
}

impl Asked for Transaction<'_> {
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.query(&self.prepare_cached(statement).await?, values).await
    }
}

/// What ended a piece of work.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server, or the connection to it.
    Database(tokio_postgres::Error),
    /// There is no connection.
    Unreachable(io::Error),
    /// The store's own verdict.
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(why: tokio_postgres::Error) -> Self {
        Self::Database(why)
    }
}

impl From<io::Error> for Trouble {
    fn from(why: io::Error) -> Self {
        Self::Unreachable(why)
    }
}

impl From<StoreError> for Trouble {
    fn from(why: StoreError) -> Self {
        Self::Store(why)
    }
}

impl Trouble {
    fn into_error(self, what: &'static str) -> StoreError {
        match self {
            Self::Store(why) => why,
            Self::Database(why) => failed(what, &why),
            Self::Unreachable(why) => {
                let only_reads = why.kind() == socket::ONLY_READS;
                let why = format!("error connecting to server: {why}");
                if only_reads {
                    return StoreError::Server { what, why, hint: ONLY_READS, unwritable: true };
                }
                unreachable(what, why)
            }
        }
    }

    /// Whether no server listens there.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable(why)
            if matches!(why.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound))
    }

    /// Whether the connection is gone, or was never there, as opposed to a statement that the server refused, and trying again at once
    /// may help: it does not if no server listens there, or if the server is only starting.
    fn is_broken(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Unreachable(why) => !self.is_silence() && why.kind() != socket::ONLY_READS,
            Self::Database(why) => why
                .code()
                .is_none_or(|code| [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code)),
        }
    }
}

/// An error before anything is asked of the server: the address or the tables are not what they should be.
pub(super) fn refused(why: impl Into<String>, hint: &'static str) -> StoreError {
    StoreError::Server { what: "opening the database", why: why.into(), hint, unwritable: false }
}

fn unreachable(what: &'static str, why: String) -> StoreError {
    let hint = "check that the server runs, and its host and port in the address, PGHOST and PGPORT";
    StoreError::Server { what, why, hint, unwritable: true }
}

/// Advice about a standby, or a server that was set so.
const ONLY_READS: &str =
    "the server only reads: name the primary server in the address, or the standbys, too";

/// Advice about passwords.
const PASSWORD: &str =
    "put the right user and password into the address, PGUSER and PGPASSWORD, or ~/.pgpass";

/// An error of the connection itself. The library keeps its kinds private, so the cause decides: a failed handshake, another error of
/// the socket, or a text of the library's own if the server and the settings of the address do not fit together.
fn disconnected(what: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let why = reason(error);
    let hint = match error.source().map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(Some(cause)) if cause.get_ref().is_some_and(|cause| cause.is::<rustls::Error>()) => tls::ROOTS,
        None | Some(Some(_)) => return unreachable(what, why),
        Some(None) => {
            "if the password is missing, put it into the address, PGPASSWORD or ~/.pgpass; if the server does not encrypt, set \
             `ssl = on` there, or use sslmode=prefer or sslmode=disable here"
        }
    };
    StoreError::Server { what, why, hint, unwritable: true }
}

/// The error of a store for what the library reports, with advice where there is some.
pub(super) fn failed(what: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else { return disconnected(what, error) };
    let code = refusal.code();
    let class = code.code().get(..2).unwrap_or_default();
    // Connections, resources, an operator's intervention, the system, rights, a server that only reads. None of these is about the
    // entries themselves.
    let unwritable = matches!(class, "08" | "28" | "3D" | "53" | "57" | "58")
        || [&SqlState::READ_ONLY_SQL_TRANSACTION, &SqlState::INSUFFICIENT_PRIVILEGE].contains(&code);
    let hint = match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => PASSWORD,
        &SqlState::INVALID_CATALOG_NAME => "create it with `createdb`, or name another one in the address",
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            "let the owner of the database run `CREATE SCHEMA rejoin AUTHORIZATION <this user>`, or grant this user rights \
             on the schema `rejoin` and everything in it"
        }
        &SqlState::TOO_MANY_CONNECTIONS => "close other programs, or raise the server's max_connections",
        &SqlState::DISK_FULL => "the server's disk is full: make room there; nothing that was saved is lost",
        &SqlState::READ_ONLY_SQL_TRANSACTION => ONLY_READS,
        &SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
            "drop the views and keys that other programs made for this table, enable the option, and create them again"
        }
        _ if unwritable => "look into the server's log; nothing that was saved is lost",
        _ => "if it is a store of rejoin, restore it from a backup; if not, name another one with `--store`",
    };
    let detail = refusal.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
    StoreError::Server { what, why: format!("{}{detail}", refusal.message()), hint, unwritable }
}
