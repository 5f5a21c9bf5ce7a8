//! The MCP server of testkit, for tests of other packages: `src/bin/mcp-server.rs`.

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// The path of the server, which is built if needed. Cargo tells tests only about programs of the same package.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn server() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--offline", "--quiet", "--package", "testkit", "--bin", "mcp-server"])
        .args(["--no-default-features", "--features", "mcp", "--message-format", "json-render-diagnostics"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    programs.next_back().expect("cargo names the program")
}
