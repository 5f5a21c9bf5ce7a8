//! `rejoin history calls`: the tool calls of a conversation, for an auditor.
//!
//! Arguments and outcomes may contain secrets. So the list shows a keyed hash of the arguments: equal arguments have equal hashes,
//! and none can be guessed without the key, which stays in the data folder.

use rejoin::{
    answering::CALLS_KEY,
    engine::{CallErrorKind, CallKey, CallRecord, CallStatus, Clock as _, Mode, SystemClock, calls::calls},
    shape,
    store::files::PrivateFolder,
};

use crate::{args::CallsArguments, commands::prelude::*};

pub fn run(arguments: &CallsArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find(arguments.which.given())?;
    let recorded = context::read(&*store, id, Mode::Recover)?;
    let full = arguments.full || cli.settings.is_on("audit.full_arguments");
    // If other programs query the database, too, use the key of its view, so that the hashes match.
    let shared = store.report_key().map_err(|why| context::unusable(store.location(), why))?;
    let calls = calls(&recorded, &shared.map_or_else(|| key(&cli), |key| Ok(CallKey(key)))?);
    if arguments.json {
        calls.iter().try_for_each(|call| output::json_data(&shape::call(call, full)))?;
        return Ok(0);
    }
    if calls.is_empty() {
        output::talk(&format!("No tool was called in {id}."));
        return Ok(0);
    }
    cli.show(&for_people(&calls, full))?;
    Ok(0)
}

/// The key for hashing arguments. It is created on first use.
fn key(cli: &CliContext) -> Result<CallKey, Failure> {
    let folder = PrivateFolder::new(&cli.home.data);
    let path = folder.path_of(CALLS_KEY);
    let failed = |why| Failure::unwritable(path.display(), &why);
    // Read one byte more than a key has, so that a longer file is recognised as invalid.
    let stored = || folder.read(CALLS_KEY, 33).map_err(failed);
    let bytes = match stored()? {
        Some(bytes) => bytes,
        None => {
            let mut key = [0; 32];
            SystemClock.random(&mut key);
            match folder.make().and_then(|()| folder.create(CALLS_KEY, &key)) {
                Ok(()) => return Ok(CallKey(key)),
                // Of two processes that create it at once, one succeeds and the other reads that key.
                Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => stored()?.unwrap_or_default(),
                Err(why) => {
                    // Listing continues; only the hashes will differ next time.
                    output::note(format!(
                        "the key for the hashes could not be stored ({why}): the hashes are valid for this list only"
                    ));
                    return Ok(CallKey(key));
                }
            }
        }
    };
    let hint = "move it away; a new key is created, and hashes will differ from earlier ones";
    <[u8; 32]>::try_from(bytes.as_slice())
        .map(CallKey)
        .map_err(|_| Failure::unreadable(path.display(), "it is not a key of 32 bytes", Some(hint)))
}

fn for_people(calls: &[CallRecord], full: bool) -> String {
    let width = |of: &dyn Fn(&CallRecord) -> usize, least: usize| {
        calls.iter().map(of).max().unwrap_or(0).clamp(least, 40)
    };
    let tool = width(&|call| call.tool.chars().count(), "tool".len());
    let id = width(&|call| call.call_id.chars().count(), "call".len());
    let status = width(&|call| status_of(call).len(), "completed".len());
    let mut text = paint(
        &format!(
            "{:id$}  {:tool$}  {:status$}  {:19}  {:>8}  args_sha256\n",
            "call", "tool", "status", "started", "took"
        ),
        output::DIM,
    );
    for call in calls {
        let started = call.times.started.map_or_else(|| String::from("-"), local_time);
        let took = call.times.latency_ms().map_or_else(|| String::from("-"), |took| format!("{took} ms"));
        let style = match call.status {
            CallStatus::Failed => output::ERROR,
            CallStatus::Interrupted => output::WARNING,
            _ => anstyle::Style::new(),
        };
        let status = paint(&format!("{:status$}", status_of(call)), style);
        text.push_str(&format!(
            "{:id$}  {:tool$}  {status}  {started:19}  {took:>8}  {}\n",
            harmless(&call.call_id),
            harmless(&call.tool),
            short(&call.args_sha256, full),
        ));
        if full {
            text.push_str(&format!("    arguments: {}\n", harmless(&call.arguments)));
            for (name, words) in [("error", &call.error), ("outcome", &call.outcome)] {
                if let Some(words) = words {
                    text.push_str(&format!("    {name}: {}\n", harmless(&words.replace('\n', " "))));
                }
            }
        }
    }
    text
}

/// The status, with its cause if the tool did not report it itself.
fn status_of(call: &CallRecord) -> String {
    match call.error_kind.filter(|kind| *kind != CallErrorKind::ToolError) {
        Some(kind) => format!("{}: {}", call.status.name(), kind.name()),
        None => call.status.name().to_owned(),
    }
}

/// Enough of a hash for comparing by eye.
fn short(hash: &str, full: bool) -> &str {
    if full { hash } else { hash.get(..16).unwrap_or(hash) }
}
