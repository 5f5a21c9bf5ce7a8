//! The test runner, and the scene for the attacks.

mod attacks;
mod endings;
mod git;
mod work;

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rejoin_engine::sandbox::{
    self, Barriers, CommandExit, CommandLimits, Confinement, Gap, Policy, Sandbox, SandboxError,
};

/// A text that no command may print.
pub const SECRET: &str = "top-SECRET-4711";

/// A test: its name and its function. An error is the reason why it is skipped.
pub struct Test {
    pub name: String,
    pub run: Box<dyn Fn() -> Result<(), String>>,
}

pub fn test(name: impl Into<String>, run: impl Fn() -> Result<(), String> + 'static) -> Test {
    Test { name: name.into(), run: Box::new(run) }
}

pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--without-init") {
        return endings::without_init();
    }
    sandbox::init();
    if let [first, barriers, workspace, command] = &arguments[..]
        && first == "--as-rejoin"
    {
        return endings::as_rejoin(barriers, Path::new(workspace), command);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let tests: Vec<Test> = [attacks::tests(), git::tests(), endings::tests(), work::tests()]
        .into_iter()
        .flatten()
        .filter(|test| if exact { test.name == filter } else { test.name.contains(&filter) })
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", tests.len());
    let (mut failed, mut skipped) = (Vec::new(), 0);
    for Test { name, run } in &tests {
        print!("test {name} ... ");
        let _ = std::io::stdout().flush();
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => println!("ok"),
            Ok(Err(why)) => {
                skipped += 1;
                println!("ignored, {why}");
            }
            Err(_) => {
                failed.push(name);
                println!("FAILED");
            }
        }
    }
    let passed = tests.len() - failed.len() - skipped;
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {} failed; {skipped} ignored", failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// Which barriers are up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walls {
    All,
    LandlockOnly,
    NamespacesOnly,
}

impl Walls {
    pub const EACH: [Self; 3] = [Self::All, Self::LandlockOnly, Self::NamespacesOnly];

    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::LandlockOnly => "landlock",
            Self::NamespacesOnly => "namespaces",
        }
    }

    pub fn barriers(self) -> Barriers {
        Barriers { namespaces: self != Self::LandlockOnly, landlock: self != Self::NamespacesOnly }
    }

    pub fn namespaces(self) -> bool {
        self.barriers().namespaces
    }
}

