//! Commands and options that run other programs, write files, or change what later commands mean.
//!
//! A rule allows them only if it spells them out: `run:timeout *` allows `timeout 5 make`, `run:*` does not; `run:git *` does not allow
//! `git -c …`, `run:git -c color.ui=never diff*` does. The tables cannot be complete, since any program may start another. They cover the
//! usual ones.

use super::shell::{SimpleCommand, Word};

/// Commands that run their arguments, or part of them, as a command.
const WRAPPERS: &[&str] = &[
    "builtin",
    "busybox",
    "catchsegv",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "dbus-run-session",
    "doas",
    "env",
    "exec",
    "fakeroot",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flock",
    "gdb",
    "ionice",
    "linux32",
    "linux64",
    "ltrace",
    "nice",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "run0",
    "runuser",
    "rustup",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "unbuffer",
    "unshare",
    "uvx",
    "valgrind",
    "watch",
    "xargs",
    "xvfb-run",
];

/// Commands that read a script of shell commands from an argument or from their input.
const SHELLS: &[&str] = &[
    ".", "ash", "bash", "csh", "dash", "eval", "fish", "ksh", "mksh", "nu", "parallel", "pwsh", "rbash",
    "script", "sh", "source", "ssh", "su", "tcsh", "trap", "watch", "yash", "zsh", "at", "batch", "crontab",
    "tmux", "screen", "xterm", "runuser", "flock", "mosh", "rsh",
];

/// Other commands that must be named: interpreters, editors and pagers that start programs, and what changes the shell itself.
const NAMED: &[&str] = &[
    "alias",
    "awk",
    "bind",
    "bun",
    "cd",
    "chsh",
    "clojure",
    "complete",
    "cmake",
    "declare",
    "deno",
    "dirs",
    "docker",
    "ed",
    "elvish",
    "emacs",
    "enable",
    "ex",
    "export",
    "fc",
    "gawk",
    "getopts",
    "ghci",
    "gnuplot",
    "groovy",
    "guile",
    "hash",
    "irb",
    "java",
    "jshell",
    "julia",
    "kubectl",
    "less",
    "let",
    "local",
    "lua",
    "luajit",
    "m4",
    "make",
    "man",
    "mapfile",
    "mawk",
    "more",
    "nano",
    "nawk",
    "nc",
    "ncat",
    "ninja",
    "node",
    "nodejs",
    "nvim",
    "ocaml",
    "octave",
    "osascript",
    "perl",
    "php",
    "podman",
    "popd",
    "pushd",
    "R",
    "racket",
    "read",
    "readarray",
    "readonly",
    "Rscript",
    "ruby",
    "sbcl",
    "scala",
    "sed",
    "set",
    "shopt",
    "socat",
    "sqlite3",
    "swipl",
    "tclsh",
    "telnet",
    "tee",
    "dd",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "vi",
    "view",
    "vim",
    "wish",
];

/// Options and subcommands of one family of commands that a rule must spell out.
struct Options {
    /// Beginning of the command's name, with version numbers left off.
    names: &'static [&'static str],
    /// Letters of short options, which may be written together.
    letters: &'static str,
    /// Whole words: long options, also abbreviated or with `=`, and subcommands.
    words: &'static [&'static str],
}

