//! `!command` at the prompt: a command that the person runs, in their own shell and outside of the sandbox. Its output is shown as
//! it comes and recorded with the command. After `!!` the model sees both with the next message.

use std::{ffi::OsString, process::Stdio, time::Duration};

use rejoin::engine::turn::Stop;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    sync::mpsc,
};

use super::{Talking, attaching::fence};
use crate::{answering, failure::Failure, output};

/// How much of the beginning and how much of the end of an output is kept.
const KEPT: usize = 16 * 1024;

/// How long what a command left behind may still write after it ended.
const AFTER: Duration = Duration::from_millis(200);

/// How long a command that was stopped may take to end.
const GRACE: Duration = Duration::from_secs(2);

impl Talking {
    /// Runs what follows the `!`.
    pub(super) async fn run_by_hand(&mut self, typed: &str, stop: &Stop) -> Result<(), Failure> {
        let (command, is_shown) = typed.strip_prefix('!').map_or((typed, false), |command| (command, true));
        let command = command.trim();
        if command.is_empty() {
            output::talk("!COMMAND runs a command by hand; !!COMMAND shows it to the model, too.");
            return Ok(());
        }
        let mark = if is_shown { "!!" } else { "!" };
        let (kept, ending) = match run(command, &self.desk.folder, stop).await {
            Ok(ran) => ran,
            Err(why) => (Kept::default(), Some(format!("cannot be started: {why}"))),
        };
        let text = kept.text();
        if let Some(ending) = &ending {
            output::talk(&output::paint(&format!("[{ending}]"), output::DIM));
        }
        let result = match &ending {
            Some(ending) => format!("{}\n[{ending}]", text.trim_end()).trim_start().to_owned(),
            None => text,
        };
        self.keep_command(&format!("{mark}{command}"), &result, ending.is_some(), true);
        if is_shown {
            let fence = fence(&result);
            let end = if result.is_empty() { "" } else { "\n" };
            let ran = format!(
                "I ran this command:\n{command}\nIts output:\n{fence}\n{}{end}{fence}",
                result.trim_end()
            );
            // A provider gets no more of a key than the record does.
            self.for_model.push(answering::without_secrets(&self.desk, &ran));
            output::talk(&output::paint("The model sees this with your next message.", output::DIM));
        }
        Ok(())
    }
}

/// Runs a command, and shows what it prints. Returns the output, and how it ended if it did not succeed.
async fn run(
    command: &str,
    folder: &std::path::Path,
    stop: &Stop,
) -> std::io::Result<(Kept, Option<String>)> {
    let (shell, takes_command) = shell();
    let mut child = Command::new(shell)
        .args([takes_command, command])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (pieces, mut printed) = mpsc::channel(16);
    let streams: [Option<Box<dyn AsyncRead + Send + Unpin>>; 2] = [
        child.stdout.take().map(|out| Box::new(out) as _),
        child.stderr.take().map(|err| Box::new(err) as _),
    ];
    for stream in streams.into_iter().flatten() {
        tokio::spawn(forward(stream, pieces.clone()));
    }
    drop(pieces);
    let mut kept = Kept::default();
    let mut is_stopped = false;
    let status = loop {
        tokio::select! {
            biased;
            Some(piece) = printed.recv() => output::prompt(&kept.add(&piece)),
            status = child.wait() => break status?,
            // Ctrl-C reaches the command, too. One that goes on all the same is killed.
            () = stop.asked(), if !is_stopped => is_stopped = true,
            () = tokio::time::sleep(GRACE), if is_stopped => child.start_kill()?,
        }
    };
    // What it started in the background may hold the output open.
    while let Ok(Some(piece)) = tokio::time::timeout(AFTER, printed.recv()).await {
        output::prompt(&kept.add(&piece));
    }
    if kept.in_line {
        output::talk("");
    }
    let ending = match status.code() {
        _ if is_stopped => Some(String::from("stopped")),
        Some(0) => None,
        Some(code) => Some(format!("exit code {code}")),
        None => Some(String::from("ended by a signal")),
    };
    Ok((kept, ending))
}

/// The person's shell, and the option before a command.
fn shell() -> (OsString, &'static str) {
    if cfg!(windows) {
        return ("cmd".into(), "/C");
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    (shell.unwrap_or_else(|| "/bin/sh".into()), "-c")
}

/// Passes on what a stream brings, in pieces that end between characters where there are any.
async fn forward(mut stream: impl AsyncRead + Unpin, to: mpsc::Sender<String>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        bytes.extend_from_slice(&buffer[..count]);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        let piece: Vec<u8> = bytes.drain(..whole).collect();
        if to.send(String::from_utf8_lossy(&piece).into_owned()).await.is_err() {
            return;
        }
    }
    if !bytes.is_empty() {
        let _ = to.send(String::from_utf8_lossy(&bytes).into_owned()).await;
    }
}

/// The beginning and the end of an output.
#[derive(Default)]
struct Kept {
    beginning: String,
    end: String,
    left_out: usize,
    /// Whether the cursor is not at the beginning of a line.
    in_line: bool,
}

impl Kept {
    /// Takes a piece, and returns it as it can be shown.
    fn add(&mut self, piece: &str) -> String {
        let piece = output::harmless_lines(&piece.replace("\r\n", "\n").replace('\r', "\n"));
        if piece.is_empty() {
            return piece;
        }
        self.in_line = !piece.ends_with('\n');
        let room = piece.floor_char_boundary(KEPT.saturating_sub(self.beginning.len()));
        self.beginning.push_str(&piece[..room]);
        self.end.push_str(&piece[room..]);
        if self.end.len() > 2 * KEPT {
            let cut = self.end.ceil_char_boundary(self.end.len() - KEPT);
            self.left_out += cut;
            self.end.drain(..cut);
        }
        piece
    }

    fn text(&self) -> String {
        let Self { beginning, end, left_out, .. } = self;
        if *left_out == 0 {
            format!("{beginning}{end}")
        } else {
            format!("{beginning}\n… ({left_out} bytes left out)\n{end}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_its_ends() {
        let mut kept = Kept::default();
        (0..20_000).for_each(|number| drop(kept.add(&format!("{number}\n"))));
        let text = kept.text();
        assert!(text.starts_with("0\n1\n") && text.ends_with("19999\n") && text.contains("left out"));
        assert!(text.len() < 4 * KEPT);
    }
}
