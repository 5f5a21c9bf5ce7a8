//! The lease of a conversation: the right to write to it, across machines. It is a row that names the holder and the time at
//! which the lease ends.
//!
//! The holder renews the lease while it runs. If the holder dies, the lease lapses, and the next writer takes it over; a writer
//! on the same machine can do so at once. Only the server's clock counts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rejoin_record::{
    ConversationId,
    json::{Doc, Object as Json},
};
use tokio::task::JoinHandle;

use super::{
    Inner,
    link::{Object, Trouble},
};
use crate::{
    error::{StoreError, StoreResult},
    lock::{Holder, guard},
};

/// How many seconds a lease lasts without a renewal.
const SECONDS: f64 = 15.0;

/// How often a lease is renewed. Two renewals may fail before it lapses.
const RENEWAL: Duration = Duration::from_secs(5);

/// The tokens of the leases that this process holds. A lease that could not be given back because the server was down is not in
/// it.
static HELD: Mutex<Vec<uuid::Uuid>> = Mutex::new(Vec::new());

/// A lease that this process holds. Dropping it gives it back.
pub(crate) struct Lease {
    inner: Arc<Inner>,
    conversation: ConversationId,
    token: uuid::Uuid,
    renewing: JoinHandle<()>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        guard(&HELD).retain(|held| *held != self.token);
        let (conversation, token) = (self.conversation, self.token);
        let returned = self.inner.link.run("giving back the right to write", |client| async move {
            let query = "DELETE FROM rejoin.lease WHERE conversation = $1 AND token = $2";
            let statement = client.prepare_cached(query).await?;
            client.execute(&statement, &[&conversation.to_string(), &token]).await?;
            Ok(())
        });
        if let Err(why) = returned {
            tracing::debug!("{why}; it lapses by itself");
        }
    }
}

/// Takes the lease of a conversation.
pub(super) fn take(inner: &Arc<Inner>, conversation: ConversationId, holder: &Holder) -> StoreResult<Lease> {
    let token = random();
    // Record it first, before another process can see it in the row.
    guard(&HELD).push(token);
    let taken = take_as(token, inner, conversation, holder);
    if taken.is_err() {
        guard(&HELD).retain(|held| *held != token);
    }
    taken
}

fn take_as(
    token: uuid::Uuid,
    inner: &Arc<Inner>,
    conversation: ConversationId,
    holder: &Holder,
) -> StoreResult<Lease> {
    let place = StoragePlace::here();
    let text = place.note(holder);
    let got = inner.link.run("asking for the right to write", |client| {
        let (place, text) = (&place, &text);
        async move { acquire(&client, conversation, token, text, place).await }
    })?;
    if let Err(other) = got {
        return Err(StoreError::Locked(other));
    }
    let renewed = Arc::downgrade(inner);
    let renewing = inner.link.handle().spawn(async move {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let Some(inner) = renewed.upgrade() else { return };
            let renewed = tokio::task::spawn_blocking(move || renew(&inner, conversation, token)).await;
            match renewed {
                Ok(Ok(1)) => {}
                Ok(Ok(_)) => {
                    tracing::warn!("another process has taken over the right to write to {conversation}");
                    return;
                }
                Ok(Err(why)) => {
                    tracing::debug!("the right to write to {conversation} was not renewed: {why}");
                }
                // The store is being closed.
                Err(_) => return,
            }
        }
    });
    Ok(Lease { inner: Arc::clone(inner), conversation, token, renewing })
}

/// Renews a lease. Returns the number of updated rows: 1, or 0 if the lease is no longer ours.
fn renew(inner: &Inner, conversation: ConversationId, token: uuid::Uuid) -> StoreResult<u64> {
    inner.link.run("renewing the right to write", |client| async move {
        let query = "UPDATE rejoin.lease SET until = now() + $3 * interval '1 second' WHERE conversation = $1 AND token = $2";
        let statement = client.prepare_cached(query).await?;
        Ok(client.execute(&statement, &[&conversation.to_string(), &token, &SECONDS]).await?)
    })
}

