//! The tree of a transcript: which line each line follows, which lines form one message, and the path of the conversation.
//!
//! ```text
//! user 1 ← assistant 2 (call a) ← assistant 3 (call b) ← result of b 5 ← assistant 6     the path: 1 2 3 5 6
//!                               ← result of a 4                                          joins it by the call's id
//! ```
//!
//! Lines that are not part of the conversation are in the chain too: a line that follows one follows the nearest line above
//! it that is part of the conversation. A broken link is replaced by the order of the file. Everything takes time linear in
//! the number of lines.
//!
//! The choice of the leaf, and of what a compaction hides, follows what Claude Code 2.1.325 was seen to send for such files
//! (`docs/peers.md`). The leaf is the last line of the file that nothing follows, notes and attachments included, or a
//! descendant of the line that the program noted as its place. A compaction hides what comes before it only on that path.
//! So lines that follow a message before a compaction undo it, unless the program no longer reads that far back: in a file
//! of more than 5 MiB, or if the compaction kept messages.

use std::collections::{HashMap, VecDeque};

use rejoin_record::{Block, Message, Role, ToolCall, ToolResult, limits};
use rejoin_view::{Action, BlockAt, Finding, Pairing, Rule, Severity};

use super::lines::{ContentField, Line, MessageLine, Messages, Parent, What};
use crate::sessions::lines::at;

/// Of a larger file, Claude Code reads only the part after the last compaction.
const READ_WHOLE_BYTES: usize = 5 * 1024 * 1024;

/// How many lines above the end of a conversation are searched for its last message. Searching on would cost too much in a
/// file that consists of boundaries.
const BOUNDARIES: usize = 16;

/// What became of the lines of a transcript.
pub(super) struct Shape {
    /// Every message: its lines, in the order of the file.
    pub units: Vec<Vec<usize>>,
    /// What a model would see: units, in order.
    pub visible: Vec<usize>,
    /// For each unit, whether it is on the path. What is not on it is on another branch.
    pub on_path: Vec<bool>,
    /// Lines on the path before or at which everything earlier was replaced.
    pub compacted: Vec<usize>,
    /// The line of the file at which the visible part begins; everything up to it came before.
    pub start: Option<usize>,
    /// Whether the conversation is a sub-agent's.
    pub sidechain: bool,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Default)]
struct Above {
    /// The nearest line that is part of the conversation.
    line: Option<usize>,
    /// The line whose own link cannot be followed, if there is one on the way.
    broken: Option<usize>,
    /// A sub-agent's progress is in between.
    through_agent: bool,
    /// The named line is before a compaction, where the program no longer reads.
    before_compaction: bool,
}

enum Link {
    To(usize),
    Before,
    /// To the line before it, because the named line is missing.
    Lost,
    Nowhere,
}

struct Tree<'l> {
    lines: &'l [Line],
    /// Lines that are messages or boundaries, each id once.
    kept: Vec<bool>,
    by_uuid: HashMap<&'l str, usize>,
    /// The line of the conversation before each line, among those of the same speaker.
    before: Vec<Option<usize>>,
    /// No line names another one: the file is a list.
    list: bool,
    findings: Vec<Finding>,
}

/// Finds the path to the last line of the conversation. `None` if there is no message.
pub(super) fn shape(lines: &[Line]) -> Option<Shape> {
    let mut tree = Tree::new(lines);
    let mut above = tree.above(|line| tree.kept[line]);
    let unread = tree.relink(&mut above);
    let units = Units::new(&tree, &above);
    let leaf = tree.leaf(&units, &above, &unread)?;
    let path = tree.path(leaf, &mut above);
    let boundary = |place: &usize| matches!(lines[path[*place]].what, What::Boundary(_));
    let compacted: Vec<usize> = (0..path.len()).filter(boundary).collect();
    let cut = compacted.last().map_or(0, |last| last + 1);
    let compacted: Vec<usize> = compacted.into_iter().map(|place| path[place]).collect();
    for &line in &path[cut..] {
        tree.report(line, &above[line]);
    }
    let visible = units.visible(&tree, &path[cut..]);
    let mut on_path = vec![false; units.all.len()];
    let before = units.visible(&tree, &path[..cut]);
    visible.iter().chain(&before).for_each(|unit| on_path[*unit] = true);
    Some(Shape {
        on_path,
        units: units.all,
        visible,
        start: compacted.last().copied(),
        compacted,
        sidechain: lines[leaf].sidechain,
        findings: tree.findings,
    })
}

