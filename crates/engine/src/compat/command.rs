//! Changes to a conversation as values that programs can send, log and run later.

use std::{fmt::Display, str::FromStr};

use rejoin_record::{CallId, EntryId, Text, ToolResult};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    conversation::{Appended, Conversation},
    error::EngineError,
};

/// A change to a conversation. As JSON it is an object with one field, the name of the change.
///
/// ```
/// use rejoin_engine::compat::StateCommand;
///
/// let json = r#"{"AddToolMessage":{"parent":"01890a5d-ac96-774b-bcce-b302099a8057","call_id":"call_1","text":"42","is_error":false}}"#;
/// let command: StateCommand = rejoin_engine::serde_json::from_str(json)?;
/// assert_eq!(rejoin_engine::serde_json::to_string(&command)?, json);
/// # Ok::<(), rejoin_engine::serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateCommand {
    /// Adds the result of a tool.
    AddToolMessage {
        /// The entry of the message that called the tool.
        #[serde(serialize_with = "write", deserialize_with = "parse")]
        parent: EntryId,
        /// The call that the result answers.
        #[serde(serialize_with = "write", deserialize_with = "read")]
        call_id: CallId,
        /// The tool's output.
        #[serde(serialize_with = "write", deserialize_with = "read")]
        text: Text,
        /// Whether the tool failed.
        is_error: bool,
    },
}

impl StateCommand {
    /// The name of the kind of command.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddToolMessage { .. } => "AddToolMessage",
        }
    }
}

impl Conversation {
    /// Runs a command.
    ///
    /// # Errors
    /// [`EngineError::NoSuchMessage`] if the entry that it names does not exist.
    pub fn dispatch(&mut self, command: StateCommand) -> Result<Appended, EngineError> {
        match command {
            StateCommand::AddToolMessage { parent, call_id, text, is_error } => {
                let result = ToolResult { is_error, ..ToolResult::new(call_id, text) };
                self.add_result(parent, result)
            }
        }
    }
}

fn write<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn read<'d, T: From<String>, D: Deserializer<'d>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer).map(T::from)
}

fn parse<'d, T: FromStr<Err: Display>, D: Deserializer<'d>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
