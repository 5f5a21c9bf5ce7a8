//! Tells readers on any machine that a conversation has new entries, and receives such notifications.
//!
//! An append does not notify in its own transaction, because the server commits notifying transactions one at a time. Instead, a
//! task notifies afterwards, for many conversations in one statement, and never runs two statements at a time. A notification may
//! be lost, so readers also check from time to time.

use std::{
    collections::{BTreeSet, HashMap},
    future::{Future as _, poll_fn},
    pin::pin,
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use rejoin_record::{ConversationId, Tail};
use tokio_postgres::AsyncMessage;

use super::{
    link::{Link, Pool},
    socket::Dialer,
};
use crate::{error::StoreResult, lock::guard, store::POLL};

/// The channel of the notifications. Each carries the id of a conversation.
const CHANNEL: &str = "rejoin";

/// The shortest time between two notifying statements, so that many appends need few of them.
const PAUSE: Duration = Duration::from_millis(20);

/// How long closing a store waits for the last notifications.
const CLOSING: Duration = Duration::from_millis(250);

/// How often a reader checks without being notified.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// The first and the longest pause before reconnecting.
const RECONNECTING: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The notifications that a store sends and receives.
#[derive(Default)]
pub(super) struct Notices {
    outbox: Arc<Outbox>,
    receiver: Arc<Receiver>,
}

#[derive(Default)]
struct Outbox {
    unsent: Mutex<UnsentNotices>,
    /// Held while a statement is running.
    sending: Mutex<()>,
}

#[derive(Default)]
struct UnsentNotices {
    conversations: BTreeSet<ConversationId>,
    /// Whether a task is sending them.
    has_task: bool,
}

impl Notices {
    /// Schedules a notification that a conversation has changed.
    pub(super) fn tell(&self, link: &Link, conversation: ConversationId) {
        let mut unsent = guard(&self.outbox.unsent);
        unsent.conversations.insert(conversation);
        if std::mem::replace(&mut unsent.has_task, true) {
            return;
        }
        drop(unsent);
        let (outbox, pool) = (Arc::clone(&self.outbox), Arc::clone(link.pool()));
        link.handle().spawn_blocking(move || {
            while outbox.send(&pool) {
                thread::sleep(PAUSE);
            }
        });
    }

    /// Sends the remaining notifications before the store is closed.
    pub(super) fn finish(&self, link: &Link) {
        if guard(&self.outbox.unsent).has_task {
            let (outbox, pool) = (Arc::clone(&self.outbox), Arc::clone(link.pool()));
            let (done, is_done) = mpsc::channel();
            link.handle().spawn_blocking(move || {
                outbox.send(&pool);
                done.send(())
            });
            // Readers notice lost notifications at their next check.
            let _ = is_done.recv_timeout(CLOSING);
        }
    }

    /// Waits until the newest entry of a conversation is no longer `after`, for at most `most`. `tail` reads the newest entry.
    pub(super) fn wait(
        &self,
        link: &Link,
        (conversation, after): (ConversationId, Option<Tail>),
        most: Duration,
        tail: impl Fn() -> StoreResult<Option<Tail>>,
    ) -> StoreResult<Option<Tail>> {
        let begun = Instant::now();
        let reader = Reader::new(&self.receiver, conversation);
        self.receiver.listen(link);
        loop {
            let mark = reader.mark();
            let found = tail()?;
            let left = most.saturating_sub(begun.elapsed());
            if found != after || left.is_zero() {
                return Ok(found);
            }
            reader.wait(mark, left);
        }
    }
}

impl Outbox {
    /// Sends all pending notifications in one statement. Returns false if there are none.
    fn send(&self, pool: &Arc<Pool>) -> bool {
        let _sending = guard(&self.sending);
        let conversations: Vec<String> = {
            let mut unsent = guard(&self.unsent);
            unsent.has_task = !unsent.conversations.is_empty();
            std::mem::take(&mut unsent.conversations).iter().map(ToString::to_string).collect()
        };
        if conversations.is_empty() {
            return false;
        }
        // Notifications need not be durable.
        let query = "SELECT pg_notify($1, id), set_config('synchronous_commit', 'off', true) FROM unnest($2::text[]) AS id";
        let sent = pool.run_once("notifying readers", |client| {
            let conversations = &conversations;
            async move {
                let statement = client.prepare_cached(query).await?;
                Ok(client.execute(&statement, &[&CHANNEL, conversations]).await?)
            }
        });
        if let Err(why) = sent {
            tracing::debug!("readers are not notified: {why}");
        }
        true
    }
}

/// The state of receiving notifications.
#[derive(Default)]
struct Receiver {
    state: Mutex<ReceiverState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReceiverState {
    /// Whether a task is listening, or trying to.
    has_task: bool,
    is_listening: bool,
    /// How often listening began or ended. Notifications that are sent while no connection listens are lost.
    changes: u64,
    /// The conversations for which callers wait.
    waiting: HashMap<ConversationId, WaitingReaders>,
}

#[derive(Default)]
struct WaitingReaders {
    readers: usize,
    notifications: u64,
}

impl Receiver {
    fn change(&self, change: impl FnOnce(&mut ReceiverState)) {
        change(&mut guard(&self.state));
        self.changed.notify_all();
    }

    fn set_listening(&self, is_listening: bool) {
        self.change(|state| {
            state.is_listening = is_listening;
            state.changes += 1;
        });
    }

    /// Listens on a separate connection while the store is open.
    fn listen(self: &Arc<Self>, link: &Link) {
        if std::mem::replace(&mut guard(&self.state).has_task, true) {
            return;
        }
        let (receiver, dialer) = (Arc::clone(self), link.dialer().clone());
        link.handle().spawn(async move {
            let [first, longest] = RECONNECTING;
            let mut pause = first;
            loop {
                let begun = Instant::now();
                let ended = receiver.hear(&dialer).await;
                receiver.set_listening(false);
                let why =
                    ended.err().map_or_else(|| String::from("the server closed it"), |why| why.to_string());
                tracing::debug!("the connection that listens is gone: {why}");
                pause = if begun.elapsed() > longest { first } else { pause };
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        });
    }

    /// Listens until the connection ends.
    async fn hear(&self, dialer: &Dialer) -> Result<(), tokio_postgres::Error> {
        let (client, mut connection) = dialer.config.connect(dialer.tls.clone()).await?;
        let listen = format!("LISTEN {CHANNEL}");
        let mut listening = pin!(client.batch_execute(&listen));
        let mut has_begun = false;
        poll_fn(|context| {
            loop {
                match connection.poll_message(context) {
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Ready(Some(Err(why))) => return Poll::Ready(Err(why)),
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(notification)))) => {
                        self.notified(notification.payload());
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Pending => break,
                }
            }
            if !has_begun && let Poll::Ready(done) = listening.as_mut().poll(context) {
                done?;
                has_begun = true;
                self.set_listening(true);
            }
            Poll::Pending
        })
        .await
    }

    fn notified(&self, payload: &str) {
        // Other programs may use the channel for something else.
        let Ok(conversation) = payload.parse::<ConversationId>() else { return };
        self.change(|state| {
            if let Some(waiting) = state.waiting.get_mut(&conversation) {
                waiting.notifications += 1;
            }
        });
    }
}

/// A caller that waits for entries of a conversation.
struct Reader<'h> {
    receiver: &'h Receiver,
    conversation: ConversationId,
}

