//! `mend`: a request body in, one that the provider accepts out.

use rejoin_formats::{
    ConvertError, Dialect, Input, ReadError, convert, input::InputError, sessions, wire::TooLarge,
};
use rejoin_view::{Finding, OnBroken};

/// A mended body.
#[derive(Debug, Clone)]
pub struct Mended {
    /// The body, JSON. Fields other than the messages come back unchanged; stub tools may be added.
    pub body: String,
    /// What was found, and what was done about it.
    pub findings: Vec<Finding>,
}

/// Why a body cannot be mended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MendError {
    /// It cannot be read at all.
    #[error("the body cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// The provider takes nothing this large, mended or not.
    #[error("the body is too large: {0}")]
    TooLarge(TooLarge),
}

/// Turns a request body, or a bare list of messages, into a body that the provider accepts. Nothing that was said or that
/// ran is lost, nothing that was sound is changed, and every change has a finding.
///
/// # Errors
/// If the bytes are not a body of the dialect, or more than the provider takes.
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
        // Refusing is for callers who ask for it; `Keep` never does.
        Err(ConvertError::Refused(findings)) => Ok(Mended { body: input.text.to_string(), findings }),
    }
}
