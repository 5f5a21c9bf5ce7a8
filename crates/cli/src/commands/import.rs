//! `rejoin import`: imports other agents' sessions into the store. Their files are only read.
//!
//! In a folder, every regular file is tried by its content. Files that are not sessions are counted by reason, and do not stop the
//! import. `rejoin::import` decides what is imported, remembered and undone; this file prints it.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rejoin::{
    engine::{Clock as _, Imported, SystemClock},
    import::{ImportCounts, ImportStep, Importer, Journal, JournalError, UndoOutcome, UndoneImport, Watch},
    places::{self, Candidates, FolderFiles, PlacesToSearch},
    removing, sessions, shape,
    source::is_database_address,
    store::Store,
};

use super::{history::say_what_is_remembered, report};
use crate::{
    args::ImportArguments, commands::prelude::*, failure::INTERRUPTED, home, signals::SignalWatch, source,
    stream,
};

/// What is said at the first Ctrl-C.
const STOPPING: &str = "Stopping. Press Ctrl-C again to stop at once.";

/// Imports every file. If one cannot be read, the others still are.
pub fn run(arguments: &ImportArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    if arguments.undo {
        return undo(&cli, arguments.json);
    }
    // `--agent` and `--watch` without paths imply `--all`.
    let everywhere = arguments.all || arguments.paths.is_empty();
    let named = !everywhere && arguments.agents.agents.is_empty();
    let wanted = if named {
        PlacesToSearch { since: arguments.agents.since, ..PlacesToSearch::default() }
    } else {
        arguments.agents.wanted(&cli.settings)
    };
    let (databases, paths): (Vec<&String>, Vec<&String>) =
        arguments.paths.iter().partition(|path| is_database_address(path));
    let (paths, machine): (Vec<PathBuf>, _) = (paths.iter().map(PathBuf::from).collect(), home::machine());
    let look = |wanted: &PlacesToSearch| places::candidates(wanted, &paths, FolderFiles::All, &machine);
    let Candidates { files: candidates, missing, passed_over } = look(&wanted);
    for path in &missing {
        Failure::unreadable(path.display(), "there is no such file or folder", None).say();
    }
    if candidates.is_empty() && databases.is_empty() && !arguments.watch {
        output::talk("There is nothing to import.");
        if !arguments.paths.is_empty() {
            return Ok(UNREADABLE);
        }
        output::hint("`rejoin doctor --self` lists the folders that were looked in");
        return Ok(0);
    }
    let store = cli.write_store()?;
    let bar = output::progress(candidates.len(), "{bar:40} {pos}/{len} sessions");
    let writer = context::writer(&*store, "rejoin import");
    let mut importer = Importer::new(writer, journal(&cli), wanted, stream::open);
    importer.from = arguments.from.as_deref().and_then(sessions::named);
    let mut watch = Watch::default();
    let mut printer =
        ImportPrinter { verbosity: Verbosity::Full, from: arguments.from.as_deref(), json: arguments.json };
    passed_over.into_iter().for_each(|(path, reason)| importer.counts.skip(&path, reason));
    let (_signals, stopped) = SignalWatch::stops_work(STOPPING);
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let mut done = 0;
    for candidate in candidates.iter().take_while(|_| !is_stopped()) {
        done += 1;
        bar.suspend(|| match arguments.watch {
            true => watch.import(&mut importer, candidate, &mut |step| printer.tell(step)),
            false => importer.file(candidate, &mut |step| printer.tell(step)),
        })?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    for address in databases.into_iter().take_while(|_| !is_stopped()) {
        importer.database(address, &mut |step| printer.tell(step))?;
    }
    context::settle(&*store);
    if is_stopped() {
        output::talk(&sentence(&importer.counts));
        let all = plural(candidates.len(), "file");
        output::talk(&format!("Stopped after {done} of {all}. The same command imports the rest."));
        return Ok(INTERRUPTED);
    }
    if arguments.watch {
        let failed = importer.counts.failed;
        output::talk(&sentence(&importer.counts));
        printer.verbosity = Verbosity::News;
        until_stopped(&stopped, || {
            let candidates = look(importer.wanted()).files;
            watch.look(&mut importer, &candidates, || !is_stopped(), &mut |step| printer.tell(step))
        })?;
        output::talk(&sentence(&importer.counts));
        return Ok(u8::from(failed > 0));
    }
    let counts = importer.counts;
    if !arguments.json {
        output::talk(&sentence(&counts));
    } else if !counts.skipped.is_empty() {
        let reasons = counts.skipped.iter().map(|(reason, (count, _))| (*reason, *count));
        output::json_data(&shape::skipped(reasons))?;
    }
    match (counts.read, counts.unreadable + missing.len(), counts.failed) {
        (0, 1.., _) => Ok(UNREADABLE),
        (_, _, 0) => Ok(0),
        (all, _, failed) => Err(Failure::some_failed(failed, all)),
    }
}

fn journal(cli: &CliContext) -> Journal {
    Journal::open(&cli.home.data, &cli.location, SystemClock.now())
}

/// Polls until a signal arrives. Each poll returns the pause after it.
fn until_stopped(
    stopped: &AtomicBool,
    mut look: impl FnMut() -> Result<Duration, Failure>,
) -> Result<(), Failure> {
    let is_stopped = || stopped.load(Ordering::Relaxed);
    output::talk("Watching for new messages. Ctrl-C stops.");
    while !is_stopped() {
        let pause = look()?;
        let until = Instant::now() + pause;
        while Instant::now() < until && !is_stopped() {
            thread::sleep(Duration::from_millis(50).min(pause));
        }
    }
    Ok(())
}

fn sentence(counts: &ImportCounts) -> String {
    let mut said = format!(
        "{} read: {} new, {} grown, {} as before",
        plural(counts.read, "conversation"),
        counts.new,
        counts.grown,
        counts.unchanged()
    );
    if !counts.skipped.is_empty() {
        let total: u64 = counts.skipped.values().map(|(count, _)| count).sum();
        let reasons = counts.skipped.iter().map(|(reason, (count, first))| {
            let first = harmless(&first.display().to_string());
            let first = if *count == 1 { first } else { format!("such as {first}") };
            format!("\n  {count} {reason}: {first}")
        });
        said.push_str(&format!(".\n{} skipped", plural(total, "file")));
        return format!("{said}:{}", reasons.collect::<String>());
    }
    said + "."
}

/// How much is printed about each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    /// Everything.
    Full,
    /// Only additions, because the same file is read again and again.
    News,
}

