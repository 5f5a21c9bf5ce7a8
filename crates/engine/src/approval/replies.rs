//! Answers that a program gives, by call id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{ApprovalAnswer, ApprovalRequest, Approve};
use crate::provider::BoxFuture;

/// Approvals by a program: it sees [`Event::ApprovalWanted`](crate::turn::Event::ApprovalWanted) and replies by call id, from any
/// thread. Clones share the replies.
///
/// ```
/// use rejoin_engine::approval::{ApprovalAnswer, Replies};
///
/// let replies = Replies::default();
/// // A reply may come before the question.
/// replies.reply("call_1", ApprovalAnswer::Yes);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Replies {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    given: Mutex<ReceivedReplies>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct ReceivedReplies {
    answers: HashMap<String, ApprovalAnswer>,
    closed: bool,
}

impl Replies {
    /// Answers about a call. If several answers come before the question, the last one counts.
    pub fn reply(&self, call_id: impl Into<String>, answer: ApprovalAnswer) {
        self.given().answers.insert(call_id.into(), answer);
        self.shared.changed.notify_waiters();
    }

    /// Declares that no more replies come: every open question is denied.
    pub fn close(&self) {
        self.given().closed = true;
        self.shared.changed.notify_waiters();
    }

    fn given(&self) -> MutexGuard<'_, ReceivedReplies> {
        self.shared.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Approve for Replies {
    fn answer<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            loop {
                let mut changed = std::pin::pin!(self.shared.changed.notified());
                // From here on no reply is missed.
                changed.as_mut().enable();
                {
                    let mut given = self.given();
                    if let Some(answer) = given.answers.remove(request.call.id.as_str()) {
                        return answer;
                    }
                    if given.closed {
                        let reason = "approval is needed, and no answer came".to_owned();
                        return ApprovalAnswer::No { reason: Some(reason) };
                    }
                }
                changed.await;
            }
        })
    }

    fn answered_by(&self) -> &'static str {
        "program"
    }
}
