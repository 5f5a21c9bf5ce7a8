//! Attempts to read, write, reach and signal things outside the sandbox.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{Ran, SECRET, Scene, Test, Walls, is_root, needs, test};

/// An attempt to escape.
struct Attack {
    name: &'static str,
    command: &'static str,
    /// Whether it got out.
    succeeded: fn(&Ran, &mut Scene) -> bool,
    /// The walls that promise to stop it.
    walls: &'static [Walls],
    /// Whether it succeeds without a sandbox, here and as this user.
    possible: fn() -> bool,
}

/// An attack that every wall promises to stop.
const fn attack(
    name: &'static str,
    command: &'static str,
    succeeded: fn(&Ran, &mut Scene) -> bool,
) -> Attack {
    Attack { name, command, succeeded, walls: &Walls::EACH, possible: || true }
}

impl Attack {
    /// Only these walls promise to stop it.
    const fn walls(self, walls: &'static [Walls]) -> Self {
        Self { walls, ..self }
    }

    /// Without a sandbox it succeeds only if this holds.
    const fn possible(self, possible: fn() -> bool) -> Self {
        Self { possible, ..self }
    }
}

const WITH_NAMESPACES: &[Walls] = &[Walls::All, Walls::NamespacesOnly];

fn told_secret(ran: &Ran, _: &mut Scene) -> bool {
    ran.output.contains(SECRET)
}

fn reached(ran: &Ran, _: &mut Scene) -> bool {
    ran.output.contains("REACHED")
}

fn made_file(_: &Ran, scene: &mut Scene) -> bool {
    scene.outside().join("new").symlink_metadata().is_ok()
}

fn changed_secret(_: &Ran, scene: &mut Scene) -> bool {
    fs::read_to_string(scene.outside().join("secret")).is_ok_and(|text| text != format!("{SECRET}\n"))
}

fn took_secret(_: &Ran, scene: &mut Scene) -> bool {
    scene.outside().join("secret").symlink_metadata().is_err()
}

fn killed(_: &Ran, scene: &mut Scene) -> bool {
    // A signal takes a moment.
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        if !scene.victim_lives() {
            return true;
        }
    }
    false
}