impl<'l> Tree<'l> {
    fn new(lines: &'l [Line]) -> Self {
        let mut kept = vec![false; lines.len()];
        let mut by_uuid: HashMap<&str, usize> = HashMap::new();
        let mut findings = Vec::new();
        let is_kept = |line: &Line| matches!(line.what, What::Message(_) | What::Boundary(_));
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_kept(line)) {
            // A program that continues an old file may write some of its lines again.
            let first = line.uuid.as_deref().map_or(index, |uuid| *by_uuid.entry(uuid).or_insert(index));
            kept[index] = first == index;
            if first != index && !says_the_same(&lines[first], line) {
                let finding = Finding::new(Rule::BrokenChain, at(line.place), Action::SetAside);
                let finding = finding.about(line.uuid.as_deref().unwrap_or_default());
                let finding = finding.because("an earlier line has the same id and says something else");
                findings.push(Finding { severity: Severity::Warning, ..finding });
            }
        }
        // A line outside the conversation never takes a message's id.
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| !is_kept(line)) {
            line.uuid.as_deref().map(|uuid| by_uuid.entry(uuid).or_insert(index));
        }
        let mut last: HashMap<(bool, Option<&str>), usize> = HashMap::new();
        let mut before = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let speaker = (line.sidechain, line.agent.as_deref().filter(|_| line.sidechain));
            before.push(last.get(&speaker).copied());
            if kept[index] {
                last.insert(speaker, index);
            }
        }
        let leads = |(index, line): (usize, &Line)| match &line.parent {
            Parent::Named(parent) => by_uuid.get(&**parent).is_some_and(|target| *target != index),
            Parent::Absent | Parent::Root => false,
        };
        let list = !lines.iter().enumerate().any(leads);
        Self { lines, kept, by_uuid, before, list, findings }
    }

    fn message_at(&self, line: usize) -> Option<&'l MessageLine> {
        match &self.lines[line].what {
            What::Message(said) if self.kept[line] => Some(said),
            _ => None,
        }
    }

    /// Whether a conversation can end at a line: messages, and notes of the program.
    fn is_tip(&self, line: usize) -> bool {
        match &self.lines[line].what {
            What::Message(_) | What::Boundary(_) => self.kept[line],
            What::Attachment(..) | What::System(_) => true,
            _ => false,
        }
    }

    /// The last message of the main conversation: the one at or above the last line that nothing follows. In the file of a
    /// sub-agent, the last message. A result that came after the model had continued is not the end of the conversation.
    fn leaf(&self, units: &Units, above: &[Above], unread: &[bool]) -> Option<usize> {
        let mut parents = self.above(|line| self.is_tip(line));
        // A boundary only names what came before it; it does not continue that branch.
        let begins = |line: &Line| {
            matches!((&line.what, &line.parent), (What::Boundary(_), Parent::Absent | Parent::Root))
        };
        for (_, over) in self.lines.iter().zip(&mut parents).filter(|(line, _)| begins(line)) {
            over.line = None;
        }
        let own = |line: &usize| !self.lines[*line].sidechain && self.is_tip(*line);
        let tips = || (0..self.lines.len()).rev().filter(own);
        // The order of the file may differ from the order of the links: take the last follower of each line.
        let mut follower: Vec<Option<usize>> = vec![None; self.lines.len()];
        for (line, parent) in tips().filter_map(|line| Some((line, parents[line].line?))) {
            follower[parent].get_or_insert(line);
        }
        // The message at or above a line. Boundaries may be in between, but hardly ever more than one.
        let message = |line: usize| {
            let mut upwards = std::iter::successors(Some(line), |line| above[*line].line).take(BOUNDARIES);
            upwards.find(|line| self.message_at(*line).is_some())
        };
        let usable = |line: &usize| message(*line).is_some_and(|line| !units.is_late(line));
        let descends = self.descendants_of_tip(&parents, unread);
        let here = |line: &usize| descends.as_ref().is_none_or(|descends| descends[*line]);
        let said = || (0..self.lines.len()).rev().filter(|line| self.message_at(*line).is_some());
        let Some(last) = tips().filter(here).find(usable).or_else(|| tips().find(usable)) else {
            return said().find(|line| !self.lines[*line].sidechain).or_else(|| said().next());
        };
        let mut leaf = last;
        for _ in 0..self.lines.len() {
            match follower[leaf].filter(usable) {
                Some(next) => leaf = next,
                None => return message(leaf),
            }
        }
        // The links form a circle.
        message(last)
    }

    /// The line that the program last noted as its place in the conversation, and all lines that follow it. `None` if there
    /// is no such note, or its line is missing.
    fn descendants_of_tip(&self, parents: &[Above], unread: &[bool]) -> Option<Vec<bool>> {
        let noted = self.lines.iter().rev().find_map(|line| match &line.what {
            What::Tip(uuid) => Some(uuid),
            _ => None,
        })?;
        let tip = self.by_uuid.get(&**noted).copied().filter(|line| !unread[*line] && self.is_tip(*line))?;
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); self.lines.len()];
        for (line, over) in parents.iter().enumerate() {
            over.line.into_iter().for_each(|parent| followers[parent].push(line));
        }
        let mut descends = vec![false; self.lines.len()];
        let mut next = vec![tip];
        while let Some(line) = next.pop() {
            if !std::mem::replace(&mut descends[line], true) {
                next.append(&mut followers[line]);
            }
        }
        Some(descends)
    }

    fn link(&self, index: usize) -> Link {
        let line = &self.lines[index];
        let named = |uuid: &str| match self.by_uuid.get(uuid) {
            Some(target) if *target != index => Link::To(*target),
            _ => Link::Lost,
        };
        match (&line.parent, &line.what) {
            (Parent::Named(parent), _) => named(parent),
            // The compacted part is hidden, so a lost link matters little.
            (_, What::Boundary(boundary)) => match boundary.before.as_deref().map(named) {
                Some(Link::To(target)) => Link::To(target),
                _ => Link::Before,
            },
            (Parent::Root, _) if !self.list => Link::Nowhere,
            (Parent::Root | Parent::Absent, _) => Link::Before,
        }
    }

    /// For each line, the nearest line above that counts.
    fn above(&self, counts: impl Fn(usize) -> bool) -> Vec<Above> {
        let mut above: Vec<Option<Above>> = vec![None; self.lines.len()];
        let mut under_way = vec![false; self.lines.len()];
        let mut trail = Vec::new();
        for index in 0..self.lines.len() {
            let mut here = index;
            // Go up through lines outside the conversation, until something is known.
            let found = loop {
                if let Some(known) = above[here] {
                    break known;
                }
                under_way[here] = true;
                let broken = Above { line: self.before[here], broken: Some(here), ..Above::default() };
                let found = match self.link(here) {
                    Link::Nowhere => Above::default(),
                    Link::Before => Above { broken: None, ..broken },
                    Link::Lost => broken,
                    Link::To(target) if counts(target) => Above { line: Some(target), ..Above::default() },
                    Link::To(target) if under_way[target] && above[target].is_none() => broken,
                    Link::To(target) => {
                        trail.push(here);
                        here = target;
                        continue;
                    }
                };
                above[here] = Some(found);
                break found;
            };
            let mut found = found;
            while let Some(below) = trail.pop() {
                found.through_agent |= matches!(self.lines[here].what, What::AgentProgress);
                above[below] = Some(found);
                here = below;
            }
        }
        let resolved = above.into_iter().map(Option::unwrap_or_default).enumerate();
        resolved.map(|(index, found)| self.not_on_progress(index, found)).collect()
    }

    /// A message that follows the earlier progress of a sub-agent was put there by mistake, because a conversation never
    /// returns to such a place. It follows the message before it.
    fn not_on_progress(&self, index: usize, found: Above) -> Above {
        let earlier = self.before[index].is_some() && found.line < self.before[index];
        if self.kept[index] && found.through_agent && earlier && !self.lines[index].sidechain {
            let line = self.before[index];
            return Above { line, broken: Some(index), through_agent: true, before_compaction: false };
        }
        found
    }

    /// Moves the messages that the last compaction kept to after its summary. Returns the lines that the program no longer
    /// reads.
    fn relink(&self, above: &mut [Above]) -> Vec<bool> {
        let mut unread = vec![false; above.len()];
        let last = self.lines.iter().enumerate().rev().find_map(|(index, line)| match &line.what {
            What::Boundary(boundary) if self.kept[index] && !line.sidechain => Some((index, boundary)),
            _ => None,
        });
        let Some((at, boundary)) = last else { return unread };
        let wants = boundary.kept.as_ref().filter(|kept| match &kept.messages {
            Messages::Each(uuids) => !uuids.is_empty(),
            Messages::Between(..) => true,
        });
        let tail = match wants {
            Some(kept) => {
                let Some((inside, tail)) = self.keep(&kept.anchor, &kept.messages, above) else {
                    return unread;
                };
                (0..at).for_each(|line| unread[line] = !inside[line]);
                Some(tail)
            }
            None if self.bytes() > READ_WHOLE_BYTES => {
                (0..at).for_each(|line| unread[line] = true);
                None
            }
            None => return unread,
        };
        for (line, over) in above.iter_mut().enumerate().skip(at + 1) {
            let leads_there = over.line.is_some_and(|parent| unread[parent]);
            if leads_there && !self.lines[line].sidechain {
                *over = Above {
                    line: tail.or(self.before[line]),
                    broken: Some(line),
                    before_compaction: true,
                    ..Above::default()
                };
            }
        }
        unread
    }

    /// Links the messages that a compaction kept to its anchor, and what followed the anchor to the last of them. `None` if
    /// one of them is missing; then nothing is changed.
    fn keep(&self, anchor: &str, messages: &Messages, above: &mut [Above]) -> Option<(Vec<bool>, usize)> {
        let of = |uuid: &str| self.by_uuid.get(uuid).copied().filter(|line| self.kept[*line]);
        let anchor = of(anchor)?;
        let mut inside = vec![false; above.len()];
        let chain: Vec<usize> = match messages {
            Messages::Each(uuids) => {
                let known: Option<Vec<usize>> =
                    uuids.iter().map(|uuid| self.by_uuid.get(&**uuid).copied()).collect();
                known?.into_iter().filter(|line| self.kept[*line]).collect()
            }
            Messages::Between(head, tail) => {
                let (head, tail) = (of(head)?, of(tail)?);
                let (mut chain, mut here) = (Vec::new(), Some(tail));
                while let Some(line) = here.filter(|line| !inside[*line]) {
                    inside[line] = true;
                    chain.push(line);
                    here = if line == head { None } else { above[line].line };
                }
                if !inside[head] {
                    return None;
                }
                chain.reverse();
                chain
            }
        };
        chain.iter().for_each(|line| inside[*line] = true);
        let tail = *chain.last()?;
        if inside[anchor] {
            return None;
        }
        for (line, over) in above.iter_mut().enumerate() {
            if over.line == Some(anchor) && !inside[line] {
                over.line = Some(tail);
            }
        }
        let mut over = anchor;
        for line in chain {
            above[line] = Above { line: Some(over), ..Above::default() };
            over = line;
        }
        Some((inside, tail))
    }

    /// The size of the file up to its last line, in bytes.
    fn bytes(&self) -> usize {
        self.lines.last().map_or(0, |line| line.place.offset + line.text.len() + 1)
    }

    /// The lines of the conversation from its beginning to the leaf.
    fn path(&self, leaf: usize, above: &mut [Above]) -> Vec<usize> {
        let mut seen = vec![false; self.lines.len()];
        let mut path = Vec::new();
        let mut earliest = leaf;
        let mut next = Some(leaf);
        while let Some(line) = next {
            seen[line] = true;
            path.push(line);
            earliest = earliest.min(line);
            if above[line].line.is_some_and(|parent| seen[parent]) {
                // In a circle, or where a compaction kept messages: continue with the line before all of them.
                let line_before = self.before[earliest].filter(|before| !seen[*before]);
                above[line] = Above { line: line_before, broken: Some(line), ..Above::default() };
            }
            next = above[line].line;
        }
        path.reverse();
        path
    }

    /// Reports the link of the path that could not be followed.
    fn report(&mut self, index: usize, above: &Above) {
        let Some(broken) = above.broken else { return };
        let line = &self.lines[broken];
        let finding = Finding::new(Rule::BrokenChain, at(line.place), Action::Kept);
        let finding = match &line.parent {
            Parent::Named(parent) => finding.about(&**parent),
            Parent::Absent | Parent::Root => finding,
        };
        self.findings.push(match above.line.and_then(|line| self.lines[line].place.line) {
            _ if above.through_agent && broken == index => {
                finding.because("its parent belongs to a sub-agent; it continues from the message before it")
            }
            Some(number) if above.before_compaction => {
                let why = "Claude Code no longer reads its parent after a compaction";
                let finding = finding.because(format!("{why}; it continues from line {number}"));
                Finding { severity: Severity::Note, ..finding }
            }
            Some(number) => finding.because(format!("it continues from line {number}")),
            // Nothing is before it: the file begins in the middle of a conversation, and nothing was guessed.
            None => {
                let finding = finding.because("the conversation began before this file");
                Finding { severity: Severity::Note, ..finding }
            }
        });
    }
}

