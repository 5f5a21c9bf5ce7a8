//! The binary `rejoin`: arguments in, data on stdout, talk on stderr, and an exit code.
//!
//! Each command is a file in `commands/`. The exit code reports the result: 0 done, 1 failed or something found, 2 wrong usage or
//! nothing readable, 130 interrupted, 255 a bug in rejoin. A closed pipe is a silent success.

mod amounts;
mod answering;
mod args;
mod commands;
mod completing;
mod context;
mod failure;
mod home;
mod json;
mod keyboard;
mod logging;
mod markdown;
mod meaning;
mod near;
mod outfile;
mod output;
mod pager;
mod picker;
mod question;
#[cfg(feature = "mcp")]
mod servers;
mod settings;
mod signals;
mod source;
mod stream;
mod subject;
mod windows;

use std::process::ExitCode;

use clap::{
    CommandFactory as _, FromArgMatches as _, ValueEnum as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// With large pages and few system calls, reading a large session takes half as long as with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This must come first: the process may be the helper of a sandbox.
    rejoin::sandbox::init();
    completing::if_asked();
    if only_version() {
        // A closed output is not an error here.
        let _ = output::raw_data(concat!("rejoin ", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    let mut command = args::CommandLine::command();
    let given = meaning::with_chat(&command, std::env::args_os().collect());
    let parsed = command.try_get_matches_from_mut(&given);
    let arguments = match parsed.and_then(|matches| args::CommandLine::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return usage(without_passwords(error), &given),
    };
    output::set_colour(colour(&arguments));
    logging::start();
    // A panic is a bug in rejoin; its exit code distinguishes it from a failure.
    match std::panic::catch_unwind(|| commands::run(arguments)) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(failure::BUG),
    }
}

/// Whether only the version is requested. Scripts request it often, and building the whole command line takes longer than all else.
fn only_version() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    first.is_some_and(|first| first == "--version" || first == "-V") && arguments.next().is_none()
}

/// When to use colours: by the flag, else by the setting. Commands that need the settings report a broken file.
fn colour(arguments: &args::CommandLine) -> args::Colour {
    if let Some(colour) = arguments.flags.color {
        return colour;
    }
    let home = home::Home::from_environment().ok();
    let settings = home.and_then(|home| settings::Settings::load(&home.config).ok()).unwrap_or_default();
    let set = settings.value("color").and_then(|value| args::Colour::from_str(value, false).ok());
    set.unwrap_or(args::Colour::Auto)
}

/// Prints help, the version, or a usage error.
fn usage(error: clap::Error, given: &[std::ffi::OsString]) -> ExitCode {
    let code = u8::from(error.use_stderr()) * failure::UNREADABLE;
    if meaning::suggest(&error, given) {
        return ExitCode::from(code);
    }
    match with_visible_escapes(given) {
        Some(message) => output::talk(message.trim_end()),
        // A closed standard error is not an error here.
        None => drop(error.print()),
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && given.iter().any(|word| word == "import") {
        output::hint("`rejoin import --all` imports the sessions of every agent on this machine");
    }
    ExitCode::from(code)
}

/// A usage error quotes the wrong value. If that is an address, its password is removed.
fn without_passwords(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let value = ContextValue::String(rejoin::store::hidden(value));
        error.insert(ContextKind::InvalidValue, value);
    }
    error
}

/// The usage error, if it quotes characters that control a terminal: clap prints arguments and variables unchanged. Rendered
/// without styles, the message contains only quoted control characters, and these become visible.
fn with_visible_escapes(given: &[std::ffi::OsString]) -> Option<String> {
    let plain = args::CommandLine::command().styles(clap::builder::Styles::plain());
    let error = plain.try_get_matches_from(given).err().filter(clap::Error::use_stderr)?;
    let error = without_passwords(error);
    let message = error.render().ansi().to_string();
    let visible = output::harmless_message(&message);
    (visible != message).then_some(visible)
}
