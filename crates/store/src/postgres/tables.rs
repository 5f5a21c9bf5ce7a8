//! Reads the tables of a chat bot's history from a database that is not a rejoin store. It never changes that database.

use super::link::{Object, Trouble, refused};
use crate::{error::StoreResult, location::Address};

/// The tables, and the columns by which rows belong together.
const TABLES: [(&str, &[&str]); 2] =
    [("conversation_history", &["user_id", "channel_id"]), ("chat_threads", &["thread_id"])];

/// The number of rows that are fetched at once.
const AT_ONCE: i32 = 500;

/// Reads the rows of a bot's tables `conversation_history` and `chat_threads`, in any schema. Passes one text for each conversation
/// to `each`: its rows as JSON objects, one per line. All texts are from one snapshot, even if rows are written meanwhile.
///
/// # Errors
/// If the database cannot be read, or has no such table.
pub fn each_history(address: &Address, each: &mut dyn FnMut(String)) -> StoreResult<()> {
    let link = super::connect(address)?;
    let each = std::cell::RefCell::new(each);
    // Do not repeat this if the connection breaks: `each` would get some texts twice.
    link.pool().run_once("reading the tables", |client| {
        let each = &each;
        async move { read(client, &mut |text| (*each.borrow_mut())(text)).await }
    })
}

async fn read(mut client: Object, each: &mut dyn FnMut(String)) -> Result<(), Trouble> {
    let found = tables(&client).await?;
    if found.is_empty() {
        let why = "it has neither a table `conversation_history` nor `chat_threads`";
        let hint =
            "name the database of the bot; a store of rejoin is copied with `rejoin copy --all --to STORE`";
        return Err(refused(why, hint).into());
    }
    let transaction = client
        .build_transaction()
        .read_only(true)
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await?;
    for (schema, table, keys) in found {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let order: Vec<String> = keys.iter().map(|key| format!("t.{}::text", quoted(key))).collect();
        let key = order.join(" || chr(10) || ");
        // Give rows of equal time a fixed order, so that reading twice gives the same result.
        let query = format!(
            "SELECT coalesce({key}, ''), row_to_json(t)::text FROM {}.{} t ORDER BY 1, row_to_json(t)->>'created_at', 2",
            quoted(&schema),
            quoted(table)
        );
        let statement = transaction.prepare(&query).await?;
        let portal = transaction.bind(&statement, &[]).await?;
        let (mut now, mut text) = (None, String::new());
        loop {
            let rows = transaction.query_portal(&portal, AT_ONCE).await?;
            for row in &rows {
                let of: String = row.get(0);
                if now.as_ref().is_some_and(|now| *now != of) {
                    each(std::mem::take(&mut text));
                }
                now = Some(of);
                text.push_str(row.get(1));
                text.push('\n');
            }
            if rows.len() < AT_ONCE as usize {
                break;
            }
        }
        if !text.is_empty() {
            each(text);
        }
    }
    transaction.rollback().await?;
    Ok(())
}

/// A table of a bot: its schema, its name, and the columns by which rows belong together.
type BotTable = (String, &'static str, &'static [&'static str]);

/// The bot's tables that exist. The schema `rejoin` is skipped, because its views have the same names.
async fn tables(client: &Object) -> Result<Vec<BotTable>, Trouble> {
    let mut found = Vec::new();
    for (table, keys) in TABLES {
        let query = "SELECT n.nspname::text, (SELECT array_agg(a.attname::text) FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) \
                     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                     WHERE c.relname = $1 AND n.nspname <> 'rejoin' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1";
        for row in client.query(query, &[&table]).await? {
            let columns: Vec<String> = row.get::<_, Option<Vec<String>>>(1).unwrap_or_default();
            if keys.iter().all(|key| columns.iter().any(|column| column == key)) {
                found.push((row.get(0), table, keys));
            }
        }
    }
    Ok(found)
}
