//! A real PostgreSQL server for tests: its own cluster in a temporary folder, reached by a socket in that folder.
//!
//! Debian's package has everything: `apt-get install postgresql`. If the tests run as root, the server runs as the user `postgres`,
//! because it refuses to run as root.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The command that installs PostgreSQL.
pub const INSTALL: &str = "apt-get install postgresql";

/// How long a server may take to start, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. It stops, and its files are removed, when it is dropped or when the process ends.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    folder: PathBuf,
    settings: Vec<String>,
    port: u16,
    running: Mutex<Option<Child>>,
    databases: AtomicU64,
}

/// The folder with the server's programs; none if it is not installed.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    debian.sort();
    folders.extend(debian.into_iter().rev());
    folders
        .into_iter()
        .find(|folder| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).exists()))
}

/// A port of this machine that is free at the moment.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its number").port()
}

/// The server that all tests of this process share. If PostgreSQL is not installed, none, and the calling test counts as skipped.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Server> = OnceLock::new();
    let programs = programs_or_skip()?;
    Some(SHARED.get_or_init(|| Server::start(programs, &["fsync=off"])))
}

/// A server for one test, with more settings. If PostgreSQL is not installed, none, and the test counts as skipped.
pub fn own(settings: &[&str]) -> Option<Server> {
    Some(Server::start(programs_or_skip()?, &[&["fsync=off"], settings].concat()))
}

fn programs_or_skip() -> Option<PathBuf> {
    let programs = programs();
    if programs.is_none() {
        crate::skipped::skip(&format!("PostgreSQL is not installed ({INSTALL})"));
    }
    programs
}

