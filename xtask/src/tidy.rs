//! The house rules: edges between rooms, file headers, one meaning for each name of a type, folders that are registered, a
//! ceiling on dependencies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

use crate::run::files;

/// Which room may depend on which. An edge that is not here is a decision, not an accident.
const EDGES: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("view", &["record"]),
    ("checkers", &[]),
    ("formats", &["record", "view"]),
    ("store", &["record"]),
    ("engine", &["record", "view", "formats", "store"]),
    ("rejoin", &["record", "view", "checkers", "formats", "store", "engine"]),
    ("server", &["rejoin"]),
    ("cli", &["rejoin", "server"]),
];

/// Packages in the lock file. Raising it is a visible line.
const LOCKED_PACKAGES: usize = 424;

pub fn tidy() -> Result<()> {
    let mut problems = Vec::new();
    edges(&mut problems)?;
    headers(&mut problems)?;
    names(&mut problems)?;
    registered(&mut problems)?;
    documents(&mut problems)?;
    dialects(&mut problems)?;
    problems.extend(crate::sabotage::stale());
    let locked = fs::read_to_string("Cargo.lock")?.matches("[[package]]").count();
    if locked > LOCKED_PACKAGES {
        problems.push(format!("Cargo.lock has {locked} packages, the ceiling is {LOCKED_PACKAGES}"));
    }
    ensure!(problems.is_empty(), "tidy:\n  {}", problems.join("\n  "));
    println!("tidy: rooms, headers, registries and documents are in order; {locked} packages locked");
    Ok(())
}

fn edges(problems: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir("crates")? {
        let room = entry?.file_name().to_string_lossy().into_owned();
        let path = format!("crates/{room}/Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(&path).with_context(|| path.clone())?.parse()?;
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == room) else {
            problems.push(format!("{path}: an unknown crate: add it to EDGES"));
            continue;
        };
        for name in manifest
            .get("dependencies")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(|table| table.keys())
        {
            let target = if name == "rejoin" { Some("rejoin") } else { name.strip_prefix("rejoin-") };
            if target.is_some_and(|target| !allowed.contains(&target)) {
                problems.push(format!("{path}: {room} must not depend on {name}"));
            }
            if name == "testkit" || name == "xtask" {
                problems.push(format!("{path}: {name} does not ship"));
            }
        }
    }
    Ok(())
}

fn headers(problems: &mut Vec<String>) -> Result<()> {
    for folder in ["crates", "testkit", "xtask"] {
        for file in files(Path::new(folder), ".rs")? {
            let text = fs::read_to_string(&file)?;
            if !text.starts_with("//!") {
                problems
                    .push(format!("{}: does not open by saying what lives there (`//!`)", file.display()));
            }
            if text.lines().any(|line| line.ends_with(' ')) {
                problems.push(format!("{}: trailing white space", file.display()));
            }
        }
    }
    Ok(())
}

/// No two public types of the workspace have one name: a reader who meets it would have to look up which one is meant.
fn names(problems: &mut Vec<String>) -> Result<()> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(Path::new("crates"), ".rs")? {
        let shown = file.display().to_string();
        if !shown.contains("/src/") {
            continue;
        }
        for line in fs::read_to_string(&file)?.lines() {
            let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
            let name = ["struct ", "enum ", "trait ", "type ", "union "]
                .iter()
                .find_map(|kind| item.strip_prefix(kind));
            let name = name
                .map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(name));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                places.entry(name.to_owned()).or_default().push(shown.clone());
            }
        }
    }
    for (name, places) in &places {
        if places.len() > 1 {
            problems.push(format!(
                "`{name}` names {} public types, rename one: {}",
                places.len(),
                places.join(", ")
            ));
        }
    }
    Ok(())
}

/// Every dialect folder is in the registry and has fixtures and a checker; every rule has a page, and every page a rule.
fn registered(problems: &mut Vec<String>) -> Result<()> {
    let registry = fs::read_to_string("crates/formats/src/wire/registry.rs")?;
    for name in dialect_folders()? {
        let needs = [
            (registry.contains(&format!("&{name}::")), "line in the registry"),
            (Path::new("crates/checkers/fixtures").join(name.replace('_', "-")).is_dir(), "fixtures"),
            (Path::new("crates/checkers/src").join(&name).is_dir(), "checker"),
        ];
        for (_, what) in needs.iter().filter(|(has, _)| !has) {
            problems.push(format!("crates/formats/src/wire/{name}: has no {what}"));
        }
    }
    let rules = fs::read_to_string("crates/view/src/rules.rs")?;
    let named: BTreeSet<String> = rules
        .lines()
        .filter_map(|line| Some(line.split_once(" = \"")?.1.split_once('"')?.0.to_owned()))
        .collect();
    for page in files(Path::new("crates/view/src/rules"), ".md")? {
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&page)?;
        if !named.contains(&name) {
            problems.push(format!("{}: no such rule", page.display()));
        }
        if !text.starts_with(&format!("# {name}\n")) || text.lines().count() < 8 {
            problems.push(format!("{}: not a page that explains anything", page.display()));
        }
    }
    Ok(())
}

/// The folders of the dialects. A folder without `mod.rs` holds only the tests of the file beside it.
fn dialect_folders() -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir("crates/formats/src/wire")? {
        let folder = entry?;
        let is_dialect = folder.path().join("mod.rs").is_file();
        folders.extend(is_dialect.then(|| folder.file_name().to_string_lossy().into_owned()));
    }
    Ok(folders)
}

/// Where a dialect may be named, besides its own folders and the registry: where formats and services say which one they speak. Here
/// too, nothing may be decided by the name.
const SPEAKERS: &[&str] = &["crates/formats/src/sessions/", "crates/engine/src/provider/registry.rs"];

