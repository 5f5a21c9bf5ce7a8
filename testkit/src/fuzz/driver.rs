//! Drives many targets: threads, time, and files for failures.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    Target,
    explore::{Limits, Outcome, explore},
    hash, seeds,
};

/// The default stack size of a thread, so that recursion on the depth of an input shows.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// An input that runs for so long will not come back.
const HANGS: Duration = Duration::from_secs(120);

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of all random numbers.
    pub seed: u64,
    /// For how long, all targets together.
    pub time: Duration,
    /// How many threads.
    pub threads: usize,
    /// The folder for failures, with one subfolder for each target.
    pub folder: PathBuf,
}

/// An event in one target.
#[derive(Debug)]
pub enum Event {
    /// It was explored.
    Explored {
        /// The target's name.
        target: String,
        /// The findings.
        outcome: Outcome,
        /// How long it took.
        took: Duration,
        /// The files of the failures, and then of the slow inputs.
        files: Vec<PathBuf>,
    },
    /// An input does not end. This target cannot continue.
    Hangs {
        /// The file of the input.
        file: PathBuf,
    },
}

/// The inputs that are running, with their start times.
type Running = Arc<Vec<Mutex<Option<(Instant, PathBuf)>>>>;

/// Explores the targets, each in one thread, several at a time, and reports findings immediately. Every target gets the same share
/// of the time. A single target is explored from as many seeds as there are threads.
///
/// # Errors
/// If the folder cannot be written to.
pub fn drive(targets: &[Target], settings: &Settings, mut tell: impl FnMut(Event)) -> io::Result<()> {
    let lanes = settings.threads.div_ceil(targets.len().max(1)).max(1);
    let jobs: VecDeque<(Target, u64)> =
        (0..lanes as u64).flat_map(|lane| targets.iter().map(move |target| (*target, lane))).collect();
    let time = settings.time.mul_f64(settings.threads as f64 / jobs.len().max(1) as f64).min(settings.time);
    let jobs = Arc::new(Mutex::new(jobs));
    let running: Running = Arc::new((0..settings.threads).map(|_| Mutex::new(None)).collect());
    let (sender, receiver) = mpsc::channel();
    for number in 0..settings.threads {
        let worker = Worker {
            settings: settings.clone(),
            time,
            jobs: Arc::clone(&jobs),
            running: Arc::clone(&running),
            number,
            sender: sender.clone(),
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(move || worker.work())?;
    }
    drop(sender);
    loop {
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(event) => tell(event?),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                for slot in running.iter() {
                    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some((_, file)) = slot.take_if(|(since, _)| since.elapsed() > HANGS) {
                        let kept = file.with_file_name("hangs");
                        fs::copy(&file, &kept)?;
                        tell(Event::Hangs { file: kept });
                    }
                }
            }
        }
    }
}

struct Worker {
    settings: Settings,
    time: Duration,
    jobs: Arc<Mutex<VecDeque<(Target, u64)>>>,
    running: Running,
    number: usize,
    sender: mpsc::Sender<io::Result<Event>>,
}

impl Worker {
    fn work(self) {
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((target, lane)) = job else { return };
            // The receiver is gone, so the search is over.
            if self.sender.send(self.explore(&target, lane)).is_err() {
                return;
            }
        }
    }

    fn explore(&self, target: &Target, lane: u64) -> io::Result<Event> {
        let folder = self.settings.folder.join(target.name());
        fs::create_dir_all(&folder)?;
        // An input that takes the whole program down with it lies here afterwards.
        let path = folder.join(format!("running-{lane}"));
        let mut file = File::create(&path)?;
        let slot = &self.running[self.number];
        let limits = Limits { time: Some(self.time), runs: None, probes: true };
        let start = Instant::now();
        let seed = self.settings.seed.wrapping_add(lane);
        let outcome = explore(target, seeds::all(target), seed, limits, |input| {
            // The input can be run even if it cannot be written to a file.
            let _ = file
                .rewind()
                .and_then(|()| file.write_all(input))
                .and_then(|()| file.set_len(input.len() as u64));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), path.clone()));
        });
        let took = start.elapsed();
        slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(file);
        fs::remove_file(&path)?;
        let mut files = Vec::new();
        for failure in &outcome.failures {
            let what = format!("{}\n\n{}\n", failure.broken.law, failure.broken.detail);
            files.push(keep(&folder, "crash", &failure.input, &what)?);
        }
        for slow in &outcome.slow {
            files.push(keep(&folder, "slow", &slow.input, &slow.times)?);
        }
        Ok(Event::Explored { target: target.name(), outcome, took, files })
    }
}

/// Writes an input and its description.
fn keep(folder: &Path, kind: &str, input: &[u8], what: &str) -> io::Result<PathBuf> {
    let path = folder.join(format!("{kind}-{:016x}", hash(input)));
    fs::write(&path, input)?;
    fs::write(path.with_extension("txt"), what)?;
    Ok(path)
}
