//! Ollama, given by its host and a model.

use std::sync::Arc;

use rejoin_engine::{
    ProviderChoice,
    auth::Keys,
    provider::{Provider, ProviderError, http::HttpOptions, registry::connect},
};
use rejoin_record::{Message, Raw};

/// The name of the provider, and of its dialect.
const PROVIDER: &str = "ollama";

/// The address of Ollama, and the model that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OllamaConfig {
    /// The address, such as `http://localhost:11434`.
    pub host: String,
    /// The model, such as `llama3.2`.
    pub model: String,
}

impl OllamaConfig {
    /// The provider for it. Nothing is sent yet, and Ollama takes no key.
    ///
    /// # Errors
    /// If the host is not an address.
    pub fn provider(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        let wanted = ProviderChoice {
            provider: Some(PROVIDER.to_owned()),
            model: Some(self.model.clone()),
            base_url: Some(self.host.clone()),
            ..ProviderChoice::default()
        };
        connect(&wanted, &Keys::default(), &HttpOptions::default())
    }

    /// The messages in the form that Ollama gets: [`convert_messages`](super::convert_messages) in its dialect.
    #[must_use]
    pub fn convert_messages(&self, messages: &[Message]) -> Vec<Raw> {
        let dialect = PROVIDER.parse().expect("BUG: Ollama has a dialect");
        super::convert_messages(dialect, messages)
    }
}
