//! What writers of agents' session files share.

use std::borrow::Cow;

use rejoin_record::{
    Timestamp,
    json::{Object, Value, list, quoted},
};
use rejoin_view::{Action, Finding, Position, Rule};

use crate::session::{Session, instant};

/// The findings about a file that is made of a request: only a request declares tools and settings.
pub(super) fn findings(
    session: &Session,
    mut found: Vec<Finding>,
    body: Value<'_>,
    own: &[&str],
) -> Vec<Finding> {
    found.retain(|finding| !matches!(finding.rule, Rule::StubTools | Rule::ThinkingOff));
    let names = body.fields().filter_map(|(key, _)| key.as_str());
    let left_out = |name: &Cow<'_, str>| {
        let stubs = name == "tools" && session.context.tools_field().is_none();
        !stubs && !own.contains(&&**name)
    };
    let finding = |name: Cow<'_, str>| {
        Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut).about(&*name)
    };
    found.extend(names.filter(left_out).map(finding));
    found
}

/// Instructions as a text of a person, for files that have no place for them.
pub(in crate::sessions) fn as_said(instructions: &str) -> String {
    format!("<system>{instructions}</system>")
}

/// JSON on one line: a string cannot hold a line break, so all of them are between values.
pub(super) fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}

/// A list of one text part.
pub(super) fn text_parts(text: &str) -> String {
    list([Object::new().raw("text", &quoted(text)).finish()])
}

/// The times of the lines, which never go back.
pub(super) struct Clock<'s> {
    session: &'s Session,
    now: Timestamp,
}

impl<'s> Clock<'s> {
    pub(super) fn new(session: &'s Session, now: Timestamp) -> Self {
        let first = session.details.iter().find_map(|detail| instant(detail.time.as_ref()?));
        Self { session, now: first.unwrap_or(now) }
    }

    /// The time of a message of the source, or that of the line before.
    pub(super) fn at(&mut self, source: Option<usize>) -> Timestamp {
        let detail = source.and_then(|index| self.session.details.get(index));
        let time = detail.and_then(|detail| instant(detail.time.as_ref()?));
        self.now = time.map_or(self.now, |time| time.max(self.now));
        self.now
    }
}
