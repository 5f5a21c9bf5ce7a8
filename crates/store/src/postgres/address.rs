//! Finds out how to reach a database: from the address, then the `PG*` variables, then `.pgpass`, as PostgreSQL's own programs do.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio_postgres::config::{Config, Host, SslMode};

use super::link::refused;
use crate::{error::StoreResult, location::Address};

/// How long connecting may take, unless `connect_timeout` sets another limit.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long sent data may stay unacknowledged by the other machine.
const UNANSWERED: Duration = Duration::from_secs(30);

/// The folders of the server's socket, if no host is named.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// How a database is reached.
pub(super) struct Reach {
    pub(super) config: Config,
    pub(super) trust: Trust,
}

/// Which checks the server's certificate must pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// None: the connection is encrypted, but the server's identity is not checked. Used for `prefer` and `require`, as in other
    /// PostgreSQL programs.
    Anyone,
    /// One of these authorities must have signed it.
    Authority(Roots),
    /// One of these authorities must have signed it, and it must name the host.
    Host(Roots),
}

/// Certificates of authorities: a file; `None` for those of the system.
pub(super) type Roots = Option<PathBuf>;

/// The values that are read from outside the address, so that tests can replace them.
pub(super) trait Surroundings {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The home folder.
    fn home(&self) -> Option<PathBuf>;
}

/// The environment of this process.
pub(super) struct Process;

impl Surroundings for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir()
    }
}

/// Parses an address, and fills in missing parts.
pub(super) fn reach(address: &Address, around: &dyn Surroundings) -> StoreResult<Reach> {
    let wrong = |why: String| {
        let hint =
            "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for @ and %2F for / in a password";
        refused(format!("the address {address} cannot be used: {why}"), hint)
    };
    let (bare, own) = split(address.secret());
    let mut config: Config = bare.parse().map_err(|why: tokio_postgres::Error| wrong(reason(&why)))?;
    complete(&mut config, around).map_err(wrong)?;
    let named = |name: &str| own.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
    let mode = named("sslmode").or_else(|| around.variable("PGSSLMODE"));
    let roots = named("sslrootcert").or_else(|| around.variable("PGSSLROOTCERT"));
    let roots = roots.filter(|roots| roots != "system").map(PathBuf::from);
    let (mode, trust) = match mode.as_deref() {
        None | Some("prefer" | "allow") => (SslMode::Prefer, Trust::Anyone),
        Some("disable") => (SslMode::Disable, Trust::Anyone),
        Some("require") if roots.is_some() => (SslMode::Require, Trust::Authority(roots)),
        Some("require") => (SslMode::Require, Trust::Anyone),
        Some("verify-ca") => (SslMode::Require, Trust::Authority(roots)),
        Some("verify-full") => (SslMode::Require, Trust::Host(roots)),
        Some(other) => {
            return Err(wrong(format!(
                "sslmode is `{other}`; use disable, prefer, require, verify-ca or verify-full"
            )));
        }
    };
    config.ssl_mode(mode);
    if config.get_password().is_none()
        && let Some(password) = password_of(&config, around)
    {
        config.password(password);
    }
    Ok(Reach { config, trust })
}

/// The message of an error together with those of its causes.
pub(super) fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Splits off the parameters that the library does not know, because it refuses them.
fn split(address: &str) -> (String, Vec<(String, String)>) {
    let Some((bare, query)) = address.split_once('?') else { return (address.to_owned(), Vec::new()) };
    let (own, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|pair| pair.starts_with("sslmode=") || pair.starts_with("sslrootcert="));
    let own = own
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), decoded(value)));
    let own = own.collect();
    if rest.is_empty() { (bare.to_owned(), own) } else { (format!("{bare}?{}", rest.join("&")), own) }
}