const ATTACKS: &[Attack] = &[
    // Writing.
    attack("write_by_absolute_path", "echo x > {outside}/new", made_file),
    attack("write_by_relative_path", "echo x > ../outside/new", made_file),
    attack("write_through_a_link", "ln -s {outside} l && echo x > l/new", made_file),
    attack("write_through_a_hard_link", "ln {outside}/secret h && echo x >> h", changed_secret),
    attack("append_to_a_file", "echo x >> {outside}/secret", changed_secret),
    attack("truncate_a_file", "truncate -s 3 {outside}/secret", changed_secret),
    attack("rename_out", "echo x > f && mv f {outside}/new", made_file),
    attack("rename_in", "mv {outside}/secret .", took_secret),
    attack("remove_a_file", "rm -f {outside}/secret", took_secret),
    attack("make_a_folder", "mkdir {outside}/new", made_file),
    attack("make_a_link_outside", "ln -s /etc/passwd {outside}/new", made_file),
    attack("make_a_pipe_outside", "mkfifo {outside}/new", made_file),
    attack(
        "swap_the_workspace_for_a_link",
        "cd .. && mv workspace away && ln -s outside workspace && echo x > workspace/new",
        made_file,
    ),
    attack("write_to_the_machines_tmp", "echo x > /tmp/escape-{id}", |_, scene| {
        fs::remove_file(format!("/tmp/escape-{}", scene.id)).is_ok()
    }),
    attack("write_to_the_machines_shared_memory", "echo x > /dev/shm/escape-{id}", |_, scene| {
        fs::remove_file(format!("/dev/shm/escape-{}", scene.id)).is_ok()
    }),
    attack("write_to_a_system_folder", "echo x > /usr/escape-{id}; echo x > /etc/escape-{id}", |_, scene| {
        // Both are removed.
        let removed = |folder| fs::remove_file(format!("/{folder}/escape-{}", scene.id)).is_ok();
        ["usr", "etc"].map(removed).contains(&true)
    })
    .possible(is_root),
    attack("change_a_mode_outside", "chmod 777 {outside}/secret", |_, scene| {
        scene.mode_of("outside/secret") & 0o777 == 0o777
    })
    .walls(WITH_NAMESPACES),
    attack("change_a_time_outside", "touch -d 2001-01-01 {outside}/secret", |_, scene| {
        let modified = fs::metadata(scene.outside().join("secret")).unwrap().modified().unwrap();
        modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() < 1_000_000_000
    })
    .walls(WITH_NAMESPACES),
    attack("see_names_outside", "test -e {outside}/secret && echo REACHED", reached).walls(WITH_NAMESPACES),
    // Reading.
    attack("read_another_folder", "cat {outside}/secret", told_secret),
    attack("read_through_a_link", "ln -s {outside}/secret l; cat l", told_secret),
    attack("read_the_home_folder", "cat {outside}/home/.ssh/id_ed25519", told_secret),
    attack("read_the_store", "cat ../outside/data/rejoin.db", told_secret),
    attack("copy_a_file_in", "cp {outside}/secret f && cat f", told_secret),
    attack("run_a_shell_script_outside", "sh {outside}/secret; . {outside}/secret", told_secret),
    attack("list_another_folder", "ls {outside}", |ran, _| ran.output.lines().any(|line| line == "secret")),
    // Without Landlock, root reads all of `/etc`.
    attack("read_the_shadow_file", "cat /etc/shadow /etc/gshadow", |ran, _| ran.output.contains("root:"))
        .walls(&[Walls::All, Walls::LandlockOnly])
        .possible(|| fs::read("/etc/shadow").is_ok()),
    attack("read_a_disk", "head -c 1 /dev/vda /dev/sda /dev/loop0 && echo REACHED", reached)
        .possible(|| false),
    attack("read_the_kernels_memory", "head -c 1 /proc/kcore >/dev/null && echo REACHED", reached)
        .possible(|| fs::File::open("/proc/kcore").is_ok()),
    // Looking into other processes.
    attack("read_the_parents_environment", "cat /proc/{pid}/environ", |ran, _| ran.output.contains("PATH=")),
    attack("read_through_the_parents_root", "cat /proc/{pid}/root{outside}/secret", told_secret),
    attack("read_through_the_parents_folder", "ls -a /proc/{pid}/cwd/ | grep -q . && echo REACHED", reached),
    attack(
        "read_the_parents_open_files",
        "for f in /proc/{pid}/fd/*; do timeout 1 head -c 100 $f; done 2>&1",
        told_secret,
    ),
    attack("read_the_parents_arguments", "grep -qa . /proc/{pid}/cmdline && echo REACHED", reached),
    attack("open_the_parents_memory", "exec 3</proc/{pid}/mem && echo REACHED", reached),
    attack(
        "read_through_process_1",
        "cat /proc/1/root{outside}/secret; head -c 1 /proc/1/environ > /dev/null && echo REACHED",
        |ran, scene| told_secret(ran, scene) || reached(ran, scene),
    )
    .possible(|| fs::read("/proc/1/environ").is_ok()),
    attack(
        "trace_another_process",
        "perl -e 'print syscall(101, 0x4206, {victim}, 0, 0) == 0 ? \"REACHED\" : $!'",
        reached,
    )
    .possible(is_x86),
    // Signals.
    attack("kill_another_process", "kill -9 {victim}", killed),
    attack("stop_another_process", "kill -STOP {victim}", killed),
    // Only where the shell's number shows that it is in a namespace: a mistake here would end the machine.
    attack("kill_everything", "test $$ -lt 50 && kill -9 -1", killed)
        .walls(WITH_NAMESPACES)
        .possible(|| false),
    attack("limit_another_process", "prlimit --pid {victim} --cpu=1 && echo REACHED", reached),
    attack("slow_down_every_process", "renice -n 19 -p {victim} && echo REACHED", reached)
        .walls(WITH_NAMESPACES),
    // The network.
    attack("connect_with_tcp", "exec 3<>/dev/tcp/127.0.0.1/{tcp} && echo REACHED", reached),
    attack("send_a_datagram", "echo x > /dev/udp/127.0.0.1/{udp}", |_, scene| scene.datagram_came()),
    attack(
        "listen_with_tcp",
        "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1) ? \"REACHED\" : $!'",
        reached,
    ),
    attack(
        "send_a_ping",
        "perl -MSocket -e 'print socket(my $s, AF_INET, SOCK_RAW, 1) ? \"REACHED\" : $!'",
        reached,
    )
    .possible(is_root),
    attack(
        "ask_a_name_server",
        "perl -MSocket -e 'socket(my $s, AF_INET, SOCK_DGRAM, 0) or die; print send($s, \"x\", 0, pack_sockaddr_in({udp}, inet_aton(\"127.0.0.1\"))) ? \"REACHED\" : $!'",
        reached,
    ),
    attack(
        "make_a_socket_of_any_family",
        "perl -MSocket -e 'for my $f (1..45) { for my $t (1..5) { print \"REACHED $f/$t \" if socket(my $s, $f, $t, 0) } }'",
        reached,
    ),
    attack(
        "connect_to_a_unix_socket",
        "perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer => \"{outside}/socket\") ? \"REACHED\" : $!'",
        reached,
    ),
    attack(
        "connect_to_an_abstract_socket",
        "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); print connect($s, pack_sockaddr_un(\"\\x00{id}\")) ? \"REACHED\" : $!'",
        reached,
    ),
    attack(
        "send_to_a_unix_socket_from_a_pair",
        "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0); send($a, \"x\", 0, pack_sockaddr_un(\"{outside}/datagrams\"))'",
        |_, scene| scene.datagram_came(),
    ),
    attack(
        "reconnect_a_pair",
        "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0); connect($a, pack_sockaddr_un(\"{outside}/datagrams\")) and send($a, \"x\", 0)'",
        |_, scene| scene.datagram_came(),
    ),
    // Privileges.
    attack("make_a_setuid_program", "cp /bin/true t && chmod u+s t", |_, scene| {
        scene.mode_of("workspace/t") & 0o4000 != 0
    }),
    attack("make_a_setgid_program", "cp /bin/true t && chmod 2755 t", |_, scene| {
        scene.mode_of("workspace/t") & 0o2000 != 0
    }),
    attack(
        "create_a_setuid_file",
        "perl -MFcntl -e 'sysopen(my $f, \"t\", O_CREAT | O_WRONLY, 04755)'",
        |_, scene| scene.mode_of("workspace/t") & 0o4000 != 0,
    ),
    attack(
        "become_another_user",
        "perl -e '$) = \"1 1\"; $> = 1; print $> == 1 ? \"REACHED\" : $!'",
        reached,
    )
    .possible(is_root),
    attack("make_a_device", "mknod d c 1 5; test -c d && echo REACHED", reached).possible(is_root),
    attack(
        "gain_rights_from_a_program",
        "perl -e 'print syscall(157, 39, 0, 0, 0, 0) == 1 ? \"\" : \"REACHED\"'",
        reached,
    )
    .possible(is_x86),
    attack("make_a_user_namespace", "unshare -Ur true && echo REACHED", reached),
    attack("make_a_mount_namespace", "unshare -m true && echo REACHED", reached).possible(is_root),
    attack("mount_something", "mkdir m && mount -t tmpfs x m && echo REACHED && umount m", reached)
        .possible(is_root),
    attack("change_the_root", "chroot / true && echo REACHED", reached).possible(is_root),
    attack(
        "open_the_terminal",
        "exec 3<>/dev/tty && echo REACHED; exec 3<>/dev/ptmx && echo REACHED",
        reached,
    ),
    attack("dump_core", "test $(ulimit -Hc) = 0 || echo REACHED", reached).possible(|| false),
];

