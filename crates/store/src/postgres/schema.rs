//! The tables, and the numbered migrations that create them.
//!
//! Everything is in the schema `rejoin`, so that a database may also hold tables of other programs. Each migration runs once, in
//! one transaction, under a lock of the server; migrations only add.

use super::link::{Object, Trouble, refused};

/// The migrations, in order.
const MIGRATIONS: [&str; 5] = [
    include_str!("migrations/0001-record.sql"),
    include_str!("migrations/0002-scopes.sql"),
    include_str!("migrations/0003-reports.sql"),
    include_str!("migrations/0004-latency.sql"),
    include_str!("migrations/0005-functions.sql"),
];

/// The version of the schema that added rows for reports.
pub(super) const REPORTS: i64 = 3;

/// The newest schema that this version knows.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// The tables that must exist after each of the migrations.
const TABLES: [&[&str]; MIGRATIONS.len()] = [
    &["conversation", "entry", "summary", "stale", "total", "lease", "checkpoint"],
    &[],
    &["said", "called", "setting", "secret"],
    &[],
    &[],
];

/// The number of the server's lock under which migrations run, one process at a time. It is `rejoin` in ASCII.
pub(super) const LOCK: i64 = 0x7265_6a6f_696e;

/// The state of the schema `rejoin` in a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SchemaState {
    /// It does not exist or is empty.
    Nothing,
    /// A store with this version of the tables.
    Version(i64),
}

/// Looks for a store.
pub(super) async fn find(client: &Object) -> Result<SchemaState, Trouble> {
    let query = "SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'rejoin' AND c.relkind IN ('r', 'p', 'v')";
    let tables: Vec<String> = client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect();
    let is_there = |name: &str| tables.iter().any(|table| table == name);
    if !is_there("schema_version") {
        if tables.is_empty() {
            return Ok(SchemaState::Nothing);
        }
        let why = format!(
            "its schema `rejoin` belongs to another program, or was not made to the end: it has {} and no `schema_version`",
            tables[..tables.len().min(3)].join(", ")
        );
        return Err(refused(why, "use another database, or rename that schema").into());
    }
    let version: Option<i64> =
        client.query_one("SELECT max(version) FROM rejoin.schema_version", &[]).await?.get(0);
    let version = version.unwrap_or(0);
    let made = TABLES.iter().flat_map(|tables| *tables).find(|table| is_there(table));
    if let (0, Some(made)) = (version, made) {
        let why = format!(
            "its tables were not made to the end: rejoin.{made} exists, but rejoin.schema_version names no version"
        );
        return Err(refused(
            why,
            "restore the database from a backup, or rename the schema `rejoin` to start over",
        )
        .into());
    }
    if version > 0
        && version <= KNOWN
        && let Some(missing) =
            TABLES.iter().take(version as usize).flat_map(|tables| *tables).find(|table| !is_there(table))
    {
        let why = format!(
            "the table rejoin.{missing} is missing, although version {version} of the schema was made"
        );
        return Err(refused(why, "restore the database from a backup").into());
    }
    Ok(if version == 0 { SchemaState::Nothing } else { SchemaState::Version(version) })
}

/// Creates the tables, or migrates them to this version. Another process may be doing the same.
pub(super) async fn migrate(client: &mut Object) -> Result<i64, Trouble> {
    let transaction = client.transaction().await?;
    transaction.query_one("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    // A role that may not create a schema may still use one that was created for it.
    let is_there: bool = transaction
        .query_one("SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = 'rejoin'", &[])
        .await?
        .get(0);
    if !is_there {
        transaction.batch_execute("CREATE SCHEMA rejoin").await?;
    }
    let versions = "CREATE TABLE IF NOT EXISTS rejoin.schema_version \
                    (version bigint PRIMARY KEY, made timestamptz NOT NULL DEFAULT now())";
    transaction.batch_execute(versions).await?;
    let query = "SELECT max(version) FROM rejoin.schema_version";
    let mut version: i64 = transaction.query_one(query, &[]).await?.get::<_, Option<i64>>(0).unwrap_or(0);
    while let Some(migration) = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done)) {
        transaction.batch_execute(migration).await?;
        version += 1;
        transaction.execute("INSERT INTO rejoin.schema_version (version) VALUES ($1)", &[&version]).await?;
    }
    transaction.commit().await?;
    Ok(version)
}