/// A value of a query, with `%2F` and the like decoded.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fills in the parts that the address leaves open.
fn complete(config: &mut Config, around: &dyn Surroundings) -> Result<(), String> {
    let number = |name: &str| {
        let value = around.variable(name);
        value
            .map(|value| value.parse::<u16>().map_err(|_| format!("{name} is `{value}`, not a number")))
            .transpose()
    };
    let unless = |given: bool, name: &str| if given { None } else { around.variable(name) };
    if let Some(user) = unless(config.get_user().is_some(), "PGUSER") {
        config.user(user);
    }
    if let Some(database) = unless(config.get_dbname().is_some(), "PGDATABASE") {
        config.dbname(database);
    }
    if let Some(password) = unless(config.get_password().is_some(), "PGPASSWORD") {
        config.password(password);
    }
    if let Some(options) = unless(config.get_options().is_some(), "PGOPTIONS") {
        config.options(options);
    }
    if config.get_application_name().is_none() {
        config.application_name(around.variable("PGAPPNAME").unwrap_or_else(|| String::from("rejoin")));
    }
    let nowhere = config.get_hosts().iter().all(|host| matches!(host, Host::Tcp(name) if name.is_empty()));
    if nowhere && config.get_hostaddrs().is_empty() {
        let hosts = around.variable("PGHOST").or_else(|| {
            let socket = SOCKETS.iter().find(|folder| Path::new(folder).join(".s.PGSQL.5432").exists());
            socket.map(|folder| (*folder).to_owned())
        });
        // The empty host is already in the configuration, so build it again without hosts.
        let mut fresh = Config::new();
        copy(config, &mut fresh);
        *config = fresh;
        for host in hosts.as_deref().unwrap_or("localhost").split(',') {
            config.host(host);
        }
    }
    if config.get_ports().is_empty()
        && let Some(port) = number("PGPORT")?
    {
        config.port(port);
    }
    if config.get_connect_timeout().is_none() {
        let seconds = number("PGCONNECT_TIMEOUT")?.map(|seconds| Duration::from_secs(seconds.into()));
        config.connect_timeout(seconds.unwrap_or(CONNECTING));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNANSWERED);
    }
    config.keepalives_idle(UNANSWERED);
    Ok(())
}

/// Copies everything but the hosts.
fn copy(from: &Config, to: &mut Config) {
    from.get_user().map(|user| to.user(user));
    from.get_dbname().map(|database| to.dbname(database));
    from.get_password().map(|password| to.password(password));
    from.get_options().map(|options| to.options(options));
    from.get_application_name().map(|name| to.application_name(name));
    for port in from.get_ports() {
        to.port(*port);
    }
    from.get_connect_timeout().map(|time| to.connect_timeout(*time));
    to.target_session_attrs(from.get_target_session_attrs());
    to.channel_binding(from.get_channel_binding());
}

/// The password for a connection from `.pgpass`. As in other programs, a file that other users can read is ignored.
fn password_of(config: &Config, around: &dyn Surroundings) -> Option<String> {
    let path = around.variable("PGPASSFILE").map(PathBuf::from);
    let path = path.or_else(|| Some(around.home()?.join(".pgpass")))?;
    if !is_private(&path)? {
        tracing::warn!("{} is not used: others may read it (chmod 600 makes it private)", path.display());
        return None;
    }
    let text = fs::read_to_string(&path).ok()?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => String::from("localhost"),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().map_or_else(|| around.variable("USER").unwrap_or_default(), str::to_owned);
    let database = config.get_dbname().unwrap_or(&user);
    let wanted = [host.as_str(), &port, database, &user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [given @ .., password] = fields.as_slice() else { return None };
        let fits = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| given == "*" || given == wanted);
        fits.then(|| password.clone())
    })
}

fn is_private(path: &Path) -> Option<bool> {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        Some(metadata.permissions().mode() & 0o077 == 0)
    }
    #[cfg(not(unix))]
    Some(metadata.is_file())
}

