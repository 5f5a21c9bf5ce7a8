//! A conversation at work: a provider that answers as its dialect would, a tool, and turns of four messages and two requests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use rejoin_engine::{
    Conversation, New, SystemClock,
    context::ToolDeclaration,
    provider::{BoxFuture, Endpoint, Listener, Provider, Request, Sending},
    tools::{Plan, RunningCall, Tool, ToolOutput, Tools},
    turn::{Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_formats::{
    Dialect, Input as Source, convert,
    sessions::registry,
    wire::stream::{End, Received, StopReason as Reason},
};
use rejoin_record::{Block, Message, Raw, Role, ToolCall};
use rejoin_store::Store;

/// The number of messages in a turn: a user message, a call, its result, an answer.
pub const TURN: usize = 4;

/// Text like that of programs and people: lines of words, some quotes. The same for the same number.
pub fn text(number: usize, length: usize) -> String {
    let mut state = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = String::with_capacity(length + 40);
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("    let {:x} = \"{:x}\";\n", state % 0xff_ffff, state >> 44));
    }
    text
}

/// A tool whose results are 1.5 KB.
struct Look;

impl Tool for Look {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
        ToolDeclaration::function("look", "Looks at a file.", Raw::new(schema))
    }

    fn plan<'a>(&'a self, _arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        let arguments = call.arguments;
        let output = ToolOutput::of(text(arguments.len(), 1_500));
        Box::pin(async { output })
    }
}

/// Answers every first request with a call and every second one with words. Notes when it was asked and when it answered.
pub struct BenchProvider {
    endpoint: Endpoint,
    asked: AtomicUsize,
    ready: Mutex<Vec<Message>>,
    pub noted: Mutex<Noted>,
}

/// The measurements of one turn.
#[derive(Default)]
pub struct Noted {
    pub asked: Vec<Instant>,
    pub answered: Vec<Instant>,
    pub bytes: usize,
}

impl BenchProvider {
    fn new(dialect: Dialect) -> Self {
        let endpoint = Endpoint {
            provider: String::from("bench"),
            dialect: Some(dialect),
            model: String::from("model"),
            ..Endpoint::default()
        };
        Self { endpoint, asked: AtomicUsize::new(0), ready: Mutex::default(), noted: Mutex::default() }
    }

    /// Makes the answers of the next turn before anything is measured.
    fn prepare(&self) {
        let number = self.asked.fetch_add(2, Ordering::Relaxed);
        let dialect = self.endpoint.dialect.unwrap();
        let arguments = format!("{{\"path\":\"src/{number}.rs\",\"why\":{:?}}}", text(number, 600));
        let call = Block::call(ToolCall::new(format!("call_{number}"), "look", arguments));
        let calls = Message::new(Role::Assistant, vec![Block::text(text(number + 1, 500)), call]);
        let last = Message::assistant(text(number + 2, 1_200));
        *self.ready.lock().unwrap() = vec![as_answered(dialect, last), as_answered(dialect, calls)];
        *self.noted.lock().unwrap() = Noted::default();
    }
}

/// A message as a provider of the dialect returns it, with its own item.
fn as_answered(dialect: Dialect, message: Message) -> Message {
    let id = message.tool_calls().next().map(|call| call.id.clone());
    let mut messages = vec![Message::user("go"), message.clone()];
    messages.extend(id.map(|id| Message::tool(id, "done")));
    let mut conversation = Conversation::in_memory(Arc::new(SystemClock), &New::default());
    for message in messages {
        conversation.say(message);
    }
    let body =
        convert(conversation.session(), dialect, Some("model"), rejoin_view::OnBroken::Keep).unwrap().body;
    let source = Source::new("answer", body.as_bytes()).unwrap();
    let sessions = registry::read(&source, registry::named(dialect.name())).unwrap_or_default();
    let read = sessions.first().and_then(|session| session.messages.get(1)).map(|read| Message::clone(read));
    let read = read.filter(|read| read.role == Role::Assistant && read.native.is_some());
    let same = read.filter(|read| read.tool_calls().count() == message.tool_calls().count());
    same.unwrap_or(message)
}

impl Provider for BenchProvider {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn send<'a>(&'a self, request: &'a Request, _: Listener<'a>) -> Sending<'a> {
        let asked = Instant::now();
        let mut noted = self.noted.lock().unwrap();
        noted.asked.push(asked);
        noted.bytes = request.body.as_ref().map_or(0, rejoin_formats::draft::Body::len);
        let message = self.ready.lock().unwrap().pop();
        let received = Received { message, end: End::Complete(Reason::Done), model: None, usage: None };
        noted.answered.push(Instant::now());
        Box::pin(async { Ok(received) })
    }
}

/// A worker and its provider.
pub struct Talk {
    pub worker: Worker,
    pub provider: Arc<BenchProvider>,
    runtime: tokio::runtime::Runtime,
}

impl Talk {
    /// A conversation that continues.
    pub fn with(conversation: Conversation, dialect: Dialect) -> Self {
        let provider = Arc::new(BenchProvider::new(dialect));
        // Ids of calls that were used are not used again.
        provider.asked.store(conversation.entries().len(), Ordering::Relaxed);
        let mut tools = Tools::default();
        tools.add(Arc::new(Look));
        let settings =
            TurnSettings { system: Some(String::from("You work on files.")), ..TurnSettings::default() };
        let worker = Worker::new(conversation, provider.clone(), tools, settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { worker, provider, runtime }
    }

    /// A new conversation with this many messages.
    pub fn of(store: Arc<dyn Store>, dialect: Dialect, messages: usize) -> Self {
        let conversation =
            Conversation::create_with_clock(store, Arc::new(SystemClock), &New::default(), "bench");
        let mut talk = Self::with(conversation, dialect);
        for number in 0..messages / TURN {
            talk.turn(number);
        }
        talk
    }

    /// One turn. Says when it began.
    pub fn turn(&mut self, number: usize) -> Instant {
        self.provider.prepare();
        let said = TurnInput::from(text(number, 1_000));
        let began = Instant::now();
        let turned = self.runtime.block_on(self.worker.turn(said, &mut |_| {}, &Stop::new()));
        assert_eq!(turned.unwrap().messages.len(), TURN);
        began
    }
}
