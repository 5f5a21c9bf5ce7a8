//! `mend`: turns a request body into one that the provider accepts.

use rejoin_formats::{
    ConvertError, Dialect, Input, ReadError, convert, input::InputError, sessions, wire::TooLarge,
};
use rejoin_view::{Finding, OnBroken};

/// A mended body.
#[derive(Debug, Clone)]
pub struct Mended {
    /// The body, JSON. Fields other than the messages come back unchanged; stub tools may be added.
    pub body: String,
    /// The findings, with what was done about each.
    pub findings: Vec<Finding>,
}

/// Why a body cannot be mended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MendError {
    /// It cannot be parsed.
    #[error("the body cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// It exceeds the provider's size limit, mended or not.
    #[error("the body is too large: {0}")]
    TooLarge(TooLarge),
}

/// Turns a request body, or a bare list of messages, into a body that the provider accepts. No text or result is lost, no sound
/// part is changed, and every change has a finding.
///
/// # Errors
/// If the bytes are not a body of the dialect, or exceed the provider's size limit.
///
/// ```
/// let body = r#"[{"role":"assistant","content":"Where was I?"}]"#;
/// let mended = rejoin::mend(rejoin::Dialect::Anthropic, body)?;
/// assert!(mended.body.starts_with(r#"{"messages":[{"role":"user""#));
/// # Ok::<(), rejoin::MendError>(())
/// ```
pub fn mend(dialect: Dialect, body: impl AsRef<[u8]>) -> Result<Mended, MendError> {
    let input = Input::new("body", body.as_ref()).map_err(|error: InputError| ReadError::Input(error))?;
    let format = sessions::named(dialect.name());
    let sessions = sessions::read(&input, format)?;
    let [session] = &sessions[..] else {
        return Err(ReadError::NoConversation("it holds more than one conversation").into());
    };
    match convert(session, dialect, None, OnBroken::Keep) {
        Ok(converted) => Ok(Mended { body: converted.body, findings: converted.findings }),
        Err(ConvertError::TooLarge(error)) => Err(MendError::TooLarge(error)),
        // `Keep` never refuses; only callers who ask for refusal get it.
        Err(ConvertError::Refused(findings)) => Ok(Mended { body: input.text.to_string(), findings }),
    }
}