/// A point in time, to check later whether a notification has arrived since then.
type Mark = (u64, u64);

impl<'h> Reader<'h> {
    fn new(receiver: &'h Receiver, conversation: ConversationId) -> Self {
        guard(&receiver.state).waiting.entry(conversation).or_default().readers += 1;
        Self { receiver, conversation }
    }

    fn mark(&self) -> Mark {
        self.mark_in(&guard(&self.receiver.state))
    }

    fn mark_in(&self, state: &ReceiverState) -> Mark {
        let notifications = state.waiting.get(&self.conversation).map_or(0, |waiting| waiting.notifications);
        (state.changes, notifications)
    }

    /// Waits until a notification arrives after the mark, or until it is time to check.
    fn wait(&self, mark: Mark, most: Duration) {
        let state = guard(&self.receiver.state);
        let look = if state.is_listening { SAFETY_NET } else { POLL };
        let nothing_new = |state: &mut ReceiverState| self.mark_in(state) == mark;
        let waited = self.receiver.changed.wait_timeout_while(state, most.min(look), nothing_new);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut state = guard(&self.receiver.state);
        if let Some(waiting) = state.waiting.get_mut(&self.conversation) {
            waiting.readers -= 1;
            if waiting.readers == 0 {
                state.waiting.remove(&self.conversation);
            }
        }
    }
}
