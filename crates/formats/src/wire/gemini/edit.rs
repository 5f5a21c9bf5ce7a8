//! Changing a part's own bytes: its signature, or a field of its call or result.

use super::read::fields::{CamelFields, SENTINEL, camel};
use crate::wire::prelude::*;

/// What happens to a part's signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Signing {
    Kept,
    LeftOut,
    /// The sentinel replaces it.
    Sentinel,
}

/// Changes a part's signature and sets fields of its call or result; `None` removes a field. Everything else stays.
pub(super) fn edited(raw: &str, signing: Signing, fields: &[(&str, Option<String>)]) -> String {
    let doc = Doc::of(raw);
    let part = doc.root().filter(|part| part.kind() == ValueKind::Object);
    let Some(part) = part else { return raw.to_owned() };
    if signing == Signing::Sentinel && fields.is_empty() && !CamelFields::of(part).has("thoughtSignature") {
        // Only one more field is needed.
        return format!("{},\"thoughtSignature\":\"{SENTINEL}\"}}", &raw[..raw.len() - 1]);
    }
    let mut out = String::with_capacity(raw.len() + 64);
    out.push('{');
    for (key, value) in part.fields() {
        let name = key.as_str().unwrap_or_default();
        match &*camel(&name) {
            "thoughtSignature" if signing != Signing::Kept => {}
            "functionCall" | "functionResponse"
                if !fields.is_empty() && value.kind() == ValueKind::Object =>
            {
                write::key(&mut out, &name);
                out.push('{');
                let mut written: Vec<&str> = Vec::new();
                for (key, value) in value.fields() {
                    let name = key.as_str().unwrap_or_default();
                    match fields.iter().find(|(field, _)| *field == name) {
                        Some((field, _)) if written.contains(field) => {}
                        Some((field, json)) => {
                            written.push(field);
                            field_of(&mut out, &name, json.as_deref());
                        }
                        None => field_of(&mut out, &name, Some(value.raw())),
                    }
                }
                for (field, json) in fields.iter().filter(|(field, _)| !written.contains(field)) {
                    field_of(&mut out, field, json.as_deref());
                }
                out.push('}');
            }
            _ => field_of(&mut out, &name, Some(value.raw())),
        }
    }
    if signing == Signing::Sentinel {
        write::key(&mut out, "thoughtSignature");
        write::string(&mut out, SENTINEL);
    }
    out.push('}');
    out
}

fn field_of(out: &mut String, name: &str, json: Option<&str>) {
    if let Some(json) = json {
        write::key(out, name);
        out.push_str(json);
    }
}

/// The id of the call or result in a part's own bytes, if it has one.
pub(super) fn id_in(raw: &str) -> Option<String> {
    let doc = Doc::parse(raw).ok()?;
    let part = CamelFields::of(doc.root()?);
    let holder = part.given("functionCall").or_else(|| part.given("functionResponse"))?;
    let id = CamelFields::of(holder).given("id")?.as_str()?.into_owned();
    // An empty id counts as none.
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_something_changed() {
        let call = r#"{ "functionCall": {"name":"a", "args":{"x": 1}} }"#;
        let sentinel = format!("\"thoughtSignature\":\"{SENTINEL}\"");
        assert_eq!(
            edited(call, Signing::Sentinel, &[]),
            format!(r#"{{ "functionCall": {{"name":"a", "args":{{"x": 1}}}} ,{sentinel}}}"#)
        );
        assert_eq!(edited(call, Signing::LeftOut, &[]), r#"{"functionCall":{"name":"a", "args":{"x": 1}}}"#);
        let signed = r#"{"thought_signature":"c2ln","function_call":{"id":"1","name":"a","args":{}}}"#;
        assert_eq!(
            edited(signed, Signing::Sentinel, &[("name", Some("\"b\"".into())), ("id", None)]),
            format!(r#"{{"function_call":{{"name":"b","args":{{}}}},{sentinel}}}"#)
        );
        assert_eq!(edited(signed, Signing::Kept, &[]), signed);
        assert_eq!(id_in(signed).as_deref(), Some("1"));
        assert_eq!(id_in(call), None);
    }
}
