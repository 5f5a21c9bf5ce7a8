//! Shows long output on a terminal through a pager. Without a terminal, no pager is used.

use std::{
    io::{self, IsTerminal as _, Seek as _, Write as _},
    process::{Command, Stdio},
};

use crate::{failure::Failure, output};

/// The default pager: it exits at once if everything fits, and lets colours through.
const USUAL: &[&str] = &["less", "-FRX"];

/// Values that turn the pager off.
const NONE: &[&str] = &["", "none", "off", "never", "false", "cat"];

/// Shows a text: through the pager on a terminal, otherwise directly.
pub fn show(text: &str, pager: Option<&str>, wanted: bool) -> Result<(), Failure> {
    let text = &*output::guarded(text);
    let words: Vec<&str> = match pager {
        Some(given) if NONE.contains(&given.trim()) => Vec::new(),
        Some(given) => given.split_whitespace().collect(),
        None => USUAL.to_vec(),
    };
    if !wanted || words.is_empty() || !io::stdout().is_terminal() {
        return output::data(text.trim_end_matches('\n'));
    }
    match through(&words, text) {
        Ok(()) => Ok(()),
        // If the pager cannot be started, the text is printed without it.
        Err(_) => output::data(text.trim_end_matches('\n')),
    }
}

/// The text goes into an unnamed file, and the pager replaces this process. So the pager alone handles Ctrl-C, and no process waits
/// for it.
fn through(words: &[&str], text: &str) -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    let choice = anstream::AutoStream::choice(&io::stdout());
    let mut out = anstream::AutoStream::new(Vec::new(), choice);
    out.write_all(text.as_bytes())?;
    file.write_all(&out.into_inner())?;
    file.rewind()?;
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::from(file));
    if std::env::var_os("LESSCHARSET").is_none() {
        command.env("LESSCHARSET", "utf-8");
    }
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // `exec` returns only if the pager could not be started.
        Err(command.exec())
    }
    #[cfg(not(unix))]
    command.status().map(drop)
}
