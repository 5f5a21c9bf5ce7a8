//! Breaks in `store`.

use super::Break;

pub const BREAKS: &[Break] = &[];