fn is_x86() -> bool {
    cfg!(target_arch = "x86_64")
}

/// System calls that are refused, by their number on this processor. The number of arguments does not matter: without a filter
/// they fail for another reason than a missing right, or a kernel that does not know them.
const REFUSED_CALLS: &[(&str, u32)] = &[
    ("mount", 165),
    ("umount2", 166),
    ("pivot_root", 155),
    ("chroot", 161),
    ("unshare", 272),
    ("setns", 308),
    ("bpf", 321),
    ("perf_event_open", 298),
    ("keyctl", 250),
    ("add_key", 248),
    ("request_key", 249),
    ("userfaultfd", 323),
    ("open_by_handle_at", 304),
    ("kexec_load", 246),
    ("init_module", 175),
    ("process_vm_readv", 310),
    ("process_vm_writev", 311),
    ("io_uring_setup", 425),
    ("io_uring_enter", 426),
    ("io_uring_register", 427),
    ("clone3", 435),
    ("openat2", 437),
    ("fsopen", 430),
    ("move_mount", 429),
    ("pidfd_getfd", 438),
    ("ptrace", 101),
    // The same calls under their x32 numbers.
    ("socket_x32", 0x4000_0000 + 41),
    ("ptrace_x32", 0x4000_0000 + 521),
];

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for attack in ATTACKS {
        tests.push(test(format!("attack::{}::works_outside", attack.name), move || works_outside(attack)));
        for walls in attack.walls {
            tests.push(test(format!("attack::{}::{}", attack.name, walls.name()), move || {
                is_stopped(attack, *walls)
            }));
        }
    }
    for (name, number) in REFUSED_CALLS {
        for walls in Walls::EACH {
            tests.push(test(format!("call::{name}::{}", walls.name()), move || is_refused(*number, walls)));
        }
    }
    for walls in Walls::EACH {
        tests.push(test(format!("call::typing_into_a_terminal::{}", walls.name()), move || {
            is_refused_with(walls, "syscall(16, 1, 0x5412, my $x = \"x\")")?;
            is_refused_with(walls, "syscall(16, 1, 0x541C, my $x = \"x\")")
        }));
        tests.push(test(format!("call::clone_into_a_namespace::{}", walls.name()), move || {
            is_refused_with(walls, "syscall(56, 0x10000000 | 17, 0, 0, 0, 0)")
        }));
    }
    tests
}

