//! Tools that a model may call, one file each.
//!
//! A tool first plans a call ([`Tool::plan`]), so that the turn can ask for approval and record the coming change; then it runs the
//! call ([`Tool::run`]). It receives the exact text of its arguments; a [`FunctionTool`] also receives them as a JSON value. Tools
//! do not write to the record; the turn does.

mod arguments;
mod beneath;
mod calculate;
mod change;
pub(crate) mod delegate;
mod edit;
mod fetch;
mod find;
mod function;
mod grep;
mod list;
mod plan;
mod read;
pub(crate) mod recall;
mod run;
mod source;
mod walk;
mod work;
mod workspace;
mod write;

use std::{path::PathBuf, sync::Arc};

pub use beneath::PathRefused;
pub use calculate::{Calculate, SumError, evaluate};
pub(crate) use change::replayed;
pub use change::{ApplyError, ExpectedContent, FileChange, RestoreOutcome};
pub use delegate::Delegate;
pub use edit::EditFile;
pub use fetch::Fetch;
pub use find::Find;
pub use function::{FunctionTool, ToolArguments};
pub use grep::Grep;
pub use list::ListDir;
pub use plan::{ChangeSubject, LiveOutput, Plan, PlannedChange, PlannedFile, Reach, RunningCall};
pub use read::ReadFile;
pub use recall::Recall;
use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Block, Raw};
pub use run::Run;
#[cfg(feature = "mcp")]
pub(crate) use run::reach;
pub use source::ToolSource;
pub use workspace::Workspace;
pub(crate) use write::NAME as WRITE_FILE;
pub use write::WriteFile;

use crate::provider::BoxFuture;

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    /// Images and documents that the model gets after the text. For a provider that cannot take them, a text replaces them.
    pub media: Vec<Block>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// State that the tool leaves in the record, as JSON. Models do not see it, and compaction never removes it.
    pub snapshot: Option<Raw>,
}

impl ToolOutput {
    /// The result of a call that succeeded.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), media: Vec::new(), is_error: false, snapshot: None }
    }

    /// The result of a call that failed. The text tells the model why.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), media: Vec::new(), is_error: true, snapshot: None }
    }
}

/// A tool that a model may call. [`FunctionTool`] turns a function into one.
pub trait Tool: Send + Sync {
    /// The name, the description and the schema of the arguments, for the model.
    fn declaration(&self) -> ToolDeclaration;
    /// Describes the effect of a call without running it. An error is the call's result, and the call does not run.
    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>>;
    /// Runs a planned call. Dropping the future cancels it.
    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput>;
}

/// The tools of an agent.
#[derive(Clone, Default)]
pub struct Tools {
    tools: Vec<Arc<dyn Tool>>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|tool| tool.declaration().name)).finish()
    }
}

impl Tools {
    /// The built-in tools for a folder: sums, and reading, searching and changing files.
    pub fn builtin(folder: impl Into<PathBuf>) -> Self {
        Self::changing(&Workspace::new(folder))
    }

    /// The built-in tools that change nothing: sums, and reading and searching files.
    pub fn reading(workspace: &Workspace) -> Self {
        Self::default()
            .with(Calculate)
            .with(ReadFile::of(workspace.clone()))
            .with(ListDir::of(workspace.clone()))
            .with(Find::of(workspace.clone()))
            .with(Grep::of(workspace.clone()))
            .with(Recall)
    }

    /// All built-in tools that work on files, including those that change them.
    pub fn changing(workspace: &Workspace) -> Self {
        Self::reading(workspace).with(WriteFile::of(workspace.clone())).with(EditFile::of(workspace.clone()))
    }

    /// Adds `fetch`, which reads pages of the web. It is never among the built-in tools, because a requested address can carry text
    /// that the model has read to a stranger.
    #[must_use]
    pub fn with_fetch(self) -> Self {
        self.with(Fetch::default())
    }

    /// Adds a tool, and returns the tools. It replaces a tool of the same name.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.add(Arc::new(tool));
        self
    }

    /// Adds a tool. It replaces a tool of the same name in place, so that the order of the declarations stays the same.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        let name = tool.declaration().name;
        match self.tools.iter_mut().find(|other| other.declaration().name == name) {
            Some(other) => *other = tool,
            None => self.tools.push(tool),
        }
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| &*tool.declaration().name == name)
    }

    /// The tools whose names `wanted` accepts.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let tools = self.tools.iter().filter(|tool| wanted(&tool.declaration().name));
        Self { tools: tools.cloned().collect() }
    }

    /// The declarations of all tools, for a request.
    pub fn declarations(&self) -> Vec<ToolDeclaration> {
        self.tools.iter().map(|tool| tool.declaration()).collect()
    }
}

#[cfg(test)]
mod tests;
