//! Writes turns to a file of turns beside the store, and imports such a file.

use std::sync::Arc;

use rejoin_formats::{Context, Target, sessions::turns, wire::stream::Usage};
use rejoin_record::{
    ConversationId, Message, Raw, Timestamp,
    json::{Doc, Value},
};
use rejoin_store::Store;
use rejoin_view::{History, OnBroken, repair};

use super::ManagerError;
use crate::{
    clock::Clock,
    compat::{RolloutError, RolloutLine, RolloutRecorder, RolloutTurn, TurnMetadata},
    provider::Endpoint,
    provider_choice::ProviderChoice,
    writer::Writer,
};

/// The file to which the turns of one conversation are appended.
#[derive(Debug, Clone)]
pub(super) struct TurnFile {
    recorder: RolloutRecorder,
    name: String,
}

impl TurnFile {
    pub(super) fn new(recorder: RolloutRecorder, name: String) -> Self {
        Self { recorder, name }
    }

    /// Appends the messages of a turn, whatever its outcome. Returns the warning to show if that fails.
    pub(super) fn append(
        &self,
        messages: &[Arc<Message>],
        endpoint: &Endpoint,
        usage: Usage,
        now: Timestamp,
    ) -> Option<String> {
        let items = match items(messages) {
            Ok(items) if items.is_empty() => return None,
            Ok(items) => items,
            Err(why) => return Some(format!("Failed to save turn: {why}")),
        };
        let tokens = usage.input.saturating_add(usage.output);
        let metadata = TurnMetadata {
            provider: Some(endpoint.provider.clone()),
            model: Some(endpoint.model.clone()),
            tokens: (tokens > 0).then_some(tokens),
        };
        let turn = RolloutTurn { timestamp: Some(now), items, metadata: Some(metadata) };
        let failed = self.recorder.append_turn(&self.name, &turn).err()?;
        tracing::warn!("Failed to save turn: {failed}");
        Some(format!("Failed to save turn: {failed}"))
    }
}

/// Messages as the items of a turn.
fn items(messages: &[Arc<Message>]) -> Result<Vec<Raw>, String> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let view = repair(&History::of(messages.iter().cloned()), OnBroken::Keep).view;
    let context = Context::default();
    let target = Target { closes: false, ..Target::of(&context) };
    let encoded = turns::DIALECT.wire().encode(&view, &target).map_err(|error| error.to_string())?;
    let doc = Doc::parse(&encoded.body).map_err(|error| error.reason().to_owned())?;
    let input = doc.root().and_then(|root| root.get("input"));
    Ok(input.into_iter().flat_map(Value::items).map(|item| Raw::new(item.raw())).collect())
}

/// Imports a file of turns into the store. Returns the conversation and the provider of its last answer; `None` if the file has no
/// turn.
pub(super) fn import(
    recorder: &RolloutRecorder,
    id: &str,
    store: &dyn Store,
    clock: &dyn Clock,
) -> Result<Option<(ConversationId, ProviderChoice)>, ManagerError> {
    let session = match recorder.session(id) {
        Err(RolloutError::EmptyRollout { .. }) => return Ok(None),
        session => session.map_err(ManagerError::of_rollout)?,
    };
    let writer = Writer { store, clock, command: super::COMMAND };
    let imported = writer.import(&session).map_err(ManagerError::Engine)?;
    let mut wanted = ProviderChoice::default();
    for line in recorder.recover_rollout(id).map_err(ManagerError::of_rollout)?.lines {
        if let RolloutLine::Turn(RolloutTurn { metadata: Some(metadata), .. }) = line {
            wanted.provider = metadata.provider.or(wanted.provider);
            wanted.model = metadata.model.or(wanted.model);
        }
    }
    Ok(Some((imported.id, wanted)))
}
