//! The writing process, as seen from inside and from outside.
//!
//! It reports its steps on stdout, one line each, in one write: `@try` before an entry is passed to the store, `@entry` when the
//! append was acknowledged, `@erasing` and `@erased` likewise, `@failed` when the store refused, `@wrong` when it did what no store
//! may do, `@done` at the end. Each line begins with a newline, because the test harness writes there, too.

use std::{
    collections::HashMap,
    env, fmt,
    io::{self, Write as _},
    ops::ControlFlow,
    path::Path,
    process::{self, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use rejoin_store::{Holder, Location, Options, Store, StoreError, StoredItem, open};

use super::{
    script::{Script, Step},
    shim::{Fault, Shim},
};

/// The job of a child process.
#[derive(Debug, Clone)]
pub struct Job {
    /// A name, for tests that have several kinds of children.
    pub what: String,
    /// The store.
    pub store: Location,
    /// The conversation.
    pub conversation: ConversationId,
    /// Which script.
    pub seed: u64,
    /// This many steps.
    pub steps: u64,
    /// Not longer than this, if it is not zero.
    pub time: Duration,
}

/// A child of this test, not started yet.
#[derive(Debug)]
pub struct Child {
    command: Command,
}

impl Child {
    /// This test again, as the child `test` (a test function that returns at once if it has no [`job`]).
    ///
    /// # Panics
    /// If this program cannot be found.
    #[must_use]
    pub fn of(test: &str, job: &Job) -> Self {
        let exe = env::current_exe().expect("this program has a path");
        Self::of_command(Command::new(exe), test, job)
    }

    /// A child that is started by another command, which takes a command line.
    #[must_use]
    pub fn of_command(mut command: Command, test: &str, job: &Job) -> Self {
        command
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env("REJOIN_CHILD", &job.what)
            .env("REJOIN_CHILD_STORE", job.store.to_string())
            .env("REJOIN_CHILD_CONVERSATION", job.conversation.to_string())
            .env("REJOIN_CHILD_SEED", job.seed.to_string())
            .env("REJOIN_CHILD_STEPS", job.steps.to_string())
            .env("REJOIN_CHILD_MILLIS", job.time.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command }
    }

    /// With a fault in it.
    #[must_use]
    pub fn with(mut self, shim: &Shim, fault: &Fault) -> Self {
        shim.put_into(&mut self.command, fault);
        self
    }

    /// Records its operations on the files below a folder.
    #[must_use]
    pub fn with_journal(mut self, shim: &Shim, under: &Path, journal: &Path) -> Self {
        shim.put_journal_into(&mut self.command, under, journal);
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(mut self) -> process::Child {
        self.command.spawn().expect("this program can be started again")
    }

    /// Runs it to its end, of any kind.
    #[must_use]
    pub fn run(self) -> ChildOutput {
        ChildOutput::by(self.start())
    }

    /// Runs it and kills it after a while.
    #[must_use]
    pub fn run_for(self, time: Duration) -> ChildOutput {
        let mut child = self.start();
        thread::scope(|scope| {
            let out = child.stdout.take();
            let reading = scope.spawn(move || read(out));
            thread::sleep(time);
            let _ = child.kill();
            let text = reading.join().unwrap_or_default();
            ChildOutput::new(&text, child)
        })
    }
}

fn read(from: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// No child has so much to do, on the slowest machine.
const LONGEST: Duration = Duration::from_secs(300);

/// The reports of a child before it ended.
#[derive(Debug, Default)]
pub struct ChildOutput {
    /// Entries that it passed to the store, in order.
    pub tried: Vec<(u64, EntryId, Hash)>,
    /// Entries that were acknowledged, in order.
    pub acknowledged: Vec<(u64, EntryId, Hash)>,
    /// Entries whose content may be gone.
    pub erasing: Vec<EntryId>,
    /// Entries whose content is gone.
    pub erased: Vec<EntryId>,
    /// Refusals.
    pub failed: Vec<String>,
    /// Reports of what no store may do.
    pub wrong: Vec<String>,
    /// All other reports of the child.
    pub told: Vec<String>,
    /// Every whole line of its output, in order.
    pub lines: Vec<String>,
    /// Whether it finished its job.
    pub done: bool,
    /// Whether it ended well.
    pub success: bool,
    /// Its output on stderr.
    pub stderr: String,
}

impl ChildOutput {
    /// Waits for a child and reads its output. One that never ends is killed, which counts as wrong.
    #[must_use]
    pub fn by(mut child: process::Child) -> Self {
        let out = child.stdout.take();
        let (sender, text) = mpsc::channel();
        thread::spawn(move || sender.send(read(out)));
        let ended = text.recv_timeout(LONGEST);
        let hangs = ended.is_err();
        if hangs {
            let _ = child.kill();
        }
        let text = ended.or_else(|_| text.recv()).unwrap_or_default();
        let mut said = Self::new(&text, child);
        if hangs {
            said.wrong.push(format!("it did not end within {} s", LONGEST.as_secs()));
        }
        said
    }

    fn new(text: &str, mut child: process::Child) -> Self {
        let mut said = Self { stderr: read(child.stderr.take()), ..Self::default() };
        said.success = child.wait().is_ok_and(|status| status.success());
        // A line that was cut off does not count.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().filter(|line| line.starts_with('@')) {
            said.hear(line);
            said.lines.push(line.to_owned());
        }
        said
    }

    fn hear(&mut self, line: &str) {
        let Some((word, rest)) = line.split_once(' ').or(Some((line, ""))) else { return };
        let entry = || {
            let mut parts = rest.split(' ');
            let (seq, id, hash) = (parts.next()?, parts.next()?, parts.next()?);
            Some((seq.parse().ok()?, id.parse().ok()?, hash.parse().ok()?))
        };
        match word {
            "@try" => self.tried.extend(entry()),
            "@entry" => self.acknowledged.extend(entry()),
            "@erasing" => self.erasing.extend(rest.parse::<EntryId>()),
            "@erased" => self.erased.extend(rest.parse::<EntryId>()),
            "@failed" => self.failed.push(rest.to_owned()),
            "@wrong" => self.wrong.push(rest.to_owned()),
            "@told" => self.told.push(rest.to_owned()),
            "@done" => self.done = true,
            _ => {}
        }
    }
}

/// The job of this process, if it is a child.
#[must_use]
pub fn job() -> Option<Job> {
    let get = |name: &str| env::var(format!("REJOIN_CHILD{name}")).ok();
    Some(Job {
        what: get("")?,
        store: get("_STORE")?.parse().ok()?,
        conversation: get("_CONVERSATION")?.parse().ok()?,
        seed: get("_SEED")?.parse().ok()?,
        steps: get("_STEPS")?.parse().ok()?,
        time: Duration::from_millis(get("_MILLIS")?.parse().ok()?),
    })
}

/// Says something, in one write.
pub fn say(what: fmt::Arguments<'_>) {
    let line = format!("\n@{what}\n");
    let mut out = io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// How often something that failed is tried again.
const TRIES: usize = 60;

/// The longest time that a child lives if it is not ended.
const LIFE: Duration = Duration::from_secs(120);

/// The lock's name of a child.
#[must_use]
pub fn holder(command: &str) -> Holder {
    Holder { pid: process::id(), command: command.to_owned(), since: String::new() }
}

/// Opens a store; one that fails is tried again.
#[must_use]
pub fn open_patiently(location: &Location, options: Options) -> Option<Box<dyn Store>> {
    for _ in 0..TRIES {
        match open(location, options) {
            Ok(store) => return Some(store),
            Err(why) => say(format_args!("failed opening: {why}")),
        }
        thread::sleep(Duration::from_millis(5));
    }
    say(format_args!("wrong the store does not open any more"));
    None
}

/// Continues a conversation as the script says, until the steps are done.
pub fn work(job: &Job, options: Options) {
    let begun = Instant::now();
    let life = if job.time.is_zero() { LIFE } else { job.time };
    let Some(store) = open_patiently(&job.store, options) else { return };
    let lock = patiently("locking", || store.lock(job.conversation, &holder("writing")));
    let Some(_lock) = lock else { return };
    let Some(entries) = patiently("reading", || read_all(&*store, job.conversation)) else { return };
    // An erasure writes a great deal again. A process that writes as much as it can would do little else.
    let rarely = if job.time.is_zero() { 1 } else { 10 };
    let mut script = Script::new(job.conversation, &entries, job.seed).rarely_erasing(rarely);
    for _ in 0..job.steps {
        if begun.elapsed() > life {
            break;
        }
        if !take(&*store, job.conversation, &mut script) {
            return;
        }
    }
    drop(store);
    say(format_args!("done"));
}

/// One step, tried again until it is done.
fn take(store: &dyn Store, conversation: ConversationId, script: &mut Script) -> bool {
    let after = script.tail();
    let step = script.step();
    announce(&step);
    let done = patiently("appending", || once(store, conversation, after, &step));
    let Some(tail) = done else { return false };
    if Some(tail) != script.tail() {
        say(format_args!("wrong the store says that the newest entry is {tail:?}, not {:?}", script.tail()));
    }
    acknowledge(&step);
    true
}

/// Continues a conversation until the store refuses something. The process leaves it like that, appends a short message to another
/// conversation, and ends without closing the store.
pub fn give_up(job: &Job, options: Options, other: ConversationId) {
    let Some(store) = open_patiently(&job.store, options) else { return };
    let mut script = Script::new(job.conversation, &[], job.seed);
    for _ in 0..job.steps {
        let after = script.tail();
        let step = script.step();
        announce(&step);
        match once(&*store, job.conversation, after, &step) {
            Ok(_) => acknowledge(&step),
            Err(why) => {
                say(format_args!("failed {why}"));
                break;
            }
        }
    }
    let mut script = Script::new(other, &[], 1);
    let step = script.step();
    // The fault may be met only here.
    if patiently("appending", || once(&*store, other, None, &step)).is_none() {
        return;
    }
    for entry in step.entries() {
        say(format_args!("told {} {} {}", entry.envelope().seq, entry.id(), entry.hash()));
    }
    say(format_args!("done"));
    process::abort();
}

fn announce(step: &Step) {
    for entry in step.entries() {
        say(format_args!("try {} {} {}", entry.envelope().seq, entry.id(), entry.hash()));
    }
    if let Step::Erase { entry, .. } = &step {
        say(format_args!("erasing {entry}"));
    }
}

fn once(
    store: &dyn Store,
    conversation: ConversationId,
    after: Option<Tail>,
    step: &Step,
) -> Result<Tail, StoreError> {
    match (step, after) {
        (Step::Append(entries), after) => store.append(conversation, after, entries),
        (Step::Erase { entry, note }, Some(after)) => store.erase(conversation, after, *entry, note),
        (Step::Erase { entry, .. }, None) => Err(StoreError::NoSuchEntry(*entry)),
    }
}

fn acknowledge(step: &Step) {
    // Print all lines at once: either the whole step was acknowledged or none of it.
    let mut lines = String::new();
    for entry in step.entries() {
        lines.push_str(&format!("\n@entry {} {} {}", entry.envelope().seq, entry.id(), entry.hash()));
    }
    if let Step::Erase { entry, .. } = &step {
        lines.push_str(&format!("\n@erased {entry}"));
    }
    lines.push('\n');
    let mut out = io::stdout().lock();
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}

/// Retries an operation that the disk refused. Any other error is not the disk's.
fn patiently<T>(what: &str, mut work: impl FnMut() -> Result<T, StoreError>) -> Option<T> {
    for _ in 0..TRIES {
        match work() {
            Ok(done) => return Some(done),
            Err(why) if why.is_unwritable() => say(format_args!("failed {what}: {why}")),
            Err(why) => {
                say(format_args!("wrong {what}: {why}"));
                return None;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    say(format_args!("wrong {what} does not work any more"));
    None
}

/// Every entry of a conversation, in order; empty if it does not exist.
///
/// # Errors
/// If the store cannot be read.
pub fn read_all(store: &dyn Store, conversation: ConversationId) -> Result<Vec<Entry>, StoreError> {
    let mut entries: HashMap<u64, Entry> = HashMap::new();
    let read = store.read(conversation, 0, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            entries.insert(entry.envelope().seq, entry);
        }
        ControlFlow::Continue(())
    });
    match read {
        Err(StoreError::NotFound(_)) => Ok(Vec::new()),
        Err(why) => Err(why),
        Ok(()) => {
            let mut entries: Vec<Entry> = entries.into_values().collect();
            entries.sort_by_key(|entry| entry.envelope().seq);
            Ok(entries)
        }
    }
}
