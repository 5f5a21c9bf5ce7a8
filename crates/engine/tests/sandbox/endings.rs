//! The ends of commands: they leave no process running, whatever they do and whichever process is killed.

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rejoin_engine::sandbox::{Barriers, CommandExit, CommandLimits, Policy, Sandbox, SandboxError};

use super::{SECRET, Scene, Test, Walls, block_on, eventually, process_with, refusal, run, test, usable};

/// Ways to outlive a shell. Each leaves a `sleep` that can be recognised.
const DAEMONS: &[(&str, &str)] = &[
    ("background", "sleep 6001.{id} & echo started"),
    ("nohup", "nohup sleep 6001.{id} > /dev/null 2>&1 & echo started"),
    ("new_session", "setsid nohup sleep 6001.{id} > /dev/null 2>&1 < /dev/null & echo started"),
    ("double_fork", "(( sleep 6001.{id} & ) & ); setsid -f setsid -f sleep 6001.{id}; echo started"),
    (
        "ignored_signals",
        "setsid -f sh -c 'trap \"\" HUP INT TERM QUIT; sleep 6001.{id}; sleep 6001.{id}'; echo started",
    ),
    (
        "stopped",
        "setsid -f sh -c 'kill -STOP $$; sleep 6001.{id}'; sleep 6001.{id} & kill -STOP $!; echo started",
    ),
    ("closed_streams", "setsid -f sh -c 'exec >&- 2>&- <&-; sleep 6001.{id}'; echo started"),
];

/// Doubles its processes until there are about a thousand: a real bomb would end the machine if the test failed.
const BOMB: &str = "bomb() { if [ $1 = 0 ]; then sleep 6001.{id}; else bomb $(($1 - 1)) & bomb $(($1 - 1)); fi; }; bomb 9; wait";

pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        test("init::without_it_nothing_runs", || {
            let output = Command::new("/proc/self/exe").arg("--without-init").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, "NotInitialised\n");
            Ok(())
        }),
        test("init::a_policy_must_make_sense", || {
            let scene = Scene::new();
            assert!(matches!(refusal(Policy::new("/")), SandboxError::Workspace { .. }));
            assert!(matches!(
                refusal(Policy::new(scene.outside().join("secret"))),
                SandboxError::Workspace { .. }
            ));
            for path in ["../outside", "/etc", "", "."] {
                let policy = Policy { hidden: vec![path.into()], ..Policy::new(scene.workspace()) };
                assert!(matches!(refusal(policy), SandboxError::Outside { .. }), "{path}");
            }
            Ok(())
        }),
    ];
    for walls in Walls::EACH {
        let mut add = |name: &str, run: fn(&Scene, &Sandbox)| {
            tests.push(test(format!("end::{name}::{}", walls.name()), move || {
                let scene = Scene::new();
                let sandbox = scene.sandbox(walls)?;
                run(&scene, &sandbox);
                Ok(())
            }));
        };
        add("at_the_time_limit", at_the_time_limit);
        add("at_the_time_limit_with_closed_streams", with_closed_streams);
        add("at_the_time_limit_with_output_that_nobody_takes", with_output_that_nobody_takes);
        add("of_a_fork_bomb", of_a_fork_bomb);
        add("when_dropped", when_dropped);
        add("when_killed", when_killed);
        add("of_a_killed_supervisor_is_not_possible_from_inside", supervisor_is_safe);
        add("leaves_no_temporary_folder", leaves_no_temporary_folder);
        add("flood_of_output_costs_little_memory", flood_of_output);
        for (name, command) in DAEMONS {
            tests.push(test(format!("daemon::{name}::{}", walls.name()), move || {
                let scene = Scene::new();
                let sandbox = scene.sandbox(walls)?;
                let ran = scene.run(&sandbox, command);
                assert_eq!((ran.output.as_str(), ran.exit), ("started\n", CommandExit::Code(0)));
                assert!(!process_with(&format!("6001.{}", scene.id)), "something survived");
                Ok(())
            }));
            tests.push(test(format!("rejoin_killed::{name}::{}", walls.name()), move || {
                rejoin_killed(walls, &format!("{command}; sleep 6002.{{id}}"))
            }));
        }
        tests.push(test(format!("inherited_descriptors::{}", walls.name()), move || {
            inherited_descriptors(walls)
        }));
    }
    for walls in [Walls::All, Walls::NamespacesOnly] {
        tests.push(test(format!("supervisor_killed::{}", walls.name()), move || supervisor_killed(walls)));
    }
    tests
}

