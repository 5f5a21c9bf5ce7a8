//! Items of the Responses API that are neither messages nor calls which a client answers: mostly tools that the provider
//! runs itself. They have no counterpart in other dialects and are sent back unchanged, if they have the fields that the API
//! demands.
//!
//! The table lists the API's own types; the API refuses any other.

use rejoin_record::json::{Value, ValueKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The provider, as part of an answer; the item may follow reasoning.
    Provider,
    /// The client, as a user.
    User,
    /// The client, as a developer.
    Developer,
}

#[derive(Debug)]
pub struct Hosted {
    kind: &'static str,
    pub side: Side,
    /// What the ids of such items begin with, if the API demands a prefix.
    pub(super) prefix: &'static str,
    /// Whether the API wants the id that it gave the item.
    pub needs_id: bool,
    /// The fields, each with its form; a field with `?` may also be `null` or missing.
    fields: &'static str,
}

const fn hosted(side: Side, kind: &'static str, prefix: &'static str, fields: &'static str) -> Hosted {
    Hosted { kind, side, prefix, needs_id: false, fields }
}

impl Hosted {
    const fn with_id(self) -> Self {
        Self { needs_id: true, ..self }
    }
}

const ALL: &[Hosted] = &[
    hosted(Side::Provider, "web_search_call", "ws_", "action:object? status:text?"),
    hosted(Side::Provider, "file_search_call", "fs_", "queries:texts status:text results:objects?").with_id(),
    hosted(
        Side::Provider,
        "code_interpreter_call",
        "ci_",
        "container_id:text status:text code:text? outputs:objects?",
    )
    .with_id(),
    hosted(Side::Provider, "image_generation_call", "ig_", "status:text result:text?").with_id(),
    hosted(Side::Provider, "mcp_list_tools", "mcpl_", "server_label:text tools:objects").with_id(),
    hosted(Side::Provider, "mcp_call", "mcp_", "server_label:text name:text arguments:text output:text?")
        .with_id(),
    hosted(Side::Provider, "mcp_approval_request", "mcpr_", "server_label:text name:text arguments:text")
        .with_id(),
    hosted(Side::User, "mcp_approval_response", "", "approval_request_id:text approve:flag reason:text?"),
    // With an id to answer, these two are a call and its result.
    hosted(Side::Provider, "tool_search_call", "", "arguments:object status:status?"),
    hosted(Side::Provider, "tool_search_output", "", "tools:objects status:status?"),
    hosted(Side::Provider, "program", "", "call_id:text code:text fingerprint:text").with_id(),
    hosted(Side::Provider, "program_output", "", "call_id:text result:text status:text").with_id(),
    hosted(Side::Provider, "compaction", "", "encrypted_content:text"),
    // Names that the same item has, or had, where Codex sends it.
    hosted(Side::Provider, "compaction_summary", "", "encrypted_content:text"),
    hosted(Side::Provider, "context_compaction", "", "encrypted_content:text?"),
    hosted(Side::Developer, "additional_tools", "", "role:developer tools:objects"),
    hosted(Side::Developer, "configuration_update", "", "reasoning:object? text:object?"),
];

impl Hosted {
    /// The description of items of this type, if the API has it.
    pub fn of(kind: &str) -> Option<&'static Self> {
        ALL.iter().find(|hosted| hosted.kind == kind)
    }

    /// Whether an item has the fields that the API demands, apart from its id.
    pub(super) fn fits(&self, item: Value<'_>) -> bool {
        let mut fields = self.fields.split(' ').filter_map(|field| field.split_once(':'));
        fields.all(|(name, form)| match item.given(name) {
            Some(value) => has_form(value, form.trim_end_matches('?')),
            None => form.ends_with('?'),
        })
    }
}

fn has_form(value: Value<'_>, form: &str) -> bool {
    let every = |kind| value.kind() == ValueKind::Array && value.items().all(|item| item.kind() == kind);
    match form {
        "text" => value.kind() == ValueKind::String,
        "texts" => every(ValueKind::String),
        "object" => value.kind() == ValueKind::Object,
        "objects" => every(ValueKind::Object),
        "flag" => value.kind() == ValueKind::Bool,
        "status" => ["in_progress", "completed", "incomplete"].iter().any(|word| value.is_str(word)),
        word => value.is_str(word),
    }
}
