//! Which events repeat what a turn says. Events are written as things happen and the turn when it has ended, so their texts may
//! differ: one of them can be trimmed, or lack pieces of a stream.

use hashbrown::HashMap;

/// The texts of one item of a turn, or the text of an event.
pub(super) struct SaidTexts {
    pub(super) is_reasoning: bool,
    /// The parts of the item, without spaces.
    parts: Vec<String>,
}

impl SaidTexts {
    pub(super) fn new<'t>(is_reasoning: bool, parts: impl IntoIterator<Item = &'t str>) -> Self {
        let parts = parts.into_iter().map(|part| part.split_whitespace().collect::<String>());
        Self { is_reasoning, parts: parts.filter(|part| !part.is_empty()).collect() }
    }

    /// Every text under which an event may repeat it: each part, and all of them together.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let whole = (self.parts.len() > 1).then(|| self.parts.concat());
        self.parts.iter().cloned().chain(whole)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.parts.is_empty()
    }

    /// The text of an event.
    pub(super) fn whole(&self) -> String {
        self.parts.concat()
    }
}

/// How an event relates to the turn that followed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EventRelation {
    /// The turn has all of its words.
    Same,
    /// It is the same text of the same turn, and has words that the turn lacks.
    Differs,
    /// The turn says nothing that it could be.
    Not,
}

/// Finds out which of the events before a turn the turn repeats: those with the same text, and then, from the end, as many
/// others as the turn has texts that no event told.
pub(super) fn retold(turn: &[SaidTexts], events: &[SaidTexts]) -> Vec<EventRelation> {
    let parts: Vec<(bool, &str)> = turn
        .iter()
        .flat_map(|said| said.parts.iter().map(|part| (said.is_reasoning, part.as_str())))
        .collect();
    let mut untold = vec![true; parts.len()];
    // The parts that have a text, by their numbers.
    let mut with_text: HashMap<String, Vec<std::ops::Range<usize>>> = HashMap::new();
    let mut from = 0;
    for said in turn {
        let to = from + said.parts.len();
        let each = (from..to).map(|number| number..number + 1);
        for (text, range) in said.texts().zip(each.chain(std::iter::once(from..to))) {
            with_text.entry(text).or_default().push(range);
        }
        from = to;
    }
    let mut fates = vec![EventRelation::Not; events.len()];
    for (event, fate) in events.iter().zip(&mut fates).rev() {
        if let Some(places) = with_text.get_mut(&event.whole()) {
            *fate = EventRelation::Same;
            places.pop().into_iter().flatten().for_each(|number| untold[number] = false);
        }
    }
    for kind in [false, true] {
        let mut left = (0..parts.len()).rev().filter(|number| untold[*number] && parts[*number].0 == kind);
        let others = events.iter().zip(&mut fates).rev();
        for (event, fate) in
            others.filter(|(event, fate)| event.is_reasoning == kind && **fate == EventRelation::Not)
        {
            let Some(number) = left.next() else { break };
            *fate = if parts[number].1.contains(&event.whole()) {
                EventRelation::Same
            } else {
                EventRelation::Differs
            };
        }
    }
    fates
}

#[cfg(test)]
mod tests {
    use super::{EventRelation::*, *};

    #[test]
    fn an_event_belongs_to_the_turn_after_it_unless_the_turn_has_no_text_left_for_it() {
        let answer = |text: &str| SaidTexts::new(false, [text]);
        let turn = [
            SaidTexts::new(true, ["one thought", "another one"]),
            answer("a first answer"),
            answer("the last"),
        ];
        let told = |events: &[SaidTexts]| retold(&turn, events);
        assert_eq!(told(&[answer(" a first\nanswer "), answer("the last")]), [Same, Same]);
        assert_eq!(told(&[answer("a first"), answer("the last")]), [Same, Same], "it was cut");
        assert_eq!(told(&[answer("a first answer with more")]), [Differs]);
        assert_eq!(told(&[answer("lost"), answer("changed"), answer("the last")]), [Not, Differs, Same]);
        assert_eq!(told(&[SaidTexts::new(true, ["one thoughtanother one"])]), [Same], "its parts together");
        assert_eq!(
            told(&[answer("the last"), answer("the last")]),
            [Same, Same],
            "an event was written twice"
        );
        assert_eq!(retold(&[], &[answer("the last")]), [Not]);
    }
}
