//! What a source asks for: the command line, the environment, the settings, or the last turn of a conversation. What becomes of
//! it is an [`Endpoint`](crate::provider::Endpoint).

use rejoin_record::{
    Content, Entry, Kind, Role,
    content::{Context, Metadata},
    json::Doc,
};

use crate::conversation::Conversation;

/// The provider, model and address that one source asks for. A field that the source does not mention is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderChoice {
    /// The provider: a name or an alias in the registry, or any name together with an address. A conversation may name one that
    /// this version does not know.
    pub provider: Option<String>,
    /// The API of the provider, such as `chat` or `responses`.
    pub api: Option<String>,
    /// The model; `None` is the provider's default.
    pub model: Option<String>,
    /// The provider's base address; `None` is its own. A conversation may come from another machine, so a key is sent to an
    /// address that only the conversation names only if the user has named it on this machine, too.
    pub base_url: Option<String>,
    /// How it is to answer.
    pub answer: AnswerSettings,
}

/// How a model is to answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerSettings {
    /// The most tokens that an answer may have.
    pub max_tokens: Option<u64>,
    /// The reasoning effort; `None` leaves it to the provider.
    pub effort: Option<Effort>,
}

impl AnswerSettings {
    /// The same, with the other's values where this one has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { max_tokens: self.max_tokens.or(other.max_tokens), effort: self.effort.or(other.effort) }
    }
}

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

impl ProviderChoice {
    /// Reads what the last answered turn of a conversation recorded: the newest context that a model answered in, else the newest
    /// context. So a mistyped name that no model answered to does not stick.
    ///
    /// The header is written before anything is said. It counts only if there is an answer and no context, so that settings made
    /// after `rejoin new` count.
    pub fn of(conversation: &Conversation) -> Self {
        let (context, answered) = last_context(conversation.entries());
        if let Some(context) = context {
            return Self::in_context(&context).unwrap_or_default();
        }
        // A session of another agent names providers in that agent's words.
        let header = header(conversation).filter(|header| answered && header.format.is_none());
        header.map_or_else(Self::default, |header| Self {
            provider: header.provider.map(|provider| provider.to_string()),
            model: header.model.map(|model| model.to_string()),
            ..Self::default()
        })
    }

    /// What a context says about who answers; none if it was imported with a request and says nothing.
    pub fn in_context(context: &Context) -> Option<Self> {
        let doc = Doc::parse(context.target.as_ref()?.as_str()).ok()?;
        let root = doc.root()?;
        let field = |name: &str| Some(root.given(name)?.as_str()?.into_owned());
        let provider = match root.get("provider")? {
            none if none.is_null() => None,
            named => Some(named.as_str()?.into_owned()),
        };
        let api = field("dialect").and_then(|dialect| {
            crate::provider::registry::api_in(dialect.parse().ok()?).map(|api| api.name.to_owned())
        });
        Some(Self { provider, api, model: field("model"), base_url: field("base_url"), ..Self::default() })
    }
}

impl Conversation {
    /// The system prompt of the last answered turn.
    pub fn recorded_system(&self) -> Option<String> {
        last_context(self.entries()).0?.system.map(|system| system.to_string())
    }

    /// The working directory that the conversation was begun in.
    pub fn directory(&self) -> Option<String> {
        header(self)?.directory.map(|directory| directory.to_string())
    }
}

fn header(conversation: &Conversation) -> Option<Metadata> {
    let header = conversation.entries().iter().find(|entry| entry.envelope().kind == Kind::Header)?;
    match Content::of(header) {
        Content::Header(header) => Some(header),
        _ => None,
    }
}

/// The newest context that names a target and that a model answered in, else the newest that names one; and whether a model
/// answered at all.
pub(crate) fn last_context(entries: &[Entry]) -> (Option<Context>, bool) {
    let (mut newest, mut answered) = (None, false);
    for entry in entries.iter().rev() {
        match entry.envelope().kind {
            Kind::Message if !answered => {
                answered = matches!(Content::of(entry), Content::Message(message) if message.role == Role::Assistant);
            }
            Kind::Context => {
                let Content::Context(context) = Content::of(entry) else { continue };
                if ProviderChoice::in_context(&context).is_none() {
                    continue;
                }
                if answered {
                    return (Some(context), true);
                }
                newest = newest.or(Some(context));
            }
            _ => {}
        }
    }
    (newest, answered)
}
