//! Lets the appends of several callers share a transaction, and so one round trip and one commit.
//!
//! A commit costs the server nearly as much as an append. While [`CONVOYS`] transactions are on their way, further appends wait
//! until one of these ends. Then all that wait travel together, sent by the thread of one of them. A caller that is alone never waits.
//! If a shared transaction fails, every caller appends alone and gets its own answer.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use super::{
    append::{self, Batch},
    link::Link,
};
use crate::{error::StoreResult, lock::guard};

/// The number of transactions on their way from which further appends wait. On a quiet machine two would do: the server executes
/// one while it syncs the other. On a busy one the threads wait for a processor, too, and more of them keep the server at work.
const CONVOYS: usize = 4;

/// The most appends in one transaction.
const MOST: usize = 32;

/// The size of the bodies, in bytes, from which an append travels alone, so that it does not delay others.
const LARGE: usize = 64 << 10;

/// How long an append waits for those on their way, which may be waiting for a lock. Then it travels nevertheless.
const PATIENCE: Duration = Duration::from_millis(50);

/// The appends of a store to existing conversations.
#[derive(Default)]
pub(super) struct Convoys {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    on_their_way: usize,
    waiting: Vec<Waiting>,
}

/// An append whose thread waits. Dropping it wakes the thread, which then appends alone.
struct Waiting {
    batch: Arc<Batch>,
    answer: Arc<Answer>,
}

/// Where a thread waits.
#[derive(Default)]
struct Answer {
    outcome: Mutex<Option<Outcome>>,
    given: Condvar,
}

enum Outcome {
    /// Another thread appended the batch, if `appended`; otherwise the conversation had another tail.
    Done { appended: bool },
    /// The thread must append its batch, together with those of others.
    Leads(Vec<Waiting>),
    /// The thread must append its batch alone.
    Alone,
}

impl Answer {
    fn give(&self, outcome: Outcome) {
        guard(&self.outcome).get_or_insert(outcome);
        self.given.notify_one();
    }

    /// Waits for at most `most`, or without a limit.
    fn wait(&self, most: Option<Duration>) -> Option<Outcome> {
        let mut outcome = guard(&self.outcome);
        match most {
            Some(most) => {
                let waited = self.given.wait_timeout_while(outcome, most, |outcome| outcome.is_none());
                outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => {
                let waited = self.given.wait_while(outcome, |outcome| outcome.is_none());
                outcome = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        outcome.take()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.answer.give(Outcome::Alone);
    }
}

impl Convoys {
    /// Appends a batch if its conversation ends with the expected tail. Returns whether it did.
    pub(super) fn append(&self, link: &Link, batch: Batch) -> StoreResult<bool> {
        // To begin a conversation locks a row that conversations share, and must not hold it while others wait for their rows.
        if batch.after.is_none() || batch.size() > LARGE {
            return alone(link, &batch);
        }
        let (batch, answer) = (Arc::new(batch), Arc::default());
        let (_place, others) = match self.join(&batch, &answer) {
            Some(place) => (Some(place), Vec::new()),
            None => match self.wait(&batch, &answer) {
                Outcome::Done { appended } => return Ok(appended),
                Outcome::Leads(others) => (Some(Place { convoys: self }), others),
                Outcome::Alone => (None, Vec::new()),
            },
        };
        if others.is_empty() { alone(link, &batch) } else { together(link, &batch, others) }
    }

    /// Takes a place among the transactions on their way, or a place in the queue.
    fn join(&self, batch: &Arc<Batch>, answer: &Arc<Answer>) -> Option<Place<'_>> {
        let mut queue = guard(&self.queue);
        if queue.on_their_way < CONVOYS {
            queue.on_their_way += 1;
            return Some(Place { convoys: self });
        }
        queue.waiting.push(Waiting { batch: Arc::clone(batch), answer: Arc::clone(answer) });
        None
    }

    /// Waits in the queue. If that takes too long, leads all that wait there.
    fn wait(&self, batch: &Arc<Batch>, answer: &Answer) -> Outcome {
        if let Some(outcome) = answer.wait(Some(PATIENCE)) {
            return outcome;
        }
        let mut queue = guard(&self.queue);
        if let Some(own) = queue.waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.batch, batch)) {
            queue.waiting.swap_remove(own);
            queue.on_their_way += 1;
            return Outcome::Leads(queue.take());
        }
        drop(queue);
        // An append that left the queue is on its way. The thread that took it answers.
        answer.wait(None).unwrap_or(Outcome::Alone)
    }
}

impl Queue {
    /// Takes the appends that waited longest.
    fn take(&mut self) -> Vec<Waiting> {
        let count = self.waiting.len().min(MOST);
        self.waiting.drain(..count).collect()
    }
}

/// A place among the transactions on their way. Dropping it gives it to the appends that wait.
struct Place<'c> {
    convoys: &'c Convoys,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queue = guard(&self.convoys.queue);
        let mut others = queue.take();
        match others.pop() {
            Some(leader) => leader.answer.give(Outcome::Leads(others)),
            None => queue.on_their_way -= 1,
        }
    }
}

/// Appends a batch and those of others in one transaction, and answers the others.
fn together(link: &Link, own: &Batch, others: Vec<Waiting>) -> StoreResult<bool> {
    let of_others = others.iter().map(|other| (&*other.batch, Some(&*other.answer)));
    let mut all: Vec<(&Batch, Option<&Answer>)> = of_others.chain([(own, None)]).collect();
    // Every process locks conversations in the same order, so two of them never wait for each other.
    all.sort_by_key(|(batch, _)| batch.id);
    let appended = link.run("appending", |client| {
        let batches = all.iter().map(|(batch, _)| *batch).collect();
        async move { append::append_all(&client, batches).await }
    });
    match appended {
        Ok(appended) => {
            let mut of_own = false;
            for ((_, answer), appended) in all.iter().zip(appended) {
                match answer {
                    Some(answer) => answer.give(Outcome::Done { appended }),
                    None => of_own = appended,
                }
            }
            Ok(of_own)
        }
        Err(why) => {
            tracing::debug!("a shared transaction failed, so each caller appends alone: {why}");
            drop(others);
            alone(link, own)
        }
    }
}

fn alone(link: &Link, batch: &Batch) -> StoreResult<bool> {
    link.run("appending", |client| async move { batch.append(&client).await })
}
