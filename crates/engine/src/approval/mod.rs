//! Decides whether a tool call may run without asking a person.
//!
//! `rules` holds the allow and deny rules of the settings. Nothing here runs a tool or talks to a person.

pub mod rules;
