//! The messages between the processes of a sandbox: an order for a command, and reports about it.
//!
//! Both ends are the same program, so the format has no version. Fields are length-prefixed bytes, because paths need not be UTF-8.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
    time::Duration,
};

use super::{super::CommandExit, Mode};
use crate::sandbox::{CommandLimits, Gap, Network, Policy, WorkspaceAccess};

/// An order larger than this was not written by this program.
const MAX_FIELD_BYTES: u32 = 64 << 20;

/// Everything that the helper processes need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub mode: Mode,
    /// What the command may do. Two of its fields are not sent, the folder for temporary files and the requested barriers:
    /// `private` and `mode` hold their results.
    pub policy: Policy,
    pub limits: CommandLimits,
    /// Whether the standard output is a socket from which the command also reads its input.
    pub partner: bool,
    /// The command's own folder: `tmp` in it is its temporary folder, and the new root is built in `root`.
    pub private: PathBuf,
    /// The shell's command line; `None` for a trial.
    pub command: Option<OsString>,
}

/// A report from a helper process to the one that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// The confinement is in place, except for these gaps.
    Confined(Vec<Gap>),
    /// No command ran, for this reason.
    Failed(String),
    /// The command ended, and none of its processes is left.
    Ended(CommandExit),
}

impl Order {
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut fields = Fields::default();
        let policy = &self.policy;
        fields.number(u64::from(self.mode.isolation as u8) | u64::from(self.mode.landlock) << 8);
        fields.bytes(policy.workspace.as_os_str());
        fields.number(u64::from(policy.access == WorkspaceAccess::Read));
        for list in [&policy.read, &policy.write, &policy.read_only, &policy.hidden] {
            fields.number(list.len() as u64);
            list.iter().for_each(|path| fields.bytes(path.as_os_str()));
        }
        fields.number(u64::from(policy.network == Network::Allowed));
        fields.number(policy.environment.len() as u64);
        for (name, value) in &policy.environment {
            fields.bytes(name);
            fields.bytes(value);
        }
        fields.bytes(policy.shell.as_os_str());
        fields.number(u64::try_from(self.limits.time.as_millis()).unwrap_or(u64::MAX));
        fields.number(u64::from(self.limits.processes));
        fields.number(u64::from(self.partner));
        fields.bytes(self.private.as_os_str());
        fields.number(u64::from(self.command.is_some()));
        fields.bytes(self.command.as_deref().unwrap_or_default());
        to.write_all(&fields.0)
    }

    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mode = number(from)?;
        let path = |from: &mut _| bytes(from).map(PathBuf::from);
        let mut policy = Policy { read_only: Vec::new(), ..Policy::new(path(from)?) };
        if number(from)? != 0 {
            policy.access = WorkspaceAccess::Read;
        }
        for list in [&mut policy.read, &mut policy.write, &mut policy.read_only, &mut policy.hidden] {
            for _ in 0..number(from)? {
                list.push(path(from)?);
            }
        }
        if number(from)? != 0 {
            policy.network = Network::Allowed;
        }
        for _ in 0..number(from)? {
            policy.environment.push((bytes(from)?, bytes(from)?));
        }
        policy.shell = path(from)?;
        let limits = CommandLimits {
            time: Duration::from_millis(number(from)?),
            processes: u32::try_from(number(from)?).map_err(|_| nonsense())?,
        };
        let (partner, private) = (number(from)? != 0, path(from)?);
        let (real, command) = (number(from)? != 0, bytes(from)?);
        Ok(Self {
            mode: Mode::from_numbers(mode as u8, mode >> 8 != 0).ok_or_else(nonsense)?,
            policy,
            limits,
            partner,
            private,
            command: real.then_some(command),
        })
    }
}

impl Report {
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut fields = Fields::default();
        match self {
            Self::Confined(gaps) => {
                fields.number(0);
                fields.number(gaps.len() as u64);
                for (kind, detail) in gaps.iter().map(Gap::to_fields) {
                    fields.number(u64::from(kind));
                    fields.bytes(detail);
                }
            }
            Self::Failed(why) => {
                fields.number(1);
                fields.bytes(OsStr::new(why));
            }
            Self::Ended(exit) => {
                fields.number(2);
                let (kind, value) = match exit {
                    CommandExit::Code(code) => (0, *code),
                    CommandExit::Signal(signal) => (1, *signal),
                    CommandExit::TimedOut => (2, 0),
                    CommandExit::TooManyProcesses => (3, 0),
                    CommandExit::Killed => (4, 0),
                };
                fields.number(kind);
                fields.number(u64::from(value.cast_unsigned()));
            }
        }
        to.write_all(&fields.0)
    }

    /// The next report; `None` if the other end is closed.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let kind = match number(from) {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            kind => kind?,
        };
        Ok(Some(match kind {
            0 => {
                let count = number(from)?;
                let gap = |_| {
                    let kind = u8::try_from(number(from)?).map_err(|_| nonsense())?;
                    Gap::from_fields(kind, &bytes(from)?).ok_or_else(nonsense)
                };
                Self::Confined((0..count).map(gap).collect::<io::Result<_>>()?)
            }
            1 => Self::Failed(bytes(from)?.to_string_lossy().into_owned()),
            2 => {
                let (kind, value) = (number(from)?, number(from)? as u32);
                Self::Ended(match kind {
                    0 => CommandExit::Code(value.cast_signed()),
                    1 => CommandExit::Signal(value.cast_signed()),
                    2 => CommandExit::TimedOut,
                    3 => CommandExit::TooManyProcesses,
                    4 => CommandExit::Killed,
                    _ => return Err(nonsense()),
                })
            }
            _ => return Err(nonsense()),
        }))
    }
}

#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &OsStr) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes.as_bytes());
    }
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn bytes(from: &mut impl Read) -> io::Result<OsString> {
    let length = number(from)?;
    if length > u64::from(MAX_FIELD_BYTES) {
        return Err(nonsense());
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok(OsString::from_vec(bytes))
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an order of this program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::linux::Isolation;

    #[test]
    fn orders_and_reports_come_back_as_they_were_sent() {
        let order = Order {
            mode: Mode { isolation: Isolation::UserNamespace, landlock: true },
            policy: Policy {
                access: WorkspaceAccess::Read,
                read: vec![PathBuf::from("/r")],
                write: vec![PathBuf::from("/w/out")],
                read_only: vec![PathBuf::from("/w/.git/hooks"), PathBuf::from("/w/.git/config")],
                network: Network::Allowed,
                environment: vec![("A".into(), "b".into())],
                shell: PathBuf::from("/bin/sh"),
                ..Policy::new("/w")
            },
            limits: CommandLimits { time: Duration::from_millis(1500), processes: 7 },
            partner: true,
            private: PathBuf::from(OsString::from_vec(b"/tmp/\xff".to_vec())),
            command: Some("echo".into()),
        };
        let trial = Order { command: None, ..order.clone() };
        for order in [order, trial] {
            let mut sent = Vec::new();
            order.write(&mut sent).unwrap();
            assert_eq!(Order::read(&mut &sent[..]).unwrap(), order);
        }
        for report in [
            Report::Confined(vec![Gap::Signals, Gap::Writable(PathBuf::from("/w/x"))]),
            Report::Failed(String::from("why")),
            Report::Ended(CommandExit::Signal(9)),
            Report::Ended(CommandExit::Code(-1)),
        ] {
            let mut sent = Vec::new();
            report.write(&mut sent).unwrap();
            assert_eq!(Report::read(&mut &sent[..]).unwrap(), Some(report));
        }
        assert_eq!(Report::read(&mut &[][..]).unwrap(), None);
    }
}
