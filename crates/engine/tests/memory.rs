//! The memory that an endless answer takes before it is cut off. It runs alone in its process, because it measures the process's
//! peak.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fs, sync::Arc};

use rejoin_engine::{
    Conversation, New, ProviderChoice, SystemClock,
    auth::{Keys, SecretString},
    provider::{Provider, http::HttpOptions, registry::connect},
    tools::Tools,
    turn::{Stop, TurnError, TurnInput, TurnSettings, Worker},
};
use rejoin_store::{Access, Location, Store};
use testkit::loopback::{Config, Fault, Loopback, Service, brain::Say};

/// The size at which an answer is cut off in this test: large compared with everything else in the process.
const BOUND: usize = 24 << 20;

/// How many times the bound the process may grow by.
const MOST: usize = 4;

const SERVICES: &[(&str, Option<&str>, Service, &str)] = &[
    ("openai", Some("chat"), Service::OpenAi, ""),
    ("openai", Some("responses"), Service::OpenAi, ""),
    ("anthropic", None, Service::Anthropic, "/v1"),
];

/// The largest amount of memory that this process ever had, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Forgets the largest amount so far.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn reach(server: &Loopback, which: &(&str, Option<&str>, Service, &str)) -> Arc<dyn Provider> {
    let (name, api, service, version) = *which;
    let choice = ProviderChoice {
        provider: Some(name.to_owned()),
        api: api.map(str::to_owned),
        model: Some(String::from("a-model")),
        base_url: Some(server.base(service) + version),
        ..ProviderChoice::default()
    };
    let keys = Keys { given: Some(SecretString::from(String::from("sk-loopback"))), ..Keys::default() };
    let options = HttpOptions { longest_answer: BOUND, retries: 0, ..HttpOptions::default() };
    connect(&choice, &keys, &options).unwrap()
}

/// An endless answer is cut off at a bound, its beginning is kept, and all this takes a small multiple of the bound in memory.
#[test]
fn an_answer_without_end_takes_a_small_multiple_of_its_bound() {
    // Long words with something to escape in them, so that nothing can be shared with what came over the wire.
    let word = format!("{}\"\n ", "some words ".repeat(1500));
    let brain = move |_: &_| Say { text: word.repeat(80), ..Say::default() };
    let server = Loopback::start(Config { brain: Arc::new(brain), ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for which in SERVICES {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("chats.db"));
        let store: Arc<dyn Store> = rejoin_engine::open_store(&location, Access::Write).unwrap().into();
        let conversation =
            Conversation::create_with_clock(store, Arc::new(SystemClock), &New::default(), "test");
        let mut worker =
            Worker::new(conversation, reach(&server, which), Tools::default(), TurnSettings::default());
        server.fault(Fault::EndlessAnswer);
        forget_peak();
        let before = peak();
        let mut shown = 0;
        let mut sink = |event| {
            if let rejoin_engine::turn::Event::Text(text) = event {
                shown += text.len();
            }
        };
        let ended = runtime.block_on(worker.turn(TurnInput::from("go"), &mut sink, &Stop::new()));
        let grown = peak().saturating_sub(before);
        println!(
            "{} {:?}: {} MiB shown, {:.2} times the bound",
            which.0,
            which.1,
            shown >> 20,
            grown as f64 / BOUND as f64
        );
        assert!(matches!(ended, Err(TurnError::Provider { .. })), "{which:?}: {ended:?}");
        let kept = worker.conversation().messages().last().unwrap().content().unwrap().len();
        assert!(kept == shown && shown > BOUND / 2, "{which:?}: {kept} of {shown} bytes are kept");
        assert!(grown < MOST * BOUND, "{which:?}: {grown} bytes for a bound of {BOUND}");
    }
}
