//! The engine of all checkers: reads a body, collects the verdict, and reports the faults that all dialects share in the provider's
//! words. The rules of a dialect are in its folder.

use std::{
    ops::{Deref, Index},
    thread,
};

use serde_json::Value;

use crate::{
    Extent, Verdict, Violation,
    body::read_body,
    shape::{self, Fault, FaultKind, Row},
    words,
};

/// A position in a request: the value there, if there is one, and the path to it, such as `messages.3.content.0`.
///
/// It can be read like the value; a missing one reads like `null`.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub path: String,
    pub value: Option<&'a Value>,
}

/// The most fields of an object that are compared one by one.
const FEW: usize = 8;

impl<'a> At<'a> {
    pub fn get(&self, field: &str) -> At<'a> {
        self.child(field, self.field(field))
    }

    /// The value of a field, without its position.
    pub fn field(&self, field: &str) -> Option<&'a Value> {
        let fields = self.value?.as_object()?;
        if fields.len() > FEW {
            return fields.get(field);
        }
        // Comparing a few short names is faster than hashing one.
        fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// Any value under a longer path.
    pub fn child(&self, segment: &str, value: Option<&'a Value>) -> At<'a> {
        // Build the path in one allocation: there are many positions, and most are never shown.
        let mut path = String::with_capacity(self.path.len() + 1 + segment.len());
        path.push_str(&self.path);
        path.push_str(if self.path.is_empty() { "" } else { "." });
        path.push_str(segment);
        At { path, value }
    }

    /// The same value under a longer path: some servers put the type of a block into its path.
    pub fn under(&self, segment: &str) -> At<'a> {
        self.child(segment, self.value)
    }

    /// The items of a list; empty for other types.
    pub fn items(&self) -> Vec<At<'a>> {
        let items = self.value.and_then(Value::as_array).into_iter().flatten().enumerate();
        items.map(|(k, item)| self.child(&k.to_string(), Some(item))).collect()
    }

    /// The names of an object's fields; empty for other types.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.as_object().into_iter().flat_map(serde_json::Map::keys)
    }

    pub fn text(&self) -> Option<&'a str> {
        self.value?.as_str()
    }

    /// Whether there is a value other than `null`.
    pub fn is_given(&self) -> bool {
        !self.is_null()
    }
}

impl Deref for At<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value.unwrap_or(&Value::Null)
    }
}

impl Index<&str> for At<'_> {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        self.field(field).unwrap_or(&Value::Null)
    }
}

impl From<&At<'_>> for String {
    fn from(at: &At<'_>) -> Self {
        at.path.clone()
    }
}

/// How a provider reads requests and words its errors.
pub(crate) struct Provider {
    /// The rule for everything that the types of a request refuse.
    pub schema: &'static str,
    /// The provider's error for a body that is not an object. `{a type}` and `{type}` are filled in.
    pub not_an_object: &'static str,
    /// The provider's words for a fault at a position.
    pub words: fn(&str, &FaultKind<'_>) -> String,
    /// The provider's form of a path.
    pub place: fn(&str) -> String,
    /// A field's name as the table of settings spells it.
    pub spelling: fn(&str) -> String,
    /// The largest body that the provider reads, in bytes, and the rule for it.
    pub largest_body: (usize, &'static str),
}

/// The rules of one dialect.
pub(crate) trait Dialect: Sized {
    const PROVIDER: Provider;
    /// The fields of a request.
    const SETTINGS: &'static [Row];
    /// The state that the rules carry from message to message.
    type State<'a>: Default;

    /// Judges a request: first its settings, then message by message.
    fn request<'a>(check: &mut Check<'a, Self>, body: At<'a>);
}

/// Makes a type a dialect: the state of its rules, the fields of a request, and its provider. Its rules start in `Check::request`.
macro_rules! dialect {
    ($name:ident, $state:ty, $settings:expr, $provider:expr) => {
        impl Dialect for $name {
            const PROVIDER: Provider = $provider;
            const SETTINGS: &'static [Row] = $settings;
            type State<'a> = $state;

            fn request<'a>(check: &mut Check<'a, Self>, body: At<'a>) {
                check.request(body);
            }
        }
    };
}

pub(crate) use dialect;

pub(crate) struct Check<'a, D: Dialect> {
    pub extent: Extent,
    pub verdict: Verdict,
    pub state: D::State<'a>,
}

/// Lists every reason why the provider would refuse a body, in the order of the document; empty if it is accepted.
pub(crate) fn judge<D: Dialect>(body: &[u8], extent: Extent) -> Verdict {
    judge_read::<D>(&read_body(body, D::PROVIDER.schema), body.len(), extent)
}

/// Judges messages that were already parsed; `bytes` is the length of the request that they are part of.
pub(crate) fn judge_list<D: Dialect>(list: &str, messages: Vec<Value>, bytes: usize) -> Verdict {
    let is_long = messages.len() >= LONG;
    let request = Value::Object(serde_json::Map::from_iter([(list.to_owned(), Value::Array(messages))]));
    let request = Ok(request);
    let verdict = judge_read::<D>(&request, bytes, Extent::Messages);
    if is_long {
        // Freeing all values takes long, so another thread does it. On systems without threads, it happens here.
        let _freed = thread::Builder::new().spawn(move || drop(request));
    }
    verdict
}

