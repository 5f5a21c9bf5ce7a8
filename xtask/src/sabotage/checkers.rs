//! Breaks in `checkers`.

use super::Break;

pub const BREAKS: &[Break] = &[];
