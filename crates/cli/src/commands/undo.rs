//! `rejoin undo`: restore the files that the last turn changed.

use std::sync::Arc;

use rejoin::{
    changes::{Undoing, Undone, UndoneEdit, undo},
    shape,
    store::Store,
};

use super::talking;
use crate::{
    args::UndoArguments,
    context::{CliContext, Flags},
    failure::{FAILED, Failure},
    output::{self, harmless},
};

pub fn run(arguments: &UndoArguments, flags: &Flags) -> Result<u8, Failure> {
    let arguments = &arguments.change;
    let desk = CliContext::new(flags)?;
    let (_, id) = desk.find(arguments.which.given())?;
    let store: Arc<dyn Store> = talking::open_store(&desk)?;
    let undoing = if arguments.dry_run { Undoing::DryRun } else { Undoing::Real };
    let undone = undo(&store, id, &talking::workspace(&desk), undoing)?;
    if undone.is_empty() && !arguments.json {
        output::talk(&format!("There is nothing to undo in {id}."));
    }
    let left_alone = print(&undone, undoing, arguments.json)?;
    if !arguments.dry_run {
        crate::context::settle(&*store);
    }
    Ok(if left_alone > 0 { FAILED } else { 0 })
}

/// Prints what became of each file, and returns how many were left alone.
pub fn print(undone: &[UndoneEdit], undoing: Undoing, json: bool) -> Result<usize, Failure> {
    let mut left_alone = 0;
    for edit in undone {
        let would = if undoing == Undoing::DryRun { "would be " } else { "" };
        let path = harmless(&edit.path);
        left_alone += usize::from(matches!(edit.outcome, Undone::LeftAlone(_)));
        match &edit.outcome {
            _ if json => output::json_data(&shape::undone(edit))?,
            Undone::Restored => output::data(&format!("{path}: {would}restored"))?,
            Undone::Removed => output::data(&format!("{path}: {would}removed, as it did not exist before"))?,
            Undone::LeftAlone(rejoin::ApplyError::Changed { .. }) => {
                output::data(&format!("{path}: left alone, because something else has changed it since"))?;
            }
            Undone::LeftAlone(why) => {
                output::data(&format!("{path}: left alone: {}", harmless(&why.to_string())))?
            }
        }
    }
    Ok(left_alone)
}
