//! The HTTP server of every fake: it accepts connections, reads requests and sends a handler's answers.

use std::{
    io::{self, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use super::{
    Framing,
    faults::Manner,
    http::{self, Halt, Reply, Request, Sent, Way},
    locked,
};

/// Requests are as deep as a checker lets them be.
const STACK: usize = 32 << 20;

/// Decides the answers.
pub(super) trait Handler: Send + Sync + 'static {
    /// How streams are delimited.
    fn framing(&self) -> Framing;

    /// The number of the request, its answer, and in what manner that is sent.
    fn answer(&self, request: Request) -> Answered;

    /// Is called with the outcome of an answer before the client can know it.
    fn note(&self, number: usize, sent: Sent);

    /// Is called when a request is done.
    fn end(&self, number: usize);
}

/// An answer that is ready to be sent.
pub(super) struct Answered {
    /// The number of the request.
    pub number: usize,
    pub reply: Reply,
    pub manner: Manner,
}

/// The open connections, by number.
type Open = Mutex<Vec<(u64, TcpStream)>>;

/// A server that listens. It ends when it is dropped.
pub(super) struct Listening {
    pub address: SocketAddr,
    halt: Arc<Halt>,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

impl Listening {
    /// Starts to listen at a port of this machine; 0 is any that is free.
    pub(super) fn start(port: u16, handler: Arc<impl Handler>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let (halt, open) = (Arc::new(Halt::default()), Arc::new(Open::default()));
        let accepting = {
            let (halt, open) = (Arc::clone(&halt), Arc::clone(&open));
            std::thread::Builder::new()
                .name("loopback".into())
                .spawn(move || accept(&listener, &handler, &halt, &open))?
        };
        Ok(Self { address, halt, open, accepting: Some(accepting) })
    }

    /// Waits for ever, serving.
    pub(super) fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.halt.end();
        // Wake the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for (_, stream) in locked(&self.open).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Takes connections until the server ends.
fn accept(listener: &TcpListener, handler: &Arc<impl Handler>, halt: &Arc<Halt>, open: &Arc<Open>) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if halt.ended() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else { continue };
        locked(open).push((number, copy));
        let (handler, halt, open) = (Arc::clone(handler), Arc::clone(halt), Arc::clone(open));
        let serve = move || {
            // A reset goes out when the last handle is closed.
            let forget = || locked(&open).retain(|(other, _)| *other != number);
            connection(stream, &*handler, &halt, &forget);
            forget();
        };
        let _ = std::thread::Builder::new().stack_size(STACK).spawn(serve);
    }
}

fn connection(mut stream: TcpStream, handler: &impl Handler, halt: &Halt, forget: &dyn Fn()) {
    let _ = stream.set_nodelay(true);
    let Ok(copy) = stream.try_clone() else { return };
    let mut reader = BufReader::new(copy);
    loop {
        let request = match http::read(&mut reader, &mut stream) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(why) => {
                let reply = Reply::text(400, "text/plain", format!("{why}\n"));
                let (manner, note) = (Manner::default(), |_| {});
                let way = Way { framing: Framing::UntilClose, manner: &manner, halt, note: &note };
                http::send(&mut stream, &reply, http::Client::default(), &way);
                return;
            }
        };
        let client = request.client;
        let Answered { number, reply, manner } = handler.answer(request);
        let note = |sent: Sent| handler.note(number, sent);
        let way = Way { framing: handler.framing(), manner: &manner, halt, note: &note };
        let sent = http::send(&mut stream, &reply, client, &way);
        handler.end(number);
        if !sent.reusable {
            forget();
            return;
        }
    }
}
