//! `cargo xtask`: what is done to the project, as opposed to by it. A command is a file, or a function in `suites.rs`.

mod bench;
mod ci;
mod coverage;
mod faults;
mod peers;
mod rows;
mod run;
mod sabotage;
mod suites;
mod tidy;

use anyhow::{Result, bail};

const HELP: &str = "cargo xtask COMMAND

  ci                  everything that must pass: format, lints, tests, docs, tidy, rows
  laws [CASES]        the laws over at least 100,000 arbitrary histories, in release mode
  fuzz [OPTIONS]      arbitrary bytes into every reader and decoder, for a minute or --seconds N (docs/fuzzing.md)
  faults [KILLS]      full disks, failing calls and at least 500 kills for each store that lives on a disk
  faults --long [N]   10,000 kills over everything that a store is asked to do, half of them at a chosen call
  corrupt [N]         5,000 damaged stores: nothing lost beyond what was struck, nothing different without a word
  kill [RUNS]         at least 500 turns on every provider, killed at random moments and resumed
  sabotage [PART]     puts small bugs into a copy of the code and sees that the tests notice: all, a room, 10..20, or `left`
  rows [--missing]    which test proves which row of docs/requirements.md
  tidy                the house rules: edges between rooms, file headers, registries, documents
  coverage            line coverage per room, with the promised minimum (needs cargo-llvm-cov and LLVM tools)
  bench [NAME]        benchmarks, as ratios within one run: `conversation [MESSAGES]`, `rollout`, `store [PART]` (minutes, and some
                      disk), `turn [PART]`; only if named `peers`, which converts beside rig-core (needs the network once)
  docs                writes docs/reference from the registries and the command line
  loopback [OPTIONS]  a provider on 127.0.0.1 that speaks every provider's API, for any client: `loopback --help`
  peers [NAME]        hands what rejoin writes to the Codex CLI, Claude Code and mistral-common (needs npm, python3, the network once)
  wasm                builds the library for wasm32-unknown-unknown, if that target is installed
";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    std::env::set_current_dir(run::root())?;
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("ci") => ci::ci(),
        Some("laws") => suites::laws(rest.first().map(String::as_str)),
        Some("fuzz") => suites::fuzz(rest),
        Some("faults") => faults::faults(rest),
        Some("corrupt") => faults::corrupt(rest),
        Some("kill") => suites::kill(rest.first().map(String::as_str)),
        Some("sabotage") => sabotage::sabotage(rest.first().map(String::as_str)),
        Some("rows") if rest.iter().any(|argument| argument == "--missing") => {
            rows::rows(rows::Listing::Missing)
        }
        Some("rows") => rows::rows(rows::Listing::All),
        Some("tidy") => tidy::tidy(),
        Some("coverage") => coverage::coverage(),
        Some("bench") => bench::bench(rest.first().map(String::as_str), rest.get(1).map(String::as_str)),
        Some("docs") => suites::docs(),
        Some("loopback") => suites::loopback(rest),
        Some("peers") => peers::peers(rest),
        Some("wasm") => suites::wasm(),
        Some(other) => bail!("no command `{other}`\n\n{HELP}"),
        None => {
            println!("{HELP}");
            Ok(())
        }
    }
}
