//! A provider on this machine that speaks every provider's own API, and is stricter than any of them.
//!
//! A real HTTP server on 127.0.0.1 (`listen.rs`, `http.rs`). [`scripted`] uses the same server for answers that a test writes. The
//! "model's" answers depend on the conversation ([`brain`]), or on the test. The strict checker of its dialect judges every
//! request, and everything that the model signed or encrypted must come back unchanged, at the same place (`issue.rs`). Faults are
//! answered with the provider's own words and recorded: a test asserts that [`Loopback::violations`] is empty. Answers can be made
//! to fail in every way ([`Fault`]).
//!
//! ```
//! use testkit::loopback::{Config, Fault, Loopback, Service};
//!
//! let server = Loopback::start(Config::default());
//! assert!(server.base(Service::Anthropic).starts_with("http://127.0.0.1:"));
//! server.fault(Fault::CutAfter(100));
//! assert!(server.violations().is_empty());
//! ```

mod anthropic;
pub mod brain;
mod copilot;
mod faults;
mod gemini;
mod http;
mod issue;
mod listen;
mod models;
mod ollama;
mod openai_chat;
mod openai_responses;
mod refuse;
mod route;
pub mod scripted;
mod serve;
mod speak;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

pub use brain::{Ask, Say};
pub use copilot::{Gate, Poll};
pub use faults::{FAULTS, Fault, Hangup};
pub use http::Framing;
pub use issue::Issued;
use listen::Listening;

/// A service that the server can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Chat Completions and Responses.
    OpenAi,
    /// Messages.
    Anthropic,
    /// `generateContent`.
    Gemini,
    /// `/api/chat`.
    Ollama,
    /// Chat Completions with `reasoning_details`.
    OpenRouter,
    /// Chat Completions by Mistral's rules.
    Mistral,
    /// Chat Completions with `reasoning_content`.
    DeepSeek,
    /// Chat Completions without a field too many.
    Groq,
    /// Chat Completions behind GitHub's gate.
    Copilot,
    /// Responses as ChatGPT's own backend takes them.
    Codex,
}

impl Service {
    /// Every service.
    pub const ALL: [Self; 10] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::OpenRouter,
        Self::Mistral,
        Self::DeepSeek,
        Self::Groq,
        Self::Copilot,
        Self::Codex,
    ];

    /// Its name, which is also the first part of its address.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::OpenRouter => "openrouter",
            Self::Mistral => "mistral",
            Self::DeepSeek => "deepseek",
            Self::Groq => "groq",
            Self::Copilot => "copilot",
            Self::Codex => "codex",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|service| service.name() == name);
        found.ok_or_else(|| format!("no service `{name}`"))
    }
}

/// Decides the model's answers.
pub type Brain = Arc<dyn Fn(&Ask) -> Say + Send + Sync>;

/// Is called with every request after it was answered.
pub type Log = Arc<dyn Fn(&Heard) + Send + Sync>;

/// How a server behaves.
#[derive(Clone)]
pub struct Config {
    /// The service that it plays; without one it plays all of them, by the address.
    pub service: Option<Service>,
    /// The key that is accepted; without one, any that is not empty.
    pub key: Option<String>,
    /// The models that there are; without any, every name is good that does not say `no-such`.
    pub models: Vec<String>,
    /// The model's answers.
    pub brain: Brain,
    /// Secrets that were issued before, perhaps by a server that has ended.
    pub issued: Issued,
    /// DS-01: whether DeepSeek requires the reasoning next to calls back.
    pub reasoning_required: bool,
    /// How streams are delimited.
    pub framing: Framing,
    /// How Copilot's gate behaves.
    pub copilot: Gate,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// Is called with every request.
    pub log: Option<Log>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service: None,
            key: None,
            models: Vec::new(),
            brain: Arc::new(brain::answer),
            issued: Issued::default(),
            reasoning_required: true,
            framing: Framing::default(),
            copilot: Gate::default(),
            port: 0,
            log: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("service", &self.service)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// A request, and its answer.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Its number, from 0.
    pub number: usize,
    /// When it came.
    pub at: SystemTime,
    /// Whose API it was for.
    pub service: Option<Service>,
    /// `GET` or `POST`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, with values as they came, secrets too.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Arc<[u8]>,
    /// The status that was answered; 0 as long as nothing was.
    pub status: u16,
    /// The body that was meant to be answered.
    pub answer: Arc<[u8]>,
    /// The model's answer, if it was asked.
    pub say: Option<Say>,
    /// How much of the answer went out.
    pub sent: usize,
    /// Whether all of it went out.
    pub whole: bool,
}

