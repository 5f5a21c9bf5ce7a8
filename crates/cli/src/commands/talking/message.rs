//! The message to send: an argument, standard input, both, or the lines typed at the prompt, with the files that these name.

use std::{
    io::{self, IsTerminal as _, Read as _},
    path::Path,
};

use rejoin::{
    Block, Workspace,
    attaching::{AttachPlaces, NotAttached, attach},
    engine::turn::TurnInput,
    source::ByteSource,
};

use super::{OpenConversation, tools};
use crate::{answering, args::Talk, failure::Failure, output, stream};

/// The longest piped message, in bytes. No model takes more, an endless device must not fill the memory, and an entry can hold it
/// even if every character must be escaped.
const MESSAGE_BYTES: usize = 32 * 1024 * 1024;

pub enum GivenMessage {
    Text(String),
    /// Each line that is typed at the prompt.
    Prompt,
}

impl OpenConversation {
    /// Makes the message from a typed line, with the files that it names and the output of commands that the model shall see.
    pub(super) fn message(&mut self, typed: &str) -> TurnInput {
        let dialect = self.endpoint().dialect;
        // The built-in responder has no dialect and cannot see images.
        let takes = |block: &Block| dialect.is_some_and(|dialect| dialect.wire().media.keeps(block));
        let cli = &self.cli;
        let keys = answering::key_places(&cli.home).files();
        let hidden = |folder: &Path| tools::hiding(cli, Workspace::new(folder));
        let (folder, home) = (&*cli.folder, std::env::home_dir());
        let attached = attach(typed, &AttachPlaces { folder, home, keys: &keys, workspace: &hidden }, &takes);
        for note in &attached.notes {
            match note.outcome {
                Err(NotAttached::NoImages) => output::note(format!("{note} (/provider chooses another)")),
                _ => output::note(note),
            }
        }
        attached.into_input(&self.for_model)
    }
}

/// Whether the user can be asked.
pub fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Puts the message together. An argument and piped input are both sent, the argument first. `-`, or no argument without a
/// terminal, means standard input alone. If approvals come from standard input, no message is read from it.
pub fn message_to_send(message: Option<&str>, talk: &Talk) -> Result<GivenMessage, Failure> {
    let parts = match message {
        Some(message) if talk.approvals.is_some() && message != "-" => vec![message.to_owned()],
        _ if talk.approvals.is_some() => {
            return Err(Failure::usage(
                "standard input cannot hold both the message and the approvals",
                "give the message as an argument",
            ));
        }
        None if has_terminal() => return Ok(GivenMessage::Prompt),
        None | Some("-") => vec![whole_input(stream::stdin())?],
        Some(message) => {
            let piped = piped_input()?;
            [message.to_owned()].into_iter().chain(piped).collect()
        }
    };
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() {
        return Err(Failure::usage(
            "no message was given",
            "rejoin chat \"your message\", or pipe something in; see `rejoin chat --help`",
        ));
    }
    Ok(GivenMessage::Text(parts.join("\n\n")))
}

/// The input to send with a message: a file, or a pipe with data. Terminals, devices and sockets are not read.
fn piped_input() -> Result<Option<String>, Failure> {
    if stream::input_metadata().is_ok_and(|input| input.is_file()) {
        return whole_input(stream::stdin()).map(Some);
    }
    if !is_pipe() {
        return Ok(None);
    }
    // Many programs start others with a pipe that they never write to; without a limit, we would hang here.
    if let Some(source) = stream::begun_stdin() {
        return whole_input(source).map(Some);
    }
    output::note(
        "standard input is a pipe that sent nothing for 2 seconds, so only the message is sent; put slow input into a \
         file first: `rejoin chat \"your message\" < FILE`",
    );
    Ok(None)
}

#[cfg(unix)]
fn is_pipe() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    stream::input_metadata().is_ok_and(|input| input.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe() -> bool {
    !io::stdin().is_terminal()
}

fn whole_input(source: ByteSource) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(MESSAGE_BYTES as u64 + 1).read_to_end(&mut bytes);
    let unreadable = |why: String| Failure::unreadable("standard input", why, None);
    read.map_err(|why| unreadable(why.to_string()))?;
    if bytes.len() > MESSAGE_BYTES {
        return Err(unreadable(format!("a message has at most {} MiB", MESSAGE_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("it is not UTF-8 (byte {at}); `iconv` converts it"))
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
