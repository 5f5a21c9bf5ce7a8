//! Commands and options that run other programs, write files, or change what later commands mean.
//!
//! A rule allows them only if it spells them out: `run:timeout *` allows `timeout 5 make`, `run:*` does not; `run:git *` does not allow
//! `git -c …`, `run:git -c color.ui=never diff*` does. The tables cannot be complete, since any program may start another. They cover the
//! usual ones.

use super::shell::{SimpleCommand, Word};

/// Commands that run their arguments, or part of them, as a command.
const WRAPPERS: &[&str] = &[
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "capsh",
    "catchsegv",
    "chronic",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "cpulimit",
    "dbus-run-session",
    "direnv",
    "doas",
    "dumb-init",
    "entr",
    "env",
    "exec",
    "expect",
    "fakeroot",
    "faketime",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flock",
    "gdb",
    "gosu",
    "ionice",
    "jobs",
    "ld-linux-x86-64.so.2",
    "ld.so",
    "linux32",
    "linux64",
    "ltrace",
    "mise",
    "newgrp",
    "nice",
    "nix",
    "nix-shell",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pipx",
    "pkexec",
    "pnpx",
    "prlimit",
    "proot",
    "proxychains",
    "rlwrap",
    "run0",
    "runuser",
    "rustup",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "sshpass",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "su-exec",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tini",
    "toybox",
    "ts-node",
    "tsx",
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
    "cmake",
    "compgen",
    "complete",
    "dd",
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
    "history",
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
    "tee",
    "telnet",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "vi",
    "view",
    "vim",
    "wait",
    "wish",
];

/// The options and subcommands of one family of commands that a rule must spell out.
struct Options {
    /// Beginnings of the commands' names, without version numbers.
    names: &'static [&'static str],
    /// Letters of short options, which may be written together.
    letters: &'static str,
    /// Whole words: long options (which may be abbreviated or have `=`), and subcommands.
    words: &'static [&'static str],
}

/// Among the words of [`Options`]: every word that sets a variable, such as `SHELL=./x`.
const ASSIGNMENT: &str = "NAME=VALUE";

/// Among the words of [`Options`]: every word that names a file from which the command reads further arguments, such as `@x`.
const ARGUMENT_FILE: &str = "@FILE";

/// The commands whose first word may be a cluster of short options without a dash, as in `tar cIf`.
const UNDASHED: &[&str] = &["tar", "bsdtar", "gtar"];

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
        letters: "cCoOux",
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
            "--separate-git-dir",
            "--export-marks",
            "--prefix",
            "--unsafe-paths",
            "citool",
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
            "for-each-repo",
            "credential",
            "credential-store",
            "fsmonitor--daemon",
            "gui",
            "imap-send",
            "maintenance",
            "p4",
            "remote-ext",
            "shell",
            "svn",
            "web--browse",
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
    Options { names: &["zip"], letters: "T", words: &["--unzip-command", "--test"] },
    Options { names: &["split"], letters: "", words: &["--filter"] },
    Options { names: &["sed"], letters: "i", words: &["--in-place"] },
    Options {
        names: &["make", "gmake"],
        letters: "CEfI",
        words: &["--directory", "--eval", "--file", "--include-dir", "--makefile", ASSIGNMENT],
    },
    Options {
        names: &["cc", "gcc", "g++", "c++", "clang", "clang++"],
        letters: "B",
        words: &["-wrapper", "-specs", "--specs", "-fplugin", "-fpass-plugin", "-load", ARGUMENT_FILE],
    },
    Options { names: &["rustc"], letters: "CZ", words: &["--codegen", "--sysroot", ARGUMENT_FILE] },
    Options {
        names: &["svn"],
        letters: "",
        words: &["--config-dir", "--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"],
    },
    Options { names: &["hg"], letters: "R", words: &["--config", "--cwd", "--repository"] },
    Options { names: &["ctags"], letters: "", words: &["--options"] },
    Options { names: &["uv", "poetry", "pdm", "hatch"], letters: "", words: &["run", "tool", "x", "shell"] },
    Options { names: &["bundle"], letters: "", words: &["exec"] },
    Options { names: &["gh"], letters: "", words: &["alias", "ext", "extension", "extensions"] },
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
        let first = i == at + 1;
        if options(&name).any(|options| options.concern(word) || first && options.concern_without_dash(word))
            || contains(&["git"], &name) && runs_a_transport(command, word)
        {
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

/// Subcommands of git that take addresses.
const WITH_ADDRESS: &[&str] =
    &["archive", "clone", "fetch", "fetch-pack", "ls-remote", "pull", "push", "remote", "send-pack"];

/// Whether a word is an address for which git runs another program: `ext::sh -c x`, or any other `git-remote-NAME`.
fn runs_a_transport(command: &SimpleCommand, word: &Word) -> bool {
    let address = word.text.split_once('=').map_or(word.text.as_str(), |(_, value)| value);
    address.contains("::") && command.words.iter().any(|word| contains(WITH_ADDRESS, &word.text))
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
        if text.starts_with('@') && self.words.contains(&ARGUMENT_FILE)
            || !text.starts_with('-') && text.contains('=') && self.words.contains(&ASSIGNMENT)
        {
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

    fn concern_without_dash(&self, word: &Word) -> bool {
        self.names == UNDASHED && word.text.contains(|c| self.letters.contains(c))
    }
}
