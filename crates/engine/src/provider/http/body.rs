//! A request body to send: the pieces of a draft, one after the other, without copying them.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rejoin_formats::draft::Body;

/// A piece that a request shares with the conversation.
struct Piece(Arc<str>);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The pieces that were not sent yet.
struct Pieces {
    rest: VecDeque<Arc<str>>,
    left: u64,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.rest.pop_front().map(|piece| {
            self.left = self.left.saturating_sub(piece.len() as u64);
            Ok(Frame::data(Bytes::from_owner(Piece(piece))))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The body to send. Its length is known, so it goes out with a `Content-Length`.
pub fn shared(body: &Body) -> reqwest::Body {
    // Leave out empty pieces: some servers take an empty frame for the end.
    let rest = body.pieces().filter(|piece| !piece.is_empty()).cloned().collect();
    reqwest::Body::wrap(Pieces { rest, left: body.len() as u64 })
}

/// Whether the JSON contains this name in quotes, as a field or a value. Inside a string, the quotes would be escaped.
pub fn names(body: &Body, name: &str) -> bool {
    let quoted = format!("\"{name}\"");
    body.pieces().any(|piece| piece.contains(&quoted))
}
