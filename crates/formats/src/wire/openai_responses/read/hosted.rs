//! Items of the Responses API that are neither messages nor calls which a client answers: mostly tools that the provider
//! runs itself. They have no counterpart in the model and go back as they came, if they have what the API asks of them.
//!
//! The list is that of the API's own types. An item that is not in it is unknown, and the API refuses it.

use rejoin_record::json::{Kind, Value};

/// Who writes an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The provider, as a part of an answer: it may follow reasoning.
    Provider,
    /// The client, as a user.
    User,
    /// The client, as whoever sets the conversation up.
    Developer,
}

/// One kind of item.
#[derive(Debug)]
pub struct Hosted {
    kind: &'static str,
    /// Who writes it.
    pub side: Side,
    /// Whether the API wants the id that it gave the item.
    pub needs_id: bool,
    fields: &'static [(&'static str, Form)],
}

/// What a field has to be.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Texts,
    Object,
    Objects,
    Flag,
    Role(&'static str),
    /// One of the words for how far an item came.
    Status,
    /// The field may also be `null`, or not be there.
    Maybe(&'static Form),
}

const MAYBE_TEXT: Form = Form::Maybe(&Form::Text);
const MAYBE_OBJECTS: Form = Form::Maybe(&Form::Objects);

const ALL: &[Hosted] = &[
    Hosted::by(
        Side::Provider,
        "web_search_call",
        &[("action", Form::Maybe(&Form::Object)), ("status", MAYBE_TEXT)],
    ),
    Hosted::by(
        Side::Provider,
        "file_search_call",
        &[("queries", Form::Texts), ("status", Form::Text), ("results", MAYBE_OBJECTS)],
    )
    .with_id(),
    Hosted::by(
        Side::Provider,
        "code_interpreter_call",
        &[
            ("container_id", Form::Text),
            ("status", Form::Text),
            ("code", MAYBE_TEXT),
            ("outputs", MAYBE_OBJECTS),
        ],
    )
    .with_id(),
    Hosted::by(Side::Provider, "image_generation_call", &[("status", Form::Text), ("result", MAYBE_TEXT)])
        .with_id(),
    Hosted::by(Side::Provider, "mcp_list_tools", &[("server_label", Form::Text), ("tools", Form::Objects)])
        .with_id(),
    Hosted::by(
        Side::Provider,
        "mcp_call",
        &[
            ("server_label", Form::Text),
            ("name", Form::Text),
            ("arguments", Form::Text),
            ("output", MAYBE_TEXT),
        ],
    )
    .with_id(),
    Hosted::by(
        Side::Provider,
        "mcp_approval_request",
        &[("server_label", Form::Text), ("name", Form::Text), ("arguments", Form::Text)],
    )
    .with_id(),
    Hosted::by(
        Side::User,
        "mcp_approval_response",
        &[("approval_request_id", Form::Text), ("approve", Form::Flag), ("reason", MAYBE_TEXT)],
    ),
    // With an id to answer, these two are a call and its result.
    Hosted::by(
        Side::Provider,
        "tool_search_call",
        &[("arguments", Form::Object), ("status", Form::Maybe(&Form::Status))],
    ),
    Hosted::by(
        Side::Provider,
        "tool_search_output",
        &[("tools", Form::Objects), ("status", Form::Maybe(&Form::Status))],
    ),
    Hosted::by(
        Side::Provider,
        "program",
        &[("call_id", Form::Text), ("code", Form::Text), ("fingerprint", Form::Text)],
    )
    .with_id(),
    Hosted::by(
        Side::Provider,
        "program_output",
        &[("call_id", Form::Text), ("result", Form::Text), ("status", Form::Text)],
    )
    .with_id(),
    Hosted::by(Side::Provider, "compaction", &[("encrypted_content", Form::Text)]),
    // Names that the same item has, or had, where Codex sends it.
    Hosted::by(Side::Provider, "compaction_summary", &[("encrypted_content", Form::Text)]),
    Hosted::by(Side::Provider, "context_compaction", &[("encrypted_content", MAYBE_TEXT)]),
    Hosted::by(
        Side::Developer,
        "additional_tools",
        &[("role", Form::Role("developer")), ("tools", Form::Objects)],
    ),
    Hosted::by(
        Side::Developer,
        "configuration_update",
        &[("reasoning", Form::Maybe(&Form::Object)), ("text", Form::Maybe(&Form::Object))],
    ),
];

impl Hosted {
    const fn by(side: Side, kind: &'static str, fields: &'static [(&'static str, Form)]) -> Self {
        Self { kind, side, needs_id: false, fields }
    }

    const fn with_id(self) -> Self {
        Self { needs_id: true, ..self }
    }

    /// What is known of items of this type, if anything is.
    #[must_use]
    pub fn of(kind: &str) -> Option<&'static Self> {
        ALL.iter().find(|hosted| hosted.kind == kind)
    }

    /// Whether an item has what the API asks of it, its id apart.
    pub(super) fn fits(&self, item: Value<'_>) -> bool {
        self.fields.iter().all(|(name, form)| form.fits(item.get(name)))
    }
}

impl Form {
    fn fits(self, value: Option<Value<'_>>) -> bool {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return matches!(self, Self::Maybe(_));
        };
        let every = |kind| value.kind() == Kind::Array && value.items().all(|item| item.kind() == kind);
        match self {
            Self::Text => value.kind() == Kind::String,
            Self::Texts => every(Kind::String),
            Self::Object => value.kind() == Kind::Object,
            Self::Objects => every(Kind::Object),
            Self::Flag => value.kind() == Kind::Bool,
            Self::Role(role) => value.is_str(role),
            Self::Status => ["in_progress", "completed", "incomplete"].iter().any(|word| value.is_str(word)),
            Self::Maybe(form) => form.fits(Some(value)),
        }
    }
}
