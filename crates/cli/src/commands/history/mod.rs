//! `rejoin history`: read and look after the conversations of the store, one file a topic.

mod calls;
mod change;
mod export;
mod search;
mod shape;
mod show;
mod view;

pub use shape::numbered;

use crate::{args::History, desk::Flags, failure::Failure};

/// Runs one of them.
pub fn run(command: History, flags: &Flags) -> Result<u8, Failure> {
    match command {
        History::List(arguments) => super::list::run(&arguments, flags),
        History::Show(arguments) => show::run(&arguments, flags),
        History::Search(arguments) => search::run(&arguments, flags),
        History::Export(arguments) => export::run(&arguments, flags),
        History::Calls(arguments) => calls::run(&arguments, flags),
        History::Rename(arguments) => change::rename(&arguments, flags),
        History::Fork(arguments) => change::fork(&arguments, flags),
        History::Erase(arguments) => change::erase(&arguments, flags),
        History::Delete(arguments) => change::delete(&arguments, flags),
    }
}
