//! Arguments of `rejoin convert` about where the result goes and how much is said of it.

/// Where a session file goes, and how much is said.
#[derive(Debug, clap::Args)]
pub struct InstallArguments {
    /// Put the session where its agent finds it, and print the command that
    /// resumes it
    ///
    /// For `--to codex`, a new file in $CODEX_HOME/sessions (default: ~/.codex). For `--to claude-code`, in the project of
    /// the folder that the conversation is about, in $CLAUDE_CONFIG_DIR/projects (default: ~/.claude). No file is
    /// overwritten.
    #[arg(long, conflicts_with = "output")]
    pub install: bool,
    /// With --install: print one JSON object instead of the command
    #[arg(long, requires = "install")]
    pub json: bool,
    /// Show every finding (default: a summary if there are many)
    #[arg(long, short = 'v')]
    pub verbose: bool,
}
