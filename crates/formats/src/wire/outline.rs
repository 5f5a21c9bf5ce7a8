//! Encoders that go on, and what they come to: a body of which the messages may be shared.

use rejoin_record::{
    Text,
    json::{Doc, Value},
};
use rejoin_view::{Finding, ItemRef, SoundView, sound::FirstChange};

use super::{Encoded, TooLarge, names::Respelled, scroll::Scroll};
use crate::draft::Body;

/// Makes a body of items as they come. What is settled is written once, whatever comes.
pub trait Encode: Send + Sync {
    /// Where the repair pass first changed something, as far as that is known now.
    fn changed_from(&mut self, first: Option<FirstChange>);
    /// Takes the next item, and its number.
    fn item(&mut self, place: usize, item: ItemRef<'_>);
    /// What was taken so far stays as it is: copies share it.
    fn settle(&mut self);
    /// A copy that goes its own way. Costs what is not settled.
    fn copy(&self) -> Box<dyn Encode>;
    /// Hands out what was found since the last time.
    fn take_findings(&mut self) -> Vec<Finding>;
    /// Ends the body of this view, all items of which were taken.
    ///
    /// # Errors
    /// Only for size.
    fn finish(self: Box<Self>, view: &SoundView) -> Result<Outline, TooLarge>;
}

/// A body, in the pieces that it is made of.
pub struct Outline {
    /// Everything before the messages, the opening bracket of their list included.
    pub head: String,
    /// The messages; none if something else stands in their place, at the end of the head.
    pub list: Option<Scroll>,
    /// Everything after them, the closing bracket included.
    pub tail: String,
    /// What comes with it.
    pub rest: Rest,
    /// Whether the last messages of users get cache marks.
    pub marked: bool,
}

/// A cache mark, at the end of the fields of a block.
pub const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

impl Outline {
    /// The size of the body in bytes, without cache marks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.len() + self.list.as_ref().map_or(0, Scroll::length) + self.tail.len()
    }

    /// The body as one text.
    #[must_use]
    pub fn into_encoded(mut self) -> Encoded {
        let length = self.length();
        if let Some(list) = self.list.take_if(|list| !self.marked && list.is_fresh()) {
            // Moved by as much as stands before it, and not copied.
            let mut body = list.into_parts().1;
            body.reserve_exact(length - body.len());
            body.insert_str(0, &self.head);
            body.push_str(&self.tail);
            return self.rest.with(body);
        }
        let mut body = String::with_capacity(length + 4 * MARK.len());
        let (whole, rest) = self.into_body();
        whole.pieces().for_each(|piece| body.push_str(piece));
        rest.with(body)
    }

    /// The body as shared pieces, and what else there is.
    #[must_use]
    pub fn into_body(self) -> (Body, Rest) {
        let mut body = Body::default();
        body.own(self.head);
        if let Some(list) = self.list {
            // In which piece, and where in it.
            let mut marks: Vec<(usize, usize)> = Vec::new();
            for stretch in list.by_user().filter(|_| self.marked) {
                let place = message_mark(list.text(stretch));
                marks.extend(place.map(|at| (stretch.piece, stretch.bytes.start + at)));
            }
            // What is shared is all of the list but what is fresh, and but the pieces with marks in them.
            let mut bytes = list.length();
            let (settled, fresh) = list.into_parts();
            bytes -= fresh.len();
            let (in_settled, in_fresh): (Vec<_>, Vec<_>) =
                marks.into_iter().partition(|mark| mark.0 < settled.len());
            let groups: Vec<_> = in_settled.chunk_by(|one, other| one.0 == other.0).collect();
            let marked = |group: &[(usize, usize)]| settled.get(group[0].0).map_or(0, |piece| piece.len());
            bytes -= groups.iter().map(|group| marked(group)).sum::<usize>();
            let mut next = 0;
            for group in groups {
                let place = group[0].0;
                body.shared(&settled, next, place);
                body.own(settled.get(place).map_or_else(String::new, |piece| with_marks(piece, group)));
                next = place + 1;
            }
            body.shared(&settled, next, settled.len());
            body.count(bytes);
            body.own(if in_fresh.is_empty() { fresh } else { with_marks(&fresh, &in_fresh) });
        }
        body.own(self.tail);
        (body, self.rest)
    }
}

/// What comes with a body.
pub struct Rest {
    /// What was found since findings were handed out.
    pub findings: Vec<Finding>,
    /// What got another spelling.
    pub respelled: Respelled,
    /// A hash of everything that an answer to the body stands on, if it is known who answers.
    pub prefix: Option<Text>,
}

impl Rest {
    fn with(self, body: String) -> Encoded {
        let Respelled { ids, names } = self.respelled;
        let ids = ids.iter().cloned().collect();
        Encoded { body, findings: self.findings, ids, names, prefix: self.prefix }
    }
}

/// A piece with marks in these places of it.
fn with_marks(text: &str, marks: &[(usize, usize)]) -> String {
    let mut out = String::with_capacity(text.len() + marks.len() * MARK.len());
    let mut copied = 0;
    for (_, at) in marks {
        out.push_str(&text[copied..*at]);
        out.push_str(MARK);
        copied = *at;
    }
    out.push_str(&text[copied..]);
    out
}

/// Where a mark is to be inserted into a message so that its last block has one. Nowhere, if that cannot have one.
fn message_mark(message: &str) -> Option<usize> {
    let doc = Doc::parse(message).ok()?;
    list_mark(doc.root()?.get("content")?)
}

/// The same for a list of blocks or tools.
fn list_mark(list: Value<'_>) -> Option<usize> {
    let blank = |text: Value<'_>| text.as_str().is_none_or(|text| rejoin_record::text::is_blank(&text));
    let last = list.items().last()?;
    let kind = last.get("type").and_then(Value::as_str).unwrap_or_default();
    let takes = match &*kind {
        "text" => last.get("text").is_some_and(|text| !blank(text)),
        "image" | "document" | "tool_result" => true,
        // Tools are declared without a type, or are of a kind that the provider runs.
        "" | "custom" => last.get("name").is_some(),
        _ => false,
    };
    (takes && last.get("cache_control").is_none()).then(|| last.end() - 1)
}

/// A list of blocks or tools whose last one has a mark. `None` if that cannot have one.
#[must_use]
pub fn with_mark(list: &str) -> Option<String> {
    let doc = Doc::parse(list).ok()?;
    Some(with_marks(list, &[(0, list_mark(doc.root()?)?)]))
}
