//! A change of one file: planned, shown, applied, and undone.
//!
//! Planning reads and changes nothing, so that a change can be shown and recorded before it happens. Applying compares and swaps
//! (`apply.rs`): the file is replaced only if it is unchanged since the change was planned. At any moment the file has its old or
//! its new content, never a part of either.

mod apply;
mod commit;

use std::{io, time::Duration};

use rejoin_record::content::Confidence;
use similar::TextDiff;

use super::{
    ChangeSubject, Plan, PlannedChange, PlannedFile, Reach, ToolOutput,
    beneath::PathRefused,
    edit,
    work::{grouped, on_another_thread},
    workspace::{CHANGED_FILE, Workspace, content},
    write,
};
use crate::{approval::Editable, provider::BoxFuture};

/// Unchanged lines that a diff shows around a change.
const CONTEXT: usize = 3;
/// The largest file that a diff shows, in bytes: more than a person reads before approving.
const SHOWN: usize = 1024 * 1024;
/// How long to search for the smallest difference. After that, a larger one is shown.
const COMPARING: Duration = Duration::from_millis(500);

/// A change of one file: the content before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path relative to the workspace, with `/`, without links or `..`.
    pub path: String,
    /// The content before; `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The content after.
    pub after: Vec<u8>,
}

/// The content that a file must have now to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedContent<'c> {
    /// Exactly these bytes.
    Bytes(&'c [u8]),
    /// Bytes with this BLAKE3 hash.
    Blake3([u8; 32]),
}

impl ExpectedContent<'_> {
    fn is(&self, content: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => *bytes == content,
            Self::Blake3(hash) => blake3::hash(content) == *hash,
        }
    }
}

/// The outcome of restoring a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The file has its earlier content again.
    Rewritten,
    /// The file, which did not exist before, was removed.
    Removed,
    /// The file already had its earlier content, for example because it was restored before a crash.
    AlreadyThere,
}

/// Why a change was not applied or undone. Except for [`ApplyError::NotDurable`], the file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The file has changed since the change was planned.
    #[error(
        "`{path}` has changed since it was read, so nothing was written: read it again and repeat the change"
    )]
    Changed {
        /// The path relative to the workspace.
        path: String,
    },
    /// Tools may not change the file.
    #[error("`{path}`: {why}")]
    Refused {
        /// The path relative to the workspace.
        path: String,
        /// Why tools do not change it.
        why: PathRefused,
    },
    /// The system refused a step.
    #[error("`{path}` could not be written: {source}")]
    Io {
        /// The path relative to the workspace.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is changed, but may be the old one again after a power cut.
    #[error("`{path}` is changed, but the disk did not confirm it: {source}")]
    NotDurable {
        /// The path relative to the workspace.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl FileChange {
    /// The difference as a unified diff with three lines of context. Files that are not text or are very large are named instead.
    /// Control characters are not escaped.
    pub fn diff(&self) -> String {
        let before = self.before.as_deref().unwrap_or_default();
        let old = if self.before.is_some() { format!("a/{}", self.path) } else { String::from("/dev/null") };
        let new = format!("b/{}", self.path);
        let sizes = || {
            let was = self.before.as_ref().map_or_else(
                || String::from("did not exist"),
                |before| format!("had {} bytes", grouped(before.len() as u64)),
            );
            format!("{was}, will have {} bytes", grouped(self.after.len() as u64))
        };
        let (Some(from), Some(to)) = (text(before), text(&self.after)) else {
            return format!("--- {old}\n+++ {new}\n[a binary file: {}]\n", sizes());
        };
        if before.len().max(self.after.len()) > SHOWN {
            return format!("--- {old}\n+++ {new}\n[too large to be shown: {}]\n", sizes());
        }
        let diff = TextDiff::configure().timeout(COMPARING).diff_lines(from, to);
        if diff.ops().iter().all(|op| op.tag() == similar::DiffTag::Equal) {
            // A new, empty file has a name but no lines.
            return if self.before.is_some() { String::new() } else { format!("--- {old}\n+++ {new}\n") };
        }
        diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string()
    }

    /// The change in one line: its effect on the file, and how many lines it adds and removes.
    pub fn summary(&self) -> String {
        let path = &self.path;
        let Some(before) = &self.before else {
            let lines = self.after.split_inclusive(|byte| *byte == b'\n').count();
            return format!("created `{path}` ({})", counted(lines, "line"));
        };
        if *before == self.after {
            return format!("`{path}` has exactly this content already");
        }
        let (Some(from), Some(to)) = (text(before), text(&self.after)) else {
            return format!("changed `{path}`");
        };
        let diff = TextDiff::configure().timeout(COMPARING).diff_lines(from, to);
        let (mut added, mut removed) = (0, 0);
        for op in diff.ops().iter().filter(|op| op.tag() != similar::DiffTag::Equal) {
            removed += op.old_range().len();
            added += op.new_range().len();
        }
        format!("changed `{path}` ({} added, {} removed)", counted(added, "line"), grouped(removed as u64))
    }
}

/// A change of a file that a call asks for, and the model's confidence in it.
pub(super) type ProposedChange = (FileChange, Option<Confidence>);

/// Plans a change of a file on another thread, with everything to show to a person.
pub(super) fn plan(
    workspace: Workspace,
    wanted: impl FnOnce() -> Result<ProposedChange, String> + Send + 'static,
) -> BoxFuture<'static, Result<Plan, ToolOutput>> {
    Box::pin(async move {
        let planning = move || {
            let wanted = wanted()?;
            Ok::<_, String>((wanted, workspace.folder.path().and_then(commit::checked_out)))
        };
        let ((change, confidence), commit) = match tokio::task::spawn_blocking(planning).await {
            Ok(planned) => planned.map_err(ToolOutput::error)?,
            Err(why) => return Err(ToolOutput::error(format!("it was not done: {why}"))),
        };
        let text = std::str::from_utf8(&change.after).ok();
        Ok(Plan::Changes(PlannedChange {
            subject: ChangeSubject::File(change.path.clone()),
            preview: change.diff(),
            reach: Reach::Confined,
            editable: text.map(|text| Editable { argument: "content", text: text.to_owned() }),
            file: Some(PlannedFile { change, commit, confidence }),
        }))
    })
}

