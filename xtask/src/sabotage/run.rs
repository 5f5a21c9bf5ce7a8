//! Builds and tests a copy of the sources. One folder and one target directory are used for everything, and only files that differ
//! are written, so that each break rebuilds only its own crate and the tests that use it.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Break, place};
use crate::run::{cargo, files, patiently};

const COPY: &str = "target/sabotage";
const OUTPUT: &str = "target/sabotage-output";

/// The time limit of a build, or of tests on the unbroken code, on a loaded machine and from scratch.
pub const PATIENCE: Duration = Duration::from_secs(1800);

/// The least time limit of tests on broken code; the limit is at least four times their time on the unbroken code. Tests that
/// exceed it hang, and so have noticed the break.
pub const LIMIT: Duration = Duration::from_secs(60);

pub enum Outcome {
    /// All of them passed.
    Passed,
    /// At least one failed.
    Failed,
    /// They did not end in time.
    TimedOut,
    /// The broken code does not build. The break proves nothing, and must be written differently.
    Unbuilt,
}

impl Outcome {
    pub fn is_noticed(&self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "NOT noticed",
            Self::Failed => "noticed",
            Self::TimedOut => "hangs",
            Self::Unbuilt => "NOT built",
        })
    }
}

/// The command that runs a selection of tests on the copy.
fn cargo_test(tests: &str) -> Command {
    let mut command = cargo(&["test", "--quiet", "--package"]);
    command
        .args(tests.split(' '))
        .current_dir(COPY)
        .env("CARGO_TARGET_DIR", "../sabotage-target")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1");
    command
}

/// A copy of the sources that may be broken.
pub struct Copy(());

impl Copy {
    /// Copies the sources. Unchanged files are not touched, and files that no longer exist are removed.
    pub fn lay_out() -> Result<Self> {
        let copy = Path::new(COPY);
        let mut paths: BTreeSet<PathBuf> =
            ["Cargo.toml", "Cargo.lock", "clippy.toml"].iter().map(PathBuf::from).collect();
        for folder in ["crates", "testkit", "xtask", "docs", "examples"] {
            paths.extend(files(Path::new(folder), "")?);
            if copy.join(folder).is_dir() {
                for old in files(&copy.join(folder), "")? {
                    if !old.strip_prefix(copy).is_ok_and(|path| path.is_file()) {
                        fs::remove_file(old)?;
                    }
                }
            }
        }
        paths.extend(files(Path::new("."), ".md")?.into_iter().filter(|path| path.components().count() == 2));
        for path in paths {
            let (bytes, target) = (fs::read(&path)?, copy.join(&path));
            if fs::read(&target).is_ok_and(|old| old == bytes) {
                continue;
            }
            fs::create_dir_all(target.parent().context("a file has a folder")?)?;
            fs::write(target, bytes)?;
        }
        Ok(Self(()))
    }

    /// Breaks the copy, runs the tests, and puts it back.
    pub fn broken(&self, b: &Break, limit: Duration) -> Result<Outcome> {
        let file = Path::new(COPY).join(b.file);
        let source = fs::read_to_string(&file)?;
        let Ok(place) = place::find(&source, b.within, b.from) else {
            bail!("{}: `{}` is not in `{}` once", b.file, b.from, b.within);
        };
        let mut broken = source.clone();
        broken.replace_range(place, b.to);
        fs::write(&file, broken)?;
        let outcome = match self.build(b.tests) {
            Ok(()) => self.test(b.tests, limit),
            Err(why) => {
                println!("{}: {}: {why}", b.file, b.what);
                Ok(Outcome::Unbuilt)
            }
        };
        // Write it with a new time, so that cargo builds it again.
        fs::write(&file, source)?;
        outcome.with_context(|| format!("{}: {}", b.file, b.what))
    }

    /// Runs tests, after building them. The limit applies only to running them, because building says nothing about the break.
    pub fn test(&self, tests: &str, limit: Duration) -> Result<Outcome> {
        let Some(status) = finish(&mut cargo_test(tests), limit)? else {
            return Ok(Outcome::TimedOut);
        };
        let text = fs::read_to_string(OUTPUT)?;
        if !status.success() {
            // A failed test, or a process that aborted. Any other failure is an error of this program.
            let crashed = status.signal().is_some() || text.contains("signal:");
            ensure!(
                crashed || text.contains("test result: FAILED"),
                "`cargo test -p {tests}` did not run:\n{text}"
            );
            return Ok(Outcome::Failed);
        }
        let passed =
            text.lines().filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
        let passed: usize = passed.filter_map(|count| count.parse::<usize>().ok()).sum();
        ensure!(passed > 0, "`cargo test -p {tests}` selects no test");
        Ok(Outcome::Passed)
    }

    pub fn build(&self, tests: &str) -> Result<()> {
        match finish(cargo_test(tests).arg("--no-run"), PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            _ => bail!("`cargo test -p {tests}` does not build:\n{}", fs::read_to_string(OUTPUT)?),
        }
    }
}

/// Runs a command to its end, or kills it at the time limit. Its output goes to a file.
fn finish(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let output = File::create(OUTPUT)?;
    patiently(command.stdout(output.try_clone()?).stderr(output), limit)
}