/// Whether two lines with the same id have the same content. Another version may have written different fields around it.
fn says_the_same(one: &Line, other: &Line) -> bool {
    fn content(line: &Line) -> Option<&str> {
        let What::Message(said) = &line.what else { return None };
        line.text.get(said.content.0..said.content.1)
    }
    match (content(one), content(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.text == other.text,
    }
}

/// Which lines are one message.
struct Units {
    all: Vec<Vec<usize>>,
    /// The unit of each line that is part of one.
    of: Vec<Option<usize>>,
    /// The response that each line belongs to: a model's line to its own, results to the one with their calls.
    continues: Vec<Option<usize>>,
    /// Whether another response followed each unit.
    continued: Vec<bool>,
}

impl Units {
    fn new(tree: &Tree<'_>, above: &[Above]) -> Self {
        let count = tree.lines.len();
        let nothing = vec![None; count];
        let mut units =
            Self { all: Vec::new(), of: nothing.clone(), continues: nothing, continued: Vec::new() };
        let mut beside: HashMap<(Option<usize>, &str), usize> = HashMap::new();
        let mut sizes: Vec<usize> = Vec::new();
        for (index, over) in above.iter().enumerate() {
            let Some(said) = tree.message_at(index) else { continue };
            let parent = over.line;
            let response = parent.and_then(|parent| units.continues[parent]);
            let mut unit = None;
            if let Some(id) = said.message_id.as_deref() {
                let sibling = beside.get(&(parent, id)).copied();
                let fits = |unit: &usize| {
                    let first = tree.message_at(units.all[*unit][0]);
                    let size = sizes[*unit] + tree.lines[index].text.len();
                    let (here, there) = (&tree.lines[index], &tree.lines[units.all[*unit][0]]);
                    let one_speaker = here.sidechain == there.sidechain && here.agent == there.agent;
                    one_speaker
                        && first.is_some_and(|first| is_one_response(first, said))
                        && size < limits::BODY_BYTES
                };
                unit = response.filter(fits).or_else(|| sibling.filter(fits));
            }
            let unit = unit.unwrap_or_else(|| {
                units.all.push(Vec::new());
                units.continued.push(false);
                sizes.push(0);
                units.all.len() - 1
            });
            if let Some(response) = response.filter(|response| said.by_model && *response != unit) {
                units.continued[response] = true;
            }
            units.all[unit].push(index);
            units.of[index] = Some(unit);
            sizes[unit] += tree.lines[index].text.len() + 1;
            units.continues[index] =
                if said.by_model { Some(unit) } else { response.filter(|_| said.only_results) };
            if let Some(id) = said.message_id.as_deref() {
                beside.entry((parent, id)).or_insert(unit);
            }
        }
        units
    }

    /// Whether a line holds results of a response that another one has already followed.
    fn is_late(&self, line: usize) -> bool {
        let unit = self.continues[line].filter(|unit| self.of[line] != Some(*unit));
        unit.is_some_and(|unit| self.continued[unit])
    }

    /// What a model would see: the units of the path, and results on another branch of the same response.
    fn visible(&self, tree: &Tree<'_>, path: &[usize]) -> Vec<usize> {
        let mut shown = vec![false; self.all.len()];
        let mut order = Vec::new();
        for unit in path.iter().filter_map(|line| self.of[*line]) {
            if !std::mem::replace(&mut shown[unit], true) {
                order.push(unit);
            }
        }
        let order = self.results_first(tree, order);
        let mut waiting = self.open_calls(tree, &order);
        let mut elsewhere: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut loose = Vec::new();
        for (unit, lines) in self.all.iter().enumerate() {
            let Some(said) = tree.message_at(lines[0]).filter(|_| !shown[unit]) else { continue };
            let waits = |id: &str| waiting.get(id).is_some_and(|units| !units.is_empty());
            let answers = !said.results.is_empty() && said.results.iter().all(|id| waits(id));
            if answers {
                // It answers the response that it follows if that still waits, otherwise the first one that does.
                let hangs_on = self.continues[lines[0]];
                let mut asked = None;
                for id in &said.results {
                    let open = waiting.entry(id).or_default();
                    let place = open.iter().position(|unit| Some(*unit) == hangs_on).unwrap_or(0);
                    let unit = (!open.is_empty()).then(|| open.remove(place));
                    asked = asked.or(unit);
                }
                elsewhere.entry(asked.unwrap_or(unit)).or_default().push(unit);
                shown[unit] = true;
            } else if self.is_loose(tree, lines[0], &shown) {
                loose.push(unit);
                shown[unit] = true;
            }
        }
        self.woven(tree, &order, elsewhere, loose)
    }

    /// Moves what the program recorded between the results of a response, such as a prompt that was queued, to after them: it is sent
    /// there.
    fn results_first(&self, tree: &Tree<'_>, order: Vec<usize>) -> Vec<usize> {
        let (mut sorted, mut later) = (Vec::with_capacity(order.len()), Vec::new());
        for unit in order {
            let said = tree.message_at(self.all[unit][0]);
            if said.is_some_and(|said| said.field != ContentField::Message) {
                later.push(unit);
                continue;
            }
            if !said.is_some_and(|said| said.only_results) {
                sorted.append(&mut later);
            }
            sorted.push(unit);
        }
        sorted.append(&mut later);
        sorted
    }

    /// The calls of these units that none of them answers, and the units that made each: an id may be used again.
    fn open_calls<'l>(&self, tree: &Tree<'l>, order: &[usize]) -> HashMap<&'l str, Vec<usize>> {
        let said = |unit: usize| self.all[unit].iter().filter_map(|line| tree.message_at(*line));
        let mut pairing = Pairing::default();
        for &unit in order {
            let calls = said(unit).flat_map(|said| &said.calls).map(|id| ToolCall::new(&**id, "", ""));
            let results = said(unit).flat_map(|said| &said.results).map(|id| ToolResult::new(&**id, ""));
            let blocks = calls.map(Block::call).chain(results.map(Block::result)).collect();
            pairing.add(&Message::new(Role::Assistant, blocks));
        }
        let mut unanswered = pairing.open_calls().peekable();
        let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
        for (message, &unit) in order.iter().enumerate() {
            for (block, id) in said(unit).flat_map(|said| &said.calls).enumerate() {
                if unanswered.next_if_eq(&BlockAt { message, block }).is_some() {
                    open.entry(id).or_default().push(unit);
                }
            }
        }
        open
    }

    /// A line without an id, which no other line can name: it belongs to the path if the line before it does.
    fn is_loose(&self, tree: &Tree<'_>, line: usize, shown: &[bool]) -> bool {
        let before = tree.before[line].and_then(|before| self.of[before]);
        !tree.list && tree.lines[line].uuid.is_none() && before.is_some_and(|before| shown[before])
    }

    /// Inserts what is not on the path: results with the others of their batch, in the order of the file, and the rest after
    /// them.
    fn woven(
        &self,
        tree: &Tree<'_>,
        order: &[usize],
        mut elsewhere: HashMap<usize, Vec<usize>>,
        loose: Vec<usize>,
    ) -> Vec<usize> {
        let mut woven = Vec::with_capacity(order.len());
        let mut late: VecDeque<usize> = VecDeque::new();
        let mut loose = loose.into_iter().peekable();
        for &unit in order {
            let line = self.all[unit][0];
            let results = tree.message_at(line).is_some_and(|said| said.only_results);
            while let Some(other) = late.pop_front_if(|other| !results || self.all[*other][0] < line) {
                woven.push(other);
            }
            while let Some(other) = loose.next_if(|other| !results && self.all[*other][0] < line) {
                woven.push(other);
            }
            woven.push(unit);
            late.extend(elsewhere.remove(&unit).unwrap_or_default());
        }
        woven.extend(late);
        woven.extend(loose);
        woven
    }
}

/// Whether two lines of a model are parts of one response.
fn is_one_response(one: &MessageLine, other: &MessageLine) -> bool {
    let same_request = match (&one.request_id, &other.request_id) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    one.message_id == other.message_id && same_request
}
