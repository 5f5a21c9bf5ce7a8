//! Every rule that a checker can report, in one sentence (`rules.txt`). Rule names are stable, because scripts match on them.

use std::sync::LazyLock;

/// A rule of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderRule {
    /// The name that violations carry, such as `ANT-01`. `-schema` covers everything that the types of a request refuse.
    pub name: &'static str,
    /// The demand, in one sentence.
    pub demands: &'static str,
}

/// Every rule, by dialect.
pub static RULES: LazyLock<Vec<ProviderRule>> = LazyLock::new(|| {
    let rows = include_str!("rules.txt").lines().filter_map(|row| row.split_once(": "));
    rows.map(|(name, demands)| ProviderRule { name, demands }).collect()
});

/// Finds a rule by its name, in any case.
pub fn rule_named(name: &str) -> Option<&'static ProviderRule> {
    RULES.iter().find(|rule| rule.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// `explain` must have a page for every rule that a checker reports.
    #[test]
    fn every_rule_that_is_reported_is_explained_and_nothing_else() {
        let mut reported = BTreeSet::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![source.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name != "tests.rs" && name != "rules.txt") {
                    let text = fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                    let words = code.split('"').filter(|word| {
                        let (kind, rest) = word.split_once('-').unwrap_or_default();
                        kind.len() == 3
                            && kind.bytes().all(|byte| byte.is_ascii_uppercase())
                            && (rest == "schema" || (rest.len() == 2 && rest.parse::<u8>().is_ok()))
                    });
                    reported.extend(words.map(str::to_owned));
                }
            }
        }
        let explained: BTreeSet<String> = RULES.iter().map(|rule| rule.name.to_owned()).collect();
        assert_eq!(reported, explained);
        assert_eq!(explained.len(), RULES.len(), "a rule is explained twice");
        assert_eq!(rule_named("ant-01").map(|rule| rule.name), Some("ANT-01"));
    }
}
