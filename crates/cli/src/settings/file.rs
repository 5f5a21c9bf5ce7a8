//! The settings file (TOML): reads it with line numbers for errors, and changes it without losing comments.

use std::path::Path;

use rejoin::store::files;
use toml_edit::{Document, DocumentMut, Item, Table, TomlError, Value};

use super::{KEYS, Setting, Takes, did_you_mean};
use crate::{
    failure::Failure,
    home::{self, IfFileExists},
};

/// The largest file that is read, in bytes. Settings are a few kilobytes.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The settings in the file; empty if there is no file.
pub fn read(path: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let Some(text) = text(path)? else { return Ok(Vec::new()) };
    let document = Document::parse(text.as_str()).map_err(|error| not_toml(path, &text, &error))?;
    let mut found = Vec::new();
    for (name, item, at) in flat(document.as_table()) {
        // MCP servers have a separate reader.
        if name.starts_with("mcp.") {
            continue;
        }
        // A setting that has others below it is written as `mode` in their table.
        let name = name.strip_suffix(".mode").map_or(name.as_str(), |above| above);
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            // A newer version may know this setting.
            let (path, line, near) = (path.display(), line(&text, at), did_you_mean(name));
            tracing::warn!("{path}, line {line}: there is no setting `{name}`; {near}it is ignored");
            continue;
        };
        let value = plain(item, key)
            .ok_or_else(|| String::from("it is a list or a table"))
            .and_then(|value| key.check(&value))
            .map_err(|why| bad(path, &text, at, &format!("`{name}` does not fit: {why}")))?;
        found.push((key.name, value));
    }
    Ok(found)
}

/// A value in the form for the file, or the reason why it cannot be set.
pub fn checked(key: &Setting, value: &str) -> Result<String, Failure> {
    key.check(value).map_err(|why| {
        Failure::usage(format!("`{}` cannot be set: {why}", key.name), format!("{}: {}", key.name, key.about))
    })
}

/// Sets a setting in the file, which is created if it does not exist.
pub fn set(path: &Path, key: &Setting, value: &str) -> Result<(), Failure> {
    let kept = checked(key, value)?;
    let new = match key.takes {
        Takes::Flag => Value::from(kept == "true"),
        Takes::Number | Takes::Count => {
            kept.parse::<i64>().map_or_else(|_| Value::from(kept.as_str()), Value::from)
        }
        // Keep the spelling: 0.8 stays 0.8. A list stays a list.
        Takes::Share | Takes::List | Takes::Rules | Takes::Folders => {
            kept.parse().unwrap_or_else(|_| Value::from(kept.as_str()))
        }
        _ => Value::from(kept.as_str()),
    };
    edit(path, key, Some(new))
}

/// Removes a setting from the file.
pub fn unset(path: &Path, key: &Setting) -> Result<(), Failure> {
    edit(path, key, None)
}

fn edit(path: &Path, key: &Setting, new: Option<Value>) -> Result<(), Failure> {
    let text = text(path)?.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|error| not_toml(path, &text, &error))?;
    let (mut table, mut name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
    let is_table = |name: &str| document.get(name).map(|item| item.as_table_like().is_some());
    if table.is_empty() && is_table(name) == Some(true) {
        (table, name) = (name, "mode");
    } else if is_table(table) == Some(false) {
        // The name of the table already has a value, so write the whole name as one key.
        (table, name) = ("", key.name);
    }
    let holder = match table {
        "" => Some(document.as_table_mut() as &mut dyn toml_edit::TableLike),
        table if new.is_none() => document.get_mut(table).and_then(Item::as_table_like_mut),
        table => document.entry(table).or_insert(Item::Table(Table::new())).as_table_like_mut(),
    };
    match (holder, new) {
        (None, Some(_)) => return Err(bad(path, &text, 0, &format!("`{table}` is no table"))),
        (None, None) => return Ok(()),
        (Some(holder), None) => {
            if holder.remove(name).is_none() {
                return Ok(());
            }
        }
        (Some(holder), Some(mut new)) => {
            // Keep a comment after the old value.
            if let Some(old) = holder.get(name).and_then(Item::as_value) {
                *new.decor_mut() = old.decor().clone();
            }
            match holder.get_mut(name) {
                Some(item) => *item = Item::Value(new),
                None => drop(holder.insert(name, Item::Value(new))),
            }
        }
    }
    write(path, &document.to_string())
}

