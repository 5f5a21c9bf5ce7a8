//! `grep`: finds lines that match a regular expression, with ripgrep's searcher.
//!
//! Binary files are skipped by ripgrep's rule: a NUL byte ends the search of a file. Nothing of such a file is shown, so that the
//! result does not depend on the position of that byte.

use std::io::{self, Read};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{
    Tool, ToolOutput,
    arguments::CallArguments,
    beneath::{EntryKind, OpenFileBeneath},
    change::counted,
    walk::{Glob, PATTERN, SEARCH_TIME, Start, WalkEnd},
    work::{WorkLimit, grouped, shown},
    workspace::{Workspace, in_a_workspace, plan_and_run_reading},
};

/// The most matching lines in a result, and the most bytes of all lines.
const MATCHES: u64 = 500;
const SHOWN: usize = 64 * 1024;
/// The most lines of context on each side.
const CONTEXT: u64 = 20;
/// The most characters of a line in a result, and how many of them come before its match.
const LINE: usize = 400;
const BEFORE: usize = 100;
/// The memory limit of a search, in bytes. It must hold the longest line of a file with its context.
const HEAP: usize = 32 * 1024 * 1024;
/// The memory limit of a compiled expression, in bytes.
const EXPRESSION: usize = 16 * 1024 * 1024;

/// Searches the text of files.
#[derive(Debug, Clone)]
pub struct Grep(Workspace);

in_a_workspace!(Grep, "Searches files");

impl Grep {
    fn grep(&self, arguments: &str, until: &WorkLimit) -> Result<String, String> {
        let mut given = CallArguments::parse(arguments, &["pattern", "path", "glob", "context"])?;
        let path = given.path_or_here()?;
        let pattern = given.short("pattern", PATTERN)?.filter(|pattern| !pattern.is_empty());
        let pattern = pattern.ok_or("`pattern` is missing: it must be a regular expression")?;
        let glob = given.short("glob", PATTERN)?.map(|glob| Glob::parse(&glob)).transpose()?;
        let context = given.number("context", 0, CONTEXT)?.unwrap_or(0);
        let matcher = compile(&pattern)?;
        let until = until.within(SEARCH_TIME);
        let mut search = Search::new(&matcher, usize::try_from(context).unwrap_or(0), &until);
        let ended = match self.0.start(&path)? {
            Start::File(path, opened) => {
                if search.file(&path, opened) == SearchOutcome::Binary {
                    return Err(format!("`{path}` is a binary file, which grep does not search"));
                }
                WalkEnd { early: until.is_over(), skipped: 0 }
            }
            Start::Folder(start) => self.0.walk(&start, &until, &mut |met, hidden| {
                let wanted =
                    met.entry.kind == EntryKind::File && glob.as_ref().is_none_or(|glob| glob.matches(met));
                if let Some(opened) = wanted.then(|| met.open()).flatten()
                    && !hidden.has(&opened)
                {
                    search.file(met.path, opened);
                }
            })?,
        };
        Ok(search.text(ended))
    }
}

/// Compiles a regular expression. An error shows the position of the fault.
fn compile(pattern: &str) -> Result<RegexMatcher, String> {
    let wrong = |why: String| {
        format!("`pattern` cannot be searched for; write `\\` before a sign that is meant literally. {why}")
    };
    // Parse the pattern alone: the matcher wraps it first, so its own errors point to the wrong place.
    regex_syntax::ParserBuilder::new()
        .utf8(false)
        .build()
        .parse(pattern)
        .map_err(|why| wrong(why.to_string()))?;
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).multi_line(true).crlf(true);
    builder.size_limit(EXPRESSION).dfa_size_limit(EXPRESSION);
    builder.build(pattern).map_err(|why| wrong(why.to_string()))
}

/// The outcome of searching one file.
#[derive(Debug, PartialEq, Eq)]
enum SearchOutcome {
    Text,
    Binary,
    Failed,
}

/// A search through many files.
struct Search<'s> {
    matcher: &'s RegexMatcher,
    searcher: Searcher,
    until: &'s WorkLimit,
    shown: String,
    /// The number of matching lines that are shown.
    matches: u64,
    /// The number of further matching lines, and the number of files with them.
    more: u64,
    more_files: usize,
    failed: usize,
}

