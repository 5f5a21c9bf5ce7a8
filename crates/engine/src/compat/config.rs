//! The configuration of a chat by its old name.

use serde::{Deserialize, Serialize};

/// What a chat records besides messages. On the command line this is the setting `persist_special_commands`.
///
/// ```
/// use rejoin_engine::compat::Config;
///
/// let config: Config = rejoin_engine::serde_json::from_str("{\"persist_special_commands\": false}")?;
/// assert!(!config.should_persist_commands());
/// # Ok::<(), rejoin_engine::serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Whether /commands are kept in the history; true if the field is missing.
    #[serde(default = "yes")]
    pub persist_special_commands: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { persist_special_commands: yes() }
    }
}

impl Config {
    /// Whether /commands are kept in the history.
    #[must_use]
    pub fn should_persist_commands(&self) -> bool {
        self.persist_special_commands
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-14, S0-44: on by default, on if the field is missing, off if it is false.
    #[test]
    fn commands_are_kept_unless_that_is_off() {
        let read = |text: &str| serde_json::from_str::<Config>(text).unwrap().should_persist_commands();
        assert!(Config::default().should_persist_commands());
        assert!(read("{}"));
        assert!(read("{\"persist_special_commands\": true}"));
        assert!(!read("{\"persist_special_commands\": false}"));
        assert!(serde_json::from_str::<Config>("{\"persist_special_commands\": \"no\"}").is_err());
    }
}
