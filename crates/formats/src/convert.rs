//! From a session to a request body: repair, then encode.

use rejoin_record::{Origin, Reasoning, Text};
use rejoin_view::{Finding, OnBroken, SoundView, UnsoundHistory, repair_or_refuse};

use crate::{
    context::Context,
    session::Session,
    wire::{TooLarge, registry::Dialect},
};

/// Where a request goes, and what it is written from besides the view.
#[derive(Debug, Clone)]
pub struct Target {
    /// The model, if one is named.
    pub model: Option<String>,
    /// The most tokens that the answer may have; `None` leaves the limit of the context.
    pub max_tokens: Option<u64>,
    /// The fields around the messages.
    pub context: Context,
    /// Whether a trailing assistant message gets the closing user message that some dialects demand. A session file does
    /// without it, since the user speaks next.
    pub closes: bool,
    /// What happens to cache marks.
    pub marks: CacheMarks,
    /// The issuer of the answer, if it is known: reasoning that was issued elsewhere is left out.
    pub issuer: Option<Origin>,
    /// Whether reasoning is sent at all. Some services refuse the very fields that they issue.
    pub replays_reasoning: bool,
}

/// What happens to cache marks, where a dialect has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMarks {
    /// Those of the source stay, up to the provider's limit.
    #[default]
    AsWritten,
    /// All of them are left out.
    LeftOut,
    /// They are placed at the end of what precedes the messages, and of the last two user messages.
    Placed,
}

/// What reasoning is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasoningBond {
    /// Another issuer, or an unknown one: the reasoning is left out.
    Elsewhere,
    /// Everything before it, which has this hash.
    Prefix(Text),
    /// Its issuer, which is the target.
    Issuer,
    /// The source it was read from: it is sent as long as nothing before it was changed.
    Source,
}

impl Target {
    /// A request with the fields of a context, to the model that they name.
    pub fn of(context: &Context) -> Self {
        let context = context.clone();
        let (closes, marks, replays_reasoning) = (true, CacheMarks::AsWritten, true);
        Self { model: None, max_tokens: None, context, closes, marks, issuer: None, replays_reasoning }
    }

    /// Whether the reasoning in the source was issued by the target.
    pub fn keeps_reasoning_of(&self, dialect: Dialect) -> bool {
        let same_model = match (&self.model, self.context.model()) {
            (Some(target), Some(source)) => *target == source,
            _ => true,
        };
        self.context.dialect == Some(dialect) && same_model
    }

    /// What a piece of reasoning is bound to in a request of this dialect.
    pub fn bond(&self, reasoning: &Reasoning, dialect: Dialect) -> ReasoningBond {
        let origin = &reasoning.origin;
        let here = self.issuer.as_ref();
        let by_its_model = self.is_by_its_model(origin);
        let spoken_here = origin.dialect.as_deref() == Some(dialect.name());
        // An unknown issuer is no reason to leave reasoning out.
        let same = |theirs: &Option<Text>, ours: fn(&Origin) -> &Option<Text>| {
            here.is_none_or(|here| theirs == ours(here))
        };
        let same_provider = same(&origin.provider, |here| &here.provider);
        match &origin.prefix {
            _ if origin.incomplete || !self.replays_reasoning => ReasoningBond::Elsewhere,
            Some(prefix) if reasoning.sealed => {
                let issued_here = same_provider
                    && same(&origin.endpoint, |here| &here.endpoint)
                    && same(&origin.account, |here| &here.account)
                    && same(&origin.model, |here| &here.model)
                    && same(&origin.dialect, |here| &here.dialect);
                let issued_here = issued_here && spoken_here && by_its_model;
                if issued_here { ReasoningBond::Prefix(prefix.clone()) } else { ReasoningBond::Elsewhere }
            }
            // It was recorded together with its issuer.
            _ if origin.provider.is_some() && !reasoning.sealed => {
                let ours = spoken_here && by_its_model && same_provider;
                if ours { ReasoningBond::Issuer } else { ReasoningBond::Elsewhere }
            }
            _ if !by_its_model || (origin.provider.is_some() && !same_provider) => ReasoningBond::Elsewhere,
            _ => ReasoningBond::Source,
        }
    }

    /// Whether the target's model issued something. One conversation may have used several models.
    fn is_by_its_model(&self, origin: &Origin) -> bool {
        let Some(model) = &origin.model else { return true };
        let issuer = self.issuer.as_ref().and_then(|issuer| issuer.model.as_deref());
        match issuer.or(self.model.as_deref()) {
            Some(here) => here == model.as_str(),
            None => self.context.model().is_none_or(|here| here == model.as_str()),
        }
    }
}

/// A request body, and the findings on the way to it.
#[derive(Debug, Clone)]
pub struct Converted {
    /// The body, JSON.
    pub body: String,
    /// Findings of reading, repair and encoding, at source positions.
    pub findings: Vec<Finding>,
}

/// Why a session could not be converted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// The conversation is broken, and the caller does not want it repaired.
    #[error("the conversation is broken, and repairing it is turned off")]
    Refused(Vec<Finding>),
    /// The provider takes nothing this large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// The settings of a request that the caller chooses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice<'a> {
    /// The model to send the request to.
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

/// Does the same as [`convert()`] with every setting that the caller can choose.
///
/// # Errors
/// If the setting refuses a broken conversation, or the provider's size limits do.
pub fn convert_with(
    session: &Session,
    dialect: Dialect,
    Choice { model, max_tokens }: Choice<'_>,
    on_broken: OnBroken,
) -> Result<Converted, ConvertError> {
    let (body, findings) = repaired(session, on_broken, |view| {
        let model = model.map(str::to_owned);
        let target = Target { model, max_tokens, ..Target::of(&session.context) };
        let encoded = dialect.wire().encode(view, &target)?;
        Ok((encoded.body, encoded.findings))
    })?;
    Ok(Converted { body, findings })
}

/// Repairs a session and passes the view to `make`. Findings get their places in the source.
pub(crate) fn repaired<T>(
    session: &Session,
    on_broken: OnBroken,
    make: impl FnOnce(&SoundView) -> Result<(T, Vec<Finding>), TooLarge>,
) -> Result<(T, Vec<Finding>), ConvertError> {
    let refused = |findings: Vec<Finding>| {
        let found = findings.into_iter().map(|finding| session.place(finding));
        ConvertError::Refused(session.findings.iter().cloned().chain(found).collect())
    };
    let repaired = repair_or_refuse(&session.history(), on_broken)
        .map_err(|UnsoundHistory { findings }| refused(findings))?;
    if on_broken == OnBroken::Refuse && session.findings.iter().any(Finding::is_problem) {
        return Err(refused(repaired.findings));
    }
    let (made, notes) = make(&repaired.view).map_err(|mut error| {
        error.at = session.source_position(error.at);
        error
    })?;
    let mut findings = session.findings.clone();
    findings.extend(repaired.findings.into_iter().chain(notes).map(|finding| session.place(finding)));
    Ok((made, findings))
}
