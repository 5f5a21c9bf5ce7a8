//! The fields of Gemini's objects, in either of their two spellings.

use std::borrow::Cow;

use rejoin_record::json::{Doc, Value};

/// The documented value, in base64, that turns the check of a signature off, for calls that were issued elsewhere.
pub const SENTINEL: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Signatures that no provider issued, and that are bound to nothing: the two documented values, plain and in base64.
const UNBOUND: &[&str] = &[
    SENTINEL,
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
    "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
];

/// A field name in the API's first spelling: `function_call` is `functionCall`. Other names with a `_` stay as they are.
pub fn camel(name: &str) -> Cow<'_, str> {
    let mut words = name.split('_');
    let word = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    if !name.contains('_') || !words.all(word) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    for (place, word) in name.split('_').enumerate() {
        let (first, rest) = word.split_at(usize::from(place > 0));
        out.push_str(&first.to_ascii_uppercase());
        out.push_str(rest);
    }
    Cow::Owned(out)
}

pub struct CamelFields<'d> {
    list: Vec<(Cow<'d, str>, Value<'d>)>,
}

impl<'d> CamelFields<'d> {
    /// The fields of an object; of any other value there are none.
    pub fn of(value: Value<'d>) -> Self {
        let list = value.fields().map(|(key, value)| {
            let name = match key.as_str().unwrap_or_default() {
                Cow::Borrowed(name) => camel(name),
                Cow::Owned(name) => Cow::Owned(camel(&name).into_owned()),
            };
            (name, value)
        });
        Self { list: list.collect() }
    }

    /// A field that is present and not `null`; of duplicates the last one.
    pub fn given(&self, name: &str) -> Option<Value<'d>> {
        self.list
            .iter()
            .rev()
            .find(|(field, _)| field == name)
            .map(|(_, value)| *value)
            .filter(|v| !v.is_null())
    }

    /// Whether a field is present, even as `null`.
    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|(field, _)| field == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| &**name)
    }

    /// All fields that are not `null`, in order.
    pub fn all(&self) -> impl Iterator<Item = (&str, Value<'d>)> {
        self.list.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (&**name, *value))
    }

    /// Whether every field is one of these, without duplicates. The API refuses anything else.
    pub fn are_among(&self, known: &[&str]) -> bool {
        self.list.iter().all(|(name, _)| known.contains(&&**name)) && self.are_distinct(known.len())
    }

    /// Whether no field occurs twice, in any spelling. There are at most `names` different fields.
    pub fn are_distinct(&self, names: usize) -> bool {
        // More fields than names means a duplicate; this check keeps the search short.
        let twice = |place: usize, name: &str| self.list[..place].iter().any(|(other, _)| other == name);
        self.list.len() <= names && !self.list.iter().enumerate().any(|(place, (name, _))| twice(place, name))
    }
}

/// Whether a text is base64 as the API accepts it: in either alphabet, padded or not.
pub fn is_bytes(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    let of =
        |marks: [u8; 2]| letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte));
    !letters.is_empty()
        && (of(*b"+/") || of(*b"-_"))
        && letters.len() % 4 != 1
        && (padding == 0 || (padding <= 2 && text.len().is_multiple_of(4)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    Absent,
    /// A documented placeholder, which may stay anywhere.
    Unbound,
    /// A signature of the provider, bound to a model and to everything before it.
    Bound,
    /// A signature that the API cannot read.
    Corrupt,
}

impl Signature {
    pub fn of(part: &CamelFields<'_>) -> Self {
        match part.given("thoughtSignature").and_then(Value::as_str) {
            Some(text) if UNBOUND.contains(&&*text) => Self::Unbound,
            Some(text) if is_bytes(&text) => Self::Bound,
            Some(_) => Self::Corrupt,
            None => Self::Absent,
        }
    }

    pub fn in_part(raw: &str) -> Self {
        // Most parts have none and need no parsing. Parts that spell the name with escapes have no span, so they never get here.
        if !raw.contains("ignature\"") {
            return Self::Absent;
        }
        let doc = Doc::of(raw);
        doc.root().map_or(Self::Absent, |part| Self::of(&CamelFields::of(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one() {
        assert_eq!(camel("function_call"), "functionCall");
        for other in ["functionCall", "_text", "text_", "function__call", "function_Call"] {
            assert_eq!(camel(other), other);
        }
        let doc = Doc::parse(r#"{"function_call":1,"text":null,"x":2}"#).unwrap();
        let fields = CamelFields::of(doc.root().unwrap());
        assert!(
            fields.given("functionCall").is_some() && fields.given("text").is_none() && fields.has("text")
        );
        assert!(!fields.are_among(&["functionCall", "text"]));
        assert!(fields.are_among(&["functionCall", "text", "x"]));
        let doc = Doc::parse(r#"{"function_call":1,"functionCall":2}"#).unwrap();
        assert!(
            !CamelFields::of(doc.root().unwrap()).are_among(&["functionCall", "text"]),
            "the field occurs twice"
        );
    }

    #[test]
    fn signatures() {
        for (part, signature) in [
            (r#"{"text":"a"}"#, Signature::Absent),
            (r#"{"text":"a","thoughtSignature":null}"#, Signature::Absent),
            (r#"{"text":"a","thoughtSignature":""}"#, Signature::Corrupt),
            (r#"{"text":"a \"thoughtSignature\" b"}"#, Signature::Absent),
            (r#"{"text":"a","thought_signature":"c2ln"}"#, Signature::Bound),
            (r#"{"text":"a","thought_signature":"somebody's"}"#, Signature::Corrupt),
            (r#"{"text":"a","thoughtSignature":"c2lnc"}"#, Signature::Corrupt),
            (r#"{"text":"a","thoughtSignature":"c2ln="}"#, Signature::Corrupt),
            (r#"{"text":"a","thoughtSignature":"c2k="}"#, Signature::Bound),
            (r#"{"thoughtSignature":"skip_thought_signature_validator","text":"a"}"#, Signature::Unbound),
        ] {
            assert_eq!(Signature::in_part(part), signature, "{part}");
        }
    }
}
