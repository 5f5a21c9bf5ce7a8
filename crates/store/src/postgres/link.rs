//! Connections to a server, for code that is not asynchronous.
//!
//! The library is asynchronous, and a [`Store`](crate::Store) is not, so each store has a separate thread in which its connections
//! live. A caller waits in its own thread, which may belong to another runtime.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::{Config, error::SqlState};

use super::{
    address::{Reach, reason},
    tls,
};
use crate::error::{StoreError, StoreResult};

/// The most connections of one store. They are opened as they are needed.
const CONNECTIONS: usize = 32;

/// How long a caller waits for one of them, while others use all of them.
const WAITING: Duration = Duration::from_secs(60);

/// The connections of a store.
pub(super) struct Link {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    pool: Pool,
    dialer: Dialer,
}

/// What connects to the server, for a connection that is not one of the pool.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) config: Config,
    pub(super) tls: tls::Connect,
}

impl Link {
    pub(super) fn new(reach: Reach) -> StoreResult<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("rejoin-postgres").enable_all().build();
        let runtime = runtime.map_err(StoreError::io("starting a thread for PostgreSQL"))?;
        let connect = tls::connect(&reach.trust)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let dialer = Dialer { config: reach.config.clone(), tls: connect.clone() };
        let manager = Manager::from_config(reach.config, connect, recycling);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .wait_timeout(Some(WAITING))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build();
        let pool = pool.map_err(|why| refused(why.to_string(), "this is a mistake in rejoin"))?;
        Ok(Self { runtime: Some(runtime), pool, dialer })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("BUG: it is there until it is dropped").handle()
    }

    /// A connection for work in a separate task.
    pub(super) async fn connection(&self) -> Result<Object, PoolError> {
        self.pool.get().await
    }

    /// Runs something with a connection, and waits for it. If the connection turns out to be broken, it is run once more with a new
    /// one, so it must be harmless to repeat.
    pub(super) fn run<T, F>(&self, what: &'static str, work: impl Fn(Object) -> F) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        self.wait(async {
            // Every pooled connection may be broken, after a restart for instance. A new one is tried twice.
            let (mut tries, mut new) = (0, 0);
            loop {
                tries += 1;
                let trouble = match self.pool.get().await {
                    Ok(connection) => {
                        new += usize::from(Object::metrics(&connection).recycle_count == 0);
                        match work(connection).await {
                            Ok(done) => return Ok(done),
                            Err(trouble) => trouble,
                        }
                    }
                    Err(PoolError::Backend(why)) => {
                        new += 1;
                        Trouble::Database(why)
                    }
                    Err(why) => return Err(unreachable(what, why.to_string())),
                };
                match trouble {
                    Trouble::Store(why) => return Err(why),
                    Trouble::Database(why)
                        if new < 2 && tries <= CONNECTIONS + 1 && is_broken(&why) && !is_refused(&why) =>
                    {
                        self.pool.retain(|connection, _| !connection.is_closed());
                    }
                    Trouble::Database(why) => return Err(failed(what, &why)),
                }
            }
        })
    }

    /// Waits for a future in this thread, whatever else the thread is used for.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        // Timers need to know their runtime. A task of the caller's own runtime must not count what is polled here as its own work: it
        // would make us wait for a budget that only the task itself can renew.
        let _entered = self.handle().enter();
        let mut future = pin!(tokio::task::unconstrained(future));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.pool.close();
        // Waiting for the thread is not allowed in a task of another runtime, and there is nothing to wait for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What ended a piece of work.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server, or the connection to it.
    Database(tokio_postgres::Error),
    /// The store's own verdict.
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(why: tokio_postgres::Error) -> Self {
        Self::Database(why)
    }
}

impl From<StoreError> for Trouble {
    fn from(why: StoreError) -> Self {
        Self::Store(why)
    }
}

/// Whether the connection is gone, or was never there, as opposed to a statement that the server refused.
fn is_broken(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        None => true,
        Some(code) => {
            matches!(
                code,
                &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN | &SqlState::CANNOT_CONNECT_NOW
            )
        }
    }
}

/// Whether no server listens there, or it is only starting, so that trying again at once is no use.
fn is_refused(error: &tokio_postgres::Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if cause.downcast_ref::<std::io::Error>().is_some_and(|why| {
            matches!(why.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound)
        }) {
            return true;
        }
        next = cause.source();
    }
    error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
}

/// An error before anything is asked of the server: the address or the tables are not what they should be.
pub(super) fn refused(why: impl Into<String>, hint: &'static str) -> StoreError {
    StoreError::Server { what: "opening the database", why: why.into(), hint, unwritable: false }
}

/// The error for a connection that could not be had.
pub(super) fn no_connection(what: &'static str, why: PoolError) -> StoreError {
    match why {
        PoolError::Backend(why) => failed(what, &why),
        why => unreachable(what, why.to_string()),
    }
}

fn unreachable(what: &'static str, why: String) -> StoreError {
    let hint = "check that the server runs, and its host and port in the address, PGHOST and PGPORT";
    StoreError::Server { what, why, hint, unwritable: true }
}

/// Advice about passwords.
const PASSWORD: &str =
    "put the right user and password into the address, PGUSER and PGPASSWORD, or ~/.pgpass";

/// An error of the connection itself. The library tells its kinds apart only by their messages.
fn disconnected(what: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let (kind, why) = (error.to_string(), reason(error));
    let hint = if kind.starts_with("error performing TLS handshake") {
        if why.contains("does not support TLS") {
            "the server does not encrypt: set `ssl = on` there, or use sslmode=prefer or sslmode=disable here"
        } else {
            tls::ROOTS
        }
    } else if kind.starts_with("invalid configuration") && why.contains("password") {
        PASSWORD
    } else {
        return unreachable(what, why);
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
        &SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the server only reads: name the primary server in the address"
        }
        &SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
            "drop the views and keys that other programs made for this table, enable the option, and create them again"
        }
        _ if unwritable => "look into the server's log; nothing that was saved is lost",
        _ => "if it is a store of rejoin, restore it from a backup; if not, name another one with `--store`",
    };
    let detail = refusal.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
    StoreError::Server { what, why: format!("{}{detail}", refusal.message()), hint, unwritable }
}
