//! The commands that change a conversation: rename, fork, erase, delete. The last two are permanent, so they ask first.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use indicatif::ProgressBar;
use rejoin::{
    Conversation, ConversationId,
    engine::{self, Clock as _, EngineError, Mode, Pinning, Removal, Sharer, SystemClock},
    history::{self, Shown, ShownContent},
    prompts,
    record::EntryId,
    removing, shape,
    store::{Holder, Store, Summary},
};

use crate::{
    args::{DeleteArguments, EraseArguments, ForkArguments, PinArguments, RemovalArguments},
    context::{self, CliContext, Flags},
    failure::Failure,
    output::{self, harmless, plural},
    question,
};

pub fn rename(given: &str, title: &str, flags: &Flags) -> Result<u8, Failure> {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() {
        return Err(Failure::usage("the title is empty", "`rejoin history rename ID 'A title'`"));
    }
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find_to_write(given)?;
    context::writer(&*store, "rejoin history rename").rename(id, &title)?;
    context::settle(&*store);
    output::talk(&format!("{id} is now called: {}", harmless(&title)));
    Ok(0)
}

pub fn pin(arguments: &PinArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find_to_write(&arguments.conversation)?;
    let store: Arc<dyn Store> = Arc::from(store);
    let recorded = context::read(&*store, id, Mode::Recover)?;
    let number = arguments.message;
    let entry = entry(&history::shown(&recorded.entries), number)?;
    let mut conversation = Conversation::open(Arc::clone(&store), id, "rejoin history pin")?;
    let (pinning, verb) = match arguments.remove {
        true => (conversation.unpin(entry), "unpinned"),
        false => (conversation.pin(entry), "pinned"),
    };
    if let Some(warning) = conversation.saved().warning() {
        return Err(Failure::failed(warning, "`rejoin doctor --self` says whether the store can be written"));
    }
    drop(conversation);
    context::settle(&*store);
    let changed = pinning == Pinning::Changed;
    if arguments.json {
        return output::json_data(&shape::pinned(id, number, !arguments.remove, changed)).map(|()| 0);
    }
    let already = if changed { "" } else { " already" };
    output::talk(&format!("Message {number} of {id} is{already} {verb}."));
    Ok(0)
}

pub fn fork(arguments: &ForkArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find_to_write(arguments.which.given())?;
    let new = fork_at(&cli, &*store, id, arguments.at)?;
    output::advice(&format!(
        "The fork is now the active conversation here. Back to the original: rejoin resume {id}"
    ));
    if arguments.json {
        output::json_data(&shape::forked(new, id))?;
    } else {
        output::raw_data(&new.to_string())?;
    }
    Ok(0)
}

/// Forks a conversation, at its end or after a message, and makes the fork the active one.
pub fn fork_at(
    cli: &CliContext,
    store: &dyn Store,
    id: ConversationId,
    at: Option<usize>,
) -> Result<ConversationId, Failure> {
    let at = match at {
        None => None,
        Some(number) => {
            let recorded = context::read(store, id, Mode::Recover)?;
            Some(entry(&history::shown(&recorded.entries), number)?)
        }
    };
    let new = context::writer(store, "rejoin history fork").fork(id, at)?;
    context::settle(store);
    cli.pointer().set(new)?;
    Ok(new)
}

pub fn erase(arguments: &EraseArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = find(&cli, arguments.which.given(), &arguments.removal)?;
    let recorded = if arguments.removal.dry_run {
        // Setting copies of damage aside would be a change.
        engine::read(&*store, id, Mode::Recover).map_err(|error| context::loading(&*store, error))?
    } else {
        context::read(&*store, id, Mode::Recover)?
    };
    let shown = history::shown(&recorded.entries);
    let mut entries = Vec::new();
    for number in &arguments.messages {
        let entry = entry(&shown, *number)?;
        let gone = matches!(shown[*number].what, ShownContent::Erased);
        if !gone && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        output::talk("These messages are erased already.");
        return Ok(0);
    }
    say_which_summaries_stay(id, &shown, &arguments.messages, &entries);
    let count = plural(entries.len(), "message");
    let title = title(&store.summary(id).unwrap_or_else(|_| Summary::new(id)));
    let command =
        RemovalCommand { verb: "erase", id, of: format!("the content of {count} of {id} ({title})") };
    command.run(&*store, arguments.which.given(), Some(&entries), &arguments.removal, || {
        let reason = arguments.reason.as_deref();
        context::writer(&*store, "rejoin history erase").erase(id, &entries, reason)?;
        let erased = recorded.entries.iter().filter(|entry| entries.contains(&entry.id()));
        say_what_is_remembered(prompts::forget(&cli.home.data, erased));
        output::talk(&format!("{id}: the content of {count} is erased; its hashes stay."));
        Ok(())
    })
}