/// The list of dialects.
const REGISTRY: &str = "crates/formats/src/wire/registry.rs";

/// Only a dialect's own folders tell dialects apart by name; all other code asks the descriptor.
fn dialects(problems: &mut Vec<String>) -> Result<()> {
    let registry = fs::read_to_string(REGISTRY)?;
    let variants: Vec<&str> = registry
        .split_once("pub enum Dialect {")
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(list, _)| list.lines().filter_map(|line| line.trim().strip_suffix(',')).collect())
        .unwrap_or_default();
    let folders = dialect_folders()?;
    ensure!(variants.len() == folders.len(), "the variants of `Dialect` cannot be read");
    let names: Vec<String> = folders.iter().map(|folder| folder.replace('_', "-")).collect();
    for file in files(Path::new("crates"), ".rs")? {
        let path = file.display().to_string();
        let own =
            folders.iter().any(|folder| path.starts_with(&format!("crates/formats/src/wire/{folder}/")));
        let exempt = ["/tests", "/benches/", "/examples/"].iter().any(|part| path.contains(part));
        let checker = path.starts_with("crates/checkers/");
        if own || exempt || checker || path == REGISTRY {
            continue;
        }
        let may_name = SPEAKERS.iter().any(|speaker| path.starts_with(speaker));
        let text = fs::read_to_string(&file)?;
        problems.extend(told_apart(&text, &variants, &names, may_name).map(|(line, name)| {
            format!("{path}:{line}: tells dialects apart by the name {name}; ask the descriptor")
        }));
    }
    Ok(())
}

/// Lines outside comments and tests that name a dialect, or compare something with its name. If the file `may_name` dialects, only
/// lines that compare something with one, or match on it.
fn told_apart<'t>(
    text: &'t str,
    variants: &'t [&str],
    names: &'t [String],
    may_name: bool,
) -> impl Iterator<Item = (usize, &'t str)> {
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(move |(place, line)| {
        let variant = variants.iter().copied().filter(move |variant| {
            let Some((before, rest)) = line.split_once(&format!("Dialect::{variant}")) else { return false };
            !rest.starts_with(char::is_alphanumeric) && (!may_name || is_compared(before, rest))
        });
        let names = if may_name { &[] } else { names };
        let compared = names.iter().map(String::as_str).filter(move |name| {
            let forms = [format!("\"{name}\" =>"), format!("\"{name}\") =>"), format!("= \"{name}\"")];
            forms.iter().enumerate().any(|(kind, form)| {
                let found = line.find(form.as_str());
                found.is_some_and(|at| kind < 2 || line[..at].ends_with(['=', '!']))
            })
        });
        variant.chain(compared).map(move |name| (place + 1, name))
    })
}

/// Whether the value between these two parts of a line is compared with something, or is a pattern.
fn is_compared(before: &str, rest: &str) -> bool {
    let is_pattern = ["matches!(", "if let ", "while let "].iter().any(|word| before.contains(word));
    let before = before.trim_end_matches("Some(").trim_end();
    let rest = rest.trim_start_matches(')').trim_start();
    is_pattern
        || ["==", "!="].iter().any(|sign| before.ends_with(sign))
        || ["==", "!=", "=>", "|", "if "].iter().any(|next| rest.starts_with(next))
}

fn documents(problems: &mut Vec<String>) -> Result<()> {
    for (path, most) in [("README.md", 150), ("ARCHITECTURE.md", 250)] {
        let lines = fs::read_to_string(path).with_context(|| path.to_owned())?.lines().count();
        if lines > most {
            problems.push(format!("{path}: {lines} lines, at most {most}"));
        }
    }
    for path in [
        "CHANGELOG.md",
        "docs/glossary.md",
        "docs/decisions.md",
        "docs/requirements.md",
        "docs/benchmarks.md",
        "docs/peers.md",
    ] {
        if !Path::new(path).is_file() {
            problems.push(format!("{path} is missing"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_told_apart_in_their_folders_only() {
        let names = [String::from("gemini")];
        let lines = |text: &str, may_name| {
            told_apart(text, &["Gemini"], &names, may_name).map(|(line, _)| line).collect::<Vec<_>>()
        };
        let found = |text: &str| lines(text, false);
        assert_eq!(found("\nif dialect == Dialect::Gemini {"), [2]);
        assert_eq!(found("match name {\n    \"gemini\" => 1,\n    Some(\"gemini\") => 2,"), [2, 3]);
        assert_eq!(found("if name == \"gemini\" {\nif name != \"gemini\" {"), [1, 2]);
        for text in [
            "/// `Dialect::Gemini`",
            "Dialect::GeminiLike",
            "name: \"gemini\",",
            "let name = \"gemini\";",
            "#[cfg(test)]\nDialect::Gemini",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
        for text in [
            "if dialect == Dialect::Gemini {",
            "if session.context.dialect != Some(Dialect::Gemini) {",
            "    Dialect::Gemini => 1,",
            "    Some(Dialect::Gemini) => 1,",
            "    Dialect::Gemini | Dialect::Ollama => 1,",
            "matches!(dialect, Dialect::Gemini)",
            "if let Some(Dialect::Gemini) = dialect {",
        ] {
            assert_eq!(lines(text, true), [1], "{text}");
        }
        for text in [
            "Context::of_model(Dialect::Gemini, None)",
            "    \"google\" => Dialect::Gemini,",
            "Only(Dialect::Gemini),",
        ] {
            assert!(lines(text, true).is_empty(), "{text}");
            assert_eq!(lines(text, false), [1], "{text}");
        }
    }
}
