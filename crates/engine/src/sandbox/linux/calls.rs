//! The filter of system calls: no sockets to the outside, no namespaces, no access to other processes, no way around Landlock.
//!
//! All other calls are allowed. The filter closes gaps that file rules and namespaces leave. It sees numbers and flags, not paths.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::sandbox::{Gap, Network};

/// Calls that are refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_perf_event_open,
    // The file system as a whole.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    // Keys that the kernel keeps.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Shared memory, semaphores and queues of System V and POSIX, which belong to the user rather than to a file. Inside an IPC
/// namespace they are separate.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that programs can do without if the kernel does not have them. Their arguments lie in memory, where a filter cannot look;
/// and `io_uring` makes calls that no filter sees.
const UNKNOWN: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` that create a namespace.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Calls that set the mode of a file, and the index of that argument.
const MODES: &[(libc::c_long, u8)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(libc::c_long, u8)] = &[(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(libc::c_long, u8)] = &[];

/// Calls that create a file if a flag is set, and the index of the flags. The mode is the next argument, and has no meaning without
/// the flag.
#[cfg(target_arch = "x86_64")]
const CREATING: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const CREATING: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2)];

/// It has the same number on every processor.
const SYS_FCHMODAT2: libc::c_long = 452;

/// An old kind of socket that reads from the wire.
const SOCK_PACKET: libc::c_int = 10;

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// The bits of a mode that make a program run with the rights of its owner or group.
const OTHER_RIGHTS: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filter in this process, for good. Returns a gap if there is no filter for this processor.
pub fn filter(network: Network, own_shared_memory: bool) -> Result<Option<Gap>, String> {
    let arch = match TargetArch::try_from(std::env::consts::ARCH) {
        Ok(arch) => arch,
        Err(why) => return Ok(Some(Gap::SystemCalls { reason: why.to_string() })),
    };
    let failed = |why: seccompiler::Error| format!("system calls cannot be filtered: {why}");
    let refused = refused(network, own_shared_memory).map_err(|why| failed(why.into()))?;
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    // One filter per error code.
    for (rules, code) in [(unknown, libc::ENOSYS), (refused, libc::EPERM)] {
        let action = SeccompAction::Errno(code.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
            .map_err(|why| failed(why.into()))?;
        let program = BpfProgram::try_from(filter).map_err(|why| failed(why.into()))?;
        apply_filter(&program).map_err(failed)?;
    }
    if cfg!(target_arch = "x86_64") {
        apply_filter(&without_x32()).map_err(failed)?;
    }
    Ok(None)
}

fn refused(network: Network, own_shared_memory: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    if !own_shared_memory {
        rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
    }
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        rules.entry(libc::SYS_clone).or_default().push(rule(&[has(0, flag)])?);
    }
    for (call, argument) in MODES.iter().chain(MODES_HERE) {
        for bit in OTHER_RIGHTS {
            rules.entry(*call).or_default().push(rule(&[has(*argument, bit)])?);
        }
    }
    for (call, flags) in CREATING {
        for flag in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
            let flag = u64::from(flag.cast_unsigned());
            for bit in OTHER_RIGHTS {
                rules.entry(*call).or_default().push(rule(&[has(*flags, flag), has(flags + 1, bit)])?);
            }
        }
    }
    // Typing into a terminal.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        rules.entry(libc::SYS_ioctl).or_default().push(rule(&[(1, SeccompCmpOp::Eq, request)])?);
    }
    // A limit on processor time can kill another process as surely as a signal.
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    sockets(&mut rules, network)?;
    Ok(rules)
}

/// Sockets: pairs that are connected for good, and the Internet if the policy allows it. Unix sockets with an address are refused,
/// because a filter cannot tell a socket of the command from one of Docker, an SSH agent or D-Bus. So are datagram pairs, which can
/// send to any address.
fn sockets(rules: &mut Rules, network: Network) -> Result<(), seccompiler::BackendError> {
    let different = |family: libc::c_int| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()));
    if network == Network::None {
        for call in [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen] {
            rules.insert(call, Vec::new());
        }
    } else {
        let others = [different(libc::AF_INET), different(libc::AF_INET6), different(libc::AF_NETLINK)];
        let netlink = (0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.cast_unsigned()));
        let not_routes = (2, SeccompCmpOp::Ne, u64::from(libc::NETLINK_ROUTE.cast_unsigned()));
        let raw = (1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), u64::from(libc::SOCK_RAW.cast_unsigned()));
        let not_netlink = different(libc::AF_NETLINK);
        let refused = vec![rule(&others)?, rule(&[netlink, not_routes])?, rule(&[raw, not_netlink])?];
        rules.insert(libc::SYS_socket, refused);
    }
    let of_type =
        |kind: libc::c_int| (1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), u64::from(kind.cast_unsigned()));
    let mut refused = vec![rule(&[different(libc::AF_UNIX)])?];
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP, SOCK_PACKET] {
        refused.push(rule(&[of_type(kind)])?);
    }
    rules.insert(libc::SYS_socketpair, refused);
    Ok(())
}

/// The condition that an argument has a bit set.
fn has(argument: u8, bit: u64) -> (u8, SeccompCmpOp, u64) {
    (argument, SeccompCmpOp::MaskedEq(bit), bit)
}

/// A rule that applies if all its conditions hold: argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, Dword, operator.clone(), *value)
    };
    SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)
}

/// A filter that makes all calls of the x32 interface unknown: they are the same calls under other numbers, on the same processor.
fn without_x32() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        // The number of the call is the first field.
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, unknown),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
