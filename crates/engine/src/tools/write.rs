//! `write_file`: creates a file, or replaces its whole content.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Raw, content::Confidence};

use super::{
    FileChange, Tool,
    arguments::CallArguments,
    change::ProposedChange,
    workspace::{Workspace, in_a_workspace, plan_and_run_changing},
};

/// The tool's name.
pub(crate) const NAME: &str = "write_file";

/// Writes a file.
#[derive(Debug, Clone)]
pub struct WriteFile(Workspace);

in_a_workspace!(WriteFile, "Writes files");

impl WriteFile {
    /// The change that a call asks for. It is only planned.
    ///
    /// # Errors
    /// A text for the model: the fault, and how to correct it.
    pub fn planned(&self, arguments: &str) -> Result<FileChange, String> {
        Ok(self.wanted(arguments)?.0)
    }

    fn wanted(&self, arguments: &str) -> Result<ProposedChange, String> {
        let Writing { path, content, confidence } = given(arguments)?;
        Ok((self.0.change(&path, |_, _| Ok(content.into_bytes()))?, confidence))
    }
}

/// The arguments of a call.
pub(super) struct Writing {
    path: String,
    pub(super) content: String,
    confidence: Option<Confidence>,
}

/// Reads the arguments of a call.
pub(super) fn given(arguments: &str) -> Result<Writing, String> {
    let mut given = CallArguments::parse(arguments, &["path", "content", "confidence"])?;
    Ok(Writing { path: given.path()?, content: given.needed("content")?, confidence: given.confidence()? })
}

impl Tool for WriteFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the working folder; missing folders are created"},"content":{"type":"string","description":"the whole content of the file"},"confidence":{"type":"number","minimum":0,"maximum":1,"description":"how sure you are that the change is right, from 0 to 1 (optional)"}},"required":["path","content"],"additionalProperties":false}"#;
        let description =
            "Creates a file, or replaces all of its content. To change a part of a file, use edit_file.";
        ToolDeclaration::function(NAME, description, Raw::new(schema))
    }

    plan_and_run_changing!();
}
