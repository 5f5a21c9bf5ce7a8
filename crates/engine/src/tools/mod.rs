//! Tools: what a model may call, one file each.
//!
//! A tool gets the exact text of its arguments and gives back text; a [`FunctionTool`] gets them as a JSON value as well. No tool
//! writes to the record; the turn does.

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

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl Output {
    /// It worked.
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// It failed; the model is told why.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// Something that a model may call. [`FunctionTool`] makes one of a function.
pub trait Tool: Send + Sync {
    /// Its name, what it is for, and what it takes.
    fn declaration(&self) -> ToolDeclaration;
    /// Does it. The arguments are a JSON object, as the model wrote it. If the future is dropped, it is given up.
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
    /// The tools that every agent has, for a folder.
    #[must_use]
    pub fn builtin(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let mut tools = Self::default();
        tools.add(Arc::new(Calculate));
        tools.add(Arc::new(ReadFile::new(folder.clone())));
        tools.add(Arc::new(ListDir::new(folder)));
        tools
    }

    /// The same tools and one more. One of the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.add(Arc::new(tool));
        self
    }

    /// Adds a tool. One of the same name is replaced where it stands: what a model is told stays in its order.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        let name = tool.declaration().name;
        match self.tools.iter_mut().find(|other| other.declaration().name == name) {
            Some(other) => *other = tool,
            None => self.tools.push(tool),
        }
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| &*tool.declaration().name == name)
    }

    /// What a model is told of them.
    #[must_use]
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
