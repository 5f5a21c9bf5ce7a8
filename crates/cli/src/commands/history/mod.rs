//! `rejoin history`: commands that read and maintain the conversations of the store, one file per topic.

mod calls;
mod change;
mod edits;
mod export;
mod follow;
mod search;
mod shape;
mod show;
mod tokens;
mod view;

pub use change::{entry, fork_at, say_what_is_remembered};
pub use shape::numbered;

use crate::{args::HistoryCommand, context::Flags, failure::Failure};

pub fn run(command: HistoryCommand, flags: &Flags) -> Result<u8, Failure> {
    match command {
        HistoryCommand::List(arguments) => super::list::run(&arguments, flags),
        HistoryCommand::Show(arguments) => show::run(&arguments, flags),
        HistoryCommand::Search(arguments) => search::run(&arguments, flags),
        HistoryCommand::Export(arguments) => export::run(&arguments, flags),
        HistoryCommand::Calls(arguments) => calls::run(&arguments, flags),
        HistoryCommand::Edits(arguments) => edits::run(&arguments, flags),
        HistoryCommand::Pin(arguments) => change::pin(&arguments, flags),
        HistoryCommand::Rename { conversation, title } => change::rename(&conversation, &title, flags),
        HistoryCommand::Fork(arguments) => change::fork(&arguments, flags),
        HistoryCommand::Erase(arguments) => change::erase(&arguments, flags),
        HistoryCommand::Delete(arguments) => change::delete(&arguments, flags),
    }
}
