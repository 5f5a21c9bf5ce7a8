//! Attempts to read, write, reach and signal what is outside.

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

const ATTACK: Attack =
    Attack { name: "", command: "", succeeded: |_, _| true, walls: &Walls::EACH, possible: || true };

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
    Attack {
        name: "write_by_absolute_path",
        command: "echo x > {outside}/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack {
        name: "write_by_relative_path",
        command: "echo x > ../outside/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack {
        name: "write_through_a_link",
        command: "ln -s {outside} l && echo x > l/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack {
        name: "write_through_a_hard_link",
        command: "ln {outside}/secret h && echo x >> h",
        succeeded: changed_secret,
        ..ATTACK
    },
    Attack {
        name: "append_to_a_file",
        command: "echo x >> {outside}/secret",
        succeeded: changed_secret,
        ..ATTACK
    },
    Attack {
        name: "truncate_a_file",
        command: "truncate -s 3 {outside}/secret",
        succeeded: changed_secret,
        ..ATTACK
    },
    Attack {
        name: "rename_out",
        command: "echo x > f && mv f {outside}/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack { name: "rename_in", command: "mv {outside}/secret .", succeeded: took_secret, ..ATTACK },
    Attack { name: "remove_a_file", command: "rm -f {outside}/secret", succeeded: took_secret, ..ATTACK },
    Attack { name: "make_a_folder", command: "mkdir {outside}/new", succeeded: made_file, ..ATTACK },
    Attack {
        name: "make_a_link_outside",
        command: "ln -s /etc/passwd {outside}/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack { name: "make_a_pipe_outside", command: "mkfifo {outside}/new", succeeded: made_file, ..ATTACK },
    Attack {
        name: "swap_the_workspace_for_a_link",
        command: "cd .. && mv workspace away && ln -s outside workspace && echo x > workspace/new",
        succeeded: made_file,
        ..ATTACK
    },
    Attack {
        name: "write_to_the_machines_tmp",
        command: "echo x > /tmp/escape-{id}",
        succeeded: |_, scene| fs::remove_file(format!("/tmp/escape-{}", scene.id)).is_ok(),
        ..ATTACK
    },
    Attack {
        name: "write_to_the_machines_shared_memory",
        command: "echo x > /dev/shm/escape-{id}",
        succeeded: |_, scene| fs::remove_file(format!("/dev/shm/escape-{}", scene.id)).is_ok(),
        ..ATTACK
    },
    Attack {
        name: "write_to_a_system_folder",
        command: "echo x > /usr/escape-{id}; echo x > /etc/escape-{id}",
        succeeded: |_, scene| {
            ["usr", "etc"]
                .iter()
                .filter(|folder| fs::remove_file(format!("/{folder}/escape-{}", scene.id)).is_ok())
                .count()
                > 0
        },
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "change_a_mode_outside",
        command: "chmod 777 {outside}/secret",
        succeeded: |_, scene| scene.mode_of("outside/secret") & 0o777 == 0o777,
        walls: WITH_NAMESPACES,
        ..ATTACK
    },
    Attack {
        name: "change_a_time_outside",
        command: "touch -d 2001-01-01 {outside}/secret",
        succeeded: |_, scene| {
            let modified = fs::metadata(scene.outside().join("secret")).unwrap().modified().unwrap();
            modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() < 1_000_000_000
        },
        walls: WITH_NAMESPACES,
        ..ATTACK
    },
    Attack {
        name: "see_names_outside",
        command: "test -e {outside}/secret && echo REACHED",
        succeeded: reached,
        walls: WITH_NAMESPACES,
        ..ATTACK
    },
    // Reading.
    Attack { name: "read_another_folder", command: "cat {outside}/secret", succeeded: told_secret, ..ATTACK },
    Attack {
        name: "read_through_a_link",
        command: "ln -s {outside}/secret l; cat l",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "read_the_home_folder",
        command: "cat {outside}/home/.ssh/id_ed25519",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "read_the_store",
        command: "cat ../outside/data/rejoin.db",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "copy_a_file_in",
        command: "cp {outside}/secret f && cat f",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "run_a_shell_script_outside",
        command: "sh {outside}/secret; . {outside}/secret",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "list_another_folder",
        command: "ls {outside}",
        succeeded: |ran, _| ran.output.lines().any(|line| line == "secret"),
        ..ATTACK
    },
    Attack {
        name: "read_the_shadow_file",
        command: "cat /etc/shadow /etc/gshadow",
        succeeded: |ran, _| ran.output.contains("root:"),
        possible: || fs::read("/etc/shadow").is_ok(),
        // Without Landlock, root reads all of `/etc`.
        walls: &[Walls::All, Walls::LandlockOnly],
    },
    Attack {
        name: "read_a_disk",
        command: "head -c 1 /dev/vda /dev/sda /dev/loop0 && echo REACHED",
        succeeded: reached,
        possible: || false,
        ..ATTACK
    },
    Attack {
        name: "read_the_kernels_memory",
        command: "head -c 1 /proc/kcore >/dev/null && echo REACHED",
        succeeded: reached,
        possible: || fs::File::open("/proc/kcore").is_ok(),
        ..ATTACK
    },
    // Looking into other processes.
    Attack {
        name: "read_the_parents_environment",
        command: "cat /proc/{pid}/environ",
        succeeded: |ran, _| ran.output.contains("PATH="),
        ..ATTACK
    },
    Attack {
        name: "read_through_the_parents_root",
        command: "cat /proc/{pid}/root{outside}/secret",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "read_through_the_parents_folder",
        command: "ls -a /proc/{pid}/cwd/ | grep -q . && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "read_the_parents_open_files",
        command: "for f in /proc/{pid}/fd/*; do timeout 1 head -c 100 $f; done 2>&1",
        succeeded: told_secret,
        ..ATTACK
    },
    Attack {
        name: "read_the_parents_arguments",
        command: "grep -qa . /proc/{pid}/cmdline && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "open_the_parents_memory",
        command: "exec 3</proc/{pid}/mem && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "read_through_process_1",
        command: "cat /proc/1/root{outside}/secret; head -c 1 /proc/1/environ > /dev/null && echo REACHED",
        succeeded: |ran, scene| told_secret(ran, scene) || reached(ran, scene),
        possible: || fs::read("/proc/1/environ").is_ok(),
        ..ATTACK
    },
    Attack {
        name: "trace_another_process",
        command: "perl -e 'print syscall(101, 0x4206, {victim}, 0, 0) == 0 ? \"REACHED\" : $!'",
        succeeded: reached,
        possible: is_x86,
        ..ATTACK
    },
    // Signals.
    Attack { name: "kill_another_process", command: "kill -9 {victim}", succeeded: killed, ..ATTACK },
    Attack { name: "stop_another_process", command: "kill -STOP {victim}", succeeded: killed, ..ATTACK },
    // Only where the shell's number shows that it is in a namespace: a mistake here would end the machine.
    Attack {
        name: "kill_everything",
        command: "test $$ -lt 50 && kill -9 -1",
        succeeded: killed,
        possible: || false,
        walls: WITH_NAMESPACES,
    },
    Attack {
        name: "limit_another_process",
        command: "prlimit --pid {victim} --cpu=1 && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "slow_down_every_process",
        command: "renice -n 19 -p {victim} && echo REACHED",
        succeeded: reached,
        walls: WITH_NAMESPACES,
        ..ATTACK
    },
    // The network.
    Attack {
        name: "connect_with_tcp",
        command: "exec 3<>/dev/tcp/127.0.0.1/{tcp} && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "send_a_datagram",
        command: "echo x > /dev/udp/127.0.0.1/{udp}",
        succeeded: |_, scene| scene.datagram_came(),
        ..ATTACK
    },
    Attack {
        name: "listen_with_tcp",
        command: "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1) ? \"REACHED\" : $!'",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "send_a_ping",
        command: "perl -MSocket -e 'print socket(my $s, AF_INET, SOCK_RAW, 1) ? \"REACHED\" : $!'",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "ask_a_name_server",
        command: "perl -MSocket -e 'socket(my $s, AF_INET, SOCK_DGRAM, 0) or die; print send($s, \"x\", 0, pack_sockaddr_in({udp}, inet_aton(\"127.0.0.1\"))) ? \"REACHED\" : $!'",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "make_a_socket_of_any_family",
        command: "perl -MSocket -e 'for my $f (1..45) { for my $t (1..5) { print \"REACHED $f/$t \" if socket(my $s, $f, $t, 0) } }'",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "connect_to_a_unix_socket",
        command: "perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer => \"{outside}/socket\") ? \"REACHED\" : $!'",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "connect_to_an_abstract_socket",
        command: "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); print connect($s, pack_sockaddr_un(\"\\x00{id}\")) ? \"REACHED\" : $!'",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "send_to_a_unix_socket_from_a_pair",
        command: "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0); send($a, \"x\", 0, pack_sockaddr_un(\"{outside}/datagrams\"))'",
        succeeded: |_, scene| scene.datagram_came(),
        ..ATTACK
    },
    Attack {
        name: "reconnect_a_pair",
        command: "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0); connect($a, pack_sockaddr_un(\"{outside}/datagrams\")) and send($a, \"x\", 0)'",
        succeeded: |_, scene| scene.datagram_came(),
        ..ATTACK
    },
    // Privileges.
    Attack {
        name: "make_a_setuid_program",
        command: "cp /bin/true t && chmod u+s t",
        succeeded: |_, scene| scene.mode_of("workspace/t") & 0o4000 != 0,
        ..ATTACK
    },
    Attack {
        name: "make_a_setgid_program",
        command: "cp /bin/true t && chmod 2755 t",
        succeeded: |_, scene| scene.mode_of("workspace/t") & 0o2000 != 0,
        ..ATTACK
    },
    Attack {
        name: "create_a_setuid_file",
        command: "perl -MFcntl -e 'sysopen(my $f, \"t\", O_CREAT | O_WRONLY, 04755)'",
        succeeded: |_, scene| scene.mode_of("workspace/t") & 0o4000 != 0,
        ..ATTACK
    },
    Attack {
        name: "become_another_user",
        command: "perl -e '$) = \"1 1\"; $> = 1; print $> == 1 ? \"REACHED\" : $!'",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "make_a_device",
        command: "mknod d c 1 5; test -c d && echo REACHED",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "gain_rights_from_a_program",
        command: "perl -e 'print syscall(157, 39, 0, 0, 0, 0) == 1 ? \"\" : \"REACHED\"'",
        succeeded: reached,
        possible: is_x86,
        ..ATTACK
    },
    Attack {
        name: "make_a_user_namespace",
        command: "unshare -Ur true && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "make_a_mount_namespace",
        command: "unshare -m true && echo REACHED",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "mount_something",
        command: "mkdir m && mount -t tmpfs x m && echo REACHED && umount m",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "change_the_root",
        command: "chroot / true && echo REACHED",
        succeeded: reached,
        possible: is_root,
        ..ATTACK
    },
    Attack {
        name: "open_the_terminal",
        command: "exec 3<>/dev/tty && echo REACHED; exec 3<>/dev/ptmx && echo REACHED",
        succeeded: reached,
        ..ATTACK
    },
    Attack {
        name: "dump_core",
        command: "test $(ulimit -Hc) = 0 || echo REACHED",
        succeeded: reached,
        possible: || false,
        ..ATTACK
    },
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
    // The same calls under the numbers of the x32 interface.
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