/// Takes the lease if it is free or its holder is gone. Otherwise returns the holder.
async fn acquire(
    client: &Object,
    conversation: ConversationId,
    token: uuid::Uuid,
    text: &str,
    place: &StoragePlace,
) -> Result<Result<(), Holder>, Trouble> {
    let name = conversation.to_string();
    let query = "INSERT INTO rejoin.lease AS held (conversation, token, holder, until) \
                 VALUES ($1, $2, $3, now() + $4 * interval '1 second') \
                 ON CONFLICT (conversation) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder, until = EXCLUDED.until \
                 WHERE held.until < now() OR held.token = $5 OR held.token = $2 RETURNING 1";
    let statement = client.prepare_cached(query).await?;
    // The token of a holder that is known to have ended.
    let mut gone = token;
    loop {
        if client.query_opt(&statement, &[&name, &token, &text, &SECONDS, &gone]).await?.is_some() {
            return Ok(Ok(()));
        }
        let query = "SELECT token, holder FROM rejoin.lease WHERE conversation = $1";
        let lookup = client.prepare_cached(query).await?;
        // The holder may have given it back in between.
        let Some(row) = client.query_opt(&lookup, &[&name]).await? else { continue };
        let (other, note): (uuid::Uuid, &str) = (row.get(0), row.get(1));
        if other == gone || !place.knows_to_be_gone(note, other) {
            return Ok(Err(place.holder(note)));
        }
        gone = other;
    }
}

fn random() -> uuid::Uuid {
    // The token need not be secret: everyone who can write to the database can change the row anyway.
    let mut bytes = [0; 16];
    for half in bytes.chunks_mut(8) {
        use std::hash::{BuildHasher as _, Hasher as _};
        half.copy_from_slice(&std::hash::RandomState::new().build_hasher().finish().to_le_bytes());
    }
    uuid::Uuid::from_bytes(bytes)
}

/// The machine on which a process runs, so that another process on the same machine can check whether it is still running.
struct StoragePlace {
    /// The boot id of the machine and the namespace of its process ids; empty if the system does not reveal them.
    machine: String,
}

impl StoragePlace {
    fn here() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::read_link("/proc/self/ns/pid").ok();
        let machine = match (boot.trim(), space) {
            ("", _) | (_, None) => String::new(),
            (boot, Some(space)) => format!("{boot} {}", space.display()),
        };
        Self { machine }
    }

    /// A holder as JSON, with the place where it runs.
    fn note(&self, holder: &Holder) -> String {
        let started = started(holder.pid).unwrap_or_default();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Json::new()
            .number("pid", u64::from(holder.pid))
            .text("command", holder.command.replace('\0', " "))
            .text("since", &holder.since)
            .text("host", host.trim())
            .text("machine", &self.machine)
            .text("started", &started)
            .finish()
    }

    /// The holder that a note names. A process of another machine is described as such, because its id means nothing here.
    fn holder(&self, note: &str) -> Holder {
        let mut holder = Holder::from_json(note);
        let host = field(note, "host");
        if !host.is_empty() && field(note, "machine") != self.machine {
            holder.command = format!("{} on {host}", holder.command);
        }
        holder
    }

    /// Whether a holder ran on this machine and has ended.
    fn knows_to_be_gone(&self, note: &str, token: uuid::Uuid) -> bool {
        let (machine, then) = (field(note, "machine"), field(note, "started"));
        if self.machine.is_empty() || machine != self.machine || then.is_empty() {
            return false;
        }
        let pid = Holder::from_json(note).pid;
        let is_left = pid == std::process::id() && !guard(&HELD).contains(&token);
        is_left || started(pid).is_none_or(|now| now != then)
    }
}

/// A field of a note.
fn field(note: &str, name: &str) -> String {
    let (doc, _) = Doc::parse_prefix(note);
    let value = doc.root().and_then(|root| root.given(name));
    value.and_then(|value| value.as_str().map(|text| text.into_owned())).unwrap_or_default()
}

/// The start time of a process, in clock ticks of the system; `None` if there is no such process.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A killed process keeps its entry until its parent has reaped it.
    let is_gone = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !is_gone).map(str::to_owned)
}
