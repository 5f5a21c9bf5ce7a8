//! A connection that the waiting thread drives itself.
//!
//! The library is asynchronous: it polls a socket and expects to be woken. This socket blocks instead, but only when the thread
//! has nothing else to do. So a statement takes one write and one read in the caller's own thread, and no other thread must be
//! woken. The caller may run in any async runtime or in none.

use std::{
    future::Future,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Client, Config, Connection, SimpleQueryMessage,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
    tls::MakeTlsConnect,
};

use super::{
    link::{Trouble, refused},
    tls,
};
use crate::lock::guard;

/// The most bytes that are read at once.
const AT_ONCE: usize = 64 << 10;

/// The kind of error if the server is read-only but the address asks for a writable one.
pub(super) const ONLY_READS: io::ErrorKind = io::ErrorKind::ReadOnlyFilesystem;

/// Connects to the server.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) config: Config,
    pub(super) tls: tls::Connect,
}

/// An iterator of sockets. Each is connected only when it is requested.
type Streams<'c> = Box<dyn Iterator<Item = io::Result<Stream>> + 'c>;

type ServerConnection = Connection<Socket, <tls::Connect as MakeTlsConnect<Socket>>::Stream>;

/// Moves the bytes of a connection.
pub(super) struct Driver {
    /// `None` once the connection has ended.
    connection: Mutex<Option<ServerConnection>>,
    gate: Arc<Gate>,
    waker: Waker,
}

/// State shared by the socket and the threads that drive it.
#[derive(Default)]
struct Gate {
    /// Whether the next read may wait for the server.
    may_wait: AtomicBool,
    /// Whether the connection has something to do other than reading.
    has_work: AtomicBool,
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.has_work.store(true, Ordering::Release);
    }
}

impl Driver {
    fn new(connection: ServerConnection, gate: Arc<Gate>) -> Self {
        let waker = Waker::from(Arc::clone(&gate));
        // Nothing wakes the connection before its first poll.
        gate.has_work.store(true, Ordering::Release);
        Self { connection: Mutex::new(Some(connection)), gate, waker }
    }

    /// Runs a future to its end. The future must wait only for this connection.
    pub(super) fn run<F: Future>(&self, future: F) -> F::Output {
        // Otherwise the runtime of the caller's task would count these polls against the task's budget. When the budget ran out,
        // we would wait forever, because only the task itself can renew it.
        let mut future = pin!(tokio::task::unconstrained(future));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Pending => self.turn(&mut guard(&self.connection), Blocking::ForAnswers),
                Poll::Ready(done) => {
                    // Also send requests for which no caller waits, such as ROLLBACK. If another thread already uses the
                    // connection, they go out with its requests.
                    if self.gate.has_work.load(Ordering::Acquire)
                        && let Ok(mut connection) = self.connection.try_lock()
                    {
                        self.turn(&mut connection, Blocking::Never);
                    }
                    return done;
                }
            }
        }
    }

    /// Sends pending requests, or waits for the server if there are none.
    fn turn(&self, connection: &mut Option<ServerConnection>, waits: Blocking) {
        let has_work = self.gate.has_work.swap(false, Ordering::AcqRel);
        self.gate.may_wait.store(!has_work && waits == Blocking::ForAnswers, Ordering::Release);
        let mut context = Context::from_waker(&self.waker);
        let has_ended =
            connection.as_mut().is_none_or(|driven| Pin::new(driven).poll(&mut context).is_ready());
        if has_ended {
            // Dropping it tells callers that no answer will come.
            *connection = None;
        }
    }
}

/// Whether a thread may block on a socket.
#[derive(PartialEq, Eq)]
enum Blocking {
    ForAnswers,
    Never,
}

