//! The message to send: an argument, standard input, both, or whatever is typed at the prompt.

use std::{
    io::{self, IsTerminal as _, Read},
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use crate::{failure::Failure, output, stream};

/// The longest message that is piped in. No model takes more, a device without end must not fill the memory, and an entry
/// holds it even if every letter of it has to be escaped.
const MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// How long `chat MESSAGE` waits for the first byte from a pipe. Many programs start others with a pipe that they never
/// write to; without a limit `chat MESSAGE` would hang there. Anything that computes before it writes should come as a file.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to send.
pub enum GivenMessage {
    /// This text.
    Text(String),
    /// Each line that is typed at the prompt.
    Prompt,
}

/// Whether a person sits in front of it.
pub fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Puts together what to send. A message and piped input are both sent, the message first. `-`, or no message without a
/// terminal, means standard input alone.
pub fn said(message: Option<&str>) -> Result<GivenMessage, Failure> {
    let parts = match message {
        None if has_terminal() => return Ok(GivenMessage::Prompt),
        None | Some("-") => vec![whole_input()?],
        Some(message) => {
            let piped = piped_input()?;
            [message.to_owned()].into_iter().chain(piped).collect()
        }
    };
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() {
        return Err(Failure::Usage {
            what: String::from("no message was given"),
            hint: Some(String::from(
                "rejoin chat \"your message\", or pipe something in; see `rejoin chat --help`",
            )),
        });
    }
    Ok(GivenMessage::Text(parts.join("\n\n")))
}

/// Everything on standard input.
fn whole_input() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = stream::stdin().take(MESSAGE_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|why| unreadable(why.to_string()))?;
    text(bytes)
}

/// What comes along with a message: a file, or a pipe that is written to. A terminal, a device or a socket is not read.
fn piped_input() -> Result<Option<String>, Failure> {
    match kind_of_input() {
        InputKind::File => whole_input().map(Some),
        InputKind::Pipe => pipe().transpose(),
        InputKind::Other => Ok(None),
    }
}

enum InputKind {
    File,
    Pipe,
    Other,
}

#[cfg(unix)]
fn kind_of_input() -> InputKind {
    use std::os::{fd::AsFd as _, unix::fs::FileTypeExt as _};
    let input = io::stdin();
    let file = input.as_fd().try_clone_to_owned().map(std::fs::File::from);
    match file.and_then(|file| file.metadata()).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_file() => InputKind::File,
        Ok(kind) if kind.is_fifo() => InputKind::Pipe,
        _ => InputKind::Other,
    }
}

#[cfg(not(unix))]
fn kind_of_input() -> InputKind {
    if io::stdin().is_terminal() { InputKind::Other } else { InputKind::Pipe }
}

/// What a pipe holds, once its first byte came in time. It is read by a thread, because a read cannot be given up.
fn pipe() -> Option<Result<String, Failure>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut piece = vec![0; 64 * 1024];
            let read = input.read(&mut piece);
            let is_end = !matches!(read, Ok(1..));
            if sender
                .send(read.map(|count| {
                    piece.truncate(count);
                    piece
                }))
                .is_err()
                || is_end
            {
                break;
            }
        }
    });
    let mut bytes = Vec::new();
    let mut piece = receiver.recv_timeout(PATIENCE);
    loop {
        match piece {
            Ok(Ok(piece)) if piece.is_empty() => return Some(text(bytes)),
            Ok(Ok(piece)) => bytes.extend(piece),
            Ok(Err(why)) => return Some(Err(unreadable(why.to_string()))),
            Err(RecvTimeoutError::Timeout) => {
                output::talk(&format!(
                    "{} standard input is a pipe that sent nothing for {} seconds, so only the message is sent; put slow \
                     input into a file first: `rejoin chat \"your message\" < FILE`",
                    output::paint("note:", output::NOTE),
                    PATIENCE.as_secs()
                ));
                return None;
            }
            Err(RecvTimeoutError::Disconnected) => return Some(text(bytes)),
        }
        if bytes.len() > MESSAGE_BYTES {
            return Some(text(bytes));
        }
        piece = receiver.recv().map_err(|_| RecvTimeoutError::Disconnected);
    }
}

/// Bytes of standard input as a message.
fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() > MESSAGE_BYTES {
        return Err(unreadable(format!("more than {} MiB is no message", MESSAGE_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("it is not UTF-8 (byte {at}); `iconv` makes it so"))
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

fn unreadable(why: String) -> Failure {
    Failure::Unreadable { name: String::from("standard input"), why, hint: None }
}
