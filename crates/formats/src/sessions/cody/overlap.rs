//! Turns that overlap. If a person writes while an answer is under way, two turns are stretches of the same history, and one
//! may begin in the other or lie inside it.

/// The length of the longest end of `history` that occurs in `turn` as one block. Takes linear time.
pub(super) fn overlap(history: &[u64], turn: &[u64]) -> usize {
    // The end of the history, read backwards, is looked for in the turn, read backwards. At every item it is known how much of
    // the beginning of the pattern ends there, and where to go on if the next item does not fit (Knuth, Morris and Pratt).
    let pattern: Vec<u64> = history.iter().rev().take(turn.len()).copied().collect();
    let mut shorter = vec![0; pattern.len()];
    let mut length = 0;
    for at in 1..pattern.len() {
        while length > 0 && pattern[at] != pattern[length] {
            length = shorter[length - 1];
        }
        length += usize::from(pattern[at] == pattern[length]);
        shorter[at] = length;
    }
    let (mut longest, mut length) = (0, 0);
    for item in turn.iter().rev() {
        while length > 0 && pattern.get(length) != Some(item) {
            length = shorter[length - 1];
        }
        length += usize::from(pattern.get(length) == Some(item));
        longest = longest.max(length);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn the_longest_end_that_the_turn_holds() {
        assert_eq!(overlap(&[1, 2, 3], &[4, 5]), 0);
        assert_eq!(overlap(&[1, 2, 3], &[2, 3, 4]), 2, "the turn begins in it");
        assert_eq!(overlap(&[1, 2, 3], &[0, 1, 2, 3, 4]), 3, "it lies inside the turn");
        assert_eq!(overlap(&[1, 2, 3], &[2, 3]), 2, "the turn lies at its end");
        assert_eq!(overlap(&[1, 1, 2, 1, 1], &[1, 1, 3]), 2);
        assert_eq!(overlap(&[1, 2, 1, 2], &[2, 1, 2, 1]), 3);
        assert_eq!(overlap(&[], &[1]), 0);
        assert_eq!(overlap(&[1], &[]), 0);
    }
}