impl<'s> Search<'s> {
    fn new(matcher: &'s RegexMatcher, context: usize, until: &'s WorkLimit) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .bom_sniffing(true)
            .build();
        Self { matcher, searcher, until, shown: String::new(), matches: 0, more: 0, more_files: 0, failed: 0 }
    }

    fn file(&mut self, path: &str, opened: OpenFileBeneath) -> SearchOutcome {
        let mut lines = Lines {
            matcher: self.matcher,
            text: String::new(),
            room: SHOWN.saturating_sub(self.shown.len()),
            matches: 0,
            most: MATCHES - self.matches,
            more: 0,
            is_binary: false,
        };
        let reader = Reader { file: opened.file, until: self.until };
        let searched = self.searcher.search_reader(self.matcher, reader, &mut lines);
        if lines.is_binary {
            return SearchOutcome::Binary;
        }
        if searched.is_err() && !self.until.is_over() {
            self.failed += 1;
        }
        if lines.matches > 0 {
            let between = if self.shown.is_empty() { "" } else { "\n" };
            self.shown.push_str(&format!("{between}{}\n{}", shown(path), lines.text));
        }
        self.matches += lines.matches;
        self.more += lines.more;
        self.more_files += usize::from(lines.more > 0);
        if searched.is_ok() { SearchOutcome::Text } else { SearchOutcome::Failed }
    }

    fn text(self, mut ended: WalkEnd) -> String {
        ended.skipped += self.failed;
        let mut text = self.shown;
        if self.matches == 0 {
            text.push_str(
                "[no line matches; binary files and files that .gitignore names are not searched]\n",
            );
        }
        if self.more > 0 {
            let lines = if self.more == 1 { "line" } else { "lines" };
            text.push_str(&format!(
                "[and {} more matching {lines} in {}: make the pattern narrower, or use `path` or `glob`]\n",
                grouped(self.more),
                counted(self.more_files, "file")
            ));
        }
        if let Some(note) = ended.note() {
            text.push_str(&note);
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}

/// The shown lines of one file.
struct Lines<'l> {
    matcher: &'l RegexMatcher,
    text: String,
    room: usize,
    matches: u64,
    most: u64,
    more: u64,
    is_binary: bool,
}

impl Lines<'_> {
    fn is_full(&self) -> bool {
        self.more > 0 || self.matches >= self.most || self.text.len() >= self.room
    }

    fn line(&mut self, number: Option<u64>, sign: char, line: &[u8]) {
        let start = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let text = String::from_utf8_lossy(line);
        let line = window(text.trim_end_matches(['\n', '\r']), start);
        self.text.push_str(&format!("{}{sign}{line}\n", number.unwrap_or(0)));
    }
}

/// The part of a long line around its match, which begins at byte `start`.
fn window(line: &str, start: usize) -> std::borrow::Cow<'_, str> {
    let total = line.chars().count();
    if total <= LINE {
        return line.into();
    }
    // Invalid UTF-8 was replaced by longer characters, so the position is only approximate.
    let before = line.char_indices().take_while(|(at, _)| *at < start).count();
    let skipped = before.saturating_sub(BEFORE).min(total - LINE);
    let part: String = line.chars().skip(skipped).take(LINE).collect();
    let left = if skipped > 0 { "[…] " } else { "" };
    let right = if skipped + LINE < total { " […]" } else { "" };
    format!("{left}{part}{right} [line of {} characters, cut]", grouped(total as u64)).into()
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.is_full() {
            self.more += 1;
        } else {
            self.matches += 1;
            self.line(found.line_number(), ':', found.bytes());
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        // The context after the last shown match is shown, too.
        let fits = self.matches < self.most || *context.kind() == SinkContextKind::After;
        if self.more == 0 && self.text.len() < self.room && fits {
            self.line(context.line_number(), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if !self.is_full() {
            self.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A file whose reading fails once the search must end.
struct Reader<'r> {
    file: std::fs::File,
    until: &'r WorkLimit,
}

impl Read for Reader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.until.is_over() {
            return Err(io::Error::other("the search is over"));
        }
        self.file.read(to)
    }
}

impl Tool for Grep {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"pattern":{"type":"string","description":"a regular expression (Rust syntax), compared with each line; (?i) at its beginning ignores case"},"path":{"type":"string","description":"the folder or file to search, relative to the working folder (default: the working folder)"},"glob":{"type":"string","description":"search only files that match this glob: *.rs, or src/**/*.rs"},"context":{"type":"integer","description":"how many lines to show before and after each match (default: 0)"}},"required":["pattern"],"additionalProperties":false}"#;
        let description = "Searches the text of files for a regular expression. Shows matching lines with their numbers (`12:text`), \
                           and lines around them (`13-text`), under the path of each file. Binary files and files that .gitignore \
                           names are not searched.";
        ToolDeclaration::function("grep", description, Raw::new(schema))
    }

    plan_and_run_reading!(|tool: &Grep, arguments: &str, until: &WorkLimit| tool
        .grep(arguments, until)
        .map(ToolOutput::of));
}

#[cfg(test)]
pub(super) mod tests;
