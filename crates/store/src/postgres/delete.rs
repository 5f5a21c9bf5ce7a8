//! Removes a conversation.

use rejoin_record::ConversationId;

use super::{
    append,
    link::{Object, Trouble},
};
use crate::error::StoreError;

/// Removes a conversation.
pub(super) async fn delete(client: &mut Object, id: ConversationId) -> Result<(), Trouble> {
    let name = id.to_string();
    let transaction = client.transaction().await?;
    let removed = transaction.execute("DELETE FROM rejoin.conversation WHERE id = $1", &[&name]).await?;
    if removed == 0 {
        return Err(StoreError::NotFound(id).into());
    }
    for statement in [
        "DELETE FROM rejoin.entry WHERE conversation = $1",
        "DELETE FROM rejoin.checkpoint WHERE conversation = $1",
        "DELETE FROM rejoin.summary WHERE id = $1",
        "DELETE FROM rejoin.said WHERE conversation = $1",
        "DELETE FROM rejoin.called WHERE conversation = $1",
        "DELETE FROM rejoin.stale WHERE id = $1",
    ] {
        transaction.execute(statement, &[&name]).await?;
    }
    let uncount = "UPDATE rejoin.total SET conversations = conversations - 1 WHERE part = $1";
    transaction.execute(uncount, &[&append::part(id)]).await?;
    transaction.commit().await?;
    Ok(())
}