impl Dialer {
    /// Connects to the first of the hosts that accepts.
    pub(super) fn connect(&self) -> Result<(Client, Driver), Trouble> {
        let config = &self.config;
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = hosts.len().max(addresses.len());
        if [hosts.len(), addresses.len(), ports.len()].iter().any(|given| *given > 1 && *given != count) {
            let hint = "name as many ports and hostaddrs as hosts, or one port for all";
            return Err(refused("the address has other numbers of hosts, hostaddrs and ports", hint).into());
        }
        let mut order: Vec<usize> = (0..count).collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            use std::hash::BuildHasher as _;
            order.sort_by_cached_key(|place| std::hash::RandomState::new().hash_one(place));
        }
        let mut refused: Option<Trouble> = None;
        for place in order {
            let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
            let name = match hosts.get(place) {
                Some(Host::Tcp(name)) => name,
                _ => "",
            };
            let streams: Streams<'_> = match (addresses.get(place), hosts.get(place)) {
                (Some(address), _) => streams(config, (*address, port)),
                #[cfg(unix)]
                (None, Some(Host::Unix(folder))) => {
                    let stream =
                        std::os::unix::net::UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")));
                    Box::new(std::iter::once(stream.map(Stream::Unix)))
                }
                (None, _) => streams(config, (name, port)),
            };
            for stream in streams {
                match stream.map_err(Trouble::from).and_then(|stream| self.greet(stream, name)) {
                    Ok(connected) => return Ok(connected),
                    // If several hosts fail, report the error of one that answered, rather than of one without a server.
                    Err(why) if refused.as_ref().is_none_or(Trouble::is_silence) => refused = Some(why),
                    Err(_) => {}
                }
            }
        }
        let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the address names no host").into();
        Err(refused.unwrap_or_else(nowhere))
    }

    /// Encrypts the connection if the address asks for it, and logs in.
    fn greet(&self, stream: Stream, name: &str) -> Result<(Client, Driver), Trouble> {
        let config = &self.config;
        let gate = Arc::new(Gate::default());
        let mut maker = self.tls.clone();
        let encrypt = MakeTlsConnect::<Socket>::make_tls_connect(&mut maker, name);
        let encrypt = encrypt.map_err(io::Error::other)?;
        stream.set_read_timeout(timeout(config))?;
        // From here on, the connection owns the socket. Keep a second handle to it.
        let waiting = stream.try_clone()?;
        let mut connecting = pin!(config.connect_raw(Socket { stream, gate: Arc::clone(&gate) }, encrypt));
        let mut context = Context::from_waker(Waker::noop());
        let (client, connection) = loop {
            gate.may_wait.store(true, Ordering::Release);
            if let Poll::Ready(done) = connecting.as_mut().poll(&mut context) {
                break done?;
            }
        };
        let driver = Driver::new(connection, gate);
        let wanted = config.get_target_session_attrs();
        if wanted != TargetSessionAttrs::Any {
            let shown = driver.run(client.simple_query("SHOW transaction_read_only"))?;
            let only_reads = shown
                .iter()
                .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")));
            if only_reads != (wanted == TargetSessionAttrs::ReadOnly) {
                let (kind, why) = if only_reads {
                    (ONLY_READS, "database does not allow writes")
                } else {
                    (io::ErrorKind::PermissionDenied, "database is not read only")
                };
                return Err(io::Error::new(kind, why).into());
            }
        }
        waiting.set_read_timeout(None)?;
        Ok((client, driver))
    }
}

fn timeout(config: &Config) -> Option<Duration> {
    config.get_connect_timeout().copied().filter(|time| !time.is_zero())
}

/// Connects to the addresses of a host, one after another.
fn streams(config: &Config, host: impl ToSocketAddrs) -> Streams<'_> {
    let connect = |address: SocketAddr| {
        let stream = match timeout(config) {
            Some(time) => TcpStream::connect_timeout(&address, time),
            None => TcpStream::connect(address),
        }?;
        stream.set_nodelay(true)?;
        notice_death(&stream, config)?;
        Ok(Stream::Tcp(stream))
    };
    match host.to_socket_addrs() {
        Ok(addresses) => Box::new(addresses.collect::<Vec<_>>().into_iter().map(connect)),
        Err(why) => Box::new(std::iter::once(Err(why))),
    }
}

/// Makes the system end a connection whose other side no longer answers.
#[cfg(unix)]
fn notice_death(stream: &TcpStream, config: &Config) -> io::Result<()> {
    use rustix::net::sockopt;
    if config.get_keepalives() {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, config.get_keepalives_idle())?;
        if let Some(interval) = config.get_keepalives_interval() {
            sockopt::set_tcp_keepintvl(stream, interval)?;
        }
        if let Some(retries) = config.get_keepalives_retries() {
            sockopt::set_tcp_keepcnt(stream, retries)?;
        }
    }
    #[cfg(target_os = "linux")]
    if let Some(time) = config.get_tcp_user_timeout() {
        sockopt::set_tcp_user_timeout(stream, u32::try_from(time.as_millis()).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn notice_death(_: &TcpStream, _: &Config) -> io::Result<()> {
    Ok(())
}

/// A blocking socket.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

/// Calls the same method on either kind of socket.
macro_rules! on {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($inner) => $call,
            #[cfg(unix)]
            Stream::Unix($inner) => $call,
        }
    };
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        on!(self, stream => stream.set_read_timeout(time))
    }
}

/// A socket with the interface that the library expects.
pub(super) struct Socket {
    stream: Stream,
    gate: Arc<Gate>,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Block only once: the data that was read then may be all that the caller waits for.
        if !self.gate.may_wait.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled_to(buffer.remaining().min(AT_ONCE));
        let read = again(|| on!(&mut self.stream, stream => stream.read(room)));
        Poll::Ready(read.map(|count| buffer.advance(count)))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(again(|| on!(&mut self.stream, stream => stream.write(bytes))))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(on!(&self.stream, stream => stream.shutdown(Shutdown::Write)))
    }
}

/// Repeats a call that a signal interrupted, and turns an expired timeout into `TimedOut`.
fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
            }
            done => return done,
        }
    }
}
