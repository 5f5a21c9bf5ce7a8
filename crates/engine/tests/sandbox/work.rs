//! Work that must be possible inside the sandbox.

use std::{fs, time::Duration};

use rejoin_engine::sandbox::{
    CommandExit, CommandLimits, Confinement, Network, Policy, Sandbox, WorkspaceAccess, without_secrets,
};

use super::{SECRET, Scene, Test, Walls, needs, test, usable};

/// Commands, their requirements, and their output.
const WORK: &[(&str, &[&str], &str, &str)] = &[
    (
        "both_streams_in_order",
        &[],
        "for n in 1 2 3; do echo out $n; echo err $n >&2; done",
        "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n",
    ),
    ("pipes", &[], "printf 'b\\na\\n' | sort | tr a-z A-Z", "A\nB\n"),
    (
        "temporary_files",
        &["mktemp"],
        "f=$(mktemp) && echo x > $f && cat $f && case $f in $TMPDIR/*) echo private;; esac",
        "x\nprivate\n",
    ),
    (
        "new_files_in_the_workspace",
        &[],
        "mkdir -p a/b && echo x > a/b/c && mv a/b/c d && ln d e && ln -s d f && cat d e f && rm -r a",
        "x\nx\nx\n",
    ),
    ("modes_in_the_workspace", &[], "printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s", "ran\n"),
    ("scripts", &[], "echo 'echo $1' > s.sh && sh s.sh hello", "hello\n"),
    ("process_substitution", &[], "cat <(echo one) <(echo two)", "one\ntwo\n"),
    (
        "devices",
        &[],
        "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo y > /dev/stdout; echo z > /dev/stderr",
        "4\n4\ny\nz\n",
    ),
    ("no_input", &[], "cat; read x || echo none", "none\n"),
    ("background_jobs", &[], "(sleep 0.05; echo late) & wait; echo done", "late\ndone\n"),
    ("a_home_of_its_own", &[], "test $HOME = $TMPDIR && touch $HOME/x && echo $TERM", "dumb\n"),
    (
        "its_own_session",
        &["perl"],
        "perl -e 'print getpgrp() == $ARGV[0] ? \"leader\" : \"no\"' $$",
        "leader",
    ),
    (
        "a_c_program",
        &["cc"],
        "echo 'int puts(const char*); int main(){puts(\"built\");}' > m.c && cc -o m m.c && ./m",
        "built\n",
    ),
    (
        "python",
        &["python3"],
        "/usr/bin/python3 -c 'import json, subprocess, tempfile, asyncio; print(subprocess.run([\"echo\", \"x\"], capture_output=True).stdout); tempfile.TemporaryFile().write(b\"x\"); print(asyncio.run(asyncio.sleep(0, 7)))'",
        "b'x\\n'\n7\n",
    ),
    (
        "git_status_and_commit",
        &["git"],
        "git init -q . 2>/dev/null; git status --short; echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm first && git log --format=%s && git status --short",
        "first\n",
    ),
    ("processors_are_counted", &["nproc"], "test $(nproc) -ge 1 && echo yes", "yes\n"),
];

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for walls in Walls::EACH {
        for (name, programs, command, output) in WORK {
            tests.push(test(format!("work::{name}::{}", walls.name()), move || {
                needs(programs)?;
                let scene = Scene::new();
                let sandbox = scene.sandbox(walls)?;
                let ran = scene.run(&sandbox, command);
                assert_eq!(ran.output, *output);
                assert_eq!(ran.exit, CommandExit::Code(0));
                Ok(())
            }));
        }
        let mut add = |name: &str, run: fn(Walls) -> Result<(), String>| {
            tests.push(test(format!("work::{name}::{}", walls.name()), move || run(walls)));
        };
        add("exit_codes_and_signals", exit_codes_and_signals);
        add("a_protected_repository", a_protected_repository);
        add("granted_folders_are_readable_only", granted_folders);
        add("a_workspace_to_read", a_workspace_to_read);
        add("a_partner", a_partner);
        add("a_partner_may_tidy_up", a_partner_may_tidy_up);
        add("keys_do_not_reach_commands", keys_do_not_reach_commands);
        add("an_allowed_network_is_no_more_than_that", allowed_network);
        add("a_missing_shell_is_an_error", missing_shell);
    }
    for walls in [Walls::All, Walls::NamespacesOnly] {
        tests.push(test(format!("work::shared_memory::{}", walls.name()), move || {
            needs(&["python3"])?;
            let scene = Scene::new();
            let sandbox = scene.sandbox(walls)?;
            let ran = scene.run(
                &sandbox,
                "/usr/bin/python3 -c 'import multiprocessing as m; print(m.Lock().acquire())'",
            );
            assert_eq!(ran.output, "True\n");
            Ok(())
        }));
    }
    tests.push(test("probe::says_what_holds_here", || {
        let found = Sandbox::probe();
        let scene = Scene::new();
        assert_eq!(&found, Sandbox::new(scene.policy(Walls::All)).unwrap().confinement());
        if let Confinement::None { reason } = found {
            return Err(reason);
        }
        Ok(())
    }));
    tests.push(test("probe::no_barrier_is_no_confinement", || {
        let scene = Scene::new();
        let mut policy = scene.policy(Walls::LandlockOnly);
        policy.barriers.landlock = false;
        let sandbox = Sandbox::new(policy).unwrap();
        assert!(matches!(sandbox.confinement(), Confinement::None { .. }));
        // It runs nevertheless, and none of its processes is left.
        let ran = scene.run(&sandbox, "setsid -f sleep 6001.{id}; cat {outside}/secret");
        assert_eq!(ran.output, format!("{SECRET}\n"));
        assert!(!super::process_with(&format!("6001.{}", scene.id)));
        Ok(())
    }));
    tests
}

