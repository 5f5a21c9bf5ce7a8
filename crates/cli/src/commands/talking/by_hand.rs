//! `!command` at the prompt: runs a command in the person's own shell, outside the sandbox. Its output is shown while it runs, and
//! recorded with the command. After `!!` the model sees both with the next message.

use std::{ffi::OsString, process::Stdio, time::Duration};

use rejoin::{attaching::fence, engine::turn::Stop};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    sync::mpsc,
};

use super::OpenConversation;
use crate::{answering, failure::Failure, output};

/// How many bytes of the beginning, and of the end, of an output are kept.
const KEPT: usize = 16 * 1024;

/// How long background processes of a command may still write after it ended.
const AFTER: Duration = Duration::from_millis(200);

/// How long a stopped command may take to end.
const GRACE: Duration = Duration::from_secs(2);

impl OpenConversation {
    /// Runs the text after the `!`.
    pub(super) async fn run_by_hand(&mut self, typed: &str, stop: &Stop) -> Result<(), Failure> {
        let (command, is_shown) = typed.strip_prefix('!').map_or((typed, false), |command| (command, true));
        let command = command.trim();
        if command.is_empty() {
            output::talk("!COMMAND runs a command by hand; !!COMMAND shows it to the model, too.");
            return Ok(());
        }
        let mark = if is_shown { "!!" } else { "!" };
        let (kept, ending) = match run(command, &self.cli.folder, stop).await {
            Ok(ran) => ran,
            Err(why) => (OutputEnds::default(), Some(format!("cannot be started: {why}"))),
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
            // Remove keys from the text for the provider, as for the record.
            self.for_model.push(answering::without_secrets(&self.cli, &ran));
            output::talk(&output::paint("The model sees this with your next message.", output::DIM));
        }
        Ok(())
    }
}

/// Runs a command, and shows its output. Returns the output, and how the command ended if it failed.
async fn run(
    command: &str,
    folder: &std::path::Path,
    stop: &Stop,
) -> std::io::Result<(OutputEnds, Option<String>)> {
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
    let mut kept = OutputEnds::default();
    let mut is_stopped = false;
    let status = loop {
        tokio::select! {
            biased;
            Some(piece) = printed.recv() => output::prompt(&kept.add(&piece)),
            status = child.wait() => break status?,
            // Ctrl-C reaches the command, too. If the command keeps running, it is killed.
            () = stop.asked(), if !is_stopped => is_stopped = true,
            () = tokio::time::sleep(GRACE), if is_stopped => child.start_kill()?,
        }
    };
    // Background processes may keep the output open.
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

/// The person's shell, and its option for running a command.
fn shell() -> (OsString, &'static str) {
    if cfg!(windows) {
        return ("cmd".into(), "/C");
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    (shell.unwrap_or_else(|| "/bin/sh".into()), "-c")
}

/// Passes on the data of a stream, in pieces that end between characters if possible.
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
struct OutputEnds {
    beginning: String,
    end: String,
    left_out: usize,
    /// Whether the cursor is in the middle of a line.
    in_line: bool,
}

impl OutputEnds {
    /// Takes a piece, and returns it in a form that is safe to show.
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
        let mut kept = OutputEnds::default();
        (0..20_000).for_each(|number| drop(kept.add(&format!("{number}\n"))));
        let text = kept.text();
        assert!(text.starts_with("0\n1\n") && text.ends_with("19999\n") && text.contains("left out"));
        assert!(text.len() < 4 * KEPT);
    }
}
