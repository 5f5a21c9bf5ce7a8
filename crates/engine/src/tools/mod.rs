//! Tools that a model may call, one file each.
//!
//! A tool receives the exact text of its arguments and returns text; a [`FunctionTool`] receives them as a JSON value as well.
//! Tools do not write to the record; the turn does.

mod arguments;
mod beneath;
mod calculate;
mod change;
mod edit;
#[cfg(feature = "network")]
mod fetch;
mod find;
mod function;
mod grep;
mod list;
mod read;
mod walk;
mod work;
mod workspace;
mod write;

use std::{path::PathBuf, sync::Arc};

pub use beneath::PathRefused;
pub use calculate::{Calculate, SumError, evaluate};
pub use change::{ApplyError, ExpectedContent, FileChange, Restored};
pub use edit::EditFile;
#[cfg(feature = "network")]
pub use fetch::Fetch;
pub use find::Find;
pub use function::{FunctionTool, ToolArguments};
pub use grep::Grep;
pub use list::ListDir;
pub use read::ReadFile;
use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Block;
pub use workspace::Workspace;
pub use write::WriteFile;

use crate::provider::Doing;

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    /// Images and documents that the model gets after the text. A provider that cannot take them gets a text that says so.
    pub media: Vec<Block>,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolOutput {
    /// The result of a tool that worked.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), media: Vec::new(), is_error: false }
    }

    /// The result of a tool that failed: the text tells the model why.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), media: Vec::new(), is_error: true }
    }
}

/// A tool that a model may call. [`FunctionTool`] turns a function into one.
pub trait Tool: Send + Sync {
    /// The name, the description and the schema of the arguments, for the model.
    fn declaration(&self) -> ToolDeclaration;
    /// Runs the tool. The arguments are a JSON object, exactly as the model wrote it. Dropping the future cancels the call.
    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, ToolOutput>;
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
    }

    /// All built-in tools that work on files, including those that change them.
    pub fn changing(workspace: &Workspace) -> Self {
        Self::reading(workspace).with(WriteFile::of(workspace.clone())).with(EditFile::of(workspace.clone()))
    }

    /// Adds `fetch`, which reads pages of the web. It is never among the built-in tools: what a model fetches may tell others what
    /// it has read.
    #[cfg(feature = "network")]
    #[must_use]
    pub fn with_fetch(self) -> Self {
        self.with(Fetch::default())
    }

    /// Adds a tool, and returns the tools. A tool of the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.add(Arc::new(tool));
        self
    }

    /// Adds a tool. A tool of the same name is replaced in its place, so that the order of the declarations stays.
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

    /// The declarations of all tools, for a request.
    pub fn declarations(&self) -> Vec<ToolDeclaration> {
        self.tools.iter().map(|tool| tool.declaration()).collect()
    }
}

#[cfg(test)]
mod tests;
