//! From a session to a request body: repair, then encode.

use std::sync::Arc;

use rejoin_record::{Origin, Reasoning, Text};
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
    /// The most tokens that the answer may have, if the caller says; otherwise what the context says.
    pub max_tokens: Option<u64>,
    /// What surrounds the messages.
    pub context: &'a Context,
    /// Whether a trailing assistant message gets the closing user message that some dialects demand. A session file does
    /// without: whoever goes on with it speaks next.
    pub closes: bool,
    /// What becomes of cache marks.
    pub marks: Marks,
    /// Who answers, if that is known: reasoning that was issued elsewhere does not go there.
    pub issuer: Option<&'a Origin>,
}

/// What becomes of cache marks, where a dialect has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marks {
    /// Those of the source stay, as many as the provider takes.
    #[default]
    AsWritten,
    /// There are none.
    LeftOut,
    /// They are placed again: at the end of what stands before the messages, and of the last two user messages.
    Placed,
}

impl<'a> Target<'a> {
    /// A request of what stands in this context, to whatever model it names.
    #[must_use]
    pub fn of(context: &'a Context) -> Self {
        Self { model: None, max_tokens: None, context, closes: true, marks: Marks::AsWritten, issuer: None }
    }
}

/// What an encoder keeps of a target.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model, if one is named.
    pub model: Option<String>,
    /// The most tokens that the answer may have, if the caller says.
    pub max_tokens: Option<u64>,
    /// What surrounds the messages.
    pub context: Context,
    /// Whether a trailing assistant message gets a closing user message.
    pub closes: bool,
    /// What becomes of cache marks.
    pub marks: Marks,
    /// Who answers, if that is known.
    pub issuer: Option<Origin>,
    /// Whether reasoning goes out at all. Some services refuse the fields that they issue themselves.
    pub replays_reasoning: bool,
    /// The model that the context names.
    source_model: Option<String>,
}

/// What reasoning is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bond {
    /// To someone else, or to something that is not known: it does not go out.
    Elsewhere,
    /// To everything before it, which has this hash.
    Prefix(Text),
    /// To who issued it, who is the one that answers.
    Issuer,
    /// To what it was read with: it goes out as long as nothing before it was changed.
    Source,
}

impl Settings {
    /// What a target says.
    #[must_use]
    pub fn of(target: &Target<'_>) -> Arc<Self> {
        Arc::new(Self {
            model: target.model.map(str::to_owned),
            max_tokens: target.max_tokens,
            context: target.context.clone(),
            closes: target.closes,
            marks: target.marks,
            issuer: target.issuer.cloned(),
            replays_reasoning: true,
            source_model: target.context.model(),
        })
    }

    /// Whether reasoning that the source carries was issued where the request goes.
    #[must_use]
    pub fn keeps_reasoning_of(&self, dialect: Dialect) -> bool {
        let same_model = match (&self.model, &self.source_model) {
            (Some(target), Some(source)) => target == source,
            _ => true,
        };
        self.context.dialect == Some(dialect) && same_model
    }

    /// What this reasoning is bound to, in a request of that dialect.
    #[must_use]
    pub fn bond(&self, reasoning: &Reasoning, dialect: Dialect) -> Bond {
        let origin = &reasoning.origin;
        let here = self.issuer.as_ref();
        let by_its_model = self.is_by_its_model(origin);
        let spoken_here = origin.dialect.as_deref() == Some(dialect.name());
        // What is known of both sides is the same.
        let same = |theirs: &Option<Text>, ours: fn(&Origin) -> &Option<Text>| {
            here.is_none_or(|here| theirs == ours(here))
        };
        let same_provider = same(&origin.provider, |here| &here.provider);
        match &origin.prefix {
            _ if origin.incomplete || !self.replays_reasoning => Bond::Elsewhere,
            Some(prefix) if reasoning.sealed => {
                let issued_here = same_provider
                    && same(&origin.endpoint, |here| &here.endpoint)
                    && same(&origin.account, |here| &here.account)
                    && same(&origin.model, |here| &here.model)
                    && same(&origin.dialect, |here| &here.dialect);
                let issued_here = issued_here && spoken_here && by_its_model;
                if issued_here { Bond::Prefix(prefix.clone()) } else { Bond::Elsewhere }
            }
            // It was recorded with who said it.
            _ if origin.provider.is_some() && !reasoning.sealed => {
                let ours = spoken_here && by_its_model && same_provider;
                if ours { Bond::Issuer } else { Bond::Elsewhere }
            }
            _ if !by_its_model || (origin.provider.is_some() && !same_provider) => Bond::Elsewhere,
            _ => Bond::Source,
        }
    }

    /// Whether something came from the model that the request goes to. One conversation may have used several.
    fn is_by_its_model(&self, origin: &Origin) -> bool {
        let Some(model) = &origin.model else { return true };
        let issuer = self.issuer.as_ref().and_then(|issuer| issuer.model.as_deref());
        let here = issuer.or(self.model.as_deref()).or(self.source_model.as_deref());
        here.is_none_or(|here| here == model.as_str())
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

/// The settings of a request that only the caller can choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice<'a> {
    /// The model that is to answer.
    pub model: Option<&'a str>,
    /// The most tokens that the answer may have.
    pub max_tokens: Option<u64>,
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
    convert_with(session, dialect, Choice { model, max_tokens: None }, on_broken)
}

/// The same as [`convert()`], with every setting that the caller can choose.
///
/// # Errors
/// If the setting refuses a broken conversation, or the provider's size limits do.
pub fn convert_with(
    session: &Session,
    dialect: Dialect,
    Choice { model, max_tokens }: Choice<'_>,
    on_broken: OnBroken,
) -> Result<Converted, ConvertError> {
    repaired(session, on_broken, |view| {
        let target = Target { model, max_tokens, ..Target::of(&session.context) };
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
