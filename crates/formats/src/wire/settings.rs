//! What a request asks for besides its messages, instructions and tools: a stream, the longest answer, reasoning. Each dialect's
//! folder spells it in a `settings.rs`.

/// How much a model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// As usual.
    Medium,
    /// As much as it can.
    High,
}

impl Effort {
    /// The word that services use for this effort.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The number of reasoning tokens for this effort, for services that take a budget.
    pub(crate) fn budget(self) -> u64 {
        match self {
            Self::Low => 4_096,
            Self::Medium => 12_288,
            Self::High => 24_576,
        }
    }
}

/// How a model is asked to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// The model does not reason.
    None,
    /// With a budget in tokens.
    Budget,
    /// As much as the model decides, guided by an effort.
    Adaptive,
}

/// How a service differs from others of its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// The field of Chat Completions for the longest answer.
    pub max_tokens: &'static str,
    /// Whether to ask for token counts in a stream of Chat Completions. Some services count anyway, and some refuse the field.
    pub stream_options: bool,
    /// Whether the service accepts the reasoning that it issued, when it is sent back.
    pub replays_reasoning: bool,
    /// Whether Chat Completions takes `reasoning_effort` here.
    pub effort: bool,
    /// Whether Chat Completions has a `thinking` field here. Once it is on, the service requires its reasoning back (DS-01).
    pub thinking_field: bool,
}

impl Quirks {
    /// Those of most services.
    pub const COMMON: Self = Self {
        max_tokens: "max_tokens",
        stream_options: true,
        replays_reasoning: true,
        effort: true,
        thinking_field: false,
    };
}

/// The most tokens that an answer may have.
#[derive(Debug, Clone, Copy)]
pub enum AnswerLimit {
    /// The user set it.
    Set(u64),
    /// The user left it to the provider. A dialect that requires a limit asks for this many.
    Usual(u64),
}

impl AnswerLimit {
    pub(crate) fn set(self) -> Option<u64> {
        if let Self::Set(tokens) = self { Some(tokens) } else { None }
    }

    pub(crate) fn tokens(self) -> u64 {
        let (Self::Set(tokens) | Self::Usual(tokens)) = self;
        tokens
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub struct RequestSettings {
    /// The longest answer.
    pub limit: AnswerLimit,
    /// How the service differs from others.
    pub quirks: Quirks,
    /// The reasoning effort; `None` leaves it to the provider. A model that does not reason ignores it.
    pub effort: Option<Effort>,
    /// How the model reasons, if that is known.
    pub thinking: Option<Thinking>,
    /// Whether a subscription pays for the request. OpenAI's service for its own programs then requires instructions and refuses
    /// limits.
    pub is_subscription: bool,
}

impl RequestSettings {
    /// The effort to ask for: none from a model that does not reason.
    pub(crate) fn effort(&self) -> Option<Effort> {
        self.effort.filter(|_| self.thinking != Some(Thinking::None))
    }
}

/// The fields of a request with these settings: names, and values as JSON.
pub type SettingFields = Vec<(&'static str, String)>;