fn soon() -> CommandLimits {
    CommandLimits { time: Duration::from_millis(400), processes: 256 }
}

fn at_the_time_limit(scene: &Scene, sandbox: &Sandbox) {
    let started = Instant::now();
    let ran = run(
        sandbox,
        &scene.fill_in(
            "echo first; setsid -f sleep 6001.{id}; trap '' TERM; while :; do sleep 6001.{id}; done",
        ),
        soon(),
    );
    assert_eq!((ran.output.as_str(), ran.exit), ("first\n", CommandExit::TimedOut));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(!process_with(&format!("6001.{}", scene.id)));
}

fn with_closed_streams(scene: &Scene, sandbox: &Sandbox) {
    let ran = run(sandbox, &scene.fill_in("exec >&- 2>&-; sleep 6001.{id}"), soon());
    assert_eq!(ran.exit, CommandExit::TimedOut);
    assert!(!process_with(&format!("6001.{}", scene.id)));
}

fn with_output_that_nobody_takes(scene: &Scene, sandbox: &Sandbox) {
    block_on(async {
        let command = scene.fill_in("while :; do echo 6001.{id}; done");
        let running = sandbox.spawn(&command, soon()).await.unwrap();
        // Nothing reads the output, but the command still ends.
        eventually("it does not end", || !process_with(&format!("6001.{}", scene.id)));
        assert_eq!(running.finish().await.unwrap(), CommandExit::TimedOut);
    });
}

fn of_a_fork_bomb(scene: &Scene, sandbox: &Sandbox) {
    let limits = CommandLimits { time: Duration::from_secs(20), processes: 64 };
    let ran = run(sandbox, &scene.fill_in(BOMB), limits);
    assert_eq!(ran.exit, CommandExit::TooManyProcesses);
    assert!(!process_with(&format!("6001.{}", scene.id)));
}

fn when_dropped(scene: &Scene, sandbox: &Sandbox) {
    block_on(async {
        let command = scene.fill_in("setsid -f sleep 6001.{id}; echo started; sleep 6001.{id}");
        let mut running = sandbox.spawn(&command, CommandLimits::default()).await.unwrap();
        assert_eq!(running.next().await.unwrap(), b"started\n");
        let dropping = Instant::now();
        drop(running);
        assert!(dropping.elapsed() < Duration::from_millis(200), "dropping blocks");
    });
    eventually("it goes on after it was dropped", || !process_with(&format!("6001.{}", scene.id)));
}

fn when_killed(scene: &Scene, sandbox: &Sandbox) {
    block_on(async {
        let command = scene.fill_in("echo started; sleep 6001.{id}");
        let mut running = sandbox.spawn(&command, CommandLimits::default()).await.unwrap();
        assert_eq!(running.next().await.unwrap(), b"started\n");
        running.kill();
        assert_eq!(running.finish().await.unwrap(), CommandExit::Killed);
    });
    assert!(!process_with(&format!("6001.{}", scene.id)));
}

fn supervisor_is_safe(scene: &Scene, sandbox: &Sandbox) {
    let ran =
        scene.run(sandbox, "for s in KILL STOP TERM; do kill -$s $PPID 2>/dev/null; done; echo still here");
    assert_eq!((ran.output.as_str(), ran.exit), ("still here\n", CommandExit::Code(0)));
}

fn leaves_no_temporary_folder(scene: &Scene, sandbox: &Sandbox) {
    let ran = scene.run(sandbox, "stat -c %a $TMPDIR/..; mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/c && chmod 0 $TMPDIR/a/b $TMPDIR/a; echo $TMPDIR");
    let path = ran.output.lines().last().unwrap();
    assert!(path.starts_with("/tmp/rejoin-"), "{ran:?}");
    assert!(!Path::new(path).parent().unwrap().exists(), "{path} is left");
}

