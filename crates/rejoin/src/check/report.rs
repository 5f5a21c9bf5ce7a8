//! What there is to say about each conversation of a subject.

use std::cell::OnceCell;

use rejoin_formats::{Dialect, ReadError, Session, session::derive_id};
use rejoin_record::json::{Doc, Object};
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use super::{Checked, ProviderVerdict, RequestBytes, Subject};
use crate::shape;

/// What there is to say about one conversation.
#[derive(Debug)]
pub struct Report<'s> {
    /// What to call it: the subject's name, with its number in a file of many.
    pub name: String,
    /// Which conversation of a file of many it is, from 1.
    pub number: Option<usize>,
    /// What it was read from.
    pub subject: &'s Subject,
    /// The conversation, if one was read.
    pub session: Option<&'s Session>,
    /// The bytes that were judged, if it is a request or a list of messages.
    pub body: Option<RequestBytes<'s>>,
    /// What was found, and the verdict that was asked for.
    pub checked: Checked,
    /// The verdict of the provider whose model a request names, if it looks like a request to another one in all else, and the two
    /// differ.
    pub by_model: Option<ProviderVerdict>,
    resumed: OnceCell<Option<ProviderVerdict>>,
}

/// Checks every conversation of a subject: a request as its provider, or the provider of `dialect`, would; a session by its history.
///
/// ```
/// use rejoin::{Input, check, sessions};
///
/// let bytes = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello."}]}"#;
/// let input = Input::new("body.json", bytes)?;
/// let sessions = sessions::read(&input, sessions::named("anthropic"))?;
/// let subject = check::Subject::of_file("body.json", input, sessions, None);
/// let reports = check::reports(&subject, None);
/// assert!(reports[0].checked.is_sound());
/// assert!(reports[0].to_json().contains(r#""for":"anthropic","accepted":true"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn reports(subject: &Subject, dialect: Option<Dialect>) -> Vec<Report<'_>> {
    if let Some(body) = subject.body() {
        let session = subject.sessions.first();
        let mut checked = super::body(dialect.unwrap_or(body.dialect), body.bytes, session);
        arrange(subject, session, &mut checked);
        if let Some(why @ ReadError::MostlyUnread { .. }) = &subject.unread {
            let finding = Finding::new(Rule::UnreadText, Position::default(), Action::Kept);
            checked.findings.push(finding.because(why.to_string()));
        }
        let by_model = session.filter(|_| dialect.is_none()).and_then(|session| {
            let other = super::by_model(&body, session)?;
            Some(other)
                .filter(|other| checked.judged.as_ref().is_some_and(|own| own.accepted() != other.accepted()))
        });
        let (name, body) = (subject.name.clone(), Some(body));
        return vec![Report {
            name,
            number: None,
            subject,
            session,
            body,
            by_model,
            checked,
            resumed: OnceCell::new(),
        }];
    }
    let many = subject.sessions.len() > 1;
    let reports = subject.sessions.iter().zip(1..).map(|(session, number)| {
        let name = if many { format!("{} #{number}", subject.name) } else { subject.name.clone() };
        let mut checked = super::history(session, dialect);
        arrange(subject, Some(session), &mut checked);
        let number = many.then_some(number);
        let resumed = OnceCell::new();
        Report { name, number, subject, session: Some(session), body: None, checked, by_model: None, resumed }
    });
    reports.collect()
}

/// Adds lines to everything, and puts findings in the order of the messages.
fn arrange(subject: &Subject, session: Option<&Session>, checked: &mut Checked) {
    let Some(session) = session else { return };
    checked.findings = subject.with_lines(session, std::mem::take(&mut checked.findings));
    checked
        .findings
        .sort_by_key(|finding| (finding.at.message.is_none(), finding.at.message, finding.at.block));
    if let Some(judged) = &mut checked.judged {
        let places = judged.refusals.iter_mut().chain(&mut judged.notes).map(|refusal| &mut refusal.at);
        subject.fill_lines(session, places);
    }
}

impl Report<'_> {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (messages, calls, results) = self.counts();
        let judged = self.checked.judged.as_ref();
        let refusals = judged.into_iter().flat_map(|judged| {
            let refused = judged.refusals.iter().map(|refusal| shape::refusal(refusal, Severity::Error));
            refused.chain(judged.notes.iter().map(|note| shape::refusal(note, Severity::Note)))
        });
        let kind = match &self.body {
            Some(body) if body.whole => "request",
            Some(_) => "messages",
            None => "session",
        };
        let unread = || derive_id(self.format(), None, &self.name, None);
        let accepted = judged.map_or("null", |judged| if judged.accepted() { "true" } else { "false" });
        Object::new()
            .text("id", self.session.map_or_else(unread, |session| session.id))
            .text("path", &self.name)
            .text("format", self.format())
            .text("kind", kind)
            .count("messages", messages)
            .count("calls", calls)
            .count("results", results)
            .text_or_null("for", judged.map(|judged| judged.dialect))
            .raw("accepted", accepted)
            .list("findings", refusals.chain(self.checked.findings.iter().map(shape::finding)))
            .flag("sound", self.checked.is_sound())
            .finish()
    }

    /// What the provider would answer the agent that wrote the session, if no other verdict was asked for.
    #[must_use]
    pub fn resumed(&self) -> Option<&ProviderVerdict> {
        // rejoin mends what is in its store before it sends it.
        let is_foreign =
            self.subject.record.is_none() && self.body.is_none() && self.checked.judged.is_none();
        let session = self.session.filter(|_| is_foreign)?;
        self.resumed.get_or_init(|| super::resumed(session)).as_ref()
    }

    /// The format of the session, or the dialect of the request.
    #[must_use]
    pub fn format(&self) -> &'static str {
        let own = self.session.map(|session| session.format);
        self.body.as_ref().map(|body| body.dialect.name()).or(own).unwrap_or_default()
    }

    /// How many messages, calls and results it has.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let Some(Session { messages, .. }) = self.session else { return (0, 0, 0) };
        let count = |body: RequestBytes<'_>| {
            let count = body.dialect.wire().unread_calls?;
            let doc = Doc::parse(std::str::from_utf8(body.bytes).ok()?).ok()?;
            Some(count(doc.root()?))
        };
        if let Some((calls, results)) = self.body.and_then(count) {
            return (messages.len(), calls, results);
        }
        let calls = messages.iter().map(|message| message.tool_calls().count()).sum();
        let results = messages.iter().map(|message| message.tool_results().count()).sum();
        (messages.len(), calls, results)
    }
}
