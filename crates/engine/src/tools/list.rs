//! `list_dir`: lists the names in a folder.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{
    Tool, ToolOutput,
    arguments::CallArguments,
    work::{WorkLimit, grouped, shown},
    workspace::{Workspace, in_a_workspace, plan_and_run_reading, refusal_of},
};

/// The most names in a result.
const NAMES: usize = 2_000;

/// Lists a folder.
#[derive(Debug, Clone)]
pub struct ListDir(Workspace);

in_a_workspace!(ListDir, "Lists folders");

impl ListDir {
    fn list(&self, arguments: &str) -> Result<String, String> {
        let path = CallArguments::parse(arguments, &["path"])?.path_or_here()?;
        let folder = &self.0.folder;
        let mut names: Vec<String> = Vec::new();
        let mut more = 0;
        let mut take = |name: std::ffi::OsString| {
            names.push(name.to_string_lossy().into_owned());
            // Keep at most twice as many names as the result has.
            if names.len() >= 2 * NAMES {
                more += first(&mut names);
            }
        };
        folder.each_name(&path, &mut take).map_err(refusal_of(&path))?;
        more += first(&mut names);
        for name in &mut names {
            let end = if folder.is_folder(&path, name) { "/" } else { "" };
            *name = format!("{}{end}", shown(name));
        }
        if names.is_empty() {
            return Ok(String::from("[the folder is empty]"));
        }
        let mut text = names.join("\n");
        if more > 0 {
            text.push_str(&format!("\n[and {} more; find shows names by a pattern]", grouped(more as u64)));
        }
        Ok(text)
    }
}

/// Sorts names and keeps the first [`NAMES`]. Returns the number of the others.
fn first(names: &mut Vec<String>) -> usize {
    names.sort();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    more
}

impl Tool for ListDir {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"the folder, relative to the working folder (default: the working folder)"}},"additionalProperties":false}"#;
        let description = "Lists the names in a folder, sorted. Folders end with `/`.";
        ToolDeclaration::function("list_dir", description, Raw::new(schema))
    }

    plan_and_run_reading!(|tool: &ListDir, arguments: &str, _: &WorkLimit| tool
        .list(arguments)
        .map(ToolOutput::of));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_of_many_is_listed_in_part() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * NAMES + 10 {
            fs::write(folder.path().join(format!("{number:05}")), "").unwrap();
        }
        fs::create_dir(folder.path().join("00000x")).unwrap();
        let listed = ListDir::new(folder.path()).list("{}").unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!((lines[0], lines[1], lines[NAMES - 1]), ("00000", "00000x/", "01998"));
        assert_eq!(
            lines[NAMES..],
            [format!("[and {} more; find shows names by a pattern]", grouped(NAMES as u64 + 11))]
        );
    }

    #[test]
    fn only_folders_inside_are_listed() {
        let folder = testkit::folder_with(&[("in/a.txt", "hello"), ("in/sub/b", ""), ("in/empty/", "")]);
        let list = ListDir::new(folder.path().join("in"));
        assert_eq!(list.list("{}").unwrap(), "a.txt\nempty/\nsub/");
        assert_eq!(list.list(r#"{"path":"sub"}"#).unwrap(), "b");
        assert_eq!(list.list(r#"{"path":"empty"}"#).unwrap(), "[the folder is empty]");
        for (arguments, why) in [
            (r#"{"path":".."}"#, "outside"),
            (r#"{"path":"a.txt"}"#, "a.txt"),
            (r#"{"path":"nothing"}"#, "does not exist"),
            (r#"{"folder":"."}"#, "no argument `folder`"),
        ] {
            let said = list.list(arguments).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    /// A name with a line break takes one line of the list.
    #[cfg(unix)]
    #[test]
    fn strange_names_are_quoted() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a\nb"), "").unwrap();
        fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"x\xff")), "").unwrap();
        assert_eq!(ListDir::new(folder.path()).list("{}").unwrap(), "\"a\\nb\"\nx\u{fffd}");
    }
}
