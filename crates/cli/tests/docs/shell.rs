//! A place in which the commands of a page run, one after another, in the system's own shell.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    page::{Kind, Step},
    root,
};

/// The binary that is tested.
const REJOIN: &str = env!("CARGO_BIN_EXE_rejoin");
/// Longer than any page takes.
const PATIENCE: Duration = Duration::from_secs(240);

/// The outcome of a command.
#[derive(Debug)]
pub struct Ran {
    /// Its output; if the page shows it, also its standard error, as on a terminal.
    pub out: String,
    /// Its remaining output on standard error.
    pub err: String,
    pub code: i32,
}

/// A folder with the shipped examples, and a fresh home folder.
pub struct ShellHome {
    folder: tempfile::TempDir,
    /// Whether the built-in responder answers without being named.
    offline: bool,
}

impl ShellHome {
    /// Nothing is stored yet.
    pub fn empty() -> Self {
        let cli = Self { folder: tempfile::tempdir().unwrap(), offline: false };
        let examples = cli.path().join("examples");
        fs::create_dir(&examples).unwrap();
        for file in fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, examples.join(file.file_name().unwrap())).unwrap();
            }
        }
        cli
    }

    /// Two of the examples are in the store, and the third is the pages' `session.json`.
    pub fn new() -> Self {
        let cli = Self { offline: true, ..Self::empty() };
        fs::copy(cli.path().join("examples/interrupted.json"), cli.path().join("session.json")).unwrap();
        assert_eq!(cli.run("rejoin import examples/rollout.jsonl examples/transcript.jsonl").code, 0);
        cli
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn run(&self, line: &str) -> Ran {
        let step = Step { at: 1, line: line.to_owned(), kind: Kind::Run };
        self.all(&[&step]).pop().unwrap()
    }

    /// Runs commands in one shell, so that folders, variables and what runs in the background stay.
    pub fn all(&self, steps: &[&Step]) -> Vec<Ran> {
        let notes = tempfile::tempdir().unwrap();
        let note = |place: usize, what: &str| notes.path().join(format!("{place}.{what}"));
        let mut script = String::new();
        for (place, step) in steps.iter().enumerate() {
            let [out, err, code] = ["out", "err", "code"].map(|what| note(place, what).display().to_string());
            let err =
                if matches!(step.kind, Kind::Shown(_)) { String::from("&1") } else { format!("'{err}'") };
            // The test itself does the work of `jq` and what follows it.
            let line = step.line.split(" | jq").next().unwrap_or_default();
            script.push_str(&format!("{{ {line}\n}} >'{out}' 2>{err}\necho $? >'{code}'\n"));
        }
        fs::write(notes.path().join("script"), script).unwrap();
        let mut shell = self.shell();
        shell.arg(notes.path().join("script")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = child.wait_with_output().unwrap();
        let read = |path: PathBuf| fs::read(path).map(|bytes| String::from_utf8(bytes).unwrap());
        let of = |(place, step): (usize, &&Step)| {
            let code = read(note(place, "code"));
            let code = code.unwrap_or_else(|_| {
                panic!("`{}` did not come to its end: {}", step.line, String::from_utf8_lossy(&said.stderr))
            });
            Ran {
                out: read(note(place, "out")).unwrap_or_default(),
                err: read(note(place, "err")).unwrap_or_default(),
                code: code.trim().parse().unwrap(),
            }
        };
        steps.iter().enumerate().map(of).collect()
    }

    /// A shell in which `rejoin` is the tested binary, and no settings, sessions or keys exist.
    fn shell(&self) -> Command {
        let mut shell = Command::new("sh");
        let ours = |name: &str| {
            let ends = ["_API_KEY", "_TOKEN", "_HOST", "_BASE_URL", "_CONFIG_DIR"];
            name.starts_with("REJOIN_") || name == "CODEX_HOME" || ends.iter().any(|end| name.ends_with(end))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
            shell.env_remove(name);
        }
        let mut path = Path::new(REJOIN).parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        shell
            .env("PATH", path)
            .env("HOME", self.path().join("nobody"))
            .env("REJOIN_HOME", self.path().join("home"))
            .env("TZ", "UTC")
            .current_dir(self.path())
            .stdin(Stdio::null());
        if self.offline {
            shell.env("REJOIN_PROVIDER", "offline");
        }
        shell
    }
}

/// Names for values that differ between runs, by kind and order of appearance: the third conversation on a page is the third
/// conversation of a run.
#[derive(Default)]
pub struct Names {
    known: BTreeMap<String, String>,
}

impl Names {
    /// A text without the ids, times, durations and token counts of one run.
    pub fn plain(&mut self, text: &str) -> String {
        // Some shells print a line about a killed process.
        let lines = text.split_inclusive('\n').filter(|line| !line.contains(" Killed "));
        let mut out = String::new();
        for line in lines {
            let mut rest = line;
            while let Some(letter) = rest.chars().next() {
                let taken = self.take(rest, out.chars().next_back());
                let (name, length) = taken.unwrap_or_else(|| (letter.to_string(), letter.len_utf8()));
                out.push_str(&name);
                rest = &rest[length..];
            }
        }
        out
    }

    /// Replaces a value that begins here and differs in each run.
    fn take(&mut self, text: &str, before: Option<char>) -> Option<(String, usize)> {
        if before.is_some_and(|letter| letter.is_ascii_alphanumeric()) {
            return None;
        }
        let shaped = |shape: &str| fits(text, shape).then_some(shape.len());
        let named =
            |length: usize| !text[length..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if let Some(length) = shaped("conv_aaaaaaaaaaaa").filter(|length| named(*length)) {
            return Some((self.name("conversation", &text[..length]), length));
        }
        if let Some(length) = shaped("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx").filter(|length| named(*length)) {
            return Some((self.name("entry", &text[..length]), length));
        }
        if let Some(length) = shaped("0000-00-00 00:00:00") {
            return Some((String::from("TIME"), length));
        }
        if let Some(length) = shaped("xxxxxxxxxxxxxxxx").filter(|length| named(*length)) {
            return Some((String::from("HASH"), length));
        }
        // A duration, with the blanks before it that keep a column straight.
        let number = text.trim_start_matches(' ');
        let digits = number.len() - number.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        if digits > 0 && number[digits..].starts_with(" ms") {
            return Some((String::from(" TIME"), text.len() - number.len() + digits + " ms".len()));
        }
        // The tokens of a request depend on the words that describe the tools.
        let counted = text.len()
            - text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ',').len();
        if counted > 0 && text[counted..].starts_with(" tokens in") {
            return Some((String::from("TOKENS"), counted));
        }
        None
    }

    fn name(&mut self, what: &str, text: &str) -> String {
        let next = format!("{what} {}", self.known.len() + 1);
        self.known.entry(text.to_owned()).or_insert(next).clone()
    }
}

/// Whether a text begins like a shape: `0` is a digit, `x` a hexadecimal one, `a` a letter of an id after `conv_`.
fn fits(text: &str, shape: &str) -> bool {
    let mut letters = text.chars();
    let mut behind = false;
    shape.chars().all(|wanted| {
        let Some(letter) = letters.next() else { return false };
        let fits = match wanted {
            '0' => letter.is_ascii_digit(),
            'x' => letter.is_ascii_digit() || ('a'..='f').contains(&letter),
            'a' if behind => letter.is_ascii_lowercase() || ('2'..='7').contains(&letter),
            _ => letter == wanted,
        };
        behind |= wanted == '_';
        fits
    })
}

#[test]
fn names_are_told_apart() {
    let mut names = Names::default();
    let text = "conv_abcdefgh2345 conv_zzzzzzzzzzzz conv_abcdefgh2345, conv_short 2026-11-16 04:58:00    714 ms f01616ef5a7249fb\n";
    let wanted = "conversation 1 conversation 2 conversation 1, conv_short TIME  TIME HASH\n";
    assert_eq!(names.plain(text), wanted);
    let other = text.replace("conv_zzzzzzzzzzzz", "conv_abcdefgh2345");
    assert_ne!(Names::default().plain(&other), wanted, "another conversation is another one");
    assert_eq!(names.plain("21 messages, 6*7 = 42\n"), "21 messages, 6*7 = 42\n");
}
