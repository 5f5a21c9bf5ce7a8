//! Names that were probably meant: the known ones that a mistyped word is closest to.

const SUGGESTED: usize = 3;

/// The known names closest to a mistyped one, if any is close. It may lack a table (`audit.`), or be one word of the known name.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    // A long name may have more wrong letters than a short one.
    let most = ((name.chars().count() + 1) / 3).clamp(1, 3);
    let distance = |known: &str| {
        let last = known.rsplit('.').next().unwrap_or(known);
        let is_word = name.len() >= 3 && last.split(['_', '-']).any(|word| word == name);
        if is_word { 1 } else { edits(name, known).min(edits(name, last) + usize::from(last != known)) }
    };
    let mut near: Vec<(usize, &str)> = known.map(|known| (distance(known), known)).collect();
    near.sort_unstable();
    let least = near.first().map_or(0, |(far, _)| *far);
    near.retain(|(far, _)| *far == least && *far <= most);
    near.into_iter().map(|(_, name)| name).take(SUGGESTED).collect()
}

/// ``did you mean `model`? `` with a space at the end; nothing if no known name is close.
pub fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let near: Vec<String> = nearest(name, known).iter().map(|near| format!("`{near}`")).collect();
    if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) }
}

/// Whether two words differ by one letter at most, or by two that changed places. Short words are too close to each other.
pub fn is_near(known: &str, word: &str) -> bool {
    known.chars().count() >= 4 && edits(known, word) <= 1
}

/// How many letters have to be changed, added or removed to turn one word into another. Two neighbours that changed places
/// count as one.
fn edits(one: &str, other: &str) -> usize {
    // No name is this long; a longer one is close to none.
    let (one, rest): (Vec<char>, usize) = (one.chars().take(64).collect(), one.chars().skip(64).count());
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.iter().enumerate() {
        let mut next = vec![place + 1];
        for (at, known) in other.iter().enumerate() {
            let changed = row[at] + usize::from(letter != known);
            let mut least = changed.min(row[at + 1] + 1).min(next[at] + 1);
            if place > 0 && at > 0 && *letter == other[at - 1] && one[place - 1] == *known {
                least = least.min(before[at - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()] + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_found() {
        let known = [
            "model",
            "audit.full_arguments",
            "max_tokens",
            "base_url",
            "color",
            "orphan-result",
            "orphan-call",
        ];
        let nearest = |name: &str| nearest(name, known.into_iter());
        for (name, near) in [
            ("modle", &["model"][..]),
            ("full_arguments", &["audit.full_arguments"]),
            ("max_token", &["max_tokens"]),
            ("url", &["base_url"]),
            ("colour", &["color"]),
            ("orphan", &["orphan-call", "orphan-result"]),
            ("completely different", &[]),
        ] {
            assert_eq!(nearest(name), near, "{name}");
        }
        assert!(nearest("abc").is_empty(), "every short word is close to some other");
        assert!(nearest(&"x".repeat(1_000_000)).is_empty());
    }

    #[test]
    fn one_slip_is_near() {
        for word in ["list", "lisst", "lst", "lits", "lost"] {
            assert!(is_near("list", word), "{word}");
        }
        assert!(!is_near("list", "last one") && !is_near("ls", "lx"));
    }
}
