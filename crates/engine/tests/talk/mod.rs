//! A tool to call, and what a provider may see.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rejoin_engine::{
    provider::Doing,
    tools::{Plan, RunningCall, Tool, ToolOutput, Tools},
    turn::Event,
};
use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Message, Raw, Role, ToolCall};

/// A tool that says what it was passed: at once, slowly, as an error, or never.
pub struct Echo {
    pub runs: AtomicUsize,
}

impl Tool for Echo {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration::function("echo", "Says it again.", Raw::new(r#"{"type":"object"}"#))
    }
    fn plan<'a>(&'a self, _arguments: &'a str) -> Doing<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> Doing<'a, ToolOutput> {
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
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// The steps of a turn that change what is stored, by name.
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