const OPTIONS: &[Options] = &[
    Options {
        names: &["sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "tcsh", "yash", "zsh"],
        letters: "cC",
        words: &["--command", "--init-command", "--init-file", "--rcfile"],
    },
    Options { names: &["python", "pypy"], letters: "c", words: &[] },
    Options { names: &["perl"], letters: "eEmM", words: &[] },
    Options { names: &["ruby"], letters: "er", words: &[] },
    Options {
        names: &["node", "nodejs", "bun", "deno"],
        letters: "epr",
        words: &["--eval", "--print", "--require", "--import", "--loader", "--experimental-loader", "eval"],
    },
    Options { names: &["php"], letters: "rBRE", words: &["--run", "--process-begin", "--process-code"] },
    Options { names: &["lua", "luajit", "Rscript"], letters: "el", words: &[] },
    Options {
        names: &["git"],
        letters: "cO",
        words: &[
            "--config-env",
            "--exec-path",
            "--exec",
            "--upload-pack",
            "--receive-pack",
            "--extcmd",
            "--ext-diff",
            "--textconv",
            "--open-files-in-pager",
            "--output",
            "--git-dir",
            "--work-tree",
            "--config",
            "--template",
            "-x",
            "-u",
            "config",
            "bisect",
            "filter-branch",
            "submodule",
            "difftool",
            "mergetool",
            "hook",
            "send-email",
            "instaweb",
            "daemon",
            "foreach",
            "credential",
        ],
    },
    Options {
        names: &["find"],
        letters: "",
        words: &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "-files0-from",
        ],
    },
    Options { names: &["fd", "fdfind"], letters: "xX", words: &["--exec", "--exec-batch"] },
    Options { names: &["cargo"], letters: "ZC", words: &["--config", "--manifest-path"] },
    Options {
        names: &["go"],
        letters: "",
        words: &["-exec", "-toolexec", "-vettool", "-overlay", "-modfile"],
    },
    Options {
        names: &["tar", "bsdtar", "gtar"],
        letters: "IF",
        words: &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
        ],
    },
    Options { names: &["rsync"], letters: "e", words: &["--rsh", "--rsync-path"] },
    Options { names: &["scp", "sftp", "ssh"], letters: "SoFDJ", words: &[] },
    Options { names: &["sort"], letters: "oT", words: &["--output", "--compress-program"] },
    Options { names: &["rg"], letters: "", words: &["--pre", "--hostname-bin"] },
    Options {
        names: &["curl"],
        letters: "oOKT",
        words: &["--output", "--remote-name", "--config", "--upload-file", "--output-dir"],
    },
    Options {
        names: &["wget"],
        letters: "OPei",
        words: &["--output-document", "--execute", "--config", "--use-askpass"],
    },
    Options { names: &["printf", "test", "["], letters: "v", words: &[] },
    Options {
        names: &["npm", "pnpm", "yarn"],
        letters: "",
        words: &["exec", "x", "dlx", "--script-shell", "explore"],
    },
];

/// Positions of the words that a rule must spell out to allow the command.
pub(super) fn sensitive_words(command: &SimpleCommand) -> Vec<usize> {
    let at = command.assignments;
    let mut found: Vec<usize> = (0..at).collect();
    let Some(name) = command.words.get(at) else { return found };
    let name = program(&name.text);
    if is_wrapper(&name)
        || is_shell(&name)
        || contains(NAMED, &name)
        || options(&name).any(|o| o.names == ["python", "pypy"])
    {
        found.push(at);
    }
    for (i, word) in command.words.iter().enumerate().skip(at + 1) {
        if options(&name).any(|options| options.concern(word)) {
            found.push(i);
        }
    }
    found
}

/// Whether a command runs its arguments as a command.
pub(super) fn is_wrapper(program: &str) -> bool {
    contains(WRAPPERS, program)
}

/// Whether a command reads shell commands from its arguments or its input.
pub(super) fn is_shell(program: &str) -> bool {
    contains(SHELLS, program)
}

/// The program that a command name runs: without its folder.
pub(super) fn program(name: &str) -> String {
    let base = name.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or(name);
    base.strip_suffix(".exe").unwrap_or(base).to_owned()
}

fn contains(list: &[&str], program: &str) -> bool {
    list.iter().any(|name| name.eq_ignore_ascii_case(program))
}

fn options(program: &str) -> impl Iterator<Item = &'static Options> {
    let family = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').to_owned();
    OPTIONS.iter().filter(move |options| options.names.iter().any(|name| name.eq_ignore_ascii_case(&family)))
}

impl Options {
    fn concern(&self, word: &Word) -> bool {
        let text = word.text.as_str();
        // A pattern may expand to an option, if a file has such a name.
        if word.expands && text.starts_with(['*', '?', '[', '-']) {
            return true;
        }
        let option = text.split('=').next().unwrap_or(text);
        if self.words.iter().any(|known| {
            *known == option || option.len() > 4 && option.starts_with("--") && known.starts_with(option)
        }) {
            return true;
        }
        text.strip_prefix('-').is_some_and(|letters| {
            !letters.starts_with('-') && letters.contains(|c| self.letters.contains(c))
        })
    }
}
