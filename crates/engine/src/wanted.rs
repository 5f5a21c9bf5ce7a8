//! The provider and the model that a conversation was last talked in with, so that the next turn asks the same ones.

use rejoin_formats::Dialect;
use rejoin_record::{Content, Kind, Role, Text, content, json::Doc};

use crate::{conversation::Conversation, provider::registry};

/// What the last turn of a conversation recorded about who answers. A conversation without a turn says nothing, so that settings
/// made after `rejoin new` count. How this is weighed against flags and settings is in `provider/decide.rs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The provider's name, as it was recorded. This version may not know it.
    pub provider: Option<String>,
    /// The name of the dialect that requests were written in; none for a provider that reads the view itself, such as
    /// `offline`.
    pub dialect: Option<String>,
    /// The provider's model.
    pub model: Option<String>,
    /// The provider's address, if it was not the usual one. A conversation may come from elsewhere, so a key is only sent there if
    /// the address was chosen on this machine.
    pub base_url: Option<String>,
    /// Instructions to the model.
    pub system: Option<String>,
    /// The folder that it was begun in.
    pub directory: Option<String>,
}

impl Wanted {
    /// Reads it from the newest context that a model answered in, else from the newest context. The header, which is written
    /// before anything is said, counts only if there is an answer and no context. So a name that was mistyped once, and that no
    /// model answered to, does not stick.
    #[must_use]
    pub fn of(conversation: &Conversation) -> Self {
        let mut header = Self::default();
        let (mut newest, mut found): (Option<Self>, Option<Self>) = (None, None);
        let mut answered = false;
        for entry in conversation.entries().iter().rev() {
            match entry.envelope().kind {
                Kind::Message if !answered => {
                    answered = matches!(Content::of(entry), Content::Message(message) if message.role == Role::Assistant);
                }
                Kind::Context if found.is_none() => {
                    let Content::Context(context) = Content::of(entry) else { continue };
                    // One that was imported says nothing of who answered.
                    let Some(recorded) = Self::in_context(&context) else { continue };
                    found = found.or_else(|| answered.then(|| recorded.clone()));
                    newest = newest.or(Some(recorded));
                }
                Kind::Header => {
                    let Content::Header(metadata) = Content::of(entry) else { continue };
                    let text = |text: Option<Text>| text.map(|text| text.to_string());
                    header.directory = text(metadata.directory);
                    // Another tool's session went to whomever it names in that tool's words.
                    if metadata.format.is_none() {
                        (header.provider, header.model) = (text(metadata.provider), text(metadata.model));
                    }
                }
                _ => {}
            }
        }
        let directory = header.directory.take();
        let recorded = found.or(newest).or(answered.then_some(header)).unwrap_or_default();
        Self { directory, ..recorded }
    }

    fn in_context(context: &content::Context) -> Option<Self> {
        let doc = Doc::parse(context.target.as_ref()?.as_str()).ok()?;
        let root = doc.root()?;
        let field = |name: &str| Some(root.given(name)?.as_str()?.into_owned());
        let provider = match root.get("provider")? {
            none if none.is_null() => None,
            named => Some(named.as_str()?.into_owned()),
        };
        Some(Self {
            provider,
            dialect: field("dialect"),
            model: field("model"),
            base_url: field("base_url"),
            system: context.system.as_ref().map(ToString::to_string),
            directory: None,
        })
    }

    /// The API that the dialect belongs to, where a provider has several.
    #[must_use]
    pub fn api(&self) -> Option<&'static str> {
        let dialect: Dialect = self.dialect.as_deref()?.parse().ok()?;
        let mut apis =
            registry::all().filter(|service| service.apis.len() > 1).flat_map(|service| service.apis);
        apis.find(|api| api.dialect == dialect).map(|api| api.name)
    }
}
