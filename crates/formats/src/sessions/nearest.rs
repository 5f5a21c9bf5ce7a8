//! What an unknown file looks like: its fields, the formats that come nearest, and what each of them would need.
//!
//! This is for people. Nothing is read because of it.

use std::fmt;

#[cfg(feature = "sqlite")]
use super::database::Database;
use super::registry::FORMATS;
use crate::{accounting::FileShape, input::Input};

/// How much of a text is looked at.
const LOOK_AT: usize = 256 * 1024;

/// A larger text is not read in other formats only to say whether that works.
const TRY: usize = 8 * 1024 * 1024;

/// How many formats are named, and how many fields of a file.
const NAMED: usize = 3;
const FIELDS: usize = 6;

/// The fields that the lines of a format have, or its document. `a|b` is either of two.
const MARKS: &[(&str, &[&str])] = &[
    ("claude-code", &["type", "uuid", "parentUuid", "sessionId", "message.content"]),
    ("codex", &["timestamp", "type", "payload.type"]),
    ("cody", &["timestamp", "item.type", "item.data"]),
    ("agent-orchestration", &["type", "timestamp", "data.agent|data.sessionId"]),
    ("prometheus", &["[].user_id|user_id", "[].message_type|message_type", "[].content|content"]),
    ("gemini-cli", &["sessionId", "projectHash", "type|messages[].type", "content|messages[].content"]),
    ("qwen-code", &["uuid", "parentUuid", "sessionId", "message.parts[]"]),
    ("pi", &["type", "id", "parentId", "message.role", "message.content"]),
    ("copilot-cli", &["type", "id", "parentId", "data"]),
    ("cursor", &["role", "message.content"]),
    ("droid", &["type", "id", "message.role", "message.content"]),
    ("kiro", &["conversation_id", "history[]"]),
    ("antigravity", &["app", "conversation.messages[].role|conversation.messages[]"]),
    ("codex-exec", &["type", "item.type", "item.id"]),
    ("cline", &["[].role", "[].content", "[].ts", "[].modelInfo"]),
    ("roo-code", &["[].role", "[].content", "[].ts"]),
    ("opencode", &["info.id", "messages[].info.role", "messages[].parts[].type"]),
    ("goose", &["id", "role", "created", "content[].type"]),
    ("openhands", &["[].source|history[].source|source", "[].action|history[].action|action"]),
    ("swe-agent", &["trajectory[].action", "trajectory[].observation", "history[].role"]),
    ("mini-swe-agent", &["info.mini_version|trajectory_format", "messages[].role", "messages[].content"]),
    ("tau-bench", &["[].task_id", "[].traj[].role", "[].traj[].content"]),
    ("tau2-bench", &["simulations[].messages[].role", "simulations[].task_id"]),
    ("inspect", &["eval.task|eval.eval_id", "samples[].messages[].role"]),
    (
        "agent-framework",
        &["messages[].role|[].role|role", "messages[].contents[].type|[].contents[].type|contents[].type"],
    ),
    ("langchain", &["[].type|type", "[].data.content|data.content"]),
    (
        "sharegpt",
        &["conversations[].from|[].conversations[].from", "conversations[].value|[].conversations[].value"],
    ),
    ("turns", &["timestamp", "items[].type", "metadata"]),
    ("jsonl", &["v", "id", "seq", "type", "inner", "hash"]),
    ("openai-chat", &["messages[].role|[].role|role", "messages[].content|[].content|content"]),
    (
        "openai-responses",
        &["input[].type|[].type|type", "input[].role|[].role|role", "input[].content|[].content|content"],
    ),
    ("anthropic", &["messages[].role|[].role", "messages[].content[].type|[].content[].type"]),
    ("gemini", &["contents[].parts[]|[].parts[]", "contents[].role|[].role"]),
];

/// A format that a file comes near to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The name of the format.
    pub format: &'static str,
    /// The fields of the format that the file lacks.
    pub lacks: Vec<&'static str>,
    /// Whether naming the format would read the text.
    pub reads: bool,
}

/// What an unknown file looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    shape: FileShape,
    /// The formats that come nearest, the nearest first.
    pub nearest: Vec<Nearest>,
}

