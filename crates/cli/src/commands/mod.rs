//! The commands, one file each.

mod chat;
mod check;
mod config;
mod convert;
mod copy;
mod demo;
mod doctor;
mod exchange;
mod explain;
mod first;
mod history;
mod import;
mod install;
mod installation;
mod list;
#[cfg(feature = "mcp")]
mod mcp;
mod new;
mod prelude;
pub mod providers;
pub mod report;
mod resume;
mod room;
mod run;
mod stats;
mod store;
mod talking;
mod undo;
mod verify;

pub use exchange::excerpt;
pub use history::numbered;
pub use talking::block_on;
#[cfg(feature = "mcp")]
pub use talking::{has_terminal, tool_policy};

use crate::{
    args::{ChatArguments, Command, CommandLine},
    failure::Failure,
};

/// Runs a command and returns its exit code.
pub fn run(arguments: CommandLine) -> Result<u8, Failure> {
    let CommandLine { command, flags } = arguments;
    match command.unwrap_or_else(|| Command::Chat(ChatArguments::default())) {
        Command::Chat(arguments) => chat::run(&arguments, &flags),
        Command::Resume(arguments) => resume::run(&arguments, &flags),
        Command::Run(arguments) => run::run(&arguments, &flags),
        Command::Undo(arguments) => undo::run(&arguments, &flags),
        Command::Compact(arguments) => room::compact(&arguments, &flags),
        Command::Prune(arguments) => room::prune(&arguments, &flags),
        Command::Uncompact(arguments) => room::uncompact(&arguments, &flags),
        Command::New(arguments) => new::run(&arguments, &flags),
        Command::List(arguments) => list::run(&arguments, &flags),
        Command::History(command) => history::run(command, &flags),
        Command::Stats(arguments) => stats::run(&arguments, &flags),
        Command::Check(arguments) => check::run(&arguments, &flags),
        Command::Convert(arguments) => convert::run(&arguments, &flags),
        Command::Move(arguments) => convert::run(&arguments.as_conversion(), &flags),
        Command::Doctor(arguments) => doctor::run(&arguments, &flags),
        Command::Import(arguments) => import::run(&arguments, &flags),
        Command::Copy(arguments) => copy::run(&arguments, &flags),
        Command::Verify(arguments) => verify::run(&arguments, &flags),
        Command::Store(arguments) => store::run(&arguments, &flags),
        Command::Config(command) => config::run(command, &flags),
        #[cfg(feature = "mcp")]
        Command::Mcp(command) => mcp::run(command, &flags),
        Command::Models(command) => providers::models(command, &flags),
        Command::Auth(command) => providers::auth(command, &flags),
        Command::SetProvider(arguments) => providers::set_provider(&arguments),
        Command::SetAuth { method } => providers::set_auth(&method),
        Command::Demo { turn } => demo::run(turn, &flags),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Completions { shell } => {
            crate::output::raw_data(crate::completing::script(shell).trim_end())?;
            Ok(0)
        }
    }
}
