//! The commands, one file each.

mod check;
mod convert;
mod doctor;
mod explain;
mod report;

use clap::CommandFactory as _;

use crate::{
    args::{Arguments, Command},
    failure::Failure,
};

/// Runs a command and gives its exit code.
pub fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "rejoin", &mut script);
            crate::output::raw_data(String::from_utf8_lossy(&script).trim_end())?;
            Ok(0)
        }
    }
}
