//! Which run of which agent each line belongs to.
//!
//! Lines are written by many tasks at once, so neither their order nor their ids tell. What does: an agent's name and the time
//! between the beginning and the end of its run, the id of a call, and the words of a task, which are the same in the call that
//! delegates it, in the line about the delegation and in the message that the other agent gets.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::{HashMap, HashSet};
use rejoin_record::Text;

use super::event::{Call, Event, EventKind};

/// How long after a delegation the other agent has begun, at most; in microseconds.
const SOON: i64 = 1_000_000;

/// The run of everything that belongs to no other: that of the first agent.
pub(super) const ROOT: usize = 0;

/// One run of an agent, or all runs of the first one, which are one conversation.
pub(super) struct Run {
    pub start: i64,
    end: i64,
    /// The line that it begins with, if there is one.
    pub begins: Option<usize>,
    /// Whether another agent delegated it. Such a run is a separate conversation.
    pub delegated: bool,
    /// The line about its delegation.
    pub delegation: Option<usize>,
    /// The line of the call that made it.
    pub call: Option<usize>,
    /// The run of the agent that called.
    pub parent: usize,
}

/// The runs of a file, and for each line its run.
pub(super) struct Runs {
    pub runs: Vec<Run>,
    pub of: Vec<usize>,
    /// Calls that were written a second time.
    pub twins: HashSet<usize>,
    /// Whether the ids of calls and results say nothing.
    pub without_ids: bool,
}

/// Finds the runs. `order` lists the lines in the order of their times.
pub(super) fn split(events: &[Event], order: &[usize]) -> Runs {
    let mut split = Split::new(events, order);
    split.match_ends();
    split.follow();
    split.match_delegations();
    split.match_users();
    let without_ids = split.is_without_ids();
    let twins = if without_ids { split.twins() } else { HashSet::new() };
    Runs { runs: split.runs, of: split.of, twins, without_ids }
}

struct Split<'e> {
    events: &'e [Event],
    order: &'e [usize],
    runs: Vec<Run>,
    of: Vec<usize>,
    /// The run that each line begins.
    begun: HashMap<usize, usize>,
    /// The innermost run at the time of each user's line.
    innermost: HashMap<usize, usize>,
}

/// The runs of each agent, by their beginnings.
type Starts<'e> = HashMap<&'e str, BTreeSet<(i64, usize)>>;

/// The run that began nearest to a time.
fn nearest(starts: &BTreeSet<(i64, usize)>, time: i64) -> Option<(i64, usize)> {
    let before = starts.range(..=(time, usize::MAX)).next_back();
    let after = starts.range((time, usize::MAX)..).next();
    [before, after].into_iter().flatten().min_by_key(|(start, _)| start.abs_diff(time)).copied()
}

impl<'e> Split<'e> {
    fn new(events: &'e [Event], order: &'e [usize]) -> Self {
        let run = |start, begins, delegated| Run {
            start,
            end: i64::MAX,
            begins,
            delegated,
            delegation: None,
            call: None,
            parent: ROOT,
        };
        let mut runs = vec![run(i64::MIN, None, false)];
        let mut begun = HashMap::new();
        for &at in order {
            if let EventKind::Start { depth, .. } = &events[at].what {
                begun.insert(at, runs.len());
                runs.push(run(events[at].time, Some(at), *depth > 0));
            }
        }
        Self { events, order, runs, of: vec![ROOT; events.len()], begun, innermost: HashMap::new() }
    }

