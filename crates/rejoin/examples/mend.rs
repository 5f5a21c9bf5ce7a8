//! Mends a request body from a file or standard input: `cargo run -p rejoin --example mend -- FILE [anthropic]`.

use std::io::Read as _;

use rejoin::{Dialect, mend};

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let body = match arguments.next() {
        Some(path) => std::fs::read(path)?,
        None => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
    };
    let dialect: Dialect = arguments.next().as_deref().unwrap_or("openai-chat").parse()?;
    let mended = mend(dialect, body)?;
    for finding in &mended.findings {
        eprintln!("{}: {finding}: {}", finding.rule, finding.action_text());
    }
    println!("{}", mended.body);
    Ok(())
}
