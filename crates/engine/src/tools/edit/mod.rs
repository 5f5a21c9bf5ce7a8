//! `edit_file`: replaces exact text in a file, all edits or none.
//!
//! Edits apply in order, each to the result of the previous one. If a text must be unique and is not, the edit is refused. If a
//! text is not found, the error shows the places that resemble it most (`nearest.rs`), so that a model can correct itself.
//!
//! Line endings: models write `\n`. In a file with `\r\n`, a text that is not found as given is searched with the file's own line
//! endings, and replaced with them.

mod nearest;

use std::borrow::Cow;

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Raw, content::Confidence};

use super::{
    FileChange, Tool,
    arguments::CallArguments,
    change::{ProposedChange, counted},
    work::{cut, grouped},
    workspace::{CHANGED_FILE, Workspace, in_a_workspace, plan_and_run_changing},
};

/// The most edits of one call.
const EDITS: usize = 200;
/// How many places of a text that is not unique are shown.
const PLACES: usize = 5;
/// How many characters of a line an error shows.
const LINE: usize = 200;

/// The tool's name.
pub(super) const NAME: &str = "edit_file";

/// Edits a file.
#[derive(Debug, Clone)]
pub struct EditFile(Workspace);

/// One replacement.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    old: String,
    new: String,
    all: bool,
}

/// The arguments of a call.
struct EditArguments {
    path: String,
    edits: Vec<Edit>,
    confidence: Option<Confidence>,
}

in_a_workspace!(EditFile, "Edits files");

impl EditFile {
    /// The change that a call asks for. It is only planned.
    ///
    /// # Errors
    /// A text for the model: which edit cannot be made and why, and how to correct it.
    pub fn planned(&self, arguments: &str) -> Result<FileChange, String> {
        Ok(self.wanted(arguments)?.0)
    }

    fn wanted(&self, arguments: &str) -> Result<ProposedChange, String> {
        let EditArguments { path, edits, confidence } = given(arguments)?;
        Ok((self.0.change(&path, |path, before| after(path, before, &edits))?, confidence))
    }
}

/// The content that a call with these arguments makes from an earlier content.
pub(super) fn replayed(arguments: &str, before: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let EditArguments { path, edits, .. } = given(arguments)?;
    after(&path, before, &edits)
}

/// Reads the arguments of a call.
fn given(arguments: &str) -> Result<EditArguments, String> {
    let mut given = CallArguments::parse(arguments, &["path", "edits", "confidence"])?;
    let path = given.path()?;
    let edits = given.objects("edits", EDITS, &["old", "new", "all"])?;
    let edits = edits.into_iter().map(|mut edit| {
        Ok(Edit { old: edit.needed("old")?, new: edit.needed("new")?, all: edit.flag("all")? })
    });
    Ok(EditArguments { path, edits: edits.collect::<Result<_, String>>()?, confidence: given.confidence()? })
}

/// The content after all edits.
fn after(path: &str, before: Option<&[u8]>, edits: &[Edit]) -> Result<Vec<u8>, String> {
    let Some(before) = before else {
        return match edits {
            [Edit { old, new, .. }] if old.is_empty() => Ok(new.clone().into_bytes()),
            _ => Err(format!(
                "`{path}` does not exist; find shows which files do. To create it, use write_file"
            )),
        };
    };
    let Ok(before) = std::str::from_utf8(before) else {
        return Err(format!("`{path}` is not UTF-8 text: edit_file cannot change it"));
    };
    edited(path, before, edits).map(String::into_bytes)
}

/// The text after all edits.
fn edited(path: &str, before: &str, edits: &[Edit]) -> Result<String, String> {
    let mut text = before.to_owned();
    for (number, edit) in edits.iter().enumerate() {
        let name = if edits.len() == 1 { String::from("the edit") } else { format!("edit {}", number + 1) };
        if let Some(same) = edits[..number].iter().position(|other| other == edit) {
            return Err(format!(
                "{name} is the same as edit {}: nothing was changed. Leave one out",
                same + 1
            ));
        }
        text = one(&text, edit).map_err(|fault| {
            let context = Fault { path, before, text: &text, edit, is_first: number == 0 };
            format!("nothing was changed, because {name} cannot be made: {}", context.words(fault))
        })?;
        if text.len() as u64 > CHANGED_FILE {
            return Err(format!(
                "nothing was changed: `{path}` would have more than {} bytes",
                grouped(CHANGED_FILE)
            ));
        }
    }
    if text == before {
        return Err(format!("nothing was changed: after all edits `{path}` is the same as before"));
    }
    Ok(text)
}

