//! rejoin as a library: mend a broken request body in one call, or work with messages, views and dialects.
//!
//! ```
//! use rejoin::{Dialect, mend};
//!
//! // An agent was stopped while a tool ran: the call has no result, and the provider answers 400.
//! let body = r#"{"messages":[
//!     {"role":"user","content":"List the files."},
//!     {"role":"assistant","content":null,"tool_calls":[
//!         {"id":"call_1","type":"function","function":{"name":"list","arguments":"{}"}}]},
//!     {"role":"user","content":"Are you still there?"}]}"#;
//!
//! let mended = mend(Dialect::OpenAiChat, body)?;
//! assert!(mended.body.contains("no result was recorded"));
//! assert_eq!(mended.findings[0].rule.name(), "unanswered-call");
//! # Ok::<(), rejoin::MendError>(())
//! ```
//!
//! To keep conversations, open a [`Store`] and continue in a [`Conversation`]: an appended message is durable when `say` returns,
//! or the result says that it is not. In whatever state the conversation is found next time, a model gets a sound one.
//!
//! ```
//! # #[cfg(feature = "store")] {
//! use std::sync::Arc;
//! use rejoin::{Access, Conversation, Dialect, Message, New, OnBroken, Store, ToolCall, open_store};
//!
//! // `sqlite:PATH` and `jsonl:FOLDER` outlive the process; this one does not.
//! let location = "memory:".parse()?;
//! let store: Arc<dyn Store> = open_store(&location, Access::Write)?.into();
//!
//! let mut conversation = Conversation::create(store.clone(), &New::default(), "my agent");
//! conversation.say(Message::user("List the files."));
//! conversation.say(Message::assistant_with_tools(vec![ToolCall::new("call_1", "list", "{}")]));
//! let id = conversation.id();
//! drop(conversation); // The agent is killed before the tool has answered.
//!
//! let conversation = Conversation::open(store, id, "my agent")?;
//! let request = conversation.request(Dialect::Anthropic, Some("claude-x"), OnBroken::Keep)?;
//! assert!(request.body.contains("tool_result"));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To talk with a model, build an [`Agent`] from a provider and tools; or let a [`ConversationManager`] keep all conversations of
//! a program.
//!
//! ```
//! # #[cfg(feature = "agent")]
//! # async fn example() -> Result<(), rejoin::TurnError> {
//! use std::sync::Arc;
//! use rejoin::{Agent, FunctionTool, Message, Offline, ToolCall, Tools, serde_json::json};
//!
//! // Another agent was killed while its tool ran. Its messages are taken over as they are.
//! let history = vec![
//!     Message::user("my name is Alice"),
//!     Message::assistant_with_tools(vec![ToolCall::new("call_1", "look_up", "{}")]),
//! ];
//! let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}});
//! let calculate = FunctionTool::new("calculate", "Does sums.", parameters, |arguments| async move {
//!     match arguments.string("expression")? {
//!         "6 * 7" => Ok("42"),
//!         other => Err(rejoin::ToolOutput::error(format!("{other} is too hard"))),
//!     }
//! });
//! let mut agent = Agent::builder(Arc::new(Offline::default())) // no network; see `examples/http.rs` for a model
//!     .history(history)
//!     .tools(Tools::default().with(calculate))
//!     .build();
//! let turned = agent.ask("What is my name, and what is 6 * 7?").await?;
//! assert!(turned.response.contains("Alice") && turned.response.contains("42"));
//! assert_eq!(turned.messages.len(), 4); // The new ones: the question, a call, its result, the answer.
//! # Ok(())
//! # }
//! # #[cfg(feature = "agent")]
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! `examples/` has more: `http.rs` (a model behind HTTP), `agent.rs` (an agent with its own tool), `manager.rs` (events and
//! resuming), `scripted.rs` (testing an agent), `store.rs`, `recover.rs` (a damaged file) and `turns.rs` (files of turns).
//!
//! This crate is the public entrance and re-exports the crates behind it. Use [`mend`](mend()) to repair a broken body, and
//! [`check`] to find out what a provider would answer. [`compat`] has the names that people know from earlier agents, such as
//! functions on plain messages.

#[cfg(feature = "store")]
pub mod active;
#[cfg(feature = "agent")]
pub mod answering;
#[cfg(feature = "agent")]
pub mod attaching;
pub mod check;
pub mod compat;
pub mod destination;
pub mod doctor;
#[cfg(feature = "agent")]
pub mod harmless;
pub mod history;
#[cfg(feature = "files")]
pub mod import;
#[cfg(feature = "agent")]
pub mod installation;
#[cfg(feature = "agent")]
pub mod instructions;
#[cfg(feature = "store")]
pub mod list;
#[cfg(feature = "mcp")]
pub mod mcp;
mod mend;
#[cfg(feature = "agent")]
pub mod models;
pub mod moment;
#[cfg(feature = "files")]
pub mod places;
#[cfg(feature = "agent")]
pub mod premises;
#[cfg(feature = "agent")]
pub mod prompts;
#[cfg(feature = "agent")]
pub mod removing;
#[cfg(feature = "agent")]
pub mod resume;
pub mod shape;
#[cfg(feature = "files")]
pub mod source;
#[cfg(feature = "agent")]
pub mod stats;

/// The choice of who answers, and the steps that every provider's requests go through before they are sent.
pub mod providers {
    #[cfg(feature = "agent")]
    pub use rejoin_engine::provider::*;

    pub use crate::compat::validate_message_sequence;
}

pub use mend::{MendError, Mended, mend};
pub use rejoin_checkers::{self as checkers, Verdict, Violation};
#[cfg(feature = "testing")]
pub use rejoin_engine::provider::scripted::{ScriptedProvider, Step};
/// Runs shell commands confined to a workspace.
#[cfg(feature = "agent")]
pub use rejoin_engine::sandbox;
#[cfg(feature = "store")]
pub use rejoin_engine::{
    self as engine, Appended, Clock, Conversation, EngineError, Mode, New, PruneReport, Recorded, Saved,
    SystemClock, Window, Writer, open_store,
};
#[cfg(feature = "agent")]
pub use rejoin_engine::{
    Agent, AnswerSettings, ConversationManager, Effort, ManagerError, ProviderChoice, RunningConversation,
    agent::{AgentBuilder, NewConversation},
    approval, changes,
    provider::{
        BoxFuture, CompletionResponse, Endpoint, Provider, ProviderError, ProviderFault, ServiceAddress,
        offline::Offline,
    },
    serde_json,
    tools::{
        ApplyError, ExpectedContent, FileChange, FunctionTool, PathRefused, Plan, PlannedChange, PlannedFile,
        RestoreOutcome, RunningCall, Tool, ToolArguments, ToolOutput, ToolSource, Tools, Workspace,
    },
    turn::{
        CompactMode, Compaction, Ending, Event, Limits, Stop, ToolLimits, TurnError, TurnInput, TurnOutcome,
        TurnSettings, WindowSettings, Worker,
    },
};
pub use rejoin_formats::{
    Choice, Context, ConvertError, Converted, Dialect, Input, ReadError, Session, Target, accounting,
    convert, convert_with, image_type,
    input::{Companions, Files, InputError, Stream},
    session::{self, Aside},
    sessions, wire,
};
#[cfg(feature = "agent")]
pub use rejoin_formats::{context::ToolDeclaration, wire::stream::Usage};
pub use rejoin_record::{
    self as record, Arguments, ArgumentsClass, Block, BlockKind, CallId, ConversationId, Message, Raw, Role,
    Text, Timestamp, ToolCall, ToolResult,
};
#[cfg(feature = "store")]
pub use rejoin_store::{self as store, Access, Damage, Location, Store, StoreError};
pub use rejoin_view::{
    self as view, Action, Fate, Finding, History, OnBroken, Position, Repaired, Rule, Severity, SoundView,
    TokenCounter, repair, window::PrunePolicy,
};
