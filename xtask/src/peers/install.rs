//! Installing peers, once, each in a folder of its own that bears its version.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::files;

/// The Codex CLI, from the npm registry.
pub const CODEX: &str = "0.166.0";

/// mistral-common, from PyPI: the newest, and one whose rules are those that the hosted service was seen to apply.
pub const MISTRAL: [&str; 2] = ["1.13.0", "1.8.5"];

/// The program `codex`.
pub fn codex(folder: &Path) -> Result<PathBuf> {
    let home = folder.join(format!("codex-{CODEX}"));
    if let Some(program) = codex_in(&home)? {
        return Ok(program);
    }
    fs::create_dir_all(&home)?;
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut command = Command::new(npm);
    command
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"])
        .arg(&home)
        .arg(format!("@openai/codex@{CODEX}"));
    installed(command, "npm", "Node.js brings it: https://nodejs.org")?;
    codex_in(&home)?.with_context(|| {
        format!("npm installed @openai/codex {CODEX} in {}, but no program for this machine", home.display())
    })
}

/// The package itself is a launcher; the program lies in a package for the machine. It is run directly, so that ending it
/// ends it.
fn codex_in(home: &Path) -> Result<Option<PathBuf>> {
    let modules = home.join("node_modules").join("@openai");
    if !modules.is_dir() {
        return Ok(None);
    }
    let name = if cfg!(windows) { "codex.exe" } else { "codex" };
    for program in files(&modules, name)? {
        let in_bin = program.parent().and_then(Path::file_name).is_some_and(|folder| folder == "bin");
        if in_bin && program.file_name().is_some_and(|file| file == name) {
            let version = Command::new(&program).arg("--version").output();
            if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CODEX)) {
                return Ok(Some(program));
            }
        }
    }
    Ok(None)
}

/// The Python of a virtual environment in which mistral-common of that version is installed.
pub fn mistral(folder: &Path, version: &str) -> Result<PathBuf> {
    let home = folder.join(format!("mistral-common-{version}"));
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if has_mistral(&python, version) {
        return Ok(python);
    }
    let mut venv = Command::new(if cfg!(windows) { "python" } else { "python3" });
    venv.args(["-m", "venv", "--clear"]).arg(&home);
    installed(venv, "python3 with its module venv", "https://www.python.org, 3.10 or newer")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("mistral-common=={version}"));
    installed(pip, "pip", "it is part of python3's venv")?;
    ensure!(has_mistral(&python, version), "pip installed something else than mistral-common {version}");
    Ok(python)
}

fn has_mistral(python: &Path, version: &str) -> bool {
    let question = "import importlib.metadata as m; print(m.version('mistral-common'))";
    Command::new(python)
        .args(["-c", question])
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == version)
}

/// Runs an installer and says what is missing: the program itself, or what it could not get.
fn installed(mut command: Command, program: &str, hint: &str) -> Result<()> {
    println!("$ {command:?}");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{program} is not installed\nhint: {hint}")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot run {command:?}")),
    };
    ensure!(
        output.status.success(),
        "{program} failed; it needs the network (registry.npmjs.org, pypi.org) the first time:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
