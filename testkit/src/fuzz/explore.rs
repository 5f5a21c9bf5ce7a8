//! Explores one target: an input that shows something new joins the pool from which new inputs are made.
//!
//! The same seed gives the same inputs in the same order. No measured value decides what comes next.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use super::{
    Broken, Signs, Target,
    clock::measured,
    guarded,
    minimise::minimise,
    mutate::{Material, mutate, stretched},
    random::Random,
    seeds, watched,
};

/// How many inputs are kept that show only known things in a new combination.
const MOST_COMBINATIONS: usize = 1_000;

/// How many failures of one target are reported at once. More are usually the same one in other words.
const MOST_FAILURES: usize = 20;

/// How long minimising a failing input may take.
const MINIMISING: Duration = Duration::from_secs(4);

/// The number of runs after which an input is stretched to see how time grows.
const PROBE_EVERY: u64 = 1_000;

/// The lengths, in bytes, whose times are compared with that of the first one, in ascending order, so that steep growth is noticed
/// before it takes minutes.
const PROBED: [usize; 4] = [64 * 1024, 128 * 1024, 256 * 1024, 512 * 1024];

/// A stretched input that takes this many times longer than its length says is worth a look.
const TOO_STEEP: f64 = 3.0;

/// Below these, times are noise: of the first length and of any other.
const NOTICEABLE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// The time limit for an input of the first length.
const TOO_LONG: Duration = Duration::from_secs(5);

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// After so long.
    pub time: Option<Duration>,
    /// After this many mutations.
    pub runs: Option<u64>,
    /// Whether times are measured.
    pub probes: bool,
}

/// An input that breaks a law.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The law, and how it is broken.
    pub broken: Broken,
    /// The input, as small as it became.
    pub input: Vec<u8>,
}

/// An input that takes longer than it should.
#[derive(Debug, Clone)]
pub struct Slow {
    /// The input.
    pub input: Vec<u8>,
    /// The measured times.
    pub times: String,
}

/// The findings in a target.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How many mutations were run.
    pub runs: u64,
    /// How many different things they showed.
    pub signs: usize,
    /// How many inputs showed something new.
    pub pool: usize,
    /// The failures.
    pub failures: Vec<Failure>,
    /// The slow inputs.
    pub slow: Vec<Slow>,
}

/// Explores a target from these inputs. `before` is called with every input before it runs.
#[must_use]
pub fn explore(
    target: &Target,
    inputs: Vec<Vec<u8>>,
    seed: u64,
    limits: Limits,
    before: impl FnMut(&[u8]),
) -> Outcome {
    let name = target.name();
    let explorer = Explorer {
        target,
        limits,
        before,
        random: Random::new(seed, &name),
        probing: Random::new(seed, "probe"),
        words: seeds::words(),
        rare: Vec::new(),
        combinations: Vec::new(),
        signs: HashSet::new(),
        seen: HashSet::new(),
        failures: BTreeMap::new(),
        slow: Vec::new(),
        runs: 0,
        until: limits.time.map(|time| Instant::now() + time),
    };
    explorer.run(inputs)
}

struct Explorer<'t, B> {
    target: &'t Target,
    limits: Limits,
    before: B,
    random: Random,
    probing: Random,
    words: Vec<Vec<u8>>,
    /// Inputs that showed something for the first time, and the first inputs.
    rare: Vec<Vec<u8>>,
    /// Inputs that showed known things together for the first time.
    combinations: Vec<Vec<u8>>,
    signs: HashSet<u64>,
    seen: HashSet<u64>,
    failures: BTreeMap<String, Failure>,
    slow: Vec<Slow>,
    runs: u64,
    until: Option<Instant>,
}

