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
    Hosted {
        kind: "web_search_call",
        side: Side::Provider,
        needs_id: false,
        fields: &[("action", Form::Maybe(&Form::Object)), ("status", MAYBE_TEXT)],
    },
    Hosted {
        kind: "file_search_call",
        side: Side::Provider,
        needs_id: true,
        fields: &[("queries", Form::Texts), ("status", Form::Text), ("results", MAYBE_OBJECTS)],
    },
    Hosted {
        kind: "code_interpreter_call",
        side: Side::Provider,
        needs_id: true,
        fields: &[
            ("container_id", Form::Text),
            ("status", Form::Text),
            ("code", MAYBE_TEXT),
            ("outputs", MAYBE_OBJECTS),
        ],
    },
    Hosted {
        kind: "image_generation_call",
        side: Side::Provider,
        needs_id: true,
        fields: &[("status", Form::Text), ("result", MAYBE_TEXT)],
    },
    Hosted {
        kind: "mcp_list_tools",
        side: Side::Provider,
        needs_id: true,
        fields: &[("server_label", Form::Text), ("tools", Form::Objects)],
    },
    Hosted {
        kind: "mcp_call",
        side: Side::Provider,
        needs_id: true,
        fields: &[
            ("server_label", Form::Text),
            ("name", Form::Text),
            ("arguments", Form::Text),
            ("output", MAYBE_TEXT),
        ],
    },
    Hosted {
        kind: "mcp_approval_request",
        side: Side::Provider,
        needs_id: true,
        fields: &[("server_label", Form::Text), ("name", Form::Text), ("arguments", Form::Text)],
    },
    Hosted {
        kind: "mcp_approval_response",
        side: Side::User,
        needs_id: false,
        fields: &[("approval_request_id", Form::Text), ("approve", Form::Flag), ("reason", MAYBE_TEXT)],
    },
    // With an id to answer, these two are a call and its result.
    Hosted {
        kind: "tool_search_call",
        side: Side::Provider,
        needs_id: false,
        fields: &[("arguments", Form::Object), ("status", Form::Maybe(&Form::Status))],
    },
    Hosted {
        kind: "tool_search_output",
        side: Side::Provider,
        needs_id: false,
        fields: &[("tools", Form::Objects), ("status", Form::Maybe(&Form::Status))],
    },
    Hosted {
        kind: "program",
        side: Side::Provider,
        needs_id: true,
        fields: &[("call_id", Form::Text), ("code", Form::Text), ("fingerprint", Form::Text)],
    },
    Hosted {
        kind: "program_output",
        side: Side::Provider,
        needs_id: true,
        fields: &[("call_id", Form::Text), ("result", Form::Text), ("status", Form::Text)],
    },
    Hosted {
        kind: "compaction",
        side: Side::Provider,
        needs_id: false,
        fields: &[("encrypted_content", Form::Text)],
    },
    // Names that the same item has, or had, where Codex sends it.
    Hosted {
        kind: "compaction_summary",
        side: Side::Provider,
        needs_id: false,
        fields: &[("encrypted_content", Form::Text)],
    },
    Hosted {
        kind: "context_compaction",
        side: Side::Provider,
        needs_id: false,
        fields: &[("encrypted_content", MAYBE_TEXT)],
    },
    Hosted {
        kind: "additional_tools",
        side: Side::Developer,
        needs_id: false,
        fields: &[("role", Form::Role("developer")), ("tools", Form::Objects)],
    },
    Hosted {
        kind: "configuration_update",
        side: Side::Developer,
        needs_id: false,
        fields: &[("reasoning", Form::Maybe(&Form::Object)), ("text", Form::Maybe(&Form::Object))],
    },
];

impl Hosted {
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
