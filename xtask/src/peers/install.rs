//! Installs peers, once, each in a separate folder named after its version.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::files;

/// The Codex CLI, from the npm registry.
pub const CODEX: &str = "0.166.0";

/// Claude Code, from the npm registry.
pub const CLAUDE_CODE: &str = "2.1.325";

/// Gemini CLI, from the npm registry.
pub const GEMINI_CLI: &str = "0.61.0";

/// opencode, from the npm registry.
pub const OPENCODE: &str = "1.18.33";

/// pi, from the npm registry: the last version that can be installed. Versions 1.0 to 1.5 need packages that do not exist.
pub const PI: &str = "0.87.1";

/// Node.js, from the npm registry: pi needs 22.19 or newer.
pub const NODE: &str = "24.21.0";

/// goose, from the npm registry, and the version of the package that holds its program.
pub const GOOSE: (&str, &str) = ("1.34.0", "0.20.1");

/// llm, from PyPI.
pub const LLM: &str = "0.36";

/// mistral-common, from PyPI: the newest version, and one with the rules that the hosted service applies.
pub const MISTRAL: [&str; 2] = ["1.13.0", "1.8.5"];

/// MCP servers and a client from the npm registry.
pub const MCP_NPM: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/sdk@1.32.2",
];

/// An MCP server and a client from PyPI.
pub const MCP_PYPI: [&str; 2] = ["mcp-server-time==2026.10.19", "mcp==2.3.0"];

/// The folder with the npm packages, and the Python with those of PyPI.
pub fn mcp(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let npm = folder.join(format!("mcp-npm-{}", versions_of(&MCP_NPM)));
    if !npm.join("node_modules/@modelcontextprotocol/sdk/package.json").is_file() {
        fs::create_dir_all(&npm)?;
        let mut command = Command::new("npm");
        command.args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
        command.arg(&npm).args(MCP_NPM);
        installed(command, "npm", "Node.js brings it: https://nodejs.org")?;
    }
    let home = folder.join(format!("mcp-pypi-{}", versions_of(&MCP_PYPI)));
    let python = home.join("bin/python");
    let has_it = || Command::new(&python).args(["-c", "import mcp, mcp_server_time"]).output();
    if !has_it().is_ok_and(|output| output.status.success()) {
        venv(&home)?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(MCP_PYPI);
        installed(pip, "pip", "it is part of python3's venv")?;
    }
    Ok((npm, python))
}

/// The versions of packages, for a folder name.
fn versions_of(packages: &[&str]) -> String {
    let versions = packages.iter().filter_map(|package| package.rsplit(['@', '=']).next());
    versions.collect::<Vec<_>>().join("-")
}

fn venv(home: &Path) -> Result<()> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(home);
    installed(venv, "python3 with its module venv", "https://www.python.org, 3.10 or newer")
}

pub fn codex(folder: &Path) -> Result<PathBuf> {
    npm(&folder.join(format!("codex-{CODEX}")), "@openai", "codex", CODEX)
}

pub fn claude_code(folder: &Path) -> Result<PathBuf> {
    npm(&folder.join(format!("claude-code-{CLAUDE_CODE}")), "@anthropic-ai", "claude-code", CLAUDE_CODE)
}

/// The script of Gemini CLI, for Node.js 20 or newer.
pub fn gemini_cli(folder: &Path) -> Result<PathBuf> {
    let script = "@google/gemini-cli/bundle/gemini.js";
    npm_files(
        &folder.join(format!("gemini-cli-{GEMINI_CLI}")),
        &[&format!("@google/gemini-cli@{GEMINI_CLI}")],
        script,
    )
}

/// The program of opencode. Its package is only a launcher, like those of others.
pub fn opencode(folder: &Path) -> Result<PathBuf> {
    let program = format!("opencode-{}/bin/opencode", machine());
    npm_files(&folder.join(format!("opencode-{OPENCODE}")), &[&format!("opencode-ai@{OPENCODE}")], &program)
}