fn programs(command: &str) -> Result<(), String> {
    needs(
        &["perl", "prlimit", "unshare"].into_iter().filter(|name| command.contains(name)).collect::<Vec<_>>(),
    )
}

fn works_outside(attack: &Attack) -> Result<(), String> {
    programs(attack.command)?;
    if !(attack.possible)() {
        return Err(String::from("not possible here without a sandbox either"));
    }
    let mut scene = Scene::new();
    let ran = scene.run_free(attack.command);
    assert!((attack.succeeded)(&ran, &mut scene), "the attack does not even work without a sandbox: {ran:?}");
    Ok(())
}

fn is_stopped(attack: &Attack, walls: Walls) -> Result<(), String> {
    programs(attack.command)?;
    let mut scene = Scene::new();
    let sandbox = scene.sandbox(walls)?;
    let ran = scene.run(&sandbox, attack.command);
    assert!(!(attack.succeeded)(&ran, &mut scene), "it got out: {ran:?}");
    Ok(())
}

fn is_refused(number: u32, walls: Walls) -> Result<(), String> {
    is_refused_with(walls, &format!("syscall({number}, 0, 0, 0, 0, 0)"))
}

fn is_refused_with(walls: Walls, call: &str) -> Result<(), String> {
    if !is_x86() {
        return Err(String::from("the numbers are those of another processor"));
    }
    needs(&["perl"])?;
    let scene = Scene::new();
    let sandbox = scene.sandbox(walls)?;
    let ran = scene.run(&sandbox, &format!("perl -MErrno -e 'my $r = {call}; print $r, \" \", $! + 0'"));
    // 1 is EPERM, 38 is ENOSYS.
    assert!(["-1 1", "-1 38"].contains(&ran.output.as_str()), "{call}: {ran:?}");
    Ok(())
}