/// The fields of a line, which colons separate. A backslash makes the next character an ordinary one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        fields.last_mut().expect("BUG: there is always one").push(character);
    }
    fields
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use std::collections::HashMap;

    use super::*;
    use crate::location::Location;

    #[derive(Default)]
    struct Fixed(HashMap<&'static str, String>);

    impl Surroundings for Fixed {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.get(name).cloned()
        }
        fn home(&self) -> Option<PathBuf> {
            None
        }
    }

    fn with(address: &str, variables: &[(&'static str, &str)]) -> StoreResult<Reach> {
        let Location::Postgres(address) = address.parse().unwrap() else { panic!("an address") };
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        reach(&address, &Fixed(variables))
    }

    #[test]
    fn variables_fill_in_what_the_address_leaves_open() {
        let variables = [
            ("PGUSER", "u"),
            ("PGPASSWORD", "p"),
            ("PGDATABASE", "d"),
            ("PGHOST", "h"),
            ("PGPORT", "99"),
            ("PGCONNECT_TIMEOUT", "3"),
        ];
        let reached = with("postgres://", &variables).unwrap().config;
        assert_eq!((reached.get_user(), reached.get_dbname()), (Some("u"), Some("d")));
        assert_eq!(reached.get_password(), Some(b"p".as_slice()));
        assert_eq!(reached.get_hosts(), [Host::Tcp(String::from("h"))]);
        assert_eq!(
            (reached.get_ports(), reached.get_connect_timeout()),
            (&[99][..], Some(&Duration::from_secs(3)))
        );
        let reached = with("postgres://me:word@there:1/base", &variables).unwrap().config;
        assert_eq!((reached.get_user(), reached.get_dbname()), (Some("me"), Some("base")));
        assert_eq!(reached.get_hosts(), [Host::Tcp(String::from("there"))]);
        assert_eq!((reached.get_ports(), reached.get_password()), (&[1][..], Some(b"word".as_slice())));
    }

    #[test]
    fn a_socket_is_a_folder() {
        let reached = with("postgres://me@/base?host=/run/pg", &[]).unwrap().config;
        assert!(
            matches!(reached.get_hosts(), [Host::Unix(folder)] if folder == Path::new("/run/pg")),
            "{reached:?}"
        );
        assert_eq!(reached.get_dbname(), Some("base"));
        let reached = with("postgres:///base", &[("PGHOST", "/run/pg")]).unwrap().config;
        assert!(
            matches!(reached.get_hosts(), [Host::Unix(folder)] if folder == Path::new("/run/pg")),
            "{reached:?}"
        );
    }

    #[test]
    fn the_mode_says_what_is_asked_of_the_server() {
        let trust = |query: &str| {
            with(&format!("postgres://h/d{query}"), &[])
                .map(|reach| (reach.config.get_ssl_mode(), reach.trust))
        };
        assert_eq!(trust("").unwrap(), (SslMode::Prefer, Trust::Anyone));
        assert_eq!(trust("?sslmode=disable").unwrap().0, SslMode::Disable);
        assert_eq!(trust("?sslmode=require").unwrap(), (SslMode::Require, Trust::Anyone));
        let roots = Some(PathBuf::from("/ca.pem"));
        assert_eq!(
            trust("?sslmode=require&sslrootcert=%2Fca.pem").unwrap().1,
            Trust::Authority(roots.clone())
        );
        assert_eq!(trust("?sslrootcert=/ca.pem&sslmode=verify-full").unwrap().1, Trust::Host(roots));
        assert_eq!(trust("?sslmode=verify-full&connect_timeout=1").unwrap().1, Trust::Host(None));
        let why = trust("?sslmode=maybe").unwrap_err().to_string();
        assert!(why.contains("verify-full"), "{why}");
    }

    #[cfg(unix)]
    #[test]
    fn passwords_come_from_a_private_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass");
        fs::write(&path, "# hosts\nh:5432:d:u:no\nh:*:d:me:a\\:b:c\\\\\n*:*:*:*:last\n").unwrap();
        let file = path.to_str().unwrap();
        let password = |address: &str| {
            let reached = with(address, &[("PGPASSFILE", file)]).unwrap().config;
            reached.get_password().map(|password| String::from_utf8(password.to_vec()).unwrap())
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(password("postgres://me@h/d"), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(password("postgres://me@h/d").as_deref(), Some("a:b:c\\"));
        assert_eq!(password("postgres://other@h/d").as_deref(), Some("last"));
        assert_eq!(password("postgres://me:given@h/d").as_deref(), Some("given"));
    }
}
