//! Reading a file of lines again after it has grown, at a cost that depends on what is new.
//!
//! A reader remembers what it made of all complete lines. The line at the end may still be written, so it is read for this time
//! only. What a session says about its end, such as which branch it is on, is decided anew each time. So the session is the same as
//! if the whole file had been read.

use std::{fmt, io::BufRead};

use super::{
    lines::LineStart,
    opening,
    registry::{Format, Reading},
};
use crate::{
    accounting,
    input::{Companions, Stream},
    session::{ReadError, Session},
};

/// The reader of a format whose files grow.
pub(super) trait GrowingReader: Send {
    /// Reads complete lines, the first of which begins at `start`. Returns where the next line begins.
    fn add(&mut self, stream: &mut Stream<'_>, start: LineStart) -> Result<LineStart, ReadError>;

    /// The session with everything that was added, and with `rest`, which is not remembered.
    fn session(&mut self, rest: &mut Stream<'_>, start: LineStart) -> Result<Session, ReadError>;

    /// Whether the same lines always give the same session. Otherwise the file must be read whole each time.
    fn is_lasting(&self) -> bool;
}

/// A file of lines that is read again whenever it has grown.
pub struct GrowingFile {
    reader: Box<dyn GrowingReader>,
    format: &'static Reading,
    next: LineStart,
    /// The last session, if none of its text was unread.
    accounted: Option<Session>,
}

impl fmt::Debug for GrowingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrowingFile").field("next", &self.next).finish_non_exhaustive()
    }
}

impl GrowingFile {
    /// A file in a format, of which nothing was read yet. `None` if files of this format are always read whole.
    #[must_use]
    pub fn new(format: &'static Format) -> Option<Self> {
        let format = format.read.as_ref()?;
        let reader = format.growing?();
        Some(Self { reader, format, next: LineStart::FIRST, accounted: None })
    }

    /// The number of bytes whose lines were read and are remembered.
    #[must_use]
    pub fn remembered(&self) -> u64 {
        self.next.offset
    }

    /// Whether reading on gives the same as reading the file whole. If not, this value must not be used again.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.reader.is_lasting()
    }

    /// Reads on. `added` gives the complete lines that follow those that are remembered, and `rest` the line after them, which has
    /// no line break yet. Returns the conversation in the whole file.
    ///
    /// # Errors
    /// As if the whole file were read. Afterwards, this value must not be used again.
    pub fn read_on(
        &mut self,
        name: &str,
        companions: Option<&dyn Companions>,
        added: &mut (dyn BufRead + Send),
        rest: &mut (dyn BufRead + Send),
    ) -> Result<Session, ReadError> {
        let mut added = Stream { name, source: added, companions };
        self.next = self.reader.add(&mut added, self.next)?;
        let mut session = self.reader.session(&mut Stream { name, source: rest, companions }, self.next)?;
        opening::check(std::slice::from_mut(&mut session));
        let known = self.accounted.take();
        let known = known.as_ref().map_or((0, 0), |known| session.same_parts_as(known));
        let (session, all_read) = accounting::account_after(session, known, self.format.refuses())?;
        self.accounted = all_read.then(|| session.clone());
        Ok(session)
    }
}