impl Server {
    /// Creates a cluster and starts it, with settings such as `fsync=off`. It listens at its socket only, unless they say otherwise.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn start(programs: PathBuf, settings: &[&str]) -> Self {
        let server = Self::without_data(programs, settings);
        let made = server
            .as_its_user(&server.programs.join("initdb"))
            .args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(server.data())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.restart();
        server
    }

    /// Starts a copy of this server that follows it and only reads.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn standby(&self) -> Self {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let standby = Self::without_data(self.programs.clone(), &settings);
        let made = standby
            .as_its_user(&standby.programs.join("pg_basebackup"))
            .args(["--no-sync", "--write-recovery-conf", "--checkpoint=fast", "-U", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-p", &self.port.to_string(), "-D"])
            .arg(standby.data())
            .output()
            .expect("pg_basebackup runs");
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        standby.restart();
        standby
    }

    /// A server without data yet.
    fn without_data(programs: PathBuf, settings: &[&str]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rejoin-pg-{}-{number}", std::process::id());
        let port = settings.iter().find_map(|setting| setting.strip_prefix("port=")?.parse().ok());
        let mut server = Self {
            programs,
            folder: PathBuf::new(),
            port: port.unwrap_or(5432),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            running: Mutex::new(None),
            databases: AtomicU64::new(0),
        };
        // The path of a socket may have 107 bytes, so the folder is near the root. Its user must be able to get there.
        let places = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")];
        let place = places.iter().map(|place| place.join(&name)).find(|folder| {
            let _ = fs::remove_dir_all(folder);
            let made = server.as_its_user(Path::new("mkdir")).arg("-m755").arg(folder).status();
            folder.as_os_str().len() < 80 && made.is_ok_and(|made| made.success())
        });
        server.folder = place.expect("a folder for the server");
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.folder
    }

    fn as_its_user(&self, program: &Path) -> Command {
        // Only root must become another user.
        let is_root = fs::metadata("/proc/self").is_ok_and(|of| {
            use std::os::unix::fs::MetadataExt as _;
            of.uid() == 0
        });
        let mut command = if is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/");
        command
    }

    /// Starts the server after [`kill`](Self::kill).
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        // The shell ends the server when its input ends, which it does when this process is gone, however it went.
        // A line of input says that the files are needed again.
        let script = "\"$@\" >>\"$PLACE/log\" 2>&1 & server=$!; read -r keep; kill -QUIT $server 2>/dev/null; wait; \
                      [ -n \"$keep\" ] || rm -rf \"$PLACE\"";
        let mut command = self.as_its_user(Path::new("sh"));
        command.env("PLACE", &self.folder).args(["-c", script, "sh"]);
        command.arg(self.programs.join("postgres")).arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        command.args(["-c", "listen_addresses=", "-c", "max_connections=300"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(child.expect("the server starts"));
        let begun = Instant::now();
        while !self.answers() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "PostgreSQL does not answer: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn answers(&self) -> bool {
        self.psql("postgres", "SELECT 1").is_ok()
    }

    /// Kills every process of the server, as a power cut would.
    ///
    /// # Panics
    /// If they cannot be killed.
    pub fn kill(&self) {
        let Some(mut child) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let master = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let master = master.lines().next().unwrap_or_default().to_owned();
        // A process that the master starts in between would survive, wait for a lock of a killed one, and never answer.
        let _ = Command::new("kill").arg("-STOP").arg(&master).stderr(Stdio::null()).status();
        // All at once: without its parent, a process would end in order.
        let others = children_of(&master);
        let _ = Command::new("kill").arg("-KILL").arg(&master).args(&others).stderr(Stdio::null()).status();
        let _ = child.stdin.take().map(|mut input| input.write_all(b"keep\n"));
        let _ = child.wait();
        while others.iter().any(|other| is_alive(other)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
    }

    /// Runs a statement and returns its rows, one per line.
    ///
    /// # Errors
    /// The server's error.
    pub fn psql(&self, database: &str, statement: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.folder);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-f", "-"]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = psql.spawn().map_err(|why| why.to_string())?;
        let _ = psql.stdin.take().map(|mut input| input.write_all(statement.as_bytes()));
        let done = psql.wait_with_output().map_err(|why| why.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// Creates a new database and returns its name.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}")).expect("a database");
        name
    }

    /// The address of a database.
    #[must_use]
    pub fn address(&self, database: &str) -> String {
        format!("postgres://postgres@/{database}?host={}&port={}", self.folder.display(), self.port)
    }

    /// Replaces the rules of who may connect, and how (`pg_hba.conf`). The user `postgres` always may, by the socket.
    ///
    /// # Panics
    /// If the server does not read them.
    pub fn set_rules(&self, rules: &str) {
        let rules = format!("local all postgres trust\n{rules}\n");
        fs::write(self.data().join("pg_hba.conf"), rules).expect("the rules are written");
        self.psql("postgres", "SELECT pg_reload_conf()").expect("the server reads them");
        let wrong = "SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL";
        assert_eq!(self.psql("postgres", wrong).as_deref(), Ok("0"), "the rules are valid");
    }

    /// Creates a folder for the server's user next to its data, and returns its path.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        let made = self.as_its_user(Path::new("mkdir")).arg(&path).status();
        assert!(made.is_ok_and(|made| made.success()), "{}", path.display());
        path
    }

    /// Writes a file that only the server's user can read, next to its data, and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        let mut command = self.as_its_user(Path::new("sh"));
        command.args(["-c", "umask 077; cat >\"$1\"", "sh"]).arg(&path).stdin(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let written = child.stdin.take().map(|mut input| input.write_all(bytes));
        assert!(matches!(written, Some(Ok(()))) && child.wait().is_ok_and(|done| done.success()));
        path
    }

    /// The processor time that all processes of the server have used, in seconds.
    #[must_use]
    pub fn processor_time(&self) -> f64 {
        let master = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let master = master.lines().next().unwrap_or_default();
        let living = children_of(master).iter().map(|child| processor_time(child).0).sum::<f64>();
        let (own, ended) = processor_time(master);
        own + ended + living
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> String {
        let mut log = String::new();
        let _ = fs::File::open(self.folder.join("log")).map(|mut file| file.read_to_string(&mut log));
        log
    }
}

/// The processor time of a process, and that of its children which have ended, in seconds. `self` is this process.
#[must_use]
pub fn processor_time(pid: &str) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split_whitespace().skip(11).take(4));
    let ticks: Vec<f64> = fields.into_iter().flatten().filter_map(|field| field.parse().ok()).collect();
    // Linux counts in hundredths of a second.
    let seconds = |ticks: &[f64]| ticks.iter().sum::<f64>() / 100.0;
    (seconds(ticks.get(..2).unwrap_or_default()), seconds(ticks.get(2..).unwrap_or_default()))
}

/// The processes that a process has started.
fn children_of(parent: &str) -> Vec<String> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_child = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(parent))
    };
    numbers.filter(is_child).collect()
}

/// Whether a process is running. A killed process is listed as a zombie until its parent collects its exit status.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
