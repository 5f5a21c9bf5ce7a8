//! Options: migrations that run only if the operator enables them.
//!
//! Each runs once, in one transaction, under the lock of migrations, and is recorded in `rejoin.setting`.

use deadpool_postgres::Transaction;

use super::{
    link::{Object, Trouble},
    schema,
};
use crate::{
    error::StoreError,
    store::{EnableOutcome, StoreOption},
};

/// The name of the option that makes searches fast.
pub(super) const SEARCH: &str = "search";

const PARTITIONS: &str = "partitions";

/// The options, with their names and effects.
const OPTIONS: [(&str, &str); 2] = [
    (SEARCH, "searches use an index instead of reading every conversation"),
    (PARTITIONS, "entries are in 16 tables instead of one, by conversation"),
];

/// All options. Those of a newer schema are unknown and not listed.
pub(super) async fn all(client: &Object) -> Result<Vec<StoreOption>, Trouble> {
    let enabled = enabled(client).await?;
    let option = |(name, about)| StoreOption { name, about, enabled: enabled.iter().any(|one| one == name) };
    Ok(OPTIONS.map(option).to_vec())
}

/// The names of the options that are enabled.
pub(super) async fn enabled(client: &Object) -> Result<Vec<String>, Trouble> {
    let query = "SELECT substr(name, 8) FROM rejoin.setting WHERE name LIKE 'option:%'";
    let statement = client.prepare_cached(query).await?;
    Ok(client.query(&statement, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// Runs the migration of an option, unless it has already run.
pub(super) async fn enable(client: &mut Object, name: &str) -> Result<EnableOutcome, Trouble> {
    if !OPTIONS.iter().any(|(known, _)| *known == name) {
        return Err(StoreError::NoSuchOption(name.to_owned()).into());
    }
    let transaction = client.transaction().await?;
    transaction.query_one("SELECT pg_advisory_xact_lock($1)", &[&schema::LOCK]).await?;
    let note = "INSERT INTO rejoin.setting (name, value) VALUES ('option:' || $1::text, 'true') ON CONFLICT DO NOTHING";
    if transaction.execute(note, &[&name]).await? == 0 {
        return Ok(EnableOutcome::AlreadyEnabled);
    }
    if name == PARTITIONS {
        divide(&transaction).await?;
    } else {
        transaction.batch_execute(include_str!("options/search.sql")).await?;
        share(&transaction, "words", "rejoin.entry").await?;
    }
    transaction.commit().await?;
    Ok(EnableOutcome::Enabled)
}

/// Moves the entries into a partitioned table. Reading and appending wait until this is done.
async fn divide(transaction: &Transaction<'_>) -> Result<(), Trouble> {
    let mistaken =
        |why: String, hint| StoreError::Server { what: "enabling partitions", why, hint, unwritable: false };
    let query = "SELECT 'the trigger ' || tgname FROM pg_catalog.pg_trigger WHERE tgrelid = 'rejoin.entry'::regclass AND NOT tgisinternal \
                 UNION ALL SELECT 'the policy ' || polname FROM pg_catalog.pg_policy WHERE polrelid = 'rejoin.entry'::regclass \
                 UNION ALL SELECT 'the rule ' || rulename FROM pg_catalog.pg_rewrite WHERE ev_class = 'rejoin.entry'::regclass \
                 UNION ALL SELECT 'its place in the publication ' || pubname FROM pg_catalog.pg_publication_rel r \
                 JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = 'rejoin.entry'::regclass";
    if let Some(row) = transaction.query(query, &[]).await?.first() {
        let why = format!("the table rejoin.entry would lose {}", row.get::<_, &str>(0));
        return Err(mistaken(why, "remove it, enable partitions, and create it again").into());
    }
    transaction.batch_execute(include_str!("options/partitions.sql")).await?;
    let there: i64 = transaction.query_one("SELECT count(*) FROM rejoin.entry_before", &[]).await?.get(0);
    let copy = "INSERT INTO rejoin.entry SELECT * FROM rejoin.entry_before";
    let copied = transaction.execute(copy, &[]).await?;
    if copied != there.unsigned_abs() {
        let why = format!("{copied} of {there} entries were copied, so nothing was changed");
        return Err(mistaken(why, "run `rejoin verify`").into());
    }
    share(transaction, "entry", "rejoin.entry_before").await?;
    let query = "SELECT relid::regclass::text FROM pg_partition_tree('rejoin.entry') WHERE isleaf";
    for part in transaction.query(query, &[]).await? {
        let part: String = part.get(0);
        share(transaction, part.trim_start_matches("rejoin."), "rejoin.entry_before").await?;
    }
    transaction.batch_execute("DROP TABLE rejoin.entry_before").await?;
    Ok(())
}

/// Gives a new table the owner and the privileges of another one, so that the roles that use the store can use it, too.
async fn share(transaction: &Transaction<'_>, table: &str, like: &str) -> Result<(), Trouble> {
    let query = "SELECT format('ALTER TABLE rejoin.%I OWNER TO %I', $1::text, pg_get_userbyid(c.relowner)) FROM pg_catalog.pg_class c \
                 WHERE c.oid = $2::text::regclass AND pg_get_userbyid(c.relowner) <> current_user \
                 UNION ALL SELECT format('GRANT %s ON rejoin.%I TO %s%s', a.privilege_type, $1::text, \
                 CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, \
                 CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) \
                 FROM pg_catalog.pg_class c, aclexplode(c.relacl) a WHERE c.oid = $2::text::regclass";
    for row in transaction.query(query, &[&table, &like]).await? {
        transaction.batch_execute(row.get(0)).await?;
    }
    Ok(())
}