fn exit_codes_and_signals(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let sandbox = scene.sandbox(walls)?;
    for (command, exit) in [
        ("exit 0", CommandExit::Code(0)),
        ("exit 7", CommandExit::Code(7)),
        ("false", CommandExit::Code(1)),
        ("no-such-program-here 2>/dev/null", CommandExit::Code(127)),
        ("kill -TERM $$", CommandExit::Signal(15)),
        ("kill -KILL $$", CommandExit::Signal(9)),
        ("ulimit -c unlimited 2>/dev/null; kill -SEGV $$", CommandExit::Signal(11)),
    ] {
        assert_eq!(scene.run(&sandbox, command).exit, exit, "{command}");
    }
    Ok(())
}

fn a_protected_repository(walls: Walls) -> Result<(), String> {
    needs(&["git"])?;
    let scene = Scene::new();
    scene.run_free("git init -q . && git config user.name a && git config user.email a@b && git commit -q --allow-empty -m zero");
    let sandbox = scene.sandbox(walls)?;
    let ran = scene.run(
        &sandbox,
        "echo x > f && git add f && git commit -qm one && git checkout -q -b two && echo y >> f && git commit -qam two && git checkout -q - && git merge -q two && git log --format=%s && git stash list && git gc -q && git status --short",
    );
    assert_eq!((ran.output.as_str(), ran.exit), ("two\none\nzero\n", CommandExit::Code(0)));
    Ok(())
}

fn granted_folders(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let read = vec![scene.outside().join("home"), scene.outside().join("missing")];
    let sandbox = usable(Sandbox::new(Policy { read, ..scene.policy(walls) }).unwrap(), walls)?;
    let ran = scene.run(
        &sandbox,
        "cat {outside}/home/.ssh/id_ed25519; cat {outside}/secret; echo x > {outside}/home/new; true",
    );
    assert_eq!(ran.output.matches(SECRET).count(), 1, "{ran:?}");
    assert!(!scene.outside().join("home/new").exists());
    Ok(())
}

/// A read-only workspace, with two folders that may still be changed: one in it and one outside.
fn a_workspace_to_read(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let (inside, outside) = (scene.workspace().join("open"), scene.outside().join("open"));
    for folder in [&inside, &outside] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(scene.workspace().join("f"), "kept").unwrap();
    let write = vec![inside.clone(), outside.clone(), scene.outside().join("missing")];
    let policy = Policy { access: WorkspaceAccess::Read, write, ..scene.policy(walls) };
    let sandbox = usable(Sandbox::new(policy).unwrap(), walls)?;
    let ran = scene.run(
        &sandbox,
        "cat f; echo x > f; echo x > new; rm -f f; mv f g; chmod 777 f; mkdir sub; ln f open/link; \
         echo in > open/made; echo out > {outside}/open/made; echo x > {outside}/made; cat {outside}/secret; true",
    );
    assert!(ran.output.starts_with("kept"), "{ran:?}");
    assert!(!ran.output.contains(SECRET), "{ran:?}");
    assert_eq!(fs::read_to_string(scene.workspace().join("f")).unwrap(), "kept");
    for name in ["new", "g", "sub", "open/link"] {
        assert!(!scene.workspace().join(name).exists(), "{name}");
    }
    assert!(!scene.outside().join("made").exists());
    assert_eq!(fs::read_to_string(inside.join("made")).unwrap(), "in\n");
    assert_eq!(fs::read_to_string(outside.join("made")).unwrap(), "out\n");
    // A folder above the workspace that may be changed includes the workspace.
    let write = vec![scene.workspace()];
    let policy = Policy { access: WorkspaceAccess::Read, write, ..scene.policy(walls) };
    let sandbox = usable(Sandbox::new(policy).unwrap(), walls)?;
    assert_eq!(scene.run(&sandbox, "echo x > new && cat new").output, "x\n");
    Ok(())
}

