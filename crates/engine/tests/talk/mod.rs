//! A tool to call, and the requests that a provider may see.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rejoin_engine::{
    AnswerSettings, Effort, ProviderChoice,
    auth::{Keys, SecretString},
    provider::{
        BoxFuture, Provider,
        http::{Addresses, HttpOptions},
        registry::connect,
    },
    tools::{Plan, RunningCall, Tool, ToolOutput, Tools},
    turn::Event,
};
use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Message, Raw, Role, ToolCall};
use testkit::loopback::{Loopback, Service};

/// A tool that returns its arguments: at once, slowly, as an error, or never.
pub struct Echo {
    pub runs: AtomicUsize,
}

impl Tool for Echo {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration::function("echo", "Says it again.", Raw::new(r#"{"type":"object"}"#))
    }
    fn plan<'a>(&'a self, _arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        let arguments = call.arguments;
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if arguments.contains("slow") {
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
            }
            if arguments.contains("never") {
                std::future::pending::<()>().await;
            }
            if arguments.contains("fails") {
                ToolOutput::error("it failed")
            } else {
                ToolOutput::of(arguments)
            }
        })
    }
}

pub fn echo() -> (Arc<Echo>, Tools) {
    let echo = Arc::new(Echo { runs: AtomicUsize::new(0) });
    let mut tools = Tools::default();
    tools.add(echo.clone());
    (echo, tools)
}

pub fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, "echo", arguments)
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The name of an event that changes the store; `None` for others.
pub fn step_name(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Asking { .. } => "asking",
        Event::Answered { .. } => "answered",
        Event::CallStarted { .. } => "call started",
        Event::CallEnded { .. } => "call ended",
        Event::Ended { .. } => "ended",
        _ => return None,
    })
}

/// Whether every call has exactly one result directly after it and every result its call, written without the repair pass.
pub fn assert_paired(messages: &[Message]) {
    let mut waiting: Vec<String> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let id = message.tool_call_id().unwrap().to_string();
            assert!(!waiting.is_empty(), "an orphan: {id}");
            assert_eq!(waiting.remove(0), id);
        } else {
            assert!(waiting.is_empty(), "not answered: {waiting:?}");
            waiting = message.tool_calls().map(|call| call.id.to_string()).collect();
        }
    }
    assert!(waiting.is_empty(), "not answered: {waiting:?}");
}

pub fn roles(messages: &[Arc<Message>]) -> Vec<&str> {
    messages.iter().map(|message| message.role.as_str()).collect()
}

/// A provider choice for the loopback server.
pub fn reach(server: &Loopback, which: &(&str, Option<&str>, Service, &str)) -> Arc<dyn Provider> {
    reach_within(server, which, Duration::from_secs(20))
}

/// A provider choice with a limit on the provider's silence.
pub fn reach_within(
    server: &Loopback,
    which: &(&str, Option<&str>, Service, &str),
    read_timeout: Duration,
) -> Arc<dyn Provider> {
    let (name, api, service, model) = *which;
    let version = match service {
        Service::Anthropic => "/v1",
        Service::Gemini => "/v1beta",
        _ => "",
    };
    let github = server.base(Service::Copilot);
    let options = HttpOptions {
        first_wait: Duration::from_millis(5),
        longest_wait: Duration::from_millis(20),
        read_timeout,
        addresses: Addresses { github: github.clone(), github_api: github, ..Addresses::default() },
        ..HttpOptions::default()
    };
    let choice = ProviderChoice {
        provider: Some(name.to_owned()),
        api: api.map(str::to_owned),
        model: Some(model.to_owned()),
        base_url: Some(server.base(service) + version),
        answer: AnswerSettings { max_tokens: None, effort: Some(Effort::High) },
    };
    let key = if service == Service::Copilot { "gho_loopback_user" } else { "sk-loopback" };
    let keys = Keys { given: Some(SecretString::from(key.to_owned())), ..Keys::default() };
    connect(&choice, &keys, &options).unwrap()
}