    fn starts(&self, delegated_only: bool) -> Starts<'e> {
        let mut starts = Starts::new();
        for (&at, &run) in &self.begun {
            let EventKind::Start { agent, .. } = &self.events[at].what else { continue };
            if self.runs[run].delegated || !delegated_only {
                starts.entry(agent.as_str()).or_default().insert((self.runs[run].start, run));
            }
        }
        starts
    }

    /// The end of a run is the one whose time, less its duration, is nearest to the beginning.
    fn match_ends(&mut self) {
        let mut open = self.starts(false);
        for &at in self.order {
            let EventKind::Complete { agent, duration } = &self.events[at].what else { continue };
            let Some(open) = open.get_mut(agent.as_str()) else { continue };
            let end = self.events[at].time;
            let Some(found) = nearest(open, end.saturating_sub(*duration)).filter(|(start, _)| *start <= end)
            else {
                continue;
            };
            open.remove(&found);
            self.runs[found.1].end = end;
            self.of[at] = found.1;
        }
    }

    /// Follows the lines in time and gives each to the run of its agent that began last and has not ended.
    fn follow(&mut self) {
        let mut of_agent: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut all: Vec<usize> = vec![ROOT];
        let mut of_call: HashMap<&str, usize> = HashMap::new();
        for &at in self.order {
            let Event { time, what, .. } = &self.events[at];
            while all.last().is_some_and(|run| self.runs[*run].end < *time) {
                all.pop();
            }
            let innermost = all.last().copied().unwrap_or(ROOT);
            let runs = &self.runs;
            let mut by_agent = |agent: &'e Text| {
                let own = of_agent.get_mut(agent.as_str())?;
                // The last one stays: a line that comes late belongs to it.
                while own.len() > 1 && own.last().is_some_and(|run| runs[*run].end < *time) {
                    own.pop();
                }
                own.last().copied()
            };
            self.of[at] = match what {
                EventKind::Start { agent, .. } => {
                    let run = self.begun[&at];
                    of_agent.entry(agent.as_str()).or_default().push(run);
                    all.push(run);
                    run
                }
                EventKind::Answer { agent, .. } | EventKind::Iteration { agent } => {
                    by_agent(agent).unwrap_or(ROOT)
                }
                EventKind::Call(Call { agent, id, .. }) => {
                    let run = by_agent(agent).unwrap_or(ROOT);
                    id.iter().for_each(|id| {
                        of_call.entry(id.as_str()).or_insert(run);
                    });
                    run
                }
                EventKind::User(_) => {
                    self.innermost.insert(at, innermost);
                    ROOT
                }
                EventKind::Result { call, .. } => {
                    let called = call.as_ref().and_then(|call| of_call.get(call.as_str()));
                    called.copied().unwrap_or(innermost)
                }
                EventKind::Complete { .. } if self.of[at] != ROOT => self.of[at],
                _ => innermost,
            };
        }
    }

    /// A delegation belongs to the run that begins with it, and to the call with the same words.
    fn match_delegations(&mut self) {
        let mut calls: HashMap<(&str, &str), VecDeque<usize>> = HashMap::new();
        for &at in self.order {
            if let EventKind::Call(Call { agent, task: Some(task), .. }) = &self.events[at].what {
                calls.entry((agent.as_str(), task.as_str())).or_default().push_back(at);
            }
        }
        let mut starts = self.starts(true);
        for &at in self.order {
            let EventKind::Delegation { parent, child, task } = &self.events[at].what else { continue };
            let time = self.events[at].time;
            let Some(starts) = starts.get_mut(child.as_str()) else { continue };
            let Some(found) = nearest(starts, time).filter(|(start, _)| start.abs_diff(time) <= SOON as u64)
            else {
                continue;
            };
            starts.remove(&found);
            let call = calls.get_mut(&(parent.as_str(), task.as_str())).and_then(VecDeque::pop_front);
            self.of[at] = found.1;
            self.runs[found.1].delegation = Some(at);
            self.runs[found.1].call = call;
            self.runs[found.1].parent = call.map_or(ROOT, |call| self.of[call]);
        }
    }

    /// A message with the words of a task goes to the run that has the task; each run of the first agent takes the next one.
    fn match_users(&mut self) {
        let users =
            self.order.iter().copied().filter(|at| matches!(self.events[*at].what, EventKind::User(_)));
        let users: Vec<usize> = users.collect();
        // By time; the order of the lines is that of their times.
        let key = |number: usize| (self.events[users[number]].time, number);
        let mut left: BTreeSet<(i64, usize)> = (0..users.len()).map(key).collect();
        let mut by_words: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (number, at) in users.iter().enumerate() {
            if let EventKind::User(text) = &self.events[*at].what {
                by_words.entry(text.as_str()).or_default().push_back(number);
            }
        }
        let mut spoken: HashSet<usize> = HashSet::new();
        for (run, own) in self.runs.iter().enumerate() {
            let delegation = own.delegation.map(|at| &self.events[at].what);
            let Some(EventKind::Delegation { task, .. }) = delegation else { continue };
            if let Some(number) = by_words.get_mut(task.as_str()).and_then(VecDeque::pop_front) {
                self.of[users[number]] = run;
                spoken.insert(run);
                left.remove(&key(number));
            }
        }
        for run in self.runs.iter().filter(|run| !run.delegated && run.begins.is_some()) {
            if let Some(next) = left.range((run.start, 0)..).next().copied() {
                left.remove(&next);
            }
        }
        // What is left belongs to a run whose beginning is not recorded, or else to the first agent.
        for (_, number) in left {
            let at = users[number];
            let run = self.innermost.get(&at).copied().unwrap_or(ROOT);
            let is_free = self.runs[run].delegated && self.runs[run].delegation.is_none();
            if is_free && spoken.insert(run) {
                self.of[at] = run;
            }
        }
    }

    /// Whether there are results, and none of them names a call that there is: so it was on the first two days of the format.
    fn is_without_ids(&self) -> bool {
        let calls = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Call(call) => call.id.as_deref(),
            _ => None,
        });
        let calls: HashSet<&str> = calls.collect();
        let mut results = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Result { call, .. } => Some(call.as_deref()),
            _ => None,
        });
        let first = results.next();
        let names = |call: Option<&str>| call.is_some_and(|call| calls.contains(call));
        !calls.is_empty() && first.is_some_and(|call| !names(call)) && !results.any(names)
    }

    /// Calls that follow an equal one: where ids say nothing, every call was written twice.
    fn twins(&self) -> HashSet<usize> {
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut twins = HashSet::new();
        for &at in self.order {
            let EventKind::Call(call) = &self.events[at].what else { continue };
            let is_twin = last.get(&self.of[at]).is_some_and(|last| {
                let EventKind::Call(before) = &self.events[*last].what else { return false };
                (&before.agent, &before.tool, &before.arguments) == (&call.agent, &call.tool, &call.arguments)
            });
            if is_twin {
                twins.insert(at);
                last.remove(&self.of[at]);
            } else {
                last.insert(self.of[at], at);
            }
        }
        twins
    }
}
