//! The messages of a checkpoint as text, in pieces. A line before each message gives its length and other facts about it.
//!
//! Most of the time to open a long conversation goes into parsing these messages, so two threads share that work.

use std::{
    fmt::Write as _,
    ops::ControlFlow,
    sync::{
        Arc,
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

use rejoin_record::{Content, Message, StandIn, StandInResults, UnreadResult, hash::short_name};

/// The length in bytes of the digest before each piece.
const DIGEST: usize = 22;

/// The size in bytes at which a piece is full.
const PIECE: usize = 1 << 16;

/// The number of pieces after which a second thread helps. Fewer pieces are parsed before a thread would have started.
const FEW: usize = 4;

/// The usual length in bytes of a message, for the capacity of lists.
const TYPICAL: usize = 512;

/// Appends the pieces of these messages.
pub(super) fn write(stand_ins: &[StandIn], pieces: &mut Vec<String>) {
    let mut piece = String::new();
    for StandIn { entry, seq, number, results, tokens, message } in stand_ins {
        let body = Content::Message(Message::clone(message)).to_body();
        let body = body.as_str();
        let _ = write!(piece, "{} {seq} {number} {tokens} {entry}", body.len());
        let _ = match results {
            StandInResults::None => writeln!(piece),
            StandInResults::Tombstones => writeln!(piece, " pruned"),
            StandInResults::Unread(UnreadResult { bytes, most_tokens, .. }) => {
                writeln!(piece, " unread {bytes} {most_tokens}")
            }
        };
        let _ = writeln!(piece, "{body}");
        if piece.len() >= PIECE {
            pieces.push(vouch_for(&piece));
            piece.clear();
        }
    }
    pieces.extend(Some(piece).filter(|piece| !piece.is_empty()).map(|piece| vouch_for(&piece)));
}

/// A piece with its digest in front, because no entry's hash covers it.
pub(super) fn vouch_for(text: &str) -> String {
    format!("{}{text}", short_name(text, DIGEST))
}

/// The text of a piece; `None` if its digest does not match.
pub(super) fn vouched_for(piece: &str) -> Option<&str> {
    let (digest, text) = piece.split_at_checked(DIGEST)?;
    (short_name(text, DIGEST) == digest).then_some(text)
}

/// The messages of a piece; `None` if it was damaged.
fn read(piece: &str) -> Option<Vec<StandIn>> {
    let mut rest = vouched_for(piece)?;
    let mut found = Vec::with_capacity(rest.len() / TYPICAL);
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n')?;
        let mut fields = line.split(' ');
        let mut field = || fields.next();
        let length = field()?.parse().ok()?;
        let (seq, number) = (field()?.parse().ok()?, field()?.parse().ok()?);
        let (tokens, entry) = (field()?.parse().ok()?, field()?.parse().ok()?);
        let results = match field() {
            None => StandInResults::None,
            Some("pruned") => StandInResults::Tombstones,
            Some("unread") => {
                let (bytes, most_tokens) = (field()?.parse().ok()?, field()?.parse().ok()?);
                StandInResults::Unread(UnreadResult { bytes, tokens, most_tokens })
            }
            Some(_) => return None,
        };
        let (body, after) = after.split_at_checked(length)?;
        let message = Arc::new(Message::from_body(body)?);
        found.push(StandIn { entry, seq, number, results, tokens, message });
        rest = after.strip_prefix('\n')?;
    }
    Some(found)
}

/// The messages of a piece, with the piece's index.
type Parsed = (usize, Vec<StandIn>);

/// A second thread that parses, and the channel that feeds it.
type ParserThread<'s> = (SyncSender<(usize, String)>, ScopedJoinHandle<'s, Option<Vec<Parsed>>>);

/// Parses pieces in the order in which they arrive. Only a few of them are in memory at a time.
pub(super) struct Parsing<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    beside: Option<ParserThread<'s>>,
    /// The number of pieces that arrived.
    count: usize,
    /// The pieces that this thread parsed; `None` once a damaged one was found.
    parsed: Option<Vec<Parsed>>,
}

impl<'s, 'e> Parsing<'s, 'e> {
    pub(super) fn new(scope: &'s Scope<'s, 'e>) -> Self {
        Self { scope, beside: None, count: 0, parsed: Some(Vec::new()) }
    }

    /// Takes a piece. The second thread parses it; if that one is busy, this thread does.
    pub(super) fn take(&mut self, piece: String) -> ControlFlow<()> {
        self.count += 1;
        if self.count == FEW {
            let (send, receive) = mpsc::sync_channel::<(usize, String)>(1);
            let work = move || receive.iter().map(|(place, piece)| Some((place, read(&piece)?))).collect();
            // Some systems have no threads; then this thread parses everything.
            let handle = thread::Builder::new().spawn_scoped(self.scope, work).ok();
            self.beside = handle.map(|handle| (send, handle));
        }
        let piece = match self.beside.as_ref().map(|(send, _)| send) {
            None => piece,
            Some(send) => match send.try_send((self.count, piece)) {
                Ok(()) => return ControlFlow::Continue(()),
                Err(TrySendError::Full((_, piece)) | TrySendError::Disconnected((_, piece))) => piece,
            },
        };
        match (read(&piece), &mut self.parsed) {
            (Some(messages), Some(parsed)) => {
                parsed.push((self.count, messages));
                ControlFlow::Continue(())
            }
            _ => {
                self.parsed = None;
                ControlFlow::Break(())
            }
        }
    }

    /// The messages of all pieces, in order; `None` if a piece was damaged.
    pub(super) fn finish(self) -> Option<Vec<Vec<StandIn>>> {
        let mut parsed = self.parsed?;
        if let Some((send, handle)) = self.beside {
            drop(send);
            parsed.extend(handle.join().ok()??);
        }
        parsed.sort_unstable_by_key(|(place, _)| *place);
        Some(parsed.into_iter().map(|(_, messages)| messages).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pieces: &[String]) -> Option<Vec<StandIn>> {
        thread::scope(|scope| {
            let mut parsing = Parsing::new(scope);
            let _ = pieces.iter().cloned().try_for_each(|piece| parsing.take(piece));
            parsing.finish().map(|lists| lists.into_iter().flatten().collect())
        })
    }

    #[test]
    fn two_threads_give_the_messages_in_their_order_and_notice_damage_in_any_piece() {
        let known = |number: usize| StandIn {
            entry: rejoin_record::EntryId::from_bytes((number as u128).to_be_bytes()),
            seq: number as u64,
            number,
            results: StandInResults::None,
            tokens: 3,
            message: Arc::new(Message::user(format!("{number} {}", "words\n".repeat(number % 300)))),
        };
        let known: Vec<StandIn> = (0..1_500).map(known).collect();
        let mut pieces = Vec::new();
        write(&known, &mut pieces);
        assert!(pieces.len() > 2 * FEW, "{}", pieces.len());
        assert_eq!(parsed(&pieces).unwrap(), known);
        assert_eq!(parsed(&pieces[..1]).unwrap()[..], known[..parsed(&pieces[..1]).unwrap().len()]);
        for place in 0..pieces.len() {
            let mut damaged = pieces.clone();
            damaged[place] = damaged[place].replacen("words", "sword", 1);
            assert_eq!(parsed(&damaged), None, "{place}");
        }
    }
}
