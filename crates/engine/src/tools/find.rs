//! `find`: finds files and folders by a glob.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{
    Tool, ToolOutput,
    arguments::CallArguments,
    beneath::EntryKind,
    walk::{Glob, PATTERN, SEARCH_TIME, Start},
    work::{WorkLimit, grouped, shown},
    workspace::{Workspace, in_a_workspace, plan_and_run_reading},
};

/// The most paths in a result.
const SHOWN: usize = 1_000;

/// Finds files and folders by name.
#[derive(Debug, Clone)]
pub struct Find(Workspace);

in_a_workspace!(Find, "Finds files");

impl Find {
    fn find(&self, arguments: &str, until: &WorkLimit) -> Result<String, String> {
        let mut given = CallArguments::parse(arguments, &["pattern", "path"])?;
        let path = given.path_or_here()?;
        let pattern = given.short("pattern", PATTERN)?.filter(|pattern| !pattern.is_empty());
        let pattern =
            pattern.ok_or("`pattern` is missing: it must be a glob such as \"*.rs\" or \"src/**/*.rs\"")?;
        let glob = Glob::parse(&pattern)?;
        let Start::Folder(start) = self.0.start(&path)? else {
            return Err(format!("`{path}` is a file: `path` must be a folder to search in"));
        };
        let (mut found, mut more) = (Vec::new(), 0_u64);
        let ended = self.0.walk(&start, &until.within(SEARCH_TIME), &mut |met, _| {
            if !glob.matches(met) {
                return;
            }
            if found.len() == SHOWN {
                more += 1;
                return;
            }
            let end = if met.entry.kind == EntryKind::Folder { "/" } else { "" };
            found.push(format!("{}{end}", shown(met.path)));
        })?;
        // The walk descends into a folder before its siblings; sort the whole list, which is easier to search.
        found.sort();
        if found.is_empty() {
            found.push(String::from("[nothing found; files that .gitignore names are not searched]"));
        }
        if more > 0 {
            found.push(format!(
                "[and {} more: make the pattern narrower, or search a smaller folder]",
                grouped(more)
            ));
        }
        found.extend(ended.note());
        Ok(found.join("\n"))
    }
}

impl Tool for Find {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"pattern":{"type":"string","description":"a glob: *.rs finds names in every folder, src/**/*.rs finds paths"},"path":{"type":"string","description":"the folder to search, relative to the working folder (default: the working folder)"}},"required":["pattern"],"additionalProperties":false}"#;
        let description = "Finds files and folders by a glob. Folders end with `/`. Files that .gitignore names are not searched.";
        ToolDeclaration::function("find", description, Raw::new(schema))
    }

    plan_and_run_reading!(|tool: &Find, arguments: &str, until: &WorkLimit| tool
        .find(arguments, until)
        .map(ToolOutput::of));
}

#[cfg(test)]
pub(super) mod tests;
