//! Questions outside a turn, which a person answers with a line.

use std::io::{self, BufRead as _};

use crate::{output, signals::SignalWatch};

/// Asks, and returns the answer in lower case; `None` at the end of the input. Ctrl-C ends the process.
pub fn ask(question: &str) -> Option<String> {
    let _signals = SignalWatch::ends_the_process();
    output::question(question);
    let mut answer = String::new();
    match io::stdin().lock().read_line(&mut answer) {
        Ok(1..) => Some(answer.trim().to_lowercase()),
        _ => None,
    }
}
