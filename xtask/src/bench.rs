//! Benchmarks. They print times; only the ratios within one run are meaningful.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{cargo, run};

/// Runs all of them, or one: `conversation`, `formats`, `rollout`, `resume`, `prompt`, `store`, `tokens`, `turn`. `store` and `turn` have parts: `append`, `import`,
/// `repeated`, `load`, `list`, `search`; and `next`, `load`, `start`, `size`. `peers` and `postgres` are run only if they are named.
pub fn bench(name: Option<&str>, part: Option<&str>) -> Result<()> {
    const NAMES: [&str; 10] = [
        "conversation",
        "formats",
        "rollout",
        "resume",
        "prompt",
        "store",
        "tokens",
        "turn",
        "peers",
        "postgres",
    ];
    if let Some(name) = name.filter(|name| !NAMES.contains(name)) {
        bail!("no benchmark `{name}`: there are {}", NAMES.join(", "));
    }
    let wanted = |this: &str| name.is_none_or(|name| name == this);
    let run_one = |package: &str, bench: &str| {
        let mut command = cargo(&["bench", "--package", package, "--bench", bench, "--"]);
        run(command.args(part.filter(|_| name.is_some())))
    };
    for (package, bench) in [
        ("rejoin-formats", "conversation"),
        ("rejoin-formats", "formats"),
        ("rejoin-cli", "rollout"),
        ("rejoin-cli", "resume"),
        ("rejoin-cli", "prompt"),
        ("rejoin-store", "store"),
        ("rejoin-engine", "tokens"),
    ] {
        if wanted(bench) {
            run_one(package, bench)?;
        }
    }
    if wanted("turn") {
        // The cost of a turn in a long conversation, the start time of the binary, and its size.
        if part.is_none_or(|part| !["start", "size"].contains(&part)) {
            run_one("rejoin-engine", "turn")?;
        }
        if part.is_none_or(|part| part == "start") {
            start()?;
        }
        if part.is_none_or(|part| part == "size") {
            size()?;
        }
    }
    match name {
        Some("peers") => peers(),
        // This starts a server, and needs its programs.
        Some("postgres") => run_one("rejoin-store", "postgres"),
        _ => Ok(()),
    }
}

/// rejoin's whole conversion beside rig-core's. Needs the network once, for rig-core.
fn peers() -> Result<()> {
    // Use a separate folder: other features and versions would cause everything else to be rebuilt.
    let folder = target()?.join("bench-peers");
    let manifest = ["--manifest-path", "xtask/rig/Cargo.toml"];
    run(cargo(&["run", "--release"]).args(manifest).arg("--target-dir").arg(folder))
}

/// How often a process is started. The median counts.
const STARTS: usize = 400;

/// Starting `rejoin --version`, against a program that does nothing but print the same line.
fn start() -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "rejoin-cli"]))?;
    let release = target()?.join("release");
    let (source, trivial) = (release.join("trivial.rs"), release.join("trivial"));
    fs::write(&source, "fn main() {\n    println!(\"rejoin 0.1.0\");\n}\n")?;
    run(Command::new("rustc").args(["--edition", "2024", "-O", "-o"]).arg(&trivial).arg(&source))?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..STARTS {
        // Alternate, so that other load on the machine affects both.
        for (times, binary) in times.iter_mut().zip([&trivial, &release.join("rejoin")]) {
            let mut command = Command::new(binary);
            command.arg("--version").stdout(Stdio::null());
            let began = Instant::now();
            let status = command.status()?;
            times.push(began.elapsed());
            ensure!(status.success(), "{} failed", binary.display());
        }
    }
    let [trivial, rejoin] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = rejoin.as_secs_f64() / trivial.as_secs_f64();
    println!(
        "\nstarting, median of {STARTS}: a trivial binary {trivial:.2?}, `rejoin --version` {rejoin:.2?}"
    );
    println!("  {ratio:.2} × (promised: at most 2)");
    Ok(())
}

/// Prints the size of the binary, as built by `cargo build --release` and as released.
fn size() -> Result<()> {
    println!("\nthe binary (promised: less than 30 MB)");
    for (profile, flags) in [("release", ["--profile", "release"]), ("dist", ["--profile", "dist"])] {
        run(cargo(&["build", "--package", "rejoin-cli"]).args(flags))?;
        let bytes = fs::metadata(target()?.join(profile).join("rejoin"))?.len();
        println!("  {profile:<8} {:>6.1} MB", bytes as f64 / 1e6);
    }
    Ok(())
}

/// The folder that binaries are built in.
fn target() -> Result<PathBuf> {
    // This program is in that folder: target/PROFILE/xtask.
    let this = std::env::current_exe()?;
    let folder = this.parent().and_then(Path::parent).context("xtask is run by cargo")?;
    Ok(folder.to_owned())
}
