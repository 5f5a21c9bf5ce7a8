//! What an agent does about calls and results before it sends a session, described as data. Most agents are known only this far:
//! what they make of texts, pictures and damage is not said here, so a request made from habits tells only whether calls and
//! results match.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use rejoin_record::{Block, Message, Role, ToolResult};

use super::ResentMessages;
use crate::{
    session::Session,
    wire::{
        plain::{Pair, PlainList, Turn},
        registry::Dialect,
    },
};

/// What an agent does about calls and results that do not match.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Where it looks for the other half of a pair.
    pub search: SearchRange,
    /// What it does with a call that has no result there.
    pub unanswered: Unanswered,
    /// What it does with a result that has no call there.
    pub orphans: Orphans,
    /// What it does with a second result of a call.
    pub duplicates: DuplicateResults,
    /// What it does with a result that something stands between its call and itself.
    pub late_results: LateResults,
    /// What it does with a call whose id an earlier call has.
    pub reused: ReusedIdHandling,
}

/// How far an agent looks for the result of a call, or for the call of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchRange {
    /// Through the whole session, whichever comes first.
    Everywhere,
    /// From the call to the end of the session.
    Onwards,
    /// From the call to the next message of the model.
    ToNextAnswer,
    /// Only at the results directly after the call.
    Beside,
    /// At the results directly after the call, and at everything before it.
    BesideOrBefore,
}

/// What becomes of a call without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// The agent adds a result.
    Answered,
    /// The agent answers it in the user's message that follows, if the next message is one.
    AnsweredInNextMessage,
    /// The agent answers it if the model said nothing after it.
    AnsweredAtTheEnd,
    /// It is left out.
    LeftOut,
    /// It is left out, with all calls of the same message and their results.
    LeftOutWithItsBatch,
    /// It is sent.
    Sent,
}

/// What becomes of a result without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// It is left out.
    LeftOut,
    /// It is left out if it stands among the results of other calls.
    LeftOutAmongResults,
    /// It is sent.
    Sent,
}

/// What becomes of a second result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateResults {
    /// It is left out.
    LeftOut,
    /// It is sent.
    Sent,
}

/// What becomes of a result that does not directly follow its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateResults {
    /// It is moved to its call.
    Moved,
    /// It is sent where it stands.
    Sent,
}

/// What becomes of a second call with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReusedIdHandling {
    /// It is left out, with its result.
    LeftOut,
    /// In this dialect it gets another id, and so does its result. In other dialects it is sent.
    RenamedIn(Dialect),
    /// It is sent.
    Sent,
}

/// The API that an agent sends a session to.
#[derive(Debug, Clone, Copy)]
pub enum TargetDialect {
    /// Always this one.
    Only(Dialect),
    /// The agent's own service, which requires the same order of calls and results as this dialect. Its other rules are
    /// not known.
    Like(Dialect),
    /// The one that the session names.
    Recorded,
    /// That of the model which spoke last; this one if its name does not tell.
    ByModel(Dialect),
}

impl TargetDialect {
    /// The dialect of the next request.
    pub fn dialect(self, session: &Session) -> Option<Dialect> {
        match self {
            Self::Only(dialect) | Self::Like(dialect) => Some(dialect),
            Self::Recorded => session.context.dialect,
            Self::ByModel(usual) => {
                let model = session.context.model();
                Some(model.as_deref().and_then(Dialect::of_model).unwrap_or(usual))
            }
        }
    }
}

impl Habits {
    /// The calls and results that the agent would send, with a word in place of each text, followed by a prompt to continue. None
    /// for a dialect that is not written here.
    pub fn resend(&self, session: &Session, dialect: Dialect) -> Option<ResentMessages> {
        let mut turns: Vec<Turn> =
            session.messages.iter().enumerate().filter_map(|(place, message)| turn(place, message)).collect();
        self.tell_apart(&mut turns, dialect);
        self.leave_out_results(&mut turns);
        self.settle_calls(&mut turns);
        turns.push(Turn { says: true, ..Turn::default() });
        turns.retain(|turn| !turn.is_empty());
        let write = dialect.wire().plain?;
        let mut list = PlainList::default();
        turns.iter().for_each(|turn| write(turn, &mut list));
        let bytes = session.messages.iter().map(|message| message.native_text().len()).sum();
        Some(ResentMessages { list: list.items, places: list.places, bytes })
    }

    /// Leaves out calls whose id an earlier call has, or gives them another one.
    fn tell_apart(&self, turns: &mut [Turn], dialect: Dialect) {
        let renames = match self.reused {
            ReusedIdHandling::LeftOut => false,
            ReusedIdHandling::RenamedIn(only) if only == dialect => true,
            ReusedIdHandling::RenamedIn(_) | ReusedIdHandling::Sent => return,
        };
        // How often each id was called so far. From its second call on, results with it are those of that call.
        let mut calls: HashMap<String, usize> = HashMap::new();
        let stays = |pair: &mut Pair, count: usize| {
            if renames && count > 1 {
                pair.id = format!("{} {count}", pair.id);
            }
            renames || count < 2
        };
        for turn in turns {
            turn.results.retain_mut(|result| stays(result, calls.get(&result.id).copied().unwrap_or(0)));
            turn.calls.retain_mut(|call| {
                let count = calls.entry(call.id.clone()).or_default();
                *count += 1;
                stays(call, *count)
            });
        }
    }