/// The reason why an edit cannot be made.
enum EditProblem {
    Same,
    EmptyOld,
    NotFound,
    NotUnique(usize),
    TooLarge,
}

/// The text after one edit.
fn one(text: &str, edit: &Edit) -> Result<String, EditProblem> {
    if edit.old == edit.new {
        return Err(EditProblem::Same);
    }
    if edit.old.is_empty() {
        return if text.is_empty() { Ok(edit.new.clone()) } else { Err(EditProblem::EmptyOld) };
    }
    let (mut old, mut new) = (Cow::Borrowed(&*edit.old), Cow::Borrowed(&*edit.new));
    let mut count = text.matches(&*old).count();
    if count == 0 && text.contains("\r\n") && !old.contains('\r') {
        old = old.replace('\n', "\r\n").into();
        new = new.replace("\r\n", "\n").replace('\n', "\r\n").into();
        count = text.matches(&*old).count();
    }
    match count {
        0 => return Err(EditProblem::NotFound),
        1 => {}
        _ if edit.all => {}
        count => return Err(EditProblem::NotUnique(count)),
    }
    // Check the size beforehand: every occurrence of a letter can be replaced by a whole book.
    let size = (text.len() as u64).saturating_add((count as u64).saturating_mul(new.len() as u64));
    if size.saturating_sub((count * old.len()) as u64) > CHANGED_FILE {
        return Err(EditProblem::TooLarge);
    }
    Ok(text.replace(&*old, &new))
}

/// The details of an edit that cannot be made.
struct Fault<'e> {
    path: &'e str,
    before: &'e str,
    text: &'e str,
    edit: &'e Edit,
    is_first: bool,
}

impl Fault<'_> {
    fn words(&self, why: EditProblem) -> String {
        let Self { path, text, edit, .. } = self;
        match why {
            EditProblem::Same => String::from("`old` and `new` are the same"),
            EditProblem::EmptyOld => format!(
                "`old` is empty, which only fits an empty file, and `{path}` has {}. Put the text before or after which to insert \
                 into `old`, and repeat it in `new`",
                counted(text.lines().count(), "line")
            ),
            EditProblem::TooLarge => format!("`{path}` would have more than {} bytes", grouped(CHANGED_FILE)),
            EditProblem::NotUnique(count) => {
                let mut said = format!(
                    "`old` is found {} times in `{path}`. Add lines around the one you mean, or set `all` to true. It is found at",
                    grouped(count as u64)
                );
                let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
                let crlf = edit.old.replace('\n', "\r\n");
                let old = if text.contains(&edit.old) { &edit.old } else { &crlf };
                for (at, _) in text.match_indices(old.as_str()).take(PLACES) {
                    let line = ends.partition_point(|end| *end < at);
                    let start = line.checked_sub(1).map_or(0, |above| ends[above] + 1);
                    let end = ends.get(line).copied().unwrap_or(text.len());
                    said.push_str(&format!(
                        "\nline {}: {}",
                        line + 1,
                        cut(text[start..end].trim_end(), LINE)
                    ));
                }
                if count > PLACES {
                    said.push_str(&format!("\n[and {} more]", grouped((count - PLACES) as u64)));
                }
                said
            }
            EditProblem::NotFound => {
                if !self.is_first && one(self.before, edit).is_ok() {
                    return format!(
                        "its `old` was in `{path}` before, but an earlier edit of this call changed that text. Edits apply in \
                         order, each to the result of the one before: combine those that overlap"
                    );
                }
                if text.is_empty() {
                    return format!("`{path}` is empty. Use an empty `old`, or write_file");
                }
                format!("`old` is not found in `{path}`. {}", nearest::places(text, &edit.old))
            }
        }
    }
}

impl Tool for EditFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the working folder"},"edits":{"type":"array","description":"the edits, applied in order; if one cannot be made, none is","items":{"type":"object","properties":{"old":{"type":"string","description":"the exact text to replace, with its white space; it must be found exactly once, unless all is true"},"new":{"type":"string","description":"the text to put in its place; empty to delete"},"all":{"type":"boolean","description":"replace every occurrence (default: false)"}},"required":["old","new"],"additionalProperties":false}},"confidence":{"type":"number","minimum":0,"maximum":1,"description":"how sure you are that the change is right, from 0 to 1 (optional)"}},"required":["path","edits"],"additionalProperties":false}"#;
        let description =
            "Replaces exact text in a file. Read the file first, and copy the text to replace from it.";
        ToolDeclaration::function(NAME, description, Raw::new(schema))
    }

    plan_and_run_changing!();
}

#[cfg(test)]
mod tests;