impl Likeness {
    /// Looks at a text. None if there is no JSON in it.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let beginning = &text[..text.floor_char_boundary(LOOK_AT)];
        // A document that is cut has no shape; a line that is cut is one of many.
        let document = text.len() > LOOK_AT && FileShape::with_likely_names(beginning).values == 0;
        let shape =
            FileShape::with_likely_names(if document && text.len() <= TRY { text } else { beginning });
        if shape.values == 0 {
            return None;
        }
        let has = |mark: &str| mark.split('|').any(|place| shape.having(place) > 0);
        let mut nearest: Vec<(usize, Nearest)> = Vec::new();
        for (format, marks) in MARKS {
            let lacks: Vec<&'static str> = marks.iter().copied().filter(|mark| !has(mark)).collect();
            let shared = marks.len() - lacks.len();
            if shared * 2 >= marks.len() {
                nearest.push((shared, Nearest { format, lacks, reads: false }));
            }
        }
        // The fewest that are missing, then the most that are there.
        nearest.sort_by_key(|(shared, near)| (near.lacks.len(), std::cmp::Reverse(*shared)));
        let mut nearest: Vec<Nearest> = nearest.into_iter().map(|(_, near)| near).take(NAMED).collect();
        if text.len() <= TRY {
            nearest.iter_mut().for_each(|near| near.reads = reads(text, near.format));
        }
        Some(Self { shape, nearest })
    }

    /// The formats that would read the text if they were named.
    pub fn readers(&self) -> impl Iterator<Item = &'static str> {
        self.nearest.iter().filter(|near| near.reads).map(|near| near.format)
    }

    /// The field of a document that is the longest list of objects with known fields, and how many it holds.
    fn longest_list(&self) -> Option<(&str, usize)> {
        let list = |place: &'_ String| {
            let name = place
                .strip_suffix("[]")
                .filter(|name| !name.contains(['.', '[', '*']) && !name.is_empty())?;
            Some(name.len()).filter(|_| !self.shape.fields(&format!("{place}.")).is_empty())
        };
        let lists = self.shape.places.iter().filter_map(|(place, types)| {
            let end = list(place)?;
            Some((&place[..end], types.values().sum::<usize>()))
        });
        lists.min_by_key(|(_, count)| std::cmp::Reverse(*count))
    }

    /// The nearest formats that would not, each with what the file lacks: `codex (no payload.type)`.
    pub fn others(&self) -> impl Iterator<Item = String> {
        let without = |near: &Nearest| {
            let lacks: Vec<String> = near.lacks.iter().map(|mark| mark.replace('|', " or ")).collect();
            format!("{} (no {})", near.format, lacks.join(", no "))
        };
        self.nearest.iter().filter(|near| !near.reads && !near.lacks.is_empty()).map(without)
    }
}

/// Whether most of a text is read in a format that is named.
fn reads(text: &str, format: &str) -> bool {
    let format = FORMATS.iter().find(|known| known.name == format);
    let reading = format.and_then(|format| format.read.as_ref());
    let input = Input::new("", text.as_bytes());
    input.is_ok_and(|input| reading.is_some_and(|reading| reading.read(&input).is_ok()))
}

/// The format whose tables a database comes nearest to, and what it lacks, in words. `None` if it has less than half of what any
/// format needs.
#[cfg(feature = "sqlite")]
pub(super) fn of_database(database: &Database) -> Option<String> {
    let mut nearest: Option<(f64, String)> = None;
    for format in FORMATS {
        let Some(reading) = format.read.as_ref().and_then(|reading| reading.database.as_ref()) else {
            continue;
        };
        let (mut there, mut all, mut lacks) = (0, 0, Vec::new());
        for (table, columns) in reading.needs {
            all += columns.len();
            let missing: Vec<&str> =
                columns.iter().copied().filter(|column| !database.has(table, &[column])).collect();
            there += columns.len() - missing.len();
            if !database.tables().contains_key(*table) {
                lacks.push(format!("the table `{table}`"));
            } else {
                lacks.extend(missing.iter().map(|column| format!("the column `{table}.{column}`")));
            }
        }
        let share = f64::from(there as u32) / f64::from(all.max(1) as u32);
        if share >= 0.5 && !lacks.is_empty() && nearest.as_ref().is_none_or(|(best, _)| share > *best) {
            let lacks = lacks.join(" and ");
            nearest = Some((share, format!("a database of {} without {lacks}", format.name)));
        }
    }
    nearest.map(|(_, shape)| shape)
}

impl fmt::Display for Likeness {
    /// `40 JSON lines with the fields type, id and text; 12 have a role`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileShape { lines, values, .. } = self.shape;
        let items = self.shape.having("[]");
        match (lines, values) {
            (1, 1) if items > 0 => write!(f, "a JSON list of {items}")?,
            (1, 1) => write!(f, "one JSON value")?,
            (lines, values) if lines == values => write!(f, "{values} JSON lines")?,
            (lines, values) => write!(f, "{lines} lines, {values} of them JSON")?,
        }
        let fields: Vec<&str> = self.shape.fields(if items > 0 { "[]." } else { "" });
        let fields = &fields[..fields.len().min(FIELDS)];
        if !fields.is_empty() {
            write!(f, " with {}", Fields(fields))?;
        }
        let roles =
            ["role", "message.role", "[].role"].into_iter().map(|place| self.shape.having(place)).max();
        let (roles, of) = (roles.unwrap_or_default(), values.max(items));
        if of > 1 {
            write!(f, "; {roles} of {of} have a role")?;
        }
        match self.longest_list().filter(|_| (lines, values) == (1, 1) && items == 0) {
            Some((name, count)) => {
                let fields = self.shape.fields(&format!("{name}[]."));
                let fields = &fields[..fields.len().min(FIELDS)];
                let roles = self.shape.having(&format!("{name}[].role"));
                write!(f, "; {name} holds {count} with {}; {roles} of {count} have a role", Fields(fields))
            }
            None => Ok(()),
        }
    }
}

