//! The JSON of changes: the state of each edit, and the outcome of an undo.

use rejoin_engine::changes::{FileEdit, FileUndo, UndoneEdit};
use rejoin_record::{content::ChangeState, json::Object};

/// The word for a step of a change.
#[must_use]
pub fn change_state(state: ChangeState) -> &'static str {
    match state {
        ChangeState::Proposed => "proposed",
        ChangeState::Approved => "approved",
        ChangeState::Denied => "denied",
        ChangeState::Applied => "applied",
        ChangeState::Reverted => "reverted",
    }
}

/// A change of a file, with its diff.
#[must_use]
pub fn edit(edit: &FileEdit) -> String {
    Object::new()
        .text("path", &edit.path)
        .text("state", change_state(edit.state))
        .text("tool", &edit.tool)
        .text("call_id", &edit.call_id)
        .text("time", edit.time)
        .count("turn", edit.turn)
        .text_or_null("by", edit.decision.by.as_deref())
        .text_or_null("reason", edit.decision.reason.as_deref())
        .text_or_null("commit", edit.commit.as_deref())
        .raw("confidence", &edit.confidence.map_or_else(|| String::from("null"), |number| number.to_string()))
        .text_or_null("diff", edit.diff())
        .finish()
}

/// The outcome of undoing one change.
#[must_use]
pub fn undone(edit: &UndoneEdit) -> String {
    let (outcome, why) = match &edit.outcome {
        FileUndo::Restored => ("restored", None),
        FileUndo::Removed => ("removed", None),
        FileUndo::LeftAlone(why) => ("left_alone", Some(why.to_string())),
    };
    Object::new()
        .text("path", &edit.path)
        .text("outcome", outcome)
        .text("conversation", edit.conversation)
        .text_or_null("why", why)
        .finish()
}
