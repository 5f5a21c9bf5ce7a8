//! Fuzzing from the command line; `cargo xtask fuzz` builds and runs it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::{
    env, fs, io,
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, SystemTime},
};

use testkit::fuzz::{
    Signs, Target,
    driver::{Event, Settings, drive},
};

const HELP: &str = "cargo xtask fuzz [--seconds N] [--seed S] [--target NAME]... [--threads N]
cargo xtask fuzz --target NAME --input FILE

  --seconds N     for how long, all targets together (60)
  --seed S        the same seed gives the same inputs (from the clock, and printed)
  --target NAME   only this one; may be given more than once
  --threads N     how many at a time (one for each core)
  --input FILE    runs just this input; the folder it lies in names the target if none is given
  --list          the names of the targets
";

#[derive(Default)]
struct Arguments {
    seconds: Option<u64>,
    seed: Option<u64>,
    threads: Option<usize>,
    targets: Vec<String>,
    input: Option<PathBuf>,
    list: bool,
}

fn main() -> ExitCode {
    let given: Vec<String> = env::args().skip(1).collect();
    let arguments = match parse(&given) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let found = match (&arguments.input, arguments.list) {
        (_, true) => {
            Target::all().iter().for_each(|target| println!("{}", target.name()));
            Ok(false)
        }
        (Some(input), _) => run_one(&arguments, input),
        (None, _) => run_all(&arguments),
    };
    match found {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn parse(given: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut given = given.iter();
    while let Some(name) = given.next() {
        if name == "--list" {
            arguments.list = true;
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: {value} is not a number"));
        match name.as_str() {
            "--seconds" => arguments.seconds = Some(number()?),
            "--seed" => arguments.seed = Some(number()?),
            "--threads" => arguments.threads = Some(number()? as usize),
            "--target" => arguments.targets.push(value.clone()),
            "--input" => arguments.input = Some(PathBuf::from(value)),
            _ => return Err(format!("{name} is not known")),
        }
    }
    Ok(arguments)
}

fn named(name: &str) -> io::Result<Target> {
    let unknown = || io::Error::other(format!("there is no target `{name}` (--list shows them)"));
    Target::named(name).ok_or_else(unknown)
}

/// Runs one input, without a net: a panic is printed as such.
fn run_one(arguments: &Arguments, input: &PathBuf) -> io::Result<bool> {
    let folder = input.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
    let target = match arguments.targets.first() {
        Some(name) => named(name)?,
        None => named(&folder.to_string_lossy())?,
    };
    let mut signs = Signs::default();
    match target.run(&fs::read(input)?, &mut signs) {
        Ok(()) => println!("{}: everything holds ({} signs)", target.name(), signs.iter().count()),
        Err(broken) => {
            println!("{}: {}\n\n{}", target.name(), broken.law, broken.detail);
            return Ok(true);
        }
    }
    Ok(false)
}

fn run_all(arguments: &Arguments) -> io::Result<bool> {
    let targets = match &arguments.targets[..] {
        [] => Target::all(),
        names => names.iter().map(|name| named(name)).collect::<io::Result<Vec<_>>>()?,
    };
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let settings = Settings {
        seed: arguments.seed.unwrap_or_else(clock),
        time: Duration::from_secs(arguments.seconds.unwrap_or(60)),
        threads: arguments
            .threads
            .unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get))
            .max(1),
        folder: PathBuf::from("target/fuzz"),
    };
    println!("seed {}, {} s, {} threads", settings.seed, settings.time.as_secs(), settings.threads);
    let mut broken = false;
    let mut hangs = None;
    drive(&targets, &settings, |event| match event {
        Event::Explored { target, outcome, took, files } => {
            let speed = outcome.runs as f64 / took.as_secs_f64().max(1e-9);
            println!(
                "{target:<24} {:>9} runs {speed:>8.0}/s {:>6} signs {:>6} inputs kept",
                outcome.runs, outcome.signs, outcome.pool
            );
            let (crashes, slow) = files.split_at(outcome.failures.len());
            for (failure, file) in outcome.failures.iter().zip(crashes) {
                broken = true;
                println!("  BROKEN {}\n    {}", failure.broken.law, file.display());
                println!("    cargo xtask fuzz --target {target} --input {}", file.display());
            }
            for (slow, file) in outcome.slow.iter().zip(slow) {
                println!("  slow: {}\n    {}", slow.times, file.display());
            }
        }
        Event::Hangs { file } => {
            println!("  HANGS {}", file.display());
            hangs = Some(file);
            // The thread that hangs cannot be ended, and others may wait for it.
            std::process::exit(1);
        }
    })?;
    Ok(broken || hangs.is_some())
}
