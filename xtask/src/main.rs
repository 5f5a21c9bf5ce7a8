//! `cargo xtask`: the project's automation. Each command is a file, or a function in `suites.rs`.

mod bench;
mod ci;
mod coverage;
mod peers;
mod rows;
mod run;
mod sabotage;
mod suites;
mod tidy;

use anyhow::{Result, bail};

const HELP: &str = "cargo xtask COMMAND

  ci                  run everything that must pass: format, lints, tests, docs, tidy, rows
  laws [CASES]        test the laws over 100,000 arbitrary histories, in release mode
  fuzz [OPTIONS]      feed arbitrary bytes to every reader and decoder, for a minute or --seconds N (docs/fuzzing.md)
  faults [KILLS]      test stores with full disks, failing calls and 500 kills per store
  faults --long [N]   kill processes 10,000 times during every store operation, half of them at a chosen call
  corrupt [N]         damage 5,000 stores: only the entries hit may be lost, and no change may go unreported
  kill [RUNS]         kill 500 turns on every provider at random moments, and resume them
  servers [SECONDS]   64 writers in 200 conversations for a minute, while PostgreSQL is killed three times
  sabotage [PART]     put small bugs into a copy of the code and check that the tests notice: all, a room, 10..20, or `left`
  rows [--missing]    show which test proves which row of docs/requirements.md
  tidy                check the house rules: edges between rooms, file headers, registries, documents
  coverage            measure line coverage per room against its floor (needs cargo-llvm-cov and LLVM tools)
  bench [NAME]        run benchmarks, as ratios within one run: `conversation [MESSAGES]`, `rollout`, `resume`, `store [PART]` (takes
                      minutes and disk space), `tokens`, `turn [PART]`; only if named `peers`, against rig-core (needs the network once),
                      and `postgres [PART]`, against pgbench (needs PostgreSQL)
  docs                write docs/reference from the registries and the command line
  loopback [OPTIONS]  start a provider on 127.0.0.1 that speaks every provider's API, for any client: `loopback --help`
  peers [NAME] [N/M]  give what rejoin writes to Codex CLI, Claude Code, Gemini CLI, goose, llm, opencode, pi and mistral-common;
                      `sessions`: only Gemini CLI, goose, llm, opencode and pi (needs npm, python3, git, the network once); `1/4`: a
                      quarter of the conversations
  wasm                build the library for wasm32-unknown-unknown, if that target is installed
";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    std::env::set_current_dir(run::root())?;
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("ci") => ci::ci(),
        Some(suite @ ("laws" | "faults" | "corrupt" | "kill" | "servers")) => suites::suite(suite, rest),
        Some("fuzz") => suites::fuzz(rest),
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
