//! The /commands, in one table. Help, completion, dispatch and recording all use it.

use crate::near;

/// A command that can be typed at the prompt.
#[derive(Debug)]
pub struct SlashCommand {
    /// The name, without the slash.
    pub name: &'static str,
    /// Its arguments, as help shows them; empty if it has none.
    pub arguments: &'static str,
    /// Its effect, in one line.
    pub about: &'static str,
    /// The values that its first argument completes to.
    pub completes: CompletionSource,
    pub(super) runs: Execution,
    pub(super) keeps: RecordedResult,
}

impl SlashCommand {
    /// Whether it does nothing if it has no arguments.
    pub(super) fn needs_arguments(&self) -> bool {
        !self.arguments.is_empty() && !self.arguments.starts_with('[')
    }
}

/// The values that the argument of a command completes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionSource {
    Nothing,
    Model,
    Provider,
    Conversation,
    /// The number of a message.
    Message,
    Path,
    OneOf(&'static [&'static str]),
}

impl CompletionSource {
    /// Where the possible arguments are listed, in words for /help.
    pub(super) fn in_words(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Model => String::from("/models lists the names."),
            Self::Provider => {
                String::from("`rejoin auth status` lists the names. A model may follow the name.")
            }
            Self::Conversation => {
                String::from("/resume lists conversations; the beginning of an id is enough.")
            }
            Self::Message => String::from("/history numbers the messages."),
            Self::Path => String::from("The ending of the file chooses the format."),
            Self::OneOf(words) => format!("One of: {}.", words.join(", ")),
        }
    }
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Execution {
    /// As `rejoin` followed by these words and the typed ones. [`ID`] stands for this conversation.
    Rejoin(&'static [&'static str], TypedText),
    /// By the prompt itself.
    Prompt(PromptCommand),
}

/// The word that stands for the id of the conversation at the prompt.
pub(super) const ID: &str = "ID";

/// How the text after a command is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypedText {
    /// Its words are arguments and options.
    Words,
    /// Its words are arguments and options; these are used if nothing was typed.
    WordsOr(&'static [&'static str]),
    /// The name of a file to write, or options; these words are used if nothing was typed.
    FileOr(&'static [&'static str]),
    /// It is a single argument.
    Text,
}

/// A command that needs the prompt: its conversation, its provider, or its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptCommand {
    Help,
    Models,
    Model,
    Provider,
    Tools,
    Mode,
    Mcp,
    Context,
    Compact,
    Title,
    Fork,
    Rewind,
    Branches,
    New,
    Resume,
    Clear,
    Leave,
}

/// The recorded result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedResult {
    /// The output of the command.
    Output,
    /// The number of lines of the output. The output itself is in the record anyway, and a copy would keep text that is erased
    /// later.
    Count,
    /// No result. The command also begins no conversation, so a prompt with only such commands leaves none behind.
    Nothing,
}

const fn command(
    (name, arguments): (&'static str, &'static str),
    about: &'static str,
    completes: CompletionSource,
    runs: Execution,
    keeps: RecordedResult,
) -> SlashCommand {
    SlashCommand { name, arguments, about, completes, runs, keeps }
}

use CompletionSource::{Conversation, Message, Model, Nothing, OneOf, Path, Provider};
use Execution::{Prompt, Rejoin};

