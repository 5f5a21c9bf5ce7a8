//! The engine under every checker: it reads a body, collects the verdict, and reports the faults that all dialects share in
//! the provider's words. The rules of a dialect are in its folder.

use serde_json::{Map, Value};

use crate::{
    Scope, Verdict, Violation,
    body::read_body,
    shape::{self, Fault, Row, What},
    words,
};

/// The fields of a JSON object.
pub(crate) type Fields = Map<String, Value>;

/// How a provider reads requests and words its refusals.
pub(crate) struct Provider {
    /// The rule for everything that the types of a request refuse.
    pub schema: &'static str,
    /// What the provider says to a body that is not an object. `{a type}` and `{type}` are filled in.
    pub not_an_object: &'static str,
    /// How the provider words a fault at a place.
    pub words: fn(&str, &What<'_>) -> String,
    /// How the provider writes a path.
    pub place: fn(&str) -> String,
    /// A field's name as the table of settings spells it.
    pub spelling: fn(&str) -> String,
    /// The largest body that the provider reads, and the rule that says so.
    pub largest_body: (usize, &'static str),
}

/// The rules of one dialect.
pub(crate) trait Dialect: Sized {
    const PROVIDER: Provider;
    /// The fields of a request.
    const SETTINGS: &'static [Row];
    /// What the rules remember from message to message.
    type State<'a>: Default;

    /// Judges a request: first its settings, then message by message.
    fn request<'a>(check: &mut Check<'a, Self>, fields: &'a Fields);
}

/// Makes a type a dialect: what its rules remember, the fields of a request, and its provider. Its rules start in
/// `Check::request`.
macro_rules! dialect {
    ($name:ident, $state:ty, $settings:expr, $provider:expr) => {
        impl Dialect for $name {
            const PROVIDER: Provider = $provider;
            const SETTINGS: &'static [Row] = $settings;
            type State<'a> = $state;

            fn request<'a>(check: &mut Check<'a, Self>, fields: &'a Fields) {
                check.request(fields);
            }
        }
    };
}

pub(crate) use dialect;

/// One check of one body.
pub(crate) struct Check<'a, D: Dialect> {
    pub scope: Scope,
    pub verdict: Verdict,
    pub state: D::State<'a>,
}

/// Lists every reason why the provider would refuse a body, in the order of the document; none means it is accepted.
pub(crate) fn judge<D: Dialect>(body: &[u8], scope: Scope) -> Verdict {
    judge_read::<D>(&read_body(body, D::PROVIDER.schema), body.len(), scope)
}

/// The same for messages that were parsed already; `bytes` is the length of the request they are part of.
pub(crate) fn judge_list<D: Dialect>(list: &str, messages: Vec<Value>, bytes: usize) -> Verdict {
    let request = Value::Object(Fields::from_iter([(list.to_owned(), Value::Array(messages))]));
    judge_read::<D>(&Ok(request), bytes, Scope::Messages)
}

fn judge_read<D: Dialect>(request: &Result<Value, Violation>, bytes: usize, scope: Scope) -> Verdict {
    let mut check = Check::<D> { scope, verdict: Verdict::default(), state: D::State::default() };
    let (largest, rule) = D::PROVIDER.largest_body;
    if bytes > largest {
        let message = format!("request_too_large: Request exceeds the maximum size of {largest} bytes");
        check.refuse(rule, "body", message);
    }
    match request {
        Ok(Value::Object(fields)) => D::request(&mut check, fields),
        Ok(other) => {
            let message = D::PROVIDER.not_an_object.replace("{a type}", words::kind_of(other));
            check.refuse(D::PROVIDER.schema, "body", message.replace("{type}", words::go_kind_of(other)));
        }
        Err(violation) => check.verdict.violations.push(violation.clone()),
    }
    check.verdict
}

impl<'a, D: Dialect> Check<'a, D> {
    /// Refuses with a whole message.
    pub fn refuse(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.violations.push(Violation::new(rule, path, message));
    }

    /// Notes something that only some models or servers accept.
    pub fn note(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.notes.push(Violation::new(rule, path, message));
    }

    /// Refuses a fault; the provider's words make the message.
    pub fn fault(&mut self, rule: &'static str, path: &str, what: &What<'_>) {
        self.refuse(rule, path, (D::PROVIDER.words)(&(D::PROVIDER.place)(path), what));
    }

    /// Refuses for a reason that the provider's words put at its place.
    pub fn refuse_at(&mut self, rule: &'static str, path: &str, reason: &str) {
        self.fault(rule, path, &What::Other(reason));
    }

    /// Refuses what the types of a request do not take.
    pub fn schema(&mut self, path: &str, reason: &str) {
        self.refuse_at(D::PROVIDER.schema, path, reason);
    }

    pub fn missing(&mut self, path: &str) {
        self.fault(D::PROVIDER.schema, path, &What::Missing);
    }

    pub fn mistyped(&mut self, path: &str, expected: &'static str, found: &Value) {
        self.fault(D::PROVIDER.schema, path, &What::Type { expected, found });
    }

    /// Compares the request with the table of its settings.
    pub fn setting_faults<'v>(&self, fields: &'v Fields) -> Vec<Fault<'v>> {
        shape::faults(fields, D::SETTINGS, self.scope, D::PROVIDER.spelling)
    }

    /// Refuses every fault in the settings.
    pub fn check_settings(&mut self, fields: &Fields) {
        for fault in self.setting_faults(fields) {
            self.refuse(
                D::PROVIDER.schema,
                fault.path.clone(),
                (D::PROVIDER.words)(&fault.path, &fault.what),
            );
        }
    }

    /// The items of a list that must be there.
    pub fn list(
        &mut self,
        list: Option<&'a Value>,
        expected: &'static str,
        path: &str,
    ) -> Option<&'a [Value]> {
        match list {
            Some(Value::Array(items)) => return Some(items),
            Some(other) => self.mistyped(path, expected, other),
            None => self.missing(path),
        }
        None
    }

    /// Judges the objects of a list one by one, and refuses everything else in it.
    pub fn each_object(
        &mut self,
        items: &'a [Value],
        expected: &'static str,
        path: &str,
        mut judge: impl FnMut(&mut Self, &'a Fields, &str),
    ) {
        for (k, item) in items.iter().enumerate() {
            let path = format!("{path}.{k}");
            match item {
                Value::Object(fields) => judge(self, fields, &path),
                other => self.mistyped(&path, expected, other),
            }
        }
    }

    /// The text of a field that must be there.
    pub fn string(&mut self, fields: &'a Fields, field: &str, path: &str) -> Option<&'a str> {
        match fields.get(field) {
            Some(Value::String(text)) => return Some(text),
            Some(other) => self.mistyped(&format!("{path}.{field}"), "a string", other),
            None => self.missing(&format!("{path}.{field}")),
        }
        None
    }

    /// Refuses a field that is present and not of the expected type.
    pub fn check_type(
        &mut self,
        value: Option<&Value>,
        fits: fn(&Value) -> bool,
        expected: &'static str,
        path: &str,
    ) {
        if let Some(other) = value.filter(|value| !fits(value)) {
            self.mistyped(path, expected, other);
        }
    }

    /// Refuses every field that is not among the known ones, which spaces separate.
    pub fn only_fields(&mut self, fields: &Fields, known: &str, path: &str) {
        for field in fields.keys().filter(|field| !known.split(' ').any(|known| known == *field)) {
            self.fault(D::PROVIDER.schema, &format!("{path}.{field}"), &What::Unknown);
        }
    }
}