/// A workspace, and next to it everything that a command tries to reach.
pub struct Scene {
    folder: tempfile::TempDir,
    pub id: String,
    tcp: TcpListener,
    udp: UdpSocket,
    datagrams: UnixDatagram,
    _stream: UnixListener,
    _abstract: UnixListener,
    _open: fs::File,
    victim: Child,
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Use digits, because `sleep` must accept it as part of a number.
        static SCENES: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}{:04}", std::process::id(), SCENES.fetch_add(1, Ordering::Relaxed));
        let outside = folder.path().join("outside");
        for path in ["workspace", "outside/home/.ssh", "outside/data"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for path in ["secret", "home/.ssh/id_ed25519", "data/rejoin.db"] {
            fs::write(outside.join(path), format!("{SECRET}\n")).unwrap();
        }
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams = UnixDatagram::bind(outside.join("datagrams")).unwrap();
        udp.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let name = SocketAddr::from_abstract_name(&id).unwrap();
        let sleep = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp,
            datagrams,
            _stream: UnixListener::bind(outside.join("socket")).unwrap(),
            _abstract: UnixListener::bind_addr(&name).unwrap(),
            _open: fs::File::open(outside.join("secret")).unwrap(),
            victim: sleep.unwrap(),
            id,
            folder,
        }
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    pub fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// A command with the names of this scene in place of `{outside}`, `{pid}` and so on.
    pub fn fill_in(&self, command: &str) -> String {
        command
            .replace("{outside}", self.outside().to_str().unwrap())
            .replace("{pid}", &std::process::id().to_string())
            .replace("{victim}", &self.victim.id().to_string())
            .replace("{id}", &self.id)
            .replace("{tcp}", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("{udp}", &self.udp.local_addr().unwrap().port().to_string())
    }

    pub fn policy(&self, walls: Walls) -> Policy {
        Policy { barriers: walls.barriers(), ..Policy::new(self.workspace()) }
    }

    /// The sandbox with these walls, or why this machine cannot put them up.
    pub fn sandbox(&self, walls: Walls) -> Result<Sandbox, String> {
        usable(Sandbox::new(self.policy(walls)).unwrap(), walls)
    }

    /// Runs a command without a sandbox.
    pub fn run_free(&self, command: &str) -> Ran {
        let output = Command::new("bash")
            .arg("-c")
            .arg(self.fill_in(command))
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        Ran {
            output: String::from_utf8_lossy(&text).into_owned(),
            exit: CommandExit::Code(output.status.code().unwrap_or(-1)),
        }
    }

    pub fn run(&self, sandbox: &Sandbox, command: &str) -> Ran {
        run(sandbox, &self.fill_in(command), CommandLimits { time: Duration::from_secs(30), processes: 256 })
    }

    pub fn victim_lives(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_none() && !process_status(self.victim.id()).contains("State:\tT")
    }

    pub fn datagram_came(&self) -> bool {
        // A datagram on this machine has arrived when it is sent.
        self.udp.recv(&mut [0; 64]).is_ok() || self.datagrams.recv(&mut [0; 64]).is_ok()
    }

    pub fn mode_of(&self, path: &str) -> u32 {
        fs::metadata(self.folder.path().join(path)).map_or(0, |found| found.permissions().mode())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// The sandbox, if this machine puts up the walls that a test is about.
pub fn usable(sandbox: Sandbox, walls: Walls) -> Result<Sandbox, String> {
    let gaps = sandbox.confinement().gaps();
    let without_namespaces = gaps.iter().any(|gap| matches!(gap, Gap::Metadata { .. }));
    let without_landlock = gaps.contains(&Gap::Landlock);
    match sandbox.confinement() {
        Confinement::None { reason } => Err(reason.clone()),
        _ if without_namespaces && walls.namespaces() => Err(String::from("there are no namespaces here")),
        _ if without_landlock && walls != Walls::NamespacesOnly => {
            Err(String::from("there is no Landlock here"))
        }
        _ => Ok(sandbox),
    }
}

/// The output of a command, and its exit.
#[derive(Debug)]
pub struct Ran {
    pub output: String,
    pub exit: CommandExit,
}

pub fn run(sandbox: &Sandbox, command: &str, limits: CommandLimits) -> Ran {
    block_on(async {
        let mut running = sandbox.spawn(command, limits).await.unwrap();
        let mut output = Vec::new();
        while let Some(chunk) = running.next().await {
            output.extend(chunk);
        }
        let exit = running.finish().await.unwrap();
        Ran { output: String::from_utf8_lossy(&output).into_owned(), exit }
    })
}

/// A runtime with one thread and no drivers: the sandbox needs none.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Whether a process of this machine has a text in its arguments.
pub fn process_with(text: &str) -> bool {
    let mine = std::process::id().to_string();
    let holds = |entry: fs::DirEntry| {
        entry.file_name() != mine.as_str()
            && fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    fs::read_dir("/proc").unwrap().flatten().any(holds)
}

pub fn process_status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Waits for something that another process does. Gives up after ten seconds.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::yield_now();
    }
}

/// Skips a test where a program is missing.
pub fn needs(programs: &[&str]) -> Result<(), String> {
    let missing = programs.iter().find(|name| {
        !["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
    });
    missing.map_or(Ok(()), |name| Err(format!("{name} is not installed")))
}

pub fn is_root() -> bool {
    process_status(std::process::id()).contains("\nUid:\t0\t0\t")
}

/// The error of a sandbox that should not have been made.
pub fn refusal(policy: Policy) -> SandboxError {
    Sandbox::new(policy).unwrap_err()
}
