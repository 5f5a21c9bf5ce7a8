//! What most commands use: where they run, how they fail, and how they print.

pub(super) use crate::{
    context::{self, CliContext, Flags},
    failure::{FAILED, Failure, UNREADABLE},
    output::{self, agreeing, harmless, harmless_lines, local_time, paint, plural},
};