/// The Node.js and the script of pi.
pub fn pi(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let (home, node) = (folder.join(format!("pi-{PI}-{NODE}")), format!("node-{}", machine()));
    let packages = [&*format!("@earendil-works/pi-coding-agent@{PI}"), &*format!("{node}@{NODE}")];
    let script = npm_files(&home, &packages, "@earendil-works/pi-coding-agent/dist/bundle/cli.js")?;
    Ok((npm_files(&home, &packages, &format!("{node}/bin/node"))?, script))
}

/// The program of goose. Its packages for machines have different version numbers than goose itself.
pub fn goose(folder: &Path) -> Result<PathBuf> {
    let (version, package) = GOOSE;
    let name = format!("@aaif/goose-binary-{}", machine());
    let home = folder.join(format!("goose-{version}"));
    npm_files(&home, &[&format!("{name}@{package}")], &format!("{name}/bin/goose"))
}

/// The program of llm, in a virtual environment.
pub fn llm(folder: &Path) -> Result<PathBuf> {
    let home = folder.join(format!("llm-{LLM}"));
    let program = home.join("bin/llm");
    let says = || Command::new(&program).arg("--version").output();
    let is_it = || says().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(LLM));
    if !is_it() {
        venv(&home)?;
        let mut pip = Command::new(home.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.arg(format!("llm=={LLM}"));
        installed(pip, "pip", "it is part of python3's venv")?;
        ensure!(is_it(), "pip installed something else than llm {LLM}");
    }
    Ok(program)
}

/// This machine's name in npm packages.
fn machine() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    format!("{system}-{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" })
}

/// A file of the packages that npm installs together.
fn npm_files(home: &Path, packages: &[&str], file: &str) -> Result<PathBuf> {
    let path = home.join("node_modules").join(file);
    if !path.is_file() {
        fs::create_dir_all(home)?;
        let mut command = Command::new("npm");
        command.args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
        command.arg(home).args(packages);
        installed(command, "npm", "Node.js brings it: https://nodejs.org")?;
        ensure!(path.is_file(), "npm installed {packages:?} in {}, but not {file}", home.display());
    }
    Ok(path)
}

/// The program of an npm package.
fn npm(home: &Path, scope: &str, package: &str, version: &str) -> Result<PathBuf> {
    let name = package.split('-').next().unwrap_or(package);
    if let Some(program) = program_in(home, scope, name, version)? {
        return Ok(program);
    }
    fs::create_dir_all(home)?;
    let mut command = Command::new("npm");
    command
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"])
        .arg(home)
        .arg(format!("{scope}/{package}@{version}"));
    installed(command, "npm", "Node.js brings it: https://nodejs.org")?;
    program_in(home, scope, name, version)?.with_context(|| {
        let home = home.display();
        format!("npm installed {scope}/{package} {version} in {home}, but no program for this machine")
    })
}

/// The package itself is a launcher; the program is in a package for the machine. It is run directly, so that killing it ends it.
fn program_in(home: &Path, scope: &str, name: &str, version: &str) -> Result<Option<PathBuf>> {
    let modules = home.join("node_modules").join(scope);
    if !modules.is_dir() {
        return Ok(None);
    }
    for program in files(&modules, name)? {
        let is_it = program.file_name().is_some_and(|file| file.to_string_lossy() == name);
        let says = || Command::new(&program).arg("--version").output();
        if is_it && says().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version)) {
            return Ok(Some(program));
        }
    }
    Ok(None)
}

/// The Python of a virtual environment in which mistral-common of that version is installed.
pub fn mistral(folder: &Path, version: &str) -> Result<PathBuf> {
    let home = folder.join(format!("mistral-common-{version}"));
    let python = home.join("bin/python");
    if has_mistral(&python, version) {
        return Ok(python);
    }
    venv(&home)?;
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

/// Runs an installer, and reports whether the installer or the network is missing.
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
