//! Which request bodies each provider refuses, and in which words.
//!
//! There is one folder per dialect: tables of fields, types and patterns (`settings.rs`), and the rules across messages (`mod.rs`).
//! A checker reads raw JSON, shares no code with the codec of its dialect, and repairs nothing; if the provider's behaviour is not
//! known for certain, it refuses. This crate depends on no other crate of the workspace, so that it can judge all of them.
//!
//! To add a dialect, add a folder and a line to `registry.rs`.

mod anthropic;
mod bedrock;
mod body;
mod check;
#[cfg(test)]
mod conformance_tests;
mod gemini;
mod media;
mod mistral;
mod ollama;
mod openai;
mod openai_chat;
mod openai_responses;
mod registry;
mod rules;
#[cfg(test)]
mod settings_tests;
mod shape;
mod turns;
mod values;
mod violation;
mod words;

/// The imports of every dialect's rules.
mod prelude {
    pub(crate) use serde_json::Value;

    pub(crate) use crate::{
        Extent,
        check::{At, Check, Dialect, Provider, dialect},
        media,
        shape::{FaultKind, Row},
        values::*,
        words::{self, bracketed, kind_of},
    };
}

pub use registry::{CHECKERS, Checker, Extent, Verdict, named};
pub use rules::{ProviderRule, RULES, rule_named};
pub use violation::Violation;
