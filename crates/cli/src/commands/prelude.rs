//! The imports of most commands: context, errors, and printing.

pub(super) use crate::{
    context::{self, CliContext, Flags},
    failure::{FAILED, Failure, UNREADABLE},
    output::{self, agreeing, harmless, harmless_lines, local_time, paint, plural},
};
