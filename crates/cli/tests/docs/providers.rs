//! The guides to providers name the registry's addresses, variables and models, and every guide answers a reader's questions.

use std::fs;

use super::{read, root};

const GUIDES: &str = "docs/guides/providers";

/// Services that share a guide.
const COMPATIBLE: &str = "compatible";

/// Every guide answers the same questions, in the same order.
#[test]
fn every_guide_answers_the_same_questions() {
    let wanted = [
        "\n## Begin\n",
        "\n## What is sent where\n",
        "\n## Reasoning\n",
        "\n## Caching\n",
        "\n## Limits\n",
        "\n## What rejoin does about its rules\n",
        "\n## When it says no\n",
        "\n## Switch in the middle\n",
    ];
    let names = ["openai", "anthropic", "ollama", "gemini", "openrouter", "copilot", COMPATIBLE, "offline"];
    for name in names {
        let guide = read(&format!("{GUIDES}/{name}.md"));
        let places: Vec<Option<usize>> = wanted.iter().map(|heading| guide.find(heading)).collect();
        assert!(places.iter().all(Option::is_some), "{name}: {places:?}");
        assert!(places.is_sorted(), "{name}: {places:?}");
        for case in ["401", "429", "context"] {
            let (_, no) = guide.split_once("\n## When it says no\n").unwrap();
            assert!(no.contains(case) || name == "offline", "{name} does not say what to do on {case}");
        }
    }
    let found = fs::read_dir(root().join(GUIDES)).unwrap().count();
    assert_eq!(found, names.len() + 1, "each guide is checked; one page lists them");
    let list = read(&format!("{GUIDES}/README.md"));
    for name in names {
        assert!(list.contains(&format!("({name}.md)")), "{name} is not on the list");
    }
}

/// S0-49: the page says that every provider gets the same validation at the same place, and that none is tested less. This checks
/// it: the turn, the repair pass and the tests over all providers do not distinguish between providers.
#[test]
fn providers_are_treated_alike() {
    let page = read(&format!("{GUIDES}/README.md"));
    let (_, same) = page.split_once("\n## What is the same for all\n").unwrap();
    for wanted in ["same repair pass", "at the same place", "the same tests run over every provider"] {
        assert!(same.replace("\n  ", " ").contains(wanted), "{wanted:?} is not said");
    }
    let rows = read("crates/engine/src/provider/registry.rs");
    let names: Vec<&str> = rows
        .split("\n    Service {")
        .skip(1)
        .filter_map(|row| strings(field(row.split("\n    },").next()?, "name")?).first().copied())
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    // The code that repairs and composes requests knows no provider.
    for folder in ["crates/view/src", "crates/engine/src/turn"] {
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                if path.extension().is_none_or(|kind| kind != "rs") {
                    continue;
                }
                let source = fs::read_to_string(&path).unwrap();
                let named = names.iter().find(|name| source.contains(&format!("\"{name}\"")));
                assert_eq!(named, None, "{}", path.display());
            }
        }
    }
    // The tests with a loopback provider have one list, and each of them goes over all of it.
    let listed = read("crates/cli/tests/support/services.rs");
    for name in
        ["openai", "anthropic", "gemini", "ollama", "openrouter", "mistral", "deepseek", "groq", "copilot"]
    {
        assert!(listed.contains(&format!("\"{name}\"")), "{name} is not tested with the others");
    }
    for file in ["providers", "kill"] {
        assert!(read(&format!("crates/cli/tests/{file}.rs")).contains("PROVIDERS"), "{file}");
    }
}

/// The text between quotes after a field of a row.
fn field<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let (_, rest) = row.split_once(&format!("\n        {name}: "))?;
    let rest = rest.split(",\n").next()?;
    Some(rest)
}

fn strings(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).filter(|text| !text.is_empty()).collect()
}

/// Each row's address, variables and model are in its guide.
#[test]
fn the_guides_are_those_of_the_rows() {
    let Ok(source) = fs::read_to_string(root().join("crates/engine/src/provider/registry.rs")) else {
        return println!("there are no rows yet");
    };
    let mut count = 0;
    for row in source.split("\n    Service {").skip(1) {
        let row = row.split("\n    },").next().unwrap();
        let name = strings(field(row, "name").unwrap())[0];
        let own = format!("{GUIDES}/{name}.md");
        let own = if root().join(&own).exists() { own } else { format!("{GUIDES}/{COMPATIBLE}.md") };
        let guide = read(&own);
        for what in ["base_url", "default_model", "key_variables"] {
            for text in field(row, what).map(strings).unwrap_or_default() {
                assert!(guide.contains(text), "{own} does not name {text}, the {what} of {name}");
            }
        }
        assert!(guide.contains(&format!("`{name}`")), "{own} does not name {name}");
        count += 1;
    }
    assert!(count >= 10, "{count}");
}