    fn leave_out_results(&self, turns: &mut [Turn]) {
        let everywhere: HashSet<String> =
            turns.iter().flat_map(|turn| &turn.calls).map(|call| call.id.clone()).collect();
        let mut called: HashSet<String> = HashSet::new();
        let mut answered: HashSet<String> = HashSet::new();
        // The calls that come later.
        let mut later = everywhere.clone();
        for turn in turns {
            if turn.by_model {
                if !matches!(self.search, SearchRange::Everywhere | SearchRange::Onwards) {
                    called.clear();
                }
                for call in &turn.calls {
                    later.remove(&call.id);
                    called.insert(call.id.clone());
                    if self.search != SearchRange::Everywhere {
                        answered.remove(&call.id);
                    }
                }
                continue;
            }
            turn.results.retain(|result| {
                let known = match self.search {
                    SearchRange::Everywhere => everywhere.contains(&result.id),
                    SearchRange::BesideOrBefore if later.contains(&result.id) => true,
                    _ => called.contains(&result.id),
                };
                let orphan = match self.orphans {
                    Orphans::LeftOut => !known,
                    Orphans::LeftOutAmongResults => !known && !called.is_empty(),
                    Orphans::Sent => false,
                };
                let first = !known || answered.insert(result.id.clone());
                !orphan && (first || self.duplicates == DuplicateResults::Sent)
            });
            if matches!(self.search, SearchRange::Beside | SearchRange::BesideOrBefore) && turn.says {
                called.clear();
            }
        }
    }

    fn settle_calls(&self, turns: &mut Vec<Turn>) {
        // The turns that hold a result of each call.
        let mut results: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, turn) in turns.iter().enumerate() {
            turn.results.iter().for_each(|result| results.entry(result.id.clone()).or_default().push(at));
        }
        let last = turns.iter().rposition(|turn| turn.by_model);
        let mut added: Vec<(usize, Vec<Pair>)> = Vec::new();
        let mut gone: HashSet<String> = HashSet::new();
        for at in (0..turns.len()).filter(|at| !turns[*at].calls.is_empty()).collect::<Vec<_>>() {
            let reach = self.reach(at, turns);
            let place =
                |call: &Pair| results.get(&call.id)?.iter().find(|place| reach.contains(place)).copied();
            let places: Vec<Option<usize>> = turns[at].calls.iter().map(place).collect();
            let calls = turns[at].calls.clone();
            let missing =
                || calls.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(call, _)| call);
            let mut follows = Vec::new();
            if self.late_results == LateResults::Moved {
                for (call, place) in calls.iter().zip(&places) {
                    let Some(place) = place else { continue };
                    let from = &mut turns[*place].results;
                    follows.extend(from.iter().position(|result| result == call).map(|nth| from.remove(nth)));
                }
            }
            let is_answered = match self.unanswered {
                Unanswered::Answered => true,
                Unanswered::AnsweredInNextMessage => turns.get(at + 1).is_none_or(|next| !next.by_model),
                Unanswered::AnsweredAtTheEnd => last == Some(at),
                _ => false,
            };
            if is_answered {
                follows.extend(missing().cloned());
            }
            match self.unanswered {
                Unanswered::LeftOut => {
                    let mut places = places.iter();
                    turns[at].calls.retain(|_| places.next().is_some_and(Option::is_some));
                }
                Unanswered::LeftOutWithItsBatch if missing().next().is_none() => {}
                Unanswered::LeftOutWithItsBatch => {
                    turns[at].calls.clear();
                    gone.extend(calls.iter().map(|call| call.id.clone()));
                }
                _ => {}
            }
            added.push((at, follows));
        }
        let mut added = added.into_iter().peekable();
        for (at, mut turn) in std::mem::take(turns).into_iter().enumerate() {
            turn.results.retain(|result| !gone.contains(&result.id));
            turns.push(turn);
            if let Some((_, results)) = added.next_if(|(after, _)| *after == at) {
                turns.push(Turn { results, ..Turn::default() });
            }
        }
    }

    /// The turns in which the results of a message's calls are looked for.
    fn reach(&self, at: usize, turns: &[Turn]) -> Range<usize> {
        let after = &turns[at + 1..];
        let length = match self.search {
            SearchRange::Everywhere => return 0..turns.len(),
            SearchRange::Onwards => after.len(),
            SearchRange::ToNextAnswer => after.iter().take_while(|turn| !turn.by_model).count(),
            SearchRange::Beside | SearchRange::BesideOrBefore => {
                let beside =
                    after.iter().take_while(|turn| !turn.by_model && !turn.results.is_empty()).count();
                // Whatever follows words of the user is not beside the call any more.
                after[..beside].iter().position(|turn| turn.says).map_or(beside, |says| says + 1)
            }
        };
        let start = if self.search == SearchRange::BesideOrBefore { 0 } else { at + 1 };
        start..at + 1 + length
    }
}

/// What a message says, as far as calls and results are concerned. None for instructions, which no agent sends among them.
fn turn(place: usize, message: &Message) -> Option<Turn> {
    if matches!(message.role, Role::System | Role::Developer) {
        return None;
    }
    let calls = message.tool_calls().map(|call| Pair::new(call.id.as_str(), &call.name)).collect();
    let result_of = |result: &ToolResult| {
        let id = result.call_id.as_ref().map_or("", |id| id.as_str());
        Pair::new(id, result.name.as_ref().map_or("", |name| name.as_str()))
    };
    let says = |block: &Block| block.as_call().is_none() && block.as_result().is_none();
    Some(Turn {
        place: Some(place),
        by_model: message.role == Role::Assistant,
        says: message.blocks.iter().any(says),
        calls,
        results: message.tool_results().map(result_of).collect(),
    })
}