/// Every command, in the order of help.
pub const COMMANDS: &[SlashCommand] = &[
    command(
        ("help", "[COMMAND]"),
        "show this list, or a command",
        Nothing,
        Prompt(PromptCommand::Help),
        RecordedResult::Nothing,
    ),
    command(
        ("models", "[list]"),
        "list the provider's models",
        OneOf(&["list"]),
        Prompt(PromptCommand::Models),
        RecordedResult::Output,
    ),
    command(
        ("model", "[NAME]"),
        "show the model, or choose another",
        Model,
        Prompt(PromptCommand::Model),
        RecordedResult::Output,
    ),
    command(
        ("provider", "[NAME]"),
        "show the provider, or choose another",
        Provider,
        Prompt(PromptCommand::Provider),
        RecordedResult::Output,
    ),
    command(
        ("tools", ""),
        "list the tools of the model",
        Nothing,
        Prompt(PromptCommand::Tools),
        RecordedResult::Output,
    ),
    command(
        ("mode", "[MODE]"),
        "show or choose the mode: ask, auto, read-only",
        OneOf(&["ask", "auto", "read-only"]),
        Prompt(PromptCommand::Mode),
        RecordedResult::Output,
    ),
    command(("mcp", ""), "list MCP servers", Nothing, Prompt(PromptCommand::Mcp), RecordedResult::Output),
    command(
        ("history", "[--limit N]"),
        "show the last messages, numbered",
        Nothing,
        Rejoin(&["history", "show", ID], TypedText::WordsOr(&["--limit", "20"])),
        RecordedResult::Count,
    ),
    command(
        ("show", "N"),
        "show all of message N",
        Message,
        Rejoin(&["history", "show", ID, "--message"], TypedText::Words),
        RecordedResult::Count,
    ),
    command(
        ("view", ""),
        "show what the model sees, and what was repaired",
        Nothing,
        Rejoin(&["history", "show", ID, "--view"], TypedText::Words),
        RecordedResult::Count,
    ),
    command(
        ("findings", ""),
        "check this conversation for problems",
        Nothing,
        Rejoin(&["check", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("search", "WORDS"),
        "search all conversations",
        Nothing,
        Rejoin(&["history", "search", "--"], TypedText::Text),
        RecordedResult::Count,
    ),
    command(
        ("title", "[TITLE]"),
        "show the title, or give another",
        Nothing,
        Prompt(PromptCommand::Title),
        RecordedResult::Output,
    ),
    command(
        ("pin", "N"),
        "keep message N in every view",
        Message,
        Rejoin(&["history", "pin", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("fork", "[N]"),
        "go on in a copy of this conversation, up to message N",
        Message,
        Prompt(PromptCommand::Fork),
        RecordedResult::Output,
    ),
    command(
        ("rewind", "N [--files]"),
        "go on from message N; --files restores files, too",
        Message,
        Prompt(PromptCommand::Rewind),
        RecordedResult::Output,
    ),
    command(
        ("undo", "[--dry-run]"),
        "restore the files that the last turn changed",
        Nothing,
        Rejoin(&["undo", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("branches", "[N]"),
        "show the branches, or go on in branch N",
        Nothing,
        Prompt(PromptCommand::Branches),
        RecordedResult::Count,
    ),
    command(
        ("context", ""),
        "show the instructions and what fills the window",
        Nothing,
        Prompt(PromptCommand::Context),
        RecordedResult::Count,
    ),
    command(
        ("compact", "[KEEP]"),
        "summarise older messages; KEEP says what stays",
        Nothing,
        Prompt(PromptCommand::Compact),
        RecordedResult::Output,
    ),
    command(
        ("uncompact", ""),
        "undo the last compaction",
        Nothing,
        Rejoin(&["uncompact", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("prune", "[--keep-last N]"),
        "leave old tool results out of the window",
        Nothing,
        Rejoin(&["prune", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("stats", "[--by WAY]"),
        "show tokens, cost and tool calls",
        Nothing,
        Rejoin(&["stats", ID], TypedText::Words),
        RecordedResult::Output,
    ),
    command(
        ("export", "[FILE]"),
        "write it to a file, or show it as Markdown",
        Path,
        Rejoin(&["history", "export", ID], TypedText::FileOr(&["--to", "markdown"])),
        RecordedResult::Count,
    ),
    command(
        ("new", ""),
        "start a new conversation",
        Nothing,
        Prompt(PromptCommand::New),
        RecordedResult::Output,
    ),
    command(
        ("resume", "[ID]"),
        "go on in another conversation, or list them",
        Conversation,
        Prompt(PromptCommand::Resume),
        RecordedResult::Output,
    ),
    command(
        ("clear", ""),
        "clear the screen; the conversation stays",
        Nothing,
        Prompt(PromptCommand::Clear),
        RecordedResult::Nothing,
    ),
    command(("quit", ""), "leave", Nothing, Prompt(PromptCommand::Leave), RecordedResult::Nothing),
    command(
        ("exit", ""),
        "leave; the word `exit` does, too",
        Nothing,
        Prompt(PromptCommand::Leave),
        RecordedResult::Nothing,
    ),
];

/// The meaning of a line at the prompt.
#[derive(Debug)]
pub(super) enum Line<'l> {
    Command(&'static SlashCommand, &'l str),
    /// A word after a slash that is not a command, and a suggestion.
    Unknown(&'l str, String),
    Message(&'l str),
}

/// Distinguishes commands from messages. A message may begin with a path, so only a single name after a slash counts as a command,
/// and only if there is no file with that name. After a backslash, everything is a message.
pub(super) fn understand(typed: &str) -> Line<'_> {
    let line = typed.trim();
    if line.contains('\n') {
        // It was pasted; a pasted text is never run as a command.
        return Line::Message(typed);
    }
    if let Some(message) = line.strip_prefix('\\').filter(|rest| rest.starts_with(['/', '!'])) {
        return Line::Message(message);
    }
    if line == "exit" {
        return named("exit").map_or(Line::Message(typed), |command| Line::Command(command, ""));
    }
    let Some(command) = line.strip_prefix('/') else { return Line::Message(typed) };
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    if let Some(command) = named(name) {
        return Line::Command(command, rest.trim());
    }
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !is_name || std::path::Path::new("/").join(name).exists() {
        return Line::Message(typed);
    }
    let near = near::nearest(&name.to_lowercase(), COMMANDS.iter().map(|command| command.name));
    Line::Unknown(name, near.iter().map(|near| format!("`/{near}`")).collect::<Vec<_>>().join(" or "))
}

/// The command with this name.
pub fn named(name: &str) -> Option<&'static SlashCommand> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The list of commands, as /help prints it. On a narrow terminal, descriptions are below the commands.
pub(super) fn help(columns: usize) -> String {
    let typed =
        |command: &SlashCommand| format!("/{} {}", command.name, command.arguments).trim_end().to_owned();
    let width = COMMANDS.iter().map(|command| typed(command).len()).max().unwrap_or(0);
    let about = COMMANDS.iter().map(|command| command.about.len()).max().unwrap_or(0);
    let line = |command: &SlashCommand| match columns < 2 + width + 2 + about {
        true => format!("  {}\n    {}\n", typed(command), command.about),
        false => format!("  {:<width$}  {}\n", typed(command), command.about),
    };
    COMMANDS.iter().map(line).collect()
}

/// Splits a text into words. Quotes hold words together, and a backslash makes the next character an ordinary one.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CommandLine;

    /// S0-08: commands are recognised before any text reaches the model; paths and other text are messages.
    #[test]
    fn commands_are_told_from_messages() {
        let kind = |line: &str| match understand(line) {
            Line::Command(command, rest) => format!("{}({rest})", command.name),
            Line::Unknown(name, near) => format!("unknown {name}: {near}"),
            Line::Message(text) => format!("message {text}"),
        };
        for (line, means) in [
            ("/models list", "models(list)"),
            ("  /help ", "help()"),
            ("exit", "exit()"),
            ("/show 3", "show(3)"),
            ("/compact keep the names", "compact(keep the names)"),
            ("exit now", "message exit now"),
            ("/usr/bin/x is broken", "message /usr/bin/x is broken"),
            ("/etc is full", "message /etc is full"),
            ("/* a comment */", "message /* a comment */"),
            ("/", "message /"),
            ("// see below", "message // see below"),
            ("\\/help is a command", "message /help is a command"),
            ("/modle gpt", "unknown modle: `/mode` or `/model`"),
            ("/hlep", "unknown hlep: `/help`"),
            ("/completely-different", "unknown completely-different: "),
            ("hello /help", "message hello /help"),
            ("/rewind 0 --files\nsays the page", "message /rewind 0 --files\nsays the page"),
        ] {
            assert_eq!(kind(line), means, "{line}");
        }
    }

    #[test]
    fn names_are_unique_and_lines_are_short() {
        for (place, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..place].iter().all(|other| other.name != command.name), "{}", command.name);
            assert!(!command.about.is_empty(), "{}", command.name);
        }
        for columns in [40, 80] {
            let help = help(columns);
            // Longer lines are broken between words.
            assert!(help.lines().all(|line| line.len() <= columns.max(60)), "{help}");
        }
    }

    /// The guide explains every command, and no other.
    #[test]
    fn the_guide_has_every_command() {
        let page = include_str!("../../../../../../docs/guides/prompt.md");
        let rows = page.lines().filter(|line| line.starts_with("| `/"));
        let named =
            rows.flat_map(|row| row.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2));
        let named: Vec<&str> = named.map(|typed| typed.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(named, COMMANDS.iter().map(|command| format!("/{}", command.name)).collect::<Vec<_>>());
    }

    /// For each command that runs as `rejoin …`, that command exists.
    #[test]
    fn sisters_exist() {
        for command in COMMANDS {
            if let Execution::Rejoin(words, _) = command.runs {
                let mut sister = CommandLine::command();
                for word in words.iter().take_while(|word| **word != ID && !word.starts_with('-')) {
                    let found =
                        sister.find_subcommand(word).unwrap_or_else(|| panic!("/{}: {word}", command.name));
                    sister = found.clone();
                }
            }
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(
            words(r#"-o "a file.md"  --to 'x y' a\ b """#),
            ["-o", "a file.md", "--to", "x y", "a b", ""]
        );
        assert_eq!(words("  "), Vec::<String>::new());
    }
}