/// Replaces the file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    home::write_with_folders(path, text.as_bytes(), IfFileExists::Replace)
        .map_err(|why| Failure::unwritable(path.display(), &why))
}

/// The text of the file; `None` if it does not exist.
pub(super) fn text(path: &Path) -> Result<Option<String>, Failure> {
    let not_text = |_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8");
    match files::read_small(path, MOST_BYTES).and_then(|bytes| String::from_utf8(bytes).map_err(not_text)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let hint = "check its permissions, or move it away: every setting has a default";
            Err(Failure::unreadable(path.display(), error, Some(hint)))
        }
    }
}

/// The values of the file with their full names and their offsets.
fn flat(root: &Table) -> Vec<(String, &Item, usize)> {
    let mut found = Vec::new();
    let mut open: Vec<(String, &dyn toml_edit::TableLike)> = vec![(String::new(), root)];
    while let Some((before, table)) = open.pop() {
        for (name, item) in table.iter() {
            let whole = format!("{before}{name}");
            match item.as_table_like() {
                Some(inner) => open.push((format!("{whole}."), inner)),
                None => {
                    let at = table.key(name).and_then(|key| key.span()).or_else(|| item.span());
                    found.push((whole, item, at.map_or(0, |span| span.start)));
                }
            }
        }
    }
    found
}

/// A value as a text; `None` for tables, and for lists if a single value is expected.
fn plain(item: &Item, key: &Setting) -> Option<String> {
    Some(match item.as_value()? {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(flag) => flag.value().to_string(),
        Value::Datetime(time) => time.value().to_string(),
        Value::Array(list) if matches!(key.takes, Takes::List | Takes::Rules | Takes::Folders) => {
            list.to_string().trim().to_owned()
        }
        Value::Array(_) | Value::InlineTable(_) => return None,
    })
}

/// The line of an offset, counted from 1.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

pub(super) fn not_toml(path: &Path, text: &str, error: &TomlError) -> Failure {
    bad(path, text, error.span().map_or(0, |span| span.start), error.message())
}

pub(super) fn bad(path: &Path, text: &str, at: usize, why: &str) -> Failure {
    let why = why.trim().replace('\n', " ");
    let what = format!("{}, line {}: {why}", path.display(), line(text, at));
    Failure::usage(what, "correct that line or remove it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn comments_and_order_survive() {
        let before = "# mine\nmodel = \"a\" # the old one\n\n[audit] # for the auditor\nfull_arguments = false\n\n[other]\nx = [1, 2]\n";
        let (_folder, path) = file(before);
        set(&path, Setting::named("model").unwrap(), "b").unwrap();
        set(&path, Setting::named("audit.full_arguments").unwrap(), "yes").unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, before.replace("\"a\"", "\"b\"").replace("= false", "= true"));
        set(&path, Setting::named("prune_threshold").unwrap(), "0.75").unwrap();
        let found = read(&path).unwrap();
        assert!(found.contains(&("prune_threshold", String::from("0.75"))), "{found:?}");
        assert!(found.contains(&("audit.full_arguments", String::from("true"))), "{found:?}");
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, says) in [
            ("model = \"a\"\nnonsense\n", 2, ""),
            ("\n\nmax_tokens = \"many\"\n", 3, "`many` is not a whole number"),
            ("model = [1]\n", 1, "it is a list or a table"),
            ("[audit]\nfull_arguments = 3\n", 2, "not `true` or `false`"),
        ] {
            let (_folder, path) = file(text);
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("config.toml, line {line}: ")), "{error}");
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_file_is_made_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.toml");
        assert!(read(&path).unwrap().is_empty());
        set(&path, Setting::named("audit.full_arguments").unwrap(), "true").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[audit]\nfull_arguments = true\n");
    }
}
