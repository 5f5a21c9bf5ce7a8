//! The commit that is checked out in a folder, read from git's files. Git itself is not started: it may be missing, and a
//! repository's settings can make it run commands.
//!
//! The commit is only recorded as a note on a change, so if it cannot be read, no commit is recorded.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

/// The most bytes of a file that names a folder, a branch or a commit.
const NAME: u64 = 8 * 1024;
/// The most bytes of `packed-refs`. A million branches need about 64 MiB.
const PACKED: u64 = 64 * 1024 * 1024;
/// The most names in a chain of references, as in git.
const NAMES: usize = 5;

/// The hash of the commit that is checked out in the repository of a folder; `None` before the first commit.
pub(super) fn checked_out(folder: &Path) -> Option<String> {
    let repository = folder.ancestors().find_map(Repository::at)?;
    let mut name = String::from("HEAD");
    for _ in 0..NAMES {
        let value = repository.value(&name)?;
        match value.strip_prefix("ref:") {
            Some(next) => name = next.trim_start().to_owned(),
            None => return is_hash(&value).then_some(value),
        }
    }
    None
}

struct Repository {
    /// The folder with `HEAD`. A worktree has its own, inside the repository's.
    own: PathBuf,
    /// The folder with the branches, which all worktrees share.
    common: PathBuf,
}

impl Repository {
    /// The repository whose files are checked out in this folder. In a worktree or a submodule, `.git` is a file that names its
    /// folder.
    fn at(folder: &Path) -> Option<Self> {
        let git = folder.join(".git");
        let own =
            if git.is_dir() { git } else { folder.join(line(&git)?.strip_prefix("gitdir:")?.trim_start()) };
        let common = line(&own.join("commondir")).map_or_else(|| own.clone(), |common| own.join(common));
        own.join("HEAD").is_file().then_some(Self { own, common })
    }

    /// The content of a ref: a hash, or `ref:` and the name of another ref.
    fn value(&self, name: &str) -> Option<String> {
        let is_inside = name.split('/').all(|part| !matches!(part, "" | "." | "..")) && !name.contains('\\');
        if name != "HEAD" && !(name.starts_with("refs/") && is_inside) {
            return None;
        }
        line(&self.own.join(name)).or_else(|| line(&self.common.join(name))).or_else(|| self.packed(name))
    }

    /// The hash of a ref in `packed-refs`, where git collects refs that rarely change.
    fn packed(&self, name: &str) -> Option<String> {
        let lines = BufReader::new(regular(&self.common.join("packed-refs"))?.take(PACKED)).lines();
        lines.map_while(Result::ok).find_map(|line| {
            let (hash, of) = line.split_once(' ')?;
            (of == name).then(|| hash.to_owned())
        })
    }
}

/// The first line of a short file; `None` if it is blank.
fn line(path: &Path) -> Option<String> {
    let mut text = String::new();
    regular(path)?.take(NAME).read_to_string(&mut text).ok()?;
    text.lines().next().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Opens a regular file. Opening a pipe could wait for ever.
fn regular(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    File::open(path).ok()
}

/// Whether this is a hash: SHA-1 or SHA-256, in hexadecimal digits.
fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    /// S1-34: the commit is found in each place where git keeps it; a broken or empty repository has none.
    #[test]
    fn the_commit_that_is_checked_out() {
        let long = "a".repeat(64);
        let main = "ref: refs/heads/main\n";
        let packed = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{TWO} refs/heads/mainly\n{ONE} refs/heads/main\n^{TWO}\n"
        );
        for (files, found) in [
            (vec![], None),
            (vec![(".git/HEAD", ONE)], Some(ONE)),
            (vec![(".git/HEAD", &*long)], Some(&*long)),
            (vec![(".git/HEAD", main), (".git/refs/heads/main", ONE)], Some(ONE)),
            (vec![(".git/HEAD", main), (".git/packed-refs", &packed)], Some(ONE)),
            // The branch moved after it was packed.
            (
                vec![(".git/HEAD", main), (".git/refs/heads/main", TWO), (".git/packed-refs", &packed)],
                Some(TWO),
            ),
            // A worktree, and a submodule.
            (
                vec![
                    (".git", "gitdir: main/.git/worktrees/w\n"),
                    ("main/.git/worktrees/w/HEAD", main),
                    ("main/.git/worktrees/w/commondir", "../..\n"),
                    ("main/.git/HEAD", TWO),
                    ("main/.git/refs/heads/main", ONE),
                ],
                Some(ONE),
            ),
            (vec![(".git", "gitdir: modules/m\n"), ("modules/m/HEAD", ONE)], Some(ONE)),
            // Before the first commit, and invalid content.
            (vec![(".git/HEAD", main)], None),
            (vec![(".git/HEAD", "")], None),
            (vec![(".git/HEAD", "main")], None),
            (vec![(".git/HEAD", "ref: HEAD")], None),
            (vec![(".git/HEAD", "ref: refs/../../secret"), ("secret", ONE)], None),
            (vec![(".git/HEAD", "ref: /etc/passwd")], None),
            (vec![(".git", "gitdir: nowhere")], None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let here = folder.path().join("here");
            fs::create_dir_all(here.join("inside/it")).unwrap();
            for (name, content) in &files {
                fs::create_dir_all(here.join(name).parent().unwrap()).unwrap();
                fs::write(here.join(name), content).unwrap();
            }
            assert_eq!(checked_out(&here).as_deref(), found, "{files:?}");
            assert_eq!(checked_out(&here.join("inside/it")).as_deref(), found, "a folder inside: {files:?}");
        }
    }

    /// S1-34: the commit equals the one that git prints, also after branches were packed and in a worktree.
    #[test]
    fn it_is_the_commit_that_git_names() {
        let folder = tempfile::tempdir().unwrap();
        let git = |inside: &Path, arguments: &[&str]| {
            let user = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            let ran =
                std::process::Command::new("git").arg("-C").arg(inside).args(user).args(arguments).output();
            ran.ok().filter(|ran| ran.status.success()).map(|ran| String::from_utf8(ran.stdout).unwrap())
        };
        let main = folder.path().join("main");
        fs::create_dir(&main).unwrap();
        if git(&main, &["init", "-q"]).is_none() {
            return; // Git is not installed.
        }
        assert_eq!(checked_out(&main), None);
        let commit = ["commit", "-q", "--allow-empty", "-m", "x"];
        let same = |inside: &Path| {
            let named = git(inside, &["rev-parse", "HEAD"]).unwrap();
            assert_eq!(checked_out(inside).as_deref(), Some(named.trim()));
        };
        git(&main, &commit).unwrap();
        same(&main);
        git(&main, &["worktree", "add", "-q", "-b", "side/branch", "../side"]).unwrap();
        let side = folder.path().join("side");
        git(&side, &commit).unwrap();
        git(&main, &["pack-refs", "--all"]).unwrap();
        same(&main);
        same(&side);
        git(&main, &["checkout", "-q", "--detach"]).unwrap();
        same(&main);
    }
}
