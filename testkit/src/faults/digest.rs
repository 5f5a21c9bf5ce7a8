//! A small digester: titles, words and times, one entry at a time. Tests of stores need no more to list and to search.

use rejoin_record::{Content, Entry};
use rejoin_store::{Digest, Summarize, Title, Words};

/// Makes the digester.
#[must_use]
pub fn digest(_: Option<&str>) -> Box<dyn Summarize> {
    Box::new(digest_of)
}

fn digest_of(entry: &Entry) -> Digest {
    let mut digest = Digest { time: Some(entry.envelope().timestamp), ..Digest::default() };
    if let Content::Message(message) = Content::of(entry) {
        let text = message.content().unwrap_or_default();
        digest.title = Some(Title::FromMessage(text.chars().take(60).collect()));
        digest.words = Some(Words { role: message.role.to_string(), text: text.into() });
        digest.is_message = true;
    }
    digest
}