fn flood_of_output(_: &Scene, sandbox: &Sandbox) {
    let memory = || {
        let status = super::process_status(std::process::id());
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = memory();
    let bytes = block_on(async {
        let limits = CommandLimits { time: Duration::from_secs(60), ..CommandLimits::default() };
        let mut running = sandbox.spawn("head -c 1000000000 /dev/zero", limits).await.unwrap();
        let mut bytes = 0;
        while let Some(chunk) = running.next().await {
            bytes += chunk.len();
        }
        assert_eq!(running.finish().await.unwrap(), CommandExit::Code(0));
        bytes
    });
    assert_eq!(bytes, 1_000_000_000);
    assert!(memory() < before + 4096, "{} KiB more", memory() - before);
}

/// Starts this program as something that uses the sandbox, has it run a command, and returns it once the command has begun.
fn start_rejoin(scene: &Scene, walls: Walls, command: &str) -> std::process::Child {
    let mut rejoin = Command::new("/proc/self/exe")
        .args(["--as-rejoin", walls.name()])
        .arg(scene.workspace())
        .arg(scene.fill_in(command))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 8];
    rejoin.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"started\n");
    rejoin
}

/// Runs a command and passes its output on, as `--as-rejoin`.
pub fn as_rejoin(barriers: &str, workspace: &Path, command: &str) -> ExitCode {
    use std::io::Write as _;
    let barriers = Walls::EACH
        .into_iter()
        .find(|walls| walls.name() == barriers)
        .map_or(Barriers::default(), Walls::barriers);
    let sandbox = Sandbox::new(Policy { barriers, ..Policy::new(workspace) }).unwrap();
    block_on(async {
        let mut running = sandbox.spawn(command, CommandLimits::default()).await.unwrap();
        while let Some(chunk) = running.next().await {
            std::io::stdout().write_all(&chunk).unwrap();
            std::io::stdout().flush().unwrap();
        }
        // In every case, its temporary folder is removed.
        let _ = running.finish().await;
    });
    ExitCode::SUCCESS
}

/// Uses the sandbox without having called `init`, as `--without-init`.
pub fn without_init() -> ExitCode {
    match Sandbox::new(Policy::new("/tmp")) {
        Err(SandboxError::NotInitialised) => println!("NotInitialised"),
        other => println!("{other:?}"),
    }
    ExitCode::SUCCESS
}

fn rejoin_killed(walls: Walls, command: &str) -> Result<(), String> {
    let scene = Scene::new();
    scene.sandbox(walls)?;
    let mut rejoin = start_rejoin(&scene, walls, command);
    rejoin.kill().unwrap();
    rejoin.wait().unwrap();
    eventually("something outlives rejoin", || {
        !process_with(&format!("6001.{}", scene.id)) && !process_with(&format!("6002.{}", scene.id))
    });
    Ok(())
}

/// Kills rejoin and the supervisor, as `killall -9` would.
fn supervisor_killed(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    scene.sandbox(walls)?;
    let mut rejoin = start_rejoin(&scene, walls, "setsid -f sleep 6001.{id}; echo started; sleep 6002.{id}");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", rejoin.id())).unwrap();
    // The thread that started it is the parent in the kernel's books.
    let tasks = fs::read_dir(format!("/proc/{}/task", rejoin.id())).unwrap().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let supervisors: Vec<String> = lists
        .chain([children])
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(!supervisors.is_empty());
    for supervisor in supervisors {
        Command::new("kill").args(["-9", &supervisor]).status().unwrap();
    }
    eventually("something outlives the supervisor", || {
        !process_with(&format!("6001.{}", scene.id)) && !process_with(&format!("6002.{}", scene.id))
    });
    rejoin.kill().unwrap();
    rejoin.wait().unwrap();
    Ok(())
}

/// Starts rejoin with an open file that it does not know of.
fn inherited_descriptors(walls: Walls) -> Result<(), String> {
    let scene = Scene::new();
    usable(Sandbox::new(scene.policy(walls)).unwrap(), walls)?;
    let secret = scene.outside().join("secret");
    let program = std::env::current_exe().unwrap();
    let run = |command: &str| {
        let script = format!("exec 7<{} 9<{}; exec \"$@\"", secret.display(), secret.display());
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &script, "bash"])
            .arg(&program)
            .args(["--as-rejoin", walls.name()])
            .arg(scene.workspace());
        String::from_utf8_lossy(&shell.arg(command).output().unwrap().stdout).into_owned()
    };
    let told = run(
        "cat <&7; cat <&9; cat /proc/self/fd/7 /dev/fd/9; for n in 3 4 5 6 8 10 11 12; do cat <&$n; done; echo end",
    );
    assert!(!told.contains(SECRET), "{told}");
    assert!(told.ends_with("end\n"), "{told}");
    Ok(())
}
