//! Compares our JSON reader with `serde_json`: two independent parsers must agree on what is JSON and what it means.

use std::collections::HashMap;

use rejoin_record::json::{Doc, Value, ValueKind, write};
use serde_json::value::RawValue;

use super::{Broken, Signs};

/// `serde_json` uses stack by depth; deeper input is only read by our reader.
const COMPARED_DEPTH: usize = 200;

/// Checks one text.
pub fn agrees(text: &str, signs: &mut Signs) -> Result<(), Broken> {
    let (prefix, error) = Doc::parse_prefix(text);
    walk(&prefix)?;
    let parsed = Doc::parse(text);
    if parsed.is_ok() != error.is_none() {
        return Err(Broken::new("json prefix", "`parse` and `parse_prefix` differ on whether it is JSON"));
    }
    copies(text)?;
    if let Err(error) = &parsed {
        signs.see(("json error", error.reason()));
    }
    if prefix.max_depth() > COMPARED_DEPTH || nesting(text) > COMPARED_DEPTH {
        signs.see("json deep");
        return Ok(());
    }
    let theirs = read(text);
    match (&parsed, &theirs) {
        (Err(ours), Ok(_)) => Err(Broken::new("json refused", format!("serde_json reads it, we say {ours}"))),
        (Ok(doc), Ok(value)) => {
            if let Some((at, fault)) = doc.first_fault() {
                let words = format!("serde_json reads it, we find {fault:?} at {at}");
                return Err(Broken::new("json fault", words));
            }
            let root =
                doc.root().ok_or_else(|| Broken::new("json root", "a text that was read has no root"))?;
            signs.see(("json", format!("{:?}", root.kind()), doc.max_depth().min(5)));
            same(root, value)
        }
        (Ok(doc), Err(error)) => {
            if let Some((_, fault)) = doc.first_fault() {
                signs.see(("json fault", format!("{fault:?}")));
                return Ok(());
            }
            // A number beyond a float is still JSON, and keeps its spelling here.
            let grammatical = serde_json::from_str::<&RawValue>(text).is_ok();
            if grammatical && error.to_string().contains("number out of range") {
                return Ok(());
            }
            Err(Broken::new("json clean", format!("we find nothing wrong, serde_json says {error}")))
        }
        (Err(_), Err(_)) => Ok(()),
    }
}

fn read(text: &str) -> serde_json::Result<serde_json::Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let value = serde::Deserialize::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// How deep brackets nest at most; those in strings count too, so it may be less in truth.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Calls every accessor on every value; the results must be in the text.
fn walk(doc: &Doc<'_>) -> Result<(), Broken> {
    let Some(root) = doc.root() else { return Ok(()) };
    let mut open = vec![root];
    while let Some(value) = open.pop() {
        if !value.is_cut() && value.kind() != ValueKind::Object && value.kind() != ValueKind::Array {
            let again = Doc::parse(value.raw()).ok().and_then(|doc| doc.root().map(Value::kind));
            if again != Some(value.kind()) {
                return Err(Broken::new("json raw", format!("{:?} is not {:?}", value.raw(), value.kind())));
            }
        }
        if value.is_clean() && value.has_lone_surrogate() {
            return Err(Broken::new("json clean", "clean, and yet with half of a surrogate pair"));
        }
        if let Some(text) = value.as_str() {
            let located = value.to_text(value.start()).map(|text| (text.to_string(), text.is_lossy()));
            if located != Some((text.into_owned(), value.has_lone_surrogate())) {
                return Err(Broken::new("json text", value.raw().to_owned()));
            }
        }
        open.extend(value.items());
        open.extend(value.fields().flat_map(|(key, value)| [key, value]));
    }
    let _ = (doc.strings().count(), root.is_deeper_than(3), root.get("role").is_some());
    Ok(())
}

/// Written output is always JSON.
fn copies(text: &str) -> Result<(), Broken> {
    let (mut copy, mut literal) = (String::new(), String::new());
    write::clean_copy(&mut copy, text);
    let doc =
        Doc::parse(&copy).map_err(|error| Broken::new("json clean copy", format!("{error}: {copy}")))?;
    if doc.first_fault().is_some() || serde_json::from_str::<&RawValue>(&copy).is_err() {
        return Err(Broken::new("json clean copy", copy));
    }
    write::string(&mut literal, text);
    match serde_json::from_str::<String>(&literal) {
        Ok(back) if back == text => Ok(()),
        _ => Err(Broken::new("json string", literal)),
    }
}

/// Whether a value that we read is what `serde_json` read.
pub(super) fn same(ours: Value<'_>, theirs: &serde_json::Value) -> Result<(), Broken> {
    use serde_json::Value as Theirs;
    let mut open = vec![(ours, theirs)];
    while let Some((ours, theirs)) = open.pop() {
        let equal = match theirs {
            Theirs::Null => ours.is_null(),
            Theirs::Bool(truth) => ours.as_bool() == Some(*truth),
            Theirs::Number(number) => ours.kind() == ValueKind::Number && same_number(ours, number),
            Theirs::String(text) => ours.as_str().is_some_and(|own| own == *text) && ours.is_str(text),
            Theirs::Array(items) => {
                let own: Vec<_> = ours.items().collect();
                let equal = ours.kind() == ValueKind::Array && own.len() == items.len();
                open.extend(own.into_iter().zip(items));
                equal
            }
            Theirs::Object(fields) => {
                // Of duplicate keys, the last one counts.
                let own: HashMap<_, _> =
                    ours.fields().filter_map(|(key, value)| Some((key.as_str()?, value))).collect();
                let mut equal = ours.kind() == ValueKind::Object && own.len() == fields.len();
                for (name, value) in fields {
                    match own.get(name.as_str()) {
                        Some(own) => open.push((*own, value)),
                        None => equal = false,
                    }
                }
                equal
            }
        };
        if !equal {
            return Err(Broken::new("json value", format!("{} is read as {theirs}", ours.raw())));
        }
    }
    Ok(())
}

/// Whether the spelling that we kept means their number. Theirs may be off by a few of the last bits of a float.
fn same_number(ours: Value<'_>, theirs: &serde_json::Number) -> bool {
    if let Some(number) = theirs.as_u64() {
        return ours.as_u64() == Some(number) || ours.raw() == "-0";
    }
    if let Some(number) = theirs.as_i64() {
        return ours.as_u64().is_none() && ours.raw().parse() == Ok(number);
    }
    match (ours.raw().parse::<f64>(), theirs.as_f64()) {
        (Ok(own), Some(number)) => (own - number).abs() <= own.abs() * 1e-14,
        _ => false,
    }
}
