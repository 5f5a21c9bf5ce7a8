//! Tells readers on any machine that a conversation has new entries, and hears it from others.
//!
//! An append does not notify in its own transaction: the server lets transactions that notify commit only one after the other. A task
//! does it afterwards, for many conversations in one statement, and never more than one statement at a time. A notification may be
//! lost, so readers also look from time to time.

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

/// The least time between two statements that notify, so that many appends cost few of them.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest that closing a store waits for the last notifications.
const CLOSING: Duration = Duration::from_millis(250);

/// How often a reader looks without being notified.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// The first pause before connecting again, and the longest one.
const RECONNECTING: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The notifications that a store sends and hears.
#[derive(Default)]
pub(super) struct Notices {
    outbox: Arc<Outbox>,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Outbox {
    unsent: Mutex<Unsent>,
    /// Held while a statement is on its way.
    sending: Mutex<()>,
}

#[derive(Default)]
struct Unsent {
    conversations: BTreeSet<ConversationId>,
    /// Whether a task sends them.
    has_task: bool,
}

impl Notices {
    /// Notifies others soon that a conversation has changed.
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

    /// Sends what is left before the store is closed.
    pub(super) fn finish(&self, link: &Link) {
        if guard(&self.outbox.unsent).has_task {
            let (outbox, pool) = (Arc::clone(&self.outbox), Arc::clone(link.pool()));
            let (done, is_done) = mpsc::channel();
            link.handle().spawn_blocking(move || {
                outbox.send(&pool);
                done.send(())
            });
            // What is lost here, readers see when they look the next time.
            let _ = is_done.recv_timeout(CLOSING);
        }
    }

    /// Waits until the newest entry of a conversation is another one than `after`, at most for some time. `tail` asks for it.
    pub(super) fn wait(
        &self,
        link: &Link,
        (conversation, after): (ConversationId, Option<Tail>),
        most: Duration,
        tail: impl Fn() -> StoreResult<Option<Tail>>,
    ) -> StoreResult<Option<Tail>> {
        let begun = Instant::now();
        let reader = Reader::new(&self.heard, conversation);
        self.heard.listen(link);
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
    /// Notifies others of everything that is not sent yet, in one statement. False if there is nothing.
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
        // There is nothing to make durable.
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

/// What was heard.
#[derive(Default)]
struct Heard {
    state: Mutex<Hearing>,
    changed: Condvar,
}

#[derive(Default)]
struct Hearing {
    /// Whether a task listens, or tries to.
    has_task: bool,
    is_listening: bool,
    /// How often that changed. Notifications that are sent while no connection listens are lost.
    changes: u64,
    /// The conversations that callers wait for.
    awaited: HashMap<ConversationId, Awaited>,
}

#[derive(Default)]
struct Awaited {
    readers: usize,
    notifications: u64,
}

impl Heard {
    fn change(&self, change: impl FnOnce(&mut Hearing)) {
        change(&mut guard(&self.state));
        self.changed.notify_all();
    }

    fn set_listening(&self, is_listening: bool) {
        self.change(|state| {
            state.is_listening = is_listening;
            state.changes += 1;
        });
    }

    /// Listens on a separate connection for as long as the store is open.
    fn listen(self: &Arc<Self>, link: &Link) {
        if std::mem::replace(&mut guard(&self.state).has_task, true) {
            return;
        }
        let (heard, dialer) = (Arc::clone(self), link.dialer().clone());
        link.handle().spawn(async move {
            let [first, longest] = RECONNECTING;
            let mut pause = first;
            loop {
                let begun = Instant::now();
                let ended = heard.hear(&dialer).await;
                heard.set_listening(false);
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
        // Others may use the channel for something else.
        let Ok(conversation) = payload.parse::<ConversationId>() else { return };
        self.change(|state| {
            if let Some(awaited) = state.awaited.get_mut(&conversation) {
                awaited.notifications += 1;
            }
        });
    }
}

/// A caller that waits for entries of a conversation.
struct Reader<'h> {
    heard: &'h Heard,
    conversation: ConversationId,
}

/// A moment, to tell whether something was heard since.
type Mark = (u64, u64);

impl<'h> Reader<'h> {
    fn new(heard: &'h Heard, conversation: ConversationId) -> Self {
        guard(&heard.state).awaited.entry(conversation).or_default().readers += 1;
        Self { heard, conversation }
    }

    fn mark(&self) -> Mark {
        self.mark_in(&guard(&self.heard.state))
    }

    fn mark_in(&self, state: &Hearing) -> Mark {
        let notifications = state.awaited.get(&self.conversation).map_or(0, |awaited| awaited.notifications);
        (state.changes, notifications)
    }

    /// Waits until something is heard after the mark, or until it is time to look.
    fn wait(&self, mark: Mark, most: Duration) {
        let state = guard(&self.heard.state);
        let look = if state.is_listening { SAFETY_NET } else { POLL };
        let nothing_new = |state: &mut Hearing| self.mark_in(state) == mark;
        let waited = self.heard.changed.wait_timeout_while(state, most.min(look), nothing_new);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut state = guard(&self.heard.state);
        if let Some(awaited) = state.awaited.get_mut(&self.conversation) {
            awaited.readers -= 1;
            if awaited.readers == 0 {
                state.awaited.remove(&self.conversation);
            }
        }
    }
}
