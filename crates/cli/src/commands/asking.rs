//! Asking before something is gone for good. Nothing is asked without a terminal.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::{failure::Failure, output};

/// Asks, unless the answer was given along; anything but a yes is a no.
pub fn sure(question: &str, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Unasked { what: what.to_owned() });
    }
    output::prompt(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    let agreed = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if agreed { Ok(()) } else { Err(Failure::Declined) }
}
