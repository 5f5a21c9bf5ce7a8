//! The house rules: dependencies between crates, file headers, unique names of public types, registered folders, JSON that is not
//! written by hand, and a ceiling on dependencies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

use crate::run::files;

/// Which crate may depend on which. Adding an edge is a deliberate decision.
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

/// The number of packages in the lock file. Raising it shows up in a diff.
const LOCKED_PACKAGES: usize = 426;

pub fn tidy() -> Result<()> {
    let mut problems = Vec::new();
    edges(&mut problems)?;
    headers(&mut problems)?;
    names(&mut problems)?;
    registered(&mut problems)?;
    documents(&mut problems)?;
    dialects(&mut problems)?;
    objects(&mut problems)?;
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

/// No two public types of the workspace share a name; otherwise a reader would have to look up which one is meant.
fn names(problems: &mut Vec<String>) -> Result<()> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(Path::new("crates"), ".rs")? {
        let shown = file.display().to_string();
        if !shown.contains("/src/") {
            continue;
        }
        for name in public_types(&fs::read_to_string(&file)?) {
            places.entry(name).or_default().push(shown.clone());
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

/// The names of the public types that a file declares, itself or through one of its macros, such as `body! { Turn { … } }`.
fn public_types(text: &str) -> Vec<String> {
    let (mut names, mut macros) = (Vec::new(), BTreeSet::new());
    let (mut defined, mut invoked) = (None, false);
    for line in text.lines() {
        let item = line.trim_start();
        if line == "}" {
            (defined, invoked) = (None, false);
        } else if let Some(name) = line.strip_prefix("macro_rules! ") {
            defined = name.strip_suffix(" {");
        } else if let Some(name) = line.strip_suffix("! {") {
            invoked = macros.contains(name);
        }
        let declared = ["struct ", "enum ", "trait ", "type ", "union "]
            .iter()
            .find_map(|kind| item.strip_prefix("pub ")?.strip_prefix(kind));
        if declared.is_some_and(|name| name.starts_with('$')) {
            macros.extend(defined);
        }
        let made = line.strip_prefix("    ").filter(|name| invoked && name.starts_with(char::is_uppercase));
        let Some(name) = declared.or(made) else { continue };
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if end > 0 {
            names.push(name[..end].to_owned());
        }
    }
    names
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

/// The files, apart from a dialect's own folders and the registry, in which a dialect may be named: formats and services that state
/// their dialect. Even there, no decision may depend on the name.
const SPEAKERS: &[&str] = &["crates/formats/src/sessions/", "crates/engine/src/provider/registry.rs"];

/// The list of dialects.
const REGISTRY: &str = "crates/formats/src/wire/registry.rs";

/// Only a dialect's own folder may compare dialects by name; all other code uses the descriptor.
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
/// lines that compare with one, or match on it.
fn told_apart<'t>(
    text: &'t str,
    variants: &'t [&str],
    names: &'t [String],
    may_name: bool,
) -> impl Iterator<Item = (usize, &'t str)> {
    let code = without_tests(text).filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(move |(place, line)| {
        let variant = variants.iter().copied().filter(move |variant| {
            let Some((before, rest)) = line.split_once(&format!("Dialect::{variant}")) else { return false };
            !rest.starts_with(char::is_alphanumeric) && (!may_name || is_compared(before, rest))
        });
        let names = if may_name { &[] } else { names };
        let compared = names.iter().map(String::as_str).filter(move |name| {
            let quoted = format!("\"{name}\"");
            let Some((before, rest)) = line.split_once(&quoted) else { return false };
            let (before, rest) = (before.trim_end(), rest.trim_start());
            ["=>", ") =>", "|"].iter().any(|next| rest.starts_with(next))
                || ["==", "!=", "|", "contains(", "starts_with(", "ends_with("]
                    .iter()
                    .any(|sign| before.ends_with(sign))
        });
        variant.chain(compared).map(move |name| (place + 1, name))
    })
}

/// The lines of a file outside items that are only compiled for tests, numbered from 0.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_tests = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let was_in_tests = in_tests;
        let ends = *line == "}" || (!line.starts_with([' ', '#', '/']) && line.ends_with([';', '}']));
        in_tests = *line == "#[cfg(test)]" || (in_tests && !ends);
        !in_tests && !was_in_tests
    })
}

/// The places that may have the beginning of a JSON object as a literal: the writer of JSON itself; the checkers, which do not use it;
/// and code that looks for the beginnings of lines in damaged files.
const BEGINNINGS: &[&str] = &[
    "crates/record/src/json/",
    "crates/checkers/",
    "crates/store/src/jsonl/pieces.rs",
    "crates/formats/src/sessions/lines.rs",
];

/// JSON objects are written with `json::Object`, which escapes and separates their fields. A literal may only be a whole object.
fn objects(problems: &mut Vec<String>) -> Result<()> {
    for file in files(Path::new("crates"), ".rs")? {
        let path = file.display().to_string();
        let is_test = !path.contains("/src/") || path.contains("/tests");
        if is_test || BEGINNINGS.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        problems.extend(
            written_by_hand(&text)
                .into_iter()
                .map(|line| format!("{path}:{line}: writes a JSON object by hand; use `json::Object`")),
        );
    }
    Ok(())
}

