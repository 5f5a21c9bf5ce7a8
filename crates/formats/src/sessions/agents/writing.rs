//! Functions that the writers of agents' session files share.

use std::borrow::Cow;

use rejoin_record::{
    Timestamp,
    json::{Object, Value, list, quoted},
};
use rejoin_view::{Action, Finding, Position, Rule};

use crate::session::{Session, instant};

/// The findings about a file that is made from a request. They report the fields of the request that the file has no place for,
/// such as tools and settings.
pub(in crate::sessions) fn findings(
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

/// Instructions as the text of a user message, for files that have no place for them.
pub(in crate::sessions) fn as_said(instructions: &str) -> String {
    format!("<system>{instructions}</system>")
}

/// Puts JSON on one line. JSON strings cannot contain a raw line break, so every line break is between values.
pub(in crate::sessions) fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}

/// A list of one text part.
pub(super) fn text_parts(text: &str) -> String {
    list([Object::new().raw("text", &quoted(text)).finish()])
}

/// Gives each line of a file its time. The times never decrease.
pub(in crate::sessions) struct Clock<'s> {
    session: &'s Session,
    now: Timestamp,
}

impl<'s> Clock<'s> {
    pub(in crate::sessions) fn new(session: &'s Session, now: Timestamp) -> Self {
        let first = session.details.iter().find_map(|detail| instant(detail.time.as_ref()?));
        Self { session, now: first.unwrap_or(now) }
    }

    /// The time of a message of the source. If it is unknown or earlier than the last one, the last one is returned again.
    pub(in crate::sessions) fn at(&mut self, source: Option<usize>) -> Timestamp {
        let detail = source.and_then(|index| self.session.details.get(index));
        let time = detail.and_then(|detail| instant(detail.time.as_ref()?));
        self.now = time.map_or(self.now, |time| time.max(self.now));
        self.now
    }
}
