//! `rejoin undo`: restores the files that the last turn changed.

use std::sync::Arc;

use rejoin::{
    changes::{FileUndo, UndoMode, UndoneEdit, undo},
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
    let cli = CliContext::new(flags)?;
    let (_, id) = cli.find(arguments.which.given())?;
    let store: Arc<dyn Store> = talking::open_store(&cli)?;
    let mode = if arguments.dry_run { UndoMode::DryRun } else { UndoMode::Real };
    let undone = undo(&store, id, &talking::workspace(&cli), mode)?;
    if undone.is_empty() && !arguments.json {
        output::talk(&format!("There is nothing to undo in {id}."));
    }
    let left_alone = print(&undone, mode, arguments.json)?;
    if !arguments.dry_run {
        crate::context::settle(&*store);
    }
    Ok(if left_alone > 0 { FAILED } else { 0 })
}

/// Prints the outcome for each file, and returns how many were left alone.
pub fn print(undone: &[UndoneEdit], mode: UndoMode, json: bool) -> Result<usize, Failure> {
    let mut left_alone = 0;
    for edit in undone {
        let would = if mode == UndoMode::DryRun { "would be " } else { "" };
        let path = harmless(&edit.path);
        left_alone += usize::from(matches!(edit.outcome, FileUndo::LeftAlone(_)));
        match &edit.outcome {
            _ if json => output::json_data(&shape::undone(edit))?,
            FileUndo::Restored => output::data(&format!("{path}: {would}restored"))?,
            FileUndo::Removed => {
                output::data(&format!("{path}: {would}removed, as it did not exist before"))?
            }
            FileUndo::LeftAlone(rejoin::ApplyError::Changed { .. }) => {
                output::data(&format!("{path}: left alone, because something else has changed it since"))?;
            }
            FileUndo::LeftAlone(why) => {
                output::data(&format!("{path}: left alone: {}", harmless(&why.to_string())))?
            }
        }
    }
    Ok(left_alone)
}