/// The lines outside comments and tests with a literal that begins a JSON object but is not a whole one.
fn written_by_hand(text: &str) -> Vec<usize> {
    let code = text.split("\n#[cfg(test)]\nmod tests {\n").next().unwrap_or_default();
    let begins = |literal: &str| {
        let field = literal.trim_start_matches('{').trim_start();
        field.len() < literal.len() && field.starts_with('"')
    };
    let is_whole = |literal: &str| serde_json::from_str::<serde_json::Value>(literal).is_ok();
    let literals = literals(code).into_iter();
    let found = literals.filter(|(_, literal)| begins(literal) && !is_whole(literal));
    found.map(|(at, _)| code[..at].lines().count().max(1)).collect()
}

/// The string literals of some Rust code that contain a quotation mark, and their places.
fn literals(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = code[at..].find(['"', '/', '\'']) {
        let start = at + next;
        let rest = &code[start..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("'").map_or(1, |end| end + 2)
        } else if rest.starts_with('"') {
            let before = &code[..start];
            let marks = before.len() - before.trim_end_matches('#').len();
            let raw = before[..before.len() - marks].ends_with('r');
            let (text, length) = literal(rest, raw.then_some(marks));
            if text.contains('"') {
                found.push((start, text));
            }
            length
        } else {
            1
        };
        at = start + length;
    }
    found
}

/// The text of the literal that begins here, and its length in the source. A raw one ends with this many `#`.
fn literal(code: &str, raw: Option<usize>) -> (String, usize) {
    let inside = &code[1..];
    if let Some(marks) = raw {
        let end = format!("\"{}", "#".repeat(marks));
        let length = inside.find(&end).unwrap_or(inside.len());
        return (inside[..length].to_owned(), (1 + length + end.len()).min(code.len()));
    }
    let mut text = String::new();
    let mut rest = inside.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => break,
            // Only these escapes matter here. The line break is left out, with the white space that follows it.
            '\\' => match rest.next() {
                Some('\n') => rest = rest.as_str().trim_start().chars(),
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => text.push(' '),
            },
            letter => text.push(letter),
        }
    }
    (text, code.len() - rest.as_str().len())
}

/// Whether the value between these two parts of a line is compared, or is a pattern.
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
    let mut sources = Vec::new();
    for folder in ["crates", "testkit", "xtask"] {
        sources.extend(files(Path::new(folder), ".rs")?.iter().map(|path| path.display().to_string()));
    }
    let page = fs::read_to_string("ARCHITECTURE.md")?;
    for name in page.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") && !name.contains('<'))
    {
        let in_room = name.replacen('/', "/src/", 1);
        let is_there = |path: &String| {
            [name, &in_room]
                .iter()
                .any(|name| path.strip_suffix(*name).is_some_and(|rest| rest.ends_with('/')))
        };
        if !sources.iter().any(is_there) {
            problems.push(format!("ARCHITECTURE.md names `{name}`, and there is no such file"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_made_by_macros_have_names_too() {
        let text = "macro_rules! body {\n    ($name:ident) => {\n        pub struct $name;\n    };\n}\n\nbody! {\n    /// One.\n    \
                    Turn {\n        state: u8,\n    }\n}\n\npub enum Role {\n    User,\n}\n\nother! {\n    Model {\n    }\n}\n";
        assert_eq!(public_types(text), ["Turn", "Role"]);
    }

    #[test]
    fn whole_objects_may_be_literals_and_beginnings_may_not() {
        for text in [
            r#"out.push_str("{\"type\":\"text\",\"text\":");"#,
            r#"let json = format!("{{\"url\": {}}}", url);"#,
            r##"let json = format!(r#"{{"url":{url}}}"#);"##,
            r#"let quote = '"'; out.push_str("{\"a\":");"#,
            "let json = String::from(\n    \"{ \\\"a\\\":\");",
        ] {
            assert_eq!(written_by_hand(text), [text.lines().count()], "{text}");
        }
        for text in [
            r#"const NONE: &str = "{\"input\":0}";"#,
            "const NONE: &str = \"{\\\"input\\\":0,\\\n    \\\"output\\\":0}\";",
            r##"const ANY: &str = r#"{"type":"object"}"#;"##,
            r#"// out.push_str("{\"type\":");"#,
            r#"write!(out, "{} \"{}\"", 1, 2)"#,
            "#[cfg(test)]\nmod tests {\n    const A: &str = \"{\\\"a\\\":\";",
        ] {
            assert!(written_by_hand(&format!("\n{text}")).is_empty(), "{text}");
        }
    }

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
        assert_eq!(found("    \"gemini\" | \"other\" => 1,\n    \"other\" | \"gemini\" => 2,"), [1, 2]);
        assert_eq!(found("if name.contains(\"gemini\") {"), [1]);
        // Only what belongs to a test is exempt.
        assert_eq!(found("#[cfg(test)]\nmod tests;\nDialect::Gemini"), [3]);
        assert_eq!(found("#[cfg(test)]\nfn test() {\n    Dialect::Gemini\n}\nDialect::Gemini"), [5]);
        for text in [
            "/// `Dialect::Gemini`",
            "Dialect::GeminiLike",
            "name: \"gemini\",",
            "let name = \"gemini\";",
            "#[cfg(test)]\nmod tests {\n    Dialect::Gemini\n}",
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
