//! The binary `rejoin`, run as a user would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::conversations::Conversation;
use crate::run::cargo;

/// A session that was installed for an agent.
pub struct Installed {
    pub id: String,
    /// The folder to resume it in.
    pub directory: PathBuf,
    /// The content of the file.
    pub text: String,
}

/// The built binary.
pub struct Rejoin {
    program: PathBuf,
}

impl Rejoin {
    /// Builds the binary. Cargo is asked for its path.
    pub fn build() -> Result<Self> {
        println!("building rejoin");
        let output = cargo(&["build", "-p", "rejoin-cli", "--message-format=json-render-diagnostics"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        ensure!(output.status.success(), "rejoin does not build");
        let program = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .next_back()
            .context("cargo named no binary")?;
        Ok(Self { program })
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The output of `rejoin convert FILE --to … OPTIONS`, or the reason why it failed. `home` names the folder of an agent by its
    /// variable.
    pub fn convert(
        &self,
        work: &Path,
        conversation: &Conversation,
        to: &str,
        options: &[&str],
        home: Option<(&str, &Path)>,
    ) -> Result<Result<String, String>> {
        let file = work.join("source.json");
        fs::write(&file, &conversation.text)?;
        let mut command = Command::new(&self.program);
        command.arg("convert").arg(&file).args(["--from", &conversation.format, "--to", to]).args(options);
        let output = command.envs(home).current_dir(work).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Ok(Err(format!("rejoin convert --to {to}: {}\n{complaint}", output.status)));
        }
        Ok(String::from_utf8(output.stdout).map_err(|_| "rejoin printed what is not UTF-8".to_owned()))
    }

    /// Installs a session with `rejoin convert FILE --to … --install`, or returns why that failed.
    pub fn install(
        &self,
        work: &Path,
        conversation: &Conversation,
        to: &str,
        home: (&str, &Path),
    ) -> Result<Result<Installed, String>> {
        let options = ["--on-broken", "keep", "--install", "--json"];
        let printed = match self.convert(work, conversation, to, &options, Some(home))? {
            Ok(printed) => printed,
            Err(reason) => return Ok(Err(reason)),
        };
        let told: Value = serde_json::from_str(&printed).context("what --install --json prints")?;
        let field = |name: &str| told[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        let path = PathBuf::from(field("path")?);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Ok(Installed { id: field("id")?, directory: field("directory")?.into(), text }))
    }

    /// The output of `rejoin convert FILE --to …` for a file whose format must be recognised, or the reason why it failed.
    pub fn reads(&self, file: &Path, to: &str) -> Result<Result<String, String>> {
        let mut command = Command::new(&self.program);
        command.arg("convert").arg(file).args(["--to", to]);
        self.done(command)
    }

    /// The faults that `rejoin check FILE` finds in a file whose format must be recognised.
    pub fn check_file(&self, file: &Path) -> Result<Result<(), String>> {
        let mut command = Command::new(&self.program);
        command.arg("check").arg(file);
        Ok(self.done(command)?.map(drop))
    }

    /// The output of a command, or its error output if it fails.
    fn done(&self, mut command: Command) -> Result<Result<String, String>> {
        let output = command.stdin(Stdio::null()).output()?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(if output.status.success() {
            Ok(stdout)
        } else {
            Err(format!("{command:?}: {}\n{stdout}{stderr}", output.status))
        })
    }

    /// The faults that rejoin's own checker finds in a request body.
    pub fn check(&self, work: &Path, dialect: &str, body: &str) -> Result<Result<(), String>> {
        let file = work.join("request.json");
        fs::write(&file, body)?;
        let mut command = Command::new(&self.program);
        command.arg("check").arg(&file).args(["--from", dialect, "--for", dialect]);
        let output = command.stdin(Stdio::null()).output()?;
        Ok(if output.status.success() {
            Ok(())
        } else {
            Err(format!(
                "rejoin check --for {dialect}: {}\n{}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))
        })
    }
}