/// Applies a planned and recorded change on another thread.
pub(super) fn apply(workspace: Workspace, change: Option<FileChange>) -> BoxFuture<'static, ToolOutput> {
    on_another_thread(move |_| {
        let change = change.ok_or("nothing was changed: a change of a file has to be planned first")?;
        workspace.apply(&change).map_err(|why| why.to_string())?;
        Ok(ToolOutput::of(change.summary()))
    })
}

/// The content that a call of a file tool makes from an earlier content; `None` if the call does not make any.
pub(crate) fn replayed(tool: &str, arguments: &str, before: Option<&[u8]>) -> Option<Vec<u8>> {
    match tool {
        write::NAME => write::given(arguments).ok().map(|wanted| wanted.content.into_bytes()),
        edit::NAME => edit::replayed(arguments, before).ok(),
        _ => None,
    }
}

/// A count with its noun, in the plural if needed.
pub(super) fn counted(count: usize, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count as u64), if count == 1 { "" } else { "s" })
}

/// The content as text, if it is text.
fn text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

impl Workspace {
    /// The current content of a file that tools may change; `None` if it does not exist.
    ///
    /// # Errors
    /// If tools may not change it, or it cannot be read.
    pub fn current(&self, path: &str) -> Result<Option<Vec<u8>>, PathRefused> {
        Ok(self.look(path)?.1)
    }

    /// Plans to give a file a new content. Nothing is changed yet.
    pub(super) fn change(
        &self,
        path: &str,
        after: impl FnOnce(&str, Option<&[u8]>) -> Result<Vec<u8>, String>,
    ) -> Result<FileChange, String> {
        let (path, before) = self.look(path).map_err(|why| format!("`{path}`: {why}"))?;
        let after = after(&path, before.as_deref())?;
        if after.len() as u64 > CHANGED_FILE {
            return Err(format!(
                "`{path}` would have {} bytes, and tools write at most {}",
                grouped(after.len() as u64),
                grouped(CHANGED_FILE)
            ));
        }
        Ok(FileChange { path, before, after })
    }

    /// The path without links, and the file's content.
    fn look(&self, path: &str) -> Result<(String, Option<Vec<u8>>), PathRefused> {
        let spot = self.folder.spot(path)?;
        let opened = self.open_to_change(&spot)?;
        Ok((spot.path().to_owned(), opened.as_ref().map(content).transpose()?))
    }
}

#[cfg(test)]
mod tests;
