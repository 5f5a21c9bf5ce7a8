//! Connections to a server, for synchronous code.
//!
//! The thread that uses a connection also drives it (`socket.rs`). A background thread of the store does the work that no caller
//! waits for: it listens for notifications, and starts periodic work.

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

/// The most connections of one store. They are opened on demand.
const CONNECTIONS: usize = 32;

/// How long a caller waits while all connections are in use.
const WAITING: Duration = Duration::from_secs(60);

/// The connections of a store, and its thread.
pub(super) struct Link {
    /// `None` only while the link is being dropped.
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

    /// Runs work with a connection: see [`Pool::run`].
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
        // Do not wait for the thread to end: the caller may be a task of another runtime, which must not block, and nothing
        // depends on the thread.
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
    /// The unused connections, the most recently used one last.
    idle: Vec<Pooled>,
    /// The number of open connections.
    open: usize,
    /// The number of callers that wait for a connection.
    waiting: usize,
    /// Whether a connection is kept after its use.
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
    /// `None` only while the object is being dropped.
    pooled: Option<Pooled>,
    pool: Arc<Pool>,
}

impl Deref for Object {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.pooled.as_ref().expect("BUG: the connection is only taken on drop").client
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.pooled.as_mut().expect("BUG: the connection is only taken on drop").client
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
    /// Runs work with a connection, and waits for it. If the connection turns out to be broken, the work runs again with a new one,
    /// so it must be harmless to repeat.
    pub(super) fn run<T, F>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn(Object) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        // Every pooled connection may be broken, for example after a restart. New connections are tried twice.
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
            // The other unused connections are probably broken, too, which would show only on use.
            self.forget_idle();
        }
    }

    /// Runs work with a connection, without repeating it.
    pub(super) fn run_once<T, F: Future<Output = Result<T, Trouble>>>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn(Object) -> F,
    ) -> StoreResult<T> {
        let done = self.take(what, &mut 0).and_then(|object| object.run(work));
        done.map_err(|trouble| trouble.into_error(what))
    }

    /// Takes an unused connection, or opens a new one and counts it in `new`.
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
        // If connecting fails, dropping this frees its place in the pool.
        let mut place = Object { pooled: None, pool: Arc::clone(self) };
        let (client, driver) = self.dialer.connect()?;
        // The wrapper caches prepared statements. It requires the task of the connection, but there is none, so give it an empty
        // one.
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
        let pooled = self.pooled.as_ref().expect("BUG: the connection is only taken on drop");
        let driver = Arc::clone(&pooled.driver);
        driver.run(work(self))
    }
}

/// The values of a statement's parameters.
type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// Executes statements: a connection, or a transaction on it.
pub(super) trait Executor {
    /// The rows that a statement returns. Each connection prepares it once.
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error>;
}

impl Executor for Object {
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.query(&self.prepare_cached(statement).await?, values).await
    }
}

impl Executor for Transaction<'_> {
    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.query(&self.prepare_cached(statement).await?, values).await
    }
}

/// Why work failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server or the connection failed.
    Database(tokio_postgres::Error),
    /// No connection could be made.
    Unreachable(io::Error),
    /// The store refused.
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

    /// Whether no server listens at the address.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable(why)
            if matches!(why.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound))
    }

    /// Whether the connection broke or could not be made, so that another attempt at once may help. It does not help if the
    /// server refused the statement, if no server listens, or if the server is still starting.
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

/// An error before any request to the server: the address or the tables are wrong.
pub(super) fn refused(why: impl Into<String>, hint: &'static str) -> StoreError {
    StoreError::Server { what: "opening the database", why: why.into(), hint, unwritable: false }
}

fn unreachable(what: &'static str, why: String) -> StoreError {
    let hint = "check that the server runs, and its host and port in the address, PGHOST and PGPORT";
    StoreError::Server { what, why, hint, unwritable: true }
}

/// Advice if the server is a standby, or is set to read-only.
const ONLY_READS: &str =
    "the server only reads: name the primary server in the address, or the standbys, too";

/// Advice about passwords.
const PASSWORD: &str =
    "put the right user and password into the address, PGUSER and PGPASSWORD, or ~/.pgpass";

/// Converts an error of the connection itself. The library hides the kinds of its errors, so this examines the cause: a failed
/// handshake, another socket error, or a text of the library if the server does not match the settings of the address.
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

/// Converts an error of the library into one of the store, with advice if there is any.
pub(super) fn failed(what: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else { return disconnected(what, error) };
    let code = refusal.code();
    let class = code.code().get(..2).unwrap_or_default();
    // These are errors of connections, resources, the operator's intervention, the system, privileges, and a read-only server.
    // None of them is about the entries themselves.
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
