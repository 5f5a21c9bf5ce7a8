//! The picker: a list of all conversations on the whole terminal, with a search and a preview, for `resume` without an id.
//!
//! A separate thread loads the list from the index, page by page, so the first page appears at once however many there are.
//! `choice.rs` has the content and the keys.

mod choice;

use std::{
    collections::HashSet,
    io::{self, Write as _},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, TryRecvError},
    },
    time::Duration,
};

use choice::{PickerOutcome, PickerRow, PickerState};
use crossterm::{
    cursor, event,
    event::{DisableBracketedPaste, EnableBracketedPaste, Event, KeyEventKind},
    execute, terminal,
};
use rejoin::{
    ConversationId,
    engine::open_store,
    record::{Block, Content, Role},
    store::{Access, Filter, Store, StoredItem, Summary},
};

use crate::{
    commands::excerpt,
    context::{self, CliContext},
    failure::Failure,
    keyboard::Keyboard,
    output, question,
    signals::SignalWatch,
};

/// How many conversations are shown before the others are loaded, and how many of those are passed on at once.
const FIRST: usize = 100;
const AT_ONCE: usize = 5000;

/// How many of the last entries are read for the preview, and how many messages it shows.
const ENTRIES: u64 = 60;
const MESSAGES: usize = 6;

/// How often to check for new conversations while the list is loading, and for signals.
const LOOK: Duration = Duration::from_millis(40);
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(250);

/// How many conversations are listed on a terminal that cannot show the picker.
const NEWEST: usize = 20;

/// Lets the person choose a conversation; `None` if they leave, or if there is no conversation.
pub fn pick(cli: &CliContext, store: &dyn Store) -> Result<Option<ConversationId>, Failure> {
    if !output::can_replace_lines() {
        return Ok(ask(cli, store));
    }
    let listed = load(cli.clone());
    match on_screen(store, &listed) {
        Ok(chosen) => Ok(chosen),
        Err(why) if why.kind() == io::ErrorKind::Interrupted => Err(Failure::Interrupted),
        Err(why) => {
            tracing::debug!("the terminal cannot show a picker: {why}");
            Ok(ask(cli, store))
        }
    }
}

