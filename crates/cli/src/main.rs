//! The binary `rejoin`: arguments in, data on stdout, talk on stderr, and an exit code.
//!
//! Each command is a file in `commands/`. What a command found decides the exit code: 0 done, 1 failed or something found,
//! 2 usage or nothing readable, 130 interrupted, 255 a bug of ours. A closed pipe is quiet success.

mod args;
mod beside;
mod clock;
mod commands;
mod failure;
mod output;
mod places;
mod source;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    output::set_colour(arguments.color);
    // A panic is a bug of ours; scripts can tell it from a failure by its code.
    match std::panic::catch_unwind(|| commands::run(arguments.command)) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(failure::BUG),
    }
}

/// Help and version are no errors; anything else is wrong usage.
fn usage(error: &clap::Error) -> ExitCode {
    let code = u8::from(error.use_stderr()) * failure::UNREADABLE;
    // If nobody listens, nobody needs help.
    let _ = error.print();
    ExitCode::from(code)
}
