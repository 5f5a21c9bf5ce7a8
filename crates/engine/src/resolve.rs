//! Finds the conversation that a user means: by an id or its beginning, a title, `@` for the active one, or `@1` for the newest.
//!
//! Ids come first. A title is compared without regard to case: the whole title, then its beginning, then any part of it. A text
//! that matches several conversations is refused with their names, so that the user can choose.

use rejoin_record::ConversationId;
use rejoin_store::{Query, Store, Summary};

use crate::error::EngineError;

/// The most conversations that an error names.
const NAMED: usize = 10;

/// The number of conversations that are listed per step.
const AT_A_TIME: usize = 5000;

/// The shortest text, in characters, that counts as a part of a title.
const PART: usize = 3;

/// A conversation with its title, for a message that lets the user choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedConversation {
    /// Its id.
    pub id: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
}

/// Finds the conversation that a user means, by id, title, `@` or `@N`.
///
/// # Errors
/// [`EngineError::Unknown`] if no conversation matches, [`EngineError::Ambiguous`] if several do.
pub fn resolve(
    store: &dyn Store,
    given: &str,
    active: Option<ConversationId>,
) -> Result<ConversationId, EngineError> {
    let by_id = resolve_id(store, given, active);
    if is_id(given) {
        return by_id;
    }
    match by_id {
        // The beginning of an id may also be the whole title of another conversation, which must not be hidden.
        Ok(id) => {
            let mut found = titled(store, given, FITS[0])?;
            found.retain(|named| named.id != id);
            if found.is_empty() {
                return Ok(id);
            }
            found.insert(0, NamedConversation { id, title: title_of(store, id) });
            Err(EngineError::Ambiguous { given: given.trim().to_owned(), found })
        }
        Err(EngineError::Unknown(_)) => by_title(store, given),
        Err(other) => Err(other),
    }
}

/// Finds a conversation by its id or its beginning, `@` or `@N`. It is meant for programs, so it does not look at titles.
pub fn resolve_id(
    store: &dyn Store,
    given: &str,
    active: Option<ConversationId>,
) -> Result<ConversationId, EngineError> {
    let unknown = || EngineError::Unknown(given.to_owned());
    let given = given.trim();
    if given == "@" {
        return active.ok_or(EngineError::NoActive);
    }
    if let Some(number) = given.strip_prefix('@') {
        let number: usize = number.parse().ok().filter(|number| *number > 0).ok_or_else(unknown)?;
        let page = store.list(&Query { limit: Some(number), ..Query::default() })?;
        let found = page.conversations.get(number - 1);
        return found.map(|summary| summary.id).ok_or_else(unknown);
    }
    if given.is_empty() {
        return Err(unknown());
    }
    match &store.ids(given, NAMED)?[..] {
        [] => Err(unknown()),
        [id] => Ok(*id),
        several => {
            let named = |id: &ConversationId| NamedConversation { id: *id, title: title_of(store, *id) };
            let found = several.iter().map(named).collect();
            Err(EngineError::Ambiguous { given: given.to_owned(), found })
        }
    }
}

/// Whether a text names a conversation exactly: by its whole id, with or without `conv_`, or by `@`. The beginning of an id, a
/// title or `@N` may mean a different conversation than the person had in mind, so every command that removes content without
/// asking requires an exact name.
pub fn names_exactly(given: &str, id: ConversationId) -> bool {
    let (given, id) = (given.trim(), id.to_string());
    given == "@" || given == id || id.strip_prefix(ConversationId::PREFIX) == Some(given)
}

/// Whether a text can only be an id or `@`.
fn is_id(given: &str) -> bool {
    let given = given.trim();
    given.starts_with(ConversationId::PREFIX) || given.starts_with('@')
}

fn title_of(store: &dyn Store, id: ConversationId) -> Option<String> {
    store.summary(id).ok().and_then(|summary| summary.title)
}

fn by_title(store: &dyn Store, given: &str) -> Result<ConversationId, EngineError> {
    // A whole title may be short; a short part matches almost every title.
    let ways = if folded(given).chars().count() < PART { &FITS[..1] } else { &FITS[..] };
    for fits in ways {
        match &titled(store, given, *fits)?[..] {
            [] => {}
            [only] => return Ok(only.id),
            several => {
                let found = several.to_vec();
                return Err(EngineError::Ambiguous { given: given.trim().to_owned(), found });
            }
        }
    }
    Err(EngineError::Unknown(given.to_owned()))
}

/// Whether a title matches a text.
type Fits = fn(title: &str, text: &str) -> bool;

/// The ways in which a title may match, the strictest first: the text is the whole title, its beginning, or a part of it.
const FITS: [Fits; 3] =
    [|title, text| title == text, |title, text| title.starts_with(text), |title, text| title.contains(text)];

/// The conversations whose title matches, newest first; at most [`NAMED`].
fn titled(store: &dyn Store, given: &str, fits: Fits) -> Result<Vec<NamedConversation>, EngineError> {
    let wanted = folded(given);
    let mut found = Vec::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let fits = |summary: &Summary| fits(&folded(summary.title.as_deref().unwrap_or_default()), &wanted);
    let mut after = None;
    loop {
        let page = store.list(&Query { limit: Some(AT_A_TIME), after, ..Query::default() })?;
        let fitting = page.conversations.iter().filter(|summary| fits(summary));
        let named = |summary: &Summary| NamedConversation { id: summary.id, title: summary.title.clone() };
        found.extend(fitting.map(named).take(NAMED - found.len()));
        after = page.next;
        if after.is_none() || found.len() == NAMED {
            return Ok(found);
        }
    }
}

/// A title in the form in which it is compared: in lower case, with single spaces.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
