//! `openai-agents`: the SQLite sessions of the OpenAI Agents SDK. Each row is one item of the Responses API.
//!
//! The same items as a JSON list are read as `openai-responses`: a dump has no mark of its own.

use std::sync::Arc;

use rejoin_record::{Text, json::Doc};

use super::{
    building,
    database::{Database, columns},
    sample::Claim,
};
use crate::{
    context::Context,
    session::{Aside, ReadError, Session},
    wire::{
        openai_responses::read::{Assembler, Source},
        registry::Dialect,
    },
};

/// The name of the format.
pub const FORMAT: &str = "openai-agents";

/// Whether a database holds sessions of the SDK.
pub(crate) fn sniff(database: &Database) -> Option<Claim> {
    let is_so = database.has("agent_messages", &["session_id", "message_data"]);
    Claim::sure(is_so, "a table `agent_messages` with `message_data`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
pub(crate) fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let time = database.or_null("agent_messages", "created_at");
    let sessions =
        database.rows("SELECT session_id FROM agent_messages GROUP BY session_id ORDER BY min(rowid)", [])?;
    let mut found = Vec::new();
    for [id] in sessions {
        let id = id.unwrap_or_default();
        let mut assembler = Assembler::new(FORMAT);
        let sql =
            format!("SELECT message_data, {time} FROM agent_messages WHERE session_id = ?1 ORDER BY rowid");
        let mut number = 0;
        database.each(&sql, [&id], |row| {
            let [data, time] = columns(row)?;
            let place = building::nth(number);
            number += 1;
            let text: Arc<str> = Arc::from(data.unwrap_or_default());
            match Doc::parse(&text).map(|doc| doc.shared_as(&text)) {
                Ok(doc) => doc.root().into_iter().for_each(|item| {
                    let source = Source::of(item, &text, place, time.clone().map(Text::from));
                    assembler.add_or_report(item, &source, building::damage(place, "").at);
                }),
                Err(error) => {
                    assembler.aside(place, Aside::Raw(Text::new(text.clone())));
                    assembler.session.findings.push(building::damage(place, error.reason));
                }
            }
            Ok(())
        })?;
        assembler.flush();
        let context = Context::of_model(Dialect::OpenAiResponses, None);
        found.push(assembler.into_session(database.name(), Some(&id), context));
    }
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}