/// A program that is talked with: both ways, its complaints apart, and gone when it is dropped.
fn a_partner(walls: Walls) -> Result<(), String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let scene = Scene::new();
    let sandbox = scene.sandbox(walls)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let script = format!("echo oh >&2; read a; echo \"got $a, $1\"; sleep 6002.{}; echo late", scene.id);
        let program = ["sh", "-c", &script, "sh", "it's \"$HOME\""].map(String::from);
        let mut partner = sandbox.spawn_partner(&program).await.unwrap();
        let (mut stream, mut errors) = (partner.stream.take().unwrap(), partner.errors.take().unwrap());
        stream.write_all(b"hello\n").await.unwrap();
        let mut said = vec![0; 64];
        let count = stream.read(&mut said).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&said[..count]), "got hello, it's \"$HOME\"\n");
        let count = errors.read(&mut said).await.unwrap();
        assert_eq!(&said[..count], b"oh\n");
        assert!(super::process_with(&format!("6002.{}", scene.id)));
        drop(partner);
        assert_eq!(stream.read(&mut said).await.unwrap_or(0), 0, "its stream ends with it");
        let partner = sandbox.spawn_partner(&["sh", "-c", "exit 7"].map(String::from)).await.unwrap();
        assert_eq!(partner.finish().await.unwrap(), CommandExit::Code(7));
    });
    until("it runs on", || !super::process_with(&format!("6002.{}", scene.id)));
    Ok(())
}

/// A partner that is dropped may put its things away: at the end of its input, or when it is asked. One that does neither is killed.
fn a_partner_may_tidy_up(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let sandbox = scene.sandbox(walls)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deaf = format!("6004.{}", scene.id);
    let scripts = [
        String::from("touch began1; cat > /dev/null; sleep 0.1; echo tidied > ended1"),
        String::from("trap 'echo asked > ended2; exit' TERM; touch began2; while :; do sleep 0.02; done"),
        format!("trap '' TERM; touch began3; sleep {deaf}"),
    ];
    runtime.block_on(async {
        let mut partners = Vec::new();
        for (number, script) in scripts.iter().enumerate() {
            let program = ["sh", "-c", script].map(String::from);
            partners.push(sandbox.spawn_partner(&program).await.unwrap());
            let began = scene.workspace().join(format!("began{}", number + 1));
            until("it does not begin", || began.exists());
        }
        let before = std::time::Instant::now();
        drop(partners);
        assert!(
            before.elapsed() < std::time::Duration::from_millis(150),
            "dropping them does not wait until they end"
        );
    });
    for (file, said) in [("ended1", "tidied\n"), ("ended2", "asked\n")] {
        let path = scene.workspace().join(file);
        until(&format!("{file} is not written"), || {
            std::fs::read_to_string(&path).is_ok_and(|text| text == said)
        });
    }
    until("it runs on", || !super::process_with(&deaf));
    Ok(())
}

fn until(otherwise: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn keys_do_not_reach_commands(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let variables = [
        ("OPENAI_API_KEY", SECRET),
        ("INNOCENT", SECRET),
        ("SSH_AUTH_SOCK", "/run/top-SECRET-4711"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let environment = without_secrets(variables, &[SECRET]);
    let sandbox = usable(Sandbox::new(Policy { environment, ..scene.policy(walls) }).unwrap(), walls)?;
    let ran = scene.run(&sandbox, "env; cat /proc/self/environ /proc/$PPID/environ 2>/dev/null; true");
    assert!(ran.output.contains("LANG=C.UTF-8") && !ran.output.contains("SECRET"), "{ran:?}");
    let names: Vec<&str> =
        ran.output.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let expected = ["HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "_"];
    assert!(names.iter().all(|name| expected.contains(&name.trim_start_matches(|c: char| !c.is_alphabetic() && c != '_'))), "{names:?}");
    Ok(())
}

fn allowed_network(walls: Walls) -> Result<(), String> {
    needs(&["perl"])?;
    let scene = Scene::new();
    let policy = Policy { network: Network::Allowed, ..scene.policy(walls) };
    let sandbox = usable(Sandbox::new(policy).unwrap(), walls)?;
    let reached = scene.run(&sandbox, "exec 3<>/dev/tcp/127.0.0.1/{tcp} && echo REACHED");
    assert_eq!(reached.output, "REACHED\n");
    let ran = scene.run(
        &sandbox,
        "perl -MSocket -e 'for my $f (1..45) { for my $t (1..5) { print \"$f/$t \" if socket(my $s, $f, $t, 0) } }'",
    );
    // IPv4, netlink, IPv6: streams and datagrams.
    let allowed = ["2/1", "2/2", "2/5", "10/1", "10/2", "10/5", "16/2", "16/3"];
    assert!(ran.output.split_whitespace().all(|socket| allowed.contains(&socket)), "{ran:?}");
    let ran = scene.run(&sandbox, "perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer => \"{outside}/socket\") ? \"REACHED\" : \"no\"'");
    assert_eq!(ran.output, "no");
    Ok(())
}

fn missing_shell(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    let policy = Policy { shell: "/bin/no-such-shell".into(), ..scene.policy(walls) };
    let sandbox = usable(Sandbox::new(policy).unwrap(), walls)?;
    let limits = CommandLimits { time: Duration::from_secs(5), processes: 9 };
    super::block_on(async {
        let why = match sandbox.spawn("true", limits).await {
            Ok(running) => running.finish().await.unwrap_err(),
            Err(why) => why,
        };
        assert!(why.to_string().contains("no-such-shell"), "{why}");
    });
    Ok(())
}
