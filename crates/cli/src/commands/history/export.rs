//! `rejoin history export`: a conversation as a file. As `jsonl`, every entry byte for byte.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use rejoin::{Choice, engine::Mode};

use super::numbers;
use crate::{
    args::ExportArguments,
    commands::{convert, report},
    desk::{self, Desk, Flags},
    failure::Failure,
    output::{self, harmless, plural},
};

/// Exports a conversation.
pub fn run(arguments: &ExportArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let (store, id) = desk.find(arguments.which.given())?;
    let mut recorded = desk::read(&*store, id, Mode::Recover)?;
    let text = match arguments.to {
        destination if convert::is_own(destination) => {
            for finding in &recorded.session.findings {
                output::talk(&format!("{} — {}", report::line(finding), finding.deed()));
            }
            convert::verbatim(&recorded.entries)
        }
        destination => {
            let lines = numbers::as_shown(&recorded.entries, &mut recorded.session);
            let on_broken = convert::policy(&desk.settings);
            let made = convert::make(&recorded.session, destination, Choice::default(), on_broken);
            let made = made.map_err(|error| convert::failure(&id.to_string(), &error))?;
            for finding in lines.fill(made.findings) {
                output::talk(&format!("{} — {}", report::line(&finding), finding.deed()));
            }
            made.body
        }
    };
    match &arguments.output {
        None => output::raw_data(text.trim_end_matches('\n'))?,
        Some(path) => {
            write(path, &text)
                .map_err(|why| Failure::Unwritable { path: path.display().to_string(), why })?;
            let entries = plural(recorded.session.messages.len() as u64, "message");
            output::talk(&format!("{id}: {entries} written to {}", harmless(&path.display().to_string())));
        }
    }
    Ok(0)
}

/// Writes a file that, if it is new, only its owner can read.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        file.write_all(b"\n")?;
    }
    // Standard output and the like cannot be synced, and need not be.
    let _ = file.sync_all();
    Ok(())
}
