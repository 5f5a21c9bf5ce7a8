//! The provider that one source asks for: the command line, the environment, the settings, or the last turn of a conversation.
//! `provider/decide.rs` weighs the sources; the result is an [`Endpoint`](crate::provider::Endpoint).

pub use rejoin_formats::wire::settings::Effort;
use rejoin_record::{
    Content, Entry, Kind, Role, Text,
    content::{Metadata, RecordedContext},
    json::Doc,
};

use crate::{conversation::Conversation, turn::SystemParts};

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
    /// The provider's base address; `None` is its own. A conversation may come from another machine. So if only the conversation
    /// names an address, a key is sent there only if the user has also named it on this machine.
    pub base_url: Option<String>,
    /// Settings for the provider's answers.
    pub answer: AnswerSettings,
}

/// Settings for a model's answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerSettings {
    /// The most tokens that an answer may have.
    pub max_tokens: Option<u64>,
    /// The reasoning effort; `None` leaves it to the provider.
    pub effort: Option<Effort>,
}

impl AnswerSettings {
    /// These settings, with missing values filled in from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { max_tokens: self.max_tokens.or(other.max_tokens), effort: self.effort.or(other.effort) }
    }
}

impl ProviderChoice {
    /// The choice that the last answered turn of a conversation recorded: that of the newest context in which a model answered,
    /// else of the newest context. So a mistyped name to which no model answered is not kept.
    ///
    /// The header is written before the first turn. It counts only if there is an answer and no context, so that settings made
    /// after `rejoin new` apply.
    pub fn of(conversation: &Conversation) -> Self {
        let (context, answered) = last_context(conversation.entries());
        if let Some(context) = context {
            return Self::in_context(&context).unwrap_or_default();
        }
        // The header of an imported session names providers in the other agent's words.
        let header = header(conversation).filter(|header| answered && header.format.is_none());
        header.map_or_else(Self::default, |header| Self {
            provider: header.provider.map(|provider| provider.to_string()),
            model: header.model.map(|model| model.to_string()),
            ..Self::default()
        })
    }

    /// The choice in a context; `None` for the context of an imported request, if it names neither provider nor model.
    pub fn in_context(context: &RecordedContext) -> Option<Self> {
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

    /// The parts that this system prompt was composed of; `None` if they were not recorded.
    pub fn recorded_parts(&self) -> Option<SystemParts> {
        let context = last_context(self.entries()).0?;
        let text = |text: Option<Text>| text.map(|text| text.to_string());
        let (own, project) = (text(context.own_instructions), text(context.project_instructions));
        (own.is_some() || project.is_some()).then_some(SystemParts { own, project })
    }

    /// The working directory in which the conversation was started.
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

/// The newest context that names a target and in which a model answered, else the newest one that names a target; and whether a
/// model answered at all.
pub(crate) fn last_context(entries: &[Entry]) -> (Option<RecordedContext>, bool) {
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
