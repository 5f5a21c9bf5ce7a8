//! What most readers of sessions use: `use crate::sessions::prelude::*;`.

pub(super) use std::sync::Arc;

pub(super) use rejoin_record::{
    Block, Message, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};
pub(super) use rejoin_view::{Action, Finding, Position, Rule};

pub(super) use super::{
    building::{SessionBuilder, as_text, call, item, medium, opaque, result, text_in, thought},
    lines::{self, Line, LineReader, text_of, time_of},
    sample::{Claim, Sample},
};
pub(super) use crate::{
    accounting::Known,
    context::Context,
    input::{Input, Stream},
    messages::roles,
    session::{Aside, Detail, ReadError, Session, SourcePlace, replaced_bytes, unreadable_rest},
    wire::registry::Dialect,
};

/// How many of its first lines tell the format of a file.
pub(super) const LOOK_AT: usize = 50;