impl<B: FnMut(&[u8])> Explorer<'_, B> {
    fn run(mut self, inputs: Vec<Vec<u8>>) -> Outcome {
        for input in inputs {
            self.one(&input);
            if self.rare.last() != Some(&input) {
                self.rare.push(input);
            }
        }
        // They do not count as runs.
        self.runs = 0;
        while !self.is_over() {
            let base = self.base();
            let material = Material { pool: &self.rare, words: &self.words };
            let input = mutate(&mut self.random, &base, &material);
            self.one(&input);
            if self.limits.probes && self.runs.is_multiple_of(PROBE_EVERY) {
                self.probe();
            }
        }
        Outcome {
            runs: self.runs,
            signs: self.signs.len(),
            pool: self.rare.len(),
            failures: self.failures.into_values().collect(),
            slow: self.slow,
        }
    }

    fn is_over(&self) -> bool {
        self.limits.runs.is_some_and(|runs| self.runs >= runs)
            || self.until.is_some_and(|until| Instant::now() >= until)
            || self.failures.len() >= MOST_FAILURES
    }

    /// An input to begin with: mostly one that showed something new, the later the likelier.
    fn base(&mut self) -> Vec<u8> {
        if !self.combinations.is_empty() && self.random.once_in(4) {
            return self.random.pick(&self.combinations).clone();
        }
        let place = self.random.below(self.rare.len()).max(self.random.below(self.rare.len()));
        self.rare.get(place).cloned().unwrap_or_default()
    }

    fn one(&mut self, input: &[u8]) {
        self.runs += 1;
        (self.before)(input);
        let mut signs = Signs::default();
        let start = Instant::now();
        let result = guarded(self.target, input, &mut signs);
        if self.limits.probes {
            // Elapsed time is more than processor time, and cheaper to measure.
            self.is_slow(input, start.elapsed());
        }
        if let Err(broken) = result {
            self.failed(broken, input);
            return;
        }
        let new = signs.iter().filter(|sign| self.signs.insert(*sign)).count() > 0;
        let combined = self.seen.insert(signs.together());
        if new {
            self.rare.push(input.to_vec());
        } else if combined && self.combinations.len() < MOST_COMBINATIONS {
            self.combinations.push(input.to_vec());
        } else if combined {
            let place = self.random.below(MOST_COMBINATIONS);
            self.combinations[place] = input.to_vec();
        }
    }

    fn failed(&mut self, broken: Broken, input: &[u8]) {
        if self.failures.contains_key(&broken.law) {
            return;
        }
        let fails = |input: &[u8]| {
            guarded(self.target, input, &mut Signs::default()).is_err_and(|other| other.law == broken.law)
        };
        let small = minimise(input, MINIMISING, fails);
        // The description of the small input is easier to read.
        let broken = guarded(self.target, &small, &mut Signs::default()).err().unwrap_or(broken);
        self.failures.insert(broken.law.clone(), Failure { broken, input: small });
    }

    /// A generous bound for one input, checks included.
    fn is_slow(&mut self, input: &[u8], took: Duration) {
        let bound = Duration::from_millis(300) + Duration::from_micros(60) * input.len() as u32;
        if took <= bound || self.slow.len() >= MOST_FAILURES {
            return;
        }
        let (_, again) = measured(|| guarded(self.target, input, &mut Signs::default()));
        if again > bound {
            let times = format!("{} bytes take {:.1?} with all checks", input.len(), again.min(took));
            self.slow.push(Slow { input: input.to_vec(), times });
        }
    }

    /// Makes an input longer and longer, and compares the times.
    fn probe(&mut self) {
        if self.rare.is_empty() || self.slow.len() >= MOST_FAILURES {
            return;
        }
        let base = self.probing.pick(&self.rare).clone();
        let same = self.probing.clone();
        let mut first = None;
        for length in PROBED {
            // Use the same stretch of the same input each time.
            self.probing = same.clone();
            let input = stretched(&mut self.probing, &base, length);
            let took = match self.time(&input) {
                Ok(took) => took,
                Err(broken) => return self.failed(broken, &input),
            };
            let (short, shortest) = *first.get_or_insert((input.len(), took));
            let longer = input.len() as f64 / short.max(1) as f64;
            let steep = shortest.max(NOTICEABLE.0).mul_f64(TOO_STEEP * longer).max(NOTICEABLE.1);
            let bound = steep.min(TOO_LONG.mul_f64(longer));
            // An input that exceeds the bound twice is too slow.
            if took > bound && self.time(&input).is_ok_and(|again| again > bound) {
                let times = format!("{short} bytes take {shortest:.1?}, {} bytes {took:.1?}", input.len());
                self.slow.push(Slow { input, times });
                return;
            }
        }
    }

    /// How long the product works on an input.
    fn time(&mut self, input: &[u8]) -> Result<Duration, Broken> {
        (self.before)(input);
        let (done, took) = measured(|| watched(|| self.target.work(input)));
        done.map(|()| took)
    }
}
