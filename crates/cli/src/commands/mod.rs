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
    args::{ChatArguments, CliCommand, CommandLine},
    failure::Failure,
};

/// Runs a command and returns its exit code.
pub fn run(arguments: CommandLine) -> Result<u8, Failure> {
    let CommandLine { command, flags } = arguments;
    match command.unwrap_or_else(|| CliCommand::Chat(ChatArguments::default())) {
        CliCommand::Chat(arguments) => chat::run(&arguments, &flags),
        CliCommand::Resume(arguments) => resume::run(&arguments, &flags),
        CliCommand::Run(arguments) => run::run(&arguments, &flags),
        CliCommand::Undo(arguments) => undo::run(&arguments, &flags),
        CliCommand::Compact(arguments) => room::compact(&arguments, &flags),
        CliCommand::Prune(arguments) => room::prune(&arguments, &flags),
        CliCommand::Uncompact(arguments) => room::uncompact(&arguments, &flags),
        CliCommand::New(arguments) => new::run(&arguments, &flags),
        CliCommand::List(arguments) => list::run(&arguments, &flags),
        CliCommand::History(command) => history::run(command, &flags),
        CliCommand::Stats(arguments) => stats::run(&arguments, &flags),
        CliCommand::Check(arguments) => check::run(&arguments, &flags),
        CliCommand::Convert(arguments) => convert::run(&arguments, &flags),
        CliCommand::Move(arguments) => convert::run(&arguments.as_conversion(), &flags),
        CliCommand::Doctor(arguments) => doctor::run(&arguments, &flags),
        CliCommand::Config(command) => config::run(command, &flags),
        CliCommand::Import(arguments) => import::run(&arguments, &flags),
        CliCommand::Copy(arguments) => copy::run(&arguments, &flags),
        CliCommand::Verify(arguments) => verify::run(&arguments, &flags),
        CliCommand::Store(arguments) => store::run(&arguments, &flags),
        #[cfg(feature = "mcp")]
        CliCommand::Mcp(command) => mcp::run(command, &flags),
        CliCommand::Models(command) => providers::models(command, &flags),
        CliCommand::Auth(command) => providers::auth(command, &flags),
        CliCommand::SetProvider(arguments) => providers::set_provider(&arguments),
        CliCommand::SetAuth { method } => providers::set_auth(&method),
        CliCommand::Demo { turn } => demo::run(turn, &flags),
        CliCommand::Explain(arguments) => explain::run(&arguments),
        CliCommand::Completions { shell } => {
            crate::output::raw_data(crate::completing::script(shell).trim_end())?;
            Ok(0)
        }
    }
}