/// The number of messages from which a second thread is worth starting.
const LONG: usize = 1000;

fn judge_read<D: Dialect>(request: &Result<Value, Violation>, bytes: usize, extent: Extent) -> Verdict {
    let mut check = Check::<D> { extent, verdict: Verdict::default(), state: D::State::default() };
    let (largest, rule) = D::PROVIDER.largest_body;
    if bytes > largest {
        let message = format!("request_too_large: Request exceeds the maximum size of {largest} bytes");
        check.refuse(rule, "body", message);
    }
    match request {
        Ok(body @ Value::Object(_)) => {
            D::request(&mut check, At { path: String::new(), value: Some(body) });
        }
        Ok(other) => {
            let message = D::PROVIDER.not_an_object.replace("{a type}", words::kind_of(other));
            check.refuse(D::PROVIDER.schema, "body", message.replace("{type}", words::go_kind_of(other)));
        }
        Err(violation) => check.verdict.violations.push(violation.clone()),
    }
    check.verdict
}

impl<'a, D: Dialect> Check<'a, D> {
    /// Adds a refusal with a complete message.
    pub fn refuse(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.violations.push(Violation::new(rule, path, message));
    }

    /// Adds a note about something that only some models or servers accept.
    pub fn note(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.notes.push(Violation::new(rule, path, message));
    }

    /// Adds a refusal for a fault, in the provider's words.
    pub fn fault(&mut self, rule: &'static str, path: impl Into<String>, what: &FaultKind<'_>) {
        let path = path.into();
        let message = (D::PROVIDER.words)(&(D::PROVIDER.place)(&path), what);
        self.refuse(rule, path, message);
    }

    /// Adds a refusal for a reason, to which the provider's words add the position.
    pub fn refuse_at(&mut self, rule: &'static str, path: impl Into<String>, reason: &str) {
        self.fault(rule, path, &FaultKind::Other(reason));
    }

    /// Adds a refusal for something that the types of a request do not accept.
    pub fn schema(&mut self, path: impl Into<String>, reason: &str) {
        self.refuse_at(D::PROVIDER.schema, path, reason);
    }

    pub fn missing(&mut self, path: impl Into<String>) {
        self.fault(D::PROVIDER.schema, path, &FaultKind::Missing);
    }

    pub fn mistyped(&mut self, at: &At<'_>, expected: &'static str) {
        self.fault(D::PROVIDER.schema, at, &FaultKind::Type { expected, found: at });
    }

    /// Compares the request with the table of its settings.
    pub fn setting_faults<'v>(&self, body: &At<'v>) -> Vec<Fault<'v>> {
        let fields = body.value.and_then(Value::as_object);
        fields.map_or_else(Vec::new, |fields| {
            shape::faults(fields, D::SETTINGS, self.extent, D::PROVIDER.spelling)
        })
    }

    pub fn check_settings(&mut self, body: &At<'_>) {
        for fault in self.setting_faults(body) {
            let message = (D::PROVIDER.words)(&fault.path, &fault.what);
            self.refuse(D::PROVIDER.schema, fault.path, message);
        }
    }

    /// The items of a required list.
    pub fn list(&mut self, at: &At<'a>, expected: &'static str) -> Option<Vec<At<'a>>> {
        match at.value {
            Some(Value::Array(_)) => return Some(at.items()),
            Some(_) => self.mistyped(at, expected),
            None => self.missing(at),
        }
        None
    }

    /// Refuses anything but an object; returns whether it is one.
    pub fn object(&mut self, at: &At<'_>, expected: &'static str) -> bool {
        self.needs_type(at, Value::is_object, expected);
        at.is_object()
    }

    /// The text of a required field.
    pub fn string(&mut self, at: &At<'a>) -> Option<&'a str> {
        match at.value {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.mistyped(at, "a string"),
            None => self.missing(at),
        }
        None
    }

    /// Refuses a field that is not of the expected type.
    pub fn needs_type(&mut self, at: &At<'_>, fits: fn(&Value) -> bool, expected: &'static str) {
        if !fits(at) {
            self.mistyped(at, expected);
        }
    }

    /// Refuses a field that is present and not of the expected type.
    pub fn check_type(&mut self, at: &At<'_>, fits: fn(&Value) -> bool, expected: &'static str) {
        if at.value.is_some() {
            self.needs_type(at, fits, expected);
        }
    }

    /// Refuses every field that is not listed in `known`, which is separated by spaces.
    pub fn only_fields(&mut self, at: &At<'_>, known: &str) {
        for field in at.keys().filter(|field| !known.split(' ').any(|known| known == *field)) {
            self.fault(D::PROVIDER.schema, &at.get(field), &FaultKind::Unknown);
        }
    }
}