/// Names of fields, at least one.
struct Fields<'f>(&'f [&'f str]);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            [only] => write!(f, "the field {only}"),
            [others @ .., last] => write!(f, "the fields {} and {last}", others.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rejoin_view::Finding;

    use super::*;
    use crate::sessions::registry;

    /// Every format of JSON text has marks, and only formats have.
    #[test]
    fn formats_have_marks() {
        let marked = |name: &str| MARKS.iter().any(|(format, _)| *format == name);
        // Databases, Markdown, and formats whose lines are another format's.
        let others = [
            "ploke",
            "xzatoma",
            "iflow",
            "crush",
            "llm",
            "openai-agents",
            "entire",
            "aider",
            "specstory",
            "markdown",
        ];
        for format in FORMATS {
            assert!(marked(format.name) || others.contains(&format.name), "{}", format.name);
        }
        for (name, _) in MARKS {
            assert!(FORMATS.iter().any(|format| format.name == *name), "{name}");
        }
    }

    /// The sound files of a format: its fixtures, and the inputs that its reader is fuzzed from.
    fn sound_files(format: &str) -> Vec<(String, String)> {
        let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders = [
            home.join("fixtures/sessions").join(format),
            home.join("../../testkit/fuzz").join(format!("read-{format}")),
        ];
        let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let texts = files.filter_map(|file| {
            Some((file.file_name().into_string().ok()?, std::fs::read_to_string(file.path()).ok()?))
        });
        let is_sound = |text: &str| {
            let read =
                Input::new("", text.as_bytes()).ok().and_then(|input| registry::read(&input, None).ok());
            let problems = |session: &crate::Session| session.findings.iter().any(Finding::is_problem);
            read.is_some_and(|read| read.iter().all(|session| session.format == format && !problems(session)))
        };
        // A trajectory in YAML has no fields of JSON.
        texts.filter(|(_, text)| FileShape::with_likely_names(text).values > 0 && is_sound(text)).collect()
    }

    /// Each format has sound files. One of them has all of its marks, and so has each that is named so. The others may be in
    /// another form of the format.
    #[test]
    fn marks_are_what_files_have() {
        let mut wrong = Vec::new();
        for (format, marks) in MARKS {
            let files = sound_files(format);
            let lacks = |text: &str| {
                let shape = FileShape::with_likely_names(text);
                let has = |mark: &&str| mark.split('|').any(|place| shape.having(place) > 0);
                marks.iter().copied().filter(|mark| !has(mark)).collect::<Vec<_>>()
            };
            if !files.iter().any(|(_, text)| lacks(text).is_empty()) {
                wrong.push(format!("{format}: no sound file of {} has all marks", files.len()));
            }
            for (name, text) in files.iter().filter(|(name, _)| name.starts_with("sound")) {
                let lacks = lacks(text);
                wrong.extend((!lacks.is_empty()).then(|| format!("{format}/{name} lacks {lacks:?}")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_renamed_field_is_named() {
        let line = r#"{"timestamp":"t","kind":"response_item","payload":{"type":"message","role":"user"}}"#;
        let text = [line, line, line].join("\n");
        let likeness = Likeness::of(&text).unwrap();
        assert_eq!(
            likeness.to_string(),
            "3 JSON lines with the fields kind, payload and timestamp; 0 of 3 have a role"
        );
        assert_eq!(likeness.nearest[0].format, "codex");
        assert_eq!(likeness.others().next().unwrap(), "codex (no type)");
        assert_eq!(Likeness::of("just words"), None);
    }

    #[test]
    fn only_formats_that_read_are_offered() {
        let text =
            r#"{"turns":[{"speaker":"me","words":"hello"}],"messages":[{"role":"user","content":"hello"}]}"#;
        let likeness = Likeness::of(text).unwrap();
        let readers: Vec<&str> = likeness.readers().collect();
        for format in &readers {
            assert!(reads(text, format));
        }
        let told = "one JSON value with the fields messages and turns; \
                    messages holds 1 with the fields content and role; 1 of 1 have a role";
        assert_eq!(likeness.to_string(), told);
    }
}