/// Prints the steps of an import.
struct ImportPrinter<'a> {
    verbosity: Verbosity,
    from: Option<&'a str>,
    json: bool,
}

impl ImportPrinter<'_> {
    fn tell(&self, step: ImportStep<'_>) -> Result<(), Failure> {
        // The faults of an unchanged session were already printed when it was imported.
        let said = match &step {
            ImportStep::Stored { path, session, imported } if imported.added > 0 => Some((path, session)),
            ImportStep::Failed { path, session, .. } => Some((path, session)),
            _ => None,
        };
        if let Some((path, session)) = said.filter(|_| self.verbosity == Verbosity::Full) {
            let lines = session.findings.iter().map(report::line);
            lines.for_each(|line| output::talk(&format!("{}: {line}", harmless(path))));
        }
        match step {
            ImportStep::Unread { candidate, why } => {
                if candidate.is_expected() && self.verbosity == Verbosity::Full {
                    source::failure(why, &candidate.path, self.from).say();
                }
                Ok(())
            }
            ImportStep::Stored { imported, .. }
                if self.verbosity == Verbosity::News && imported.added == 0 =>
            {
                Ok(())
            }
            ImportStep::Stored { path, session, imported } if self.json => {
                output::json_data(&shape::imported(&imported, path, session.format))
            }
            ImportStep::Stored { path, imported, .. } => output::data(&line(path, &imported)),
            ImportStep::Failed { path, why, .. } => {
                output::talk(&format!("{}:", harmless(path)));
                Failure::from(why).say();
                Ok(())
            }
            ImportStep::NotRemembered(JournalError { path, why }) => {
                let path = output::shown(&path);
                output::warning(format!("`rejoin import --undo` cannot undo this import: {path}: {why}"));
                Ok(())
            }
        }
    }
}

/// The outcome for a conversation, on one line.
fn line(path: &str, imported: &Imported) -> String {
    let id = imported.id.to_string();
    let added = match imported.added {
        0 => String::from("nothing new"),
        added => format!("{added} added"),
    };
    let messages = plural(imported.messages, "message");
    format!("{}  {added:>11}  {messages:>12}  {}", paint(&id, output::STRONG), harmless(path))
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::unwritable(error.path.display(), &error.why)
    }
}

/// `rejoin import --undo`: undoes the last import into this store.
fn undo(cli: &CliContext, json: bool) -> Result<u8, Failure> {
    let mut journal = journal(cli);
    // With a scope, only the scope's own imports count. If there is no import, no store is created.
    let store = if journal.last().is_some() { Some(cli.write_store()?) } else { None };
    let is_own = |store: &dyn Store, id| cli.scope.is_open() || store.summary(id).is_ok();
    let found = store.and_then(|store| Some((journal.last_of(|id| is_own(&*store, id))?, store)));
    let Some((past, store)) = found else {
        output::talk("There is no import to undo.");
        return Ok(0);
    };
    let writer = context::writer(&*store, "rejoin import --undo");
    let time = past.began.split('.').next().unwrap_or(&past.began).replace('T', " ");
    output::talk(&format!("Undoing the import of {time} UTC."));
    let (mut undone, mut left) = (0, 0);
    journal.undo(past, &writer, &mut |one: &UndoneImport| {
        if one.outcome == UndoOutcome::Deleted {
            say_what_is_remembered(removing::forget(&cli.home.data, one.id, &one.entries));
        }
        *(if one.outcome.is_undone() { &mut undone } else { &mut left }) += 1;
        if json {
            return output::json_data(&one.to_json());
        }
        let id = paint(&one.id.to_string(), output::STRONG);
        output::data(&format!("{id}  {}  {}", one.outcome.words(), harmless(&one.path)))
    })?;
    context::settle(&*store);
    if !json {
        let left_alone = if left == 0 { String::new() } else { format!(", {left} kept") };
        output::talk(&format!(
            "{} undone{left_alone}. No session file was changed.",
            plural(undone, "conversation")
        ));
    }
    Ok(if left > 0 { FAILED } else { 0 })
}
