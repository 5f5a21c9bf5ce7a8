//! Finds the known names that are closest to a mistyped word.

use strsim::osa_distance as edits;

const SUGGESTED: usize = 3;

/// The longest word that is compared, in characters: no name is longer.
const LONGEST: usize = 64;

/// The known names closest to a mistyped one, if any is close. It may lack a table (`audit.`), or be a single word of the known
/// name.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    // A longer name may contain more wrong letters.
    let most = ((name.chars().count() + 1) / 3).clamp(1, 3);
    let distance = |known: &str| {
        let last = known.rsplit('.').next().unwrap_or(known);
        let words = last.split(['_', '-']).filter(|word| word.len() >= 3);
        let of_a_word = words.map(|word| edits(name, word) + 1).min().unwrap_or(usize::MAX);
        edits(name, known).min(edits(name, last) + usize::from(last != known)).min(of_a_word)
    };
    let mut near: Vec<(usize, &str)> = known.map(|known| (distance(known), known)).collect();
    near.sort_unstable();
    let least = near.first().map_or(0, |(far, _)| *far);
    near.retain(|(far, _)| *far == least && *far <= most);
    near.into_iter().map(|(_, name)| name).take(SUGGESTED).collect()
}

/// ``did you mean `model`? `` with a space at the end; empty if no known name is close.
pub fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let near: Vec<String> = nearest(name, known).iter().map(|near| format!("`{near}`")).collect();
    if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) }
}

/// Whether two words differ by at most one letter, or by two swapped letters. False for short words, which are too similar to each
/// other.
pub fn is_near(known: &str, word: &str) -> bool {
    known.len() >= 4 && word.len() <= LONGEST && edits(known, word) <= 1
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
            ("modle", "model"),
            ("full_arguments", "audit.full_arguments"),
            ("max_token", "max_tokens"),
            ("url", "base_url"),
            ("colour", "color"),
            ("orphan", "orphan-call orphan-result"),
            ("orphn", "orphan-call orphan-result"),
            ("argument", "audit.full_arguments"),
            ("completely different", ""),
        ] {
            assert_eq!(nearest(name).join(" "), near, "{name}");
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
