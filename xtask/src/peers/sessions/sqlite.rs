//! SQLite databases, handled with Python, which includes SQLite. Several peers need Python anyway.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// The beginning of a database file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Runs the given SQL, or prints the whole database as SQL if none is given.
const SCRIPT: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
sql = sys.stdin.read()
database.executescript(sql)
if not sql:
    sys.stdout.reconfigure(encoding='utf-8', errors='replace')
    print(*database.iterdump(), sep='\\n')
";

/// Puts a session in the place of a program's database: unchanged if it is a database, otherwise as SQL, into the database that
/// `empty` makes the program create there.
pub fn place(session: &Path, database: &Path, empty: impl Fn() -> Result<String>) -> Result<()> {
    let content = fs::read(session)?;
    if content.starts_with(MAGIC) {
        fs::create_dir_all(database.parent().context("a database lies in a folder")?)?;
        fs::copy(session, database)?;
        return Ok(());
    }
    let said = empty()?;
    ensure!(database.is_file(), "no database was made: {said}");
    run(database, &content).map(drop)
}

/// A session as text; a database becomes the SQL that creates it.
pub fn readable(session: &Path) -> Result<String> {
    let content = fs::read(session).with_context(|| session.display().to_string())?;
    if content.starts_with(MAGIC) {
        return run(session, b"");
    }
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// A value as text in SQL.
pub fn quoted(value: impl ToString) -> String {
    format!("'{}'", value.to_string().replace('\'', "''"))
}

fn run(database: &Path, sql: &[u8]) -> Result<String> {
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).arg(database).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.stderr(Stdio::piped()).spawn().context("cannot run python3")?;
    child.stdin.take().context("BUG: standard input is a pipe")?.write_all(sql)?;
    let output = child.wait_with_output()?;
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "python3 on {}: {err}", database.display());
    Ok(out)
}