impl Heard {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether a model was asked, rather than for a list or a token.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        let path = self.target.split('?').next().unwrap_or_default();
        let ends = ["/chat/completions", "/responses", "/messages", "/api/chat"];
        ends.iter().any(|end| path.ends_with(end))
            || path.contains(":generateContent")
            || path.contains(":streamGenerate")
    }
}

/// Something in a request that its provider would not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the request.
    pub request: usize,
    /// Whose API it was for.
    pub service: Service,
    /// The rule, such as `ANT-01`.
    pub rule: String,
    /// Where, such as `messages.3`.
    pub place: String,
    /// The provider's words.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, service, rule, place, message } = self;
        write!(f, "request {request} to {service}: {rule} at {place}: {message}")
    }
}

/// The requests so far. Numbering continues after it is emptied.
#[derive(Default)]
struct Diary {
    next: usize,
    heard: Vec<Heard>,
}

impl Diary {
    fn get_mut(&mut self, number: usize) -> Option<&mut Heard> {
        self.heard.iter_mut().rev().find(|heard| heard.number == number)
    }
}

/// The state that all connections of a server share.
struct Shared {
    config: Config,
    plan: Mutex<faults::Plan>,
    heard: Mutex<Diary>,
    violations: Mutex<Vec<Violation>>,
    guests: Mutex<copilot::Guests>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, copilot::Guests> {
        locked(&self.guests)
    }
}

/// A running server. It ends when it is dropped.
pub struct Loopback {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: Option<Listening>,
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Loopback {
    /// Starts a server.
    ///
    /// # Panics
    /// If there is no port for it.
    #[must_use]
    pub fn start(config: Config) -> Self {
        Self::try_start(config).expect("a server on 127.0.0.1 can be started")
    }

    /// Starts a server.
    ///
    /// # Errors
    /// If there is no port for it.
    pub fn try_start(config: Config) -> io::Result<Self> {
        let port = config.port;
        let shared = Arc::new(Shared {
            config,
            plan: Mutex::default(),
            heard: Mutex::default(),
            violations: Mutex::default(),
            guests: Mutex::default(),
        });
        let running = Listening::start(port, Arc::clone(&shared))?;
        Ok(Self { shared, address: running.address, running: Some(running) })
    }

    /// Its address, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address for a client of this service: the base URL in the client's own configuration.
    #[must_use]
    pub fn base(&self, service: Service) -> String {
        route::base(&self.url(), service)
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Heard> {
        locked(&self.shared.heard).heard.clone()
    }

    /// Everything that was wrong with them.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        locked(&self.shared.violations).clone()
    }

    /// The issued secrets, for another server.
    #[must_use]
    pub fn issued(&self) -> Issued {
        self.shared.config.issued.clone()
    }

    /// Forgets the requests and their faults, so that a long test does not keep them all.
    pub fn forget(&self) {
        locked(&self.shared.heard).heard.clear();
        locked(&self.shared.violations).clear();
    }

    /// Makes the next answer fail in this way; later calls queue further faults.
    pub fn fault(&self, fault: Fault) {
        self.faults(vec![fault]);
    }

    /// The next answer goes wrong in several ways.
    pub fn faults(&self, faults: Vec<Fault>) {
        locked(&self.shared.plan).push(faults);
    }

    /// Every answer goes wrong so.
    pub fn always(&self, fault: Fault) {
        locked(&self.shared.plan).always(fault);
    }

    /// Each answer, by its number from 0, goes wrong as the schedule says.
    pub fn schedule(&self, schedule: impl Fn(usize) -> Vec<Fault> + Send + 'static) {
        locked(&self.shared.plan).schedule(Box::new(schedule));
    }

    /// From now on nothing goes wrong.
    pub fn clear_faults(&self) {
        locked(&self.shared.plan).clear();
    }

    /// Makes all tokens of Copilot invalid.
    pub fn expire_tokens(&self) {
        self.shared.guests().expire();
    }

    /// Ends all connections and stops listening. Requests and secrets are kept.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Listens again, at the same address.
    ///
    /// # Errors
    /// If another process now uses the port.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.running = Some(Listening::start(self.address.port(), Arc::clone(&self.shared))?);
        Ok(())
    }

    /// Waits for ever, serving.
    pub fn serve(mut self) {
        if let Some(running) = self.running.take() {
            running.wait();
        }
    }
}
