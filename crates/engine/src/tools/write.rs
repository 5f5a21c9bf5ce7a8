//! `write_file`: creates a file, or replaces its whole content.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{
    FileChange, Tool,
    arguments::Given,
    workspace::{Workspace, in_a_workspace, plan_and_run_changing},
};

/// The tool's name.
pub(crate) const NAME: &str = "write_file";

/// Writes a file.
#[derive(Debug, Clone)]
pub struct WriteFile(Workspace);

in_a_workspace!(WriteFile, "Writes files");

impl WriteFile {
    /// The change that a call asks for. Nothing is changed.
    ///
    /// # Errors
    /// A text for the model: what is wrong, and what to do.
    pub fn planned(&self, arguments: &str) -> Result<FileChange, String> {
        let (path, content) = given(arguments)?;
        self.0.change(&path, |_, _| Ok(content.into_bytes()))
    }
}

/// The path and the content of a call.
pub(super) fn given(arguments: &str) -> Result<(String, String), String> {
    let mut given = Given::parse(arguments, &["path", "content"])?;
    Ok((given.path()?, given.needed("content")?))
}

impl Tool for WriteFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the working folder; missing folders are created"},"content":{"type":"string","description":"the whole content of the file"}},"required":["path","content"],"additionalProperties":false}"#;
        let description =
            "Creates a file, or replaces all of its content. To change a part of a file, use edit_file.";
        ToolDeclaration::function(NAME, description, Raw::new(schema))
    }

    plan_and_run_changing!();
}
