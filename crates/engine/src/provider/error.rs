//! Errors of providers. They tell programs whether to retry, and users what to do.
//!
//! No error contains a secret: keys are removed from a provider's message before it becomes part of an error.

use std::time::Duration;

use rejoin_formats::wire::{
    TooLarge,
    stream::{End, ReportedFault, StopReason},
};

/// An error that a provider reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFault {
    /// The provider's name.
    pub provider: String,
    /// The HTTP status; `None` if it failed in the middle of an answer.
    pub status: Option<u16>,
    /// The provider's name for the kind of error.
    pub kind: Option<String>,
    /// The provider's message.
    pub message: String,
}

impl std::fmt::Display for ProviderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.provider)?;
        match self.status {
            Some(status) => write!(f, " answered {status}: {}", self.message),
            None => write!(f, " stopped: {}", self.message),
        }
    }
}

/// The conversation last went to an address that the user has not named for this provider on this machine, or not with the current
/// key.
///
/// A conversation may come from another machine. Using its address could send a key to a stranger; using the provider's own address
/// instead would send text there that was meant for another server. So nothing is sent until the user names an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this conversation went to {base_url}, an address that you have {}",
    if *used_with_another_key {
        format!("used for {provider} on this machine, but not with its current key")
    } else {
        format!("not used for {provider} on this machine")
    }
)]
pub struct UntrustedAddress {
    /// The provider.
    pub provider: String,
    /// The address, without secrets.
    pub base_url: String,
    /// Whether the user did name the address for this provider, but with another key or none.
    pub used_with_another_key: bool,
}

/// Why a provider did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Only the conversation names the address, and it is not trusted.
    #[error(transparent)]
    UntrustedAddress(#[from] UntrustedAddress),
    /// The provider does not accept the key.
    #[error("{0}")]
    Unauthorized(ProviderFault),
    /// There is no key to send.
    #[error("there is no key for {provider}")]
    NoKey {
        /// The provider.
        provider: String,
        /// How the user can provide a key.
        hint: String,
    },
    /// No model is named, and the provider has no default.
    #[error("no model is named for {provider}")]
    NoModel {
        /// The provider.
        provider: String,
    },
    /// The provider does not know the model or the address.
    #[error("{0}")]
    NotFound(ProviderFault),
    /// There were too many requests, or the account has no credit left.
    #[error("{fault}")]
    RateLimited {
        /// The provider's error.
        fault: ProviderFault,
        /// How long the provider asks to wait, if it says so.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded or failing.
    #[error("{fault}")]
    Unavailable {
        /// The provider's error.
        fault: ProviderFault,
        /// How long the provider asks to wait, if it says so.
        retry_after: Option<Duration>,
    },
    /// The conversation is longer than the model's window.
    #[error("{0}")]
    ContextLength(ProviderFault),
    /// The provider refuses the request: its sequence of messages, or something else in it.
    #[error("{0}")]
    Refused(ProviderFault),
    /// The request is larger than the provider accepts. It was not sent.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// No server answers at the address.
    #[error("{provider} cannot be reached at {url}: {why}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// The address.
        url: String,
        /// The system's message.
        why: String,
    },
    /// The provider was silent for too long.
    #[error("{provider} sent nothing for {} seconds", .after.as_secs())]
    TimedOut {
        /// The provider.
        provider: String,
        /// How long it had been silent.
        after: Duration,
    },
    /// The response is not an answer.
    #[error("the response is not a valid answer: {0}")]
    Garbage(String),
    /// The connection ended before the answer was complete.
    #[error("the answer was cut off")]
    Cut,
    /// The answer has no content.
    #[error("the answer was empty")]
    Empty,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

impl ProviderError {
    /// The reason why the model stopped.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub(crate) fn unless_complete(end: End, provider: &str) -> Result<StopReason, Self> {
        let ReportedFault { kind, message } = match end {
            End::Complete(stop) => return Ok(stop),
            End::Cut => return Err(Self::Cut),
            End::Garbage(why) => return Err(Self::Garbage(why)),
            End::Failed(fault) => fault,
        };
        let fault = ProviderFault { provider: provider.to_owned(), status: None, kind, message };
        Err(Self::Unavailable { fault, retry_after: None })
    }

    /// How long the provider asks to wait before another attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UntrustedAddress(_) => "UNTRUSTED_ADDRESS",
            Self::Unauthorized(_) => "UNAUTHORIZED",
            Self::NoKey { .. } => "NO_KEY",
            Self::NoModel { .. } => "NO_MODEL",
            Self::NotFound(_) => "NOT_FOUND",
            Self::RateLimited { .. } => "RATE_LIMITED",
            Self::Unavailable { .. } => "UNAVAILABLE",
            Self::ContextLength(_) => "CONTEXT_LENGTH",
            Self::Refused(_) => "REFUSED",
            Self::TooLarge(_) => "TOO_LARGE",
            Self::Unreachable { .. } => "UNREACHABLE",
            Self::TimedOut { .. } => "TIMED_OUT",
            Self::Garbage(_) => "GARBAGE",
            Self::Cut => "CUT",
            Self::Empty => "EMPTY_ANSWER",
            Self::Other(_) => "PROVIDER",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Unavailable { .. }
                | Self::Unreachable { .. }
                | Self::TimedOut { .. }
        )
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UntrustedAddress(_) => String::from(
                "if your key may go there, say so with `--base-url` and that address; `--provider` names another provider",
            ),
            Self::NoKey { hint, .. } => hint.clone(),
            Self::Unauthorized(fault) => {
                format!(
                    "check the key: `rejoin auth status`; a new one: `rejoin auth login {}`",
                    fault.provider
                )
            }
            Self::NoModel { provider } => {
                format!("name one with `--model`; `rejoin models list --provider {provider}` lists them")
            }
            Self::NotFound(fault) => {
                format!("list the models: `rejoin models list --provider {}`", fault.provider)
            }
            Self::RateLimited { retry_after: Some(time), .. } => {
                format!(
                    "wait {} seconds, as the provider asks, then `rejoin resume`; nothing is lost",
                    time.as_secs()
                )
            }
            Self::RateLimited { .. } => String::from("wait a little, then `rejoin resume`; nothing is lost"),
            Self::Unavailable { .. } | Self::Cut | Self::TimedOut { .. } | Self::Empty => {
                String::from("`rejoin resume` continues; nothing is lost")
            }
            Self::TooLarge(_) => String::from(
                "send less text, or several messages; the message is kept on a branch, and the conversation continues from before it",
            ),
            Self::ContextLength(_) => String::from(
                "the conversation is too long for this model: `rejoin prune --keep-last 0` leaves out old tool results, `rejoin compact` \
                 summarises older messages, and `--model` chooses a model with a larger window",
            ),
            Self::Refused(_) => {
                String::from("`rejoin check @` says what is unusual in the conversation; nothing is lost")
            }
            Self::Unreachable { .. } => String::from("check the network and `--base-url`; nothing is lost"),
            Self::Garbage(_) => String::from("is `--base-url` the address of this provider's API?"),
            Self::Other(_) => return None,
        })
    }
}
