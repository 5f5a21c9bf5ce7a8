//! `openai-agents`: the SQLite sessions of the OpenAI Agents SDK. Each row is one item of the Responses API.
//!
//! The same items as a JSON list are read as `openai-responses`: nothing in such a dump tells that it comes from here.

use std::sync::Arc;

use hashbrown::HashMap;
use rejoin_record::{Text, json::Doc};

use super::{
    building,
    database::{Database, columns, parse_each},
    registry::{DatabaseReading, Evidence},
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

/// How such a database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    needs: &[("agent_messages", &["session_id", "message_data"])],
    evidence: Evidence::Tables("a table `agent_messages` with `message_data`"),
    tables: "agent_messages agent_sessions message_structure turn_usage",
    read,
};

/// Reads every session.
fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let time = database.or_null("agent_messages", "created_at");
    let sql = format!("SELECT session_id, message_data, {time} FROM agent_messages ORDER BY rowid");
    let (mut assemblers, mut items) = (Vec::new(), Vec::new());
    // The number of each session, and how many items it has so far.
    let mut sessions: HashMap<String, (usize, usize)> = HashMap::new();
    database.each(&sql, [], |row| {
        let [id, data, time] = columns(row)?;
        let id = id.unwrap_or_default();
        let (session, count) = sessions.entry_ref(&*id).or_insert_with(|| {
            assemblers.push((id.to_string(), Assembler::new(FORMAT)));
            (assemblers.len() - 1, 0)
        });
        let text: Arc<str> = Arc::from(&*data.unwrap_or_default());
        items.push((*session, *count, time.map(|time| Text::new(&*time)), text));
        *count += 1;
        Ok(())
    })?;
    parse_each(
        items,
        |(.., text)| text,
        |(session, number, time, text), root| {
            let ((_, assembler), place) = (&mut assemblers[session], building::nth(number));
            match root {
                Some(item) => {
                    let source = Source::of(item, &text, place, time);
                    assembler.add_or_report(item, &source, building::damage(place, "").at);
                }
                None => {
                    let why = Doc::parse(&text).err().map_or("not a JSON value", |error| error.reason());
                    assembler.aside(place, Aside::Raw(Text::new(text)));
                    assembler.session.findings.push(building::damage(place, why));
                }
            }
        },
    );
    let finish = |(id, mut assembler): (String, Assembler)| {
        assembler.flush();
        let context = Context::of_model(Dialect::OpenAiResponses, None);
        assembler.into_session(database.name(), Some(&id), context)
    };
    Ok(assemblers.into_iter().map(finish).collect())
}
