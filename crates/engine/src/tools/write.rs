//! `write_file`: creates a file, or replaces its whole content.

use std::path::PathBuf;

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{FileChange, Tool, ToolOutput, arguments::Given, work::on_another_thread, workspace::Workspace};
use crate::provider::Doing;

/// Writes a file.
#[derive(Debug, Clone)]
pub struct WriteFile(Workspace);

impl WriteFile {
    /// Writes files in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Workspace::new(folder))
    }

    /// Writes files in a workspace.
    pub fn of(workspace: Workspace) -> Self {
        Self(workspace)
    }

    /// The workspace, which applies what is planned.
    pub fn workspace(&self) -> &Workspace {
        &self.0
    }

    /// The change that a call asks for. Nothing is changed.
    ///
    /// # Errors
    /// A text for the model: what is wrong, and what to do.
    pub fn plan(&self, arguments: &str) -> Result<FileChange, String> {
        let mut given = Given::parse(arguments, &["path", "content"])?;
        let path = given.path()?;
        let content = given.needed("content")?;
        self.0.change(&path, |_, _| Ok(content.into_bytes()))
    }
}

/// Plans a change and applies it at once.
pub(super) fn change_now(
    workspace: &Workspace,
    planned: Result<FileChange, String>,
) -> Result<ToolOutput, String> {
    let change = planned?;
    workspace.apply(&change).map_err(|why| why.to_string())?;
    Ok(ToolOutput::of(change.summary()))
}

impl Tool for WriteFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the working folder; missing folders are created"},"content":{"type":"string","description":"the whole content of the file"}},"required":["path","content"],"additionalProperties":false}"#;
        let description =
            "Creates a file, or replaces all of its content. To change a part of a file, use edit_file.";
        ToolDeclaration::function("write_file", description, Raw::new(schema))
    }

    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, ToolOutput> {
        let (tool, arguments) = (self.clone(), arguments.to_owned());
        on_another_thread(move |_| change_now(&tool.0, tool.plan(&arguments)))
    }
}
