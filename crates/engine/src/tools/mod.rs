//! Tools that a model may call, one file each.
//!
//! A tool receives the exact text of its arguments and returns text; a [`FunctionTool`] receives them as a JSON value as well.
//! Tools do not write to the record; the turn does.

mod beneath;
mod calculate;
mod files;
mod function;

use std::{path::PathBuf, sync::Arc};

pub use calculate::{Calculate, SumError, evaluate};
pub use files::{ListDir, ReadFile};
pub use function::{FunctionTool, ToolArguments};
use rejoin_formats::context::ToolDeclaration;

use crate::provider::Doing;

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The text that the model reads.
    pub text: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl Output {
    /// The result of a tool that worked.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// The result of a tool that failed: the text tells the model why.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// A tool that a model may call. [`FunctionTool`] turns a function into one.
pub trait Tool: Send + Sync {
    /// The name, the description and the schema of the arguments, for the model.
    fn declaration(&self) -> ToolDeclaration;
    /// Runs the tool. The arguments are a JSON object, exactly as the model wrote it. Dropping the future cancels the call.
    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, Output>;
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
    /// The built-in tools, for a folder: sums, reading a file, listing a folder.
    pub fn builtin(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let mut tools = Self::default();
        tools.add(Arc::new(Calculate));
        tools.add(Arc::new(ReadFile::new(folder.clone())));
        tools.add(Arc::new(ListDir::new(folder)));
        tools
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
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_replaced_where_it_stands() {
        let mut tools = Tools::builtin(".");
        let before = tools.declarations();
        tools.add(Arc::new(ReadFile::new("/")));
        assert_eq!(tools.declarations(), before);
    }
}
