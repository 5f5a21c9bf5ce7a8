//! From a session to a request body: repair, then encode.

use rejoin_record::Reasoning;
use rejoin_view::{Finding, OnBroken, Refused, SoundView, repair_or_refuse};

use crate::{
    context::Context,
    session::Session,
    wire::{TooLarge, registry::Dialect},
};

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The model, if one is named.
    pub model: Option<&'a str>,
    /// What surrounds the messages.
    pub context: &'a Context,
    /// Whether a trailing assistant message gets the closing user message that some dialects demand. A session file does
    /// without: whoever goes on with it speaks next.
    pub closes: bool,
}

impl<'a> Target<'a> {
    /// A request of what stands in this context, to whatever model it names.
    #[must_use]
    pub fn of(context: &'a Context) -> Self {
        Self { model: None, context, closes: true }
    }

    /// Whether reasoning that the source carries was issued where the request goes.
    #[must_use]
    pub fn keeps_reasoning_of(&self, dialect: Dialect) -> bool {
        let same_model = match (self.model, self.context.model()) {
            (Some(target), Some(source)) => target == source,
            _ => true,
        };
        self.context.dialect == Some(dialect) && same_model
    }

    /// Whether this very reasoning came from the model that the request goes to. One conversation may have used several.
    #[must_use]
    pub fn is_by_its_model(&self, reasoning: &Reasoning) -> bool {
        let Some(origin) = &reasoning.origin.model else { return true };
        let context = self.context.model();
        self.model.or(context.as_deref()).is_none_or(|model| model == origin.as_str())
    }
}

/// A request body, and everything that was found and done.
#[derive(Debug, Clone)]
pub struct Converted {
    /// The body, JSON.
    pub body: String,
    /// Findings of reading, repair and encoding, at source positions.
    pub findings: Vec<Finding>,
}

/// Why there is no body.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// The conversation is not sound and must not be repaired.
    #[error("the conversation is broken, and repairing it is turned off")]
    Refused(Vec<Finding>),
    /// The provider takes nothing this large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Turns a session into a request body of a dialect.
///
/// # Errors
/// If the setting refuses a broken conversation, or the provider's size limits do.
pub fn convert(
    session: &Session,
    dialect: Dialect,
    model: Option<&str>,
    on_broken: OnBroken,
) -> Result<Converted, ConvertError> {
    repaired(session, on_broken, |view| {
        let target = Target { model, ..Target::of(&session.context) };
        let encoded = dialect.wire().encode(view, &target)?;
        Ok((encoded.body, encoded.findings))
    })
}

/// Repairs a session and makes something of the view; findings get their places in the source.
pub(crate) fn repaired(
    session: &Session,
    on_broken: OnBroken,
    make: impl FnOnce(&SoundView) -> Result<(String, Vec<Finding>), TooLarge>,
) -> Result<Converted, ConvertError> {
    let refused = |findings: Vec<Finding>| {
        let found = findings.into_iter().map(|finding| session.place(finding));
        ConvertError::Refused(session.findings.iter().cloned().chain(found).collect())
    };
    let repaired =
        repair_or_refuse(&session.history(), on_broken).map_err(|Refused { findings }| refused(findings))?;
    if on_broken == OnBroken::Refuse && session.findings.iter().any(Finding::is_problem) {
        return Err(refused(repaired.findings));
    }
    let (body, notes) = make(&repaired.view).map_err(|mut error| {
        error.at = session.source_position(error.at);
        error
    })?;
    let mut findings = session.findings.clone();
    findings.extend(repaired.findings.into_iter().chain(notes).map(|finding| session.place(finding)));
    Ok(Converted { body, findings })
}
