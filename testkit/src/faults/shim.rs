//! The library that makes file operations fail, built once and preloaded into a child.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The effect at the chosen call. `shim/fault.c` has the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One call fails: the disk gave no answer.
    Eio,
    /// One call fails: no room.
    Enospc,
    /// From there on there is no room, until it is over.
    Full,
    /// From there on nothing works, until it is over.
    Dead,
    /// A write is cut short, the next one fails.
    Short,
    /// A write is cut short, and the process is killed.
    ShortKill,
    /// The process is killed before the call.
    KillBefore,
    /// The process is killed after the call.
    KillAfter,
    /// The process is killed, and all unsynced data is lost.
    Power,
}

impl Kind {
    /// Failures after which the process continues.
    pub const REFUSALS: [Self; 3] = [Self::Eio, Self::Enospc, Self::Short];
    /// Ends of the process.
    pub const ENDS: [Self; 4] = [Self::ShortKill, Self::KillBefore, Self::KillAfter, Self::Power];

    fn name(self) -> &'static str {
        match self {
            Self::Eio => "eio",
            Self::Enospc => "enospc",
            Self::Full => "full",
            Self::Dead => "dead",
            Self::Short => "short",
            Self::ShortKill => "short-kill",
            Self::KillBefore => "kill-before",
            Self::KillAfter => "kill-after",
            Self::Power => "power",
        }
    }
}

/// A fault for one process.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The effect.
    pub kind: Kind,
    /// At which call, from 1; 0: never, and the calls are just counted.
    pub at: u64,
    /// Files below this folder are concerned.
    pub under: PathBuf,
    /// A folder next to it for flags, counts and shadows.
    pub notes: PathBuf,
}

impl Fault {
    /// The file that ends a lasting fault when it appears.
    #[must_use]
    pub fn over(&self) -> PathBuf {
        self.notes.join("over")
    }

    /// How many calls the process made, if it ended by itself.
    #[must_use]
    pub fn calls(&self) -> Option<u64> {
        fs::read_to_string(self.notes.join("calls")).ok()?.trim().parse().ok()
    }
}

/// Why there is no library.
#[derive(Debug, Clone)]
pub enum NoShim {
    /// This system has no `LD_PRELOAD` as Linux has it.
    NotHere,
    /// It could not be built, for this reason.
    NotBuilt(String),
}

/// The library, ready to be used.
#[derive(Debug, Clone)]
pub struct Shim {
    path: PathBuf,
}

const SOURCE: &str = include_str!("../../shim/fault.c");

impl Shim {
    /// Builds the library in a folder that cargo gives to tests. Tests call [`super::shim`], which decides what happens to a test
    /// without it.
    ///
    /// # Errors
    /// If this is not Linux, or there is no C compiler.
    pub fn build(folder: &Path) -> Result<Self, NoShim> {
        static BUILT: OnceLock<Result<Shim, NoShim>> = OnceLock::new();
        BUILT.get_or_init(|| build(folder)).clone()
    }

    /// Makes a command write down every call that changes a file below `under`, with its data, into `journal`.
    pub fn put_journal_into(&self, command: &mut Command, under: &Path, journal: &Path) {
        command.env("LD_PRELOAD", &self.path).env("FAULT_UNDER", under).env("FAULT_JOURNAL", journal);
    }

    /// Puts a fault into a command.
    pub fn put_into(&self, command: &mut Command, fault: &Fault) {
        let shadow = fault.notes.join("shadow");
        if fault.kind == Kind::Power {
            let _ = fs::create_dir_all(&shadow);
            command.env("FAULT_SHADOW", &shadow);
        }
        command
            .env("LD_PRELOAD", &self.path)
            .env("FAULT_UNDER", &fault.under)
            .env("FAULT_KIND", fault.kind.name())
            .env("FAULT_AT", fault.at.to_string())
            .env("FAULT_OVER", fault.over())
            .env("FAULT_REPORT", fault.notes.join("calls"))
            .env("FAULT_TRACE", fault.notes.join("trace"));
    }
}

fn build(folder: &Path) -> Result<Shim, NoShim> {
    if cfg!(target_os = "linux") { compile(folder).map_err(NoShim::NotBuilt) } else { Err(NoShim::NotHere) }
}

fn compile(folder: &Path) -> Result<Shim, String> {
    let own = |ending: &str| folder.join(format!("fault-{}.{ending}", std::process::id()));
    let (source, library) = (own("c"), own("so"));
    fs::create_dir_all(folder).and_then(|()| fs::write(&source, SOURCE)).map_err(|why| why.to_string())?;
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|why| format!("there is no C compiler (`cc`): {why}"))?;
    let _ = fs::remove_file(&source);
    if !compiled.status.success() {
        return Err(format!("the library does not compile: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    // Other tests may be using the current one.
    let path = folder.join("fault.so");
    fs::rename(&library, &path).map_err(|why| why.to_string())?;
    Ok(Shim { path })
}