/// Names the summaries that were written after the erased messages, because a model may have repeated their text there.
fn say_which_summaries_stay(id: ConversationId, shown: &[Shown<'_>], erased: &[usize], entries: &[EntryId]) {
    let first = erased.iter().copied().min().unwrap_or(0);
    let stays = |number: &usize| {
        let shown = &shown[*number];
        matches!(shown.what, ShownContent::Summary(_)) && !entries.contains(&shown.entry.id())
    };
    let numbers: Vec<String> = (first..shown.len()).filter(stays).map(|number| number.to_string()).collect();
    if !numbers.is_empty() {
        let (what, is) = if numbers.len() == 1 { ("summary", "message") } else { ("summaries", "messages") };
        output::warning(format!(
            "the {what} at {is} {} may repeat the text you erase; `rejoin history erase {id} -m {}` erases that, too",
            numbers.join(", "),
            numbers.join(",")
        ));
    }
}

pub fn delete(arguments: &DeleteArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = find(&cli, arguments.which.given(), &arguments.removal)?;
    let summary = store.summary(id).unwrap_or_else(|_| Summary::new(id));
    let messages = plural(summary.messages, "message");
    let command =
        RemovalCommand { verb: "delete", id, of: format!("{id} ({}, {messages})", title(&summary)) };
    command.run(&*store, arguments.which.given(), None, &arguments.removal, || {
        let holder = Holder::this("rejoin history delete", SystemClock.now());
        say_what_is_remembered(removing::delete(&*store, id, &holder, &cli.home.data)?);
        output::talk(&format!("Deleted conversation: {id}"));
        Ok(())
    })
}

/// Warns the user if the removed text could not be removed from the prompt's history.
pub fn say_what_is_remembered(forgotten: io::Result<()>) {
    if let Err(why) = forgotten {
        output::warning(format!("the prompt's history may still contain the text: {why}"));
    }
}

/// The conversation to remove from. Showing what would be removed needs no write access.
fn find(
    cli: &CliContext,
    given: &str,
    removal: &RemovalArguments,
) -> Result<(Box<dyn Store>, ConversationId), Failure> {
    if removal.dry_run { cli.find(given) } else { cli.find_to_write(given) }
}

/// On a terminal, shows the progress of rewriting the store's file, which takes a while for a large one.
fn progress(store: &dyn Store) -> ProgressBar {
    let bar = output::progress(0, "removing it from every file {bar:30} {bytes}/{total_bytes}");
    let shown = bar.clone();
    store.on_progress(Arc::new(move |progress| {
        shown.set_length(progress.total);
        shown.set_position(progress.done);
    }));
    bar
}

/// A removal that cannot be undone.
struct RemovalCommand {
    /// The name of the command, `erase` or `delete`.
    verb: &'static str,
    id: ConversationId,
    /// The object of the removal, in words, with the id and the title.
    of: String,
}

impl RemovalCommand {
    /// Shows what would be removed; or asks, removes it, and reports what stays.
    fn run(
        &self,
        store: &dyn Store,
        given: &str,
        entries: Option<&[EntryId]>,
        arguments: &RemovalArguments,
        remove: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<u8, Failure> {
        if arguments.dry_run {
            return self.show_dry_run(&self.removal(store, entries)?, arguments.json);
        }
        self.confirm(given, arguments.yes)?;
        let removal = self.removal(store, entries)?;
        let bar = progress(store);
        let removed = remove();
        bar.finish_and_clear();
        removed?;
        context::settle(store);
        self.note_remaining_copies(&removal, arguments.json)
    }

    /// Computes what is removed and which conversations keep the same content. For a large store that takes a moment.
    fn removal(&self, store: &dyn Store, entries: Option<&[EntryId]>) -> Result<Removal, Failure> {
        let spinner = output::spinner("looking for the same content elsewhere");
        let removal = engine::removal(store, self.id, entries);
        spinner.finish_and_clear();
        removal.map_err(|why| Failure::from(EngineError::Store(why)))
    }

    /// Asks, unless `--yes` was given with an exact name. A name that could mean another conversation must always be confirmed.
    fn confirm(&self, given: &str, yes: bool) -> Result<(), Failure> {
        let exact = engine::names_exactly(given, self.id);
        let (verb, of) = (self.verb, &self.of);
        let question = format!("{}{} {of}? This cannot be undone.", verb[..1].to_uppercase(), &verb[1..]);
        match sure(&question, &format!("`history {verb}`"), yes && exact) {
            Err(Failure::Unconfirmed { .. }) if yes => Err(Failure::usage(
                format!("`{given}` is not a whole id, which `--yes` requires; it means {of}"),
                format!("to {verb} that one, use its id: {}", self.id),
            )),
            answer => answer,
        }
    }

    fn show_dry_run(&self, removal: &Removal, json: bool) -> Result<u8, Failure> {
        if json {
            output::json_data(&shape::removal(self.verb, self.id, removal, true))?;
            return Ok(0);
        }
        let Removal { messages, changes, entries, bytes, .. } = removal;
        let entries = plural(entries, "entry");
        let changes = if *changes == 0 {
            String::new()
        } else {
            format!(" and {}", plural(changes, "recorded change"))
        };
        output::data(&format!("Would {} {}:", self.verb, self.of))?;
        output::data(&format!(
            "  {}{changes} in {entries}, {} of content",
            plural(messages, "message"),
            plural(bytes, "byte")
        ))?;
        for file in &removal.files {
            output::data(&format!("  the file {}", output::shown(file)))?;
        }
        for id in &removal.unread {
            output::data(&format!("{id} cannot be read, so its content is not known"))?;
        }
        if removal.sharers.is_empty() {
            let readable = if removal.unread.is_empty() { "" } else { " that can be read" };
            output::data(&format!("No other conversation{readable} holds the same content."))?;
        } else {
            output::data("Would stay, because another conversation holds it too:")?;
            for sharer in &removal.sharers {
                output::data(&format!("  {}", held_by(sharer)))?;
            }
        }
        output::data("Nothing was changed.")?;
        Ok(0)
    }

    fn note_remaining_copies(&self, removal: &Removal, json: bool) -> Result<u8, Failure> {
        for sharer in &removal.sharers {
            output::note(format!("still held by {}", held_by(sharer)));
        }
        for id in &removal.unread {
            output::note(format!("{id} cannot be read, and may hold the same content"));
        }
        if json {
            output::json_data(&shape::removal(self.verb, self.id, removal, false))?;
        }
        Ok(0)
    }
}

fn held_by(sharer: &Sharer) -> String {
    let title = harmless(sharer.title.as_deref().unwrap_or("untitled"));
    let entries = plural(sharer.entries, "entry");
    let how = if sharer.is_fork { "shared by a fork" } else { "with the same text" };
    format!("{} ({title}): {entries} {how}", sharer.id)
}

/// The entry that has this number in `history show`.
pub fn entry(shown: &[Shown<'_>], number: usize) -> Result<EntryId, Failure> {
    let found = shown.get(number).map(|shown| shown.entry.id());
    found.ok_or_else(|| EngineError::NoSuchMessage(number.to_string()).into())
}

fn title(summary: &Summary) -> String {
    harmless(summary.title.as_deref().unwrap_or("untitled"))
}

/// Asks, unless `yes` is set. Every answer but a yes means no.
fn sure(question: &str, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Unconfirmed { what: what.to_owned() });
    }
    let answer = question::ask(&format!("{question} [y/N] "));
    let agreed = matches!(answer.as_deref(), Some("y" | "yes"));
    if agreed { Ok(()) } else { Err(Failure::Declined) }
}
