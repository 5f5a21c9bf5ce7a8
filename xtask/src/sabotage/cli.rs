//! Breaks in `cli`.

use super::Break;

pub const BREAKS: &[Break] = &[];
