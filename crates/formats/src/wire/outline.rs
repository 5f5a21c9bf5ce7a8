//! The interface of an encoder that takes items one at a time, and the body it ends with, whose messages can be shared.

use rejoin_record::json::{Doc, Value};
use rejoin_view::{Finding, ItemRef, SoundView, sound::FirstChange};

use super::{Encoded, TooLarge, list_text::ListText};
use crate::draft::Body;

/// Encodes a view item by item. What is settled is written once and shared by every later body.
pub trait Encode: Send + Sync {
    /// Sets the first place that the repair pass is known to have changed so far.
    fn changed_from(&mut self, first: Option<FirstChange>);
    /// Takes the next item; `place` is its number in the view.
    fn item(&mut self, place: usize, item: ItemRef<'_>);
    /// Settles everything taken so far: copies share it from now on.
    fn settle(&mut self);
    /// Makes an independent copy, at the cost of what is not settled.
    fn copy(&self) -> Box<dyn Encode>;
    /// Returns the findings since the last call.
    fn take_findings(&mut self) -> Vec<Finding>;
    /// Completes the body of a view whose items were all taken.
    ///
    /// # Errors
    /// If a size limit of the provider is exceeded.
    fn finish(self: Box<Self>, view: &SoundView) -> Result<Outline, TooLarge>;
}

/// A body in pieces.
pub struct Outline {
    /// Everything before the messages, including the opening bracket of their list.
    pub head: String,
    /// The messages; `None` if the head ends with something in their place.
    pub list: Option<ListText>,
    /// Everything after the messages, including the closing bracket.
    pub tail: String,
    /// What is returned with the body.
    pub rest: Encoded<()>,
    /// Whether the last user messages get cache marks.
    pub marked: bool,
}

/// A cache mark, at the end of the fields of a block.
pub const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

impl Outline {
    /// The size of the body in bytes, without cache marks.
    pub fn length(&self) -> usize {
        self.head.len() + self.list.as_ref().map_or(0, ListText::length) + self.tail.len()
    }

    /// Joins the body into one text.
    pub fn into_text(mut self) -> Encoded {
        let length = self.length();
        if let Some(list) = self.list.take_if(|list| !self.marked && list.is_fresh()) {
            // The list is moved by the length of the head instead of being copied.
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

    /// Returns the body as shared pieces, and the rest.
    pub fn into_body(self) -> (Body, Encoded<()>) {
        let mut body = Body::default();
        body.own(self.head);
        if let Some(list) = self.list {
            // The number of a piece, and a place in it.
            let mut marks: Vec<(usize, usize)> = Vec::new();
            for stretch in list.by_user().filter(|_| self.marked) {
                let doc = Doc::parse(list.text(stretch)).ok();
                let content = doc.as_ref().and_then(|doc| doc.root()?.get("content"));
                marks.extend(content.and_then(list_mark).map(|at| (stretch.piece, stretch.bytes.start + at)));
            }
            // Everything is shared except the fresh text and the pieces that get marks.
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

/// Where to insert a mark for the last one in a list of blocks or tools.
fn list_mark(list: Value<'_>) -> Option<usize> {
    let blank = |text: Value<'_>| text.as_str().is_none_or(|text| rejoin_record::text::is_blank(&text));
    let last = list.items().last()?;
    let kind = last.word("type");
    let takes = match &*kind {
        "text" => last.get("text").is_some_and(|text| !blank(text)),
        "image" | "document" | "tool_result" => true,
        // Tools that the provider runs have other types, and take no mark.
        "" | "custom" => last.get("name").is_some(),
        _ => false,
    };
    (takes && last.get("cache_control").is_none()).then(|| last.end() - 1)
}

/// Marks the last one in a list of blocks or tools; `None` if that cannot have a mark.
pub fn with_mark(list: &str) -> Option<String> {
    let doc = Doc::parse(list).ok()?;
    Some(with_marks(list, &[(0, list_mark(doc.root()?)?)]))
}
