//! Breaks in `engine`.

use super::Break;

pub const BREAKS: &[Break] = &[];