/// Loads the list in a thread.
fn load(cli: CliContext) -> Receiver<Vec<PickerRow>> {
    let (send, listed) = mpsc::sync_channel(4);
    std::thread::spawn(move || {
        let Ok(store) = open_store(&cli.location, Access::Read) else { return };
        let (store, here) = (cli.limited(store), context::of_folder(&cli.folder));
        let (mut some, mut first) = (Vec::new(), HashSet::new());
        let listed = rejoin::list::list(&*store, &Filter::default(), FIRST, |summary| {
            first.insert(summary.id);
            some.push(PickerRow::new(summary, &here));
            ControlFlow::Continue(())
        });
        let is_all = listed.is_ok_and(|counts| counts.hidden() == 0);
        if send.send(std::mem::take(&mut some)).is_err() || is_all {
            return;
        }
        let each = |summary: &Summary| {
            if !first.contains(&summary.id) {
                some.push(PickerRow::new(summary, &here));
            }
            if some.len() >= AT_ONCE && send.send(std::mem::take(&mut some)).is_err() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        if let Err(why) = rejoin::list::list(&*store, &Filter::default(), usize::MAX, each) {
            tracing::debug!("the list cannot be read: {why}");
        }
        let _ = send.send(some);
    });
    listed
}

/// The terminal while the picker uses it. Dropping it restores the terminal.
struct FullScreen {
    _keyboard: Keyboard,
}

impl FullScreen {
    fn take() -> io::Result<Self> {
        let whole = Self { _keyboard: Keyboard::take() };
        terminal::enable_raw_mode()?;
        execute!(io::stderr(), terminal::EnterAlternateScreen, cursor::Hide, EnableBracketedPaste)?;
        Ok(whole)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        let _ = execute!(io::stderr(), DisableBracketedPaste, cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn on_screen(store: &dyn Store, listed: &Receiver<Vec<PickerRow>>) -> io::Result<Option<ConversationId>> {
    let is_asked_to_end = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_asked_to_end);
    let _signals = SignalWatch::start(move || asked.store(true, Ordering::Relaxed));
    let _whole = FullScreen::take()?;
    let mut choice = PickerState::new();
    let mut previewed: Option<(ConversationId, Vec<String>)> = None;
    let mut drawn = Vec::new();
    loop {
        while choice.is_loading {
            match listed.try_recv() {
                Ok(some) => choice.add(some),
                Err(TryRecvError::Disconnected) => choice.is_loading = false,
                Err(TryRecvError::Empty) => break,
            }
        }
        let (columns, rows) = output::terminal_size();
        let size = (columns.max(12), rows.max(5));
        match choice.marked() {
            None => previewed = None,
            Some(marked) => {
                if previewed.as_ref().is_none_or(|(id, _)| *id != marked.id) {
                    previewed = Some((marked.id, preview(store, marked)));
                }
            }
        }
        let lines = previewed.as_ref().map_or(&[][..], |(_, lines)| lines.as_slice());
        let screen = choice.screen(size, lines);
        if screen != drawn {
            draw(&screen)?;
            drawn = screen;
        }
        if is_asked_to_end.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !event::poll(if choice.is_loading { LOOK } else { LOOK_FOR_SIGNALS })? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                match choice.key(key, PickerState::page(size.1)) {
                    PickerOutcome::Open => {}
                    PickerOutcome::Chosen(id) => return Ok(Some(id)),
                    PickerOutcome::Left => return Ok(None),
                }
            }
            Event::Paste(text) => choice.paste(&text),
            Event::Resize(..) => drawn.clear(),
            _ => {}
        }
    }
}

fn draw(screen: &[String]) -> io::Result<()> {
    let mut frame = String::from("\u{1b}[H");
    for (number, row) in screen.iter().enumerate() {
        if number > 0 {
            frame.push_str("\r\n");
        }
        if output::talk_has_colour() {
            frame.push_str(row);
        } else {
            frame.push_str(&anstream::adapter::strip_str(row).to_string());
        }
        frame.push_str("\u{1b}[K");
    }
    frame.push_str("\u{1b}[J");
    let mut err = io::stderr().lock();
    err.write_all(frame.as_bytes())?;
    err.flush()
}

/// The last messages of a conversation. Only its end is read.
fn preview(store: &dyn Store, listed: &PickerRow) -> Vec<String> {
    let mut said: Vec<(&'static str, String)> = Vec::new();
    let from = listed.newest.saturating_sub(ENTRIES);
    let read = store.read(listed.id, from, &mut |item| {
        if let StoredItem::Entry(entry) = item
            && let Content::Message(message) = Content::of(&entry)
        {
            let texts = message.blocks.iter().filter_map(Block::as_text).map(|text| text.as_str());
            let text = texts.collect::<Vec<_>>().join("\n");
            let who = match message.role {
                Role::User => "you",
                Role::Assistant => "model",
                _ => return ControlFlow::Continue(()),
            };
            if !text.trim().is_empty() {
                said.push((who, text));
            }
        }
        ControlFlow::Continue(())
    });
    if let Err(why) = read {
        return vec![format!("it cannot be read: {}", output::harmless(&why.to_string()))];
    }
    let last = said.len().saturating_sub(MESSAGES);
    let lines = said[last..].iter().flat_map(|(who, text)| {
        excerpt(text).into_iter().enumerate().map(move |(number, line)| {
            let who = if number == 0 { format!("{who}:") } else { String::new() };
            format!("{who:<7}{}", line.replace('\t', "    "))
        })
    });
    lines.collect()
}

/// Lists the newest conversations with numbers and asks for one, on a terminal that cannot show the picker.
fn ask(cli: &CliContext, store: &dyn Store) -> Option<ConversationId> {
    let here = context::of_folder(&cli.folder);
    let mut newest = Vec::new();
    let listed = rejoin::list::list(store, &Filter::default(), NEWEST, |summary| {
        newest.push(PickerRow::new(summary, &here));
        ControlFlow::Continue(())
    });
    let counts = listed.ok()?;
    if newest.is_empty() {
        return None;
    }
    output::talk("Resume which conversation?");
    let columns = output::terminal_size().0;
    for (number, listed) in newest.iter().enumerate() {
        output::talk(&output::cut(&format!("{:>3}  {}", number + 1, listed.row(columns)), columns - 1));
    }
    if counts.hidden() > 0 {
        output::talk(&format!("     and {} more: `rejoin list --all`", counts.hidden()));
    }
    loop {
        let answer = question::ask(&format!("1 to {}, or an empty line to leave: ", newest.len()))?;
        if answer.is_empty() {
            return None;
        }
        let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match number.and_then(|number| newest.get(number)) {
            Some(listed) => return Some(listed.id),
            None => output::talk("Please answer with one of the numbers."),
        }
    }
}
